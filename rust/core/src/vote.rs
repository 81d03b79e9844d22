//! Chooses the protocol of a generation, and checks which joins a group can accept (docs/protocol.md §4.3, §5.5).

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    group::{Group, Member},
    java_hash::java_hash,
};

/// Whether a member with these protocols may join `group`. An Empty group accepts any non-empty list. Otherwise the
/// type must match, and a protocol must be common to all members. The sender's own old list still counts (row J24).
pub fn acceptable<'a>(group: &Group, protocol_type: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
    if group.state == crate::State::Empty {
        return !protocol_type.is_empty() && names.next().is_some();
    }
    let members = group.joined.len();
    group.protocol_type.as_deref() == Some(protocol_type)
        && names.any(|name| group.support.get(name).copied().unwrap_or(0) as usize == members)
}

/// Returns the protocol with most votes among those that all members list; `None` if there is none.
pub fn select<'a>(support: &BTreeMap<Arc<str>, u32>, members: impl Iterator<Item = &'a Member>) -> Option<Arc<str>> {
    let members: Vec<&Member> = members.collect();
    let common = |name: &str| support.get(name).is_some_and(|count| *count as usize == members.len());
    // In the order of the first vote for each name, which breaks remaining ties.
    let mut ballots: Vec<(&Arc<str>, u32)> = Vec::new();
    for member in &members {
        let choice = member.protocols.iter().find(|protocol| common(&protocol.name))?;
        match ballots.iter_mut().find(|(name, _)| *name == &choice.name) {
            Some((_, votes)) => *votes += 1,
            None => ballots.push((&choice.name, 1)),
        }
    }
    let most = ballots.iter().map(|(_, votes)| *votes).max()?;
    let buckets = bucket_count(ballots.len());
    ballots
        .iter()
        .filter(|(_, votes)| *votes == most)
        .min_by_key(|(name, _)| bucket(name, buckets))
        .map(|(name, _)| Arc::clone(name))
}

/// Returns the bucket of Kafka's hash table of votes. Kafka takes the first winner in bucket order.
fn bucket(name: &str, buckets: u32) -> u32 {
    let hash = java_hash(name).cast_unsigned();
    (hash ^ hash >> 16) & (buckets - 1)
}

/// Returns the size of that table: 16 buckets, doubled while it is more than three quarters full.
fn bucket_count(names: usize) -> u32 {
    let mut buckets = 16;
    while names > buckets as usize / 4 * 3 {
        buckets *= 2;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_bucket_of_a_table_of_sixteen() {
        let buckets = ["sticky", "range", "roundrobin", "cooperative-sticky"].map(|name| bucket(name, 16));
        assert_eq!(buckets, [8, 9, 10, 15]);
    }

    #[test]
    fn the_table_doubles_beyond_three_quarters() {
        assert_eq!([0, 12, 13, 24, 25].map(bucket_count), [16, 16, 32, 32, 64]);
    }
}
