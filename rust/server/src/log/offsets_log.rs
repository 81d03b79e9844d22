//! The log under `__consumer_offsets`: one for all nodes, and each node's end of it, which turns the coordinators'
//! appends into those of the fenced log, and its completions into theirs.
//!
//! One lock guards the log. It is held while an append is queued, while ends are taken and while a slice is read,
//! never while anybody waits, and a heartbeat does not come here at all (docs/decisions/0001-one-log-behind-a-lock.md).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use rota_core::{effects::AppendId, error::ErrorCode, records::Record};
use rota_log::{Completion, FencedLog, LogAppendId, LogError, LogRecord, MemoryLog, RecordInPlace};
use tokio::sync::Notify;

use crate::{
    base::{clock::Clock, metrics::Tally},
    log::disk_log::DiskLog,
};

/// What is read at once: in memory, and on disk.
pub const SLICE_RECORDS: usize = 500;
const SLICE_BYTES: usize = 256 << 10;

/// The log of all partitions, as all nodes share it.
#[derive(Debug)]
pub struct SharedLog {
    state: Mutex<State>,
    /// One of each node; it is rung when there is an end for the node that it did not ask for.
    bells: Vec<Arc<Notify>>,
    clock: Clock,
}

/// Where records are kept.
#[derive(Debug)]
enum Backing {
    Memory(MemoryLog),
    Disk(DiskLog),
}

#[derive(Debug)]
struct State {
    log: Backing,
    /// Whose append it is, where there are several nodes and one memory: the place of its bell.
    appenders: HashMap<LogAppendId, usize>,
    /// Ends that a node has not taken yet, by the place of its bell, and from when on it may.
    mail: Vec<VecDeque<(u64, Completion)>>,
    /// How late a node is told of an end.
    delay_ms: u64,
}

impl SharedLog {
    /// In memory, with so many empty partitions; an append of more than `batch_bytes_max` fails.
    pub fn new(partitions: u32, batch_bytes_max: usize, bells: Vec<Arc<Notify>>, clock: Clock) -> Arc<SharedLog> {
        SharedLog::over(Backing::Memory(MemoryLog::new(partitions, batch_bytes_max)), bells, clock)
    }

    /// On disk, with an end for each of the same bells.
    pub fn on_disk(log: DiskLog, bells: Vec<Arc<Notify>>, clock: Clock) -> Arc<SharedLog> {
        SharedLog::over(Backing::Disk(log), bells, clock)
    }

    fn over(log: Backing, bells: Vec<Arc<Notify>>, clock: Clock) -> Arc<SharedLog> {
        let mail = vec![VecDeque::new(); bells.len()];
        let state = State { log, appenders: HashMap::new(), mail, delay_ms: 0 };
        Arc::new(SharedLog { state: Mutex::new(state), bells, clock })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `partition` over: appends of older epochs that are not durable yet never will be. Gives the offset that
    /// the next record will have.
    pub fn open(&self, partition: u32, epoch: u32) -> Result<i64, LogError> {
        match &mut self.lock().log {
            Backing::Memory(log) => log.open(partition as i32, epoch as i32),
            Backing::Disk(log) => log.open(partition as i32, epoch as i32),
        }
    }

    /// Visits durable records of `partition` from offset `from` on, as many as keep others waiting for a moment only.
    /// Gives where to go on; the same as was asked for: there is no more.
    pub fn visit(&self, partition: u32, from: i64, mut visit: impl FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        let partition = partition as i32;
        // What comes of a record is worked out without the lock, and files are read without it.
        let (view, records) = match &self.lock().log {
            Backing::Memory(log) => (None, log.read(partition, from, SLICE_RECORDS)?),
            Backing::Disk(log) => {
                (Some(log.view(partition).ok_or(LogError::UnknownPartition { partition })?), Vec::new())
            }
        };
        if let Some(view) = view {
            return view.visit_records(from, SLICE_BYTES, visit);
        }
        for stored in &records {
            let (key, value) = (stored.record.key.as_slice(), stored.record.value.as_deref());
            visit(RecordInPlace { offset: stored.offset, timestamp_ms: stored.timestamp_ms, key, value });
        }
        Ok(records.last().map_or(from, |last| last.offset + 1))
    }

    /// From now on no append ends.
    pub fn hold(&self) {
        match &mut self.lock().log {
            Backing::Memory(log) => log.hold(),
            Backing::Disk(log) => log.hold(),
        }
    }

    /// Appends end again, those that were held back first; gives how many those are.
    pub fn release(&self) -> usize {
        let mut state = self.lock();
        let held = match &mut state.log {
            Backing::Memory(log) => log.release_all(),
            Backing::Disk(log) => log.release(),
        };
        self.deliver(&mut state, None);
        held
    }

    /// The next `times` appends to end fail with `error`.
    pub fn fail(&self, error: ErrorCode, times: u32) {
        let failed = LogError::Failed { code: error.code() };
        match &mut self.lock().log {
            Backing::Memory(log) => log.fail_next(failed, u64::from(times)),
            Backing::Disk(log) => log.fail_next(failed, u64::from(times)),
        }
    }

    /// From now on whoever waits for the end of an append is told so many milliseconds after it came.
    pub fn delay(&self, delay_ms: u64) {
        self.lock().delay_ms = delay_ms;
    }

    /// A record whose key is whatever is given.
    #[cfg(test)]
    pub fn append_raw(&self, partition: u32, key: Vec<u8>) {
        let mut state = self.lock();
        let Backing::Memory(log) = &mut state.log else { panic!("the log is in memory") };
        log.append(partition as i32, 0, 0, vec![LogRecord { key, value: Some(Vec::new()) }]);
        log.flush();
        log.completions();
    }

    /// Puts the ends that have come to whoever waits for them, and wakes those who are not `at` it anyway.
    fn deliver(&self, state: &mut State, at: Option<usize>) {
        let several = self.bells.len() > 1;
        let arrived: Vec<(usize, Completion)> = match &mut state.log {
            Backing::Memory(log) => {
                let appenders = &mut state.appenders;
                let of = |completion: Completion| {
                    let appender = if several { appenders.remove(&completion.append_id)? } else { 0 };
                    Some((appender, completion))
                };
                log.completions().into_iter().filter_map(of).collect()
            }
            Backing::Disk(log) => {
                let ends = at.map_or(0..self.bells.len(), |at| at..at + 1);
                ends.flat_map(|end| log.ended(end).into_iter().map(move |completion| (end, completion))).collect()
            }
        };
        for (appender, completion) in arrived {
            if at != Some(appender) && state.mail[appender].is_empty() {
                self.bells[appender].notify_one();
            }
            // INVARIANT: S16. Of two appends the older one's end is told first, also when the delay has become shorter.
            let earliest_ms = state.mail[appender].back().map_or(0, |(due_ms, _)| *due_ms);
            let late_ms = if state.delay_ms > 0 { self.clock.now().mono_ms.saturating_add(state.delay_ms) } else { 0 };
            state.mail[appender].push_back((late_ms.max(earliest_ms), completion));
        }
    }
}

/// The end of one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose append it was.
    pub partition: u32,
    /// In which incarnation of it.
    pub epoch: u32,
    /// The coordinator's name for it.
    pub append_id: AppendId,
    /// The first offset, or why it failed.
    pub result: Result<u64, ErrorCode>,
}

/// A coordinator's name for an append: they are counted within an incarnation.
#[derive(Clone, Copy, Debug)]
struct Name {
    partition: u32,
    epoch: u32,
    append_id: AppendId,
    since: Instant,
}

/// One node's end of the log.
#[derive(Debug)]
pub struct OffsetsLog {
    shared: Arc<SharedLog>,
    /// The place of the node's bell.
    at: usize,
    names: HashMap<LogAppendId, Name>,
}

impl OffsetsLog {
    /// Of the node whose bell is at this place.
    pub fn new(shared: Arc<SharedLog>, at: usize) -> OffsetsLog {
        OffsetsLog { shared, at, names: HashMap::new() }
    }

    /// Takes `records` as one batch.
    pub fn append(&mut self, partition: u32, epoch: u32, append_id: AppendId, wall_ms: i64, records: &[Record]) {
        let records = records.iter().map(|record| LogRecord { key: record.key_bytes(), value: record.value_bytes() });
        let records: Vec<LogRecord> = records.collect();
        let mut state = self.shared.lock();
        let (log_append_id, is_shared) = match &mut state.log {
            Backing::Memory(log) => (log.append(partition as i32, epoch as i32, wall_ms, records), true),
            Backing::Disk(log) => (log.append(self.at, partition as i32, epoch as i32, wall_ms, records), false),
        };
        if is_shared && self.shared.bells.len() > 1 {
            state.appenders.insert(log_append_id, self.at);
        }
        drop(state);
        self.names.insert(log_append_id, Name { partition, epoch, append_id, since: Instant::now() });
    }

    /// Makes durable what was appended, unless that is held back, and takes the ends that have arrived, which are
    /// counted.
    pub fn ended(&mut self, tally: &mut Tally) -> Vec<Ended> {
        if self.names.is_empty() {
            return Vec::new();
        }
        let mut state = self.shared.lock();
        if let Backing::Memory(log) = &mut state.log {
            log.flush();
        }
        self.shared.deliver(&mut state, Some(self.at));
        let mail = &mut state.mail[self.at];
        let ready = if mail.back().is_none_or(|(due_ms, _)| *due_ms == 0) {
            mail.len()
        } else {
            let now_ms = self.shared.clock.now().mono_ms;
            mail.partition_point(|(due_ms, _)| *due_ms <= now_ms)
        };
        let completions: Vec<Completion> = mail.drain(..ready).map(|(_, completion)| completion).collect();
        drop(state);
        completions.into_iter().filter_map(|completion| self.translated(completion, tally)).collect()
    }

    /// When there will be an end that has come and is told late, in monotonic milliseconds.
    pub fn next_due(&self) -> Option<u64> {
        if self.names.is_empty() {
            return None;
        }
        self.shared.lock().mail[self.at].front().map(|(due_ms, _)| *due_ms)
    }

    fn translated(&mut self, completion: Completion, tally: &mut Tally) -> Option<Ended> {
        let Name { partition, epoch, append_id, since } = self.names.remove(&completion.append_id)?;
        tally.appends.observe(since.elapsed());
        tally.failed_appends += u64::from(completion.result.is_err());
        let error = |error: LogError| ErrorCode::from_code(error.code()).unwrap_or(ErrorCode::UnknownServerError);
        let result = completion.result.map(|offset| offset as u64).map_err(error);
        Some(Ended { partition, epoch, append_id, result })
    }

    /// Nobody here waits for the ends of this partition's appends any more.
    pub fn forget(&mut self, partition: u32) {
        self.names.retain(|_, name| name.partition != partition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_gone() -> [Record; 1] {
        [Record::Group { group_id: "g".into(), value: None }]
    }

    /// So many nodes' ends of a log of two partitions, which epoch 0 has opened.
    fn ends(nodes: usize, batch_bytes_max: usize) -> Vec<OffsetsLog> {
        let bells = (0..nodes).map(|_| Arc::default()).collect();
        let shared = SharedLog::new(2, batch_bytes_max, bells, Clock::standing());
        for partition in 0..2 {
            assert_eq!(shared.open(partition, 0), Ok(0));
        }
        (0..nodes).map(|at| OffsetsLog::new(Arc::clone(&shared), at)).collect()
    }

    fn one(batch_bytes_max: usize) -> OffsetsLog {
        ends(1, batch_bytes_max).remove(0)
    }

    #[test]
    fn appends_end_with_the_coordinators_names_in_the_order_of_their_partition() {
        let mut log = one(1_000);
        log.append(1, 0, AppendId(7), 0, &group_gone());
        log.append(0, 0, AppendId(7), 0, &group_gone());
        log.append(1, 0, AppendId(8), 0, &group_gone());
        let ended: Vec<_> = log
            .ended(&mut Tally::default())
            .into_iter()
            .map(|end| (end.partition, end.append_id.0, end.result))
            .collect();
        assert_eq!(ended, [(1, 7, Ok(0)), (0, 7, Ok(0)), (1, 8, Ok(1))]);
        assert!(log.ended(&mut Tally::default()).is_empty());
    }

    #[test]
    fn held_appends_end_when_they_are_released() {
        let mut log = one(1_000);
        log.shared.hold();
        log.append(0, 0, AppendId(0), 0, &group_gone());
        assert!(log.ended(&mut Tally::default()).is_empty());
        assert_eq!(log.shared.release(), 1);
        assert_eq!(log.ended(&mut Tally::default()).len(), 1);
    }

    #[test]
    fn delayed_ends_come_in_their_order_when_the_clock_has_moved() {
        let mut log = one(1_000);
        let clock = log.shared.clock.clone();
        let append = |log: &mut OffsetsLog, delay_ms, append_id| -> Vec<u64> {
            log.shared.delay(delay_ms);
            log.append(0, 0, AppendId(append_id), 0, &group_gone());
            log.ended(&mut Tally::default()).iter().map(|end| end.append_id.0).collect()
        };
        assert!(append(&mut log, 500, 0).is_empty());
        clock.move_to(100);
        assert!(append(&mut log, 50, 1).is_empty(), "behind the older one");
        assert!(append(&mut log, 0, 2).is_empty());
        assert_eq!(log.next_due(), Some(500));
        clock.move_to(500);
        assert_eq!(append(&mut log, 0, 3), [0, 1, 2, 3]);
        assert_eq!(log.next_due(), None);
    }

    #[test]
    fn an_append_fails_as_it_was_asked_to_and_so_does_one_that_is_too_large() {
        let mut log = one(5);
        log.shared.fail(ErrorCode::NotEnoughReplicas, 1);
        log.append(0, 0, AppendId(0), 0, &group_gone());
        log.append(0, 0, AppendId(1), 0, &group_gone());
        log.append(0, 0, AppendId(2), 0, &[group_gone(), group_gone()].concat());
        let results: Vec<_> = log.ended(&mut Tally::default()).into_iter().map(|end| end.result).collect();
        assert_eq!(results, [Err(ErrorCode::NotEnoughReplicas), Ok(0), Err(ErrorCode::MessageTooLarge)]);
    }

    #[test]
    fn each_node_gets_the_ends_of_its_own_appends_and_is_woken_for_them() {
        let mut nodes = ends(2, 1_000);
        nodes[0].shared.hold();
        nodes[0].append(0, 0, AppendId(1), 0, &group_gone());
        assert!(nodes[0].ended(&mut Tally::default()).is_empty());
        nodes[1].append(1, 0, AppendId(2), 0, &group_gone());
        assert!(nodes[1].ended(&mut Tally::default()).is_empty());
        assert_eq!(nodes[1].shared.release(), 2);
        let bell = Arc::clone(&nodes[0].shared.bells[0]);
        let woken = std::pin::pin!(bell.notified());
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(woken.poll(context).is_ready());
        let ended = |node: &mut OffsetsLog| -> Vec<_> {
            node.ended(&mut Tally::default()).iter().map(|end| end.append_id.0).collect()
        };
        assert_eq!((ended(&mut nodes[0]), ended(&mut nodes[1])), (vec![1], vec![2]));
    }

    #[test]
    fn what_an_older_epoch_has_in_flight_fails_and_names_its_own_incarnation() {
        let mut nodes = ends(2, 1_000);
        nodes[0].shared.hold();
        nodes[0].append(0, 0, AppendId(0), 0, &group_gone());
        assert!(nodes[0].ended(&mut Tally::default()).is_empty());
        assert_eq!(nodes[1].shared.open(0, 1), Ok(0), "nothing of the older epoch is durable");
        nodes[1].append(0, 1, AppendId(0), 0, &group_gone());
        nodes[0].append(0, 0, AppendId(1), 0, &group_gone());
        nodes[0].shared.release();
        let results = |node: &mut OffsetsLog| -> Vec<_> {
            node.ended(&mut Tally::default()).iter().map(|end| (end.epoch, end.append_id.0, end.result)).collect()
        };
        let refused = Err(ErrorCode::NotLeaderOrFollower);
        assert_eq!(results(&mut nodes[0]), [(0, 0, refused), (0, 1, refused)]);
        assert_eq!(results(&mut nodes[1]), [(1, 0, Ok(0))]);
    }

    #[test]
    fn ends_that_nobody_waits_for_any_more_are_dropped() {
        let mut log = one(1_000);
        log.shared.hold();
        log.append(0, 0, AppendId(0), 0, &group_gone());
        log.append(1, 0, AppendId(0), 0, &group_gone());
        log.forget(0);
        log.shared.release();
        let ended: Vec<_> = log.ended(&mut Tally::default()).into_iter().map(|end| end.partition).collect();
        assert_eq!(ended, [1]);
    }
}
