//! A node's access to the log under `__consumer_offsets`, which all nodes share. Appends of the node's coordinators carry
//! the coordinators' own ids, and their completions come back to the node.
//!
//! A heartbeat does not reach this module. While nothing is in flight, the node takes no lock.

use std::{collections::VecDeque, mem, sync::Arc, time::Instant};

use rota_core::{effects::AppendId, error::ErrorCode, records::Record};
use rota_log::{Append, BatchKind, Completion, Completions, FaultyLog, FencedLog, LogError, LogRecord, Operation};
use tokio::sync::Notify;

use crate::base::metrics::Metrics;

/// The log of all partitions, shared by all nodes, with injected faults.
pub type SharedLog = FaultyLog<Vec<LogRecord>>;

/// The result of an operation of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedOperation {
    /// The partition of `__consumer_offsets`.
    pub partition: u32,
    /// The epoch under which the operation was submitted.
    pub epoch: u32,
    /// The operation and its result.
    pub what: OperationResult,
}

/// The operation of a [`CompletedOperation`], with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// Opening the partition: the offset of the next record, or the error.
    Open(Result<i64, LogError>),
    /// An append: the offset of its first record, or the error code for the coordinator.
    Append(AppendId, Result<u64, ErrorCode>),
}

/// An append in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    partition: i32,
    epoch: i32,
    id: u64,
}

/// One node's access to the log.
#[derive(Debug)]
pub struct OffsetsLog {
    log: Arc<SharedLog>,
    completions: Arc<Completions>,
    /// Operations in flight.
    expected: usize,
    /// Start of each append in flight, oldest first.
    since: VecDeque<(Key, Instant)>,
    /// A buffer that `take_completed` reuses.
    taken: Vec<Completion>,
}

impl OffsetsLog {
    /// Creates the access of the node that waits on `waker`.
    pub fn new(log: Arc<SharedLog>, waker: Arc<Notify>) -> OffsetsLog {
        let completions = Completions::new(move || waker.notify_one());
        OffsetsLog { log, completions, expected: 0, since: VecDeque::new(), taken: Vec::new() }
    }

    /// Opens a partition under `epoch`. Appends of older epochs that are not durable yet will fail.
    pub fn open(&mut self, partition: u32, epoch: u32) {
        self.expected += 1;
        self.completions.attend();
        self.log.open(partition as i32, epoch as i32, &self.completions);
    }

    /// Appends `records` as one batch. `append_id` identifies its completion.
    pub fn append(&mut self, partition: u32, epoch: u32, append_id: AppendId, wall_ms: i64, records: &[Record]) {
        self.append_kind(partition, epoch, append_id, wall_ms, BatchKind::Plain, records);
    }

    /// Like [`OffsetsLog::append`] for a batch of a transaction, or its marker.
    pub fn append_kind(
        &mut self,
        partition: u32,
        epoch: u32,
        append_id: AppendId,
        wall_ms: i64,
        kind: BatchKind,
        records: &[Record],
    ) {
        let records = records.iter().map(|record| LogRecord { key: record.key_bytes(), value: record.value_bytes() });
        let batch = records.collect();
        let key = Key { partition: partition as i32, epoch: epoch as i32, id: append_id.0 };
        self.since.push_back((key, Instant::now()));
        self.expected += 1;
        self.completions.attend();
        let Key { partition, epoch, id } = key;
        self.log.append(Append { partition, epoch, id, timestamp_ms: wall_ms, kind, batch }, &self.completions);
    }

    /// Takes the completions that have arrived, and counts appends in `metrics`.
    pub fn take_completed(&mut self, metrics: &mut Metrics) -> Vec<CompletedOperation> {
        if self.expected == 0 {
            return Vec::new();
        }
        self.log.deliver_due();
        let mut taken = mem::take(&mut self.taken);
        self.completions.take_into(&mut taken);
        self.expected -= taken.len();
        let completed = taken.drain(..).filter_map(|completion| self.counted(completion, metrics)).collect();
        self.taken = taken;
        completed
    }

    /// Whether nothing is in flight: all that is durable has come to the node.
    pub fn is_idle(&self) -> bool {
        self.expected == 0
    }

    /// Returns when a delayed completion will be delivered, in monotonic milliseconds.
    pub fn next_due(&self) -> Option<u64> {
        if self.expected == 0 { None } else { self.log.next_due(&self.completions) }
    }

    fn counted(&mut self, completion: Completion, metrics: &mut Metrics) -> Option<CompletedOperation> {
        let Completion { partition, epoch, operation, result } = completion;
        let what = match operation {
            Operation::Open => OperationResult::Open(result),
            Operation::Append(id) => {
                let at = self.since.iter().position(|(key, _)| *key == Key { partition, epoch, id })?;
                let (_, since) = self.since.remove(at)?;
                metrics.appends.observe(since.elapsed());
                metrics.failed_appends += u64::from(result.is_err());
                let error =
                    |error: LogError| ErrorCode::from_code(error.code()).unwrap_or(ErrorCode::UnknownServerError);
                OperationResult::Append(AppendId(id), result.map(|offset| offset as u64).map_err(error))
            }
        };
        Some(CompletedOperation { partition: partition as u32, epoch: epoch as u32, what })
    }

    /// Drops the appends of this partition: their completions will be ignored.
    pub fn forget(&mut self, partition: u32) {
        self.since.retain(|(key, _)| key.partition != partition as i32);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rota_log::{Fault, MemoryLog};

    use super::*;
    use crate::base::clock::Clock;

    /// A log in memory.
    pub(crate) fn in_memory(partitions: u32, batch_bytes_max: usize, clock: Clock) -> Arc<SharedLog> {
        let log = Arc::new(MemoryLog::new(partitions, batch_bytes_max));
        Arc::new(FaultyLog::new(log, move || clock.now().mono_ms))
    }

    /// Appends a record whose key may be anything, in epoch 0.
    pub(crate) fn append_raw(log: &SharedLog, partition: u32, key: Vec<u8>) {
        let batch = vec![LogRecord { key, value: Some(Vec::new()) }];
        let append =
            Append { partition: partition as i32, epoch: 0, id: 0, timestamp_ms: 0, kind: BatchKind::Plain, batch };
        log.append(append, &Completions::relay(|completion| assert!(completion.result.is_ok())));
    }

    fn group_gone() -> [Record; 1] {
        [Record::Group { group_id: "g".into(), value: None }]
    }

    /// The logs of `nodes` nodes over two partitions, which epoch 0 has opened, their wakers and the clock.
    fn node_logs(nodes: usize, batch_bytes_max: usize) -> (Vec<OffsetsLog>, Vec<Arc<Notify>>, Clock) {
        let wakers: Vec<Arc<Notify>> = (0..nodes).map(|_| Arc::default()).collect();
        let clock = Clock::standing();
        let log = in_memory(2, batch_bytes_max, clock.clone());
        let mut logs: Vec<_> =
            wakers.iter().map(|waker| OffsetsLog::new(Arc::clone(&log), Arc::clone(waker))).collect();
        for partition in 0..2 {
            logs[0].open(partition, 0);
            let opened = logs[0].take_completed(&mut Metrics::default());
            assert_eq!(opened, [CompletedOperation { partition, epoch: 0, what: OperationResult::Open(Ok(0)) }]);
        }
        (logs, wakers, clock)
    }

    fn one(batch_bytes_max: usize) -> OffsetsLog {
        node_logs(1, batch_bytes_max).0.remove(0)
    }

    /// Partition, epoch, id and result of the appends that have ended.
    fn completed(log: &mut OffsetsLog) -> Vec<(u32, u32, u64, Result<u64, ErrorCode>)> {
        let append = |done: CompletedOperation| match done.what {
            OperationResult::Append(id, result) => (done.partition, done.epoch, id.0, result),
            OperationResult::Open(_) => panic!("nothing was opened"),
        };
        log.take_completed(&mut Metrics::default()).into_iter().map(append).collect()
    }

    #[test]
    fn appends_end_under_the_coordinators_ids() {
        let mut log = one(1_000);
        log.append(1, 0, AppendId(7), 0, &group_gone());
        log.append(0, 0, AppendId(7), 0, &group_gone());
        log.append(1, 0, AppendId(8), 0, &group_gone());
        assert_eq!(completed(&mut log), [(1, 0, 7, Ok(0)), (0, 0, 7, Ok(0)), (1, 0, 8, Ok(1))]);
        assert!(completed(&mut log).is_empty());
    }

    #[test]
    fn held_appends_end_when_they_are_released() {
        let mut log = one(1_000);
        log.log.hold();
        log.append(0, 0, AppendId(0), 0, &group_gone());
        assert!(completed(&mut log).is_empty());
        assert_eq!(log.log.release_all(), 1);
        assert_eq!(completed(&mut log).len(), 1);
    }

    #[test]
    fn late_ends_come_when_the_clock_has_moved() {
        let (mut nodes, _, clock) = node_logs(1, 1_000);
        let log = &mut nodes[0];
        let append = |log: &mut OffsetsLog, delay_ms, append_id| -> Vec<u64> {
            log.log.delay(delay_ms);
            log.append(0, 0, AppendId(append_id), 0, &group_gone());
            completed(log).iter().map(|(_, _, id, _)| *id).collect()
        };
        assert!(append(log, 500, 0).is_empty());
        clock.move_to(100);
        assert!(append(log, 500, 1).is_empty());
        assert_eq!(log.next_due(), Some(500));
        clock.move_to(500);
        assert_eq!(append(log, 500, 2), [0]);
        assert_eq!(log.next_due(), Some(600));
        clock.move_to(1_000);
        assert_eq!(append(log, 0, 3), [3, 1, 2], "the coordinator puts them in order");
        assert_eq!(log.next_due(), None);
    }

    #[test]
    fn an_append_fails_as_it_was_asked_to_and_so_does_one_that_is_too_large() {
        let mut log = one(5);
        log.log.strike(Fault::Fail(LogError::Failed { code: ErrorCode::NotEnoughReplicas.code() }), 1);
        log.append(0, 0, AppendId(0), 0, &group_gone());
        log.append(0, 0, AppendId(1), 0, &group_gone());
        log.append(0, 0, AppendId(2), 0, &[group_gone(), group_gone()].concat());
        let results: Vec<_> = completed(&mut log).into_iter().map(|(_, _, _, result)| result).collect();
        assert_eq!(results, [Err(ErrorCode::NotEnoughReplicas), Ok(0), Err(ErrorCode::MessageTooLarge)]);
    }

    #[test]
    fn each_node_gets_the_ends_of_its_own_appends_and_is_woken_for_them() {
        let (mut nodes, wakers, _) = node_logs(2, 1_000);
        let is_woken = |waker: &Notify| {
            let woken = std::pin::pin!(waker.notified());
            woken.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        nodes[0].log.hold();
        nodes[0].append(0, 0, AppendId(1), 0, &group_gone());
        assert!(completed(&mut nodes[0]).is_empty());
        nodes[1].append(1, 0, AppendId(2), 0, &group_gone());
        assert!(completed(&mut nodes[1]).is_empty());
        assert!(!is_woken(&wakers[0]));
        assert_eq!(nodes[1].log.release_all(), 2);
        assert!(is_woken(&wakers[0]) && is_woken(&wakers[1]));
        let ids = |node: &mut OffsetsLog| -> Vec<_> { completed(node).iter().map(|(_, _, id, _)| *id).collect() };
        assert_eq!((ids(&mut nodes[0]), ids(&mut nodes[1])), (vec![1], vec![2]));
        nodes[0].append(0, 0, AppendId(3), 0, &group_gone());
        assert!(!is_woken(&wakers[0]), "it takes by itself what ends within its own call");
    }

    #[test]
    fn what_an_older_epoch_has_in_flight_fails_and_names_its_own_incarnation() {
        let (mut nodes, ..) = node_logs(2, 1_000);
        nodes[0].log.hold();
        nodes[0].append(0, 0, AppendId(0), 0, &group_gone());
        assert!(completed(&mut nodes[0]).is_empty());
        nodes[1].open(0, 1);
        let opened = nodes[1].take_completed(&mut Metrics::default()).remove(0);
        assert_eq!(opened.what, OperationResult::Open(Ok(0)), "nothing of the older epoch is durable");
        nodes[1].append(0, 1, AppendId(0), 0, &group_gone());
        nodes[0].append(0, 0, AppendId(1), 0, &group_gone());
        nodes[0].log.release_all();
        let refused = Err(ErrorCode::NotLeaderOrFollower);
        assert_eq!(completed(&mut nodes[0]), [(0, 0, 0, refused), (0, 0, 1, refused)]);
        assert_eq!(completed(&mut nodes[1]), [(0, 1, 0, Ok(0))]);
    }

    #[test]
    fn ends_that_do_not_matter_any_more_are_dropped_and_later_ones_still_wake() {
        let (mut nodes, wakers, _) = node_logs(1, 1_000);
        let log = &mut nodes[0];
        log.log.hold();
        log.append(0, 0, AppendId(0), 0, &group_gone());
        log.forget(0);
        log.log.release_all();
        assert!(completed(log).is_empty());
        log.log.hold();
        log.append(1, 0, AppendId(0), 0, &group_gone());
        assert!(completed(log).is_empty());
        log.log.release_all();
        let woken = std::pin::pin!(wakers[0].notified());
        assert!(woken.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready());
        assert_eq!(completed(log).len(), 1);
    }
}
