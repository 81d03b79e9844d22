//! Snapshots of worlds over an engine: an owner reads what the engine has of a partition, and a while later replaces the
//! tail by it (docs/engine-protocol.md §7). Each keeps all appends: other worlds drop records
//! (`Kind::Compaction`).

use std::fmt;

use rota_engine::{
    Event, PartitionId,
    node::{Node, Phase},
};

use super::{Fleet, Happening, Planted, engine::numbers, faults::Kind, log::AppendNumber};

/// Percent of the turns in which an owner begins a snapshot of a partition.
const SHARE: usize = 30;
/// How long it takes at most to compact what was read.
const COMPACTING_MS: usize = 400;
/// Appends of a chunk.
const CHUNK: usize = 4;

/// What was read of a partition.
pub struct Content {
    partition: PartitionId,
    /// Of the owner that reads.
    epoch: u32,
    /// Everything below this offset was read.
    upto: i64,
    found: Vec<AppendNumber>,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} epoch {} upto {}", self.partition.0, self.epoch, self.upto)
    }
}

impl Fleet {
    /// A turn of an owner: it may begin to read what it serves.
    pub(super) fn begin_snapshots(&mut self, node: usize) {
        for partition in self.served(node) {
            if !self.dice.chance(SHARE) {
                continue;
            }
            let Some(content) = self.content(node, partition) else { continue };
            let at_ms = self.now_ms + self.dice.below(COMPACTING_MS) as u64;
            let life = self.nodes[node].life;
            self.queue.push(at_ms, Happening::Snapshot { node, life, content });
        }
    }

    fn served(&mut self, node: usize) -> Vec<PartitionId> {
        let now_ms = self.now_ms;
        let Some(link) = self.link(node).filter(|link| link.suffers(Kind::Snapshots, now_ms)) else {
            return Vec::new();
        };
        let is_served = |(partition, phase): (&PartitionId, &Phase)| {
            matches!(phase, Phase::Serving(serving) if serving.snapshot.is_none()).then_some(*partition)
        };
        link.machine.iter().flat_map(|machine| machine.inspect().partitions.iter().filter_map(is_served)).collect()
    }

    /// What the engine has at this moment.
    fn content(&mut self, node: usize, partition: PartitionId) -> Option<Content> {
        let epoch = self.served_epoch(node, partition)?;
        let log = self.engine.as_ref()?.of(partition)?;
        let (Ok(snapshot), Ok(upto)) = (log.snapshot(), log.end()) else {
            let words = format!("partition {} is damaged: {:?}, {:?}", partition.0, log.snapshot(), log.end());
            self.violated("E3", words);
            return None;
        };
        let begin = log.head.as_ref().map_or(0, |head| head.value.upto);
        let entries = log.entries.iter().map(|(base_offset, entry)| (*base_offset, &entry.value.bytes[..]));
        let found = all_numbers(snapshot.iter().map(|chunk| &chunk[..]), begin, entries);
        Some(Content { partition, epoch, upto, found })
    }

    /// The content that was read becomes the snapshot, unless the node has lost the partition since.
    pub(super) fn snapshot(&mut self, node: usize, content: Content) {
        let Content { partition, epoch, upto, found } = content;
        if self.served_epoch(node, partition) != Some(epoch) {
            return;
        }
        let skips = self.planted == Some(Planted::SnapshotSkips);
        let Some(machine) = self.link(node).and_then(|link| link.machine.as_ref()) else { return };
        let upto = match machine.inspect().partitions.get(&partition) {
            Some(Phase::Serving(serving)) if skips => serving.next_offset,
            _ => upto,
        };
        let chunks = found.chunks(CHUNK).map(|some| some.iter().flat_map(|one| one.0.to_be_bytes()).collect());
        self.step(node, Event::Snapshot { partition, upto, chunks: chunks.collect() });
    }

    fn served_epoch(&mut self, node: usize, partition: PartitionId) -> Option<u32> {
        epoch_of(self.link(node)?.machine.as_ref()?, partition)
    }
}

/// The epoch in which a node serves a partition.
pub fn epoch_of(machine: &Node, partition: PartitionId) -> Option<u32> {
    match machine.inspect().partitions.get(&partition) {
        Some(Phase::Serving(serving)) => Some(serving.token.epoch.0 as u32),
        _ => None,
    }
}

/// The appends of a snapshot and of the tail after it. The first entry may begin below `upto`.
pub fn all_numbers<'a>(
    chunks: impl Iterator<Item = &'a [u8]>,
    upto: i64,
    entries: impl Iterator<Item = (i64, &'a [u8])>,
) -> Vec<AppendNumber> {
    // An append has one offset.
    let tail = entries.flat_map(|(base_offset, bytes)| numbers(bytes).skip((upto - base_offset).max(0) as usize));
    chunks.flat_map(numbers).chain(tail).collect()
}
