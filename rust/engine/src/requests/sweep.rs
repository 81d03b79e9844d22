//! `Sweep`: an owner deletes chunks of older snapshots.

use super::{Fence, fence};
use crate::{
    entry::{ChunkKey, SnapshotHead},
    ids::PartitionId,
    store::Store,
    view::Token,
};

/// Deletes the chunks whose keys come before those of a snapshot that counts, if the writer owns the partition.
///
/// Chunks that come after it stay: they may belong to the next snapshot, which is written while a twin of this request
/// is still under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
    /// The snapshot that counts.
    pub keep: SnapshotHead,
}

impl Sweep {
    pub(super) fn apply(&self, store: &mut Store) -> Fence {
        let fence = fence(store, self.partition, &self.token);
        if fence == Fence::Held {
            store.next_revision();
            store.log_mut(self.partition).chunks.retain(|key, _| *key >= self.keep.chunk_key(0));
        }
        fence
    }
}

impl SnapshotHead {
    /// Where a chunk of the snapshot is kept.
    pub fn chunk_key(&self, index: u32) -> ChunkKey {
        ChunkKey { upto: self.upto, epoch: self.epoch, index }
    }
}
