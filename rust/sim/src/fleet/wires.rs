//! Connections like TCP: in order and without duplicates. A connection may end, swallow messages, or be slow, and a new
//! connection may overtake an old one.

use std::collections::{BTreeMap, VecDeque};

use rota_core::Ticket;
use rota_member::{Answer, Event, Node, Request, RequestId, To};

use super::{Fleet, Happening, faults::Kind};

/// Identifies one connection; never reused.
pub type WireId = usize;

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// To any broker.
    Any,
    /// To the group's coordinator, on this node.
    Coordinator(usize),
}

/// One connection.
pub struct Wire {
    pub seat: usize,
    pub life: u32,
    pub node: usize,
    node_life: u32,
    purpose: Use,
    client_open: bool,
    server_open: bool,
    /// Whether it swallows all messages.
    dead: bool,
    up_ms: u64,
    down_ms: u64,
    /// The request that waits for its answer; the server reads no further meanwhile (docs/protocol.md §17.1).
    parked: Option<Ticket>,
    behind: VecDeque<(RequestId, Box<Request>)>,
}

pub fn member_node(node: usize) -> Node {
    Node { id: node as i32, host: String::new(), port: 9_092 }
}

fn name_of(purpose: Use) -> To {
    match purpose {
        Use::Any => To::Any,
        Use::Coordinator(node) => To::Coordinator(member_node(node)),
    }
}

impl Fleet {
    pub(super) fn send(&mut self, seat: usize, request: RequestId, to: &To, body: Request) {
        let purpose = match to {
            To::Any => Use::Any,
            To::Coordinator(node) => Use::Coordinator(node.id as usize),
        };
        let wire = match self.seats[seat].wires.get(&purpose) {
            Some(wire) => *wire,
            None => self.connect(seat, purpose),
        };
        let at_ms = self.latency(wire).max(self.wires[wire].up_ms);
        self.wires[wire].up_ms = at_ms;
        if self.wires[wire].dead {
            self.effective(Kind::HalfOpen);
        } else {
            self.queue.push(at_ms, Happening::Body { wire, request, body: Box::new(body) });
        }
    }

    fn connect(&mut self, seat: usize, purpose: Use) -> WireId {
        let node = match purpose {
            Use::Any => self.dice.below(self.nodes.len()),
            Use::Coordinator(node) => node,
        };
        let wire = self.wires.len();
        self.wires.push(Wire {
            seat,
            life: self.seats[seat].life,
            node,
            node_life: self.nodes[node].life,
            purpose,
            client_open: true,
            server_open: true,
            dead: false,
            up_ms: 0,
            down_ms: 0,
            parked: None,
            behind: VecDeque::new(),
        });
        self.seats[seat].wires.insert(purpose, wire);
        wire
    }

    /// Returns when a message sent now arrives. New connections are not affected by a delay of older ones.
    fn latency(&mut self, wire: WireId) -> u64 {
        let Wire { seat, node, .. } = self.wires[wire];
        let usual = self.now_ms + 1 + self.dice.below(5) as u64;
        match self.held_up.get(&(seat, node)) {
            Some(&(until_ms, before)) if wire < before && until_ms > self.now_ms => {
                self.effective(Kind::Delay);
                usual.max(until_ms)
            }
            _ => usual,
        }
    }

    /// Delivers a request to its node.
    pub(super) fn arrive(&mut self, id: WireId, request: RequestId, body: Box<Request>) {
        let wire = &mut self.wires[id];
        let node = wire.node;
        if wire.dead {
            return;
        }
        if !self.nodes[node].up || self.nodes[node].life != wire.node_life {
            self.effective(Kind::NodeCrash);
            let at_ms = self.now_ms + 1;
            return self.queue.push(at_ms, Happening::Hangup { wire: id });
        }
        if !wire.server_open {
            return;
        }
        if wire.parked.is_some() {
            wire.behind.push_back((request, body));
            return;
        }
        self.serve(id, request, body);
        self.read_on(id);
    }

    /// Reads requests that waited for earlier answers.
    pub(super) fn read_on(&mut self, id: WireId) {
        while self.wires[id].parked.is_none()
            && self.wires[id].server_open
            && let Some((request, body)) = self.wires[id].behind.pop_front()
        {
            self.serve(id, request, body);
        }
    }

    pub(super) fn park(&mut self, id: WireId, ticket: Ticket) {
        self.wires[id].parked = Some(ticket);
    }

    /// Sends an answer, if the connection is still open.
    pub(super) fn reply(&mut self, id: WireId, request: RequestId, answer: Answer) {
        let at_ms = self.latency(id);
        let wire = &mut self.wires[id];
        wire.parked = None;
        if wire.dead || !wire.server_open {
            return;
        }
        wire.down_ms = wire.down_ms.max(at_ms);
        let at_ms = wire.down_ms;
        self.queue.push(at_ms, Happening::Reply { wire: id, request, answer: Box::new(answer) });
    }

    /// The seat whose process a connection is of, and whether the process still reads it.
    pub(super) fn reader_of(&self, id: WireId) -> (usize, bool) {
        let wire = &self.wires[id];
        (wire.seat, wire.client_open && wire.server_open && !wire.dead)
    }

    /// Delivers an answer to its process.
    pub(super) fn deliver(&mut self, id: WireId, request: RequestId, answer: Answer) {
        let wire = &self.wires[id];
        let seat = wire.seat;
        if !wire.client_open || wire.dead {
            return;
        }
        match (&answer, self.seats[seat].crash_loop) {
            (Answer::JoinGroup { error, .. }, Some(crash_loop)) => self.crash_at_join(seat, crash_loop, *error),
            _ => self.happen(seat, Event::Answered { request, answer }),
        }
    }

    /// Informs the client that its connection ended.
    pub(super) fn hang_up(&mut self, id: WireId) {
        let wire = &mut self.wires[id];
        if wire.dead || !std::mem::take(&mut wire.client_open) {
            return;
        }
        let (seat, purpose) = (wire.seat, wire.purpose);
        self.seats[seat].wires.remove(&purpose);
        self.happen(seat, Event::Disconnected(name_of(purpose)));
    }

    /// Closes the client's side: messages sent before still arrive, then the server is informed.
    pub(super) fn close(&mut self, seat: usize, to: &To) {
        let purpose = match to {
            To::Any => Use::Any,
            To::Coordinator(node) => Use::Coordinator(node.id as usize),
        };
        if let Some(id) = self.seats[seat].wires.remove(&purpose) {
            self.close_wire(id);
        }
    }

    pub(super) fn close_all(&mut self, seat: usize) {
        for (_, id) in std::mem::take(&mut self.seats[seat].wires) {
            self.close_wire(id);
        }
    }

    fn close_wire(&mut self, id: WireId) {
        let at_ms = self.latency(id);
        let wire = &mut self.wires[id];
        wire.client_open = false;
        let at_ms = wire.up_ms.max(at_ms);
        if !wire.dead {
            self.queue.push(at_ms, Happening::End { wire: id });
        }
    }

    /// Informs the server of the end. It never reads the remaining messages.
    pub(super) fn end_wire(&mut self, id: WireId) {
        self.wires[id].server_open = false;
        self.wires[id].behind.clear();
    }

    /// Returns a connection on which a node neither reads nor owes an answer.
    pub(super) fn mute_wire(&self) -> Option<WireId> {
        let owes = |ticket: &Ticket| self.waiting.contains_key(ticket);
        self.wires.iter().position(|wire| wire.server_open && wire.parked.is_some_and(|ticket| !owes(&ticket)))
    }

    /// Returns the open connections of a process to a node.
    fn between(&self, seat: usize, node: usize) -> Vec<WireId> {
        let wires: &BTreeMap<Use, WireId> = &self.seats[seat].wires;
        wires.values().copied().filter(|id| self.wires[*id].node == node && !self.wires[*id].dead).collect()
    }

    pub(super) fn cut(&mut self, seat: usize, node: usize) {
        for id in self.between(seat, node) {
            self.effective(Kind::Cut);
            self.end_wire(id);
            let at_ms = self.now_ms + self.dice.below(3) as u64;
            self.queue.push(at_ms, Happening::Hangup { wire: id });
        }
    }

    pub(super) fn swallow(&mut self, seat: usize, node: usize) {
        for id in self.between(seat, node) {
            self.wires[id].dead = true;
        }
    }

    pub(super) fn hold_up(&mut self, seat: usize, node: usize, for_ms: u64) {
        self.held_up.insert((seat, node), (self.now_ms + for_ms, self.wires.len()));
    }
}
