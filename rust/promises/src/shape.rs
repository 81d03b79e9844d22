//! S3, S6, S16: what one record of a group must be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{finding::Found, version::Version};

/// Checks a record that is no tombstone. The first of a group that was a consumer group need not have a leader: it
/// rebalances (docs/departures.md D24).
pub(crate) fn of_version(version: &Version, was_classic: bool, found: &mut Found) {
    let (at, count) = (version.at(), version.count);
    let leads = version.leader.as_ref().is_some_and(|leader| version.members.iter().any(|each| each.name == *leader));
    let may_lack_leader = !was_classic && version.leader.is_none();
    if leads != (count > 0) && !may_lack_leader || (count == 0 && version.leader.is_some()) {
        let members = version.leader.iter().cloned().collect();
        let witness = format!("leader {} of {count} members", version.leader.as_deref().unwrap_or("none"));
        found.push(at.finding("leader not a member", members, witness));
    }
    if count > 0 && !version.has_protocol {
        found.push(at.finding("no protocol", Vec::new(), format!("{count} members and no protocol")));
    }
    let mut instances: BTreeMap<&Arc<str>, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for member in &version.members {
        if let Some(instance) = &member.instance {
            instances.entry(instance).or_default().insert(&member.name);
        }
    }
    for (instance, members) in instances.into_iter().filter(|(_, members)| members.len() > 1) {
        let members = members.into_iter().cloned().collect();
        found.push(at.finding("instance twice", members, format!("instance {instance}")));
    }
}
