//! Nodes, their hosts and an engine in memory, one step at a time.

use std::collections::BTreeMap;

use rota_engine::{
    Answer, Command, Config, Directory, Epoch, Event, HistoryId, Incarnation, Memory, Node, NodeId, Nonce, Outcome,
    PartitionId, Request, Store, Ticket,
    node::{Phase, Refusal, Stop},
    requests::{AcceptLoss, Beaten, Body, Content, Register, Registered},
};

use crate::{bounds::Bounds, checks};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Tick,
    Slip(usize),
    Turn(usize),
    Watch(usize),
    Acquire(usize, PartitionId),
    Append(usize, PartitionId),
    Snapshot(usize, PartitionId, i64),
    Release(usize, PartitionId),
    Apply(usize),
    Deliver(usize),
    Lose(usize),
    Duplicate(usize),
    Exhaust(usize),
    BackUp,
    Restore,
    AcceptLoss,
    Restart(usize),
}

/// A node with its clock and what its coordinator holds: the records of each partition, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    pub node: Node,
    pub config: Config,
    pub clock: u64,
    pub folded: BTreeMap<PartitionId, Vec<u8>>,
    /// Whether a beat was answered that the engine's copy lacks.
    pub has_beaten: bool,
    /// Whether a restore took such a beat away.
    pub has_lost: bool,
}

/// What really happened to a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Truth {
    /// Records in the order in which they came into the log, with the epoch that wrote them.
    pub log: Vec<(u8, Epoch)>,
    /// Records that were acknowledged.
    pub acknowledged: Vec<u8>,
    /// Records that were refused for good.
    pub refused: Vec<u8>,
    /// Records that a restore took away.
    pub lost: Vec<u8>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub hosts: Vec<Host>,
    pub memory: Memory,
    pub truths: BTreeMap<PartitionId, Truth>,
    pub backup: BTreeMap<PartitionId, Truth>,
    pub left: Bounds,
    pub records: u8,
    pub is_restored: bool,
    pub is_accepted: bool,
    pub steady: u64,
}

/// A promise that is broken: its name, and how.
pub type Broken = (&'static str, String);

/// A set of names of things that happened.
pub type Seen = std::collections::BTreeSet<&'static str>;

pub fn history(number: u128) -> HistoryId {
    HistoryId(number)
}

impl World {
    pub fn new(bounds: Bounds) -> World {
        let mut memory = Memory::new(history(1));
        let hosts = (0..bounds.nodes).map(|at| Host::start(&mut memory, at, 1, 0, &bounds)).collect();
        let truths = (0..bounds.partitions).map(|partition| (PartitionId(partition), Truth::default())).collect();
        let mut world = World {
            hosts,
            memory,
            truths,
            backup: BTreeMap::new(),
            left: bounds,
            records: 0,
            is_restored: false,
            is_accepted: false,
            steady: bounds.ttl,
        };
        world.normalize();
        if bounds.is_takeover {
            world.serve_first();
        }
        world
    }

    /// Node 0 beats, claims partition 0 and loads it.
    fn serve_first(&mut self) {
        let claim = Action::Acquire(0, PartitionId(0));
        let steps =
            [Action::Turn(0), Action::Apply(0), Action::Deliver(0), claim, Action::Apply(0), Action::Deliver(0)];
        for action in steps.into_iter().chain([Action::Apply(0)]) {
            self.step(action, &mut Seen::new()).expect("nothing is broken yet");
        }
    }

    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.left.partitions).map(PartitionId)
    }

    /// What may happen next.
    pub fn actions(&self) -> Vec<Action> {
        let left = &self.left;
        let mut found = if left.is_timed { vec![Action::Tick] } else { Vec::new() };
        for (at, host) in self.hosts.iter().enumerate() {
            if left.slips && self.steady >= left.ttl {
                found.push(Action::Slip(at));
            }
            if host.node.inspect().stopped.is_none() {
                found.extend((at > 0 || !left.is_takeover).then_some(Action::Watch(at)));
                found.extend(left.is_timed.then_some(Action::Turn(at)));
                found.extend(self.partitions().flat_map(|partition| self.of_partition(at, partition)));
            }
            if left.restarts > 0 {
                found.push(Action::Restart(at));
            }
        }
        for (at, flight) in self.memory.flights().iter().enumerate() {
            let is_awaited = flight.call.is_some();
            if flight.answer.is_none() {
                found.push(Action::Apply(at));
                if is_awaited && left.twins > 0 && has_effect(&flight.request) {
                    found.push(Action::Duplicate(at));
                }
                if is_awaited && left.exhaustions > 0 && has_effect(&flight.request) {
                    found.push(Action::Exhaust(at));
                }
            } else {
                found.push(Action::Deliver(at));
            }
            if is_awaited && left.unknowns > 0 {
                found.push(Action::Lose(at));
            }
        }
        if left.backups > 0 {
            found.push(Action::BackUp);
        }
        if left.restores > 0 && self.memory.backup().is_some() {
            found.push(Action::Restore);
        }
        if self.is_restored && left.accepts > 0 {
            found.push(Action::AcceptLoss);
        }
        found
    }

    fn of_partition(&self, at: usize, partition: PartitionId) -> Vec<Action> {
        let host = &self.hosts[at];
        match host.node.inspect().partitions.get(&partition) {
            None => {
                let may_claim = self.left.epochs > 0 && (at > 0 || !self.left.is_takeover);
                let may_claim = may_claim.then_some(Action::Acquire(at, partition));
                let may_release = (self.left.releases > 0).then_some(Action::Release(at, partition));
                may_claim.into_iter().chain(may_release).collect()
            }
            Some(Phase::Serving(serving)) => {
                let mut found = Vec::new();
                if self.left.appends > 0 && serving.waiting.is_empty() {
                    found.push(Action::Append(at, partition));
                }
                if self.left.snapshots > 0 {
                    let offsets = (1..=serving.next_offset).filter(|upto| host.node.may_snapshot(partition, *upto));
                    found.extend(offsets.map(|upto| Action::Snapshot(at, partition, upto)));
                }
                if self.left.releases > 0 {
                    found.push(Action::Release(at, partition));
                }
                found
            }
            Some(_) => Vec::new(),
        }
    }

    /// Takes a step. Without a change the world is as it was.
    pub fn step(&mut self, action: Action, seen: &mut Seen) -> Result<(), Broken> {
        match action {
            Action::Tick => self.pass(None),
            Action::Slip(at) => self.pass(Some(at)),
            Action::Turn(at) => self.event(at, Event::Turn, seen)?,
            Action::Watch(at) => {
                let view = self.memory.view();
                self.event(at, Event::View(view), seen)?;
                checks::shown(self, at)?;
            }
            Action::Acquire(at, partition) => self.event(at, Event::Acquire(partition), seen)?,
            Action::Release(at, partition) => {
                self.event(at, Event::Release(partition), seen)?;
                let is_leaving = self.hosts[at].node.inspect().partitions.contains_key(&partition);
                self.left.releases -= u8::from(is_leaving);
            }
            Action::Append(at, partition) => {
                self.left.appends -= 1;
                let record = self.records;
                self.records += 1;
                let ticket = Ticket(u64::from(record));
                let nonce = Nonce(u128::from(record));
                let event = Event::Append { partition, ticket, nonce, count: 1, bytes: vec![record] };
                self.event(at, event, seen)?;
                if let Some(Phase::Serving(serving)) = self.hosts[at].node.inspect().partitions.get(&partition)
                    && !serving.waiting.is_empty()
                {
                    seen.insert("records wait for an append");
                }
            }
            Action::Snapshot(at, partition, upto) => {
                self.left.snapshots -= 1;
                self.event(at, self.compacted(at, partition, upto), seen)?;
            }
            Action::Apply(flight) => self.apply(flight, seen)?,
            Action::Deliver(flight) => {
                let arrived = self.memory.deliver(flight);
                self.arrive(arrived, seen)?;
            }
            Action::Lose(flight) => {
                self.left.unknowns -= 1;
                let lost = self.memory.lose(flight);
                self.arrive(lost, seen)?;
            }
            Action::Duplicate(flight) => {
                self.left.twins -= 1;
                self.memory.duplicate(flight);
            }
            Action::Exhaust(flight) => {
                self.left.exhaustions -= 1;
                let before = self.memory.store().clone();
                let request = self.memory.flights()[flight].request.clone();
                let exhausted = self.memory.exhaust(flight);
                checks::applied(self, &before, &request, seen)?;
                self.arrive(exhausted, seen)?;
            }
            Action::BackUp | Action::Restore | Action::AcceptLoss => self.operate(action),
            Action::Restart(at) => self.restart(at),
        }
        checks::state(self, seen)?;
        self.normalize();
        Ok(())
    }

    fn operate(&mut self, action: Action) {
        match action {
            Action::BackUp => {
                self.left.backups -= 1;
                self.memory.back_up();
                for host in &mut self.hosts {
                    host.has_beaten = false;
                }
                self.backup = self.truths.clone();
            }
            Action::Restore => {
                self.left.restores -= 1;
                self.is_restored = true;
                let last = self.memory.view().revision;
                self.memory.restore();
                if self.left.is_timed {
                    self.bump(last);
                }
                for host in &mut self.hosts {
                    host.has_lost |= std::mem::take(&mut host.has_beaten);
                }
                for (partition, truth) in &mut self.truths {
                    let kept = self.backup[partition].log.clone();
                    let gone = truth.log.iter().map(|(record, _)| *record);
                    truth.lost.extend(gone.filter(|record| !kept.iter().any(|(other, _)| other == record)));
                    truth.log = kept;
                }
                self.backup.clear();
            }
            _ => {
                self.left.accepts -= 1;
                self.is_accepted = true;
                let accept = AcceptLoss { lost: history(1), begin: history(2) };
                self.memory.call(&Request { history: history(1), body: Body::AcceptLoss(accept) });
            }
        }
    }

    /// The engine goes on with higher revisions than before the restore.
    fn bump(&mut self, last: rota_engine::Revision) {
        let mut store = self.memory.store().clone();
        store.view.revision.0 = last.0 + 1;
        self.memory = Memory::with(store, self.memory.flights().to_vec(), None);
    }

    fn restart(&mut self, at: usize) {
        self.left.restarts -= 1;
        self.give_up(at);
        let old = &self.hosts[at];
        let incarnation = (old.config.incarnation.0 % 100) + 1;
        self.hosts[at] = Host::start(&mut self.memory, at, incarnation, old.clock, &self.left);
    }

    /// The node waits for its flights no more.
    fn give_up(&mut self, at: usize) {
        let mut flight = 0;
        while let Some(found) = self.memory.flights().get(flight) {
            let is_gone = found.node == self.hosts[at].config.node && found.answer.is_some();
            if found.node == self.hosts[at].config.node {
                self.memory.lose(flight);
            }
            flight += usize::from(!is_gone);
        }
    }

    /// A unit of time passes, for all clocks but one.
    fn pass(&mut self, slow: Option<usize>) {
        for (at, host) in self.hosts.iter_mut().enumerate() {
            host.clock += u64::from(Some(at) != slow);
        }
        self.steady = if slow.is_some() { 0 } else { (self.steady + 1).min(self.left.ttl) };
    }

    /// A snapshot of what the host holds. Its bytes tell the owner, as compaction at another time gives other bytes.
    fn compacted(&self, at: usize, partition: PartitionId, upto: i64) -> Event {
        let host = &self.hosts[at];
        let epoch = host.node.inspect().partitions[&partition].token().map_or(0, |token| token.epoch.0);
        let mut chunk = vec![epoch as u8];
        chunk.extend(&host.folded[&partition][..upto as usize]);
        Event::Snapshot { partition, upto, chunks: vec![chunk] }
    }

    fn apply(&mut self, flight: usize, seen: &mut Seen) -> Result<(), Broken> {
        let before = self.memory.store().clone();
        let request = self.memory.flights()[flight].request.clone();
        if self.memory.flights()[flight].call.is_none() {
            seen.insert("a twin arrives");
        }
        let is_read = !has_effect(&request);
        self.memory.apply(flight);
        checks::applied(self, &before, &request, seen)?;
        // A load that takes long is one that begins late: only the owner changes what it reads.
        let read = if is_read { self.memory.deliver(flight) } else { None };
        self.arrive(read, seen)
    }

    fn arrive(&mut self, ended: Option<(NodeId, rota_engine::CallId, Outcome)>, seen: &mut Seen) -> Result<(), Broken> {
        let Some((node, call, outcome)) = ended else { return Ok(()) };
        if let Outcome::Answered(Answer { content: Content::Beaten(Beaten::Alive(_)), .. }) = &outcome {
            let has = |store: &Store| store.view.beats.get(&node).copied();
            let is_new = self.memory.backup().is_some_and(|backup| has(backup) != has(self.memory.store()));
            self.hosts[node.0 as usize].has_beaten |= is_new;
        }
        self.event(node.0 as usize, Event::Ended(call, outcome), seen)
    }

    fn event(&mut self, at: usize, event: Event, seen: &mut Seen) -> Result<(), Broken> {
        let mut commands = Vec::new();
        let host = &mut self.hosts[at];
        host.node.step(host.clock, event, &mut commands);
        for command in commands {
            self.carry_out(at, command, seen)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, at: usize, command: Command, seen: &mut Seen) -> Result<(), Broken> {
        let host = &mut self.hosts[at];
        match command {
            Command::Send(call, request) => self.memory.send(host.config.node, call, request),
            Command::Loaded { partition, upto, chunks, entries, .. } => {
                let chunks_loaded = !chunks.is_empty();
                let chunks = chunks.iter().flat_map(|chunk| chunk.iter().skip(1));
                let folded = chunks.chain(entries.iter().flat_map(|(base, entry)| checks::after(upto, *base, entry)));
                host.folded.insert(partition, folded.copied().collect());
                seen.insert(if chunks_loaded { "a snapshot is loaded" } else { "a partition is loaded" });
                checks::knows(self, at, partition)?;
            }
            Command::Applied { partition, tickets, .. } => {
                let records: Vec<u8> = tickets.iter().map(|ticket| ticket.0 as u8).collect();
                host.folded.entry(partition).or_default().extend(&records);
                let truth = self.truths.get_mut(&partition).expect("a partition of the world");
                truth.acknowledged.extend(&records);
                checks::acknowledged(self, at, partition, &records)?;
                seen.insert("an append is acknowledged");
            }
            Command::Refused(_, Refusal::Uncertain) => {
                seen.insert("an append is uncertain");
            }
            Command::Refused(ticket, _) => {
                let truth = self.truths.values_mut().next().expect("a partition");
                truth.refused.push(ticket.0 as u8);
            }
            Command::Unload(partition, reason) => {
                host.folded.remove(&partition);
                seen.insert(checks::unloaded(reason));
            }
            Command::Damaged(partition, damage) => {
                return Err(("E1", format!("node {at} cannot load {partition:?}: {damage:?}")));
            }
            Command::Stopped(stop) => checks::stopped(self, at, stop, seen)?,
            Command::SnapshotDone(..) => {
                seen.insert("a snapshot is complete");
            }
            Command::Released(_) => {
                seen.insert("a partition is released");
            }
            Command::Lost(_) | Command::Read(..) => {}
        }
        Ok(())
    }
}

impl Host {
    fn start(memory: &mut Memory, at: usize, start: u128, clock: u64, bounds: &Bounds) -> Host {
        let node = NodeId(at as i32);
        let incarnation = Incarnation(at as u128 * 100 + start);
        let register = Register { node, directory: Directory(at as u128), incarnation };
        let history = memory.store().view.meta.history;
        let answer = memory.call(&Request { history, body: Body::Register(register) });
        let Content::Registered(Registered::As(view)) = answer.content else { panic!("{answer:?}") };
        let config = Config { node, incarnation, ttl_ms: bounds.ttl, margin_ms: bounds.margin, beat_interval_ms: 1 };
        Host {
            node: Node::new(config.clone(), view, clock),
            config,
            clock,
            folded: BTreeMap::new(),
            has_beaten: false,
            has_lost: false,
        }
    }
}

/// Whether the request writes.
pub fn has_effect(request: &Request) -> bool {
    !matches!(request.body, Body::Read(_) | Body::Check(_) | Body::Usage(_))
}

/// Whether a request whose sender waits no more can be forgotten: it changes nothing now, and what refuses it never comes
/// back as long as the engine does not.
pub fn is_spent(store: &Store, request: &Request) -> bool {
    let is_past = match &request.body {
        Body::Beat(put) => store.view.beats.get(&put.node).is_some_and(|beat| *beat != put.beat),
        Body::Claim(claim) => store.part(claim.partition) != claim.seen,
        body => body.fenced_by().is_some_and(|(partition, token)| store.part(partition) != Some(token.part())),
    };
    is_past && {
        let mut after = store.clone();
        request.apply(&mut after);
        after == *store
    }
}

/// Why a stop is right.
pub fn is_called_for(world: &World, stop: Stop) -> bool {
    match stop {
        Stop::WentBack | Stop::Replaced => world.is_restored,
        Stop::OtherHistory(_) => world.is_accepted,
    }
}
