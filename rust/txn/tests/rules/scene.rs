//! A coordinator with a log and participants that answer at once, or when the test lets them.

use std::{collections::BTreeMap, sync::Arc};

use rota_txn::{
    Answer, Api, AppendFailure, AppendId, Config, Coordinator, Effect, Event, Marker, MarkerId, Marking, Participant,
    Producer, Request, State, Ticket, TransactionVersion,
};

pub const ID: &str = "pay";
pub const NONE: Producer = Producer { id: -1, epoch: -1 };
const TIMEOUT_MS: i32 = 60_000;

type Stored = (Vec<u8>, Option<Vec<u8>>);

pub struct Scene {
    pub coordinator: Coordinator,
    pub now_ms: i64,
    /// Durable records.
    pub log: Vec<Stored>,
    /// Appends in flight.
    pub appends: BTreeMap<AppendId, Stored>,
    /// Markers in flight.
    pub sent: Vec<(MarkerId, Arc<str>, Participant, Marker)>,
    /// Markers written, in order.
    pub written: Vec<(Participant, Marker)>,
    pub answers: BTreeMap<Ticket, Answer>,
    pub holds_appends: bool,
    pub holds_markers: bool,
    pub gave_up: bool,
    config: Config,
    next_ticket: u64,
    next_spare: i64,
}

impl Scene {
    pub fn at_level(level: i16) -> Scene {
        Scene::of(Config { level, ..Config::default() })
    }

    pub fn of(config: Config) -> Scene {
        let mut scene = Scene {
            coordinator: Coordinator::new(config.clone(), 0),
            now_ms: 1_000,
            log: Vec::new(),
            appends: BTreeMap::new(),
            sent: Vec::new(),
            written: Vec::new(),
            answers: BTreeMap::new(),
            holds_appends: false,
            holds_markers: false,
            gave_up: false,
            config,
            next_ticket: 0,
            next_spare: 100,
        };
        scene.loaded();
        scene
    }

    fn loaded(&mut self) {
        let mut effects = Vec::new();
        self.coordinator.loaded(self.now_ms, &mut effects);
        self.carry_out(effects);
    }

    /// Another process reads the log.
    pub fn restart(&mut self) {
        let epoch = self.coordinator.epoch() + 1;
        self.coordinator = Coordinator::new(self.config.clone(), epoch);
        self.appends.clear();
        self.sent.clear();
        for (key, value) in &self.log {
            self.coordinator.load(key, value.as_deref()).expect("a record of this log");
        }
        self.loaded();
    }

    pub fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.coordinator.step(self.now_ms, event, &mut effects);
        assert_eq!(self.coordinator.violations(), Vec::<String>::new());
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(ticket, answer) => {
                    assert_eq!(self.answers.insert(ticket, answer), None, "a second answer");
                }
                Effect::Append { id, key, value } => drop(self.appends.insert(id, (key, value))),
                Effect::SendMarker { id, transactional_id, participant, marker } => {
                    self.sent.push((id, transactional_id, participant, marker));
                }
                Effect::GiveUp => self.gave_up = true,
            }
        }
        if !self.holds_appends {
            self.end_appends(Ok(()));
        }
        if !self.holds_markers {
            self.end_markers(Marking::Written);
        }
    }

    /// Ends the appends in flight.
    pub fn end_appends(&mut self, result: Result<(), AppendFailure>) {
        for (id, record) in std::mem::take(&mut self.appends) {
            if result.is_ok() {
                self.log.push(record);
            }
            self.step(Event::Appended(id, result));
        }
    }

    /// Ends the markers in flight.
    pub fn end_markers(&mut self, result: Marking) {
        for (marker, transactional_id, participant, content) in std::mem::take(&mut self.sent) {
            if result == Marking::Written {
                self.written.push((participant, content));
            }
            self.step(Event::Marked { transactional_id, marker, result });
        }
    }

    /// Advances the clock.
    pub fn sleep(&mut self, duration_ms: i64) {
        self.now_ms += duration_ms;
        self.step(Event::Advanced);
    }

    /// Submits a request; its answer may come later.
    pub fn submit(&mut self, request: Request) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.step(Event::Requested(ticket, request));
        ticket
    }

    /// Submits a request that is answered at once.
    pub fn ask(&mut self, request: Request) -> Answer {
        let ticket = self.submit(request);
        self.answers[&ticket]
    }

    pub fn init(&mut self, own: Producer) -> Request {
        self.next_spare += 1;
        let spare_producer_id = self.next_spare;
        Request::InitProducerId { transactional_id: ID.to_owned(), timeout_ms: TIMEOUT_MS, own, spare_producer_id }
    }

    pub fn end(&mut self, producer: Producer, is_commit: bool, version: TransactionVersion) -> Request {
        self.next_spare += 1;
        let spare_producer_id = self.next_spare;
        Request::EndTransaction { transactional_id: ID.to_owned(), producer, is_commit, version, spare_producer_id }
    }

    pub fn state(&self) -> Option<State> {
        self.coordinator.transaction(ID).map(|transaction| transaction.state)
    }

    pub fn producer(&self) -> Producer {
        self.coordinator.transaction(ID).map_or(NONE, |transaction| transaction.producer)
    }

    /// Lets the id get an epoch, by producers that name theirs.
    pub fn raise_epoch_to(&mut self, epoch: i16) {
        while self.producer().epoch < epoch {
            let request = self.init(self.producer());
            self.ask(request);
        }
    }
}

pub fn add(producer: Producer, version: TransactionVersion, participants: &[(&str, i32)]) -> Request {
    let participants = participants.iter().map(|(topic, partition)| Participant::new(*topic, *partition)).collect();
    Request::AddParticipants { transactional_id: ID.to_owned(), producer, participants, version }
}

/// Shows an answer: the error code of the newest version, or 0 and the producer.
pub fn shown(answer: Answer) -> String {
    match answer {
        Answer::Done => "0".to_owned(),
        Answer::Producer(producer) => format!("0 {}:{}", producer.id, producer.epoch),
        Answer::Refused(error) => error.code(Api::EndTxn, 5).to_string(),
    }
}
