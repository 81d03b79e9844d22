//! First offsets of partitions on disk whose records were deleted by `DeleteRecords`, in a file of the data directory.
//!
//! The file is durable before the deletion is acknowledged. It names topics by their ids, so entries of deleted topics do
//! no harm; they are left out of the next version of the file.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

use rota_log::store::PartitionView;
use uuid::Uuid;

use crate::base::text_file::{TextFile, check_format, entries, summed};

/// The file in the data directory.
pub const STARTS_FILE: &str = "rota.starts";
/// The first word of the file, before the number of its format.
const HEAD: &str = "rota.starts ";
/// The format that this release writes.
const FORMAT: u32 = 1;

/// Partition of a topic.
pub(super) type Place = (Uuid, i32);

/// The first offsets, as in the file.
#[derive(Debug)]
pub(super) struct Starts {
    file: TextFile,
    offsets: Mutex<BTreeMap<Place, i64>>,
}

impl Starts {
    /// Reads the file. Errors: why it cannot be read.
    pub fn read(file: TextFile) -> Result<Starts, String> {
        let text = file.read().map_err(|error| error.to_string())?;
        let offsets = match text {
            None => BTreeMap::new(),
            Some(text) => {
                check_format(&text, HEAD, FORMAT)?;
                parse(&text)?
            }
        };
        Ok(Starts { file, offsets: Mutex::new(offsets) })
    }

    /// Hides from readers of a partition what was deleted before the start.
    pub fn apply(&self, place: &Place, view: &PartitionView) {
        if let Some(offset) = self.offsets.lock().unwrap_or_else(PoisonError::into_inner).get(place) {
            // Without durable messages, a crash may have lost the end.
            view.delete_below((*offset).min(view.next_offset()));
        }
    }

    /// Makes later first offsets durable. Forgets partitions that are not among `places`. Errors: why the file cannot be
    /// written, and nothing has changed then.
    pub fn save(&self, starts: &[(Place, i64)], places: impl FnOnce() -> HashSet<Place>) -> Result<(), std::io::Error> {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_later = |(place, offset): &&(Place, i64)| *offset > offsets.get(place).copied().unwrap_or(0);
        let later: Vec<(Place, i64)> = starts.iter().filter(is_later).copied().collect();
        if later.is_empty() {
            return Ok(());
        }
        let mut changed = offsets.clone();
        let places = places();
        changed.retain(|place, _| places.contains(place));
        changed.extend(later);
        self.file.replace(&written(&changed))?;
        *offsets = changed;
        Ok(())
    }
}

fn written(offsets: &BTreeMap<Place, i64>) -> String {
    let mut text = format!("{HEAD}{FORMAT}\n");
    for ((topic, index), offset) in offsets {
        let _infallible = writeln!(text, "start {topic} {index} {offset}");
    }
    summed(text)
}

fn parse(text: &str) -> Result<BTreeMap<Place, i64>, String> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["start", topic, index, offset] = words[..] else { return None };
        Some(((topic.parse().ok()?, index.parse().ok()?), offset.parse().ok()?))
    };
    let lines = entries(text, HEAD, FORMAT)?;
    lines.map(|line| entry(line).ok_or_else(|| format!("the line `{line}` cannot be parsed"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let offsets = BTreeMap::from([((Uuid::from_u128(1), 0), 5), ((Uuid::from_u128(1), 7), i64::MAX)]);
        let text = written(&offsets);
        assert_eq!(parse(&text), Ok(offsets));
        assert_eq!(parse(&text.replacen(" 5\n", " 6\n", 1)), Err("its checksum is wrong".to_owned()));
        let other = summed(format!("{HEAD}{FORMAT}\nend 1\n"));
        assert_eq!(parse(&other), Err("the line `end 1` cannot be parsed".to_owned()));
    }
}
