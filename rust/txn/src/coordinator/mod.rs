//! The coordinator of one partition of `__transaction_state`, one event at a time.
//!
//! [`Coordinator::step`] takes an event with the wall time and adds effects to a list. A new coordinator reads its log
//! first: [`Coordinator::load`] for each record, then [`Coordinator::loaded`].

mod add_participants;
mod appended;
mod describe;
mod end_transaction;
mod entry;
mod init_producer_id;
pub mod invariants;
mod list;
mod load;
mod markers;
mod timers;
mod verify;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    error::Error,
    marker::TransactionVersion,
    messages::{Answer, AppendId, Effect, Event, MarkerId, Request, Ticket},
    record::{self, ValueVersion},
    transaction::Transaction,
};
pub use describe::Description;
use entry::{Change, Entry};
pub use list::Filter;

/// Settings of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// `transaction.version` as the server reports it: 0, 1 or 2.
    pub level: i16,
    /// `transaction.max.timeout.ms`.
    pub timeout_max_ms: i32,
    /// `transactional.id.expiration.ms`.
    pub expiration_ms: i64,
    /// So long after a failure a marker or a record is tried again.
    pub retry_ms: i64,
    /// Maximum ids of the partition.
    pub ids_max: usize,
    /// The epochs of producer ids below may have gone back, so a producer that starts gets another id.
    pub first_producer_id: i64,
}

impl Default for Config {
    /// Kafka's defaults at level 0.
    fn default() -> Config {
        Config {
            level: 0,
            timeout_max_ms: 900_000,
            expiration_ms: 7 * 24 * 3_600_000,
            retry_ms: 100,
            ids_max: 100_000,
            first_producer_id: 0,
        }
    }
}

impl Config {
    /// Whether the server has the second protocol.
    pub const fn has_second_protocol(&self) -> bool {
        self.level >= 2
    }

    /// Checks what a request says by itself, before its coordinator is looked for.
    pub fn check(&self, request: &Request) -> Result<(), Error> {
        if request.transactional_id().is_empty() {
            return Err(Error::InvalidRequest);
        }
        match request {
            Request::InitProducerId { own, .. } if (own.id == -1) != (own.epoch == -1) => Err(Error::InvalidRequest),
            Request::InitProducerId { timeout_ms, .. } if !(1..=self.timeout_max_ms).contains(timeout_ms) => {
                Err(Error::InvalidTimeout)
            }
            Request::AddParticipants { version: TransactionVersion::V2, .. }
            | Request::EndTransaction { version: TransactionVersion::V2, .. }
                if !self.has_second_protocol() =>
            {
                Err(Error::UnsupportedVersion)
            }
            _ => Ok(()),
        }
    }
}

/// The phase of an ownership of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Loading,
    Serving,
    GivenUp,
}

/// The decision about a request: an answer, or a change that is answered when it is durable.
enum Decision {
    Answer(Answer),
    Change(Box<Transaction>, Answer),
}

impl From<Error> for Decision {
    fn from(error: Error) -> Decision {
        Decision::Answer(Answer::Refused(error))
    }
}

/// The coordinator of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    config: Config,
    epoch: i32,
    phase: Phase,
    ids: BTreeMap<Arc<str>, Entry>,
    /// The ids of appends in flight.
    appends: BTreeMap<AppendId, Arc<str>>,
    /// When something is due for an id.
    deadlines: BTreeSet<(i64, Arc<str>)>,
    next_number: u64,
}

impl Coordinator {
    /// Creates the coordinator of a partition whose log is still to be read. `epoch` is the number of the ownership.
    pub fn new(config: Config, epoch: i32) -> Coordinator {
        Coordinator {
            config,
            epoch,
            phase: Phase::Loading,
            ids: BTreeMap::new(),
            appends: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_number: 0,
        }
    }

    /// Something happens at a wall time.
    pub fn step(&mut self, now_ms: i64, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Requested(ticket, request) => self.requested(now_ms, ticket, &request, effects),
            _ if self.phase == Phase::GivenUp => {}
            Event::Appended(append, result) => self.appended(now_ms, append, result, effects),
            Event::Marked { transactional_id, marker, result } => {
                self.marked(now_ms, &transactional_id, marker, result, effects);
            }
            Event::Advanced => self.advance(now_ms, effects),
            Event::SetBack => self.set_back(now_ms, effects),
        }
    }

    fn requested(&mut self, now_ms: i64, ticket: Ticket, request: &Request, effects: &mut Vec<Effect>) {
        let decision = match self.config.check(request).and_then(|()| self.check_phase()) {
            Err(error) => error.into(),
            Ok(()) => self.decide(request, now_ms),
        };
        match decision {
            Decision::Answer(answer) => effects.push(Effect::Answer(ticket, answer)),
            Decision::Change(next, answer) => {
                let id: Arc<str> = request.transactional_id().into();
                self.append(&id, Some(*next), Some((ticket, answer)), effects);
            }
        }
    }

    fn decide(&self, request: &Request, now_ms: i64) -> Decision {
        let entry = self.ids.get(request.transactional_id());
        match request {
            Request::InitProducerId { timeout_ms, own, spare_producer_id, .. } => {
                self.init_producer_id(entry, *timeout_ms, *own, *spare_producer_id, now_ms)
            }
            Request::AddParticipants { producer, participants, version, .. } => {
                add_participants::decide(entry, *producer, participants, *version, now_ms)
            }
            Request::EndTransaction { producer, is_commit, version, spare_producer_id, .. } => match version {
                TransactionVersion::V1 => end_transaction::first(entry, *producer, *is_commit, now_ms),
                TransactionVersion::V2 => {
                    end_transaction::second(entry, *producer, *is_commit, *spare_producer_id, now_ms)
                }
            },
        }
    }

    fn check_phase(&self) -> Result<(), Error> {
        match self.phase {
            Phase::Loading => Err(Error::Loading),
            Phase::Serving => Ok(()),
            Phase::GivenUp => Err(Error::NotCoordinator),
        }
    }

    /// Appends the record of a change; `None` forgets the id.
    fn append(
        &mut self,
        id: &Arc<str>,
        next: Option<Transaction>,
        answer: Option<(Ticket, Answer)>,
        effects: &mut Vec<Effect>,
    ) {
        let version = if self.config.level >= 1 { ValueVersion::V1 } else { ValueVersion::V0 };
        let append = AppendId(self.number());
        let value = next.as_ref().map(|next| record::value(next, version));
        effects.push(Effect::Append { id: append, key: record::key(id), value });
        self.appends.insert(append, Arc::clone(id));
        let entry = self.ids.entry(Arc::clone(id)).or_default();
        entry.change = Some(Change { append, next, answer });
        self.rearm(id);
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn marker_id(&mut self) -> MarkerId {
        MarkerId(self.number())
    }

    /// Gives the partition up. Waiting requests are answered: the new owner may have their records.
    fn give_up(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::GivenUp;
        self.deadlines.clear();
        self.appends.clear();
        for entry in std::mem::take(&mut self.ids).into_values() {
            if let Some((ticket, _)) = entry.change.and_then(|change| change.answer) {
                effects.push(Effect::Answer(ticket, Answer::Refused(Error::NotCoordinator)));
            }
        }
        effects.push(Effect::GiveUp);
    }

    /// Ends the ownership for a reason outside of the log, such as a server that stops.
    pub fn unload(&mut self, effects: &mut Vec<Effect>) {
        if self.phase != Phase::GivenUp {
            self.give_up(effects);
        }
    }

    /// Whether the partition is owned: its log is being read, or its ids are served.
    pub fn is_owned(&self) -> bool {
        self.phase != Phase::GivenUp
    }

    /// Whether the log is still being read.
    pub fn is_loading(&self) -> bool {
        self.phase == Phase::Loading
    }

    /// Returns the number of the ownership, which is the coordinator epoch of the markers.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Returns the number of ids.
    pub fn id_count(&self) -> usize {
        self.ids.len()
    }

    /// Iterates over the ids with their durable state. An id whose first record is in flight is left out.
    pub fn transactions(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.ids.iter().filter_map(|(id, entry)| Some((&**id, entry.current.as_ref()?)))
    }

    /// Returns the durable state of an id.
    pub fn transaction(&self, transactional_id: &str) -> Option<&Transaction> {
        self.ids.get(transactional_id)?.current.as_ref()
    }
}
