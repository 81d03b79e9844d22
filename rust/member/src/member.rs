//! The member itself: who it is, what it holds, what it waits for; and how events come to those who deal with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    commits::Commits,
    config::{Config, ConfigError},
    discovery::{Coordinator, Topics},
    event::{Answer, Effect, Event, Failure, Node, Notice, Partition, Request, RequestId, Subscription, To},
    heartbeats::Heartbeats,
    leaving::Leaving,
    rounds::Round,
};

/// Where a member is in the life of a group (§22.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In no group.
    Unjoined,
    /// Its join is under way.
    PreparingRebalance,
    /// It has a generation, and waits for its assignment.
    CompletingRebalance,
    /// It has its assignment.
    Stable,
}

/// Who a member is to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// -1: none.
    pub generation: i32,
    /// Empty: none.
    pub member_id: String,
}

impl Identity {
    pub(crate) fn nobody() -> Identity {
        Identity { generation: -1, member_id: String::new() }
    }
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    FindCoordinator,
    Metadata,
    Join,
    Sync,
    Heartbeat,
    Leave,
    Commit,
    Fetch,
}

/// A request that has no answer yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub purpose: Purpose,
    pub to: To,
    pub deadline_ms: u64,
    /// Who the member was when it asked.
    pub asked_as: Identity,
}

/// A consumer's part in a group. See the [crate].
#[derive(Clone, Debug)]
pub struct Member {
    pub(crate) config: Config,
    pub(crate) now_ms: u64,
    pub(crate) out: Vec<Effect>,
    pub(crate) state: State,
    pub(crate) identity: Identity,
    /// The protocol that the coordinator chose.
    pub(crate) protocol: Option<String>,
    pub(crate) subscription: Subscription,
    pub(crate) user_data: BTreeMap<String, Vec<u8>>,
    pub(crate) owned: BTreeSet<Partition>,
    pub(crate) coordinator: Coordinator,
    pub(crate) topics: Topics,
    pub(crate) round: Round,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) commits: Commits,
    pub(crate) leaving: Leaving,
    /// Since when the application works; `None`: it waits for news.
    pub(crate) busy_since_ms: Option<u64>,
    /// A failure was raised; nothing is tried until the application asks again.
    pub(crate) raised: bool,
    pub(crate) pending: BTreeMap<RequestId, Pending>,
    next_request: u64,
    jitter: u64,
}

impl Member {
    /// A member that is in no group yet, and wants to read nothing.
    pub fn new(config: Config) -> Result<Member, ConfigError> {
        let config = config.validated()?;
        Ok(Member {
            now_ms: 0,
            out: Vec::new(),
            state: State::Unjoined,
            identity: Identity::nobody(),
            protocol: None,
            subscription: Subscription::None,
            user_data: BTreeMap::new(),
            owned: BTreeSet::new(),
            coordinator: Coordinator::default(),
            topics: Topics::default(),
            round: Round::default(),
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

    /// Something happened at `now_ms` (monotonic); what is to be done about it goes to `sink`, in order.
    pub fn handle(&mut self, now_ms: u64, event: Event, sink: &mut Vec<Effect>) {
        self.now_ms = self.now_ms.max(now_ms);
        if !self.leaving.is_closed() {
            self.take(event);
            self.drive();
        }
        sink.append(&mut self.out);
    }

    /// When the member wants [`Event::Advance`] if nothing else happens; it may be in the past. `None`: never.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.leaving.is_closed() {
            return None;
        }
        let pending = self.pending.values().map(|pending| pending.deadline_ms).min();
        [
            pending,
            self.next_discovery(),
            self.next_heartbeat(),
            self.next_round(),
            self.next_commit(),
            self.next_leaving(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// Its generation; -1: none.
    pub fn generation(&self) -> i32 {
        self.identity.generation
    }

    /// Its member id; empty: none.
    pub fn member_id(&self) -> &str {
        &self.identity.member_id
    }

    /// What it holds, whether or not the application has said [`Event::Done`] to all of it.
    pub fn owned(&self) -> impl Iterator<Item = &Partition> {
        self.owned.iter()
    }

    /// Where its coordinator is, as far as it knows.
    pub fn coordinator(&self) -> Option<&Node> {
        self.coordinator.node()
    }

    /// Whether it led the last round.
    pub fn is_leader(&self) -> bool {
        self.round.leads()
    }

    /// Whether it is out of the group, and done.
    pub fn is_closed(&self) -> bool {
        self.leaving.is_closed()
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
            Event::Close => self.close(),
            Event::Answered { request, answer } => self.answered(request, answer),
            Event::Disconnected(to) => self.disconnected(&to),
            Event::Advance => {}
        }
    }

    /// Does what is due. The order is that of a consumer's loop: whoever is later may use what the earlier found.
    fn drive(&mut self) {
        self.give_up_waiting();
        self.watch_the_application();
        self.discover();
        self.beat();
        self.go_round();
        self.send_commits();
        self.leave_step();
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

    /// Asks for an answer, by a deadline.
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

    /// The same, of the coordinator, if it is known.
    pub(crate) fn ask(&mut self, purpose: Purpose, body: Request, timeout_ms: u64) -> Option<RequestId> {
        let to = To::Coordinator(self.coordinator.node()?.clone());
        Some(self.send(purpose, to, body, timeout_ms))
    }

    /// Whether an answer of this kind is awaited.
    pub(crate) fn waits_for(&self, purpose: Purpose) -> bool {
        self.pending.values().any(|pending| pending.purpose == purpose)
    }

    /// Whether the member is still who it was when it asked.
    pub(crate) fn is_still(&self, asked_as: &Identity) -> bool {
        self.identity == *asked_as
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.out.push(Effect::Tell(notice));
    }

    /// Tells of a failure, and tries nothing until the application asks again.
    pub(crate) fn raise(&mut self, failure: Failure) {
        self.raised = true;
        self.tell(Notice::Failed(failure));
    }

    /// Milliseconds to wait before trying again, spread by a fifth to either side.
    pub(crate) fn spread(&mut self, backoff_ms: u64) -> u64 {
        // SplitMix64: equal seeds give equal waits on every machine.
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.jitter;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        backoff_ms * 4 / 5 + bits % (backoff_ms * 2 / 5 + 1)
    }

    fn answered(&mut self, request: RequestId, answer: Answer) {
        // Of a connection that was given up: too late.
        let Some(pending) = self.pending.remove(&request) else { return };
        match (pending.purpose, answer) {
            (Purpose::FindCoordinator, Answer::FindCoordinator(found)) => self.found(found),
            (Purpose::Metadata, Answer::Metadata(topics)) => self.learned(topics),
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
            // Whatever the group says to a goodbye, the member is gone.
            (Purpose::Leave, Answer::LeaveGroup(_)) => {}
            (Purpose::Commit, Answer::OffsetCommit(codes)) => self.committed(request, &pending.asked_as, &codes),
            (Purpose::Fetch, Answer::OffsetFetch { error, offsets }) => self.fetched(request, error, offsets),
            // An answer of another kind: nothing that comes over this connection can be believed.
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
                Purpose::Join | Purpose::Sync => self.round_failed_for_now(),
                Purpose::Heartbeat => self.beat_failed(),
                Purpose::Leave => {}
                Purpose::Commit | Purpose::Fetch => self.retry_commit(request, None),
            }
        }
    }

    /// All topics that the member asks for by name.
    pub(crate) fn subscribed_topics(&self) -> Vec<Arc<str>> {
        match &self.subscription {
            Subscription::None => Vec::new(),
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
