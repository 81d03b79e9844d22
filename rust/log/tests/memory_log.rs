//! The fenced log in memory: fences, order, and the faults that it makes on demand.

use proptest::prelude::*;
use rota_log::{Completion, FencedLog, LogAppendId, LogError, LogRecord, MemoryLog, StoredRecord};

const NOT_ENOUGH_REPLICAS: LogError = LogError::Failed { code: 19 };

fn record(key: &str) -> LogRecord {
    LogRecord { key: key.as_bytes().to_vec(), value: Some(vec![1]) }
}

fn opened(partitions: u32) -> MemoryLog {
    let mut log = MemoryLog::new(partitions, 1_000);
    for partition in 0..partitions as i32 {
        assert_eq!(log.open(partition, 0), Ok(0));
    }
    log
}

fn keys(log: &MemoryLog, partition: i32) -> Vec<String> {
    let records = log.read(partition, 0, usize::MAX).unwrap();
    records.into_iter().map(|stored| String::from_utf8(stored.record.key).unwrap()).collect()
}

fn ended(log: &mut MemoryLog) -> Vec<(u64, Result<i64, LogError>)> {
    log.completions().into_iter().map(|done| (done.append_id.0, done.result)).collect()
}

#[test]
fn an_append_is_durable_after_the_flush_and_reads_back_typed() {
    let mut log = opened(2);
    let append_id = log.append(1, 0, 77, vec![record("a"), LogRecord { key: b"b".to_vec(), value: None }]);
    assert_eq!((log.completions(), log.read(1, 0, 9)), (vec![], Ok(vec![])));
    log.flush();
    assert_eq!(log.completions(), [Completion { partition: 1, append_id, result: Ok(0) }]);
    let read = log.read(1, 1, 9).unwrap();
    let tombstone = LogRecord { key: b"b".to_vec(), value: None };
    assert_eq!(read, [StoredRecord { offset: 1, timestamp_ms: 77, epoch: 0, batch_base_offset: 0, record: tombstone }]);
    log.append(1, 0, 78, vec![record("c")]);
    log.flush();
    assert_eq!(ended(&mut log), [(1, Ok(2))]);
    assert_eq!(log.read(1, 0, 2).unwrap().len(), 2);
}

#[test]
fn an_older_epoch_is_refused_and_its_queued_appends_never_become_durable() {
    let mut log = opened(1);
    log.hold();
    log.append(0, 0, 0, vec![record("old")]);
    log.flush();
    assert_eq!(log.open(0, 5), Ok(0));
    assert_eq!(log.open(0, 4), Err(LogError::Fenced { current_epoch: 5, epoch: 4 }));
    log.append(0, 0, 0, vec![record("older still")]);
    log.append(0, 6, 0, vec![record("from the future")]);
    log.append(0, 5, 0, vec![record("new")]);
    log.flush();
    assert_eq!(log.release_all(), 4);
    let fenced = LogError::Fenced { current_epoch: 5, epoch: 0 };
    let unknown = LogError::UnknownEpoch { current_epoch: 5, epoch: 6 };
    assert_eq!(ended(&mut log), [(0, Err(fenced.clone())), (1, Err(fenced)), (2, Err(unknown)), (3, Ok(0))]);
    assert_eq!(keys(&log, 0), ["new"]);
    assert_eq!(log.open(0, 5), Ok(1), "the same epoch may open again");
}

#[test]
fn what_cannot_be_appended_is_told_by_its_completion() {
    let mut log = MemoryLog::new(1, 4);
    log.append(0, 0, 0, vec![record("a")]);
    log.open(0, 0).unwrap();
    log.append(0, 0, 0, vec![]);
    log.append(0, 0, 0, vec![record("abcd")]);
    log.append(0, 0, 0, vec![record("abc")]);
    log.append(7, 0, 0, vec![record("a")]);
    log.append(-1, 0, 0, vec![record("a")]);
    log.flush();
    assert_eq!(
        ended(&mut log),
        [
            (0, Err(LogError::NotOpen { partition: 0 })),
            (1, Err(LogError::Empty)),
            (2, Err(LogError::TooLarge { batch_bytes: 5, limit_bytes: 4 })),
            (3, Ok(0)),
            (4, Err(LogError::UnknownPartition { partition: 7 })),
            (5, Err(LogError::UnknownPartition { partition: -1 })),
        ]
    );
    assert_eq!(log.open(1, 0), Err(LogError::UnknownPartition { partition: 1 }));
}

#[test]
fn held_appends_wait_for_their_release_one_by_one() {
    let mut log = opened(2);
    log.hold();
    for (partition, key) in [(0, "a"), (1, "b"), (0, "c"), (1, "d")] {
        log.append(partition, 0, 0, vec![record(key)]);
    }
    log.flush();
    assert_eq!((log.pending(), log.has_completions(), keys(&log, 0).len()), (4, false, 0));
    assert_eq!(log.release(1), 1);
    assert_eq!(ended(&mut log), [(0, Ok(0))]);
    assert_eq!(log.release_partition(1, 9), 2);
    assert_eq!(ended(&mut log), [(1, Ok(0)), (3, Ok(1))]);
    assert!(log.is_held());
    assert_eq!(log.release_all(), 1);
    assert_eq!(ended(&mut log), [(2, Ok(1))]);
    log.append(0, 0, 0, vec![record("e")]);
    log.flush();
    assert_eq!(ended(&mut log), [(4, Ok(2))], "no longer held");
}

#[test]
fn an_append_that_was_not_flushed_is_not_released() {
    let mut log = opened(1);
    log.hold();
    log.append(0, 0, 0, vec![record("a")]);
    assert_eq!(log.release(1), 0);
    log.flush();
    assert_eq!(log.release(1), 1);
}

#[test]
fn failures_come_to_the_next_appends_that_end_and_store_nothing() {
    let mut log = opened(1);
    log.fail_next(NOT_ENOUGH_REPLICAS, 2);
    log.fail_next(LogError::Failed { code: 7 }, 1);
    log.fail_next(LogError::Failed { code: 8 }, 0);
    for key in ["a", "b", "c", "d"] {
        log.append(0, 0, 0, vec![record(key)]);
    }
    log.flush();
    let expected = [
        (0, Err(NOT_ENOUGH_REPLICAS)),
        (1, Err(NOT_ENOUGH_REPLICAS)),
        (2, Err(LogError::Failed { code: 7 })),
        (3, Ok(0)),
    ];
    assert_eq!(ended(&mut log), expected);
    assert_eq!(keys(&log, 0), ["d"]);
}

#[test]
fn a_held_append_can_still_be_made_to_fail() {
    let mut log = opened(1);
    log.hold();
    log.append(0, 0, 0, vec![record("a")]);
    log.flush();
    log.fail_next(NOT_ENOUGH_REPLICAS, 1);
    log.release_all();
    assert_eq!(ended(&mut log), [(0, Err(NOT_ENOUGH_REPLICAS))]);
}

#[test]
fn a_crash_keeps_what_was_durable_and_forgets_what_was_not() {
    let mut log = opened(1);
    log.append(0, 0, 0, vec![record("told")]);
    log.flush();
    log.completions();
    log.hold();
    for key in ["untold", "lost", "lost too"] {
        log.append(0, 0, 0, vec![record(key)]);
    }
    log.flush();
    log.crash(1);
    assert_eq!((log.completions(), log.pending()), (vec![], 0));
    assert_eq!(keys(&log, 0), ["told", "untold"]);
    assert_eq!(log.open(0, 1), Ok(2));
    assert_eq!(log.append(0, 1, 0, vec![record("after")]), LogAppendId(4));
    log.flush();
    assert_eq!(ended(&mut log), [(4, Ok(2))]);
}

#[test]
fn reordering_mixes_partitions_and_is_the_same_for_the_same_seed() {
    let run = |seed| {
        let mut log = opened(4);
        log.reorder(Some(seed));
        for round in 0..40 {
            log.append(round % 4, 0, 0, vec![record("x")]);
        }
        log.flush();
        ended(&mut log).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_ne!(run(1), (0..40).collect::<Vec<u64>>());
}

#[derive(Clone, Debug)]
enum Step {
    Append(i32),
    Flush,
    Hold,
    Release(usize),
    ReleaseAll,
    Fail(u64),
    Reorder(Option<u64>),
    Open(i32, i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_i32).prop_map(Step::Append),
        3 => Just(Step::Flush),
        1 => Just(Step::Hold),
        2 => (0..4_usize).prop_map(Step::Release),
        1 => Just(Step::ReleaseAll),
        1 => (0..3_u64).prop_map(Step::Fail),
        1 => prop::option::of(any::<u64>()).prop_map(Step::Reorder),
        1 => (0..3_i32, 0..4_i32).prop_map(|(partition, epoch)| Step::Open(partition, epoch)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_each_append_ends_once_in_its_partitions_order(steps in prop::collection::vec(step(), 0..60)) {
        let mut log = opened(3);
        let mut epochs = [0; 3];
        let mut done = Vec::new();
        let mut appended = 0;
        for step in steps {
            match step {
                Step::Append(partition) => {
                    let key = appended.to_string();
                    log.append(partition, epochs[partition as usize], 0, vec![record(&key)]);
                    appended += 1;
                }
                Step::Flush => log.flush(),
                Step::Hold => log.hold(),
                Step::Release(n) => drop(log.release(n)),
                Step::ReleaseAll => drop(log.release_all()),
                Step::Fail(times) => log.fail_next(NOT_ENOUGH_REPLICAS, times),
                Step::Reorder(seed) => log.reorder(seed),
                Step::Open(partition, epoch) => {
                    let newest = &mut epochs[partition as usize];
                    prop_assert_eq!(log.open(partition, epoch).is_ok(), epoch >= *newest);
                    *newest = epoch.max(*newest);
                }
            }
            done.extend(log.completions());
        }
        log.flush();
        log.release_all();
        done.extend(log.completions());
        let mut ids: Vec<u64> = done.iter().map(|completion| completion.append_id.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..appended).collect::<Vec<u64>>());
        for partition in 0..3 {
            let of_it: Vec<_> = done.iter().filter(|completion| completion.partition == partition).collect();
            prop_assert!(of_it.is_sorted_by_key(|completion| completion.append_id));
            let stored: Vec<(i64, String)> = (0..).zip(keys(&log, partition)).collect();
            let told: Vec<(i64, String)> = of_it
                .iter()
                .filter_map(|completion| Some((*completion.result.as_ref().ok()?, completion.append_id.0.to_string())))
                .collect();
            prop_assert_eq!(stored, told);
        }
    }
}
