//! Batches of a topic in write-ahead files, for read-only access. After a power failure, segments may lack them; the
//! next start of a server completes the segments.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use crate::{batch::batches, files::Files};

use super::{
    layout::{wal_name, wal_number},
    wal::{WalEntry, read_wal, wrong},
};

/// A batch in a write-ahead file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The partition of the topic.
    pub partition: i32,
    /// The write-ahead file.
    pub path: PathBuf,
    /// Position of the batch's first byte.
    pub start: u64,
    /// Position after its last byte.
    pub end: u64,
    /// Offset of the first record.
    pub first_offset: i64,
    /// The offset after its last record.
    pub next_offset: i64,
    /// The newest timestamp of the records, in wall milliseconds.
    pub newest_ms: i64,
    /// Number of records, from the header.
    pub records: u64,
}

/// Finds the batches of `topic` in the write-ahead files of `dir`, those of each partition by offset. Files without
/// data give none. Errors: `InvalidData` for a file damaged before its end, and errors of reading.
pub fn ahead(files: &dyn Files, dir: &Path, topic: &str) -> io::Result<Vec<Ahead>> {
    let mut numbers: Vec<u64> = files.list(dir)?.iter().filter_map(|entry| wal_number(&entry.name)).collect();
    numbers.sort_unstable();
    let mut found: Vec<Ahead> = Vec::new();
    for name in numbers.into_iter().map(wal_name) {
        let path = dir.join(&name);
        // A file without a header was being created.
        let Some(wal) = read_wal(files, &path)? else { continue };
        if let Some(at) = wal.damaged_at {
            return Err(wrong(format!("the frame at byte {at} of `{name}` is wrong, and later ones are not")));
        }
        // Handles of partitions of other topics map to no number.
        let mut partitions: HashMap<u32, Option<i32>> = HashMap::new();
        for entry in wal.entries() {
            let (entry_end, entry) = entry?;
            match entry {
                WalEntry::Declare { handle, topic: declared, partition, .. } => {
                    partitions.insert(handle, (declared == topic).then_some(partition));
                }
                WalEntry::Delete { handle } => {
                    let gone = partitions.get(&handle).copied().flatten();
                    found.retain(|one| gone != Some(one.partition));
                }
                WalEntry::Batches { handle, bytes, .. } => match partitions.get(&handle) {
                    Some(Some(partition)) => {
                        let start = entry_end - bytes.len() as u64;
                        placed(&mut found, bytes, start, *partition, &path)?;
                    }
                    Some(None) => {}
                    None => return Err(wrong(format!("`{name}` names a partition that was not declared"))),
                },
                WalEntry::Epoch { .. } => {}
            }
        }
    }
    Ok(found)
}

/// Adds the batches in `bytes`, which start at position `start` of the file.
fn placed(found: &mut Vec<Ahead>, bytes: &[u8], mut start: u64, partition: i32, path: &Path) -> io::Result<()> {
    for batch in batches(bytes) {
        let batch = batch.map_err(|reason| wrong(format!("at byte {start} of `{}`: {reason}", path.display())))?;
        let header = batch.header();
        let end = start + header.size_bytes() as u64;
        found.push(Ahead {
            partition,
            path: path.to_owned(),
            start: std::mem::replace(&mut start, end),
            end,
            first_offset: header.base_offset,
            next_offset: header.last_offset().saturating_add(1),
            newest_ms: header.max_timestamp_ms,
            records: u64::try_from(header.record_count).unwrap_or(0),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BatchWriter, Histogram,
        files::{Access, ForgetfulFiles, read_up_to},
        store::wal::Wal,
    };

    fn batch(base_offset: i64, records: i64) -> Vec<u8> {
        let mut batch = BatchWriter::default();
        batch.base_offset = base_offset;
        for record in 0..records {
            batch.push(1_000 + base_offset + record, Some(b"key"), None);
        }
        batch.finish().to_vec()
    }

    /// A write-ahead file of `groups` 0 and 1 and of `other`, a frame for each of these rows of entries.
    fn written(frames: &[&[WalEntry<'_>]]) -> ForgetfulFiles {
        let files = ForgetfulFiles::new(64);
        let mut wal = Wal::create(&files, Path::new(""), 3, 40, true, 256).unwrap();
        for entries in frames {
            let mut payload = Vec::new();
            entries.iter().for_each(|entry| entry.write(&mut payload));
            wal.reserve(payload.len()).unwrap();
            wal.append(&payload, Some(&mut Histogram::default())).unwrap();
        }
        files
    }

    fn declare(handle: u32, topic: &str, partition: i32) -> WalEntry<'_> {
        WalEntry::Declare { handle, topic, partition, topic_id: 0 }
    }

    #[test]
    fn batches_are_found_where_they_lie() {
        let (both, later, others) = ([batch(5, 2), batch(7, 1)].concat(), batch(8, 3), batch(0, 1));
        let of = |handle, bytes| WalEntry::Batches { handle, segment_base: 0, bytes };
        let files = written(&[
            &[declare(4, "groups", 1), declare(5, "other", 1), of(5, &others), of(4, &both)],
            &[WalEntry::Epoch { handle: 4, epoch: 1, start_offset: 8 }, of(4, &later)],
        ]);
        let found = ahead(&files, Path::new(""), "groups").unwrap();
        let offsets: Vec<_> = found.iter().map(|one| (one.partition, one.first_offset, one.next_offset)).collect();
        assert_eq!(offsets, [(1, 5, 7), (1, 7, 8), (1, 8, 11)]);
        assert_eq!((found[2].newest_ms, found[2].records), (1_010, 3));
        let mut bytes = Vec::new();
        for one in &found {
            let mut piece = vec![0; (one.end - one.start) as usize];
            let file = files.open(&one.path, Access::Read).unwrap();
            assert_eq!(read_up_to(file.as_ref(), &mut piece, one.start).unwrap(), piece.len());
            bytes.extend(piece);
        }
        assert_eq!(bytes, [both, later].concat());
    }

    #[test]
    fn a_partition_that_was_deleted_has_none() {
        let some = batch(0, 1);
        let of = |handle| WalEntry::Batches { handle, segment_base: 0, bytes: &some };
        let names = [declare(1, "groups", 1), declare(2, "groups", 2)];
        let files = written(&[&names, &[of(1), of(2)], &[WalEntry::Delete { handle: 1 }]]);
        let found = ahead(&files, Path::new(""), "groups").unwrap();
        assert_eq!(found.iter().map(|one| one.partition).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn entries_that_nothing_was_said_of_and_batches_that_are_none_are_named() {
        let batches = |bytes| WalEntry::Batches { handle: 4, segment_base: 0, bytes };
        let (good, mut bad) = (batch(0, 1), batch(1, 1));
        bad[16] = 9;
        for (entries, words) in
            [(vec![batches(&good)], "was not declared"), (vec![declare(4, "groups", 0), batches(&bad)], "at byte")]
        {
            let error = ahead(&written(&[&entries]), Path::new(""), "groups").unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_damaged_file_is_named() {
        let files = written(&[&[declare(1, "groups", 1)], &[declare(2, "groups", 2)]]);
        files.damage(Path::new(&wal_name(3)), |bytes| bytes[60] ^= 1).unwrap();
        let error = ahead(&files, Path::new(""), "groups").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("the frame at byte 32 of `rota.wal.0000000003`"), "{error}");
    }
}
