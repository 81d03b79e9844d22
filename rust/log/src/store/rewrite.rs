//! Rewrites a batch without some of its records, like Kafka's cleaner: offsets, producer and sequence stay, and the
//! last offset stays even without its record.

use crate::{
    batch::{Batch, BatchError, HEADER_BYTES, LEADING_BYTES},
    records::RecordView,
    writer::put_varlong,
};

use super::view::PAYLOAD_BYTES_MAX;

const COMPRESSION_MASK: i16 = 0x07;
const DELETE_HORIZON: i16 = 0x40;

/// The result of rewriting a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// The batch is unchanged.
    Same,
    /// No record remains.
    Gone,
    /// The new batch.
    Changed(Vec<u8>),
}

/// Keeps the records that `keep` selects. A batch with tombstones or markers and no delete horizon gets `horizon_ms`. A changed
/// batch is uncompressed.
pub fn rewrite(
    batch: &Batch<'_>,
    horizon_ms: i64,
    mut keep: impl FnMut(&RecordView<'_>) -> bool,
) -> Result<Rewritten, BatchError> {
    let header = batch.header();
    let payload = batch.payload(PAYLOAD_BYTES_MAX)?;
    let mut kept: Vec<RecordView<'_>> = Vec::new();
    for record in batch.records_in(&payload) {
        let record = record?;
        if keep(&record) {
            kept.push(record);
        }
    }
    if kept.is_empty() {
        return Ok(Rewritten::Gone);
    }
    let can_end = header.is_control() || kept.iter().any(|record| record.value.is_none());
    let needs_horizon = header.delete_horizon_ms().is_none() && can_end;
    if !needs_horizon && kept.len() as i64 == i64::from(header.record_count) {
        return Ok(Rewritten::Same);
    }
    let base_timestamp_ms = if needs_horizon { horizon_ms } else { header.base_timestamp_ms };
    let mut records = Vec::with_capacity(payload.len() + 16);
    let mut body = Vec::new();
    let mut max_timestamp_ms = i64::MIN;
    for record in &kept {
        let timestamp_ms = header.base_timestamp_ms.saturating_add(record.timestamp_delta_ms);
        max_timestamp_ms = max_timestamp_ms.max(timestamp_ms);
        body.clear();
        body.push(0);
        put_varlong(&mut body, timestamp_ms.saturating_sub(base_timestamp_ms));
        put_varlong(&mut body, i64::from(record.offset_delta));
        body.extend_from_slice(record.encoded);
        put_varlong(&mut records, body.len() as i64);
        records.extend_from_slice(&body);
    }
    if header.is_log_append_time() {
        max_timestamp_ms = header.max_timestamp_ms;
    }
    let attributes = header.attributes & !COMPRESSION_MASK | if needs_horizon { DELETE_HORIZON } else { 0 };
    let mut summed = Vec::with_capacity(HEADER_BYTES + records.len());
    summed.extend(attributes.to_be_bytes());
    summed.extend(header.last_offset_delta.to_be_bytes());
    summed.extend(base_timestamp_ms.to_be_bytes());
    summed.extend(max_timestamp_ms.to_be_bytes());
    summed.extend(header.producer_id.to_be_bytes());
    summed.extend(header.producer_epoch.to_be_bytes());
    summed.extend(header.base_sequence.to_be_bytes());
    summed.extend((kept.len() as i32).to_be_bytes());
    summed.extend(records);
    let mut written = Vec::with_capacity(HEADER_BYTES + summed.len());
    written.extend(header.base_offset.to_be_bytes());
    written.extend(((summed.len() + LEADING_LENGTH_BYTES) as i32).to_be_bytes());
    written.extend(header.leader_epoch.to_be_bytes());
    written.push(2);
    written.extend(crc32c::crc32c(&summed).to_be_bytes());
    written.extend(summed);
    Ok(Rewritten::Changed(written))
}

/// Leader epoch, magic and checksum: counted by the length field, before the bytes of the checksum.
const LEADING_LENGTH_BYTES: usize = 21 - LEADING_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchWriter;

    fn three() -> bytes::Bytes {
        let mut writer = BatchWriter::default();
        (writer.base_offset, writer.leader_epoch) = (100, 7);
        writer.push(1_000, Some(b"a"), Some(b"1"));
        writer.push(1_005, Some(b"b"), None);
        writer.push(1_002, Some(b"c"), Some(b"3"));
        writer.finish()
    }

    fn split(bytes: &[u8]) -> Batch<'_> {
        let (batch, rest) = Batch::split(bytes).unwrap();
        assert!(rest.is_empty() && batch.check_crc().is_ok());
        batch
    }

    #[test]
    fn a_batch_without_some_records_keeps_offsets_and_times() {
        let bytes = three();
        let Rewritten::Changed(changed) = rewrite(&split(&bytes), 9_000, |record| record.key == Some(b"c")).unwrap()
        else {
            panic!("two records went")
        };
        let batch = split(&changed);
        let header = batch.header();
        assert_eq!(
            (header.base_offset, header.last_offset(), header.record_count, header.leader_epoch),
            (100, 102, 1, 7)
        );
        assert_eq!((header.max_timestamp_ms, header.delete_horizon_ms()), (1_002, None));
        let payload = batch.payload(1_000).unwrap();
        let record = batch.records_in(&payload).next().unwrap().unwrap();
        assert_eq!((batch.offset(&record), batch.timestamp_ms(&record), record.value), (102, 1_002, Some(&b"3"[..])));
    }

    #[test]
    fn a_tombstone_gives_its_batch_a_horizon_once() {
        let bytes = three();
        let Rewritten::Changed(changed) = rewrite(&split(&bytes), 9_000, |_| true).unwrap() else {
            panic!("the horizon is new")
        };
        let batch = split(&changed);
        assert_eq!(batch.header().delete_horizon_ms(), Some(9_000));
        let payload = batch.payload(1_000).unwrap();
        let times: Vec<_> = batch.records_in(&payload).map(|record| batch.timestamp_ms(&record.unwrap())).collect();
        assert_eq!(times, [1_000, 1_005, 1_002]);
        assert_eq!(rewrite(&batch, 99_000, |_| true), Ok(Rewritten::Same));
        assert_eq!(rewrite(&batch, 99_000, |_| false), Ok(Rewritten::Gone));
    }
}
