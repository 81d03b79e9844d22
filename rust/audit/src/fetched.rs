//! The rows of what a broker sends to a client: records one by one, or whole batches.

use std::collections::{HashSet, VecDeque};

use rota_log::{Batch, BatchError, BatchHeader, EndMarker};
use rota_promises::Columns;

use crate::reader::{Position, RangeReader};

/// A record as a client gets it from a broker.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Its key.
    pub key: &'a [u8],
    /// Its value; `None`: a tombstone.
    pub value: Option<&'a [u8]>,
}

/// Returns the rows of records of `__consumer_offsets`. With a `first_offset` they are consecutive records of one
/// partition from there on: offsets without a record have rows, too.
pub fn decode<'a>(first_offset: Option<i64>, records: impl IntoIterator<Item = Fetched<'a>>) -> Columns {
    let mut reader = RangeReader::of_offsets(first_offset.unwrap_or_default(), i64::MAX);
    for Fetched { offset, at_ms, key, value } in records {
        if first_offset.is_some() {
            reader.advance(offset);
        }
        reader.next_offset = offset.saturating_add(1);
        reader.read_record(&Position { offset, at_ms, key, value, note: None });
    }
    reader.into_columns()
}

/// What the headers of fetched batches say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The offset behind the last whole batch.
    pub next_offset: i64,
    /// The epoch of the leader that wrote the last whole batch.
    pub leader_epoch: i32,
}

/// Returns how far fetched batches reach; `None` without a whole batch. A broker cuts the last batch off anywhere.
/// Errors: those of [`Batch::split`], except `Truncated`.
pub fn extent(bytes: &[u8]) -> Result<Option<Extent>, BatchError> {
    let mut found = None;
    let mut rest = bytes;
    while let Some((batch, after)) = next_batch(rest)? {
        let BatchHeader { leader_epoch, .. } = *batch.header();
        found = Some(Extent { next_offset: batch.header().last_offset().saturating_add(1), leader_epoch });
        rest = after;
    }
    Ok(found)
}

fn next_batch(bytes: &[u8]) -> Result<Option<(Batch<'_>, &[u8])>, BatchError> {
    match Batch::split(bytes) {
        Ok(found) => Ok(Some(found)),
        Err(BatchError::Truncated { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the rows of the offsets from `first_offset` to before `end_offset` in fetched batches of a partition of
/// `__consumer_offsets`. `aborted` has the aborted transactions among them, as (producer id, first offset).
///
/// Markers, and records of aborted transactions, have no rows. Offsets without a batch have a row that counts them.
pub fn decode_batches(bytes: &[u8], first_offset: i64, end_offset: i64, aborted: Vec<(i64, i64)>) -> Columns {
    let mut reader = RangeReader::of_offsets(first_offset, end_offset);
    let mut aborted = Aborted::new(aborted);
    let mut rest = bytes;
    while reader.next_offset < end_offset {
        match next_batch(rest) {
            Ok(Some((batch, after))) => {
                let is_aborted = aborted.has(&batch);
                reader.read_fetched(&batch, is_aborted);
                rest = after;
            }
            Ok(None) => break,
            Err(error) => {
                reader.note("unreadable", &format!("the broker sent bytes that are no batch: {error}"));
                return reader.into_columns();
            }
        }
    }
    reader.advance(end_offset);
    reader.into_columns()
}

/// The aborted transactions of a fetch, batch by batch.
struct Aborted {
    /// Those that have not begun yet, by first offset.
    later: VecDeque<(i64, i64)>,
    /// Producers in the middle of one.
    producers: HashSet<i64>,
}

impl Aborted {
    fn new(mut transactions: Vec<(i64, i64)>) -> Aborted {
        transactions.sort_by_key(|(_, first_offset)| *first_offset);
        Aborted { later: transactions.into(), producers: HashSet::new() }
    }

    /// Whether the records of the next batch belong to an aborted transaction.
    fn has(&mut self, batch: &Batch<'_>) -> bool {
        let header = batch.header();
        while let Some((producer_id, first_offset)) = self.later.front()
            && *first_offset <= header.last_offset()
        {
            self.producers.insert(*producer_id);
            self.later.pop_front();
        }
        if header.is_control() {
            if matches!(EndMarker::read(batch), Ok(Some(EndMarker { is_commit: false, .. }))) {
                self.producers.remove(&header.producer_id);
            }
            return false;
        }
        header.is_transactional() && self.producers.contains(&header.producer_id)
    }
}
