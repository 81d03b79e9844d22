//! C1, C5: a partition is held by one member, and nothing is granted to a member that still has something to give up
//! (docs/consumer-protocol.md §6.3, §6.4).

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    consumers::{ConsumerRecord, Held},
    finding::Found,
    owners::named,
    version::TopicPartition,
};

/// What a member holds, as its last record says.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Holding {
    pub epoch: i32,
    assigned: Held,
    pending: Held,
    pub offset: i64,
}

impl Holding {
    pub(crate) fn of_record(record: &ConsumerRecord) -> Holding {
        let ConsumerRecord { epoch, offset, .. } = *record;
        Holding { epoch, assigned: record.assigned.clone(), pending: record.pending.clone(), offset }
    }

    /// All that the member holds, with the epochs at which it was granted.
    pub(crate) fn held(&self) -> impl Iterator<Item = &(TopicPartition, i32)> {
        self.assigned.iter().chain(&self.pending)
    }
}

/// The members of a consumer group and what they hold.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Holders {
    members: HashMap<Arc<str>, Holding>,
    /// Members, and since which offset they hold it.
    holders: HashMap<TopicPartition, Vec<(Arc<str>, i64)>>,
}

impl Holders {
    /// Returns what a member holds; `None`: nothing is known of it.
    pub(crate) fn holding(&self, member: &str) -> Option<&Holding> {
        self.members.get(member)
    }

    /// What a member holds from now on; after a tombstone nothing.
    pub(crate) fn of_current(&mut self, record: &ConsumerRecord, found: &mut Found) {
        let member = &record.member;
        let before = self.members.remove(member);
        for (place, _) in before.iter().flat_map(Holding::held) {
            if let Some(holders) = self.holders.get_mut(place) {
                holders.retain(|(holder, _)| holder != member);
                if holders.is_empty() {
                    self.holders.remove(place);
                }
            }
        }
        if record.is_tombstone {
            return;
        }
        let at = record.at();
        let now = Holding::of_record(record);
        if let Some(before) = before.filter(|_| !now.pending.is_empty()) {
            let granted = |place: &TopicPartition| !before.assigned.iter().any(|(had, _)| had == place);
            for (place, _) in now.assigned.iter().filter(|(place, _)| granted(place)) {
                let witness = format!("{} while {} is to be given up", named(place), named(&now.pending[0].0));
                found.push(at.since(before.offset, "granted too early", vec![Arc::clone(member)], witness));
            }
        }
        for (place, _) in now.held() {
            let holders = self.holders.entry(place.clone()).or_default();
            for (other, offset) in holders.iter().filter(|(other, _)| other != member) {
                let members = vec![Arc::clone(other), Arc::clone(member)];
                found.push(at.since(*offset, "held by two", members, named(place)));
            }
            holders.push((Arc::clone(member), at.offset));
        }
        self.members.insert(Arc::clone(member), now);
    }
}
