//! The state of one node: its coordinators, topics and waiting tickets.
//!
//! Other folders use a node by methods only. [`Node::submit`] passes a request to a coordinator, [`Node::settle`]
//! completions of the log, [`Node::advance_due`] deadlines; `give_up` and `take_over` hand a partition to another node
//! ([`handover`]); `inspect.rs` reads.

mod access;
mod admission_retries;
pub mod admissions;
mod cluster;
mod effects;
mod group_configs;
pub mod handover;
pub mod heartbeats;
mod inspect;
pub mod journal;
pub mod loaders;
mod marker_fences;
mod markers;
mod members;
mod produces;
mod queues;
pub mod shared_state;
mod tickets;
mod topic_metadata;
mod transaction_partitions;
mod transaction_questions;
pub mod transaction_replies;
mod transactions;

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use rota_core::{
    controls::NotDone,
    coordinator::Coordinator,
    effects::{AppendId, Receipt},
    error::ErrorCode,
    explain::GroupProtocol,
    request::{ConsumerGroupHeartbeat, Heartbeat, Request},
};
use rota_journal::{Event, Firing};
use rota_wire::{RequestHeader, WireError};
use tokio::{sync::Notify, time::Instant};

use self::{
    admission_retries::AdmissionRetries,
    admissions::Admissions,
    effects::{Effects, PartitionSink},
    handover::Loading,
    marker_fences::MarkerFences,
    markers::MarkerWait,
    members::Members,
    produces::Produces,
    shared_state::SharedState,
    transaction_questions::Questions,
    transactions::NodeTransactions,
};
use crate::{
    base::{clock::Clock, entropy::RandomBits, place::Place, settings::Settings},
    client::{Client, MemberKey, reply::Reply},
    faults::{Disturbance, Handling, Outages},
    log::{
        group_configs::GroupTable,
        newer_groups::NewerGroups,
        offsets_log::{CompletedOperation, OffsetsLog, OperationResult},
    },
    topics::Topics,
};

/// One node. It handles one event at a time, on its own thread.
pub struct Node {
    settings: Settings,
    place: Place,
    clock: Clock,
    topics: Topics,
    /// The transactions that the node coordinates.
    transactions: NodeTransactions,
    /// Questions to coordinators and leaders, of requests that wait.
    questions: Questions,
    /// Questions to other servers, of requests that wait.
    admissions: Admissions,
    admission_retries: AdmissionRetries,
    random: RandomBits,
    /// The clients of members; recorded on a virtual clock only.
    members: Members,
    /// The current request.
    handling: Handling,
    /// What the last submitted request left, with its partition.
    receipt: Option<(u32, Receipt)>,
    shared: Arc<SharedState>,
    /// By partition; `None`: another node owns it.
    coordinators: Vec<Option<Coordinator>>,
    /// Represents all partitions of other nodes: it refuses requests in the order of the gate.
    elsewhere: Coordinator,
    /// The partitions that are being loaded.
    loading: BTreeMap<u32, Loading>,
    /// Partitions of a cluster that the node has taken and has yet to load, with their epochs.
    taken: Vec<(u32, u32)>,
    /// Groups of other protocols, by partition.
    newer: BTreeMap<u32, NewerGroups>,
    /// Whether loading is held.
    loads_held: bool,
    effects: Effects,
    /// Produce requests that wait until their batches are durable.
    produces: Produces,
    /// Markers whose appends are in flight.
    markers: Vec<MarkerWait>,
    /// The last markers of producers, by partition of groups.
    marker_fences: BTreeMap<u32, MarkerFences>,
    /// The topics as the coordinators know them, by name: id and number of partitions. Only for the consumer protocol.
    known_topics: BTreeMap<String, (u128, i32)>,
    /// The version of the topic table that they come from.
    known_version: Option<u64>,
    /// The groups' own settings as the coordinators know them.
    known_configs: Arc<GroupTable>,
    /// The version of the table that they come from.
    configs_version: u64,
    /// The ACLs as the node knows them; `None`: without an authorizer.
    known_acls: Option<access::Known>,
    /// The time until which the timer task sleeps.
    armed_ms: u64,
    /// Wakes the timer task.
    timer: Rc<Notify>,
}

impl Node {
    /// Creates a node with its partitions. Their content in the log must still be loaded.
    pub fn new(shared: &Arc<SharedState>, node_id: i32) -> Node {
        let (settings, owners) = (shared.settings.clone(), &shared.owners);
        let at = shared.place_of(node_id);
        let mut elsewhere = new_coordinator(&settings, 0, 0);
        elsewhere.load_failed();
        let mut node = Node {
            topics: Topics::of_node(Arc::clone(&shared.topics), node_id),
            transactions: NodeTransactions::new(
                shared.transactions.owners().partitions(),
                Arc::clone(&shared.wakers[at]),
            ),
            questions: Questions::default(),
            admissions: Admissions::default(),
            admission_retries: AdmissionRetries::default(),
            coordinators: (0..owners.partitions()).map(|_| None).collect(),
            elsewhere,
            loading: BTreeMap::new(),
            taken: Vec::new(),
            newer: BTreeMap::new(),
            loads_held: false,
            effects: Effects::new(
                OffsetsLog::new(Arc::clone(&shared.log), Arc::clone(&shared.wakers[at])),
                Arc::clone(&shared.changes),
                shared.acls.is_some(),
            ),
            settings,
            place: Place { node_id, ..shared.place.clone() },
            clock: shared.clock.clone(),
            shared: Arc::clone(shared),
            random: RandomBits::default(),
            produces: Produces::default(),
            markers: Vec::new(),
            marker_fences: BTreeMap::new(),
            members: Members::default(),
            handling: Handling::default(),
            receipt: None,
            known_topics: BTreeMap::new(),
            known_version: None,
            known_configs: Arc::default(),
            configs_version: 0,
            known_acls: access::Known::of(shared),
            armed_ms: u64::MAX,
            timer: Rc::default(),
        };
        // On a cluster the engine has the records.
        if shared.cluster.is_none() {
            node.topics.serve_offsets(&shared.log);
        }
        // The node of a cluster takes partitions when the engine says so.
        let own = if shared.cluster.is_some() { 0 } else { owners.partitions() };
        for partition in 0..own {
            if let Some(owner) = owners.of(partition).filter(|owner| owner.node_id == node_id) {
                node.take_over(partition, owner.epoch, Vec::new());
            }
        }
        node.begin_transactions();
        node
    }

    /// Returns the node id.
    pub fn id(&self) -> i32 {
        self.place.node_id
    }

    /// Returns the server's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the addresses of the nodes.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the clock of all coordinators.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Keeps up with the transactions in partitions of `__consumer_offsets` of this node that a client reads.
    pub fn follow_offsets(&mut self, mut partitions: Vec<i32>) {
        partitions.sort_unstable();
        partitions.dedup();
        for index in partitions {
            let partition = index.cast_unsigned();
            let groups = self.coordinators.get(partition as usize).and_then(Option::as_ref);
            let Some(groups) = groups.filter(|_| !self.loading.contains_key(&partition)) else { continue };
            // What is durable may not have come to the groups yet.
            let knows_all = self.effects.log.is_idle();
            let is_over = |producer_id| knows_all && groups.pending_epoch(producer_id).is_none();
            self.topics.follow_offsets(index, is_over);
        }
    }

    /// Returns the topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Returns the topics mutably, with the random bits for new ones.
    pub fn topics_mut(&mut self) -> (&mut Topics, &mut RandomBits) {
        (&mut self.topics, &mut self.random)
    }

    /// Runs one event on a partition; `None` if this node does not own it.
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

    /// Runs one event on the node's partitions that it concerns.
    fn each_partition(&mut self, event: &Event<'_>, concerns: impl Fn(&Coordinator) -> bool) {
        let now = self.clock.now();
        let journal = self.shared.journal.as_deref();
        for coordinator in self.coordinators.iter_mut().flatten().filter(|coordinator| concerns(coordinator)) {
            // No request waits for the result.
            let _done = self.effects.run(journal, coordinator, now, event);
        }
        self.settle();
        self.arm_earlier(self.next_deadline());
    }

    /// Returns the number of coordinator partitions of all nodes.
    pub fn partitions(&self) -> u32 {
        self.coordinators.len() as u32
    }

    /// Returns the partition of a group.
    pub fn partition_of(&self, group_id: &str) -> u32 {
        rota_core::partition_for(group_id, self.partitions())
    }

    /// Returns the id of the node that owns a partition.
    pub fn owner_of(&self, partition: u32) -> i32 {
        self.shared.owners.of(partition).map_or(self.place.node_id, |owner| owner.node_id)
    }

    /// On a virtual clock, returns whether the last client of this member is connected and not paused.
    pub fn is_responsive(&self, group_id: &str, member_id: &str) -> bool {
        self.members.is_responsive(group_id, member_id)
    }

    /// Returns the nodes that are down.
    pub fn outages(&self) -> &Outages {
        &self.shared.outages
    }

    /// Returns the network fault of a test for a request of this API.
    pub fn disturb(&self, api_key: i16) -> Option<Disturbance> {
        self.shared.controls.disturb(api_key, self.id())
    }

    /// Returns the coordinator of `partition`; `None` if another node owns it.
    pub fn coordinator(&self, partition: u32) -> Option<&Coordinator> {
        self.coordinators.get(partition as usize)?.as_ref()
    }

    /// Submits a request to the coordinator of `partition`. Its answer comes before this returns, or later.
    pub fn submit(&mut self, partition: u32, reply: Reply, request: Request<'_>) {
        // Only a joining member gets an id.
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
        // A request is always handled.
        let _done = self.effects.run(journal, coordinator, now, &Event::Submitted { ticket, entropy, request });
        // Requests that waited, and are handled now, may leave others.
        let left = self.effects.receipt.take().filter(|(of, _)| *of == ticket);
        self.receipt = left.map(|(_, receipt)| (partition, receipt));
        let deadline_ms = coordinator.next_deadline();
        self.settle();
        // The completions may have armed an earlier deadline, and have reported it themselves.
        self.arm_earlier(deadline_ms);
    }

    /// Returns the injected error for a part of the request about this group ("" if about none).
    pub fn injected(&self, group_id: &str) -> Option<ErrorCode> {
        self.handling.injected(&self.shared.controls, group_id)
    }

    /// Begins a client's request, which takes at most one injected error.
    pub fn begin_request(&mut self, api_key: i16) {
        self.handling.begin(api_key);
    }

    /// Ends the client's request.
    pub fn end_request(&mut self) {
        self.handling.end();
    }

    /// Returns the API of the current request, or of the one whose handler panicked.
    pub fn api_name(&self) -> Option<&'static str> {
        self.handling.api_name()
    }

    /// Returns the paused member of a request; `None` if none is paused.
    pub fn paused_sender(&self, header: &RequestHeader<'_>, body: &[u8]) -> Result<Option<MemberKey>, WireError> {
        self.shared.controls.paused_sender(header, body)
    }

    /// Applies completions of the log until there are none.
    pub fn settle(&mut self) {
        loop {
            let ended = self.effects.log.take_completed(&mut self.effects.metrics);
            if ended.is_empty() {
                return self.arm_earlier(self.effects.log.next_due());
            }
            for CompletedOperation { partition, epoch, what } in ended {
                match what {
                    OperationResult::Open(result) => self.opened(partition, epoch, result),
                    OperationResult::Append(append_id, result) => self.appended(partition, epoch, append_id, result),
                }
            }
        }
    }

    fn appended(&mut self, partition: u32, epoch: u32, append_id: AppendId, result: Result<u64, ErrorCode>) {
        self.topics.wake_offsets_readers(partition.cast_signed());
        let Some(coordinator) = self.coordinators[partition as usize].as_mut() else { return };
        if coordinator.epoch() == epoch {
            let (journal, now) = (self.shared.journal.as_deref(), self.clock.now());
            // A completion is always handled.
            let _done = self.effects.run(journal, coordinator, now, &Event::Appended { append_id, result });
            let deadline_ms = coordinator.next_deadline();
            self.arm_earlier(deadline_ms);
        }
    }

    /// Applies changes of the topic table by other nodes.
    pub fn catch_up(&mut self) {
        self.topics.catch_up();
        let deleted = self.topics.take_deleted();
        if !deleted.is_empty() {
            self.topics_deleted(&deleted.iter().map(String::as_str).collect::<Vec<_>>());
        }
        self.tell_topics();
        self.tell_group_configs();
    }

    /// Returns the waker that other threads notify after leaving work for this node.
    pub fn waker(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.wakers[self.shared.place_of(self.place.node_id)])
    }

    /// Returns what all nodes share.
    fn shared_state(&self) -> Arc<SharedState> {
        Arc::clone(&self.shared)
    }

    /// Returns the position of the node among all.
    fn place_index(&self) -> usize {
        self.shared.place_of(self.place.node_id)
    }

    /// Handles the work that other threads may have left, after the waker was notified.
    pub fn handle_wakeup(&mut self) {
        if self.shared.cluster.is_some() {
            self.topics.follow_cluster();
        }
        self.catch_up();
        self.write_markers();
        self.finish_produces();
        self.settle();
        self.settle_transactions();
    }

    /// Returns the earliest deadline of the node: of a coordinator, or of a delayed completion.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.coordinators.iter().flatten().filter_map(Coordinator::next_deadline);
        deadlines
            .chain(self.effects.log.next_due())
            .chain(self.next_transaction_deadline())
            .chain(self.admission_retries.next_due_ms())
            .min()
    }

    /// Wakes the timer task if it sleeps beyond `deadline_ms`.
    fn arm_earlier(&mut self, deadline_ms: Option<u64>) {
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms < self.armed_ms) {
            self.armed_ms = deadline_ms.unwrap_or(u64::MAX);
            self.timer.notify_one();
        }
    }

    /// Returns the notification of the timer task.
    pub fn timer(&self) -> Rc<Notify> {
        Rc::clone(&self.timer)
    }

    /// Returns how long the timer task may sleep; `None`: until it is notified.
    pub fn arm(&mut self) -> Option<Instant> {
        let deadline_ms = self.next_deadline();
        let until = deadline_ms.and_then(|deadline_ms| self.clock.instant(deadline_ms));
        // A task that sleeps until it is notified has no deadline to compare new ones with: a moved clock may leave an
        // old one behind.
        self.armed_ms = until.and(deadline_ms).unwrap_or(u64::MAX);
        until.map(Instant::from_std)
    }

    /// Fires every deadline that is due.
    pub fn advance_due(&mut self) {
        self.limit_patterns();
        let now_ms = self.clock.now().mono_ms;
        self.each_partition(&Event::Advanced(Firing::default()), |coordinator| {
            coordinator.next_deadline().is_some_and(|deadline_ms| deadline_ms <= now_ms)
        });
        self.advance_transactions();
        self.retry_admissions();
    }

    /// Fires what is due after a virtual clock reached a deadline, and returns the next deadline. Before, members with
    /// connected clients send heartbeats, except those in `expire`.
    pub fn fire(&mut self, expire: &[String]) -> Option<u64> {
        self.keep_alive(expire);
        self.advance_due();
        self.next_deadline()
    }

    fn keep_alive(&mut self, expire: &[String]) {
        let now_ms = self.clock.now().mono_ms;
        for (group_id, member_id) in self.members.keep(now_ms, self.settings.min_session_timeout_ms(), expire) {
            let Some(explanation) = self.explain(&group_id) else { continue };
            let request = match explanation.protocol {
                GroupProtocol::Classic => Request::Heartbeat(Heartbeat {
                    group_id: Some(&group_id),
                    generation: explanation.generation,
                    member_id: &member_id,
                    instance_id: None,
                }),
                // The answer to a whole heartbeat may have an assignment, which would be lost.
                GroupProtocol::Consumer => {
                    Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat::keeping(&group_id, &member_id))
                }
            };
            self.submit(self.partition_of(&group_id), Reply::Discard, request);
        }
    }

    /// Records that `client` sent the last request of this member.
    pub fn record_sender(&mut self, group_id: Option<&str>, member_id: &str, client: &Client) {
        client.add_member(group_id.unwrap_or_default(), member_id);
        if self.clock.is_virtual() {
            self.members.record_sender(group_id.unwrap_or_default(), member_id, client);
        }
    }

    /// Removes the offsets of deleted topics from every group. A partition being loaded does this afterwards.
    pub fn topics_deleted(&mut self, topics: &[&str]) {
        for loading in self.loading.values_mut() {
            loading.deleted.extend(topics.iter().map(|topic| (*topic).to_owned()));
        }
        self.each_partition(&Event::TopicsDeleted { topics }, |_| true);
    }

    /// Gives up all partitions and answers every request that waits for their coordinators. Cancels loads.
    pub fn unload(&mut self) {
        self.check_session();
        // Durable appends are answered first.
        self.settle();
        self.settle_transactions();
        self.loading.clear();
        self.each_partition(&Event::Unloaded, |_| true);
        (0..self.partitions()).for_each(|partition| self.effects.log.forget(partition));
        self.unload_transactions();
        self.finish_waiting();
    }

    /// After `unload`, answers the requests whose results other threads have left since: of the disk, or of the coordinators
    /// of transactions.
    pub fn finish_waiting(&mut self) {
        self.handle_wakeup();
        self.end_admission_retries();
    }
}

/// Creates a coordinator that has loaded nothing. All must know which protocols are on: they refuse others first.
fn new_coordinator(settings: &Settings, partition: u32, epoch: u32) -> Coordinator {
    let mut coordinator = Coordinator::new(settings.coordinator(), partition, epoch);
    coordinator.configure_consumer_groups(settings.consumer_groups());
    coordinator
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

    /// Whether the timer task was notified since the last call.
    fn is_woken(node: &Node) -> bool {
        let timer = node.timer();
        let notified = std::pin::pin!(timer.notified());
        notified.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn what_is_due_at_once_is_fired_without_an_advance_after_a_virtual_clock_has_moved_too() {
        let mut settings = Settings::default();
        settings.set("group.initial.rebalance.delay.ms", "0").unwrap();
        let place = Place { cluster_id: String::new(), node_id: FIRST_NODE, nodes: 1, listeners: Arc::default() };
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
