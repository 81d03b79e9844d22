//! What may happen next in a world.

use rota_txn::{AppendFailure, Event, Marking, State, TransactionVersion};

use crate::{
    clients::Phase,
    participant::Wrote,
    world::{CLIENTS, Flight, NOW_MS, Seen, World, Write},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Init(usize, bool),
    Add(usize, usize),
    Write(usize, usize),
    Arrive(Write),
    End(usize, bool),
    /// The record in flight is durable.
    Stored,
    /// The record is not stored.
    NotStored,
    /// The record is stored, and the coordinator hears that it is not.
    StoredButFailed,
    /// A participant writes a marker, and the coordinator hears of it. A crash in between would leave what a crash before
    /// the report leaves: nothing is stored of a report.
    Mark(Flight),
    /// A participant cannot write a marker.
    MarkFails(Flight),
    Advance,
    Crash,
}

impl World {
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for client in 0..CLIENTS {
            self.client_actions(client, &mut actions);
        }
        actions.extend(self.writes.iter().filter(|write| write.asked.is_none()).copied().map(Action::Arrive));
        if self.append.is_some() {
            actions.push(Action::Stored);
            if self.left.failures > 0 {
                actions.extend([Action::NotStored, Action::StoredButFailed]);
            }
        }
        for flight in &self.markers {
            actions.push(Action::Mark(flight.clone()));
            if self.left.failures > 0 && flight.id.is_some() {
                actions.push(Action::MarkFails(flight.clone()));
            }
        }
        if self.may_advance() {
            actions.push(Action::Advance);
        }
        if self.left.crashes > 0 {
            actions.push(Action::Crash);
        }
        actions
    }

    fn may_advance(&self) -> bool {
        let is_open = self.state() == Some(State::Ongoing);
        self.coordinator.next_deadline().is_some_and(|deadline_ms| deadline_ms < 1_000_000)
            && (!is_open || self.left.timeouts > 0)
    }

    fn client_actions(&self, client: usize, actions: &mut Vec<Action>) {
        let this = &self.clients[client];
        let is_first = self.bounds.version == TransactionVersion::V1;
        // The second client begins after the first, which may then come back.
        let may_init = self.left.inits > 0 && (client == 0 || !self.given.is_empty());
        match this.phase {
            Phase::New if may_init => actions.push(Action::Init(client, false)),
            Phase::Ready => {
                if may_init {
                    actions.push(Action::Init(client, false));
                    if self.bounds.names_epoch {
                        actions.push(Action::Init(client, true));
                    }
                }
                // By the first protocol, data that is late would join a transaction that has no end within the bounds.
                let may_add = is_first && (self.left.ends > 0 || !self.bounds.is_late);
                for at in 0..self.parts.len() {
                    let is_added = this.added.contains(&at);
                    if may_add && !is_added {
                        actions.push(Action::Add(client, at));
                    }
                    if self.left.writes > 0 && (is_added || !is_first) {
                        actions.push(Action::Write(client, at));
                    }
                }
                let is_on_its_way = self.writes.iter().any(|write| write.tag.0 == client);
                if self.left.ends > 0 && !this.added.is_empty() && (self.bounds.is_late || !is_on_its_way) {
                    actions.extend([Action::End(client, true), Action::End(client, false)]);
                }
            }
            Phase::Ends(is_commit) if self.left.ends > 0 => actions.push(Action::End(client, is_commit)),
            _ => {}
        }
    }

    pub fn act(&mut self, action: Action, seen: &mut Seen) -> Result<(), String> {
        match action {
            Action::Init(client, own) => self.init(client, own, seen)?,
            Action::Add(client, at) => self.add(client, at, seen)?,
            Action::Write(client, at) => self.write(client, at),
            Action::Arrive(write) => self.arrive(write, seen)?,
            Action::End(client, is_commit) => self.end(client, is_commit, seen)?,
            Action::Stored => self.end_append(true, true, seen)?,
            Action::NotStored => self.end_append(false, false, seen)?,
            Action::StoredButFailed => self.end_append(true, false, seen)?,
            Action::Mark(flight) => self.mark(&flight, seen)?,
            Action::MarkFails(flight) => {
                self.left.failures -= 1;
                self.markers.remove(&flight);
                seen.insert("marker failed");
                if let Some(id) = flight.id {
                    self.report(id, Marking::Failed, seen)?;
                }
            }
            Action::Advance => self.advance(seen)?,
            Action::Crash => {
                self.left.crashes -= 1;
                self.crash(seen)?;
            }
        }
        self.check()
    }

    fn advance(&mut self, seen: &mut Seen) -> Result<(), String> {
        if self.state() == Some(State::Ongoing) {
            self.left.timeouts = self.left.timeouts.saturating_sub(1);
            seen.insert("timed out");
        }
        let now_ms = self.coordinator.next_deadline().unwrap_or(NOW_MS);
        self.step(now_ms, Event::Advanced, self.owner, seen)
    }

    fn end_append(&mut self, is_stored: bool, is_known: bool, seen: &mut Seen) -> Result<(), String> {
        let Some((id, value, about)) = self.append.take() else { return Ok(()) };
        if is_stored {
            self.stored = Some((value.clone(), about));
        }
        if is_known {
            self.known(&value, about)?;
            return self.step(NOW_MS, Event::Appended(id, Ok(())), self.owner, seen);
        }
        self.left.failures -= 1;
        if is_stored {
            seen.insert("stored but failed");
        }
        self.step(NOW_MS, Event::Appended(id, Err(AppendFailure::Failed)), self.owner, seen)
    }

    fn mark(&mut self, flight: &Flight, seen: &mut Seen) -> Result<(), String> {
        self.markers.remove(flight);
        let Flight { at, marker, id } = flight;
        let is_new = !self.parts[*at].open.is_empty();
        match self.parts[*at].mark(marker) {
            Wrote::Ended(data) => {
                if !is_new {
                    seen.insert("marker repeated");
                }
                self.check_ended(*at, marker, &data)?;
                if let Some(id) = *id {
                    self.report(id, Marking::Written, seen)?;
                }
            }
            Wrote::OlderCoordinator => {
                seen.insert("marker of an older coordinator");
                if id.is_some() {
                    return Err("S: a participant has seen a newer coordinator than the newest".to_owned());
                }
            }
            Wrote::LowEpoch if id.is_some() => return Err(format!("T2: a marker does not fence its data: {marker:?}")),
            Wrote::LowEpoch => {}
        }
        Ok(())
    }
}
