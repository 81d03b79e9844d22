//! The member: its identity, assignment and pending requests, and the dispatch of events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    commits::Commits,
    config::{Config, ConfigError},
    consumer::{self, Consumer, HeartbeatAnswer},
    discovery::{Coordinator, Topics},
    event::{Answer, Effect, Event, Failure, Node, Notice, Partition, Request, RequestId, Subscription, To},
    heartbeats::Heartbeats,
    leaving::Leaving,
    rounds::Round,
};

/// The state of a member (docs/protocol.md §22.1, docs/consumer-protocol.md §22.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In no group.
    Unjoined,
    /// A join is in flight (classic protocol).
    PreparingRebalance,
    /// It has a generation and waits for its assignment (classic protocol).
    CompletingRebalance,
    /// It has sent its first heartbeat, and has no epoch yet (newer protocol).
    Joining,
    /// It has an epoch, and carries out its assignment (newer protocol).
    Reconciling,
    /// It has its assignment.
    Stable,
}

/// The identity of a member at the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Generation, or epoch in the newer protocol; -1: none.
    pub generation: i32,
    /// Member id; empty: none. In the newer protocol the member chooses it.
    pub member_id: String,
}

impl Identity {
    pub(crate) fn nobody() -> Identity {
        Identity { generation: -1, member_id: String::new() }
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    FindCoordinator,
    Metadata,
    TopicNames,
    Join,
    Sync,
    Heartbeat,
    Leave,
    Commit,
    Fetch,
}

/// A request without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub purpose: Purpose,
    pub to: To,
    pub deadline_ms: u64,
    /// The member's identity when it sent the request.
    pub asked_as: Identity,
}

/// A member's side of a group. See the [crate].
#[derive(Clone, Debug)]
pub struct Member {
    pub(crate) config: Config,
    pub(crate) now_ms: u64,
    pub(crate) out: Vec<Effect>,
    pub(crate) state: State,
    pub(crate) identity: Identity,
    /// The protocol chosen by the coordinator.
    pub(crate) protocol: Option<String>,
    pub(crate) subscription: Subscription,
    pub(crate) user_data: BTreeMap<String, Vec<u8>>,
    pub(crate) owned: BTreeSet<Partition>,
    pub(crate) coordinator: Coordinator,
    pub(crate) topics: Topics,
    pub(crate) round: Round,
    pub(crate) consumer: Consumer,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) commits: Commits,
    pub(crate) leaving: Leaving,
    /// Since when the application works; `None`: it polls.
    pub(crate) busy_since_ms: Option<u64>,
    /// A failure was raised. The member does nothing until the next poll.
    pub(crate) raised: bool,
    pub(crate) pending: BTreeMap<RequestId, Pending>,
    next_request: u64,
    jitter: u64,
}

impl Member {
    /// Creates a member without group and subscription.
    pub fn new(config: Config) -> Result<Member, ConfigError> {
        let config = config.validated()?;
        Ok(Member {
            now_ms: 0,
            out: Vec::new(),
            state: State::Unjoined,
            identity: if config.is_consumer() { consumer::identity(config.seed) } else { Identity::nobody() },
            protocol: None,
            subscription: Subscription::None,
            user_data: BTreeMap::new(),
            owned: BTreeSet::new(),
            coordinator: Coordinator::default(),
            topics: Topics::default(),
            round: Round::default(),
            consumer: Consumer::default(),
            heartbeats: Heartbeats::default(),
            commits: Commits::default(),
            leaving: Leaving::default(),
            busy_since_ms: None,
            raised: false,
            pending: BTreeMap::new(),
            next_request: 0,
            jitter: config.seed,
            config,
        })
    }

    /// Handles an event at `now_ms` (monotonic). Adds the effects to `sink`, in order.
    pub fn handle(&mut self, now_ms: u64, event: Event, sink: &mut Vec<Effect>) {
        self.now_ms = self.now_ms.max(now_ms);
        if self.leaving.is_closed() {
            self.refuse(&event);
        } else {
            self.take(event);
            self.drive();
        }
        sink.append(&mut self.out);
    }

    /// Returns when to pass [`Event::Advance`] if no other event happens; possibly in the past. `None`: never.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.leaving.is_closed() {
            return None;
        }
        let pending = self.pending.values().map(|pending| pending.deadline_ms).min();
        let (heartbeat, round) = if self.config.is_consumer() {
            (self.next_consumer_heartbeat(), self.next_reconciliation())
        } else {
            (self.next_heartbeat(), self.next_round())
        };
        [pending, self.next_discovery(), heartbeat, round, self.next_commit(), self.next_leaving()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the generation, or the epoch in the newer protocol; -1: none.
    pub fn generation(&self) -> i32 {
        self.identity.generation
    }

    /// Returns the member id; empty: none. In the newer protocol a member has it before it joins.
    pub fn member_id(&self) -> &str {
        &self.identity.member_id
    }

    /// Iterates over the assigned partitions, whether or not the application has reported [`Event::Done`].
    pub fn owned(&self) -> impl Iterator<Item = &Partition> {
        self.owned.iter()
    }

    /// Returns the coordinator, if known.
    pub fn coordinator(&self) -> Option<&Node> {
        self.coordinator.node()
    }

    /// Whether the member led the last round.
    pub fn is_leader(&self) -> bool {
        self.round.leads()
    }

    /// Whether the member has left the group and is finished.
    pub fn is_closed(&self) -> bool {
        self.leaving.is_closed()
    }

    /// Whether the application has an unhandled notice of an assignment.
    pub(crate) fn waits_for_the_application(&self) -> bool {
        self.round.waits_for_the_application() || self.consumer.waits_for_the_application()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Subscribe(subscription) => self.subscribe(subscription),
            Event::Poll => {
                self.busy_since_ms = None;
                self.raised = false;
            }
            Event::Busy => {
                self.busy_since_ms.get_or_insert(self.now_ms);
            }
            Event::Done => self.done(),
            Event::Planned { generation, plan } => self.planned(generation, plan),
            Event::UserData { strategy, user_data } => {
                match user_data {
                    Some(bytes) => self.user_data.insert(strategy, bytes),
                    None => self.user_data.remove(&strategy),
                };
            }
            Event::Position { partition, offset } => self.consumed(partition, offset),
            Event::Commit { commit, offsets } => self.commit(commit, offsets),
            Event::Fetch { fetch, partitions } => self.fetch(fetch, partitions),
            Event::Rejoin { reason } => self.rejoin(&reason),
            Event::Close { commit_timeout_ms } => self.close(commit_timeout_ms),
            Event::Answered { request, answer } => self.answered(request, answer),
            Event::Disconnected(to) => self.disconnected(&to),
            Event::Advance => {}
        }
    }

    /// Answers the application after the close, which waits for nothing then. Other events are ignored.
    fn refuse(&mut self, event: &Event) {
        match event {
            Event::Commit { commit, .. } => {
                self.tell(Notice::Committed { commit: *commit, result: Err(Failure::Closed) });
            }
            Event::Fetch { fetch, .. } => self.tell(Notice::Fetched { fetch: *fetch, result: Err(Failure::Closed) }),
            _ => {}
        }
    }

    /// Does what is due, in the order of a consumer's loop: later steps may use results of earlier ones.
    fn drive(&mut self) {
        self.give_up_waiting();
        self.watch_the_application();
        self.discover();
        if self.config.is_consumer() {
            self.reconcile();
            self.consumer_beat();
        } else {
            self.beat();
            self.go_round();
        }
        self.send_commits();
        self.leave_step();
        self.update_consumer_state();
    }

    fn subscribe(&mut self, subscription: Subscription) {
        let was_group = self.subscription.is_group();
        self.subscription = subscription;
        self.topics.forget();
        if self.subscription.is_group() {
            self.rejoin("the subscription changed");
        } else if was_group {
            self.unsubscribe();
        }
    }

    /// Sends a request with a timeout.
    pub(crate) fn send(&mut self, purpose: Purpose, to: To, body: Request, timeout_ms: u64) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        let pending = Pending {
            purpose,
            to: to.clone(),
            deadline_ms: self.now_ms.saturating_add(timeout_ms),
            asked_as: self.identity.clone(),
        };
        self.pending.insert(request, pending);
        self.out.push(Effect::Send { request, to, body });
        request
    }

    /// Sends a request to the coordinator, if it is known.
    pub(crate) fn ask(&mut self, purpose: Purpose, body: Request, timeout_ms: u64) -> Option<RequestId> {
        let to = To::Coordinator(self.coordinator.node()?.clone());
        Some(self.send(purpose, to, body, timeout_ms))
    }

    /// Whether an answer for this purpose is pending.
    pub(crate) fn waits_for(&self, purpose: Purpose) -> bool {
        self.pending.values().any(|pending| pending.purpose == purpose)
    }

    /// Whether the member's identity is still that of the request.
    pub(crate) fn is_still(&self, asked_as: &Identity) -> bool {
        self.identity == *asked_as
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.out.push(Effect::Tell(notice));
    }

    /// Raises a failure. The member does nothing until the next poll.
    pub(crate) fn raise(&mut self, failure: Failure) {
        self.raised = true;
        self.tell(Notice::Failed(failure));
    }

    /// Returns a backoff in milliseconds with a jitter of 20 %.
    pub(crate) fn spread(&mut self, backoff_ms: u64) -> u64 {
        let bits = split_mix(&mut self.jitter);
        backoff_ms * 4 / 5 + bits % (backoff_ms * 2 / 5 + 1)
    }

    /// Returns the backoff in milliseconds after some failures in a row. It doubles up to `retry_backoff_max_ms`.
    pub(crate) fn backoff_ms(&mut self, failures: u32) -> u64 {
        let doubled = u64::from(self.config.retry_backoff_ms) << failures.min(16);
        self.spread(doubled.min(u64::from(self.config.retry_backoff_max_ms)))
    }

    fn answered(&mut self, request: RequestId, answer: Answer) {
        // The connection was given up, so the answer is too late.
        let Some(pending) = self.pending.remove(&request) else { return };
        match (pending.purpose, answer) {
            (Purpose::FindCoordinator, Answer::FindCoordinator(found)) => self.found(found),
            (Purpose::Metadata, Answer::Metadata { topics, refused }) => self.learned(topics, refused),
            (Purpose::TopicNames, Answer::TopicNames(names)) => self.names_learned(names),
            (
                Purpose::Heartbeat,
                Answer::ConsumerGroupHeartbeat { error, message, epoch, heartbeat_interval_ms, assignment },
            ) => {
                let interval_ms = heartbeat_interval_ms;
                let answer = HeartbeatAnswer { error, message, epoch, interval_ms, assignment };
                self.consumer_beaten(&pending.asked_as, answer);
            }
            (
                Purpose::Join,
                Answer::JoinGroup { error, generation, protocol_name, leader, member_id, skip_assignment, members },
            ) => {
                let answer = crate::rounds::JoinAnswer {
                    error,
                    generation,
                    protocol_name,
                    leads: leader == member_id,
                    member_id,
                    skip_assignment,
                    members,
                };
                self.joined(&pending.asked_as, answer);
            }
            (Purpose::Sync, Answer::SyncGroup { error, protocol_name, assignment }) => {
                self.synced(&pending.asked_as, error, protocol_name, &assignment);
            }
            (Purpose::Heartbeat, Answer::Heartbeat(error)) => self.beaten(&pending.asked_as, error),
            // Whatever the answer, the member has left.
            (Purpose::Leave, Answer::LeaveGroup(_) | Answer::ConsumerGroupHeartbeat { .. }) => {}
            (Purpose::Commit, Answer::OffsetCommit(codes)) => self.committed(request, &pending.asked_as, &codes),
            (Purpose::Fetch, Answer::OffsetFetch { error, offsets }) => {
                self.fetched(request, &pending.asked_as, error, offsets);
            }
            // An answer of another kind: the connection cannot be trusted.
            _ => {
                let to = pending.to.clone();
                self.pending.insert(request, pending);
                self.out.push(Effect::Disconnect(to.clone()));
                self.disconnected(&to);
            }
        }
    }

    fn give_up_waiting(&mut self) {
        let now_ms = self.now_ms;
        let late = |pending: &&Pending| pending.deadline_ms <= now_ms;
        while let Some(to) = self.pending.values().find(late).map(|pending| pending.to.clone()) {
            self.out.push(Effect::Disconnect(to.clone()));
            self.disconnected(&to);
        }
    }

    fn disconnected(&mut self, to: &To) {
        if matches!(to, To::Coordinator(node) if self.coordinator.node() == Some(node)) {
            self.forget_coordinator();
        }
        let lost: Vec<RequestId> =
            self.pending.iter().filter(|(_, pending)| pending.to == *to).map(|(request, _)| *request).collect();
        for request in lost {
            let Some(pending) = self.pending.remove(&request) else { continue };
            match pending.purpose {
                Purpose::FindCoordinator => self.find_later(),
                Purpose::Metadata => self.learn_later(),
                Purpose::TopicNames => self.names_later(),
                Purpose::Join | Purpose::Sync => self.round_failed_for_now(),
                Purpose::Heartbeat if self.config.is_consumer() => self.consumer_beat_failed(),
                Purpose::Heartbeat => self.beat_failed(),
                Purpose::Leave => {}
                Purpose::Commit | Purpose::Fetch => self.retry_commit(request, None),
            }
        }
    }

    /// Returns all topics that the member subscribes to by name.
    pub(crate) fn subscribed_topics(&self) -> Vec<Arc<str>> {
        match &self.subscription {
            Subscription::None | Subscription::CoordinatorPattern(_) => Vec::new(),
            Subscription::Topics(topics) => topics.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
            Subscription::Pattern(pattern) => {
                self.topics.known().filter(|topic| pattern.is_match(topic)).cloned().collect()
            }
            Subscription::Manual(partitions) => partitions
                .iter()
                .map(|partition| partition.topic.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        }
    }
}

/// `SplitMix64`: equal seeds give equal numbers on every machine.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
