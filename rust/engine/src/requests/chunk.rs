//! `Chunk`: an owner writes a part of a snapshot, which does not count before its head is written.

use super::{Fence, fence};
use crate::{
    entry::{Chunk, ChunkKey},
    ids::PartitionId,
    store::Store,
    view::Token,
};

/// Writes a chunk, if its writer owns the partition and the chunk before it is there.
///
/// An engine that went back to a copy of itself has the chunks that were written before the copy. An owner that does
/// not notice would write the others after them, and a head that finds its last chunk would count without those between.
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
        if fence != Fence::Held {
            return fence;
        }
        if self.key_before().is_some_and(|before| !store.log(self.partition).chunks.contains_key(&before)) {
            return Fence::Refused(store.part(self.partition));
        }
        store.next_revision();
        store.log_mut(self.partition).chunks.insert(self.key(), self.bytes.clone());
        Fence::Held
    }

    /// Where the chunk is kept.
    pub fn key(&self) -> ChunkKey {
        ChunkKey { upto: self.upto, epoch: self.token.epoch, index: self.index }
    }

    /// Where the chunk before it is kept; `None` before the first one.
    pub fn key_before(&self) -> Option<ChunkKey> {
        self.index.checked_sub(1).map(|index| ChunkKey { index, ..self.key() })
    }
}
