//! The simulator: real coordinators on several nodes, real members in processes, faults, and virtual time.
//!
//! One seed is one world, single-threaded. [`Shape`] says what it is made of, a list of [`Fault`]s what goes wrong; both
//! are drawn from the seed before anything happens. Everything after that is one queue of happenings, and one line of
//! text for each. After the chaos everything heals, and every group has to settle within a bound (L5).
//!
//! One thing, one file: [`wires`] (TCP), [`log`] (the fenced log), [`nodes`] (coordinators and their clocks), [`clients`]
//! (members and applications), [`chaos`] (what each fault does), [`topics`] (what nodes know of topics), [`engine`] (partitions shared over an engine),
//! [`returns`] (an engine that goes back); [`promises`] looks at every answer, [`ledger`] at what
//! processes were assigned; [`crowd`] at who was let in, [`keeping`] at offsets that expire, [`operator`] at groups
//! from outside. [`journal`] is for those who want to look for themselves.

mod chaos;
mod clients;
mod crowd;
mod engine;
pub mod faults;
mod guard;
mod heal;
mod journal;
pub mod json;
mod keeping;
mod ledger;
mod lines;
mod log;
mod minimise;
mod nodes;
mod operator;
pub mod plan;
mod planted;
mod promises;
pub mod protocols;
mod queue;
mod returns;
pub mod seeds;
mod sessions;
pub mod shape;
mod snapshots;
pub mod timeline;
mod topics;
mod wires;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use rota_core::Ticket;
use rota_engine::{CallId, Outcome, View};
use rota_member::{Answer, Request, RequestId};

use crate::dice::Rng;
use clients::Seat;
use crowd::Crowd;
use engine::Engine;
use faults::{Fault, Kind};
use guard::Guard;
use journal::Journal;
use ledger::Ledger;
use log::{AppendNumber, Log};
use nodes::Node;
use operator::Watch;
use promises::{Promises, Waiting};
use protocols::Protocol;
use queue::Queue;
use sessions::Sessions;
use shape::Shape;
use snapshots::Content;
use timeline::{Life, Timeline};
use topics::Topics;
use wires::{Wire, WireId};

pub use journal::Entry;
pub use minimise::minimise;
pub use planted::Planted;

/// Limit of events in a world. More means an endless loop.
const HAPPENINGS_MAX: u64 = 500_000;
/// The same where nodes beat and watch all the time.
const HAPPENINGS_OVER_ENGINE_MAX: u64 = 4 * HAPPENINGS_MAX;
/// In a long world one event for each so many milliseconds is no endless loop.
const HAPPENING_MS_LEAST: u64 = 10;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub struct Options {
    /// The protocol that members speak.
    pub protocol: Protocol,
    /// Whether each seed uses only some kinds of faults.
    pub swarm: bool,
    /// Whether nodes share the partitions by the protocol of `rota-engine`.
    pub engine: bool,
    /// Whether to record every event as a line.
    pub lines: bool,
    /// Whether to record the coordinators' events and effects as a journal.
    pub journal: bool,
    /// A planted bug that the checks must find.
    pub planted: Option<Planted>,
}

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The id of the check, such as `S25`, `L5`, `ownership` or `panic`.
    pub id: String,
    /// World time in milliseconds.
    pub at_ms: u64,
    /// Description of the violation.
    pub words: String,
}

/// Counts of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of events.
    pub happenings: u64,
    /// Number of events of coordinators.
    pub core_events: u64,
    /// Number of events of members.
    pub member_events: u64,
    /// Simulated time in milliseconds.
    pub simulated_ms: u64,
    /// Time from the end of the chaos until everything was settled, in milliseconds.
    pub settled_ms: u64,
    /// Rebalances after the end of the chaos, of the group with the most.
    pub settled_rebalances: u64,
    /// Number of assignments.
    pub assignments: u64,
    /// Number of reads by applications.
    pub read: u64,
    /// Number of partitions that moved to another process.
    pub moved: u64,
    /// Sum of ownership times of all partitions, in milliseconds.
    pub held_ms: u64,
    /// Number of batches that crashes cut off logs.
    pub torn: u64,
    /// Number of faults by kind.
    pub struck: BTreeMap<Kind, u64>,
    /// Number of effects of faults by kind; one fault may have several.
    pub effective: BTreeMap<Kind, u64>,
    /// Number of checks by id.
    pub looked: BTreeMap<&'static str, u64>,
}

/// The result of a world.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed of the world.
    pub seed: u64,
    /// The protocol of its members.
    pub protocol: Protocol,
    /// The faults of the world.
    pub faults: Vec<Fault>,
    /// The violation, if any.
    pub violation: Option<Violation>,
    /// Counts.
    pub figures: Figures,
    /// Lines; empty unless requested.
    pub lines: Vec<String>,
    /// Journals by partition; empty unless requested.
    pub journal: Vec<Vec<Entry>>,
    /// Processes and ownerships over time.
    pub timeline: Timeline,
}

/// The next event.
enum Happening {
    Fault(usize),
    Body { wire: WireId, request: RequestId, body: Box<Request> },
    Reply { wire: WireId, request: RequestId, answer: Box<Answer> },
    ReadOn { wire: WireId },
    End { wire: WireId },
    Hangup { wire: WireId },
    WakeMember { seat: usize, life: u32 },
    Act { seat: usize, life: u32 },
    Done { seat: usize, life: u32 },
    Exit { seat: usize, life: u32 },
    Start { seat: usize },
    WakeCore { node: usize, partition: usize },
    AppendEnds { partition: usize, number: AppendNumber },
    Load { partition: usize },
    Loaded { node: usize, life: u32, partition: usize, epoch: u32 },
    Unload { node: usize, partition: usize, epoch: u32 },
    Learn { node: usize, partition: usize },
    Topic { node: usize, name: Arc<str> },
    Recreate { name: Arc<str> },
    Turn { node: usize, life: u32 },
    Call { node: usize, life: u32, call: Option<CallId>, request: Arc<rota_engine::Request> },
    CallEnds { node: usize, life: u32, call: CallId, outcome: Box<Outcome> },
    Snapshot { node: usize, life: u32, content: Content },
    Shown { node: usize, life: u32, view: Arc<View> },
    Resume { node: usize },
    BackUp(usize),
    AcceptLoss,
    Plan,
    Failover { node: usize },
    Restart { node: usize },
    Inspect,
}

/// A world.
struct Fleet {
    now_ms: u64,
    dice: Rng,
    shape: Shape,
    planted: Option<Planted>,
    faults: Vec<Fault>,
    queue: Queue<Happening>,
    topics: Topics,
    nodes: Vec<Node>,
    logs: Vec<Log>,
    /// `None`: the owners of partitions are decided from outside.
    engine: Option<Engine>,
    load_fails: Vec<bool>,
    owners: Vec<usize>,
    seats: Vec<Seat>,
    wires: Vec<Wire>,
    /// End of the delay of older connections, by seat and node.
    held_up: BTreeMap<(usize, usize), (u64, WireId)>,
    tickets: u64,
    commits: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    promises: Promises,
    sessions: Sessions,
    crowd: Crowd,
    /// The operator's knowledge, by group.
    watches: Vec<Watch>,
    ledgers: Vec<Ledger>,
    /// The checks of consumer groups, by group.
    guards: Vec<Guard>,
    lives: Vec<Life>,
    /// Used by [`Planted::AssignmentOfAnother`].
    last_assignment: Vec<u8>,
    healed_ms: Option<u64>,
    figures: Figures,
    lines: Option<Vec<String>>,
    journal: Option<Journal>,
    violation: Option<Violation>,
}

/// Returns the faults of a seed's world.
pub fn faults_of(seed: u64, options: Options) -> Vec<Fault> {
    let mut shape = Shape::draw(seed, &mut Rng::new(seed));
    protocols::overlay(&mut shape, seed, options.protocol.of(seed));
    shape.engine = options.engine;
    faults::draw(&mut Rng::new(seed ^ 0xfa17), &shape, options.swarm)
}

/// Runs a seed's world with these faults. A panic is a violation.
pub fn run(seed: u64, faults: &[Fault], options: Options) -> Report {
    let mut fleet = Fleet::new(seed, faults.to_vec(), options);
    let outcome = catch_unwind(AssertUnwindSafe(|| fleet.live()));
    if let Err(panic) = outcome {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
        fleet.violated("panic", words.unwrap_or_default());
    }
    Report { protocol: options.protocol.of(seed), ..fleet.report(seed) }
}

impl Fleet {
    fn new(seed: u64, faults: Vec<Fault>, options: Options) -> Fleet {
        let mut dice = Rng::new(seed);
        let mut shape = Shape::draw(seed, &mut dice);
        protocols::overlay(&mut shape, seed, options.protocol.of(seed));
        shape.engine = options.engine;
        Fleet::of(dice, shape, faults, options)
    }

    fn of(dice: Rng, shape: Shape, faults: Vec<Fault>, options: Options) -> Fleet {
        let owners: Vec<usize> = (0..shape.partitions as usize).map(|at| at % shape.nodes).collect();
        let seats = shape.seats.iter().enumerate().map(|(at, seat)| {
            let topics = shape.groups[seat.group].topics.clone();
            let is_consumer = seat.consumer.is_some_and(|consumer| consumer.begins);
            let mut seat = Seat::new(at, format!("c{at}"), seat.instance_id.clone(), topics);
            seat.is_consumer = is_consumer;
            seat
        });
        Fleet {
            now_ms: 0,
            seats: seats.collect(),
            dice,
            planted: options.planted,
            faults,
            queue: Queue::default(),
            topics: Topics::new(&shape.topics),
            nodes: (0..shape.nodes).map(|_| Node::new(&shape, owners.clone())).collect(),
            logs: owners.iter().map(|_| Log::default()).collect(),
            engine: shape.engine.then(|| Engine::new(shape.nodes)),
            load_fails: vec![false; owners.len()],
            owners,
            wires: Vec::new(),
            held_up: BTreeMap::new(),
            tickets: 0,
            commits: 0,
            waiting: BTreeMap::new(),
            promises: Promises::new(shape.limits.retention),
            sessions: Sessions::default(),
            crowd: Crowd::default(),
            watches: vec![Watch::default(); shape.groups.len()],
            ledgers: shape.groups.iter().map(|_| Ledger::default()).collect(),
            guards: shape.groups.iter().map(|group| Guard::new(&group.id)).collect(),
            lives: Vec::new(),
            last_assignment: Vec::new(),
            healed_ms: None,
            figures: Figures::default(),
            lines: options.lines.then(Vec::new),
            journal: options.journal.then(|| Journal::new(shape.partitions as usize)),
            violation: None,
            shape,
        }
    }

    fn live(&mut self) {
        self.begin();
        self.go_on(self.shape.chaos_ms());
        self.heal();
        self.settle();
        self.look_at_the_end();
    }

    /// Processes events until a time, or until a violation.
    fn go_on(&mut self, until_ms: u64) {
        while self.violation.is_none()
            && let Some((at_ms, what)) = self.queue.pop_until(until_ms)
        {
            self.now_ms = at_ms;
            if let Some((seat, life, needs_process)) = self.whose(&what) {
                let one = &self.seats[seat];
                if one.life != life || needs_process && one.member.is_none() {
                    continue;
                }
                if one.paused_until_ms > at_ms {
                    self.queue.push(one.paused_until_ms, what);
                    self.effective(Kind::ClientPause);
                    continue;
                }
            }
            if let Some((node, until_ms)) = self.paused(&what) {
                self.effective(Kind::NodePause);
                // All deadlines are looked at when it goes on.
                if !matches!(what, Happening::WakeCore { .. }) {
                    self.queue.push(until_ms, what);
                }
                debug_assert!(self.nodes[node].up || until_ms > at_ms);
                continue;
            }
            self.figures.happenings += 1;
            let most = if self.engine.is_some() { HAPPENINGS_OVER_ENGINE_MAX } else { HAPPENINGS_MAX };
            // Members that repeat commits of a deleted topic for hours of a slow world do not stop time.
            let most = most.max(self.now_ms / HAPPENING_MS_LEAST);
            if self.figures.happenings > most {
                return self.violated("L7", format!("{most} things have happened, and time does not pass"));
            }
            if self.lines.is_some() {
                let line = self.line(&what);
                self.lines.get_or_insert_default().push(line);
            }
            self.take_place(what);
        }
        if self.violation.is_none() {
            self.now_ms = until_ms;
        }
    }

    /// Returns the process of an event: the event waits while the process is paused, and is too late when it is gone.
    fn whose(&self, what: &Happening) -> Option<(usize, u32, bool)> {
        match what {
            Happening::Reply { wire, .. } | Happening::Hangup { wire } => {
                Some((self.wires[*wire].seat, self.wires[*wire].life, false))
            }
            Happening::WakeMember { seat, life }
            | Happening::Act { seat, life }
            | Happening::Done { seat, life }
            | Happening::Exit { seat, life } => Some((*seat, *life, true)),
            _ => None,
        }
    }

    /// The node of an event that waits because the node is paused, and until when.
    fn paused(&self, what: &Happening) -> Option<(usize, u64)> {
        let engine = self.engine.as_ref()?;
        let node = match what {
            Happening::Body { wire, .. } | Happening::ReadOn { wire } => self.wires[*wire].node,
            Happening::WakeCore { node, .. }
            | Happening::Loaded { node, .. }
            | Happening::Topic { node, .. }
            | Happening::Turn { node, .. }
            | Happening::CallEnds { node, .. }
            | Happening::Snapshot { node, .. }
            | Happening::Shown { node, .. } => *node,
            Happening::AppendEnds { partition, number } => self.logs[*partition].in_flight.get(number)?.node,
            _ => return None,
        };
        Some((node, engine.paused_until(node, self.now_ms)?))
    }

    fn take_place(&mut self, what: Happening) {
        match what {
            Happening::Fault(at) => self.strike(self.faults[at]),
            Happening::Body { wire, request, body } => self.arrive(wire, request, body),
            Happening::Reply { wire, request, answer } => self.deliver(wire, request, *answer),
            Happening::ReadOn { wire } => self.read_on(wire),
            Happening::End { wire } => self.end_wire(wire),
            Happening::Hangup { wire } => self.hang_up(wire),
            Happening::WakeMember { seat, .. } => self.wake_member(seat),
            Happening::Act { seat, .. } => self.act(seat),
            Happening::Done { seat, .. } => self.done(seat),
            Happening::Exit { seat, .. } => {
                self.stop(seat);
            }
            Happening::Start { seat } => self.start(seat),
            Happening::WakeCore { node, partition } => self.wake_core(node, partition),
            Happening::AppendEnds { partition, number } => self.append_ends(partition, number),
            Happening::Load { partition } => self.load(partition),
            Happening::Loaded { node, life, partition, epoch } => self.loaded(node, life, partition, epoch),
            Happening::Unload { node, partition, epoch } => self.unload(node, partition, epoch),
            Happening::Topic { node, name } => self.learn_topic(node, &name),
            Happening::Recreate { name } => self.recreate_topic(&name),
            Happening::Learn { node, partition } => self.nodes[node].view[partition] = self.holder(partition),
            Happening::Turn { node, life } => {
                if self.nodes[node].life == life {
                    self.turn(node);
                }
            }
            Happening::Call { node, life, call, request } => self.call(node, life, call, &request),
            Happening::CallEnds { node, life, call, outcome } => {
                if self.nodes[node].life == life {
                    self.call_ends(node, call, *outcome);
                }
            }
            Happening::Snapshot { node, life, content } => {
                if self.nodes[node].life == life {
                    self.snapshot(node, content);
                }
            }
            Happening::Shown { node, life, view } => {
                if self.nodes[node].life == life {
                    self.shown(node, &view);
                }
            }
            Happening::Resume { node } => self.wake_all(node),
            Happening::BackUp(fault) => self.back_up(fault),
            Happening::AcceptLoss => self.accept_loss(),
            Happening::Plan => self.plan(),
            Happening::Failover { node } => self.fail_over(node),
            Happening::Restart { node } => self.restart_node(node),
            Happening::Inspect => self.inspect(),
        }
    }

    fn ledger_of(&mut self, seat: usize) -> &mut Ledger {
        &mut self.ledgers[self.shape.seats[self.seats[seat].shape].group]
    }

    /// Counts a check.
    fn look(&mut self, id: &'static str) {
        *self.figures.looked.entry(id).or_default() += 1;
    }

    /// Counts an effect of a fault.
    fn effective(&mut self, kind: Kind) {
        *self.figures.effective.entry(kind).or_default() += 1;
    }

    fn violated(&mut self, id: &str, words: String) {
        let at_ms = self.now_ms;
        self.violation.get_or_insert_with(|| Violation { id: id.to_owned(), at_ms, words });
    }

    /// Loads the logs, and schedules the processes and faults.
    fn begin(&mut self) {
        if self.engine.is_some() {
            (0..self.nodes.len()).for_each(|node| self.begin_turns(node));
            self.queue.push(0, Happening::Plan);
            self.begin_copies();
        }
        for partition in 0..self.owners.len() {
            self.load(partition);
        }
        for seat in 0..self.seats.len() {
            let at_ms = self.dice.below(3_000) as u64;
            self.queue.push(at_ms, Happening::Start { seat });
        }
        for at in 0..self.faults.len() {
            self.queue.push(self.faults[at].at_ms, Happening::Fault(at));
        }
        self.queue.push(0, Happening::Inspect);
    }

    fn report(mut self, seed: u64) -> Report {
        let timeline = self.timeline();
        let figures = &mut self.figures;
        figures.simulated_ms = self.now_ms;
        figures.held_ms = timeline.owned.iter().map(|owned| owned.to_ms - owned.from_ms).sum();
        for (id, count) in std::mem::take(&mut self.promises.looked) {
            *figures.looked.entry(id).or_default() += count;
        }
        figures.looked.insert("S20", self.sessions.looked);
        figures.looked.insert("S24", self.crowd.looked);
        for ledger in &self.ledgers {
            for (id, count) in ledger.looked() {
                *figures.looked.entry(id).or_default() += count;
            }
        }
        for guard in &self.guards {
            for (id, count) in &guard.looked {
                *figures.looked.entry(id).or_default() += count;
            }
        }
        figures.moved = self.ledgers.iter().map(|ledger| ledger.moved).sum();
        let lines = self.lines.unwrap_or_default();
        let journal = self.journal.map_or(Vec::new(), Journal::into_entries);
        let Fleet { faults, violation, figures, .. } = self;
        Report { seed, faults, violation, figures, lines, journal, timeline, ..Report::default() }
    }
}
