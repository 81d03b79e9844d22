//! Worlds whose nodes share the partitions over an engine: one store, for each node the state machine of `rota-engine`,
//! and everything that can go wrong between them (docs/engine-protocol.md).
//!
//! The engine's entries name appends, whose records the log of the partition keeps decoded: it has what the engine has,
//! in the same order. [`Fleet::owners`] is the plan, which only says who tries.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::ErrorCode;
use rota_engine::{
    Beat, Body, CallId, Command, Config, Directory, Epoch, Event, HistoryId, Incarnation, Memory, Node, NodeId, Nonce,
    Outcome, PartitionId, Prev, Request, Ticket, View,
    node::{Phase, Reason},
    requests::{Append, Appended, Claimed, Content, PutChunk, Register, Registered},
};

use super::{
    Fleet, Happening, Planted,
    faults::{Fault, Kind},
    log::{AppendNumber, InFlight},
    returns::{Returns, behind_a_hole},
    shape::APPEND_MS,
    snapshots::{all_numbers, epoch_of},
};

pub(super) const TTL_MS: u64 = 5_000;
/// Covers two clocks that differ by a tenth (docs/engine-protocol.md §3.1).
const MARGIN_MS: u64 = TTL_MS / 10;
const BEAT_MS: u64 = TTL_MS / 5;
const TICK_MS: u64 = 200;
/// A call without an answer has an unknown outcome after this time.
const UNANSWERED_MS: u64 = 1_000;
/// How much later a request, or its twin, may be carried out.
const LATE_MS: usize = 9_000;
/// Percent of the requests that a fault of a link concerns.
const SHARE: usize = 35;

/// The engine, and each node's side of it.
pub struct Engine {
    pub(super) memory: Memory,
    pub(super) links: Vec<Link>,
    incarnations: u128,
    /// Number of histories so far.
    pub(super) histories: u128,
    pub(super) returns: Returns,
    /// For the planner: the last beat of each node, and since when.
    beats: BTreeMap<NodeId, (Beat, u64)>,
}

/// A node's side.
pub(super) struct Link {
    /// `None`: the process is down, or has not joined.
    pub(super) machine: Option<Node>,
    /// Of the machine.
    pub(super) incarnation: Incarnation,
    /// Number of the engine's returns when the machine joined.
    pub(super) era: u32,
    /// The history in which the process has stopped: it joins again in another one.
    pub(super) waits_for_other: Option<HistoryId>,
    last_ticket: u64,
    /// Appends that the machine has: which ones, and since when.
    appends: BTreeMap<Ticket, (usize, AppendNumber, u64)>,
    /// What was loaded of each partition, until its coordinator has it.
    loaded: BTreeMap<usize, Vec<AppendNumber>>,
    /// Until when each fault lasts.
    pub(super) until_ms: BTreeMap<Kind, u64>,
    /// Which direction a silence concerns: both, to the engine, back.
    pub(super) silence: usize,
}

impl Link {
    /// Of a process that has not joined.
    pub(super) fn of(silence: usize) -> Link {
        Link {
            machine: None,
            incarnation: Incarnation(0),
            era: 0,
            waits_for_other: None,
            last_ticket: 0,
            appends: BTreeMap::new(),
            loaded: BTreeMap::new(),
            until_ms: BTreeMap::new(),
            silence,
        }
    }

    pub(super) fn suffers(&self, kind: Kind, now_ms: u64) -> bool {
        self.until_ms.get(&kind).is_some_and(|until_ms| now_ms < *until_ms)
    }

    fn is_deaf(&self, now_ms: u64) -> bool {
        self.silence != 1 && self.suffers(Kind::EngineSilent, now_ms)
    }

    fn is_mute(&self, now_ms: u64) -> bool {
        self.silence != 2 && self.suffers(Kind::EngineSilent, now_ms)
    }
}

fn node_id(node: usize) -> NodeId {
    NodeId(node as i32)
}

/// The appends that an entry has.
pub(super) fn numbers(bytes: &[u8]) -> impl Iterator<Item = AppendNumber> {
    bytes.chunks_exact(8).map(|one| AppendNumber(u64::from_be_bytes(one.try_into().expect("eight bytes"))))
}

/// Whether the watch shows what the request writes.
fn is_shown(body: &Body) -> bool {
    matches!(body, Body::Register(_) | Body::Beat(_) | Body::Claim(_) | Body::Release(_))
}

impl Engine {
    pub fn new(nodes: usize) -> Engine {
        Engine {
            memory: Memory::new(HistoryId(1)),
            links: (0..nodes).map(|_| Link::of(0)).collect(),
            incarnations: 0,
            histories: 1,
            returns: Returns::default(),
            beats: BTreeMap::new(),
        }
    }

    /// The process of a node is gone.
    pub fn crash(&mut self, node: usize) {
        let until_ms = std::mem::take(&mut self.links[node].until_ms);
        self.links[node] = Link { until_ms, ..Link::of(self.links[node].silence) };
    }

    /// All faults end.
    pub fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| link.until_ms.clear());
    }

    /// Until when a node is paused, if it is.
    pub fn paused_until(&self, node: usize, now_ms: u64) -> Option<u64> {
        self.links[node].until_ms.get(&Kind::NodePause).copied().filter(|until_ms| now_ms < *until_ms)
    }

    pub(super) fn of(&self, partition: PartitionId) -> Option<&rota_engine::Log> {
        self.memory.store().logs.get(&partition)
    }
}

impl Fleet {
    pub(super) fn link(&mut self, node: usize) -> Option<&mut Link> {
        Some(&mut self.engine.as_mut()?.links[node])
    }

    /// A fault of the link of a node begins.
    pub(super) fn strike_link(&mut self, fault: Fault, node: usize) {
        let Fault { for_ms, kind, whom, .. } = fault;
        let until_ms = self.now_ms + for_ms;
        let Some(link) = self.link(node) else { return };
        link.until_ms.insert(kind, until_ms);
        if kind == Kind::EngineSilent {
            link.silence = whom % 3;
        }
        if kind == Kind::NodePause {
            self.queue.push(until_ms, Happening::Resume { node });
        }
    }

    /// The turns of a node's process begin.
    pub(super) fn begin_turns(&mut self, node: usize) {
        let life = self.nodes[node].life;
        self.queue.push(self.now_ms, Happening::Turn { node, life });
    }

    /// A turn of a process: it joins, or beats, claims what the plan gives it and releases what it does not.
    pub(super) fn turn(&mut self, node: usize) {
        self.queue.push(self.now_ms + TICK_MS, Happening::Turn { node, life: self.nodes[node].life });
        let now_ms = self.now_ms;
        let may_join = !self.waits_for_operator(node) || self.planted == Some(Planted::LossUnaccepted);
        let Some(link) = self.link(node) else { return };
        if link.machine.is_none() {
            if may_join && !link.is_mute(now_ms) && !link.is_deaf(now_ms) {
                self.join(node);
            }
            return;
        }
        let is_over = |(_, _, since_ms): &&(usize, AppendNumber, u64)| now_ms - since_ms > u64::from(APPEND_MS);
        let over: Vec<usize> = link.appends.values().filter(is_over).map(|(partition, ..)| *partition).collect();
        self.step(node, Event::Turn);
        for partition in over {
            self.step(node, Event::Release(PartitionId(partition as i32)));
        }
        for partition in 0..self.owners.len() {
            let id = PartitionId(partition as i32);
            let event = if self.owners[partition] == node { Event::Acquire(id) } else { Event::Release(id) };
            self.step(node, event);
        }
        self.begin_snapshots(node);
    }

    fn join(&mut self, node: usize) {
        let now_ms = self.nodes[node].clock.shows(self.now_ms).mono_ms;
        let Some(engine) = &mut self.engine else { return };
        engine.incarnations += 1;
        let (node_id, incarnation) = (node_id(node), Incarnation(engine.incarnations));
        let register = Register { node: node_id, directory: Directory(node as u128), incarnation };
        let history = engine.memory.store().view.meta.history;
        let answer = engine.memory.call(&Request { history, body: Body::Register(register) });
        let Content::Registered(Registered::As(view)) = answer.content else { return };
        let config =
            Config { node: node_id, incarnation, ttl_ms: TTL_MS, margin_ms: MARGIN_MS, beat_interval_ms: BEAT_MS };
        let link = &mut engine.links[node];
        (link.machine, link.incarnation, link.era) =
            (Some(Node::new(config, view, now_ms)), incarnation, engine.returns.count);
        link.waits_for_other = link.waits_for_other.filter(|of| *of == history);
        // Nothing that was under way concerns the new process.
        self.nodes[node].life += 1;
        self.begin_turns(node);
        self.show();
    }

    /// A node whose session is over serves nothing, whatever it is about to do.
    pub(super) fn expire(&mut self, node: usize) {
        let now_ms = self.nodes[node].clock.shows(self.now_ms).mono_ms;
        let Some(link) = self.link(node) else { return };
        let Some(machine) = &link.machine else { return };
        let state = machine.inspect();
        let serves = state.partitions.values().any(|phase| matches!(phase, Phase::Serving(_) | Phase::Loading(_)));
        if serves && state.valid_until_ms.is_none_or(|until_ms| until_ms <= now_ms) {
            self.step(node, Event::Turn);
        }
    }

    pub(super) fn step(&mut self, node: usize, event: Event) {
        let now_ms = self.nodes[node].clock.shows(self.now_ms).mono_ms;
        let Some(Link { machine: Some(machine), .. }) = self.link(node) else { return };
        let mut commands = Vec::new();
        machine.step(now_ms, event, &mut commands);
        for command in commands {
            self.carry_out(node, command);
        }
    }

    fn carry_out(&mut self, node: usize, command: Command) {
        match command {
            Command::Send(call, request) => self.send_call(node, call, request),
            Command::Loaded { partition, epoch, upto, chunks, entries } => {
                let entries = entries.iter().map(|(base_offset, entry)| (*base_offset, &entry.bytes[..]));
                let found = all_numbers(chunks.iter().map(|chunk| &chunk[..]), upto, entries);
                self.engine_loaded(node, partition.0 as usize, epoch, found);
            }
            Command::Applied { tickets, .. } => tickets.iter().for_each(|ticket| self.ends(node, *ticket, None)),
            Command::Refused(ticket, _) => self.ends(node, ticket, Some(ErrorCode::NotLeaderOrFollower)),
            Command::Unload(partition, reason) => {
                let is_kept = match reason {
                    Reason::Expired => self.planted == Some(Planted::SessionWithoutEnd),
                    Reason::Leaving => self.planted == Some(Planted::ReleasedIsServed),
                    Reason::Fenced | Reason::Stopping => false,
                };
                if !is_kept {
                    let partition = partition.0 as usize;
                    let epoch = self.nodes[node].cores[partition].epoch();
                    self.unload(node, partition, epoch);
                }
            }
            Command::Damaged(partition, damage) => {
                self.violated("E3", format!("partition {}: {damage:?}", partition.0));
            }
            Command::Stopped(stop) => self.stopped(node, stop),
            Command::SnapshotDone(..) => self.effective(Kind::Snapshots),
            Command::Read(..) | Command::Released(_) | Command::Lost(_) => {}
        }
    }

    /// The node has loaded a partition: its coordinator begins.
    fn engine_loaded(&mut self, node: usize, partition: usize, epoch: Epoch, found: Vec<AppendNumber>) {
        self.look("E1");
        let written = self.logs[partition].written_numbers();
        if found != written && !self.is_survivor(node) {
            let words = format!("epoch {} of partition {partition} loads {found:?}, not {written:?}", epoch.0);
            return self.violated("E1", words);
        }
        self.knows(node, partition, Some(&found), &[]);
        let era = self.era_of_load(node, partition, &found);
        if let Some(link) = self.link(node) {
            link.loaded.insert(partition, found);
        }
        let old = self.nodes[node].cores[partition].epoch();
        self.unload(node, partition, old);
        self.nodes[node].eras[partition] = era;
        self.begin_core(node, partition, epoch.0 as u32);
    }

    /// Folds what was loaded into the coordinator.
    pub(super) fn replay_loaded(&mut self, node: usize, partition: usize) {
        let found = self.link(node).and_then(|link| link.loaded.remove(&partition)).unwrap_or_default();
        let core = &mut self.nodes[node].cores[partition];
        self.logs[partition].replay_these(&found, core, self.planted);
    }

    /// An append of a coordinator goes to the engine.
    pub(super) fn engine_append(&mut self, by: &InFlight, partition: usize, records: &[rota_core::Record]) {
        let (number, now_ms) = (self.logs[partition].sent(by, records), self.now_ms);
        let Some(link) = self.link(by.node) else { return };
        link.last_ticket += 1;
        let ticket = Ticket(link.last_ticket);
        link.appends.insert(ticket, (partition, number, now_ms));
        let epoch = link.machine.as_ref().and_then(|machine| epoch_of(machine, PartitionId(partition as i32)));
        // A coordinator of an earlier epoch does not know what came since.
        if epoch != Some(by.epoch) {
            return self.ends(by.node, ticket, Some(ErrorCode::NotLeaderOrFollower));
        }
        // Unique over all partitions.
        let nonce = Nonce((u128::from(number.0) << 32) + partition as u128);
        let (bytes, partition) = (number.0.to_be_bytes().to_vec(), PartitionId(partition as i32));
        self.step(by.node, Event::Append { partition, ticket, nonce, count: 1, bytes });
    }

    /// An append has ended for its node.
    fn ends(&mut self, node: usize, ticket: Ticket, error: Option<ErrorCode>) {
        let Some((partition, number, _)) = self.link(node).and_then(|link| link.appends.remove(&ticket)) else {
            return;
        };
        if error.is_none() {
            self.knows(node, partition, None, &[number]);
        }
        self.logs[partition].ended(number, error);
        self.queue.push(self.now_ms, Happening::AppendEnds { partition, number });
    }

    /// A request leaves a node.
    fn send_call(&mut self, node: usize, call: CallId, request: Request) {
        let (now_ms, life) = (self.now_ms, self.nodes[node].life);
        let Some(engine) = &self.engine else { return };
        let (link, dice) = (&engine.links[node], &mut self.dice);
        let is_mute = link.is_mute(now_ms);
        let is_lost = !is_mute && link.suffers(Kind::EngineUnknown, now_ms) && dice.chance(SHARE);
        let late_ms = if link.suffers(Kind::EngineSlow, now_ms) { dice.below(LATE_MS) as u64 } else { 0 };
        let at_ms = now_ms + 1 + dice.below(4) as u64 + late_ms;
        let has_twin = !is_mute && link.suffers(Kind::EngineTwins, now_ms) && dice.chance(SHARE);
        let twin_ms = has_twin.then(|| at_ms + dice.below(LATE_MS) as u64);
        let request = Arc::new(request);
        match (is_mute, is_lost) {
            (true, _) => self.effective(Kind::EngineSilent),
            (_, true) => self.effective(Kind::EngineUnknown),
            (false, false) => {
                if late_ms > UNANSWERED_MS {
                    self.effective(Kind::EngineSlow);
                }
                let (call, request) = (Some(call), Arc::clone(&request));
                self.queue.push(at_ms, Happening::Call { node, life, call, request });
            }
        }
        if let Some(twin_ms) = twin_ms {
            self.queue.push(twin_ms, Happening::Call { node, life, call: None, request });
        }
        let outcome = Box::new(Outcome::Unknown);
        self.queue.push(now_ms + UNANSWERED_MS, Happening::CallEnds { node, life, call, outcome });
    }

    /// The engine carries a request out. `call`: its sender waits, unless its process is gone.
    pub(super) fn call(&mut self, node: usize, life: u32, call: Option<CallId>, request: &Request) {
        if call.is_none() {
            self.effective(Kind::EngineTwins);
        }
        let Some(engine) = &mut self.engine else { return };
        let planted = self.planted.and_then(|planted| planted.twist_call(engine, request));
        let request = planted.as_ref().unwrap_or(request);
        let answer = engine.memory.call(request);
        match (&request.body, &answer.content) {
            (Body::Append(append), Content::Appended(Appended::Written(_))) => {
                self.check_writer(append);
                self.written(append.partition.0 as usize, append.token.epoch.0 as u32, &append.bytes);
            }
            (Body::Claim(claim), Content::Claimed(Claimed::Owner(token))) => {
                self.logs[claim.partition.0 as usize].epoch = token.epoch.0 as u32;
            }
            _ => {}
        }
        if is_shown(&request.body) {
            self.show();
        }
        let (now_ms, Some(call)) = (self.now_ms, call) else { return };
        let mut at_ms = now_ms + 1 + self.dice.below(4) as u64;
        let Some(engine) = &self.engine else { return };
        let (link, dice) = (&engine.links[node], &mut self.dice);
        let is_full = link.suffers(Kind::EngineFull, now_ms) && dice.chance(SHARE);
        let is_lost = link.suffers(Kind::EngineUnknown, now_ms) && dice.chance(SHARE);
        if link.suffers(Kind::EngineSlow, now_ms) {
            at_ms += dice.below(UNANSWERED_MS as usize) as u64;
        }
        if is_full {
            self.effective(Kind::EngineFull);
        }
        if is_lost {
            return self.effective(Kind::EngineUnknown);
        }
        let outcome = Box::new(if is_full { Outcome::SpaceExhausted } else { Outcome::Answered(answer) });
        self.queue.push(at_ms, Happening::CallEnds { node, life, call, outcome });
    }

    fn written(&mut self, partition: usize, epoch: u32, bytes: &[u8]) {
        for number in numbers(bytes) {
            self.logs[partition].write(number, epoch);
            // An append that its node has given up has ended for its coordinator.
            if !self.logs[partition].in_flight.contains_key(&number) {
                self.delete_groups(partition, number);
            }
        }
    }

    /// A node learns what became of a call, or gives it up.
    pub(super) fn call_ends(&mut self, node: usize, call: CallId, mut outcome: Outcome) {
        let now_ms = self.now_ms;
        if Planted::looks_away(self.planted) {
            self.unnoticed(node, call, &mut outcome);
        }
        let Some(link) = self.link(node) else { return };
        if link.is_deaf(now_ms) && outcome != Outcome::Unknown {
            return self.effective(Kind::EngineSilent);
        }
        if outcome == Outcome::Unknown
            && let Some(planted @ (Planted::UnknownIsWritten | Planted::UnknownIsRefused)) = self.planted
        {
            self.mistake(node, call, planted);
        }
        self.step(node, Event::Ended(call, outcome));
    }

    /// Planted bugs: an append of unknown outcome ends for its coordinator, while it is still under way.
    fn mistake(&mut self, node: usize, call: CallId, planted: Planted) {
        let Some(Link { machine: Some(machine), .. }) = self.link(node) else { return };
        let Some(sent) = machine.inspect().calls.get(&call) else { return };
        let Body::Append(append) = &sent.request.body else { return };
        let Some(Phase::Serving(serving)) = machine.inspect().partitions.get(&append.partition) else { return };
        let tickets: Vec<Ticket> = serving.outstanding.iter().flat_map(|(_, tickets)| tickets.clone()).collect();
        let error = (planted == Planted::UnknownIsRefused).then_some(ErrorCode::KafkaStorageError);
        for ticket in tickets {
            self.ends(node, ticket, error);
        }
    }

    /// The watch shows the small keys to every node, each at another time.
    pub(super) fn show(&mut self) {
        let Some(engine) = &self.engine else { return };
        let view = Arc::new(engine.memory.view());
        for node in 0..self.nodes.len() {
            let at_ms = self.now_ms + 1 + self.dice.below(20) as u64;
            let life = self.nodes[node].life;
            self.queue.push(at_ms, Happening::Shown { node, life, view: Arc::clone(&view) });
        }
    }

    pub(super) fn shown(&mut self, node: usize, view: &View) {
        let now_ms = self.now_ms;
        let Some(link) = self.link(node) else { return };
        let is_stalled = link.suffers(Kind::WatchStalled, now_ms);
        if is_stalled || link.is_deaf(now_ms) {
            return self.effective(if is_stalled { Kind::WatchStalled } else { Kind::EngineSilent });
        }
        let mut view = View::clone(view);
        if Planted::looks_away(self.planted) {
            self.unnoticed_view(node, &mut view);
        }
        self.step(node, Event::View(view));
    }

    /// A partition that the planned node does not serve. A node may still be paused when the faults have ended.
    pub(super) fn unowned(&self) -> Option<usize> {
        self.engine.as_ref()?;
        let is_served = |partition: &usize| {
            let core = &self.nodes[self.owners[*partition]].cores[*partition];
            let is_now =
                core.epoch() == self.logs[*partition].epoch && !self.is_stale(self.owners[*partition], *partition);
            core.phase() == rota_core::Phase::Active && is_now
        };
        (0..self.owners.len()).find(|partition| !is_served(partition))
    }

    /// Who has a partition: the node that holds it in the engine, otherwise the plan's, which can be ahead or change
    /// its mind.
    pub(super) fn holder(&self, partition: usize) -> usize {
        let part = self.engine.as_ref().and_then(|engine| engine.memory.store().part(PartitionId(partition as i32)));
        part.filter(|part| part.held).map_or(self.owners[partition], |part| part.node.0 as usize)
    }

    /// The plan gives partitions of silent nodes to others.
    pub(super) fn plan(&mut self) {
        self.queue.push(self.now_ms + TICK_MS, Happening::Plan);
        let now_ms = self.now_ms;
        let Some(engine) = &mut self.engine else { return };
        for (node, beat) in &engine.memory.store().view.beats {
            let known = engine.beats.get(node).filter(|(known, _)| known == beat).copied();
            engine.beats.insert(*node, known.unwrap_or((*beat, now_ms)));
        }
        let beats = &engine.beats;
        let lives = |node: usize| beats.get(&node_id(node)).is_some_and(|(_, since_ms)| now_ms - since_ms < TTL_MS);
        let alive: Vec<usize> = (0..self.nodes.len()).filter(|node| lives(*node)).collect();
        for partition in 0..self.owners.len() {
            if !alive.is_empty() && !alive.contains(&self.owners[partition]) {
                self.owners[partition] = alive[partition % alive.len()];
            }
        }
    }
}

impl Planted {
    /// Another request than the one that was sent, as an engine with a bug would carry it out.
    fn twist_call(self, engine: &Engine, request: &Request) -> Option<Request> {
        let body = match (self, &request.body) {
            (Planted::EngineWithoutFence, Body::Append(append)) => Body::Append(unfenced(engine, append)?),
            (Planted::BehindAHole, Body::Append(append)) => Body::Append(behind_a_hole(engine, append)?),
            (Planted::ChunkWithoutContent, Body::Chunk(chunk)) => {
                Body::Chunk(PutChunk { bytes: Vec::new(), ..chunk.clone() })
            }
            _ => return None,
        };
        Some(Request { history: request.history, body })
    }
}

/// The append of an earlier owner as one of the owner.
fn unfenced(engine: &Engine, append: &Append) -> Option<Append> {
    let part = *engine.memory.store().view.parts.get(&append.partition)?;
    let newest = engine.of(append.partition)?.entries.last_key_value()?;
    if part == append.token.part() {
        return None;
    }
    let mut append = append.clone();
    append.token.epoch = part.epoch;
    (append.token.node, append.token.incarnation) = (part.node, part.incarnation);
    append.base_offset = newest.0 + newest.1.value.count;
    append.prev = Prev::Entry(*newest.0, newest.1.revision);
    Some(append)
}
