//! Look-ups by time in a partition. There is no index of times: batches are read, within a limit.

use crate::{
    batch::Batch,
    error::{Damage, LogError},
    partition_log::{TimestampedOffset, find_in_batch, whole_batch},
};

use super::{
    segment::{Segment, Walk},
    view::PartitionView,
};

/// Finds a record in a batch.
type Sought<'s> = &'s mut dyn FnMut(&Batch<'_>, &mut usize) -> Option<TimestampedOffset>;

impl PartitionView {
    /// Returns the offset before which all records are older than `oldest_ms`, at the precision of segments; the end if all
    /// are. Errors: `Damaged`.
    pub fn older_than(&self, oldest_ms: i64) -> Result<i64, LogError> {
        // First: what is appended from here on is not older.
        let end_offset = self.next_offset();
        for segment in self.segments().iter() {
            let is_empty = segment.readable_bytes() == 0;
            if is_empty || aged_from_ms(segment, oldest_ms).map_err(|damage| self.damaged(damage))? >= oldest_ms {
                return Ok(segment.base_offset.min(end_offset));
            }
        }
        Ok(end_offset)
    }

    /// Finds the first durable record with a timestamp of at least `timestamp_ms`. Subtracts the bytes of batches that it
    /// reads, and those of decompressed records, from `bytes_left`. Once these are used up, the result is the first offset of
    /// the batch that would be read next, whose records may be older. Of a batch that cannot be decompressed, it is the first
    /// offset, too. Passes over finished segments that are known to be older. Errors: `Damaged`.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
        bytes_left: &mut usize,
    ) -> Result<Option<TimestampedOffset>, LogError> {
        let (first_offset, segments) = (self.first_offset(), self.segments());
        let mut find =
            |batch: &Batch<'_>, bytes_left: &mut usize| find_in_batch(batch, timestamp_ms, first_offset, bytes_left);
        for (at, segment) in segments.iter().enumerate() {
            let end_offset = segments.get(at + 1).map(|next| next.base_offset);
            let is_below = end_offset.is_some_and(|end| end <= first_offset);
            let newest_ms =
                if end_offset.is_some() && !is_below { self.newest_within(segment, bytes_left)? } else { None };
            if is_below || newest_ms.is_some_and(|newest_ms| newest_ms < timestamp_ms) {
                continue;
            }
            let found =
                walk_within(segment, first_offset, bytes_left, &mut find).map_err(|damage| self.damaged(damage))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Finds the first durable record with the greatest timestamp, looking at the newest segments first. `bytes_left` as for
    /// [`PartitionView::offset_for_timestamp`]: once these are used up, it is the greatest timestamp of the segments that were
    /// read. Errors: `Damaged`.
    pub fn offset_of_max_timestamp(&self, bytes_left: &mut usize) -> Result<Option<TimestampedOffset>, LogError> {
        let (first_offset, segments) = (self.first_offset(), self.segments());
        let mut newest: Option<(i64, &Segment)> = None;
        for (at, segment) in segments.iter().enumerate().rev() {
            let end_offset = segments.get(at + 1).map(|next| next.base_offset);
            if end_offset.is_some_and(|end| end <= first_offset) {
                break;
            }
            let is_whole = end_offset.is_some() && segment.base_offset >= first_offset;
            let known_ms = if is_whole { self.newest_within(segment, bytes_left)? } else { None };
            let newest_ms = match known_ms {
                Some(known_ms) => Some(known_ms),
                None => newest_read(segment, first_offset, bytes_left).map_err(|damage| self.damaged(damage))?,
            };
            // Of equal ones the first counts.
            if let Some(newest_ms) = newest_ms
                && newest.is_none_or(|(other_ms, _)| newest_ms >= other_ms)
            {
                newest = Some((newest_ms, segment));
            }
            if *bytes_left == 0 {
                break;
            }
        }
        let Some((newest_ms, segment)) = newest else { return Ok(None) };
        let mut find =
            |batch: &Batch<'_>, bytes_left: &mut usize| find_in_batch(batch, newest_ms, first_offset, bytes_left);
        walk_within(segment, first_offset, bytes_left, &mut find).map_err(|damage| self.damaged(damage))
    }

    /// Returns the newest timestamp of a finished segment; `None`: it is not known, and reading the segment would take more than
    /// `bytes_left`.
    fn newest_within(&self, segment: &Segment, bytes_left: &mut usize) -> Result<Option<i64>, LogError> {
        if let Some(known_ms) = segment.known_newest_ms() {
            return Ok(Some(known_ms));
        }
        let Some(left) = usize::try_from(segment.readable_bytes()).ok().and_then(|bytes| bytes_left.checked_sub(bytes))
        else {
            return Ok(None);
        };
        *bytes_left = left;
        segment.newest_timestamp_ms().map(Some).map_err(|damage| self.damaged(damage))
    }
}

/// Returns the time by which a segment ages, as far as it matters to whether it is before `oldest_ms`: its newest timestamp, or,
/// as in Kafka, when its file was changed last if no message has a timestamp.
fn aged_from_ms(segment: &Segment, oldest_ms: i64) -> Result<i64, Damage> {
    let newest_ms = segment.newest_up_to(oldest_ms)?;
    if newest_ms >= 0 {
        return Ok(newest_ms);
    }
    segment.file.modified_ms().map_err(|error| segment.damage(0, segment.base_offset, error))
}

/// Returns the greatest timestamp of the batches from `first_offset` on that `bytes_left` allows to read.
fn newest_read(segment: &Segment, first_offset: i64, bytes_left: &mut usize) -> Result<Option<i64>, Damage> {
    let mut newest_ms = None;
    let mut walk = Walk::new(segment, 0, segment.readable_bytes()).in_chunks(*bytes_left);
    while *bytes_left > 0 {
        let Some((_, batch)) = walk.next(false)? else { break };
        *bytes_left = bytes_left.saturating_sub(batch.bytes().len());
        let header = batch.header();
        newest_ms = newest_ms.max((header.last_offset() >= first_offset).then_some(header.max_timestamp_ms));
    }
    Ok(newest_ms)
}

/// Returns what `find` finds first in the batches of a segment; once `bytes_left` are used up, the first offset of the next
/// batch that has records from `first_offset` on.
fn walk_within(
    segment: &Segment,
    first_offset: i64,
    bytes_left: &mut usize,
    find: Sought<'_>,
) -> Result<Option<TimestampedOffset>, Damage> {
    let position = if *bytes_left == 0 { segment.seek(first_offset.max(segment.base_offset))? } else { 0 };
    let mut walk = Walk::new(segment, position, segment.readable_bytes()).in_chunks(*bytes_left);
    loop {
        if *bytes_left == 0 {
            let next = walk.next_header()?;
            return Ok(next.map(|header| whole_batch(&header, first_offset)));
        }
        let Some((_, batch)) = walk.next(false)? else { return Ok(None) };
        *bytes_left = bytes_left.saturating_sub(batch.bytes().len());
        if let Some(found) = find(&batch, bytes_left) {
            return Ok(Some(found));
        }
    }
}
