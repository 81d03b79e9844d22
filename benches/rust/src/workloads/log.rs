//! Offset records on their way into the log and back.

use bytes::Bytes;
use rota_core::{Config, Coordinator, LogEntry, Record, SelfCheck, records::OffsetValue};
use rota_log::{BatchWriter, batches};

use crate::measured;

const RECORDS: u64 = 4_096;
const RECORDS_A_BATCH: usize = 16;
const GROUPS: u64 = 64;
const TIMESTAMP_MS: i64 = 1_700_000_000_000;
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// A batch is one commit: partitions of one topic for one group.
fn records() -> Vec<Record> {
    let commit_records = RECORDS_A_BATCH as u64;
    let record = |at: u64| Record::Offset {
        group_id: format!("group-{}", at / commit_records % GROUPS).into(),
        topic: "orders".into(),
        partition: (at / commit_records / GROUPS * commit_records + at % commit_records) as i32,
        value: Some(OffsetValue {
            offset: at as i64,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: TIMESTAMP_MS,
            expire_timestamp_ms: None,
            topic_id: 1,
        }),
    };
    (0..RECORDS).map(record).collect()
}

fn written(records: &[Record]) -> Vec<Bytes> {
    let batch = |(at, records): (usize, &[Record])| {
        let mut batch = BatchWriter::default();
        batch.base_offset = (at * RECORDS_A_BATCH) as i64;
        for record in records {
            batch.push(TIMESTAMP_MS, Some(&record.key_bytes()), record.value_bytes().as_deref());
        }
        batch.finish()
    };
    records.chunks(RECORDS_A_BATCH).enumerate().map(batch).collect()
}

fn read(segment: &[u8]) -> Vec<LogEntry> {
    let mut entries = Vec::with_capacity(RECORDS as usize);
    for batch in batches(segment) {
        let batch = batch.expect("a batch");
        batch.check_crc().expect("its checksum");
        let payload = batch.payload(PAYLOAD_BYTES_MAX).expect("its payload");
        for record in batch.records_in(&payload) {
            let record = record.expect("a record");
            let decoded = Record::decode(record.key.expect("a key"), record.value).expect("an offset");
            entries.push(LogEntry {
                offset: batch.offset(&record) as u64,
                timestamp_ms: batch.timestamp_ms(&record),
                record: decoded,
            });
        }
    }
    entries
}

/// Key, value, batch, checksum.
pub fn append() -> u64 {
    let records = records();
    let batches = measured(|| written(&records));
    assert!(batches.len() == records.len() / RECORDS_A_BATCH, "batches of {RECORDS_A_BATCH}");
    RECORDS
}

/// Batch, checksum, key, value.
pub fn decode() -> u64 {
    let segment = written(&records()).concat();
    let entries = measured(|| read(&segment));
    entries.len() as u64
}

/// Into an empty coordinator, as commits leave them: those of one group together.
pub fn replay() -> u64 {
    replayed(|at| at)
}

/// The same, but each of another group than the one before.
pub fn replay_mixed() -> u64 {
    const BATCHES: u64 = RECORDS / RECORDS_A_BATCH as u64;
    replayed(|at| at % BATCHES * RECORDS_A_BATCH as u64 + at / BATCHES)
}

fn replayed(order: fn(u64) -> u64) -> u64 {
    let entries = read(&written(&records()).concat());
    let entries: Vec<&LogEntry> = (0..RECORDS).map(|at| &entries[order(at) as usize]).collect();
    let mut coordinator = Coordinator::new(Config::default(), 0, 0);
    coordinator.check_itself(SelfCheck::Never);
    measured(|| entries.iter().for_each(|entry| coordinator.replay(entry)));
    assert!(coordinator.offset_count() == entries.len(), "every offset is there");
    entries.len() as u64
}
