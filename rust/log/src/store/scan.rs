//! Reads a partition's directory.

use std::{io, path::Path, sync::Arc};

use crate::Damage;
use crate::files::{Access, Files, read_file};

use super::{
    layout::{self, CLEANED, CheckpointedPartition, SWAP, is_temporary, segment_base},
    segment::{Segment, Walk, segment_path},
};

/// The segments of a partition, with their whole size.
#[derive(Debug, Default)]
pub struct Listed {
    /// Segments, oldest first.
    pub segments: Vec<Arc<Segment>>,
    /// Whether files of a compaction were completed or removed.
    pub names_changed: bool,
}

/// Opens the segments in `dir`. With `writes`, completes or removes files of a compaction; without, opens the segments
/// as they would be then. The inner error: a file of a compaction is damaged.
pub fn list_segments(files: &dyn Files, dir: &Path, writes: bool) -> io::Result<Result<Listed, Damage>> {
    let access = if writes { Access::Write } else { Access::Read };
    let open = |name: &str| -> io::Result<Option<Arc<Segment>>> {
        let stem = name.strip_suffix(&format!(".{SWAP}")).unwrap_or(name);
        let Some(base_offset) = segment_base(stem) else { return Ok(None) };
        let path = dir.join(name);
        // A listed file that is missing was removed meanwhile.
        let file = files.open(&path, access).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!("`{}` was removed while it was read", path.display())),
            _ => error,
        })?;
        let size_bytes = file.size_bytes()?;
        Ok(Some(Arc::new(Segment::new(base_offset, path, file, size_bytes))))
    };
    let mut listed = Listed::default();
    let mut swaps: Vec<Arc<Segment>> = Vec::new();
    for entry in files.list(dir)? {
        if entry.is_dir {
            continue;
        }
        let is_leftover = entry.name.ends_with(CLEANED) || is_temporary(&entry.name);
        if is_leftover && writes {
            files.remove(&dir.join(&entry.name))?;
            listed.names_changed = true;
        } else if entry.name.ends_with(SWAP) {
            swaps.extend(open(&entry.name)?);
        } else if !is_leftover {
            listed.segments.extend(open(&entry.name)?);
        }
    }
    listed.segments.sort_by_key(|segment| segment.base_offset);
    for swap in swaps {
        let mut walk = Walk::new(&swap, 0, swap.readable_bytes());
        loop {
            match walk.next(true) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(damage) => return Ok(Err(damage)),
            }
        }
        let next_offset = walk.next_offset;
        let base_offset = swap.base_offset;
        let is_replaced = |other: i64| other == base_offset || (base_offset < other && other < next_offset);
        if writes {
            let replaced = listed.segments.iter().filter(|segment| is_replaced(segment.base_offset));
            for segment in replaced.filter(|segment| segment.base_offset != base_offset) {
                files.remove(&segment.path)?;
            }
            files.sync_dir(dir)?;
            files.rename(&swap.path, &segment_path(dir, base_offset))?;
            files.sync_dir(dir)?;
            listed.names_changed = true;
        }
        listed.segments.retain(|segment| !is_replaced(segment.base_offset));
        let at = listed.segments.partition_point(|segment| segment.base_offset < base_offset);
        let path = if writes { segment_path(dir, base_offset) } else { swap.path.clone() };
        let segment = Segment::new(base_offset, path, Arc::clone(&swap.file), swap.readable_bytes());
        listed.segments.insert(at, Arc::new(segment));
    }
    Ok(Ok(listed))
}

/// Returns the offset after the whole batches that a directory has; 0 if it cannot be read, or is damaged.
pub fn whole_until(files: &dyn Files, dir: &Path) -> i64 {
    let Ok(Ok(listed)) = list_segments(files, dir, false) else { return 0 };
    let unknown = CheckpointedPartition::unknown("", 0, 0);
    scan_tail(dir, &listed.segments, &unknown).map_or(0, |tail| tail.next_offset)
}

/// Returns the topic id that a partition's directory names; `None` if it cannot be read.
pub fn stored_topic_id(files: &dyn Files, dir: &Path) -> Option<u128> {
    let metadata = read_file(files, &dir.join(layout::PARTITION_METADATA)).ok().flatten()?;
    layout::topic_id_in(&String::from_utf8_lossy(&metadata))
}

/// The end of the whole batches of a partition.
#[derive(Debug, PartialEq, Eq)]
pub struct Tail {
    /// Number of remaining segments.
    pub segments: usize,
    /// Size of the last one in bytes.
    pub active_bytes: u64,
    /// Offset after the last record.
    pub next_offset: i64,
}

/// Scans the segments written since `known`, or without it the newest segment with content. Errors: a damaged batch
/// before a valid one, or bytes missing before `known`.
pub fn scan_tail(dir: &Path, segments: &[Arc<Segment>], known: &CheckpointedPartition) -> Result<Tail, Damage> {
    let is_known = known.segment_bytes > 0 || known.next_offset > 0;
    let start = if is_known {
        segments.partition_point(|segment| segment.base_offset < known.segment_base)
    } else {
        segments.iter().rposition(|segment| segment.readable_bytes() > 0).unwrap_or(0)
    };
    let missing = || {
        let file = segment_path(dir, known.segment_base);
        Damage { file, position: 0, offset: known.segment_base, reason: "it is missing".to_owned() }
    };
    let has_records = known.segment_bytes > 0 || known.segment_base < known.next_offset;
    if has_records && segments.get(start).is_none_or(|segment| segment.base_offset != known.segment_base) {
        // Later segments would hide that its records are gone.
        return Err(missing());
    }
    let mut tail = Tail { segments: 0, active_bytes: 0, next_offset: known.next_offset };
    if segments.is_empty() && !is_known {
        return Ok(tail);
    }
    if let Some(first) = segments.get(start).filter(|_| !is_known) {
        tail.next_offset = first.base_offset;
    }
    for (at, segment) in segments.iter().enumerate().skip(start) {
        let from = if is_known && segment.base_offset == known.segment_base { known.segment_bytes } else { 0 };
        let end = segment.readable_bytes();
        if end < from {
            let reason = format!("it has {end} bytes, but {from} were there at the last checkpoint");
            return Err(segment.damage(end, known.next_offset, reason));
        }
        let mut walk = Walk::new(segment, from, end);
        walk.next_offset = walk.next_offset.max(tail.next_offset);
        let bad = loop {
            match walk.next(true) {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(damage) => break Some(damage),
            }
        };
        tail = Tail { segments: at + 1, active_bytes: walk.position, next_offset: walk.next_offset };
        if let Some(damage) = bad {
            let later_segments = segments[at + 1..].iter().any(|later| later.readable_bytes() > 0);
            // A batch with a valid checksum is complete.
            let is_whole = walk.goes_on_at(i64::MIN, i64::MAX);
            if later_segments || is_whole || walk.has_later_batch().unwrap_or(true) {
                return Err(damage);
            }
            break;
        }
    }
    if tail.segments == 0 && is_known {
        return Err(missing());
    }
    Ok(tail)
}
