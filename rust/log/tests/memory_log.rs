//! The fenced log in memory: fences, limits, reading in slices.

use std::sync::Arc;

use rota_log::{Append, BatchKind, Completions, FencedLog, LogError, LogRecord, MemoryLog, Operation, SLICE_RECORDS};

fn record(key: &str) -> LogRecord {
    LogRecord { key: key.as_bytes().to_vec(), value: Some(vec![1]) }
}

fn append(partition: i32, epoch: i32, id: u64, batch: Vec<LogRecord>) -> Append<Vec<LogRecord>> {
    Append { partition, epoch, id, timestamp_ms: 77, kind: BatchKind::Plain, batch }
}

fn open(log: &MemoryLog, partition: i32, epoch: i32) -> Result<i64, LogError> {
    let completions = Completions::new(|| ());
    log.open(partition, epoch, &completions);
    let completion = completions.take().pop().expect("it has ended");
    assert_eq!((completion.partition, completion.epoch, completion.operation), (partition, epoch, Operation::Open));
    completion.result
}

/// Offset, time, key and value of one slice, and where to go on.
type Slice = (Vec<(i64, i64, String, Option<Vec<u8>>)>, i64);

fn slice(log: &MemoryLog, partition: i32, from: i64) -> Slice {
    let mut records = Vec::new();
    let next = log.read(partition, from, &mut |record| {
        let key = String::from_utf8(record.key.to_vec()).unwrap();
        records.push((record.offset, record.timestamp_ms, key, record.value.map(<[u8]>::to_vec)));
    });
    (records, next.unwrap())
}

#[test]
fn an_append_ends_with_its_callers_id_and_reads_back() {
    let (log, completions) = (MemoryLog::new(2, 1_000), Completions::new(|| ()));
    assert_eq!(open(&log, 1, 3), Ok(0));
    log.append(append(1, 3, 42, vec![record("a"), LogRecord { key: b"b".to_vec(), value: None }]), &completions);
    let taken = completions.take();
    assert_eq!(taken.len(), 1);
    assert_eq!((taken[0].partition, taken[0].epoch, taken[0].operation), (1, 3, Operation::Append(42)));
    assert_eq!(taken[0].result, Ok(0));
    assert_eq!(slice(&log, 1, 1), (vec![(1, 77, "b".to_owned(), None)], 2));
    assert_eq!(slice(&log, 1, 2), (vec![], 2));
    assert_eq!(log.read(2, 0, &mut |_| ()), Err(LogError::UnknownPartition { partition: 2 }));
}

#[test]
fn a_slice_has_so_many_records_and_the_next_one_begins_behind_it() {
    let (log, completions) = (MemoryLog::new(1, usize::MAX), Completions::new(|| ()));
    open(&log, 0, 0).unwrap();
    let records = (0..=SLICE_RECORDS).map(|at| record(&at.to_string())).collect();
    log.append(append(0, 0, 0, records), &completions);
    let (records, next) = slice(&log, 0, 0);
    assert_eq!((records.len(), next), (SLICE_RECORDS, SLICE_RECORDS as i64));
    assert_eq!(slice(&log, 0, next).0.len(), 1);
}

#[test]
fn an_older_epoch_is_refused() {
    let (log, completions) = (MemoryLog::new(1, 1_000), Completions::new(|| ()));
    assert_eq!((open(&log, 0, 5), open(&log, 0, 5)), (Ok(0), Ok(0)), "the same epoch may open again");
    let fenced = LogError::Fenced { current_epoch: 5, epoch: 4 };
    assert_eq!(open(&log, 0, 4), Err(fenced.clone()));
    for epoch in [4, 6, 5] {
        log.append(append(0, epoch, 0, vec![record("a")]), &completions);
    }
    let results: Vec<_> = completions.take().into_iter().map(|completion| completion.result).collect();
    assert_eq!(results, [Err(fenced), Err(LogError::UnknownEpoch { current_epoch: 5, epoch: 6 }), Ok(0)]);
}

#[test]
fn what_cannot_be_appended_is_said_by_its_completion() {
    let (log, completions) = (MemoryLog::new(1, 4), Completions::new(|| ()));
    log.append(append(0, 0, 0, vec![record("a")]), &completions);
    open(&log, 0, 0).unwrap();
    log.append(append(0, 0, 1, vec![]), &completions);
    log.append(append(0, 0, 2, vec![record("abcd")]), &completions);
    log.append(append(0, 0, 3, vec![record("abc")]), &completions);
    log.append(append(7, 0, 4, vec![record("a")]), &completions);
    log.append(append(-1, 0, 5, vec![record("a")]), &completions);
    let ended: Vec<_> =
        completions.take().into_iter().map(|completion| (completion.operation, completion.result)).collect();
    let expected = [
        Err(LogError::NotOpen { partition: 0 }),
        Err(LogError::Empty),
        Err(LogError::TooLarge { batch_bytes: 5, limit_bytes: 4 }),
        Ok(0),
        Err(LogError::UnknownPartition { partition: 7 }),
        Err(LogError::UnknownPartition { partition: -1 }),
    ];
    assert_eq!(ended, (0..).map(Operation::Append).zip(expected).collect::<Vec<_>>());
    assert_eq!(open(&log, 1, 0), Err(LogError::UnknownPartition { partition: 1 }));
}

#[test]
fn an_owner_that_attends_is_not_woken_and_one_that_does_not_is_woken_once() {
    let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&woken);
    let completions = Completions::new(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let (log, woken) = (MemoryLog::new(1, 1_000), || woken.load(std::sync::atomic::Ordering::SeqCst));
    completions.attend();
    log.open(0, 0, &completions);
    assert_eq!((woken(), completions.take().len()), (0, 1));
    for id in 0..3 {
        log.append(append(0, 0, id, vec![record("a")]), &completions);
    }
    assert_eq!((woken(), completions.take().len()), (1, 3), "there was something to take already");
    log.append(append(0, 0, 3, vec![record("a")]), &completions);
    assert_eq!(woken(), 2);
}
