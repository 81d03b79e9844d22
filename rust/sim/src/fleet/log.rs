//! The log of one partition: fenced by epochs, slow, failing, and after a crash only what was durable, or a little more.
//!
//! It is a fenced log like the server's, with the same wrapper around it: appends are held until they are durable, and
//! what fails or arrives twice does so there.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rota_core::{AppendId, Coordinator, ErrorCode, LogEntry, Record, Sink};
use rota_log::{Append, Completion, Completions, Fault, FaultyLog, FencedLog, LogError, Operation, RecordInPlace};

use super::Planted;
use crate::dice::Dice;

/// Names one append; ascending over all epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendNumber(pub u64);

type Batch = Arc<[Record]>;

struct Entry {
    number: AppendNumber,
    epoch: u32,
    records: Vec<Record>,
}

/// What is durable.
#[derive(Default)]
struct Stored {
    epoch: i32,
    /// A planted bug: older epochs are not refused.
    is_fenceless: bool,
    entries: Vec<Entry>,
}

/// The fenced log below the faults. Its records stay typed: the promises look through them all the time.
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

    /// An append's offset is its number.
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
                visit(RecordInPlace { offset, timestamp_ms: 0, key: &key, value: value.as_deref() });
            }
        }
        Ok(stored.entries[at..].last().map_or(from, |last| last.number.0 as i64 + 1))
    }
}

/// What is known of an append whose end is on its way.
#[derive(Clone, Copy)]
pub struct InFlight {
    pub node: usize,
    pub epoch: u32,
    pub append_id: AppendId,
    /// The error if the log refused it.
    pub refused: Option<ErrorCode>,
}

/// What an offset is committed for: a group, a topic, a partition.
pub type Committed = (Arc<str>, Arc<str>, i32);

/// An append that is not durable yet.
struct Scheduled {
    number: AppendNumber,
    durable_at_ms: u64,
    is_refused: bool,
    fault: Option<Fault>,
}

/// One partition's log.
pub struct Log {
    pub epoch: u32,
    store: Arc<Store>,
    faulty: FaultyLog<Batch>,
    ends: Arc<Completions>,
    /// What is held, oldest first.
    scheduled: RefCell<VecDeque<Scheduled>>,
    pub in_flight: BTreeMap<AppendNumber, InFlight>,
    next: u64,
    durable_ms: u64,
    /// When the last end is told: ends are told in order.
    told_ms: u64,
    /// Until then appends take long, and some are repeated.
    pub slow_until_ms: u64,
    /// Until then appends fail.
    pub fails_until_ms: u64,
    pub error: usize,
    /// Tails that were lost, batches that were torn.
    pub lost: u64,
}

impl Default for Log {
    fn default() -> Log {
        let store = Arc::new(Store::default());
        let faulty = FaultyLog::new(Arc::clone(&store) as Arc<dyn FencedLog<Batch> + Send + Sync>, || 0);
        faulty.hold();
        Log {
            epoch: 0,
            store,
            faulty,
            ends: Completions::new(|| ()),
            scheduled: RefCell::default(),
            in_flight: BTreeMap::new(),
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
    /// Takes a batch, or refuses it; when its end will be known.
    pub fn append(
        &mut self,
        by: &InFlight,
        records: &[Record],
        now_ms: u64,
        dice: &mut Dice,
        planted: Option<Planted>,
    ) -> (AppendNumber, u64) {
        let number = AppendNumber(self.next);
        self.next += 1;
        let slow = now_ms < self.slow_until_ms;
        let latency_ms = if slow { dice.roll(9_000) } else { 1 + dice.roll(4) } as u64;
        let is_fenceless = planted == Some(Planted::LogWithoutFence);
        self.store.lock().is_fenceless = is_fenceless;
        let is_fenced = by.epoch < self.epoch && !is_fenceless;
        let failure = (!is_fenced && now_ms < self.fails_until_ms && dice.chance(80))
            .then(|| super::faults::LOG_ERRORS[self.error % super::faults::LOG_ERRORS.len()]);
        let fault = match failure {
            Some(error) => Some(Fault::Fail(LogError::Failed { code: error.code() })),
            // A client of the log that waits for long asks again.
            None => (slow && number.0.is_multiple_of(3)).then_some(Fault::Duplicate),
        };
        let refused = if is_fenced { Some(ErrorCode::NotLeaderOrFollower) } else { failure };
        let is_refused = refused.is_some();
        // One after the other.
        self.durable_ms = self.durable_ms.max(now_ms + latency_ms);
        let durable_at_ms = self.durable_ms;
        let (epoch, batch) = (by.epoch as i32, Batch::from(records));
        self.faulty.append(Append { partition: 0, epoch, id: number.0, timestamp_ms: 0, batch }, &self.ends);
        self.scheduled.get_mut().push_back(Scheduled { number, durable_at_ms, is_refused, fault });
        self.in_flight.insert(number, InFlight { refused, ..*by });
        let early = planted == Some(Planted::LogAcknowledgesEarly) && !is_refused;
        self.told_ms = self.told_ms.max(durable_at_ms + dice.roll(3) as u64);
        (number, if early { now_ms } else { self.told_ms })
    }

    /// What is durable by now goes to the store.
    fn catch_up(&self, now_ms: u64) {
        let mut scheduled = self.scheduled.borrow_mut();
        while scheduled.front().is_some_and(|next| next.durable_at_ms <= now_ms)
            && let Some(next) = scheduled.pop_front()
        {
            self.release(next.is_refused, next.fault);
        }
    }

    /// The oldest append that is held goes to the store.
    fn release(&self, is_refused: bool, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.faulty.strike(fault, 1);
        }
        self.faulty.release(1);
        let ended = self.ends.take();
        debug_assert!(ended.len() == 1 && ended[0].result.is_err() == is_refused, "{ended:?}");
    }

    /// The end of an append: whose it was, and what became of it. Of one that a new epoch cut off, it is not the leader.
    pub fn end(&mut self, number: AppendNumber, now_ms: u64) -> Option<(InFlight, Result<u64, ErrorCode>)> {
        self.catch_up(now_ms);
        let by = self.in_flight.remove(&number)?;
        // One that is still held ends only where a bug is planted.
        let is_there = self.is_stored(number) || self.scheduled.get_mut().iter().any(|held| held.number == number);
        let result = match by.refused {
            Some(error) => Err(error),
            None if is_there => Ok(number.0),
            None => Err(ErrorCode::NotLeaderOrFollower),
        };
        Some((by, result))
    }

    fn is_stored(&self, number: AppendNumber) -> bool {
        self.store.lock().entries.binary_search_by_key(&number, |entry| entry.number).is_ok()
    }

    /// Groups that an append deleted, if it is there.
    pub fn deleted_by(&self, number: AppendNumber) -> Vec<Arc<str>> {
        let stored = self.store.lock();
        let found = stored.entries.binary_search_by_key(&number, |entry| entry.number);
        let records = found.map_or(&[][..], |at| &stored.entries[at].records);
        let deleted = records.iter().filter_map(|record| match record {
            Record::Group { group_id, value: None } => Some(group_id.clone()),
            _ => None,
        });
        deleted.collect()
    }

    /// A new epoch begins. Of what was not durable, as much as reached the disk stays; a batch that did so in part is
    /// cut off.
    pub fn open(&mut self, now_ms: u64, dice: &mut Dice) -> u32 {
        self.catch_up(now_ms);
        let held = std::mem::take(self.scheduled.get_mut());
        let tail = held.iter().filter(|held| !held.is_refused).count();
        let kept = dice.roll(tail + 1);
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
        self.faulty.open(0, self.epoch as i32, &self.ends);
        self.ends.take();
        (self.durable_ms, self.told_ms) = (now_ms, now_ms);
        self.epoch
    }

    /// Only the newest record of each key stays, and what is not durable yet.
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

    /// What a load makes of it.
    pub fn replay(&self, core: &mut Coordinator, planted: Option<Planted>) {
        let forgotten = if planted == Some(Planted::LoadForgetsTheLast) { 2 } else { 0 };
        let count: usize = self.store.lock().entries.iter().map(|entry| entry.records.len()).sum();
        let mut left = count.saturating_sub(forgotten);
        let read = self.faulty.read(0, 0, &mut |RecordInPlace { offset, timestamp_ms, key, value }| {
            if left > 0 {
                left -= 1;
                let record = Record::decode(key, value).expect("own bytes");
                core.replay(&LogEntry { offset: offset as u64, timestamp_ms, record });
            }
        });
        debug_assert!(read.is_ok(), "one slice has everything");
    }

    /// Whether the log has anything of a group for good.
    pub fn has_group(&self, group_id: &str, now_ms: u64) -> bool {
        let found = self.newest(now_ms, |_, record| match record {
            Record::Group { group_id: of, value: Some(_) } | Record::Offset { group_id: of, value: Some(_), .. } => {
                (**of == *group_id).then_some(())
            }
            _ => None,
        });
        found.is_some()
    }

    /// Whether the newest record of a group that is there for good has this member.
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

    /// The epoch in which the plan of a generation was stored for good.
    pub fn plan_epoch(&self, group_id: &str, generation: i32, now_ms: u64) -> Option<u32> {
        let is_plan = |record: &Record| {
            matches!(record, Record::Group { group_id: of, value: Some(value) }
                if **of == *group_id && value.generation == generation && !value.members.is_empty())
        };
        self.catch_up(now_ms);
        let stored = self.store.lock();
        stored.entries.iter().find(|entry| entry.records.iter().any(is_plan)).map(|entry| entry.epoch)
    }

    /// Where an offset was committed last, of what is there for good.
    pub fn committed(&self, place: &Committed, offset: i64, now_ms: u64) -> Option<AppendNumber> {
        let (group, name, index) = place;
        self.newest(now_ms, |number, record| match record {
            Record::Offset { group_id, topic, partition, value: Some(value) }
                if value.offset == offset && partition == index && topic == name && group_id == group =>
            {
                Some(number)
            }
            _ => None,
        })
    }

    /// What `find` makes of the newest durable record that it accepts.
    fn newest<T>(&self, now_ms: u64, find: impl Fn(AppendNumber, &Record) -> Option<T>) -> Option<T> {
        self.catch_up(now_ms);
        let stored = self.store.lock();
        let records = |entry: &'_ Entry| entry.records.iter().rev().find_map(|record| find(entry.number, record));
        stored.entries.iter().rev().find_map(records)
    }
}

/// A group from outside.
pub struct Described {
    pub state: String,
    pub members: usize,
}

/// What a core wants done, in order.
#[derive(Default)]
pub struct Effects {
    pub answers: Vec<(rota_core::Ticket, Option<rota_member::Answer>)>,
    pub appends: Vec<(AppendId, Vec<Record>)>,
    /// What the operator was told.
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
