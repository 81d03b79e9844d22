//! The log of one partition: fenced by epochs, slow and failing. After a crash it has what was durable, or slightly
//! more.
//!
//! It is a fenced log in the server's wrapper for faults: appends are held until they are durable; failures and
//! duplicates happen there.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rota_core::{AppendId, Coordinator, ErrorCode, LogEntry, Record, Sink, records::ConsumerRecord};
use rota_log::{
    Append, BatchKind, Completion, Completions, Fault, FaultyLog, FencedLog, LogError, Operation, RecordInPlace,
};

use super::Planted;
use crate::dice::Rng;

/// Identifies one append; ascending over all epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendNumber(pub u64);

type Batch = Arc<[Record]>;

#[derive(Clone)]
struct Entry {
    number: AppendNumber,
    epoch: u32,
    records: Vec<Record>,
}

/// The durable content.
#[derive(Default)]
struct Stored {
    epoch: i32,
    /// Planted bug: older epochs are accepted.
    is_fenceless: bool,
    entries: Vec<Entry>,
}

/// The fenced log below the faults. Its records stay decoded, because the checks read them often.
#[derive(Default)]
struct Store(Mutex<Stored>);

impl Store {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FencedLog<Batch> for Store {
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>) {
        let mut stored = self.lock();
        stored.epoch = stored.epoch.max(epoch);
        let result = Ok(stored.entries.last().map_or(0, |last| last.number.0 as i64 + 1));
        drop(stored);
        to.put([Completion { partition, epoch, operation: Operation::Open, result }]);
    }

    /// The offset of an append is its number.
    fn append(&self, append: Append<Batch>, to: &Arc<Completions>) {
        let mut stored = self.lock();
        let (current_epoch, epoch) = (stored.epoch, append.epoch);
        let result = if epoch < current_epoch && !stored.is_fenceless {
            Err(LogError::Fenced { current_epoch, epoch })
        } else {
            let (number, records) = (AppendNumber(append.id), append.batch.to_vec());
            stored.entries.push(Entry { number, epoch: epoch as u32, records });
            Ok(append.id as i64)
        };
        drop(stored);
        to.put([append.completion(result)]);
    }

    fn read(&self, _: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        let stored = self.lock();
        let at = stored.entries.partition_point(|entry| entry.number.0 < from as u64);
        for entry in &stored.entries[at..] {
            for record in &entry.records {
                let (key, value) = (record.key_bytes(), record.value_bytes());
                let offset = entry.number.0 as i64;
                visit(RecordInPlace {
                    offset,
                    timestamp_ms: 0,
                    kind: BatchKind::Plain,
                    key: &key,
                    value: value.as_deref(),
                });
            }
        }
        Ok(stored.entries[at..].last().map_or(from, |last| last.number.0 as i64 + 1))
    }

    fn end(&self, _: i32) -> Result<i64, LogError> {
        Ok(self.lock().entries.last().map_or(0, |last| last.number.0 as i64 + 1))
    }

    /// No check asks.
    fn size_bytes(&self, _: i32) -> u64 {
        0
    }
}

/// An append whose completion is delayed.
#[derive(Clone, Copy)]
pub struct InFlight {
    pub node: usize,
    pub epoch: u32,
    pub append_id: AppendId,
    /// The error if the log refused it.
    pub refused: Option<ErrorCode>,
    /// It has ended for its node, which shares its partitions over an engine.
    pub is_ended: bool,
    /// A load has found the groups that it deletes.
    pub has_deleted: bool,
}

/// The key of a committed offset: group, topic, partition.
pub type Committed = (Arc<str>, Arc<str>, i32);

/// An append that is not durable yet.
struct Scheduled {
    number: AppendNumber,
    durable_at_ms: u64,
    is_refused: bool,
    fault: Option<Fault>,
}

/// What a log had at some moment.
pub struct Copy {
    epoch: u32,
    entries: Vec<Entry>,
}

/// One partition's log.
pub struct Log {
    pub epoch: u32,
    /// The last return of the engine that changed it, counted from 1; 0: none did.
    pub era: u32,
    /// The era whose coordinator has begun.
    pub told_era: u32,
    /// What the engine has lost.
    gone: Vec<Entry>,
    store: Arc<Store>,
    faulty: FaultyLog<Batch>,
    completions: Arc<Completions>,
    /// Held appends, oldest first.
    scheduled: RefCell<VecDeque<Scheduled>>,
    pub in_flight: BTreeMap<AppendNumber, InFlight>,
    /// The records of all appends to an engine.
    sent: BTreeMap<AppendNumber, Vec<Record>>,
    next: u64,
    durable_ms: u64,
    /// Time of the last delivered completion; completions are delivered in order.
    told_ms: u64,
    /// End of slow and duplicated appends, in milliseconds.
    pub slow_until_ms: u64,
    /// End of failing appends, in milliseconds.
    pub fails_until_ms: u64,
    pub error: usize,
    /// Number of lost tails and torn batches.
    pub lost: u64,
}

impl Default for Log {
    fn default() -> Log {
        let store = Arc::new(Store::default());
        let faulty = FaultyLog::new(Arc::clone(&store) as Arc<dyn FencedLog<Batch> + Send + Sync>, || 0);
        faulty.hold();
        Log {
            epoch: 0,
            era: 0,
            told_era: 0,
            gone: Vec::new(),
            store,
            faulty,
            completions: Completions::new(|| ()),
            scheduled: RefCell::default(),
            in_flight: BTreeMap::new(),
            sent: BTreeMap::new(),
            next: 0,
            durable_ms: 0,
            told_ms: 0,
            slow_until_ms: 0,
            fails_until_ms: 0,
            error: 0,
            lost: 0,
        }
    }
}

impl Log {
    /// Accepts or refuses a batch. Returns when its completion arrives.
    pub fn append(
        &mut self,
        by: &InFlight,
        records: &[Record],
        now_ms: u64,
        dice: &mut Rng,
        planted: Option<Planted>,
    ) -> (AppendNumber, u64) {
        let number = self.next_number();
        self.next += 1;
        let slow = now_ms < self.slow_until_ms;
        let latency_ms = if slow { dice.below(9_000) } else { 1 + dice.below(4) } as u64;
        let is_fenceless = planted == Some(Planted::LogWithoutFence);
        self.store.lock().is_fenceless = is_fenceless;
        let is_fenced = by.epoch < self.epoch && !is_fenceless;
        let failure = (!is_fenced && now_ms < self.fails_until_ms && dice.chance(80))
            .then(|| super::faults::LOG_ERRORS[self.error % super::faults::LOG_ERRORS.len()]);
        let fault = match failure {
            Some(error) => Some(Fault::Fail(LogError::Failed { code: error.code() })),
            // A client of the log with a timeout repeats a slow append.
            None => (slow && number.0.is_multiple_of(3)).then_some(Fault::Duplicate),
        };
        let refused = if is_fenced { Some(ErrorCode::NotLeaderOrFollower) } else { failure };
        let is_refused = refused.is_some();
        // In order.
        self.durable_ms = self.durable_ms.max(now_ms + latency_ms);
        let durable_at_ms = self.durable_ms;
        let (epoch, batch) = (by.epoch as i32, Batch::from(records));
        self.faulty.append(
            Append { partition: 0, epoch, id: number.0, timestamp_ms: 0, kind: BatchKind::Plain, batch },
            &self.completions,
        );
        self.scheduled.get_mut().push_back(Scheduled { number, durable_at_ms, is_refused, fault });
        self.in_flight.insert(number, InFlight { refused, ..*by });
        let early = planted == Some(Planted::LogAcknowledgesEarly) && !is_refused;
        self.told_ms = self.told_ms.max(durable_at_ms + dice.below(3) as u64);
        (number, if early { now_ms } else { self.told_ms })
    }

    /// An append is on its way to the engine.
    pub fn sent(&mut self, by: &InFlight, records: &[Record]) -> AppendNumber {
        let number = self.next_number();
        self.next += 1;
        self.sent.insert(number, records.to_vec());
        self.in_flight.insert(number, *by);
        number
    }

    /// The engine has written an append.
    pub fn write(&mut self, number: AppendNumber, epoch: u32) {
        let records = self.sent.get(&number).cloned().unwrap_or_default();
        self.store.lock().entries.push(Entry { number, epoch, records });
    }

    /// What the engine has at this moment.
    pub fn copy(&self) -> Copy {
        Copy { epoch: self.epoch, entries: self.store.lock().entries.clone() }
    }

    /// The engine goes back to the copy. Returns whether it loses an entry.
    pub fn go_back(&mut self, copy: Copy) -> bool {
        self.epoch = copy.epoch;
        let mut stored = self.store.lock();
        let before = std::mem::replace(&mut stored.entries, copy.entries);
        let is_kept = |entry: &Entry| stored.entries.binary_search_by_key(&entry.number, |kept| kept.number).is_ok();
        let (kept, gone): (Vec<Entry>, Vec<Entry>) = before.into_iter().partition(is_kept);
        let has_changed = !gone.is_empty() || kept.len() != stored.entries.len();
        self.gone.extend(gone);
        has_changed
    }

    /// Whether this commit was in the log, and the engine has lost it.
    pub fn has_lost(&self, place: &Committed, offset: i64) -> bool {
        self.gone.iter().flat_map(|entry| &entry.records).any(|record| is_commit(record, place, offset))
    }

    /// An append has ended for its node; its coordinator has not heard of it.
    pub fn ended(&mut self, number: AppendNumber, refused: Option<ErrorCode>) {
        if let Some(by) = self.in_flight.get_mut(&number) {
            (by.refused, by.is_ended) = (refused, true);
        }
    }

    /// The appends that the engine has.
    pub fn written_numbers(&self) -> Vec<AppendNumber> {
        self.store.lock().entries.iter().map(|entry| entry.number).collect()
    }

    /// Replays what a node has loaded from the engine.
    pub fn replay_these(&self, numbers: &[AppendNumber], core: &mut Coordinator, planted: Option<Planted>) {
        let forgotten = if planted == Some(Planted::LoadForgetsTheLast) { 2 } else { 0 };
        let records =
            numbers.iter().flat_map(|number| self.sent.get(number).into_iter().flatten().map(|one| (*number, one)));
        let records: Vec<_> = records.collect();
        for (number, record) in &records[..records.len().saturating_sub(forgotten)] {
            core.replay(&LogEntry { offset: number.0, timestamp_ms: 0, record: Record::clone(record) });
        }
    }

    /// Stores the appends that are durable by now.
    fn catch_up(&self, now_ms: u64) {
        let mut scheduled = self.scheduled.borrow_mut();
        while scheduled.front().is_some_and(|next| next.durable_at_ms <= now_ms)
            && let Some(next) = scheduled.pop_front()
        {
            self.release(next.is_refused, next.fault);
        }
    }

    /// Stores or refuses the oldest held append.
    fn release(&self, is_refused: bool, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.faulty.strike(fault, 1);
        }
        self.faulty.release(1);
        let ended = self.completions.take();
        debug_assert!(ended.len() == 1 && ended[0].result.is_err() == is_refused, "{ended:?}");
    }

    /// Returns a completed append and its result. The result of an append that a new epoch cut off is
    /// `NOT_LEADER_OR_FOLLOWER`.
    pub fn end(&mut self, number: AppendNumber, now_ms: u64) -> Option<(InFlight, Result<u64, ErrorCode>)> {
        self.catch_up(now_ms);
        let by = self.in_flight.remove(&number)?;
        // A held append completes only with a planted bug.
        let is_there =
            by.is_ended || self.is_stored(number) || self.scheduled.get_mut().iter().any(|held| held.number == number);
        let result = match by.refused {
            Some(error) => Err(error),
            None if is_there => Ok(number.0),
            None => Err(ErrorCode::NotLeaderOrFollower),
        };
        Some((by, result))
    }

    pub fn is_stored(&self, number: AppendNumber) -> bool {
        self.store.lock().entries.binary_search_by_key(&number, |entry| entry.number).is_ok()
    }

    /// Returns the groups that an append deleted, if it is stored.
    pub fn deleted_by(&self, number: AppendNumber) -> Vec<Arc<str>> {
        let stored = self.store.lock();
        let found = stored.entries.binary_search_by_key(&number, |entry| entry.number);
        let records = found.map_or(&[][..], |at| &stored.entries[at].records);
        let deleted = records.iter().filter_map(|record| match record {
            Record::Group { group_id, value: None } => {
                // A group with members is not deleted, but becomes a consumer group with them. The log may not have
                // heard that they are gone.
                let is_converted = records.iter().any(|record| has_classic_member(record, group_id));
                (!is_converted).then(|| group_id.clone())
            }
            Record::Consumer { group_id, about: ConsumerRecord::Epoch(None) } => {
                let is_converted = records.iter().any(|record| has_members(record, group_id));
                (!is_converted).then(|| group_id.clone())
            }
            _ => None,
        });
        deleted.collect()
    }

    /// Passes the records about consumer groups of an append, or of all, to `take`, if they are stored.
    pub fn each_consumer_record(&self, of: Option<AppendNumber>, take: &mut dyn FnMut(&Arc<str>, &ConsumerRecord)) {
        let stored = self.store.lock();
        let from = of.map_or(0, |number| stored.entries.partition_point(|entry| entry.number < number));
        let entries = stored.entries[from..].iter().take_while(|entry| of.is_none_or(|number| entry.number == number));
        for record in entries.flat_map(|entry| &entry.records) {
            if let Record::Consumer { group_id, about } = record {
                take(group_id, about);
            }
        }
    }

    /// Begins a new epoch. A part of the appends in flight stays, as it reached the disk; a torn batch is cut.
    pub fn open(&mut self, now_ms: u64, dice: &mut Rng) -> u32 {
        self.catch_up(now_ms);
        let held = std::mem::take(self.scheduled.get_mut());
        let tail = held.iter().filter(|held| !held.is_refused).count();
        let kept = dice.below(tail + 1);
        self.lost += (tail - kept) as u64;
        let mut left = kept;
        for Scheduled { is_refused, fault, .. } in held {
            if left == 0 {
                break;
            }
            self.release(is_refused, fault);
            left -= usize::from(!is_refused);
        }
        self.faulty.crash(0);
        self.faulty.hold();
        self.epoch += 1;
        self.faulty.open(0, self.epoch as i32, &self.completions);
        self.completions.take();
        (self.durable_ms, self.told_ms) = (now_ms, now_ms);
        self.epoch
    }

    /// Keeps the newest record of each key, and records that are not durable yet.
    pub fn compact(&mut self, now_ms: u64) -> usize {
        self.catch_up(now_ms);
        let mut stored = self.store.lock();
        let mut newest = BTreeMap::new();
        for entry in &stored.entries {
            newest.extend(entry.records.iter().map(|record| (record.key_bytes(), entry.number)));
        }
        let mut removed = 0;
        for entry in &mut stored.entries {
            let before = entry.records.len();
            entry.records.retain(|record| newest[&record.key_bytes()] == entry.number);
            removed += before - entry.records.len();
        }
        removed
    }

    /// Replays the log into a coordinator.
    pub fn replay(&self, core: &mut Coordinator, planted: Option<Planted>) {
        let forgotten = if planted == Some(Planted::LoadForgetsTheLast) { 2 } else { 0 };
        let count: usize = self.store.lock().entries.iter().map(|entry| entry.records.len()).sum();
        let mut left = count.saturating_sub(forgotten);
        let read = self.faulty.read(0, 0, &mut |RecordInPlace { offset, timestamp_ms, key, value, .. }| {
            if left > 0 {
                left -= 1;
                let record = Record::decode(key, value).expect("own bytes");
                core.replay(&LogEntry { offset: offset as u64, timestamp_ms, record });
            }
        });
        debug_assert!(read.is_ok(), "one slice has everything");
    }

    /// The number of the next append.
    pub fn next_number(&self) -> AppendNumber {
        AppendNumber(self.next)
    }

    /// Whether the log durably has a group.
    pub fn has_group(&self, group_id: &str, now_ms: u64) -> bool {
        let found = self.newest(now_ms, |_, record| match record {
            Record::Consumer { group_id: of, .. }
            | Record::Group { group_id: of, value: Some(_) }
            | Record::Offset { group_id: of, value: Some(_), .. } => (**of == *group_id).then_some(()),
            _ => None,
        });
        found.is_some()
    }

    /// Whether the newest durable record of a group has this member.
    pub fn has_member(&self, group_id: &str, member_id: &str, now_ms: u64) -> bool {
        let found = self.newest(now_ms, |_, record| match record {
            Record::Group { group_id: of, value } if **of == *group_id => {
                let members = value.as_ref().map_or(&[][..], |value| &value.members);
                Some(members.iter().any(|member| *member.member_id == *member_id))
            }
            _ => None,
        });
        found.unwrap_or(false)
    }

    /// Returns the epoch that durably stored the plan of a generation, since the group was deleted last.
    pub fn plan_epoch(&self, group_id: &str, generation: i32, now_ms: u64) -> Option<u32> {
        self.catch_up(now_ms);
        let stored = self.store.lock();
        let mut found = None;
        for entry in &stored.entries {
            for record in &entry.records {
                match record {
                    Record::Group { group_id: of, value: None } if **of == *group_id => found = None,
                    Record::Group { group_id: of, value: Some(value) }
                        if **of == *group_id && value.generation == generation && !value.members.is_empty() =>
                    {
                        found = found.or(Some(entry.epoch));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// Returns the latest durable commit of an offset.
    pub fn committed(&self, place: &Committed, offset: i64, now_ms: u64) -> Option<AppendNumber> {
        self.newest(now_ms, |number, record| is_commit(record, place, offset).then_some(number))
    }

    /// Returns the first result of `find` over durable records, newest first.
    fn newest<T>(&self, now_ms: u64, find: impl Fn(AppendNumber, &Record) -> Option<T>) -> Option<T> {
        self.catch_up(now_ms);
        let stored = self.store.lock();
        let records = |entry: &'_ Entry| entry.records.iter().rev().find_map(|record| find(entry.number, record));
        stored.entries.iter().rev().find_map(records)
    }
}

/// Whether a record commits this offset.
fn is_commit(record: &Record, (group, name, index): &Committed, offset: i64) -> bool {
    matches!(record, Record::Offset { group_id, topic, partition, value: Some(value) }
        if value.offset == offset && partition == index && topic == name && group_id == group)
}

/// Whether a record is of a classic group with members.
fn has_members(record: &Record, group_id: &Arc<str>) -> bool {
    matches!(record, Record::Group { group_id: of, value: Some(value) } if of == group_id && !value.members.is_empty())
}

/// Whether a record is of a member of a consumer group that uses the classic protocol.
fn has_classic_member(record: &Record, group_id: &Arc<str>) -> bool {
    let Record::Consumer { group_id: of, about: ConsumerRecord::Member(_, Some(member)) } = record else {
        return false;
    };
    of == group_id && member.classic.is_some()
}

/// A group as `DescribeGroups` shows it.
pub struct Described {
    pub state: String,
    pub members: usize,
}

/// Effects of a coordinator, in order.
#[derive(Default)]
pub struct Effects {
    pub answers: Vec<(rota_core::Ticket, Option<rota_member::Answer>)>,
    pub appends: Vec<(AppendId, Vec<Record>)>,
    /// The last description of a group.
    pub described: Option<Described>,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: rota_core::Ticket, answer: rota_core::Answer<'_>) {
        match answer {
            rota_core::Answer::DescribeGroup(found) => {
                self.described = Some(Described { state: found.state.to_owned(), members: found.members.len() });
            }
            answer => self.answers.push((ticket, crate::bridge::to_member(&answer))),
        }
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.appends.push((append_id, records.to_vec()));
    }
}
