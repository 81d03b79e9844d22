//! Entries of a partition's log, and snapshots of it.

use crate::ids::{Epoch, Nonce, Revision};

/// One append: one or more record batches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Of the append.
    pub nonce: Nonce,
    /// Of the owner that appended.
    pub epoch: Epoch,
    /// Offsets that the entry takes.
    pub count: i64,
    /// The batches. The protocol does not read them.
    pub bytes: Vec<u8>,
}

/// What an append follows. The engine refuses the append unless it is still there, unchanged (§6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prev {
    /// Nothing: the partition has neither a snapshot nor an entry.
    Nothing,
    /// A snapshot, with the revision that wrote its head; the partition has no entry.
    Head(Revision),
    /// The entry at an offset, with the revision that wrote it.
    Entry(i64, Revision),
}

/// Names a complete snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotHead {
    /// The snapshot has everything below this offset.
    pub upto: i64,
    /// Of the owner that took the snapshot.
    pub epoch: Epoch,
    /// Number of chunks.
    pub chunks: u32,
    /// CRC-32C of all chunks in order.
    pub checksum: u32,
}

/// Where a chunk is kept. The epoch keeps owners with the same `upto` apart (§7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkKey {
    /// Of the snapshot.
    pub upto: i64,
    /// Of the owner.
    pub epoch: Epoch,
    /// From 0.
    pub index: u32,
}

/// Bytes of a chunk. The protocol does not read them.
pub type Chunk = Vec<u8>;

/// The checksum of a snapshot's chunks.
pub fn checksum<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> u32 {
    chunks.into_iter().fold(0, |sum, chunk| crc32c::crc32c_append(sum, chunk))
}
