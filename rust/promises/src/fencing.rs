//! C11: a commit in a consumer group is one of the member's epoch, or of an older one since which the member has held the
//! partition (docs/consumer-protocol.md §11).

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    columns::Row,
    consumers::{About, ConsumerRecord},
    finding::{At, Found},
    holders::Holding,
};

/// Ids of topics by their names, as journals tell them.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct TopicIds(HashMap<Box<str>, Arc<str>>);

impl TopicIds {
    /// A topic is new or has changed.
    pub(crate) fn of_row(&mut self, row: &Row<'_>) {
        if let (Some(name), Some(id)) = (row.topic, row.note) {
            self.0.insert(name.into(), id.into());
        }
    }
}

/// What a member may hold: by its durable records, and by those on their way to the log.
pub(crate) fn states<'a>(
    member: &str,
    durable: Option<&Holding>,
    in_flight: impl Iterator<Item = &'a ConsumerRecord>,
) -> Vec<Holding> {
    let mut states: Vec<Holding> = durable.cloned().into_iter().collect();
    let of_member =
        |record: &&ConsumerRecord| record.about == About::Current && !record.is_tombstone && *record.member == *member;
    states.extend(in_flight.filter(of_member).map(Holding::of_record));
    states
}

/// Returns why a commit has to be refused, and the offset of the record that says so; `None`: it may be accepted, or
/// the log does not tell.
pub(crate) fn unfit(states: &[Holding], rows: &[Row<'_>], topics: &TopicIds) -> Option<(String, i64)> {
    let newest = states.iter().max_by_key(|state| state.epoch)?;
    let sent = rows.first()?.generation?;
    if states.iter().any(|state| state.epoch == sent) {
        return None;
    }
    if sent < 0 || sent > newest.epoch {
        return Some((format!("epoch {sent}, the member's is {}", newest.epoch), newest.offset));
    }
    let fits = |row: &Row<'_>| {
        let Some(topic) = topics.0.get(row.topic.unwrap_or_default()) else { return true };
        let place = (Arc::clone(topic), row.topic_partition.unwrap_or_default());
        states.iter().any(|state| state.held().any(|(held, epoch)| *held == place && *epoch <= sent))
    };
    let stale = rows.iter().filter(|row| row.kind == Some("commit")).find(|row| !fits(row))?;
    let place = format!("{}-{}", stale.topic.unwrap_or_default(), stale.topic_partition.unwrap_or_default());
    Some((format!("{place} with epoch {sent}, the member's is {}", newest.epoch), newest.offset))
}

/// The commit was accepted.
pub(crate) fn of_unfit(at: &At, member: &Arc<str>, unfit: Option<&(String, i64)>, found: &mut Found) {
    if let Some((witness, offset)) = unfit {
        found.push(at.since(*offset, "commit not fenced", vec![Arc::clone(member)], witness.clone()));
    }
}
