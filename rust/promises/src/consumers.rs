//! The records of a consumer group, and what is remembered of the group (docs/consumer-protocol.md §14).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    columns::Row,
    epochs::Epochs,
    finding::{At, Found},
    holders::Holders,
    targets::Targets,
    version::TopicPartition,
};

/// Partitions with the epochs at which they were granted; those of a target have none.
pub(crate) type Held = Vec<(TopicPartition, i32)>;

/// What a record of a consumer group is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum About {
    Group,
    Member,
    TargetEpoch,
    Target,
    Current,
}

/// A record of a consumer group with all that its rows say.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ConsumerRecord {
    pub group: Arc<str>,
    pub about: About,
    pub is_tombstone: bool,
    pub member: Arc<str>,
    /// Of the group, of the target, or of the member.
    pub epoch: i32,
    /// The assignor that the member names.
    pub assignor: Option<Box<str>>,
    /// What the member is assigned, or is to have.
    pub assigned: Held,
    /// What the member has to give up.
    pub pending: Held,
    pub offset: i64,
    pub at_ms: Option<i64>,
}

impl ConsumerRecord {
    /// Where the record is; `epoch` is that of the group or of the member.
    pub(crate) fn at(&self) -> At {
        let ConsumerRecord { epoch, offset, at_ms, .. } = *self;
        At { group: Some(Arc::clone(&self.group)), generation: Some(epoch), offset, at_ms }
    }

    fn of_row(row: &Row<'_>, about: About) -> ConsumerRecord {
        ConsumerRecord {
            group: row.group.unwrap_or_default().into(),
            about,
            is_tombstone: row.note == Some("removed"),
            member: row.member.unwrap_or_default().into(),
            epoch: row.generation.unwrap_or_default(),
            assignor: row.protocol.map(Box::from),
            assigned: Vec::new(),
            pending: Vec::new(),
            offset: row.offset.unwrap_or_default(),
            at_ms: row.at_ms,
        }
    }
}

/// Returns the records of consumer groups among rows that belong together, in their order.
pub(crate) fn consumer_records(rows: &[Row<'_>]) -> Vec<ConsumerRecord> {
    let mut found: Vec<ConsumerRecord> = Vec::new();
    for row in rows {
        let about = match row.kind.unwrap_or_default() {
            "consumer_group" => About::Group,
            "consumer_member" => About::Member,
            "consumer_target_epoch" => About::TargetEpoch,
            "consumer_target" => About::Target,
            "consumer_current" => About::Current,
            "consumer_pending" | "consumer_assigned" | "consumer_target_partition" => {
                let Some(record) = found.last_mut() else { continue };
                let is_pending = row.kind == Some("consumer_pending");
                let list = if is_pending { &mut record.pending } else { &mut record.assigned };
                let topic = row.topic.unwrap_or_default();
                let topic = match list.last() {
                    Some(((known, _), _)) if **known == *topic => Arc::clone(known),
                    _ => topic.into(),
                };
                list.push(((topic, row.topic_partition.unwrap_or_default()), row.generation.unwrap_or_default()));
                continue;
            }
            _ => continue,
        };
        found.push(ConsumerRecord::of_row(row, about));
    }
    found
}

/// Since when records of consumer groups are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Known {
    /// Records before this offset are missing.
    pub from: i64,
    /// Whether they may be about groups that have not been found yet.
    pub lacks: bool,
}

/// What is remembered of a consumer group.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Consumers {
    /// Of what was before nothing is known; whether there was something, until the group begins anew.
    known: Known,
    epochs: Epochs,
    pub holders: Holders,
    targets: Targets,
}

impl Consumers {
    /// Forgets what was before records that are missing.
    pub(crate) fn know(&mut self, known: Known) {
        if self.known.from < known.from {
            *self = Consumers { known, ..Consumers::default() };
        }
    }

    /// The classic group of this id ended: what follows may be the same group, converted (docs/consumer-protocol.md §16.2).
    pub(crate) fn of_classic_end(&mut self) {
        self.targets.of_classic_end();
    }

    /// A record of the group became durable.
    pub(crate) fn of_record(&mut self, record: &ConsumerRecord, found: &mut Found) {
        match (record.about, record.is_tombstone) {
            (About::Group, true) => {
                let known = Known { lacks: false, ..self.known };
                *self = Consumers { known, ..Consumers::default() };
            }
            (About::Group, false) => self.epochs.of_group(record, found),
            (About::TargetEpoch, false) => {
                self.epochs.of_target(record, found);
                self.targets.of_epoch(record, !self.known.lacks, found);
            }
            (About::TargetEpoch, true) => self.epochs.of_no_target(),
            (About::Member, _) => self.targets.of_member(record),
            (About::Target, _) => self.targets.of_target(record),
            (About::Current, _) => {
                self.epochs.of_member(record, found);
                self.targets.see(record);
                self.holders.of_current(record, found);
            }
        }
    }
}
