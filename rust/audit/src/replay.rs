//! Replays a part of a journal.

use std::{io, path::PathBuf};

use rota_core::{Coordinator, explain::Rebalance};
use rota_journal::{Difference, Entry, OwnedEvent, Replay, ReplayCounts};
use rota_log::{Batch, store::PAYLOAD_BYTES_MAX};

use crate::reader::range_bytes;

/// The result of replaying a part.
#[derive(Debug, Default)]
pub struct Fold {
    /// Counts of the replay.
    pub counts: ReplayCounts,
    /// Differences with the offsets of their entries: the first one after each snapshot.
    pub differences: Vec<(i64, Difference)>,
    /// Causes of generations, in order.
    pub causes: Vec<Cause>,
    /// Why something was not folded: it could not be read, or entries are missing.
    pub damage: Option<String>,
}

/// The cause of a group's new generation.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The group.
    pub group_id: String,
    /// Offset of the entry that completed the join phase.
    pub offset: i64,
    /// The coordinator's record of the rebalance.
    pub rebalance: Rebalance,
}

/// Folds what belongs to the first of `ranges` of one partition: from the first whole state in it (or from its first
/// entry, if the journal begins there) over as many of the others as it takes to the next whole state, which is
/// compared. So every entry of a journal is folded by exactly one call, one for each range; after a difference, and after
/// entries that are missing or of another version of rota, folding goes on at the next whole state. Errors: a file cannot
/// be read.
pub fn replay_range(ranges: &[(PathBuf, u64, u64)], is_first: bool) -> io::Result<Fold> {
    let mut fold = Folding {
        replay: Replay::new(),
        next_offset: None,
        is_running: is_first,
        is_over: false,
        fold: Fold::default(),
    };
    for (index, (path, start, end)) in ranges.iter().enumerate() {
        let bytes = range_bytes(path, *start, *end)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() && !fold.is_over {
            let read = Batch::split(rest).and_then(|(batch, after)| {
                rest = after;
                batch.check_crc()?;
                Ok((batch, batch.payload(PAYLOAD_BYTES_MAX)?))
            });
            match read {
                Ok((batch, payload)) => fold.batch(&batch, &payload, index > 0),
                Err(error) => return Ok(fold.damaged(format!("`{}`: {error}", path.display()))),
            }
        }
        // Entries of a later range belong to another call.
        if fold.is_over || !fold.is_running {
            break;
        }
    }
    fold.fold.counts += fold.replay.counts();
    Ok(fold.fold)
}

struct Folding {
    replay: Replay,
    /// Of the next entry; `None`: any.
    next_offset: Option<i64>,
    is_running: bool,
    is_over: bool,
    fold: Fold,
}

impl Folding {
    fn damaged(mut self, reason: String) -> Fold {
        self.fold.counts += self.replay.counts();
        self.fold.damage = Some(reason);
        self.fold
    }

    /// Folding ends here, and goes on at the next whole state.
    fn interrupt(&mut self, reason: String) {
        self.fold.damage.get_or_insert(reason);
        self.fold.counts += std::mem::take(&mut self.replay).counts();
        self.is_running = false;
    }

    fn batch(&mut self, batch: &Batch<'_>, payload: &[u8], is_later_range: bool) {
        let base_offset = batch.header().base_offset;
        let expected = self.next_offset.replace(batch.header().last_offset().saturating_add(1));
        if let Some(expected) = expected.filter(|expected| self.is_running && *expected < base_offset) {
            self.interrupt(format!("the entries of offsets {expected} to {} are missing", base_offset - 1));
            if is_later_range {
                return;
            }
        }
        for record in batch.records_in(payload) {
            let Ok(record) = record else { return };
            let value = record.value.unwrap_or_default();
            let begins = Entry::begins_anew(value);
            if !self.is_running && !begins {
                continue;
            }
            self.is_running = true;
            let offset = batch.offset(&record);
            match self.replay.fold(value) {
                Ok(()) => self.note_causes(offset),
                Err(difference) => match unreadable(value) {
                    Some(reason) => self.interrupt(format!("the entry of offset {offset}: {reason}")),
                    None => self.part_ways(offset, difference),
                },
            }
            self.is_over = begins && is_later_range;
            if self.is_over {
                return;
            }
        }
    }

    fn note_causes(&mut self, offset: i64) {
        let joined = self.replay.take_joined();
        self.fold.causes.extend(joined.into_iter().map(|(group_id, rebalance)| Cause { group_id, offset, rebalance }));
    }

    fn part_ways(&mut self, offset: i64, difference: Difference) {
        self.fold.differences.push((offset, difference));
        self.fold.counts += std::mem::take(&mut self.replay).counts();
        self.is_running = false;
    }
}

/// Why an entry, or the whole state in it, cannot be read; `None`: it can be.
fn unreadable(value: &[u8]) -> Option<String> {
    match Entry::read(value).map(|entry| entry.event) {
        Ok(OwnedEvent::Loaded { state } | OwnedEvent::Snapshot { state }) => {
            Coordinator::restore(state).err().map(|error| error.to_string())
        }
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}
