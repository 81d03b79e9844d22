//! `Read`: everything of a partition at one revision, for a load.

use crate::{
    entry::{Chunk, checksum},
    ids::{Epoch, PartitionId},
    store::{Log, Store},
    view::Part,
};

/// Asks for a partition's content. An engine may fetch it in pages, as long as all are of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// The partition.
    pub partition: PartitionId,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contents {
    /// The partition's owner at this revision.
    pub part: Option<Part>,
    /// Snapshot and tail.
    pub log: Log,
}

/// Why a partition cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The snapshot lacks this chunk.
    ChunkMissing(u32),
    /// The chunks are not those that the head names.
    WrongChecksum,
    /// No entry begins at this offset, and later ones exist.
    Hole(i64),
    /// The entry at this offset has an older epoch than the one before it.
    EpochFell(i64),
}

impl Read {
    pub(super) fn apply(&self, store: &mut Store) -> Contents {
        Contents { part: store.part(self.partition), log: store.log(self.partition) }
    }
}

impl Log {
    /// The chunks that the head names, in order.
    pub fn snapshot(&self) -> Result<Vec<&Chunk>, Damage> {
        let Some(head) = self.head.as_ref().map(|head| head.value) else { return Ok(Vec::new()) };
        let found = (0..head.chunks).map(|index| {
            let key = head.chunk_key(index);
            self.chunks.get(&key).ok_or(Damage::ChunkMissing(index))
        });
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let is_whole = checksum(found.iter().copied()) == head.checksum;
        if is_whole { Ok(found) } else { Err(Damage::WrongChecksum) }
    }

    /// The offset after the last entry, if the tail continues the snapshot without a hole and its epochs never fall.
    pub fn end(&self) -> Result<i64, Damage> {
        let snapshot = self.head.as_ref().map(|head| head.value);
        let mut end = snapshot.map_or(0, |head| head.upto);
        let mut epoch = Epoch(0);
        let mut is_tail = false;
        for (base_offset, entry) in &self.entries {
            // A count that no owner wrote.
            let next = base_offset.checked_add(entry.value.count).filter(|next| next >= base_offset);
            let next = next.ok_or(Damage::Hole(end))?;
            // The newest entry is kept although the snapshot has it (§7.3), so the first one may begin before `upto`.
            if (is_tail && *base_offset != end) || *base_offset > end {
                return Err(Damage::Hole(end));
            }
            if entry.value.epoch < epoch {
                return Err(Damage::EpochFell(*base_offset));
            }
            epoch = entry.value.epoch;
            is_tail = is_tail || next >= end;
            end = end.max(next);
        }
        Ok(end)
    }
}
