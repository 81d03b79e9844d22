//! A coordinator, its log, its clients and the participants, with everything that is on its way between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_txn::{
    Answer, AppendId, Config, Coordinator, Effect, Event, Marker, MarkerId, Participant, Producer, State, Ticket,
    record,
};

use crate::{
    bounds::Bounds,
    clients::Client,
    participant::{Part, Tag},
};

pub const ID: &str = "pay";
pub const NOW_MS: i64 = 1_000;
pub const CLIENTS: usize = 2;

/// Names of what happened.
pub type Seen = BTreeSet<&'static str>;

/// A marker on its way to a participant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    pub at: usize,
    pub marker: Marker,
    /// Of the coordinator that waits for it; `None` after its crash.
    pub id: Option<MarkerId>,
}

/// Data on its way to a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Write {
    pub at: usize,
    pub producer: Producer,
    pub tag: Tag,
    /// The leader waits for the coordinator under this ticket.
    pub asked: Option<Ticket>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub bounds: Bounds,
    pub left: Bounds,
    pub coordinator: Coordinator,
    /// The id's last record in the log, with the transaction that it is about.
    pub stored: Option<(Vec<u8>, Option<Tag>)>,
    /// The record in flight.
    pub append: Option<(AppendId, Vec<u8>, Option<Tag>)>,
    pub markers: BTreeSet<Flight>,
    pub parts: Vec<Part>,
    pub clients: [Client; CLIENTS],
    pub writes: BTreeSet<Write>,
    /// The client's transaction that is open or being ended.
    pub owner: Option<Tag>,
    /// Decisions that are durable and known.
    pub outcomes: BTreeMap<Tag, bool>,
    /// Data that its client knows to be appended.
    pub acknowledged: BTreeSet<(usize, Tag)>,
    /// Producers that were given out.
    pub given: BTreeMap<Producer, usize>,
    next_write: u64,
}

pub fn participant(at: usize) -> Participant {
    [("t", 0), ("__consumer_offsets", 0), ("t", 1)].map(|(topic, partition)| Participant::new(topic, partition))[at]
        .clone()
}

fn index_of(wanted: &Participant) -> usize {
    (0..3).find(|at| participant(*at) == *wanted).expect("a participant of this world")
}

impl World {
    pub fn new(bounds: Bounds) -> World {
        let mut world = World {
            bounds,
            left: bounds,
            coordinator: Coordinator::new(World::config(bounds), 0),
            stored: None,
            append: None,
            markers: BTreeSet::new(),
            parts: vec![Part::default(); bounds.participants],
            clients: Default::default(),
            writes: BTreeSet::new(),
            owner: None,
            outcomes: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            given: BTreeMap::new(),
            next_write: 0,
        };
        world.coordinator.loaded(NOW_MS, &mut Vec::new());
        world
    }

    pub fn config(bounds: Bounds) -> Config {
        Config { level: bounds.level, ..Config::default() }
    }

    pub fn state(&self) -> Option<State> {
        self.coordinator.transaction(ID).map(|transaction| transaction.state)
    }

    pub fn next_write(&mut self) -> Ticket {
        self.next_write += 1;
        Ticket(100 + self.next_write)
    }

    /// One event of the coordinator. `about` is the client's transaction that a record of it is about.
    pub fn step(&mut self, now_ms: i64, event: Event, about: Option<Tag>, seen: &mut Seen) -> Result<(), String> {
        let mut effects = Vec::new();
        self.coordinator.step(now_ms, event, &mut effects);
        self.carry_out(effects, about, seen)
    }

    pub fn carry_out(&mut self, effects: Vec<Effect>, about: Option<Tag>, seen: &mut Seen) -> Result<(), String> {
        for effect in effects {
            match effect {
                Effect::Answer(ticket, answer) => self.answered(ticket, answer, seen)?,
                Effect::Append { id, value, .. } => {
                    let value = value.ok_or("S: a tombstone of an id that is not idle")?;
                    if self.append.replace((id, value, about)).is_some() {
                        return Err("S: two records of one id are in flight".to_owned());
                    }
                }
                Effect::SendMarker { id, participant, marker, .. } => {
                    let Some(outcome) = self.stored_outcome() else {
                        return Err(format!("S: a marker before its decision is durable: {marker:?}"));
                    };
                    if outcome != marker.is_commit {
                        return Err(format!("T1: a marker with another outcome than the log: {marker:?}"));
                    }
                    self.markers.insert(Flight { at: index_of(&participant), marker, id: Some(id) });
                }
                Effect::GiveUp => return Err("S: the newest coordinator gives up".to_owned()),
            }
        }
        Ok(())
    }

    /// The outcome that the last record decides.
    fn stored_outcome(&self) -> Option<bool> {
        let (value, _) = self.stored.as_ref()?;
        record::read_value(value).ok()?.state.is_commit()
    }

    /// A record is in the log, and the coordinator knows that.
    pub fn known(&mut self, value: &[u8], about: Option<Tag>) -> Result<(), String> {
        let transaction = record::read_value(value).map_err(|error| format!("S: an unreadable record: {error}"))?;
        match transaction.state {
            State::Empty => self.owner = None,
            State::Ongoing => self.owner = about,
            State::PrepareCommit | State::PrepareAbort => {
                let is_commit = transaction.state == State::PrepareCommit;
                if let Some(owner) = self.owner
                    && self.outcomes.insert(owner, is_commit).is_some_and(|before| before != is_commit)
                {
                    return Err(format!("T1: the outcome of {owner:?} changes"));
                }
            }
            State::CompleteCommit | State::CompleteAbort => {
                self.check_complete()?;
                self.owner = None;
            }
            State::Dead => return Err("S: a Dead state is stored".to_owned()),
        }
        Ok(())
    }

    fn answered(&mut self, ticket: Ticket, answer: Answer, seen: &mut Seen) -> Result<(), String> {
        let client = ticket.0 as usize;
        if client < CLIENTS {
            return self.client_answered(client, answer, seen);
        }
        let asked = self.writes.iter().find(|write| write.asked == Some(ticket)).copied();
        let Some(write) = asked else { return Ok(()) };
        self.writes.remove(&write);
        // The client of refused data may send it again, which is another write.
        self.deliver_if(answer == Answer::Done, write, seen);
        Ok(())
    }

    /// The coordinator's process ends, and another one reads the log. What is on its way to participants stays so.
    pub fn crash(&mut self, seen: &mut Seen) -> Result<(), String> {
        let epoch = self.coordinator.epoch() + 1;
        self.coordinator = Coordinator::new(World::config(self.bounds), epoch);
        self.append = None;
        self.markers = self.markers.iter().map(|flight| Flight { id: None, ..flight.clone() }).collect();
        self.writes = self.writes.iter().filter(|write| write.asked.is_none()).copied().collect();
        self.clients.iter_mut().for_each(Client::lose_answer);
        self.owner = None;
        if let Some((value, about)) = self.stored.clone() {
            self.coordinator.load(&record::key(ID), Some(&value)).map_err(|error| error.to_string())?;
            let state = record::read_value(&value).map_err(|error| error.to_string())?.state;
            self.owner = about.filter(|_| state == State::Ongoing || state.is_prepare());
            if state.is_prepare() {
                seen.insert("loaded Prepare");
                self.known(&value, about)?;
            }
        }
        let mut effects = Vec::new();
        self.coordinator.loaded(NOW_MS, &mut effects);
        self.carry_out(effects, self.owner, seen)
    }

    pub fn report(&mut self, marker: MarkerId, result: rota_txn::Marking, seen: &mut Seen) -> Result<(), String> {
        let transactional_id: Arc<str> = ID.into();
        self.step(NOW_MS, Event::Marked { transactional_id, marker, result }, self.owner, seen)
    }
}
