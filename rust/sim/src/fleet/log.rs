//! The log of one partition: fenced by epochs, slow, failing, and after a crash only what was durable, or a little more.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{AppendId, Coordinator, ErrorCode, LogEntry, Record, Sink};

use super::Planted;
use crate::dice::Dice;

/// Names one append; ascending over all epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendNumber(pub u64);

struct Entry {
    number: AppendNumber,
    epoch: u32,
    records: Vec<Record>,
    durable_at_ms: u64,
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

/// One partition's log.
#[derive(Default)]
pub struct Log {
    pub epoch: u32,
    entries: Vec<Entry>,
    pub in_flight: BTreeMap<AppendNumber, InFlight>,
    next: u64,
    durable_ms: u64,
    /// When the last end is told: ends are told in order.
    told_ms: u64,
    /// Until then appends take long.
    pub slow_until_ms: u64,
    /// Until then appends fail.
    pub fails_until_ms: u64,
    pub error: usize,
    /// Tails that were lost, batches that were torn.
    pub lost: u64,
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
        let refused = if by.epoch < self.epoch && planted != Some(Planted::LogWithoutFence) {
            Some(ErrorCode::NotLeaderOrFollower)
        } else if now_ms < self.fails_until_ms && dice.chance(80) {
            Some(super::faults::LOG_ERRORS[self.error % super::faults::LOG_ERRORS.len()])
        } else {
            None
        };
        // One after the other.
        self.durable_ms = self.durable_ms.max(now_ms + latency_ms);
        let durable_at_ms = self.durable_ms;
        if refused.is_none() {
            self.entries.push(Entry { number, epoch: by.epoch, records: records.to_vec(), durable_at_ms });
        }
        self.in_flight.insert(number, InFlight { refused, ..*by });
        let early = planted == Some(Planted::LogAcknowledgesEarly) && refused.is_none();
        self.told_ms = self.told_ms.max(durable_at_ms + dice.roll(3) as u64);
        (number, if early { now_ms } else { self.told_ms })
    }

    /// The end of an append: whose it was, and what became of it. Of one that a new epoch cut off, it is not the leader.
    pub fn end(&mut self, number: AppendNumber) -> Option<(InFlight, Result<u64, ErrorCode>)> {
        let by = self.in_flight.remove(&number)?;
        let is_there = self.entries.binary_search_by_key(&number, |entry| entry.number).is_ok();
        let result = match by.refused {
            Some(error) => Err(error),
            None if is_there => Ok(number.0),
            None => Err(ErrorCode::NotLeaderOrFollower),
        };
        Some((by, result))
    }

    /// Groups that an append deleted, if it is there.
    pub fn deleted_by(&self, number: AppendNumber) -> Vec<Arc<str>> {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.number);
        let records = found.map_or(&[][..], |at| &self.entries[at].records);
        let deleted = records.iter().filter_map(|record| match record {
            Record::Group { group_id, value: None } => Some(group_id.clone()),
            _ => None,
        });
        deleted.collect()
    }

    /// A new epoch begins. Of what was not durable, as much as reached the disk stays; a batch that did so in part is
    /// cut off.
    pub fn open(&mut self, now_ms: u64, dice: &mut Dice) -> u32 {
        self.epoch += 1;
        let durable = self.entries.iter().take_while(|entry| entry.durable_at_ms <= now_ms).count();
        let tail = self.entries.len() - durable;
        let kept = dice.roll(tail + 1);
        self.lost += (tail - kept) as u64;
        self.entries.truncate(durable + kept);
        for entry in &mut self.entries[durable..] {
            entry.durable_at_ms = now_ms;
        }
        (self.durable_ms, self.told_ms) = (now_ms, now_ms);
        self.epoch
    }

    /// Only the newest record of each key stays, and what is not durable yet.
    pub fn compact(&mut self, now_ms: u64) -> usize {
        let mut newest = BTreeMap::new();
        let durable = self.entries.iter().filter(|entry| entry.durable_at_ms <= now_ms);
        for (number, record) in durable.flat_map(|entry| entry.records.iter().map(|record| (entry.number, record))) {
            newest.insert(record.key_bytes(), number);
        }
        let mut removed = 0;
        for entry in self.entries.iter_mut().filter(|entry| entry.durable_at_ms <= now_ms) {
            let before = entry.records.len();
            entry.records.retain(|record| newest[&record.key_bytes()] == entry.number);
            removed += before - entry.records.len();
        }
        removed
    }

    /// What a load makes of it.
    pub fn replay(&self, core: &mut Coordinator, planted: Option<Planted>) {
        let all = self.entries.iter().flat_map(|entry| entry.records.iter().map(|record| (entry.number, record)));
        let forgotten = if planted == Some(Planted::LoadForgetsTheLast) { 2 } else { 0 };
        let count = all.clone().count();
        for (number, record) in all.take(count.saturating_sub(forgotten)) {
            let record = Record::decode(&record.key_bytes(), record.value_bytes().as_deref()).expect("own bytes");
            core.replay(&LogEntry { offset: number.0, timestamp_ms: 0, record });
        }
    }

    /// Whether the log has anything of a group for good.
    pub fn has_group(&self, group_id: &str, now_ms: u64) -> bool {
        self.durable(now_ms).any(|(_, record)| match record {
            Record::Group { group_id: of, value: Some(_) } | Record::Offset { group_id: of, value: Some(_), .. } => {
                **of == *group_id
            }
            _ => false,
        })
    }

    /// Whether the newest record of a group that is there for good has this member.
    pub fn has_member(&self, group_id: &str, member_id: &str, now_ms: u64) -> bool {
        let newest = self.durable(now_ms).find_map(|(_, record)| match record {
            Record::Group { group_id: of, value } if **of == *group_id => Some(value),
            _ => None,
        });
        let members = newest.and_then(|value| value.as_ref()).map_or(&[][..], |value| &value.members);
        members.iter().any(|member| *member.member_id == *member_id)
    }

    /// The epoch in which the plan of a generation was stored for good.
    pub fn plan_epoch(&self, group_id: &str, generation: i32, now_ms: u64) -> Option<u32> {
        let is_plan = |record: &Record| {
            matches!(record, Record::Group { group_id: of, value: Some(value) }
                if **of == *group_id && value.generation == generation && !value.members.is_empty())
        };
        let durable = self.entries.iter().filter(|entry| entry.durable_at_ms <= now_ms);
        durable.clone().find(|entry| entry.records.iter().any(is_plan)).map(|entry| entry.epoch)
    }

    /// Where an offset was committed last, of what is there for good.
    pub fn committed(&self, place: &Committed, offset: i64, now_ms: u64) -> Option<AppendNumber> {
        let (group, name, index) = place;
        self.durable(now_ms).find_map(|(number, record)| match record {
            Record::Offset { group_id, topic, partition, value: Some(value) }
                if value.offset == offset && partition == index && topic == name && group_id == group =>
            {
                Some(number)
            }
            _ => None,
        })
    }

    /// The newest first.
    fn durable(&self, now_ms: u64) -> impl Iterator<Item = (AppendNumber, &Record)> {
        let durable = self.entries.iter().rev().filter(move |entry| entry.durable_at_ms <= now_ms);
        durable.flat_map(|entry| entry.records.iter().rev().map(|record| (entry.number, record)))
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
