//! `Trim`: an owner deletes entries that the snapshot has. Deletes work when the engine has no space for a write.

use super::{Fence, fence};
use crate::{
    ids::PartitionId,
    store::{Log, Store},
    view::Token,
};

/// Deletes what the snapshot has from the tail, if the writer owns the partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trim {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
}

impl Trim {
    pub(super) fn apply(&self, store: &mut Store) -> Fence {
        let fence = fence(store, self.partition, &self.token);
        let upto = store.log(self.partition).head.map(|head| head.value.upto);
        if let (Fence::Held, Some(upto)) = (fence, upto) {
            store.next_revision();
            store.log_mut(self.partition).trim(upto);
        }
        fence
    }
}

impl Log {
    /// Deletes entries below an offset, but never the newest one: the next append has to follow it (§7.3).
    pub(super) fn trim(&mut self, upto: i64) {
        let newest = self.entries.keys().next_back().copied();
        self.entries
            .retain(|base_offset, entry| base_offset + entry.value.count > upto || Some(*base_offset) == newest);
    }
}
