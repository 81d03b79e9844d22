//! The content of an engine.

use std::collections::BTreeMap;

use crate::{
    entry::{Chunk, ChunkKey, Entry, SnapshotHead},
    ids::{HistoryId, PartitionId, Revision},
    view::{Meta, Part, Token, View},
};

/// A value with the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored<T> {
    /// What was written.
    pub value: T,
    /// When.
    pub revision: Revision,
}

/// A partition's snapshot and tail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    /// Names the snapshot that counts.
    pub head: Option<Stored<SnapshotHead>>,
    /// Chunks of this snapshot and of others.
    pub chunks: BTreeMap<ChunkKey, Chunk>,
    /// By base offset.
    pub entries: BTreeMap<i64, Stored<Entry>>,
}

/// Everything an engine keeps. Only [`requests`](crate::requests) change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// The small keys; their revision is the engine's.
    pub view: View,
    /// The revision that wrote each `part`.
    pub parts_written: BTreeMap<PartitionId, Revision>,
    /// By partition.
    pub logs: BTreeMap<PartitionId, Log>,
}

impl Store {
    /// An engine without content.
    pub fn new(history: HistoryId) -> Store {
        let view = View {
            revision: Revision(1),
            meta: Meta { history, format: 1 },
            nodes: BTreeMap::new(),
            beats: BTreeMap::new(),
            parts: BTreeMap::new(),
            notes: BTreeMap::new(),
        };
        Store { view, parts_written: BTreeMap::new(), logs: BTreeMap::new() }
    }

    /// Whether the token's owner is the partition's: the fence (§4.1).
    pub fn is_held(&self, partition: PartitionId, token: &Token) -> bool {
        self.part(partition) == Some(token.part())
    }

    /// The partition's owner.
    pub fn part(&self, partition: PartitionId) -> Option<Part> {
        self.view.parts.get(&partition).copied()
    }

    /// The partition's log, for reading.
    pub fn log(&self, partition: PartitionId) -> Log {
        self.logs.get(&partition).cloned().unwrap_or_default()
    }

    /// The partition's log, for a write that has passed the fence.
    pub fn log_mut(&mut self, partition: PartitionId) -> &mut Log {
        self.logs.entry(partition).or_default()
    }

    /// The revision of a write that takes effect.
    pub fn next_revision(&mut self) -> Revision {
        self.view.revision.0 += 1;
        self.view.revision
    }

    /// Writes who owns a partition.
    pub fn set_part(&mut self, partition: PartitionId, part: Part) -> Revision {
        let revision = self.next_revision();
        self.view.parts.insert(partition, part);
        self.parts_written.insert(partition, revision);
        revision
    }
}
