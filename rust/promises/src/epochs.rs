//! C3, C4: the epochs of a consumer group, of its target and of its members do not fall (docs/consumer-protocol.md §5.1).

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    consumers::ConsumerRecord,
    finding::{At, Found},
};

/// An epoch, and the offset of the record that has it.
type Epoch = (i32, i64);

/// The epochs of a consumer group in its life.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Epochs {
    group: Option<Epoch>,
    target: Option<Epoch>,
    members: HashMap<Arc<str>, Epoch>,
}

impl Epochs {
    /// The group has another epoch.
    pub(crate) fn of_group(&mut self, record: &ConsumerRecord, found: &mut Found) {
        rises("group epoch", self.group, &record.at(), found);
        self.group = Some((record.epoch, record.offset));
        self.is_ordered(&record.at(), found);
    }

    /// A target was computed for an epoch.
    pub(crate) fn of_target(&mut self, record: &ConsumerRecord, found: &mut Found) {
        rises("target epoch", self.target, &record.at(), found);
        self.target = Some((record.epoch, record.offset));
        self.is_ordered(&record.at(), found);
    }

    /// There is no target any more: the group ends.
    pub(crate) fn of_no_target(&mut self) {
        self.target = None;
    }

    fn is_ordered(&self, at: &At, found: &mut Found) {
        let (Some((group, one)), Some((target, other))) = (self.group, self.target) else { return };
        if target > group {
            let witness = format!("target epoch {target}, group epoch {group}");
            found.push(at.since(one.min(other), "epoch ahead", Vec::new(), witness));
        }
    }

    /// What a member has changed.
    pub(crate) fn of_member(&mut self, record: &ConsumerRecord, found: &mut Found) {
        if record.is_tombstone {
            self.members.remove(&record.member);
            return;
        }
        let (at, epoch) = (record.at(), record.epoch);
        let before = self.members.insert(Arc::clone(&record.member), (epoch, record.offset));
        if let Some((before, offset)) = before.filter(|(before, _)| epoch < *before && epoch > 0) {
            let witness = format!("member epoch {epoch} after {before}");
            found.push(at.since(offset, "member epoch back", vec![Arc::clone(&record.member)], witness));
        }
        if let Some((target, offset)) = self.target.filter(|(target, _)| epoch > *target) {
            let witness = format!("member epoch {epoch}, target epoch {target}");
            found.push(at.since(offset, "epoch ahead", vec![Arc::clone(&record.member)], witness));
        }
    }
}

fn rises(name: &str, before: Option<Epoch>, at: &At, found: &mut Found) {
    let now = at.generation.unwrap_or_default();
    if let Some((before, offset)) = before.filter(|(before, _)| now < *before) {
        found.push(at.since(offset, "epoch back", Vec::new(), format!("{name} {now} after {before}")));
    }
}
