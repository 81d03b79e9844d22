//! First offsets of partitions on disk whose records were deleted by `DeleteRecords`, in a file of the data directory.
//!
//! The file is durable before the deletion is acknowledged. It names topics by their ids, so entries of deleted topics do
//! no harm; they are left out of the next version of the file.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use rota_log::{LogError, store::PartitionView};
use uuid::Uuid;

use crate::base::text_file::{TextFile, check_format, entries, summed};

/// The file in the data directory.
pub const STARTS_FILE: &str = "rota.starts";
/// Kafka's file of the first offsets that differ from those of the first segments, by topic name.
pub const KAFKAS_STARTS_FILE: &str = "log-start-offset-checkpoint";
/// The version of Kafka's file.
const KAFKAS_VERSION: &str = "0";
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
    /// Whether the file was there.
    is_there: bool,
    offsets: Mutex<BTreeMap<Place, i64>>,
}

impl Starts {
    /// Reads the file. Errors: why it cannot be read.
    pub fn read(file: TextFile) -> Result<Starts, String> {
        let text = file.read().map_err(|error| error.to_string())?;
        let is_there = text.is_some();
        let offsets = match text {
            None => BTreeMap::new(),
            Some(text) => {
                check_format(&text, HEAD, FORMAT)?;
                parse(&text)?
            }
        };
        Ok(Starts { file, is_there, offsets: Mutex::new(offsets) })
    }

    /// Whether there was a file at the start.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Takes the first offsets of partitions from Kafka, durably if the directory is rota's. Errors: the file cannot be
    /// written.
    pub fn take_over(&self, starts: &[(Place, i64)]) -> io::Result<()> {
        if self.file.is_read_only {
            self.offsets.lock().unwrap_or_else(PoisonError::into_inner).extend(starts.iter().copied());
            return Ok(());
        }
        self.save(starts, || starts.iter().map(|(place, _)| *place).collect())
    }

    /// Hides from readers of partitions what was deleted before the start. Without durable messages, a crash may have
    /// lost the end of the log: the first offset is its end then, durably, as later records get the offsets after it.
    /// Errors: the file cannot be written; then these partitions are refused.
    pub fn apply<'v>(&self, found: impl Iterator<Item = (&'v Place, &'v PartitionView)>) -> io::Result<()> {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut changed, mut lowered) = (offsets.clone(), Vec::new());
        for (place, view) in found {
            let Some(offset) = changed.get_mut(place) else { continue };
            let end_offset = view.next_offset();
            view.delete_below((*offset).min(end_offset));
            // The end of a damaged partition is not known.
            if *offset > end_offset && view.refusal().is_none() {
                *offset = end_offset;
                lowered.push(view);
            }
        }
        if lowered.is_empty() || self.file.is_read_only {
            return Ok(());
        }
        if let Err(error) = self.file.replace(&written(&changed)) {
            let file = self.file.path.display();
            let reason = format!("writing `{file}` failed: {error}; free space or repair the disk, and start again");
            let reason: Arc<str> = reason.into();
            for view in lowered {
                view.refuse(LogError::Storage { reason: Arc::clone(&reason) });
            }
            return Err(io::Error::new(error.kind(), reason.to_string()));
        }
        *offsets = changed;
        Ok(())
    }

    /// Makes later first offsets durable. Forgets partitions that are not among `places`. Errors: why the file cannot be
    /// written, see [`TextFile::replace`].
    pub fn save(&self, starts: &[(Place, i64)], places: impl FnOnce() -> HashSet<Place>) -> io::Result<()> {
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

/// Parses Kafka's file: topic, partition and first offset. Errors: why it cannot be read.
pub(super) fn parse_kafkas(text: &str) -> Result<Vec<(&str, i32, i64)>, String> {
    let mut lines = text.lines();
    let Some(version) = lines.next() else { return Ok(Vec::new()) };
    if version != KAFKAS_VERSION {
        return Err(format!("its version is `{version}`, expected {KAFKAS_VERSION}"));
    }
    let count = lines.next().unwrap_or_default();
    let found: Result<Vec<_>, String> =
        lines.map(|line| kafkas_entry(line).ok_or_else(|| format!("the line `{line}` cannot be parsed"))).collect();
    let found = found?;
    if count.parse() != Ok(found.len()) {
        return Err(format!("its second line is `{count}`, and {} lines follow", found.len()));
    }
    Ok(found)
}

fn kafkas_entry(line: &str) -> Option<(&str, i32, i64)> {
    let [topic, index, offset] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let (index, offset) = (index.parse::<i32>().ok()?, offset.parse::<i64>().ok()?);
    (index >= 0 && offset >= 0).then_some((topic, index, offset))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Weak};

    use rota_log::files::{Fault, Files, ForgetfulFiles};

    use super::*;

    fn on(files: &ForgetfulFiles) -> Starts {
        let files: Arc<dyn Files> = Arc::new(files.clone());
        Starts::read(TextFile { files, path: PathBuf::from(STARTS_FILE), is_read_only: false, store: Weak::new() })
            .unwrap()
    }

    fn view(end_offset: i64) -> PartitionView {
        let view = PartitionView::default();
        view.publish(&[], end_offset);
        view
    }

    #[test]
    fn a_first_offset_beyond_the_end_becomes_the_end_durably() {
        let (files, places) = (ForgetfulFiles::new(64), [0, 1, 2].map(|index| (Uuid::from_u128(1), index)));
        on(&files).save(&places.map(|place| (place, 100)), || HashSet::from(places)).unwrap();
        // A crash has lost the end of the first, the second is damaged, and the third has it all.
        let views = || [view(50), view(0), view(120)];
        let first = views();
        first[1].refuse(LogError::ReadOnly);
        on(&files).apply(places.iter().zip(&first)).unwrap();
        assert_eq!(first.map(|view| view.first_offset()), [50, 0, 120]);
        // After more records, and once the second is repaired.
        let second = [view(120), view(120), view(120)];
        let starts = on(&files);
        starts.apply(places.iter().zip(&second)).unwrap();
        assert_eq!(starts.offsets.lock().unwrap().values().copied().collect::<Vec<_>>(), [50, 100, 100]);
        // An offset that is later than what is there now is stored.
        starts.save(&[(places[0], 80)], || HashSet::from(places)).unwrap();
        assert_eq!(on(&files).offsets.lock().unwrap()[&places[0]], 80);
    }

    #[test]
    fn a_partition_whose_first_offset_cannot_be_corrected_is_refused() {
        let (files, place) = (ForgetfulFiles::new(64), (Uuid::from_u128(1), 0));
        on(&files).save(&[(place, 100)], || HashSet::from([place])).unwrap();
        let (starts, short) = (on(&files), view(50));
        files.fail_at(files.operations(), Fault::NoSpace(1));
        let error = starts.apply([(&place, &short)].into_iter()).unwrap_err();
        assert!(error.to_string().contains(STARTS_FILE), "{error}");
        assert!(matches!(short.refusal(), Some(LogError::Storage { .. })));
    }

    #[test]
    fn the_file_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let offsets = BTreeMap::from([((Uuid::from_u128(1), 0), 5), ((Uuid::from_u128(1), 7), i64::MAX)]);
        let text = written(&offsets);
        assert_eq!(parse(&text), Ok(offsets));
        assert_eq!(parse(&text.replacen(" 5\n", " 6\n", 1)), Err("its checksum is wrong".to_owned()));
        let other = summed(format!("{HEAD}{FORMAT}\nend 1\n"));
        assert_eq!(parse(&other), Err("the line `end 1` cannot be parsed".to_owned()));
    }

    #[test]
    fn kafkas_file_is_read_and_a_malformed_one_is_refused() {
        assert_eq!(
            parse_kafkas("0\n2\nt.a-b 0 500\nu 17 9223372036854775807\n"),
            Ok(vec![("t.a-b", 0, 500), ("u", 17, i64::MAX)])
        );
        assert_eq!((parse_kafkas("0\n0\n"), parse_kafkas("")), (Ok(Vec::new()), Ok(Vec::new())));
        for (text, reason) in [
            ("1\n0\n", "its version is `1`, expected 0"),
            ("0", "its second line is ``, and 0 lines follow"),
            ("0\n2\nt 0 5\n", "its second line is `2`, and 1 lines follow"),
            ("0\n-1\n", "its second line is `-1`, and 0 lines follow"),
            ("0\n1\nt 0\n", "the line `t 0` cannot be parsed"),
            ("0\n1\nt -1 5\n", "the line `t -1 5` cannot be parsed"),
            ("0\n1\nt 0 99999999999999999999\n", "the line `t 0 99999999999999999999` cannot be parsed"),
        ] {
            assert_eq!(parse_kafkas(text), Err(reason.to_owned()));
        }
    }
}
