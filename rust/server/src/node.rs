//! The state of one node: the coordinators of all partitions, the topics, the tickets that wait. Everything happens
//! on one thread, one event after the other.

use std::{rc::Rc, sync::Arc};

use rota_core::{
    coordinator::Coordinator,
    effects::{AppendId, Sink},
    error::ErrorCode,
    explain::Explanation,
    records::Record,
    request::{Entropy, Heartbeat, Now, Request, Ticket},
    response::Answer,
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    clock::Clock,
    connection::Connection,
    entropy::RandomBits,
    members::Members,
    offsets_log::{EPOCH, Ended, OffsetsLog},
    place::Place,
    settings::Settings,
    tickets::{Reply, Tickets},
    topics::Topics,
};

/// How many rounds of deadlines one instant of a virtual clock may have. More is a deadline that does not go away.
const ROUNDS_AT_ONE_INSTANT_MAX: u32 = 10_000;

/// One node.
pub struct Node {
    /// As it was started with.
    pub settings: Settings,
    /// Where clients find it.
    pub place: Place,
    /// Its time.
    pub clock: Clock,
    /// Its topics.
    pub topics: Topics,
    /// Its random bits.
    pub random: RandomBits,
    /// Who speaks for whom; kept only on a virtual clock.
    pub members: Members,
    coordinators: Vec<Coordinator>,
    effects: Effects,
    armed_ms: u64,
    timer: Rc<Notify>,
}

struct Effects {
    tickets: Tickets,
    log: OffsetsLog,
}

/// Takes the effects of one coordinator.
struct PartitionSink<'n> {
    effects: &'n mut Effects,
    partition: u32,
    wall_ms: i64,
}

impl Sink for PartitionSink<'_> {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        // INVARIANT: S18. A second answer would belong to somebody else's request.
        let answered = self.effects.tickets.answer(ticket, &answer);
        debug_assert!(answered, "ticket {ticket:?} was answered twice");
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.effects.log.append(self.partition, append_id, self.wall_ms, records);
    }
}

impl Node {
    /// A node whose partitions are empty and loaded.
    pub fn new(settings: Settings, place: Place, clock: Clock) -> Node {
        let partitions = settings.offsets_partitions();
        let mut random = RandomBits::default();
        let mut node = Node {
            topics: Topics::new(settings.topics(), &mut random),
            coordinators: (0..partitions)
                .map(|partition| Coordinator::new(settings.coordinator(), partition, EPOCH))
                .collect(),
            effects: Effects {
                tickets: Tickets::default(),
                log: OffsetsLog::new(partitions, settings.message_max_bytes()),
            },
            settings,
            place,
            clock,
            random,
            members: Members::default(),
            armed_ms: u64::MAX,
            timer: Rc::default(),
        };
        node.each_partition(|coordinator, now, sink| coordinator.loaded(now, sink));
        node
    }

    /// Runs one event on every partition.
    fn each_partition(&mut self, mut event: impl FnMut(&mut Coordinator, Now, &mut PartitionSink<'_>)) {
        let now = self.clock.now();
        for (partition, coordinator) in (0..).zip(&mut self.coordinators) {
            event(coordinator, now, &mut PartitionSink { effects: &mut self.effects, partition, wall_ms: now.wall_ms });
        }
        self.settle();
        self.arm_earlier(self.next_deadline());
    }

    /// The number of coordinator partitions.
    pub fn partitions(&self) -> u32 {
        self.coordinators.len() as u32
    }

    /// The partition of a group.
    pub fn partition_of(&self, group_id: &str) -> u32 {
        rota_core::partition_for(group_id, self.partitions())
    }

    /// Hands a request to the coordinator of `partition`. It may be answered before this returns, or any time later.
    pub fn submit(&mut self, partition: u32, reply: Reply, request: Request<'_>) {
        // Only a joining member is given an id.
        let entropy = if matches!(request, Request::JoinGroup(_)) { self.random.draw() } else { 0 };
        let ticket = self.effects.tickets.issue(reply);
        let now = self.clock.now();
        let sink = &mut PartitionSink { effects: &mut self.effects, partition, wall_ms: now.wall_ms };
        let coordinator = &mut self.coordinators[partition as usize];
        coordinator.submit(now, ticket, Entropy(entropy), request, sink);
        self.settle();
        self.arm_earlier(self.coordinators[partition as usize].next_deadline());
    }

    /// Tells the coordinators which appends have ended, until none is left that has.
    pub fn settle(&mut self) {
        loop {
            let ended = self.effects.log.ended();
            if ended.is_empty() {
                return;
            }
            for Ended { partition, append_id, result } in ended {
                let now = self.clock.now();
                let sink = &mut PartitionSink { effects: &mut self.effects, partition, wall_ms: now.wall_ms };
                let coordinator = &mut self.coordinators[partition as usize];
                coordinator.appended(append_id, result, now, sink);
                self.arm_earlier(self.coordinators[partition as usize].next_deadline());
            }
        }
    }

    /// The log under the coordinators.
    pub fn log(&mut self) -> &mut OffsetsLog {
        &mut self.effects.log
    }

    /// How many requests wait for their answer.
    pub fn waiting(&self) -> usize {
        self.effects.tickets.waiting()
    }

    fn next_deadline(&self) -> Option<u64> {
        self.coordinators.iter().filter_map(Coordinator::next_deadline).min()
    }

    /// Wakes the timer task if it sleeps beyond `deadline_ms`.
    fn arm_earlier(&mut self, deadline_ms: Option<u64>) {
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms < self.armed_ms) {
            self.armed_ms = deadline_ms.unwrap_or(u64::MAX);
            self.timer.notify_one();
        }
    }

    /// What wakes the timer task.
    pub fn timer(&self) -> Rc<Notify> {
        Rc::clone(&self.timer)
    }

    /// Until when the timer task may sleep; `None` is until it is woken.
    pub fn arm(&mut self) -> Option<Instant> {
        let deadline_ms = self.next_deadline();
        let until = deadline_ms.and_then(|deadline_ms| self.clock.instant(deadline_ms));
        // Who sleeps until he is woken has no deadline that a new one would have to be before: a clock that is moved
        // may leave the one he saw behind.
        self.armed_ms = until.and(deadline_ms).unwrap_or(u64::MAX);
        until.map(Instant::from_std)
    }

    /// Fires every deadline that is due.
    pub fn advance_due(&mut self) {
        let now_ms = self.clock.now().mono_ms;
        self.each_partition(|coordinator, now, sink| {
            if coordinator.next_deadline().is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                coordinator.advance(now, sink);
            }
        });
    }

    /// Moves a virtual clock by `delta_ms`, from deadline to deadline. Before deadlines fire, members whose clients
    /// are alive and who are not in `expire` are heard.
    pub fn advance_virtual(&mut self, delta_ms: u64, expire: &[String]) {
        let target_ms = self.clock.now().mono_ms.saturating_add(delta_ms);
        let (mut instant_ms, mut rounds) = (0, 0);
        while let Some(deadline_ms) = self.next_deadline().filter(|deadline_ms| *deadline_ms <= target_ms) {
            self.clock.move_to(deadline_ms);
            let now_ms = self.clock.now().mono_ms;
            rounds = if now_ms == instant_ms { rounds + 1 } else { 0 };
            instant_ms = now_ms;
            assert!(rounds < ROUNDS_AT_ONE_INSTANT_MAX, "a deadline at {now_ms} ms does not go away");
            self.keep_alive(expire);
            self.advance_due();
        }
        self.clock.move_to(target_ms);
    }

    fn keep_alive(&mut self, expire: &[String]) {
        let now_ms = self.clock.now().mono_ms;
        for (group_id, member_id) in self.members.keep(now_ms, self.settings.min_session_timeout_ms(), expire) {
            let Some(generation) = self.explain(&group_id).map(|explanation| explanation.generation) else { continue };
            let request = Heartbeat { group_id: Some(&group_id), generation, member_id: &member_id, instance_id: None };
            self.submit(self.partition_of(&group_id), Reply::Discard, Request::Heartbeat(request));
        }
    }

    /// A request of this member came over `connection`.
    pub fn heard(&mut self, group_id: Option<&str>, member_id: &str, connection: &Rc<Connection>) {
        if self.clock.is_virtual() {
            self.members.heard(group_id.unwrap_or_default(), member_id, connection);
        }
    }

    /// The offsets of these topics go, in every group.
    pub fn topics_deleted(&mut self, topics: &[&str]) {
        self.each_partition(|coordinator, now, sink| coordinator.topics_deleted(topics, now, sink));
    }

    /// Gives up all partitions: whoever waits is answered.
    pub fn unload(&mut self) {
        self.each_partition(|coordinator, now, sink| coordinator.unload(now, sink));
    }

    /// Ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Arc<str>> {
        let mut group_ids: Vec<Arc<str>> = self.coordinators.iter().flat_map(Coordinator::group_ids).collect();
        group_ids.sort_unstable();
        group_ids
    }

    /// Ids of all members of all groups.
    pub fn member_ids(&self) -> Vec<Arc<str>> {
        self.coordinators.iter().flat_map(Coordinator::member_ids).cloned().collect()
    }

    /// What a group is doing, and why.
    pub fn explain(&self, group_id: &str) -> Option<Explanation> {
        self.coordinators[self.partition_of(group_id) as usize].explain(group_id)
    }

    /// The next `times` appends fail.
    pub fn fail_appends(&mut self, error: ErrorCode, times: u32) {
        self.effects.log.fail(error, times);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use rota_core::request::{JoinGroup, Protocol};

    use super::*;

    fn join(node: &mut Node, group_id: &str) {
        let request = JoinGroup {
            version: 0,
            group_id: Some(group_id),
            member_id: "",
            instance_id: None,
            client_id: "c",
            client_host: "/127.0.0.1",
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: -1,
            protocol_type: "consumer",
            protocols: &[Protocol { name: "range", metadata: b"" }],
            reason: None,
        };
        node.submit(node.partition_of(group_id), Reply::Discard, Request::JoinGroup(request));
    }

    /// Whether the timer task has been told to look again since this was last asked.
    fn is_woken(node: &Node) -> bool {
        let timer = node.timer();
        let notified = std::pin::pin!(timer.notified());
        notified.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn what_is_due_at_once_is_fired_without_an_advance_after_a_virtual_clock_has_moved_too() {
        let mut settings = Settings::default();
        settings.set("group.initial.rebalance.delay.ms", "0").unwrap();
        let place = Place { cluster_id: String::new(), host: None, port: 0 };
        let mut node = Node::new(settings, place, Clock::standing());
        for group_id in ["before", "after"] {
            if is_woken(&node) {
                assert!(node.arm().is_none());
            }
            join(&mut node, group_id);
            assert!(is_woken(&node), "{group_id}");
            assert!(node.arm().is_some());
            node.advance_due();
            assert_eq!(node.waiting(), 0, "{group_id}");
            assert!(node.arm().is_none(), "only the session is left");
            node.advance_virtual(10_000, &[]);
        }
    }
}
