//! An append in flight: its purpose, and the keys of its records.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    group::{GroupHandle, Member, MemberHandle},
    purgatory::OpId,
    records::{EndTransaction, Record, TransactionBatch},
    request::Ticket,
    response::{CommittedTopic, OffsetDeletedTopic},
};

/// The purpose of an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// The record of a new group (§4.10).
    NewGroup(GroupHandle),
    /// The leader's assignment (§6.3).
    Assignment(GroupHandle),
    /// A static replacement in Stable (§9.3).
    Replacement(Box<Replacement>),
    /// A static replacement that a rebalance overtook, or that timed out and was undone.
    Abandoned(GroupHandle),
    /// Offsets; the ticket is `None` after it was answered (§10.3).
    Commit(Option<Ticket>, Vec<CommittedTopic>),
    /// A requested deletion of a group (§12.3).
    Delete(GroupHandle, Option<Ticket>),
    /// A requested deletion of offsets (§12.4).
    OffsetDelete(Option<Ticket>, Vec<OffsetDeletedTopic>),
    /// Expired offsets, and the groups that end with them (§13). No request waits; after a failure the next run finds
    /// them again.
    Retention(Vec<GroupHandle>),
    /// No request waits: a group became empty, or a topic was deleted.
    Unattended,
    /// A step of a consumer group, which keeps the waiting answers itself.
    Consumer,
    /// Offsets of a transaction (§10.4).
    Transactional(Box<TransactionalCommit>),
    /// The marker of a transaction; the ticket is `None` after it was answered.
    Marker(Option<Ticket>, EndTransaction),
}

/// Offsets of a transaction, in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransactionalCommit {
    /// `None` after it was answered.
    pub ticket: Option<Ticket>,
    /// The results.
    pub topics: Vec<CommittedTopic>,
    /// Producer id and epoch.
    pub producer: (i64, i16),
}

/// An append in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Append {
    /// The group id; "" for several groups.
    pub group_id: Arc<str>,
    /// The purpose.
    pub purpose: Purpose,
    /// The records of the batch.
    pub records: Vec<Record>,
    /// The timeout for waiting requests; `None` without them.
    pub deadline: Option<OpId>,
}

/// The key of a record: a later record of the same key supersedes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// A group.
    Group(Arc<str>),
    /// An offset.
    Offset(Arc<str>, Arc<str>, i32),
    /// A record of another type, by key bytes.
    Unknown(Box<[u8]>),
    /// A record of a consumer group: key type, and the name of a member or pattern.
    Consumer(Arc<str>, i16, Option<Arc<str>>),
}

/// A static replacement in Stable, in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replacement {
    /// The new member.
    pub member: MemberHandle,
    /// The id of the new member.
    pub member_id: Arc<str>,
    /// The replaced member, restored if the append fails.
    pub predecessor: Member,
    /// The leader's member id when the replacement began.
    pub leader_id: Arc<str>,
    /// End of the new member's session if it stays silent, in monotonic milliseconds: the predecessor's timeout after
    /// the replacement.
    pub session_deadline_ms: u64,
}

impl Purpose {
    /// Returns what the append is to transactions; `None`: nothing.
    pub(crate) fn transaction(&self) -> Option<TransactionBatch> {
        match self {
            Purpose::Transactional(commit) => {
                let (producer_id, producer_epoch) = commit.producer;
                Some(TransactionBatch::Offsets { producer_id, producer_epoch })
            }
            Purpose::Marker(_, end) => Some(TransactionBatch::End(*end)),
            _ => None,
        }
    }

    /// Whether a request waits for this append and needs a timeout.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Purpose::Unattended | Purpose::Retention(_))
    }
}

impl RecordKey {
    /// Returns the key of a record.
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
