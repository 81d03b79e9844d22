//! Entries and chunks are Kafka record batches, as in the segments of a data directory.

use rota_log::{Batch, BatchError, LEADING_BYTES, RecordInPlace, batches, rewrite_header, store::records_in_place};

/// Writes offsets from `base_offset` on and the owner's epoch into whole batches. The same arguments give the same bytes.
pub fn place(bytes: &mut [u8], base_offset: i64, epoch: i32) {
    let (mut at, mut offset) = (0, base_offset);
    while let Ok((batch, _)) = Batch::split(&bytes[at..]) {
        let (size_bytes, count) = (batch.bytes().len(), i64::from(batch.header().last_offset_delta) + 1);
        rewrite_header(&mut bytes[at..at + size_bytes], offset, epoch);
        at += size_bytes;
        offset += count;
        debug_assert!(size_bytes > LEADING_BYTES);
    }
}

/// Visits the records of whole batches from offset `from` on. Returns the offset after the last batch. Errors: a batch is
/// damaged.
pub fn visit(bytes: &[u8], from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, (i64, BatchError)> {
    let mut next = from;
    for batch in batches(bytes) {
        let batch = batch.map_err(|error| (next, error))?;
        let header = batch.header();
        if header.last_offset() < from {
            continue;
        }
        let damaged = |error| (header.base_offset, error);
        batch.check_crc().map_err(damaged)?;
        next = header.last_offset() + 1;
        records_in_place(&batch, from, &mut |_, record| visit(record)).map_err(damaged)?;
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use rota_log::{BatchKind, LogRecord, encode_append};

    use super::*;

    fn encode(records: &[LogRecord], timestamp_ms: i64) -> Vec<u8> {
        encode_append(BatchKind::Plain, timestamp_ms, records).into()
    }

    fn record(key: &str, value: Option<&str>) -> LogRecord {
        LogRecord { key: key.into(), value: value.map(Into::into) }
    }

    #[test]
    fn placed_batches_have_consecutive_offsets_and_the_owners_epoch() {
        let mut bytes = encode(&[record("a", Some("1")), record("b", None)], 5);
        bytes.extend(encode(&[record("c", Some("3"))], 6));
        place(&mut bytes, 100, 7);
        let again = bytes.clone();
        place(&mut bytes, 100, 7);
        assert_eq!(bytes, again, "the same request has the same bytes when it is sent again");
        let headers: Vec<_> = batches(&bytes).map(|batch| *batch.unwrap().header()).collect();
        assert_eq!(headers.iter().map(|header| header.base_offset).collect::<Vec<_>>(), [100, 102]);
        assert!(headers.iter().all(|header| header.leader_epoch == 7));
        let mut seen = Vec::new();
        let next =
            visit(&bytes, 101, &mut |record| seen.push((record.offset, record.key.to_vec(), record.timestamp_ms)));
        assert_eq!(next, Ok(103));
        assert_eq!(seen, [(101, b"b".to_vec(), 5), (102, b"c".to_vec(), 6)]);
    }

    #[test]
    fn a_damaged_batch_is_an_error_at_its_offset() {
        let mut bytes = encode(&[record("a", Some("1"))], 5);
        place(&mut bytes, 40, 1);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(matches!(visit(&bytes, 0, &mut |_| ()), Err((40, BatchError::BadChecksum { .. }))));
    }
}
