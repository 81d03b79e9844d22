//! An engine in memory, deterministic and linearizable, with faults on demand.
//!
//! A request that is sent becomes a [`Flight`]. The caller decides when the engine carries it out, when its answer
//! arrives, and what goes wrong on the way:
//!
//! | fault | call |
//! |---|---|
//! | unknown outcome, a request that arrives later or never | [`lose`](Memory::lose) before [`apply`](Memory::apply) |
//! | lost answer | [`lose`](Memory::lose) after [`apply`](Memory::apply) |
//! | delayed twin | [`duplicate`](Memory::duplicate) before [`apply`](Memory::apply), which then leaves the twin in flight |
//! | space exhausted, although the request took effect | [`exhaust`](Memory::exhaust) |
//! | silence of a node, frozen or slow node | its flights are left alone |
//! | stalled watch | [`view`](Memory::view) is not given to the node |
//! | the engine goes back | [`back_up`](Memory::back_up), then [`restore`](Memory::restore) |

use crate::{
    ids::{CallId, HistoryId, NodeId},
    requests::{Answer, Outcome, Request},
    store::Store,
    view::View,
};

/// A request on its way, or its answer on the way back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// Who sent it.
    pub node: NodeId,
    /// Which attempt it is; `None` of one whose sender waits no more.
    pub call: Option<CallId>,
    /// What was sent.
    pub request: Request,
    /// Set after the engine carried the request out.
    pub answer: Option<Answer>,
}

/// The engine and its flights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    store: Store,
    flights: Vec<Flight>,
    backup: Option<Box<Store>>,
}

impl Memory {
    /// An engine without content.
    pub fn new(history: HistoryId) -> Memory {
        Memory { store: Store::new(history), flights: Vec::new(), backup: None }
    }

    /// An engine with this content, for tests.
    pub fn with(store: Store, flights: Vec<Flight>, backup: Option<Store>) -> Memory {
        Memory { store, flights, backup: backup.map(Box::new) }
    }

    /// The content.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What is under way, the oldest first.
    pub fn flights(&self) -> &[Flight] {
        &self.flights
    }

    /// The content that [`restore`](Memory::restore) brings back.
    pub fn backup(&self) -> Option<&Store> {
        self.backup.as_deref()
    }

    /// The small keys at present.
    pub fn view(&self) -> View {
        self.store.view.clone()
    }

    /// Carries a request out at once, as an operator or a test does.
    pub fn call(&mut self, request: &Request) -> Answer {
        request.apply(&mut self.store)
    }

    /// A node sends a request.
    pub fn send(&mut self, node: NodeId, call: CallId, request: Request) {
        self.flights.push(Flight { node, call: Some(call), request, answer: None });
    }

    /// The engine carries a request out. The answer of a twin goes nowhere.
    pub fn apply(&mut self, flight: usize) {
        let answer = self.flights[flight].request.apply(&mut self.store);
        if self.flights[flight].call.is_some() {
            self.flights[flight].answer = Some(answer);
        } else {
            self.flights.remove(flight);
        }
    }

    /// The answer arrives. `None` if the request was not carried out or its sender waits no more.
    pub fn deliver(&mut self, flight: usize) -> Option<(NodeId, CallId, Outcome)> {
        let Flight { node, call: Some(call), answer: Some(answer), .. } = &self.flights[flight] else { return None };
        let arrived = (*node, *call, Outcome::Answered(answer.clone()));
        self.flights.remove(flight);
        Some(arrived)
    }

    /// The sender gives up: it learns nothing. A request that was not carried out stays on its way.
    pub fn lose(&mut self, flight: usize) -> Option<(NodeId, CallId, Outcome)> {
        self.give_up(flight, Outcome::Unknown)
    }

    /// The engine carries a request out and says that its space is exhausted.
    pub fn exhaust(&mut self, flight: usize) -> Option<(NodeId, CallId, Outcome)> {
        self.flights[flight].call?;
        self.apply(flight);
        self.give_up(flight, Outcome::SpaceExhausted)
    }

    /// The request is on its way twice; no sender waits for the second one.
    pub fn duplicate(&mut self, flight: usize) {
        let twin = Flight { call: None, answer: None, ..self.flights[flight].clone() };
        self.flights.push(twin);
    }

    /// An operator copies the engine's content.
    pub fn back_up(&mut self) {
        self.backup = Some(Box::new(self.store.clone()));
    }

    /// The engine goes back to the copy: everything since then is lost, and revisions are given out again.
    pub fn restore(&mut self) {
        if let Some(backup) = self.backup.take() {
            self.store = *backup;
        }
    }

    fn give_up(&mut self, flight: usize, outcome: Outcome) -> Option<(NodeId, CallId, Outcome)> {
        let lost = &mut self.flights[flight];
        let sender = (lost.node, lost.call.take()?, outcome);
        if lost.answer.is_some() {
            self.flights.remove(flight);
        }
        Some(sender)
    }
}
