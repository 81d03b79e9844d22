//! The log under `__consumer_offsets` on disk: the same as the one in memory, with the same controls.
//!
//! Each node has an end of its own, so that the log's thread rings that node's bell only. An append that is held back
//! has not been given to the store: if its partition is taken over meanwhile, it is refused there like any late one.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::Arc,
};

use rota_log::{
    Completion, FencedLog, LogAppendId, LogError, LogRecord, SegmentLog, SegmentStore, store::PartitionView,
};
use tokio::sync::Notify;

use crate::topics::CONSUMER_OFFSETS;

/// An append that waits until it may be given to the store.
#[derive(Debug)]
struct Held {
    append_id: LogAppendId,
    partition: i32,
    epoch: i32,
    timestamp_ms: i64,
    records: Vec<LogRecord>,
}

/// An append that has not been told of.
#[derive(Debug)]
struct Pending {
    append_id: LogAppendId,
    /// The store's name for it.
    stored: Option<LogAppendId>,
    result: Option<Result<i64, LogError>>,
}

/// One node's end.
#[derive(Debug)]
struct End {
    log: SegmentLog,
    next: u64,
    held: VecDeque<Held>,
    /// By partition, oldest first: ends are told in this order.
    pending: HashMap<i32, VecDeque<Pending>>,
    ready: Vec<Completion>,
}

/// See the module.
#[derive(Debug)]
pub struct DiskLog {
    store: Arc<SegmentStore>,
    ends: Vec<End>,
    batch_bytes_max: usize,
    is_read_only: bool,
    is_held: bool,
    /// What the next appends fail with, and how many of them.
    failures: VecDeque<(LogError, u64)>,
}

impl DiskLog {
    /// Of `partitions` partitions, which are created where they are not there; one end for each bell.
    pub fn new(
        store: &Arc<SegmentStore>,
        partitions: u32,
        topic_id: u128,
        batch_bytes_max: usize,
        is_read_only: bool,
        bells: &[Arc<Notify>],
    ) -> Result<DiskLog, LogError> {
        let end = |bell: &Arc<Notify>| {
            let bell = Arc::clone(bell);
            let log = store.log(CONSUMER_OFFSETS, partitions, topic_id, move || bell.notify_one())?;
            Ok(End { log, next: 0, held: VecDeque::new(), pending: HashMap::new(), ready: Vec::new() })
        };
        let ends = bells.iter().map(end).collect::<Result<Vec<End>, LogError>>()?;
        let (store, failures) = (Arc::clone(store), VecDeque::new());
        Ok(DiskLog { store, ends, batch_bytes_max, is_read_only, is_held: false, failures })
    }

    /// As [`FencedLog::open`]. What is only read has no epochs.
    pub fn open(&mut self, partition: i32, epoch: i32) -> Result<i64, LogError> {
        let end = &mut self.ends[0];
        if self.is_read_only {
            let view = end.log.view(partition).ok_or(LogError::UnknownPartition { partition })?;
            return view.refusal().map_or_else(|| Ok(view.next_offset()), Err);
        }
        end.log.open(partition, epoch)
    }

    /// What can be read of a partition.
    pub fn view(&self, partition: i32) -> Option<Arc<PartitionView>> {
        self.ends[0].log.view(partition).cloned()
    }

    /// Takes an append of the node at this place.
    pub fn append(
        &mut self,
        at: usize,
        partition: i32,
        epoch: i32,
        timestamp_ms: i64,
        records: Vec<LogRecord>,
    ) -> LogAppendId {
        let end = &mut self.ends[at];
        let append_id = LogAppendId(end.next);
        end.next += 1;
        end.pending.entry(partition).or_default().push_back(Pending { append_id, stored: None, result: None });
        end.held.push_back(Held { append_id, partition, epoch, timestamp_ms, records });
        if !self.is_held {
            self.pass_on(at);
        }
        append_id
    }

    /// Gives the store what was held back.
    fn pass_on(&mut self, at: usize) {
        let end = &mut self.ends[at];
        for Held { append_id, partition, epoch, timestamp_ms, records } in mem::take(&mut end.held) {
            let batch_bytes =
                records.iter().map(|record| record.key.len() + record.value.as_ref().map_or(0, Vec::len)).sum();
            let refused = if let Some((error, times)) = self.failures.front_mut() {
                let error = error.clone();
                *times -= 1;
                if *times == 0 {
                    self.failures.pop_front();
                }
                Some(error)
            } else if batch_bytes > self.batch_bytes_max {
                Some(LogError::TooLarge { batch_bytes, limit_bytes: self.batch_bytes_max })
            } else if records.is_empty() {
                Some(LogError::Empty)
            } else {
                None
            };
            let stored =
                if refused.is_none() { Some(end.log.append(partition, epoch, timestamp_ms, records)) } else { None };
            let waiting = end.pending.get_mut(&partition).into_iter().flatten();
            if let Some(pending) = waiting.rev().find(|pending| pending.append_id == append_id) {
                pending.stored = stored;
                pending.result = refused.map(Err);
            }
            end.told(partition);
        }
    }

    /// Makes durable what the node at this place has appended, and gives what has ended.
    pub fn ended(&mut self, at: usize) -> Vec<Completion> {
        let end = &mut self.ends[at];
        end.log.flush();
        for Completion { partition, append_id, result } in end.log.completions() {
            let mut waiting = end.pending.get_mut(&partition).into_iter().flatten();
            if let Some(pending) = waiting.find(|pending| pending.stored == Some(append_id)) {
                pending.result = Some(result);
            }
            end.told(partition);
        }
        mem::take(&mut end.ready)
    }

    /// From now on no append ends.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Appends end again, those that were held back first; gives how many those are. They have ended when this returns.
    pub fn release(&mut self) -> usize {
        self.is_held = false;
        let held = self.ends.iter().map(|end| end.held.len()).sum();
        for at in 0..self.ends.len() {
            self.pass_on(at);
            self.ends[at].log.flush();
        }
        // The store answers in order: what was asked before this has ended.
        let _closed = self.store.inspect(|_| ());
        held
    }

    /// The next `times` appends fail with `error`.
    pub fn fail_next(&mut self, error: LogError, times: u64) {
        if times > 0 {
            self.failures.push_back((error, times));
        }
    }
}

impl End {
    /// INVARIANT: S16. Of two appends to a partition the older one's end is told first.
    fn told(&mut self, partition: i32) {
        let Some(pending) = self.pending.get_mut(&partition) else { return };
        while let Some(result) = pending.front_mut().and_then(|first| first.result.take()) {
            let append_id = pending.pop_front().map_or(LogAppendId(0), |first| first.append_id);
            self.ready.push(Completion { partition, append_id, result });
        }
        if pending.is_empty() {
            self.pending.remove(&partition);
        }
    }
}
