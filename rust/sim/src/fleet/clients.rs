//! Processes: each has a real member, and an application that reads, commits and follows notices.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::ErrorCode;
use rota_member::{
    Answer, CommitId, Effect, Event, Failure, Member, Notice, Offset, Partition, Request, RequestId, Subscription,
};

use super::{
    Fleet, Happening, Planted,
    faults::Kind,
    ledger::Owner,
    promises::Waiting,
    protocols::{self, Roll},
    topics::Known,
    wires::{Use, WireId},
};

/// A place for one process at a time.
pub struct Seat {
    /// The seat of the shape that this one copies.
    pub shape: usize,
    pub instance_id: Option<String>,
    name: String,
    pub member: Option<Member>,
    /// Number of processes so far.
    pub life: u32,
    pub wires: BTreeMap<Use, WireId>,
    pub paused_until_ms: u64,
    pub busy_until_ms: u64,
    /// End of the time in which the application is slow to handle notices.
    pub slow_until_ms: u64,
    /// Whether the next process speaks the newer protocol.
    pub is_consumer: bool,
    wake_ms: u64,
    /// The subscribed topics.
    pub topics: Vec<Arc<str>>,
    /// The partitions that the application reads, as its member assigned them.
    reads: BTreeSet<Partition>,
    /// Number of unhandled notices.
    pub undone: u32,
    /// Whether the member is leaving.
    is_closing: bool,
    rejoined: Option<(u32, i32)>,
    /// The newest heartbeat of a consumer member whose answer is on its way, or was heard.
    pub heard: Option<RequestId>,
    /// The life of the group when the member joined.
    group_life: u32,
    /// The topics of the coordinator that answered the last SyncGroup.
    synced: Known,
    pub crash_loop: Option<CrashLoop>,
}

/// A process that crashes whenever its `JoinGroup` is answered, and starts again.
#[derive(Clone, Copy)]
pub struct CrashLoop {
    /// End of the restarts, in milliseconds.
    pub until_ms: u64,
    /// The seat of the process to replace, which closes once this one has a member id.
    replaces: Option<usize>,
}

impl Seat {
    pub fn new(shape: usize, name: String, instance_id: Option<String>, topics: Vec<Arc<str>>) -> Seat {
        Seat {
            shape,
            instance_id,
            name,
            member: None,
            life: 0,
            wires: BTreeMap::new(),
            paused_until_ms: 0,
            busy_until_ms: 0,
            slow_until_ms: 0,
            is_consumer: false,
            wake_ms: u64::MAX,
            topics,
            reads: BTreeSet::new(),
            undone: 0,
            is_closing: false,
            rejoined: None,
            heard: None,
            group_life: 0,
            synced: Known::new(),
            crash_loop: None,
        }
    }

    /// Returns the generation of the last successful join, which the process may not have heard of yet.
    pub fn knows_generation(&self) -> Option<i32> {
        self.rejoined.map(|(_, generation)| generation)
    }

    /// Returns the client id.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Fleet {
    fn owner(&self, seat: usize) -> Owner<'_> {
        let one = &self.seats[seat];
        let (instance_id, rejoined, life) = (one.instance_id.as_deref(), one.rejoined, one.group_life);
        Owner { process: (seat, one.life), instance_id, rejoined, life }
    }

    /// Starts a process. One that waits for its predecessor to leave tries again soon.
    pub(super) fn start(&mut self, seat: usize) {
        if self.seats[seat].member.is_some() {
            if self.seats[seat].is_closing {
                self.queue.push(self.now_ms + 100, Happening::Start { seat });
            }
            return;
        }
        if self.seats[seat].crash_loop.is_some_and(|of| of.until_ms <= self.now_ms) {
            return;
        }
        // No instance id is taken over after the chaos.
        let shape = self.seats[seat].shape;
        if self.healed_ms.is_some() && self.seats.iter().any(|one| one.shape == shape && one.member.is_some()) {
            return;
        }
        let retry_seed = self.dice.below(usize::MAX >> 1) as u64;
        let one = &mut self.seats[seat];
        let consumer = self.shape.seats[one.shape].consumer.filter(|_| one.is_consumer);
        // The id of a consumer is made of the seed.
        let seed =
            if one.is_consumer { retry_seed << 24 | (seat as u64) << 12 | u64::from(one.life) } else { retry_seed };
        let config = self.shape.config(one.shape, one.instance_id.clone(), seed, consumer);
        one.member = Some(Member::new(config).expect("the shape's settings make sense"));
        one.life += 1;
        (one.paused_until_ms, one.busy_until_ms, one.wake_ms, one.undone) = (0, 0, u64::MAX, 0);
        (one.rejoined, one.heard, one.is_closing) = (None, None, false);
        one.reads.clear();
        let life = one.life;
        let subscription = self.subscription(seat);
        self.born(seat);
        self.happen(seat, Event::Subscribe(subscription));
        self.queue.push(self.now_ms + 1_000, Happening::Act { seat, life });
    }

    /// Returns what a process subscribes to.
    fn subscription(&self, seat: usize) -> Subscription {
        let one = &self.seats[seat];
        if self.by_pattern(seat) {
            Subscription::CoordinatorPattern(protocols::pattern_of(&one.topics))
        } else {
            Subscription::Topics(one.topics.clone())
        }
    }

    fn by_pattern(&self, seat: usize) -> bool {
        let one = &self.seats[seat];
        one.is_consumer && self.shape.seats[one.shape].consumer.is_some_and(|consumer| consumer.by_pattern)
    }

    /// Whether a process subscribes to a topic.
    pub(super) fn wants(&self, seat: usize, topic: &Arc<str>) -> bool {
        let topics = &self.seats[seat].topics;
        topics.contains(topic) || self.by_pattern(seat) && protocols::matches(&protocols::pattern_of(topics), topic)
    }

    /// Ends a process without leaving the group.
    pub(super) fn stop(&mut self, seat: usize) -> bool {
        if self.seats[seat].member.take().is_none() {
            return false;
        }
        self.note_end(seat);
        let process = (seat, self.seats[seat].life);
        let now_ms = self.now_ms;
        self.died(seat);
        self.ledger_of(seat).gone(process, now_ms);
        self.close_all(seat);
        true
    }

    /// Passes an event to a member and executes its effects.
    pub(super) fn happen(&mut self, seat: usize, event: Event) {
        let life = self.seats[seat].life;
        let Some(member) = &mut self.seats[seat].member else { return };
        let mut effects = Vec::new();
        member.handle(self.now_ms, event, &mut effects);
        self.figures.member_events += 1;
        for effect in effects {
            if self.seats[seat].life != life {
                return;
            }
            match effect {
                Effect::Send { request, to, body } => self.send(seat, request, &to, body),
                Effect::Disconnect(to) => self.close(seat, &to),
                Effect::Tell(notice) => self.hear(seat, &notice),
            }
        }
        self.wake_member_later(seat);
    }

    fn wake_member_later(&mut self, seat: usize) {
        let now_ms = self.now_ms;
        let one = &mut self.seats[seat];
        let Some(next) = one.member.as_ref().and_then(Member::next_deadline) else { return };
        let at_ms = next.max(now_ms);
        if at_ms < one.wake_ms {
            one.wake_ms = at_ms;
            let life = one.life;
            self.queue.push(at_ms, Happening::WakeMember { seat, life });
        }
    }

    pub(super) fn wake_member(&mut self, seat: usize) {
        if self.seats[seat].wake_ms <= self.now_ms {
            self.seats[seat].wake_ms = u64::MAX;
            self.happen(seat, Event::Advance);
        }
    }

    /// Records a successful join: its sender has reported its partitions and knows the generation.
    pub(super) fn rejoined(&mut self, to: &Waiting, answer: &Answer) {
        let wire = &self.wires[to.wire];
        let life = self.ledgers[to.asked.group].life;
        // What the engine has lost belongs to the time before.
        let life = if self.is_stale(to.place.node, to.place.partition) { life.wrapping_sub(1) } else { life };
        let seat = &mut self.seats[wire.seat];
        if let Answer::JoinGroup { error: ErrorCode::None, generation, .. } = answer
            && seat.life == wire.life
        {
            seat.rejoined = Some((to.place.epoch, *generation));
            seat.group_life = life;
        }
        if matches!(answer, Answer::SyncGroup { error: ErrorCode::None, .. }) && seat.life == wire.life {
            // A member of the classic protocol knows no ids.
            seat.synced.clone_from(&self.nodes[to.place.node].topics[to.place.partition]);
        }
        if let (
            Request::ConsumerGroupHeartbeat(heartbeat),
            Answer::ConsumerGroupHeartbeat { error: ErrorCode::None, .. },
        ) = (&*to.asked.body, answer)
            && heartbeat.epoch == 0
            && seat.life == wire.life
        {
            seat.group_life = life;
        }
    }

    /// Handles a notice to the application.
    fn hear(&mut self, seat: usize, notice: &Notice) {
        let process = (seat, self.seats[seat].life);
        let now_ms = self.now_ms;
        let keeps = self.planted == Some(Planted::LostIsKept);
        match notice {
            Notice::Revoke { .. } if self.planted == Some(Planted::RevokedIsKept) => {}
            Notice::Revoke { partitions } => {
                self.give_up(seat, partitions);
                self.ledger_of(seat).ending(process, partitions);
            }
            Notice::Lose { partitions } => {
                if !keeps {
                    self.give_up(seat, partitions);
                }
                let ledger = self.ledger_of(seat);
                ledger.ending(process, partitions);
                ledger.ended(process, now_ms);
            }
            Notice::Assign { generation, added, all, .. } => self.take(seat, *generation, added, all),
            Notice::Failed(
                Failure::Answer { error: ErrorCode::FencedInstanceId, .. }
                | Failure::Refused { error: ErrorCode::FencedInstanceId, .. },
            ) => {
                // Another process has the instance id. This process ends, like a consumer whose poll raises.
                self.effective(Kind::Twin);
                self.queue.push(now_ms, Happening::Exit { seat, life: process.1 });
            }
            Notice::Failed(Failure::Refused { error: ErrorCode::UnreleasedInstanceId, .. }) => {
                // Another process has the instance id, or had it: this one ends, and is started again.
                self.effective(Kind::Twin);
                self.queue.push(now_ms, Happening::Exit { seat, life: process.1 });
                let at_ms = now_ms + 2_000 * u64::from(self.shape.pace);
                self.queue.push(at_ms, Happening::Start { seat });
            }
            Notice::Closed => self.queue.push(now_ms, Happening::Exit { seat, life: process.1 }),
            Notice::Failed(_) | Notice::Plan { .. } | Notice::Committed { .. } | Notice::Fetched { .. } => {}
        }
        if notice.wants_done() {
            self.seats[seat].undone += 1;
            let slow_ms = self.seats[seat].slow_until_ms.saturating_sub(now_ms);
            let wait_ms = if self.dice.chance(5) { self.dice.below(2_000) } else { self.dice.below(20) } as u64;
            if slow_ms > wait_ms {
                self.effective(Kind::SlowApply);
            }
            let wait_ms = wait_ms.max(slow_ms);
            self.queue.push(now_ms + wait_ms, Happening::Done { seat, life: process.1 });
        }
    }

    fn give_up(&mut self, seat: usize, partitions: &[Partition]) {
        self.seats[seat].reads.retain(|partition| !partitions.contains(partition));
    }

    /// Returns the ids of the topics that a process has partitions of.
    fn topic_ids_of(&self, seat: usize) -> BTreeMap<Arc<str>, u128> {
        let one = &self.seats[seat];
        match one.member.as_ref().filter(|_| one.is_consumer) {
            Some(member) => {
                let named = |(id, _): &(u128, i32)| Some((self.topics.name(*id)?.clone(), *id));
                member.held().filter_map(named).collect()
            }
            None => one.synced.iter().map(|(name, (id, _))| (name.clone(), *id)).collect(),
        }
    }

    fn take(&mut self, seat: usize, generation: i32, added: &[Partition], all: &[Partition]) {
        let group = self.shape.seats[self.seats[seat].shape].group;
        let cooperative = self.shape.groups[group].is_cooperative();
        let plan_epoch = self.promises.plan_epoch(group, generation).filter(|_| cooperative);
        let mut ledger = std::mem::take(&mut self.ledgers[group]);
        let to = self.owner(seat);
        let seats = &self.seats;
        let others = |(other, life): (usize, u32)| {
            let one = &seats[other];
            let (process, instance_id, rejoined) = ((other, life), one.instance_id.as_deref(), one.rejoined);
            (one.life == life).then_some(Owner { process, instance_id, rejoined, life: one.group_life })
        };
        let plan_epoch = plan_epoch.filter(|_| !self.seats[seat].is_consumer);
        let ids = self.topic_ids_of(seat);
        let found = ledger.assigned(to, generation, (added, all, &ids), plan_epoch, others, self.now_ms);
        self.ledgers[group] = ledger;
        if let Err((id, words)) = found {
            self.violated(id, words);
        }
        self.figures.assignments += 1;
        self.guard_holders(group);
        self.seats[seat].reads.extend(added.iter().cloned());
    }

    /// Reports that the application has handled a notice, unless it works.
    pub(super) fn done(&mut self, seat: usize) {
        let (busy_ms, life) = (self.seats[seat].busy_until_ms, self.seats[seat].life);
        if busy_ms > self.now_ms {
            return self.queue.push(busy_ms, Happening::Done { seat, life });
        }
        self.seats[seat].undone -= 1;
        let now_ms = self.now_ms;
        self.ledger_of(seat).ended((seat, life), now_ms);
        self.happen(seat, Event::Done);
    }

    /// Runs the application, about once a second.
    pub(super) fn act(&mut self, seat: usize) {
        let life = self.seats[seat].life;
        let wait_ms = (700 + self.dice.below(800) as u64) * u64::from(self.shape.pace);
        self.queue.push(self.now_ms + wait_ms, Happening::Act { seat, life });
        if self.seats[seat].busy_until_ms > self.now_ms {
            return;
        }
        self.happen(seat, Event::Poll);
        if self.planted == Some(Planted::RejoinsForNothing)
            && self.healed_ms.is_some_and(|healed_ms| self.now_ms < healed_ms + 20_000)
        {
            self.happen(seat, Event::Rejoin { reason: "for nothing".to_owned() });
        }
        let reads: Vec<Partition> = self.seats[seat].reads.iter().cloned().collect();
        if reads.is_empty() {
            return;
        }
        let partition = self.dice.pick(&reads);
        let group = self.shape.seats[self.seats[seat].shape].group;
        self.look("reading");
        if !self.ledgers[group].may_read((seat, life), &partition) {
            return self.violated("reading", format!("{} reads {partition}, which it lost", self.seats[seat].name));
        }
        self.figures.read += 1;
        self.commits += 1;
        let commit = CommitId(self.commits);
        // Every offset is committed once, so it identifies the commit.
        let offset = Offset::at(self.commits as i64);
        let by_clock = self.shape.seats[self.seats[seat].shape].auto_commit;
        let event = match self.dice.below(10) {
            0..3 => Event::Fetch { fetch: commit, partitions: reads },
            _ if by_clock => Event::Position { partition, offset },
            _ => Event::Commit { commit, offsets: vec![(partition, offset)] },
        };
        self.happen(seat, event);
    }

    /// Lets the application work, and poll again at the end.
    pub(super) fn be_busy(&mut self, seat: usize, for_ms: u64) {
        if self.seats[seat].member.is_some() {
            self.seats[seat].busy_until_ms = self.now_ms + for_ms;
            self.happen(seat, Event::Busy);
        }
    }

    /// Closes the member: it commits, leaves, and the process ends.
    pub(super) fn close_member(&mut self, seat: usize) {
        self.seats[seat].is_closing = true;
        self.note_end(seat);
        self.happen(seat, Event::Close { commit_timeout_ms: None });
    }

    fn note_end(&mut self, seat: usize) {
        if self.by_pattern(seat) {
            self.promises.unmatched(self.shape.seats[self.seats[seat].shape].group);
        }
    }

    pub(super) fn subscribe(&mut self, seat: usize, at: usize) -> bool {
        let shape = self.seats[seat].shape;
        let all = self.shape.groups[self.shape.seats[shape].group].topics.clone();
        // Never empty; each bit is a topic.
        let mask = 1 + at % ((1 << all.len()) - 1);
        let wanted: Vec<_> =
            all.into_iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, one)| one).collect();
        let changed = wanted != self.seats[seat].topics;
        if changed {
            self.promises.resubscribed(self.shape.seats[shape].group);
        }
        self.seats[seat].topics = wanted;
        let subscription = self.subscription(seat);
        self.happen(seat, Event::Subscribe(subscription));
        changed
    }

    /// Lets the next process of a seat speak the other protocol.
    pub(super) fn roll(&mut self, seat: usize, for_ms: u64, is_consumer: bool) {
        let shape = self.seats[seat].shape;
        if self.shape.seats[shape].consumer.is_none() || self.seats[seat].is_consumer == is_consumer {
            return;
        }
        self.effective(Kind::Roll);
        self.change_over(seat, for_ms, is_consumer);
    }

    fn change_over(&mut self, seat: usize, for_ms: u64, is_consumer: bool) {
        if self.seats[seat].member.is_some() {
            self.close_member(seat);
        }
        self.seats[seat].is_consumer = is_consumer;
        self.queue.push(self.now_ms + for_ms, Happening::Start { seat });
    }

    /// Ends what processes cannot do for themselves: of two with one instance id and different protocols one stays, and
    /// where a classic group may not become a consumer group all processes of a group speak one protocol.
    pub(super) fn finish_rolls(&mut self) {
        let Some(newer) = self.shape.newer else { return };
        for seat in self.shape.seats.len()..self.seats.len() {
            let shape = self.seats[seat].shape;
            let mut others = self.seats[..seat].iter();
            if self.seats[seat].instance_id.is_some() && others.any(|one| one.shape == shape && one.member.is_some()) {
                self.stop(seat);
            }
        }
        let may_mix = newer.migration.upgrades() && self.shape.limits.group_size.is_none();
        for seat in 0..self.seats.len() {
            let shape = &self.shape.seats[self.seats[seat].shape];
            let ends_as_consumer = match self.shape.groups[shape.group].roll {
                Roll::Never => self
                    .seats
                    .iter()
                    .find(|one| self.shape.seats[one.shape].group == shape.group)
                    .is_some_and(|one| one.is_consumer),
                Roll::Up => true,
                Roll::Down | Roll::Back => false,
            };
            if !may_mix && shape.consumer.is_some() && self.seats[seat].is_consumer != ends_as_consumer {
                self.change_over(seat, 0, ends_as_consumer);
            }
        }
    }

    /// Adds a second process for the instance of a seat, unless groups are full: then no process can take over the
    /// instance of a running one (docs/protocol.md §4.4).
    pub(super) fn add_twin(&mut self, seat: usize) {
        let one = &self.seats[seat];
        if one.instance_id.is_none() || one.member.is_none() || self.shape.limits.group_size.is_some() {
            return;
        }
        let name = format!("c{}", self.seats.len());
        let is_consumer = one.is_consumer;
        let twin = Seat::new(one.shape, name, one.instance_id.clone(), one.topics.clone());
        let twin = Seat { is_consumer, ..twin };
        self.seats.push(twin);
        self.start(self.seats.len() - 1);
    }
    /// Adds a process that is to replace that of a seat, but always crashes after it gets its member id.
    pub(super) fn add_crash_loop(&mut self, replaced: usize, for_ms: u64) {
        let one = &self.seats[replaced];
        let name = format!("c{}", self.seats.len());
        let mut looping = Seat::new(one.shape, name, None, one.topics.clone());
        looping.crash_loop = Some(CrashLoop { until_ms: self.now_ms + for_ms, replaces: Some(replaced) });
        self.seats.push(looping);
        self.start(self.seats.len() - 1);
    }

    /// The process crashed when its `JoinGroup` was answered, so its member id stays unused.
    pub(super) fn crash_at_join(&mut self, seat: usize, CrashLoop { until_ms, replaces }: CrashLoop, error: ErrorCode) {
        self.stop(seat);
        if error == ErrorCode::MemberIdRequired {
            self.effective(Kind::CrashLoop);
            self.seats[seat].crash_loop = Some(CrashLoop { until_ms, replaces: None });
            if let Some(replaced) = replaces.filter(|replaced| self.seats[*replaced].member.is_some()) {
                self.close_member(replaced);
                self.queue.push(until_ms.max(self.now_ms), Happening::Start { seat: replaced });
            }
        }
        let wait_ms = (500 + self.dice.below(1_000) as u64) * u64::from(self.shape.pace);
        if self.now_ms + wait_ms < until_ms {
            self.queue.push(self.now_ms + wait_ms, Happening::Start { seat });
        }
    }
}
