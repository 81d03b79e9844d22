//! The state of one node: the coordinators of the partitions that it owns, its topics, and the tickets that wait.
//!
//! Outside this folder a node has verbs only. [`Node::submit`] hands a request to a coordinator, [`Node::settle`] the
//! completions of the log, [`Node::advance_due`] the deadlines; `give_up` and `take_over` hand a partition to another
//! node ([`handover`]); `inspect.rs` reads.

mod effects;
pub mod handover;
pub mod heartbeats;
mod inspect;
pub mod journal;
pub mod loaders;
mod members;
mod produces;
pub mod shared_state;
mod tickets;
mod topic_metadata;

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use rota_core::{
    controls::NotDone,
    coordinator::Coordinator,
    effects::AppendId,
    error::ErrorCode,
    request::{Heartbeat, Request},
};
use rota_journal::{Event, Firing};
use rota_wire::{RequestHeader, WireError};
use tokio::{sync::Notify, time::Instant};

use self::{
    effects::{Effects, PartitionSink},
    handover::Loading,
    members::Members,
    produces::ProduceWait,
    shared_state::SharedState,
};
use crate::{
    base::{clock::Clock, entropy::RandomBits, place::Place, settings::Settings},
    client::{Client, MemberKey, reply::Reply},
    faults::{Disturbance, Handling, Outages},
    log::{
        newer_groups::NewerGroups,
        offsets_log::{EndOf, Ended, OffsetsLog},
    },
    topics::Topics,
};

/// One node. Everything happens on its thread, one event after the other.
pub struct Node {
    settings: Settings,
    place: Place,
    clock: Clock,
    topics: Topics,
    random: RandomBits,
    /// Which client speaks for which member; kept only on a virtual clock.
    members: Members,
    /// The request that is being handled.
    handling: Handling,
    shared: Arc<SharedState>,
    /// By partition; `None`: another node owns it.
    coordinators: Vec<Option<Coordinator>>,
    /// Stands for all partitions that other nodes own: it refuses what comes in the order of the gate.
    elsewhere: Coordinator,
    /// The partitions that are being loaded.
    loading: BTreeMap<u32, Loading>,
    /// By partition, of what was loaded.
    newer: BTreeMap<u32, NewerGroups>,
    /// Whether loading stands still.
    loads_held: bool,
    effects: Effects,
    /// Produce requests that wait until their batches are durable.
    produces: Vec<ProduceWait>,
    /// The topics as the coordinators know them, by name: id and partitions; only for the consumer protocol.
    known_topics: BTreeMap<String, (u128, i32)>,
    /// The version of the topic table that they are from.
    known_version: Option<u64>,
    /// Until when the timer task sleeps.
    armed_ms: u64,
    /// Wakes the timer task.
    timer: Rc<Notify>,
}

impl Node {
    /// A node with the partitions that are its own at the start. What the log has of them is still to be loaded.
    pub fn new(shared: &Arc<SharedState>, node_id: i32) -> Node {
        let (settings, owners) = (shared.settings.clone(), &shared.owners);
        let at = SharedState::place_of(node_id);
        let mut elsewhere = Coordinator::new(settings.coordinator(), 0, 0);
        elsewhere.load_failed();
        let mut node = Node {
            topics: Topics::of_node(Arc::clone(&shared.topics), node_id),
            coordinators: (0..owners.partitions()).map(|_| None).collect(),
            elsewhere,
            loading: BTreeMap::new(),
            newer: BTreeMap::new(),
            loads_held: false,
            effects: Effects::new(
                OffsetsLog::new(Arc::clone(&shared.log), Arc::clone(&shared.bells[at])),
                Arc::clone(&shared.changes),
            ),
            settings,
            place: Place { node_id, ..shared.place.clone() },
            clock: shared.clock.clone(),
            shared: Arc::clone(shared),
            random: RandomBits::default(),
            produces: Vec::new(),
            members: Members::default(),
            handling: Handling::default(),
            known_topics: BTreeMap::new(),
            known_version: None,
            armed_ms: u64::MAX,
            timer: Rc::default(),
        };
        for partition in 0..owners.partitions() {
            if let Some(owner) = owners.of(partition).filter(|owner| owner.node_id == node_id) {
                node.take_over(partition, owner.epoch, Vec::new());
            }
        }
        node
    }

    /// Its id.
    pub fn id(&self) -> i32 {
        self.place.node_id
    }

    /// The settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where clients find it and the other nodes.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The time of all coordinators.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Its topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Its topics, to be changed, and the random bits of what is created there.
    pub fn topics_mut(&mut self) -> (&mut Topics, &mut RandomBits) {
        (&mut self.topics, &mut self.random)
    }

    /// Runs one event on a partition that this node owns; `None`: it does not.
    pub fn on_partition(&mut self, partition: u32, event: &Event<'_>) -> Option<Result<(), NotDone>> {
        let now = self.clock.now();
        let coordinator = self.coordinators.get_mut(partition as usize)?.as_mut()?;
        let journal = self.shared.journal.as_deref();
        let result = self.effects.run(journal, coordinator, now, event);
        let deadline_ms = coordinator.next_deadline();
        self.settle();
        self.arm_earlier(deadline_ms);
        Some(result)
    }

    /// Runs one event on those partitions of this node that it concerns.
    fn each_partition(&mut self, event: &Event<'_>, concerns: impl Fn(&Coordinator) -> bool) {
        let now = self.clock.now();
        let journal = self.shared.journal.as_deref();
        for coordinator in self.coordinators.iter_mut().flatten().filter(|coordinator| concerns(coordinator)) {
            // Nobody asked: nothing is left undone.
            let _done = self.effects.run(journal, coordinator, now, event);
        }
        self.settle();
        self.arm_earlier(self.next_deadline());
    }

    /// The number of coordinator partitions, on all nodes.
    pub fn partitions(&self) -> u32 {
        self.coordinators.len() as u32
    }

    /// The partition of a group.
    pub fn partition_of(&self, group_id: &str) -> u32 {
        rota_core::partition_for(group_id, self.partitions())
    }

    /// The node that owns a partition, this one or another.
    pub fn owner_of(&self, partition: u32) -> i32 {
        self.shared.owners.of(partition).map_or(self.place.node_id, |owner| owner.node_id)
    }

    /// On a virtual clock, whether a client that is alive and not paused has spoken for this member.
    pub fn hears(&self, group_id: &str, member_id: &str) -> bool {
        self.members.hears(group_id, member_id)
    }

    /// Which nodes are down.
    pub fn outages(&self) -> &Outages {
        &self.shared.outages
    }

    /// What a test wants the network to do to a request of this API.
    pub fn disturb(&self, api_key: i16) -> Option<Disturbance> {
        self.shared.controls.disturb(api_key, self.id())
    }

    /// The coordinator of `partition`, if this node owns it.
    pub fn coordinator(&self, partition: u32) -> Option<&Coordinator> {
        self.coordinators.get(partition as usize)?.as_ref()
    }

    /// Hands a request to the coordinator of `partition`. It may be answered before this returns, or any time later.
    pub fn submit(&mut self, partition: u32, reply: Reply, request: Request<'_>) {
        // Only a joining member is given an id.
        let entropy = if matches!(request, Request::JoinGroup(_) | Request::ConsumerGroupHeartbeat(_)) {
            self.random.draw()
        } else {
            0
        };
        let ticket = self.effects.tickets.issue(reply);
        let now = self.clock.now();
        self.effects.metrics.asked(ticket, &request, now.mono_ms);
        if let Some(error) = self.injected(request.group_id().unwrap_or("")) {
            let sink = &mut PartitionSink::of(&mut self.effects, &self.elsewhere, now);
            return rota_core::controls::answer_error(now, ticket, &request, error, sink);
        }
        let owned = self.coordinators.get_mut(partition as usize).and_then(Option::as_mut);
        let journal = self.shared.journal.as_deref().filter(|_| owned.is_some());
        let coordinator = owned.unwrap_or(&mut self.elsewhere);
        // A request is always carried out.
        let _done = self.effects.run(journal, coordinator, now, &Event::Submitted { ticket, entropy, request });
        let deadline_ms = coordinator.next_deadline();
        self.settle();
        // What settled may have armed something that is due before, and has told so itself.
        self.arm_earlier(deadline_ms);
    }

    /// The error that a test wants what this request asks about a group ("" if about none) to be answered with.
    pub fn injected(&self, group_id: &str) -> Option<ErrorCode> {
        self.handling.injected(&self.shared.controls, group_id)
    }

    /// A client's request begins: it takes an injected error at most once.
    pub fn begin_request(&mut self, api_key: i16) {
        self.handling.begin(api_key);
    }

    /// It has been handled.
    pub fn end_request(&mut self) {
        self.handling.end();
    }

    /// The API of the request that is being handled, or whose handler has panicked.
    pub fn api_name(&self) -> Option<&'static str> {
        self.handling.api_name()
    }

    /// The paused member whose request this is; `None`: the request is to be handled.
    pub fn paused_sender(&self, header: &RequestHeader<'_>, body: &[u8]) -> Result<Option<MemberKey>, WireError> {
        self.shared.controls.paused_sender(header, body)
    }

    /// Applies what has ended in the log, until nothing is left that has.
    pub fn settle(&mut self) {
        loop {
            let ended = self.effects.log.ended(&mut self.effects.metrics);
            if ended.is_empty() {
                return self.arm_earlier(self.effects.log.next_due());
            }
            for Ended { partition, epoch, what } in ended {
                match what {
                    EndOf::Open(result) => self.opened(partition, epoch, result),
                    EndOf::Append(append_id, result) => self.appended(partition, epoch, append_id, result),
                }
            }
        }
    }

    fn appended(&mut self, partition: u32, epoch: u32, append_id: AppendId, result: Result<u64, ErrorCode>) {
        let Some(coordinator) = self.coordinators[partition as usize].as_mut() else { return };
        if coordinator.epoch() == epoch {
            let (journal, now) = (self.shared.journal.as_deref(), self.clock.now());
            // An end is always taken.
            let _done = self.effects.run(journal, coordinator, now, &Event::Appended { append_id, result });
            let deadline_ms = coordinator.next_deadline();
            self.arm_earlier(deadline_ms);
        }
    }

    /// Takes what the other nodes have done to the topics.
    pub fn catch_up(&mut self) {
        self.topics.catch_up();
        let deleted = self.topics.take_deleted();
        if !deleted.is_empty() {
            self.topics_deleted(&deleted.iter().map(String::as_str).collect::<Vec<_>>());
        }
        self.tell_topics();
    }

    /// What other threads ring when they have left something for this node.
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.bells[SharedState::place_of(self.place.node_id)])
    }

    /// The bell has been rung: looks at everything that other threads may have left.
    pub fn look_around(&mut self) {
        self.catch_up();
        self.finish_produces();
        self.settle();
    }

    /// The earliest deadline here: of a coordinator, or of an append whose end is told late.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.coordinators.iter().flatten().filter_map(Coordinator::next_deadline);
        deadlines.chain(self.effects.log.next_due()).min()
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
        self.each_partition(&Event::Advanced(Firing::default()), |coordinator| {
            coordinator.next_deadline().is_some_and(|deadline_ms| deadline_ms <= now_ms)
        });
    }

    /// A virtual clock has reached a deadline: fires what is due. Before, members whose clients are alive and who are
    /// not in `expire` are heard. Gives the next deadline.
    pub fn fire(&mut self, expire: &[String]) -> Option<u64> {
        self.keep_alive(expire);
        self.advance_due();
        self.next_deadline()
    }

    fn keep_alive(&mut self, expire: &[String]) {
        let now_ms = self.clock.now().mono_ms;
        for (group_id, member_id) in self.members.keep(now_ms, self.settings.min_session_timeout_ms(), expire) {
            let Some(generation) = self.explain(&group_id).map(|explanation| explanation.generation) else { continue };
            let request = Heartbeat { group_id: Some(&group_id), generation, member_id: &member_id, instance_id: None };
            self.submit(self.partition_of(&group_id), Reply::Discard, Request::Heartbeat(request));
        }
    }

    /// A request of this member came from `client`.
    pub fn heard(&mut self, group_id: Option<&str>, member_id: &str, client: &Client) {
        client.speaks_for(group_id.unwrap_or_default(), member_id);
        if self.clock.is_virtual() {
            self.members.heard(group_id.unwrap_or_default(), member_id, client);
        }
    }

    /// The offsets of these topics go, in every group. A partition that is being loaded is told when it is.
    pub fn topics_deleted(&mut self, topics: &[&str]) {
        for loading in self.loading.values_mut() {
            loading.deleted.extend(topics.iter().map(|topic| (*topic).to_owned()));
        }
        self.each_partition(&Event::TopicsDeleted { topics }, |_| true);
    }

    /// Gives up all partitions: whoever waits is answered. What is still being loaded is not wanted any more.
    pub fn unload(&mut self) {
        self.loading.clear();
        self.each_partition(&Event::Unloaded, |_| true);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use rota_core::request::{JoinGroup, Protocol};

    use super::*;
    use crate::base::owners::FIRST_NODE;

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
        let place = Place { cluster_id: String::new(), node_id: FIRST_NODE, host: None, ports: vec![0] };
        let shared = Arc::new(SharedState::new(settings, place, Clock::standing()));
        let mut node = Node::new(&shared, FIRST_NODE);
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
            let sessions_end_ms = node.next_deadline().unwrap();
            node.clock.move_to(sessions_end_ms);
            node.fire(&[]);
        }
    }
}
