//! Clients: producers that share one transactional id, so that a new one fences the others.

use std::collections::BTreeSet;

use rota_txn::{Answer, Error, Event, Producer, Request, Ticket, TransactionVersion, Verdict};

use crate::{
    participant::Tag,
    world::{ID, NOW_MS, Seen, World, Write, participant},
};

const NONE: Producer = Producer { id: -1, epoch: -1 };

/// What a client does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Has no producer id.
    #[default]
    New,
    /// Waits for an answer.
    Waits(Asked),
    Ready,
    /// Has asked to end its transaction, and not heard what became of it.
    Ends(bool),
    /// Another one has its id.
    Fenced,
}

/// The request that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    Init,
    Add(usize),
    End(bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub phase: Phase,
    pub producer: Producer,
    /// The number of its transaction.
    pub number: u8,
    /// The participants of its transaction, as far as it knows.
    pub added: BTreeSet<usize>,
}

impl Default for Client {
    fn default() -> Client {
        Client { phase: Phase::New, producer: NONE, number: 0, added: BTreeSet::new() }
    }
}

impl Client {
    /// The coordinator's process ends while the client waits.
    pub fn lose_answer(&mut self) {
        self.phase = match self.phase {
            Phase::Waits(Asked::End(is_commit)) => Phase::Ends(is_commit),
            Phase::Waits(Asked::Init) if self.producer == NONE => Phase::New,
            Phase::Waits(_) => Phase::Ready,
            phase => phase,
        };
    }
}

impl World {
    fn tag(&self, client: usize) -> Tag {
        (client, self.clients[client].number)
    }

    fn ask(&mut self, client: usize, asked: Asked, request: Request, seen: &mut Seen) -> Result<(), String> {
        self.clients[client].phase = Phase::Waits(asked);
        let about = match asked {
            Asked::Add(_) if self.owner.is_none() => Some(self.tag(client)),
            _ => self.owner,
        };
        self.step(NOW_MS, Event::Requested(Ticket(client as u64), request), about, seen)
    }

    pub fn init(&mut self, client: usize, own: bool, seen: &mut Seen) -> Result<(), String> {
        self.left.inits -= 1;
        let own = if own { self.clients[client].producer } else { NONE };
        let request =
            Request::InitProducerId { transactional_id: ID.to_owned(), timeout_ms: 60_000, own, spare_producer_id: 1 };
        self.ask(client, Asked::Init, request, seen)
    }

    pub fn add(&mut self, client: usize, at: usize, seen: &mut Seen) -> Result<(), String> {
        let request = Request::AddParticipants {
            transactional_id: ID.to_owned(),
            producer: self.clients[client].producer,
            participants: vec![participant(at)],
            version: TransactionVersion::V1,
        };
        self.ask(client, Asked::Add(at), request, seen)
    }

    pub fn end(&mut self, client: usize, is_commit: bool, seen: &mut Seen) -> Result<(), String> {
        self.left.ends -= 1;
        if matches!(self.clients[client].phase, Phase::Ends(_)) {
            seen.insert("end repeated");
        }
        let request = Request::EndTransaction {
            transactional_id: ID.to_owned(),
            producer: self.clients[client].producer,
            is_commit,
            version: self.bounds.version,
            spare_producer_id: 2,
        };
        self.ask(client, Asked::End(is_commit), request, seen)
    }

    /// Sends data to a participant.
    pub fn write(&mut self, client: usize, at: usize) {
        self.left.writes -= 1;
        let tag = self.tag(client);
        self.clients[client].added.insert(at);
        self.writes.insert(Write { at, producer: self.clients[client].producer, tag, asked: None });
    }

    /// The leader of the participant gets the data, and asks the coordinator.
    pub fn arrive(&mut self, write: Write, seen: &mut Seen) -> Result<(), String> {
        self.writes.remove(&write);
        if self.bounds.version == TransactionVersion::V1 {
            let verdict = self.coordinator.verify(ID, write.producer, &participant(write.at));
            self.deliver_if(verdict == Verdict::Verified, write, seen);
            return Ok(());
        }
        let ticket = self.next_write();
        self.writes.insert(Write { asked: Some(ticket), ..write });
        let request = Request::AddParticipants {
            transactional_id: ID.to_owned(),
            producer: write.producer,
            participants: vec![participant(write.at)],
            version: TransactionVersion::V2,
        };
        let about = self.owner.or(Some(write.tag));
        self.step(NOW_MS, Event::Requested(ticket, request), about, seen)
    }

    /// The participant appends the data if the coordinator lets it, and no newer epoch has been here.
    pub fn deliver_if(&mut self, may_append: bool, write: Write, seen: &mut Seen) {
        if may_append && self.parts[write.at].append(write.producer, write.tag) {
            self.acknowledged.insert((write.at, write.tag));
        } else {
            seen.insert("late data refused");
        }
    }

    pub fn client_answered(&mut self, client: usize, answer: Answer, seen: &mut Seen) -> Result<(), String> {
        let tag = self.tag(client);
        let Phase::Waits(asked) = self.clients[client].phase else { return Ok(()) };
        match (asked, answer) {
            (Asked::Init, Answer::Producer(producer)) => {
                if self.given.insert(producer, client).is_some_and(|other| other != client) {
                    return Err(format!("S: two clients have {producer:?}"));
                }
                let number = self.clients[client].number + 1;
                self.clients[client] = Client { phase: Phase::Ready, producer, number, added: BTreeSet::new() };
            }
            (Asked::Add(at), Answer::Done) => {
                self.clients[client].added.insert(at);
                self.clients[client].phase = Phase::Ready;
            }
            (Asked::End(is_commit), Answer::Done | Answer::Producer(_)) => {
                // A transaction without data may be unknown to the coordinator.
                if self.outcomes.get(&tag).is_some_and(|outcome| *outcome != is_commit)
                    || (is_commit
                        && self.acknowledged.iter().any(|(_, of)| *of == tag)
                        && !self.outcomes.contains_key(&tag))
                {
                    return Err(format!("T1: client {client} hears another outcome of {tag:?} than was decided"));
                }
                seen.insert(if is_commit { "committed" } else { "aborted" });
                if let Answer::Producer(producer) = answer {
                    self.clients[client].producer = producer;
                }
                self.clients[client].number += 1;
                self.clients[client].added.clear();
                self.clients[client].phase = Phase::Ready;
            }
            (_, Answer::Refused(Error::Fenced | Error::UnknownMapping | Error::InvalidState)) => {
                seen.insert("fenced");
                self.clients[client].phase = Phase::Fenced;
            }
            (_, Answer::Refused(Error::Concurrent | Error::NotAvailable)) => self.clients[client].lose_answer(),
            (asked, answer) => return Err(format!("S: {answer:?} to {asked:?}")),
        }
        Ok(())
    }
}
