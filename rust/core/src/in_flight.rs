//! An append in flight: what it is for, and what it is the newest word on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    group::{GroupHandle, Member, MemberHandle},
    purgatory::OpId,
    records::Record,
    request::Ticket,
    response::{CommittedTopic, OffsetDeletedTopic},
};

/// What an append is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// The record of a group that came into being (§4.10).
    NewGroup(GroupHandle),
    /// The leader's plan (§6.3).
    Assignment(GroupHandle),
    /// A static replacement in Stable (§9.3).
    Replacement(Box<Replacement>),
    /// A static replacement that a rebalance overtook, or that took too long and was undone.
    Abandoned(GroupHandle),
    /// Offsets; the ticket is gone once it was answered (§10.3).
    Commit(Option<Ticket>, Vec<CommittedTopic>),
    /// The end of a group, asked for (§12.3).
    Delete(GroupHandle, Option<Ticket>),
    /// The end of some offsets, asked for (§12.4).
    OffsetDelete(Option<Ticket>, Vec<OffsetDeletedTopic>),
    /// What was kept long enough, and the groups that go with it (§13); nobody waits for it, and the next run finds it
    /// again.
    Retention(Vec<GroupHandle>),
    /// Nobody waits for it: a group that emptied, offsets of a deleted topic.
    Unattended,
    /// A step of a consumer group, which knows what is to be answered.
    Consumer,
}

/// An append in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Append {
    /// The group it is about; "" if several.
    pub group_id: Arc<str>,
    /// What it is for.
    pub purpose: Purpose,
    /// What is written.
    pub records: Vec<Record>,
    /// When whoever waits for it is told that it takes too long; none if nobody waits.
    pub deadline: Option<OpId>,
}

/// What a record is the newest word on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// A group.
    Group(Arc<str>),
    /// An offset.
    Offset(Arc<str>, Arc<str>, i32),
    /// Something of another type.
    Unknown(Box<[u8]>),
    /// Something of a consumer group: key type and, of a member or pattern, its name.
    Consumer(Arc<str>, i16, Option<Arc<str>>),
}

/// A replacement in Stable, on its way to the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replacement {
    /// The newcomer.
    pub member: MemberHandle,
    /// The newcomer's id.
    pub member_id: Arc<str>,
    /// What it replaced, to be put back if the append fails.
    pub predecessor: Member,
    /// Who led when the replacement began.
    pub leader_id: Arc<str>,
    /// When the session of the newcomer ends if it stays silent: the predecessor's timeout from the replacement on.
    pub session_deadline_ms: u64,
}

impl Purpose {
    /// Whether somebody waits, who has to be told if it takes too long.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Purpose::Unattended | Purpose::Retention(_))
    }
}

impl RecordKey {
    /// The key of a record.
    pub fn of(record: &Record) -> RecordKey {
        match record {
            Record::Group { group_id, .. } => RecordKey::Group(Arc::clone(group_id)),
            Record::Offset { group_id, topic, partition, .. } => {
                RecordKey::Offset(Arc::clone(group_id), Arc::clone(topic), *partition)
            }
            Record::Consumer { group_id, about } => {
                let (key_type, second) = about.key();
                RecordKey::Consumer(Arc::clone(group_id), key_type, second.cloned())
            }
            Record::Unknown { key, .. } => RecordKey::Unknown(key.clone()),
        }
    }
}
