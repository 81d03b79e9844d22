//! Faults on demand around a log in memory: what each does to the caller, and to what is stored.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use proptest::prelude::*;
use rota_log::{
    Append, BatchKind, Completions, Fault, FaultyLog, FencedLog, LogError, LogRecord, MemoryLog, Operation,
};

const NOT_ENOUGH_REPLICAS: LogError = LogError::Failed { code: 19 };

/// One caller of a log whose partitions epoch 0 has opened.
struct Caller {
    log: FaultyLog<Vec<LogRecord>>,
    completions: Arc<Completions>,
    clock: Arc<AtomicU64>,
    next_id: u64,
}

impl Caller {
    fn new(partitions: u32) -> Caller {
        let clock = Arc::new(AtomicU64::new(0));
        let shows = Arc::clone(&clock);
        let log = FaultyLog::new(Arc::new(MemoryLog::new(partitions, 1_000)), move || shows.load(Ordering::SeqCst));
        let caller = Caller { log, completions: Completions::new(|| ()), clock, next_id: 0 };
        for partition in 0..partitions as i32 {
            assert_eq!(caller.open(partition, 0), Ok(0));
        }
        caller
    }

    fn open(&self, partition: i32, epoch: i32) -> Result<i64, LogError> {
        let completions = Completions::new(|| ());
        self.log.open(partition, epoch, &completions);
        completions.take().pop().expect("a log in memory has opened").result
    }

    /// Its key is its id.
    fn append(&mut self, partition: i32, epoch: i32) {
        let id = self.next_id;
        self.next_id += 1;
        let batch = vec![LogRecord { key: id.to_string().into_bytes(), value: Some(vec![1]) }];
        self.log
            .append(Append { partition, epoch, id, timestamp_ms: 0, kind: BatchKind::Plain, batch }, &self.completions);
    }

    /// Ids and results of what has ended.
    fn completed(&self) -> Vec<(u64, Result<i64, LogError>)> {
        let id = |operation| if let Operation::Append(id) = operation { id } else { panic!("an append") };
        self.completions.take().into_iter().map(|completion| (id(completion.operation), completion.result)).collect()
    }

    fn stored(&self, partition: i32) -> Vec<(i64, u64)> {
        let (mut stored, mut from) = (Vec::new(), 0);
        loop {
            let next = self.log.read(partition, from, &mut |record| {
                stored.push((record.offset, std::str::from_utf8(record.key).unwrap().parse().unwrap()));
            });
            match next.unwrap() {
                next if next == from => return stored,
                next => from = next,
            }
        }
    }
}

#[test]
fn held_appends_wait_for_their_release_one_by_one() {
    let mut caller = Caller::new(2);
    caller.log.hold();
    for partition in [0, 1, 0, 1] {
        caller.append(partition, 0);
    }
    assert_eq!((caller.log.held(), caller.completed(), caller.stored(0)), (4, vec![], vec![]));
    assert_eq!(caller.log.release(1), 1);
    assert_eq!(caller.completed(), [(0, Ok(0))]);
    assert_eq!(caller.log.release_partition(1, 9), 2);
    assert_eq!(caller.completed(), [(1, Ok(0)), (3, Ok(1))]);
    caller.append(0, 0);
    assert_eq!(caller.log.release_all(), 2);
    assert_eq!(caller.completed(), [(2, Ok(1)), (4, Ok(2))]);
    caller.append(0, 0);
    assert_eq!(caller.completed(), [(5, Ok(3))], "no longer held");
}

#[test]
fn appends_that_a_new_epoch_overtakes_while_they_are_held_are_never_stored() {
    let mut caller = Caller::new(1);
    caller.log.hold();
    caller.append(0, 0);
    assert_eq!(caller.open(0, 5), Ok(0));
    caller.append(0, 0);
    caller.append(0, 5);
    assert_eq!(caller.log.release_all(), 3);
    let fenced = LogError::Fenced { current_epoch: 5, epoch: 0 };
    assert_eq!(caller.completed(), [(0, Err(fenced.clone())), (1, Err(fenced)), (2, Ok(0))]);
    assert_eq!(caller.stored(0), [(0, 2)]);
}

#[test]
fn failures_come_to_the_next_appends_that_go_to_the_log_and_store_nothing() {
    let mut caller = Caller::new(1);
    caller.log.strike(Fault::Fail(NOT_ENOUGH_REPLICAS), 2);
    caller.log.strike(Fault::Fail(LogError::Failed { code: 7 }), 1);
    caller.log.strike(Fault::Fail(LogError::Failed { code: 8 }), 0);
    for _ in 0..4 {
        caller.append(0, 0);
    }
    let expected = [
        (0, Err(NOT_ENOUGH_REPLICAS)),
        (1, Err(NOT_ENOUGH_REPLICAS)),
        (2, Err(LogError::Failed { code: 7 })),
        (3, Ok(0)),
    ];
    assert_eq!(caller.completed(), expected);
    assert_eq!(caller.stored(0), [(0, 3)]);
}

#[test]
fn a_held_append_can_still_be_made_to_fail() {
    let mut caller = Caller::new(1);
    caller.log.hold();
    caller.append(0, 0);
    caller.log.strike(Fault::Fail(NOT_ENOUGH_REPLICAS), 1);
    assert_eq!(caller.log.release_all(), 1);
    assert_eq!(caller.completed(), [(0, Err(NOT_ENOUGH_REPLICAS))]);
}

#[test]
fn an_append_whose_answer_is_lost_is_stored_and_looks_like_one_that_failed() {
    let mut caller = Caller::new(1);
    caller.log.strike(Fault::LoseAnswer(NOT_ENOUGH_REPLICAS), 1);
    caller.log.strike(Fault::Fail(NOT_ENOUGH_REPLICAS), 1);
    for _ in 0..3 {
        caller.append(0, 0);
    }
    assert_eq!(caller.completed(), [(0, Err(NOT_ENOUGH_REPLICAS)), (1, Err(NOT_ENOUGH_REPLICAS)), (2, Ok(1))]);
    assert_eq!(caller.stored(0), [(0, 0), (1, 2)]);
}

#[test]
fn a_duplicate_is_stored_twice_and_ends_once() {
    let mut caller = Caller::new(1);
    caller.log.strike(Fault::Duplicate, 1);
    caller.append(0, 0);
    caller.append(0, 0);
    assert_eq!(caller.completed(), [(0, Ok(0)), (1, Ok(2))]);
    assert_eq!(caller.stored(0), [(0, 0), (1, 0), (2, 1)]);
}

#[test]
fn an_append_that_is_fenced_in_flight_is_not_stored_and_neither_is_what_its_epoch_appends_later() {
    let mut caller = Caller::new(2);
    caller.append(0, 0);
    caller.log.strike(Fault::Fence, 1);
    caller.append(0, 0);
    caller.append(0, 0);
    caller.append(1, 0);
    let fenced = LogError::Fenced { current_epoch: 1, epoch: 0 };
    assert_eq!(caller.completed(), [(0, Ok(0)), (1, Err(fenced.clone())), (2, Err(fenced)), (3, Ok(0))]);
    assert_eq!(caller.open(0, 1), Ok(1), "the owner of that epoch goes on");
    assert_eq!(caller.stored(0), [(0, 0)]);
}

#[test]
fn late_ends_come_when_the_clock_has_reached_them() {
    let mut caller = Caller::new(2);
    caller.log.delay(500);
    caller.append(0, 0);
    caller.clock.store(100, Ordering::SeqCst);
    caller.log.delay(50);
    caller.append(1, 0);
    caller.log.strike(Fault::Fail(NOT_ENOUGH_REPLICAS), 1);
    caller.append(1, 0);
    caller.log.delay(0);
    caller.append(1, 0);
    caller.log.deliver_due();
    assert_eq!(caller.completed(), [(3, Ok(1))], "only the one that is not delayed");
    assert_eq!(caller.log.next_due(&caller.completions), Some(150));
    assert_eq!(caller.log.next_due(&Completions::new(|| ())), None, "of another caller");
    caller.clock.store(150, Ordering::SeqCst);
    caller.log.deliver_due();
    assert_eq!(caller.completed(), [(1, Ok(0)), (2, Err(NOT_ENOUGH_REPLICAS))]);
    caller.clock.store(500, Ordering::SeqCst);
    caller.log.deliver_due();
    assert_eq!((caller.completed(), caller.log.next_due(&caller.completions)), (vec![(0, Ok(0))], None));
}

#[test]
fn a_crash_keeps_what_was_stored_and_some_of_what_was_held_and_forgets_the_rest() {
    let mut caller = Caller::new(1);
    caller.append(0, 0);
    assert_eq!(caller.completed(), [(0, Ok(0))]);
    caller.log.hold();
    for _ in 0..3 {
        caller.append(0, 0);
    }
    caller.log.crash(1);
    assert_eq!((caller.completed(), caller.log.held()), (vec![], 0));
    assert_eq!(caller.stored(0), [(0, 0), (1, 1)]);
    assert_eq!(caller.open(0, 1), Ok(2));
    caller.append(0, 1);
    assert_eq!(caller.completed(), [(4, Ok(2))]);
}

#[test]
fn reordering_mixes_partitions_and_is_the_same_for_the_same_seed() {
    let run = |seed| {
        let mut caller = Caller::new(4);
        caller.log.reorder(Some(seed));
        caller.log.hold();
        for round in 0..40 {
            caller.append(round % 4, 0);
        }
        caller.log.release_all();
        caller.completed().into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_ne!(run(1), (0..40).collect::<Vec<u64>>());
}

#[test]
fn an_open_can_take_time() {
    let mut caller = Caller::new(1);
    caller.log.hold_opens();
    caller.log.open(0, 3, &caller.completions);
    assert!(caller.completions.take().is_empty());
    caller.append(0, 0);
    assert_eq!(caller.completed(), [(0, Ok(0))], "no server has taken over yet");
    assert_eq!(caller.log.release_opens(), 1);
    let opened = caller.completions.take().pop().expect("it is open");
    assert_eq!((opened.operation, opened.epoch, opened.result), (Operation::Open, 3, Ok(1)));
}

#[derive(Clone, Debug)]
enum Step {
    Append(i32),
    Hold,
    Release(usize),
    ReleaseAll,
    Strike(Fault, u64),
    Reorder(Option<u64>),
    Open(i32, i32),
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::Fail(NOT_ENOUGH_REPLICAS)),
        Just(Fault::LoseAnswer(NOT_ENOUGH_REPLICAS)),
        Just(Fault::Duplicate),
        Just(Fault::Fence),
    ];
    prop_oneof![
        6 => (0..3_i32).prop_map(Step::Append),
        1 => Just(Step::Hold),
        2 => (0..4_usize).prop_map(Step::Release),
        1 => Just(Step::ReleaseAll),
        1 => (fault, 0..3_u64).prop_map(|(fault, times)| Step::Strike(fault, times)),
        1 => prop::option::of(any::<u64>()).prop_map(Step::Reorder),
        1 => (0..3_i32, 0..4_i32).prop_map(|(partition, epoch)| Step::Open(partition, epoch)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// And what was acknowledged is stored, in the order of the appends.
    #[test]
    fn whatever_happens_each_append_ends_once(steps in prop::collection::vec(step(), 0..60)) {
        let mut caller = Caller::new(3);
        let mut epochs = [0; 3];
        let mut done = Vec::new();
        let mut partition_of = Vec::new();
        for step in steps {
            match step {
                Step::Append(partition) => {
                    partition_of.push(partition);
                    caller.append(partition, epochs[partition as usize]);
                }
                Step::Hold => caller.log.hold(),
                Step::Release(n) => drop(caller.log.release(n)),
                Step::ReleaseAll => drop(caller.log.release_all()),
                Step::Strike(fault, times) => caller.log.strike(fault, times),
                Step::Reorder(seed) => caller.log.reorder(seed),
                Step::Open(partition, epoch) => {
                    let newest = &mut epochs[partition as usize];
                    if caller.open(partition, epoch).is_ok() {
                        prop_assert!(epoch >= *newest);
                        *newest = epoch;
                    }
                }
            }
            done.extend(caller.completed());
        }
        caller.log.release_all();
        done.extend(caller.completed());
        let mut ids: Vec<u64> = done.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..partition_of.len() as u64).collect::<Vec<u64>>());
        for partition in 0..3 {
            let stored = caller.stored(partition);
            prop_assert!(stored.is_sorted_by_key(|(_, id)| *id), "the order of the appends: {:?}", stored);
            for (id, result) in done.iter().filter(|(id, _)| partition_of[*id as usize] == partition) {
                if let Ok(offset) = result {
                    prop_assert!(stored.contains(&(*offset, *id)), "{id} was acknowledged at {offset}");
                }
            }
        }
    }
}
