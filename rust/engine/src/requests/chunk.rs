//! `Chunk`: an owner writes a part of a snapshot, which does not count before its head is written.

use super::{Fence, fence};
use crate::{
    entry::{Chunk, ChunkKey},
    ids::PartitionId,
    store::Store,
    view::Token,
};

/// Writes a chunk, if its writer owns the partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PutChunk {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
    /// Of the snapshot.
    pub upto: i64,
    /// From 0.
    pub index: u32,
    /// The chunk.
    pub bytes: Chunk,
}

impl PutChunk {
    pub(super) fn apply(&self, store: &mut Store) -> Fence {
        let fence = fence(store, self.partition, &self.token);
        if fence == Fence::Held {
            let key = ChunkKey { upto: self.upto, epoch: self.token.epoch, index: self.index };
            store.next_revision();
            store.log_mut(self.partition).chunks.insert(key, self.bytes.clone());
        }
        fence
    }
}
