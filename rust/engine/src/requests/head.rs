//! `Head`: an owner makes a snapshot count, and trims the entries that it has.

use crate::{
    entry::{Prev, SnapshotHead},
    ids::PartitionId,
    store::{Log, Store, Stored},
    view::{Part, Token},
};

/// Writes the head and deletes what it has from the tail, in one transaction.
///
/// The writer must own the partition, the head must still be the one before it, and the last chunk and the last entry
/// that the snapshot has must be there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PutHead {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
    /// The snapshot that counted until now: a twin must not bring back a head whose chunks are swept.
    pub replaces: Option<SnapshotHead>,
    /// The newest entry when the snapshot began.
    pub prev: Prev,
    /// The head. All its chunks are written, the last one after all others.
    pub head: SnapshotHead,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadPut {
    /// The head is written, by this attempt or by an earlier one.
    Written,
    /// The partition has another owner, or the engine lost the head or chunks that the owner wrote.
    Refused(Option<Part>),
}

impl PutHead {
    pub(super) fn apply(&self, store: &mut Store) -> HeadPut {
        let log = store.log(self.partition);
        let known = log.head.as_ref().map(|head| head.value);
        let is_owner = store.is_held(self.partition, &self.token);
        if is_owner && known == Some(self.head) {
            return HeadPut::Written;
        }
        if !is_owner || known != self.replaces || !self.has_chunks(&log) || !log.has(self.prev) {
            return HeadPut::Refused(store.part(self.partition));
        }
        let revision = store.next_revision();
        let log = store.log_mut(self.partition);
        log.head = Some(Stored { value: self.head, revision });
        log.trim(self.head.upto);
        HeadPut::Written
    }

    /// Without this an owner that lives through a restore trims the log for a snapshot that is gone.
    fn has_chunks(&self, log: &Log) -> bool {
        let last = self.head.chunks.checked_sub(1).map(|index| self.head.chunk_key(index));
        last.is_none_or(|key| log.chunks.contains_key(&key))
    }
}
