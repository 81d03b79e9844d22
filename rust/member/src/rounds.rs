//! One round: commit, join, plan as the leader, sync, take over (§22.1, §22.3).

use std::{collections::BTreeSet, sync::Arc};

use rota_core::{
    ErrorCode,
    embedded::{self, TopicPartitions},
};

use crate::{
    errors::{self, Verdict},
    event::{Failure, Joined, Notice, Partition, Request, Subscription},
    member::{Identity, Member, Purpose, State},
};

/// Time for the network in a join, beyond the time that the coordinator may hold it, in milliseconds.
const JOIN_SLACK_MS: u64 = 5_000;
/// Maximum characters of a reason (§4.1).
const REASON_CHARS: usize = 255;

/// Progress of a round.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
enum Step {
    /// No round.
    #[default]
    Idle,
    /// Consumed positions are committed before partitions are revoked.
    Committing { until_ms: u64 },
    /// The application revokes partitions.
    GivingUp,
    /// A join is in flight.
    Joining,
    /// The leader requests the current topics.
    Learning { members: Vec<Joined>, skip_assignment: bool },
    /// The application plans.
    Planning,
    /// A sync is in flight.
    Syncing,
    /// The application revokes partitions that the new assignment does not have.
    LettingGo { assigned: BTreeSet<Partition>, user_data: Option<Vec<u8>> },
    /// The application takes over new partitions.
    TakingOver,
}

/// The state of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    step: Step,
    is_needed: bool,
    reason: String,
    is_prepared: bool,
    retry_at_ms: u64,
    leads: bool,
    /// The topics of the last join.
    offered: Vec<Arc<str>>,
}

impl Default for Round {
    fn default() -> Round {
        Round {
            step: Step::Idle,
            is_needed: true,
            reason: "the consumer subscribed".to_owned(),
            is_prepared: false,
            retry_at_ms: 0,
            leads: false,
            offered: Vec::new(),
        }
    }
}

impl Round {
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Whether the application has an unhandled notice.
    pub fn waits_for_the_application(&self) -> bool {
        matches!(self.step, Step::GivingUp | Step::LettingGo { .. } | Step::TakingOver)
    }
}

/// The answer to a join, with whether this member leads.
pub(crate) struct JoinAnswer {
    pub error: ErrorCode,
    pub generation: i32,
    pub protocol_name: String,
    pub leads: bool,
    pub member_id: String,
    pub skip_assignment: bool,
    pub members: Vec<Joined>,
}

impl Member {
    /// Requests another round. The first reason stays.
    pub(crate) fn rejoin(&mut self, reason: &str) {
        if !self.round.is_needed {
            self.round.is_needed = true;
            self.round.reason = reason.chars().take(REASON_CHARS).collect();
        }
    }

    /// Resets the identity, so that the member joins as a new one.
    pub(crate) fn reset(&mut self, reason: &str) {
        self.identity = Identity::nobody();
        self.out_of_the_group(reason);
    }

    /// Resets the generation but keeps the member id.
    pub(crate) fn reset_generation(&mut self, reason: &str) {
        self.identity.generation = -1;
        self.out_of_the_group(reason);
    }

    fn out_of_the_group(&mut self, reason: &str) {
        self.protocol = None;
        self.state = State::Unjoined;
        self.round.is_prepared = false;
        self.rejoin(reason);
    }

    fn may_begin(&self) -> bool {
        let by_unknown_pattern = matches!(self.subscription, Subscription::Pattern(_)) && !self.topics.is_known();
        self.round.is_needed
            && self.subscription.is_group()
            && self.coordinator().is_some()
            && self.busy_since_ms.is_none()
            && !(self.raised || self.leaving.is_leaving() || by_unknown_pattern)
    }

    pub(crate) fn next_round(&self) -> Option<u64> {
        match self.round.step {
            Step::Idle if self.may_begin() => Some(self.round.retry_at_ms),
            Step::Committing { until_ms } => Some(until_ms),
            _ => None,
        }
    }

    /// Continues the round until it must wait.
    pub(crate) fn go_round(&mut self) {
        loop {
            match &self.round.step {
                Step::Idle if !self.may_begin() || self.round.retry_at_ms > self.now_ms => return,
                Step::Idle if self.round.is_prepared => return self.join(),
                Step::Idle => {
                    self.commit_before_rejoin();
                    let until_ms = self.now_ms + u64::from(self.config.max_poll_interval_ms);
                    self.round.step = Step::Committing { until_ms };
                    self.send_commits();
                }
                Step::Committing { until_ms } if self.commits.is_preparing() && *until_ms > self.now_ms => return,
                Step::Committing { .. } => self.give_up(),
                // The generation was lost while the leader planned.
                Step::Learning { .. } | Step::Planning if self.state != State::CompletingRebalance => {
                    self.round_failed_for_now();
                }
                Step::Learning { .. } if self.topics.is_known() => self.plan_or_skip(),
                _ => return,
            }
        }
    }

    /// Revokes before the join, once per round, what does not survive it.
    fn give_up(&mut self) {
        self.round.is_prepared = true;
        self.round.leads = false;
        self.topics.unwatch();
        let is_out = self.identity.generation == -1 || self.identity.member_id.is_empty();
        let cooperative = self.config.is_cooperative();
        let leaves = |partition: &Partition| is_out || !cooperative || !self.subscription.wants(&partition.topic);
        let partitions: Vec<Partition> = self.owned.iter().filter(|one| leaves(one)).cloned().collect();
        let tells = !partitions.is_empty() || !(is_out || cooperative);
        self.let_go(&partitions);
        self.round.step = if tells { Step::GivingUp } else { Step::Idle };
        if tells {
            self.tell(if is_out { Notice::Lose { partitions } } else { Notice::Revoke { partitions } });
        }
    }

    /// The application has handled its notice.
    pub(crate) fn done(&mut self) {
        if self.config.is_consumer() {
            return self.reconciled();
        }
        match std::mem::take(&mut self.round.step) {
            Step::LettingGo { assigned, user_data } if self.state == State::Stable => {
                self.take_over(assigned, user_data);
            }
            // A member that let go may have left meanwhile. The next round tells that what it kept is lost.
            Step::GivingUp | Step::LettingGo { .. } | Step::TakingOver => {}
            other => {
                self.round.step = other;
                self.given_up();
            }
        }
    }

    fn join(&mut self) {
        let protocols = match self.protocols() {
            Ok(protocols) => protocols,
            Err(failure) => return self.raise(failure),
        };
        self.state = State::PreparingRebalance;
        let body = Request::JoinGroup {
            group_id: self.config.group_id.clone(),
            member_id: self.identity.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
            session_timeout_ms: self.config.session_timeout_ms as i32,
            rebalance_timeout_ms: self.config.max_poll_interval_ms as i32,
            protocols,
            reason: self.round.reason.clone(),
        };
        let held_ms = u64::from(self.config.max_poll_interval_ms) + JOIN_SLACK_MS;
        let timeout_ms = held_ms.max(u64::from(self.config.request_timeout_ms));
        if self.ask(Purpose::Join, body, timeout_ms).is_some() {
            self.round.step = Step::Joining;
            self.round.offered = self.subscribed_topics();
        }
    }

    /// Returns the offered protocols: each strategy with its subscription and owned partitions (§18).
    fn protocols(&self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let topics: Vec<String> = self.subscribed_topics().iter().map(|topic| (**topic).to_owned()).collect();
        let owned = by_topic(self.owned.iter());
        let offer = |name: &str| {
            let subscription = embedded::Subscription {
                version: embedded::NEWEST_VERSION,
                topics: topics.clone(),
                user_data: self.user_data.get(name).cloned(),
                owned_partitions: owned.clone(),
                generation: self.identity.generation,
                rack: self.config.rack.clone(),
            };
            let bytes = embedded::encode_subscription(&subscription);
            let failed = |error: embedded::EmbeddedError| Failure::Subscription {
                member_id: self.identity.member_id.clone(),
                error: error.to_string(),
            };
            bytes.map(|bytes| (name.to_owned(), bytes)).map_err(failed)
        };
        self.config.strategies.iter().map(|strategy| offer(strategy.name())).collect()
    }

    /// Ends a round that failed. Another one follows.
    pub(crate) fn round_failed_for_now(&mut self) {
        self.round.step = Step::Idle;
        self.rejoin("the last round failed");
        let wait_ms = self.spread(u64::from(self.config.retry_backoff_ms));
        self.round.retry_at_ms = self.now_ms + wait_ms;
    }

    fn round_again_at_once(&mut self) {
        self.round.step = Step::Idle;
        self.round.retry_at_ms = self.now_ms;
        self.rejoin("the last round failed");
    }

    fn round_failed(&mut self, failure: Failure) {
        self.round_failed_for_now();
        self.state = State::Unjoined;
        self.raise(failure);
    }

    /// Handles an error of a join or sync.
    fn round_refused(&mut self, verdict: Verdict, asked_as: &Identity, api: &'static str, error: ErrorCode) {
        match verdict {
            Verdict::Good | Verdict::Rejoin | Verdict::AdoptId => self.round_again_at_once(),
            Verdict::Retry => self.round_failed_for_now(),
            Verdict::FindAgain => {
                self.forget_coordinator();
                self.round_failed_for_now();
            }
            Verdict::ResetFull | Verdict::ResetSoft => {
                if self.is_still(asked_as) {
                    match verdict {
                        Verdict::ResetSoft => self.reset_generation("the generation is not the group's"),
                        _ => self.reset("the coordinator does not know the member"),
                    }
                }
                self.round_again_at_once();
            }
            Verdict::Fenced | Verdict::Stale | Verdict::Left | Verdict::Topics | Verdict::Fatal => {
                self.round_failed(Failure::Answer { api, error });
            }
        }
    }

    pub(crate) fn joined(&mut self, asked_as: &Identity, answer: JoinAnswer) {
        if self.round.step != Step::Joining {
            return;
        }
        if self.state != State::PreparingRebalance {
            // The member left, or lost its identity, during the join.
            return self.round_again_at_once();
        }
        match errors::join(answer.error) {
            Verdict::Good => self.enter(answer),
            verdict => {
                if verdict == Verdict::AdoptId {
                    self.identity = Identity { generation: -1, member_id: answer.member_id };
                }
                self.round_refused(verdict, asked_as, "JoinGroup", answer.error);
            }
        }
    }

    fn enter(&mut self, answer: JoinAnswer) {
        self.identity = Identity { generation: answer.generation, member_id: answer.member_id };
        if !self.config.strategies.iter().any(|strategy| strategy.name() == answer.protocol_name) {
            return self.round_failed(Failure::UnknownProtocol { protocol: answer.protocol_name });
        }
        self.protocol = Some(answer.protocol_name);
        self.state = State::CompletingRebalance;
        self.heartbeats.begin(self.now_ms, &self.config);
        self.round.leads = answer.leads;
        if !answer.leads {
            return self.sync(Vec::new());
        }
        match crate::plan::topics_of(&answer.members) {
            Ok(topics) => {
                self.topics.watch(topics);
                let JoinAnswer { members, skip_assignment, .. } = answer;
                self.round.step = Step::Learning { members, skip_assignment };
            }
            Err(failure) => self.round_failed(failure),
        }
    }

    /// Plans when the leader knows the topics. A leader that skips the plan only records the topics that it would have
    /// used.
    fn plan_or_skip(&mut self) {
        let Step::Learning { members, skip_assignment } = std::mem::take(&mut self.round.step) else { return };
        let topics = self.topics.plan();
        if skip_assignment {
            return self.sync(Vec::new());
        }
        let protocol = self.protocol.clone().unwrap_or_default();
        match crate::plan::plan(&self.config, &protocol, &members, &topics) {
            None => {
                self.round.step = Step::Planning;
                let generation = self.identity.generation;
                self.tell(Notice::Plan { strategy: protocol, generation, members, topics });
            }
            Some(Ok(assignments)) => self.sync(assignments),
            Some(Err(error)) => self.round_failed(Failure::Plan { strategy: protocol, error }),
        }
    }

    pub(crate) fn planned(&mut self, generation: i32, plan: Result<Vec<(String, Vec<u8>)>, String>) {
        if self.round.step != Step::Planning || generation != self.identity.generation {
            // The round is over.
            return;
        }
        match plan {
            Ok(assignments) => self.sync(assignments),
            Err(error) => {
                let strategy = self.protocol.clone().unwrap_or_default();
                self.round_failed(Failure::Plan { strategy, error });
            }
        }
    }

    fn sync(&mut self, assignments: Vec<(String, Vec<u8>)>) {
        let body = Request::SyncGroup {
            group_id: self.config.group_id.clone(),
            generation: self.identity.generation,
            member_id: self.identity.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
            protocol_name: self.protocol.clone().unwrap_or_default(),
            assignments,
        };
        match self.ask(Purpose::Sync, body, u64::from(self.config.request_timeout_ms)) {
            Some(_) => self.round.step = Step::Syncing,
            // The generation was lost while the leader planned.
            None => self.round_failed_for_now(),
        }
    }

    pub(crate) fn synced(
        &mut self,
        asked_as: &Identity,
        error: ErrorCode,
        protocol_name: Option<String>,
        assignment: &[u8],
    ) {
        if self.round.step != Step::Syncing {
            return;
        }
        if self.state != State::CompletingRebalance || !self.is_still(asked_as) {
            // Like `ILLEGAL_GENERATION`, which a heartbeat reported first.
            return self.round_again_at_once();
        }
        match errors::sync(error) {
            Verdict::Good => {}
            verdict => return self.round_refused(verdict, asked_as, "SyncGroup", error),
        }
        if let (Some(joined), Some(synced)) = (&self.protocol, protocol_name)
            && *joined != synced
        {
            let joined = joined.clone();
            return self.round_failed(Failure::InconsistentProtocol { joined, synced });
        }
        match read(assignment) {
            Ok((assigned, user_data)) => {
                self.state = State::Stable;
                self.round.is_needed = false;
                self.round.is_prepared = false;
                // The leader planned with the subscription of the join.
                if self.round.offered != self.subscribed_topics() {
                    self.rejoin("the subscription has changed since the join");
                }
                self.commits.interval_starts(self.now_ms, &self.config);
                self.receive(assigned, user_data);
            }
            Err(error) => self.round_failed(Failure::Assignment { error }),
        }
    }

    fn receive(&mut self, assigned: BTreeSet<Partition>, user_data: Option<Vec<u8>>) {
        self.round.step = Step::Idle;
        if assigned.iter().any(|partition| !self.subscription.wants(&partition.topic)) {
            // The subscription changed after the join, so the assignment is outdated.
            return self.rejoin("the assignment has a topic that is not subscribed to any more");
        }
        let partitions: Vec<Partition> = self.owned.difference(&assigned).cloned().collect();
        if partitions.is_empty() {
            return self.take_over(assigned, user_data);
        }
        self.let_go(&partitions);
        self.rejoin("partitions were revoked, and others wait for them");
        self.round.step = Step::LettingGo { assigned, user_data };
        self.tell(Notice::Revoke { partitions });
    }

    fn take_over(&mut self, assigned: BTreeSet<Partition>, user_data: Option<Vec<u8>>) {
        let added = assigned.difference(&self.owned).cloned().collect();
        let all = assigned.iter().cloned().collect();
        self.owned = assigned;
        self.round.step = Step::TakingOver;
        self.tell(Notice::Assign { generation: self.identity.generation, added, all, user_data });
    }

    /// Drops partitions with their positions.
    pub(crate) fn let_go(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.owned.remove(partition);
            self.commits.forget(partition);
        }
    }
}

/// Groups partitions by topic, as messages have them.
pub(crate) fn by_topic<'a>(partitions: impl Iterator<Item = &'a Partition>) -> Vec<TopicPartitions> {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for partition in partitions {
        match topics.last_mut().filter(|last| *last.topic == *partition.topic) {
            Some(last) => last.partitions.push(partition.index),
            None => {
                topics
                    .push(TopicPartitions { topic: (*partition.topic).to_owned(), partitions: vec![partition.index] });
            }
        }
    }
    topics
}

/// Decodes partitions and user data. An empty assignment has no partitions: the leader assigned none to this member.
fn read(assignment: &[u8]) -> Result<(BTreeSet<Partition>, Option<Vec<u8>>), String> {
    if assignment.is_empty() {
        return Ok((BTreeSet::new(), None));
    }
    let assignment = embedded::decode_assignment(assignment).map_err(|error| error.to_string())?;
    let mut partitions = BTreeSet::new();
    for one in assignment.partitions {
        let topic: Arc<str> = one.topic.into();
        partitions.extend(one.partitions.into_iter().map(|index| Partition::new(topic.clone(), index)));
    }
    Ok((partitions, assignment.user_data))
}
