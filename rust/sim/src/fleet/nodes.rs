//! Nodes: real coordinators with their own clocks, and partitions that move.

use std::sync::Arc;

use rota_core::{Coordinator, ErrorCode, Now, Phase, SelfCheck, Ticket};
use rota_journal::{Event, Firing};
use rota_member::{Answer, Request, RequestId};

use super::{
    Fleet, Happening, Planted,
    crowd::Moment,
    faults::Kind,
    log::{AppendNumber, Described, Effects, InFlight},
    promises::{Asked, Place, Waiting},
    shape::{APPEND_MS, Shape, WORLD_BEGINS_WALL_MS},
    topics::{Known, Topics},
    wires::{WireId, member_node},
};
use crate::bridge;

const MILLION: i64 = 1_000_000;
/// Odd, so that no two tickets give the same entropy.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// A clock that deviates from world time.
#[derive(Clone, Copy, Default)]
pub struct Clock {
    since_ms: u64,
    shown_ms: u64,
    pub drift_ppm: i64,
    pub wall_ms: i64,
}

impl Clock {
    /// Returns the clock's time at a world time.
    pub fn shows(&self, now_ms: u64) -> Now {
        let passed = (now_ms - self.since_ms) as i64;
        let mono_ms = self.shown_ms + (passed + passed * self.drift_ppm / MILLION) as u64;
        Now { mono_ms, wall_ms: WORLD_BEGINS_WALL_MS + self.wall_ms + mono_ms as i64 }
    }

    /// Returns the world time when the clock shows `mono_ms`.
    fn will_show(&self, mono_ms: u64, now_ms: u64) -> u64 {
        let missing = mono_ms.saturating_sub(self.shown_ms) as i64;
        let mut at_ms = (self.since_ms + (missing * MILLION / (MILLION + self.drift_ppm)) as u64).max(now_ms);
        while self.shows(at_ms).mono_ms < mono_ms {
            at_ms += 1;
        }
        at_ms
    }

    /// Changes the clock's speed.
    pub fn drift(&mut self, now_ms: u64, drift_ppm: i64, wall_ms: i64) {
        let shown_ms = self.shows(now_ms).mono_ms;
        *self = Clock { since_ms: now_ms, shown_ms, drift_ppm, wall_ms };
    }
}

/// One node. It has a coordinator for every partition; those of other nodes refuse requests.
pub struct Node {
    pub up: bool,
    pub life: u32,
    pub clock: Clock,
    pub cores: Vec<Coordinator>,
    wake_ms: Vec<u64>,
    /// After how many returns of the engine each coordinator began.
    pub eras: Vec<u32>,
    /// The topics that each coordinator knows: their ids and sizes.
    pub topics: Vec<Known>,
    /// The topics that the node itself knows.
    pub known: Known,
    /// Topics that were deleted while a coordinator loaded.
    pub deleted: Vec<Vec<Arc<str>>>,
    /// Owners of the partitions, as the node knows them.
    pub view: Vec<usize>,
}

fn unowned(shape: &Shape, partition: u32) -> Coordinator {
    let mut core = Coordinator::new(shape.core_config(), partition, 0);
    core.configure_consumer_groups(shape.consumer_config());
    core.unload(Now { mono_ms: 0, wall_ms: 0 }, &mut Effects::default());
    core
}

impl Node {
    pub fn new(shape: &Shape, view: Vec<usize>) -> Node {
        Node {
            up: true,
            life: 0,
            clock: Clock::default(),
            cores: (0..shape.partitions).map(|partition| unowned(shape, partition)).collect(),
            wake_ms: vec![u64::MAX; shape.partitions as usize],
            eras: vec![0; shape.partitions as usize],
            topics: vec![Known::new(); shape.partitions as usize],
            known: Topics::new(&shape.topics).all_known(),
            deleted: vec![Vec::new(); shape.partitions as usize],
            view,
        }
    }
}

impl Fleet {
    /// Handles a request.
    pub(super) fn serve(&mut self, wire: WireId, request: RequestId, mut body: Box<Request>) {
        let (seat, node) = (self.wires[wire].seat, self.wires[wire].node);
        let shape = self.seats[seat].shape;
        // Only new clients have an instance id, or must ask for a member id.
        let is_new_client = self.seats[seat].instance_id.is_some() || self.seats[seat].crash_loop.is_some();
        let version = if is_new_client { bridge::JOIN_VERSION } else { self.shape.seats[shape].join_version };
        let refused = self.refuse_unknown(node, &mut body);
        if matches!(&*body, Request::OffsetCommit { offsets, .. } if offsets.is_empty()) {
            return self.reply(wire, request, Answer::OffsetCommit(refused));
        }
        let Some(owned) = bridge::to_core(&body, self.seats[seat].name(), version) else {
            let answer = match &*body {
                Request::FindCoordinator { group_id } => {
                    let partition = self.shape.partition_of(group_id);
                    Answer::FindCoordinator(Ok(member_node(self.nodes[node].view[partition])))
                }
                Request::TopicNames { ids } => Answer::TopicNames(self.topics.names_of(ids)),
                _ => Answer::Metadata { topics: self.topics.by_name.clone(), refused: Vec::new() },
            };
            return self.reply(wire, request, answer);
        };
        let group = self.shape.seats[shape].group;
        let partition = self.shape.partition_of(&self.shape.groups[group].id);
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.expire(node);
        let epoch = self.nodes[node].cores[partition].epoch();
        let place = Place { node, partition, epoch, is_fenced: epoch < self.logs[partition].epoch };
        let asked = Asked { group, group_id: self.shape.groups[group].id.clone(), body, since_ms: self.now_ms };
        self.sessions.asked(&asked.body, group);
        self.crowd.asked(&asked.body);
        let mut waiting = self.promises.submitted(Waiting::new(wire, request, place, asked));
        waiting.refused = refused;
        self.waiting.insert(ticket, waiting);
        self.park(wire, ticket);
        let entropy = u128::from(ticket.0).wrapping_mul(SPREAD);
        let owned = match self.planted {
            Some(planted) => planted.twist_request(owned),
            None => owned,
        };
        owned.with(|request| self.tell(node, partition, &Event::Submitted { ticket, entropy, request }));
        if self.waiting.get(&ticket).is_some_and(|one| matches!(*one.asked.body, Request::JoinGroup { .. })) {
            self.watches[group].had_one = false;
        }
    }

    /// Passes an event to a coordinator and executes its effects.
    pub(super) fn tell(&mut self, node: usize, partition: usize, event: &Event<'_>) -> Option<Described> {
        if matches!(event, Event::Advanced(_) | Event::Appended { .. }) {
            self.expire(node);
        }
        let mut effects = Effects::default();
        let is_stale = self.is_stale(node, partition);
        let owner = &mut self.nodes[node];
        let (core, now) = (&mut owner.cores[partition], owner.clock.shows(self.now_ms));
        let is_owner = core.epoch() == self.logs[partition].epoch && core.phase() != Phase::Unloaded && !is_stale;
        let watched = if is_owner && self.shape.is_newer() { self.watched(node, partition, event) } else { Vec::new() };
        let (owner, core_now) = (&mut self.nodes[node], now);
        let core = &mut owner.cores[partition];
        if let Some(journal) = self.journal.as_mut().filter(|_| is_owner) {
            journal.tell(core, event, core_now, self.now_ms, &mut effects);
        } else {
            let _done = event.apply(core, core_now, &mut effects);
        }
        let described = effects.described.take();
        self.guard(node, partition, watched, &effects);
        self.follow(node, partition, effects);
        described
    }

    /// Executes a coordinator's effects and schedules its next deadline.
    fn follow(&mut self, node: usize, partition: usize, effects: Effects) {
        self.figures.core_events += 1;
        for (append_id, records) in effects.appends {
            let epoch = self.nodes[node].cores[partition].epoch();
            let by = InFlight { node, epoch, append_id, refused: None, is_ended: false, has_deleted: false };
            if self.engine.is_some() {
                self.engine_append(&by, partition, &records);
                continue;
            }
            let planted = self.planted;
            let log = &mut self.logs[partition];
            let (number, at_ms) = log.append(&by, &records, self.now_ms, &mut self.dice, planted);
            if at_ms > self.now_ms + u64::from(APPEND_MS) {
                self.effective(Kind::LogSlow);
            }
            self.queue.push(at_ms, Happening::AppendEnds { partition, number });
        }
        for (ticket, answer) in effects.answers {
            self.answered(ticket, answer);
        }
        self.wake_core_later(node, partition);
    }

    fn answered(&mut self, ticket: Ticket, answer: Option<Answer>) {
        let (Some(waiting), Some(answer)) = (self.waiting.remove(&ticket), answer) else {
            return self.violated("S18", format!("ticket {} is answered again, or never was asked", ticket.0));
        };
        let mut waiting = waiting;
        let Waiting { wire, request, place: Place { node, partition, .. }, .. } = waiting;
        let is_consumer_group = self.nodes[node].cores[partition].consumer_group(&waiting.asked.group_id).is_some();
        // The JoinGroup that ends a consumer group is answered as one to a consumer group.
        waiting.by_consumer_group = is_consumer_group
            || matches!(&answer, Answer::JoinGroup { error: ErrorCode::None, leader, .. } if leader.is_empty());
        if self.planted == Some(Planted::AnswerLost) && ticket.0.is_multiple_of(97) {
            return;
        }
        self.check_owner(&waiting, &answer);
        if self.is_stale(node, partition) {
            return self.answered_stale(&waiting, answer);
        }
        let clock_ms = self.nodes[node].clock.shows(self.now_ms).mono_ms;
        let waited_ms = self.now_ms - waiting.asked.since_ms;
        if waited_ms > self.patience_ms(&waiting) {
            self.violated("L4", format!("ticket {} has waited {waited_ms} ms: {:?}", ticket.0, waiting.asked.body));
        }
        let is_durable = self.promises.was_told(waiting.asked.group);
        let moment = Moment { clock_ms, step: self.figures.core_events, is_durable };
        let checked = self.promises.answered(&waiting, &answer, &self.logs[partition], self.now_ms);
        let checked = checked
            .and_then(|()| self.sessions.answered(&waiting, &answer, &self.shape.timeouts, clock_ms))
            .and_then(|()| self.crowd.answered(&waiting, &answer, self.shape.limits, moment));
        if let Err((id, words)) = checked {
            self.violated(id, words);
        }
        self.rejoined(&waiting, &answer);
        let answer = match self.planted {
            Some(planted) => planted.twist(answer, &mut self.last_assignment),
            None => answer,
        };
        self.guard_answer(ticket, &waiting, &answer);
        let answer = waiting.complete(answer);
        self.reply(wire, request, answer);
        self.queue.push(self.now_ms, Happening::ReadOn { wire });
    }

    /// An answer from what the engine has lost: it promises nothing but what it acknowledges.
    fn answered_stale(&mut self, waiting: &Waiting, answer: Answer) {
        let checked = self.promises.answered_stale(waiting, &answer, &self.logs[waiting.place.partition], self.now_ms);
        if let Err((id, words)) = checked {
            self.violated(id, words);
        }
        self.rejoined(waiting, &answer);
        self.reply(waiting.wire, waiting.request, answer);
        self.queue.push(self.now_ms, Happening::ReadOn { wire: waiting.wire });
    }

    fn wake_core_later(&mut self, node: usize, partition: usize) {
        let owner = &mut self.nodes[node];
        let Some(next) = owner.cores[partition].next_deadline() else { return };
        let at_ms = owner.clock.will_show(next, self.now_ms);
        if at_ms < owner.wake_ms[partition] && self.planted != Some(Planted::TimersForgotten) {
            owner.wake_ms[partition] = at_ms;
            self.queue.push(at_ms, Happening::WakeCore { node, partition });
        }
    }

    /// Schedules all deadlines of a node again after its clock changed.
    pub(super) fn wake_all(&mut self, node: usize) {
        for partition in 0..self.owners.len() {
            self.nodes[node].wake_ms[partition] = u64::MAX;
            self.wake_core_later(node, partition);
        }
    }

    pub(super) fn wake_core(&mut self, node: usize, partition: usize) {
        let owner = &mut self.nodes[node];
        if owner.wake_ms[partition] != self.now_ms {
            return;
        }
        owner.wake_ms[partition] = u64::MAX;
        self.tell(node, partition, &Event::Advanced(Firing::default()));
    }

    /// Passes the completion of an append to a coordinator of the same epoch.
    pub(super) fn append_ends(&mut self, partition: usize, number: AppendNumber) {
        let Some((by, result)) = self.logs[partition].end(number, self.now_ms) else { return };
        if self.engine.is_none() {
            if by.refused.is_some() && by.epoch == self.logs[partition].epoch {
                self.effective(Kind::LogFails);
            }
            if result.is_err() && by.epoch < self.logs[partition].epoch {
                self.effective(Kind::Zombie);
            }
        }
        // The load of a newer epoch has folded what an older one wrote.
        if by.epoch == self.logs[partition].epoch {
            self.stored(partition, number);
        }
        if !by.has_deleted {
            self.delete_groups(partition, number);
        }
        let core = &self.nodes[by.node].cores[partition];
        if core.epoch() == by.epoch && core.phase() == Phase::Active {
            self.tell(by.node, partition, &Event::Appended { append_id: by.append_id, result });
        }
    }

    /// The groups that an append deletes, if it is stored.
    pub(super) fn delete_groups(&mut self, partition: usize, number: AppendNumber) {
        for group_id in self.logs[partition].deleted_by(number) {
            self.group_deleted(&group_id);
        }
    }

    /// The groups that appends of earlier epochs delete, which a load finds. Their nodes may hear of them later, or never.
    fn delete_found(&mut self, partition: usize, epoch: u32) {
        let log = &self.logs[partition];
        let earlier = log.in_flight.iter().filter(|(_, by)| by.epoch < epoch && !by.has_deleted);
        let found: Vec<AppendNumber> = earlier.map(|(number, _)| *number).filter(|one| log.is_stored(*one)).collect();
        for number in found {
            if let Some(by) = self.logs[partition].in_flight.get_mut(&number) {
                by.has_deleted = true;
            }
            self.delete_groups(partition, number);
        }
    }

    pub(super) fn group_deleted(&mut self, group_id: &str) {
        if let Some(group) = self.shape.groups.iter().position(|group| *group.id == *group_id) {
            self.promises.deleted(group);
            self.guards[group].deleted();
            self.crowd.deleted(group);
            self.ledgers[group].life += 1;
        }
    }

    /// Unloads a partition that the node no longer owns.
    pub(super) fn unload(&mut self, node: usize, partition: usize, epoch: u32) {
        let core = &self.nodes[node].cores[partition];
        if core.epoch() != epoch || !matches!(core.phase(), Phase::Active | Phase::Loading) {
            return;
        }
        self.tell(node, partition, &Event::Unloaded);
        if let Some((ticket, _)) =
            self.waiting.iter().find(|(_, one)| one.place.node == node && one.place.partition == partition)
        {
            self.violated("S18", format!("ticket {} is not answered by unloading partition {partition}", ticket.0));
        }
    }

    /// Starts loading a partition at its owner. From now on no other node can write.
    pub(super) fn load(&mut self, partition: usize) {
        let node = self.owners[partition];
        if !self.nodes[node].up || self.engine.is_some() {
            return;
        }
        let old = self.nodes[node].cores[partition].epoch();
        self.unload(node, partition, old);
        let lost = self.logs[partition].lost;
        let epoch = self.logs[partition].open(self.now_ms, &mut self.dice);
        self.figures.torn += self.logs[partition].lost - lost;
        self.begin_core(node, partition, epoch);
    }

    /// Begins a coordinator of a partition, which has loaded its log after a while.
    pub(super) fn begin_core(&mut self, node: usize, partition: usize, epoch: u32) {
        let mut config = self.shape.core_config();
        if self.planted == Some(Planted::OneTooMany) {
            config.group_max_size = config.group_max_size.saturating_add(1);
        }
        let mut core = Coordinator::new(config.clone(), partition as u32, epoch);
        core.check_itself(if cfg!(debug_assertions) { SelfCheck::EveryEvent } else { SelfCheck::Sampled });
        self.nodes[node].cores[partition] = core;
        self.nodes[node].wake_ms[partition] = u64::MAX;
        self.nodes[node].topics[partition].clear();
        self.nodes[node].deleted[partition].clear();
        self.tell(node, partition, &Event::Began { config: &config, partition: partition as u32, epoch });
        self.prepare(node, partition);
        self.learn(node, partition);
        let life = self.nodes[node].life;
        let at_ms = self.now_ms + 5 + self.dice.below(200) as u64;
        self.queue.push(at_ms, Happening::Loaded { node, life, partition, epoch });
    }

    pub(super) fn loaded(&mut self, node: usize, life: u32, partition: usize, epoch: u32) {
        let owner = &mut self.nodes[node];
        let core = &mut owner.cores[partition];
        if owner.life != life || core.epoch() != epoch || core.phase() != Phase::Loading {
            return;
        }
        if std::mem::take(&mut self.load_fails[partition]) {
            self.tell(node, partition, &Event::LoadFailed);
            self.effective(Kind::LoadFails);
            let at_ms = self.now_ms + 1_000;
            return self.queue.push(at_ms, Happening::Load { partition });
        }
        if self.engine.is_some() {
            self.replay_loaded(node, partition);
        } else {
            self.logs[partition].replay(core, self.planted);
        }
        if !self.is_stale(node, partition) {
            self.delete_found(partition, epoch);
            self.begin_again(partition);
        }
        self.refold(partition);
        self.tell(node, partition, &Event::Loaded { state: &[] });
        self.forget_topics(node, partition);
    }

    /// Informs nodes of a new owner: the owner at once, the others later.
    fn learn(&mut self, owner: usize, partition: usize) {
        self.nodes[owner].view[partition] = owner;
        for node in 0..self.nodes.len() {
            let at_ms = self.now_ms + self.dice.below(400) as u64;
            self.queue.push(at_ms, Happening::Learn { node, partition });
        }
    }

    /// Moves a partition to another owner. The old one is informed after a delay; without one it unloads first.
    pub(super) fn move_partition(&mut self, partition: usize, to: usize, told_after_ms: Option<u64>) {
        let from = self.owners[partition];
        let Some(to) =
            (to..to + self.nodes.len()).map(|node| node % self.nodes.len()).find(|&node| self.nodes[node].up)
        else {
            return;
        };
        if to == from {
            return;
        }
        self.owners[partition] = to;
        if self.engine.is_some() {
            return;
        }
        let epoch = self.nodes[from].cores[partition].epoch();
        match told_after_ms {
            None => {
                self.unload(from, partition, epoch);
                let at_ms = self.now_ms + self.dice.below(300) as u64;
                self.queue.push(at_ms, Happening::Load { partition });
            }
            Some(wait_ms) => {
                self.load(partition);
                self.queue.push(self.now_ms + wait_ms, Happening::Unload { node: from, partition, epoch });
            }
        }
    }

    /// Crashes a node: its memory and connections are lost. Others take over after a while.
    pub(super) fn crash_node(&mut self, node: usize, for_ms: u64) {
        if !std::mem::take(&mut self.nodes[node].up) {
            return;
        }
        let owner = &mut self.nodes[node];
        owner.life += 1;
        owner.cores = (0..self.shape.partitions).map(|partition| unowned(&self.shape, partition)).collect();
        owner.wake_ms.fill(u64::MAX);
        if let Some(engine) = &mut self.engine {
            engine.crash(node);
        }
        self.waiting.retain(|_, waiting| waiting.place.node != node);
        for wire in 0..self.wires.len() {
            if self.wires[wire].node == node {
                self.end_wire(wire);
                // A process with a waiting request notices soon; others at their next request.
                let at_ms = self.now_ms + self.dice.below(50) as u64;
                self.queue.push(at_ms, Happening::Hangup { wire });
            }
        }
        if self.engine.is_none() {
            let noticed_ms = self.now_ms + 200 + self.dice.below(2_000) as u64;
            self.queue.push(noticed_ms, Happening::Failover { node });
        }
        self.queue.push(self.now_ms + for_ms, Happening::Restart { node });
    }

    pub(super) fn fail_over(&mut self, node: usize) {
        if self.nodes[node].up {
            return;
        }
        for partition in 0..self.owners.len() {
            if self.owners[partition] == node {
                self.move_partition(partition, node + 1 + partition, Some(0));
            }
        }
    }

    /// Restarts a node, which loads the partitions that it still owns.
    pub(super) fn restart_node(&mut self, node: usize) {
        if std::mem::replace(&mut self.nodes[node].up, true) {
            return;
        }
        self.nodes[node].view.clone_from(&self.owners);
        self.nodes[node].known = self.topics.all_known();
        if self.engine.is_some() {
            return self.begin_turns(node);
        }
        for partition in 0..self.owners.len() {
            if self.owners[partition] == node {
                self.load(partition);
            }
        }
    }
}
