//! Finds the coordinator (§22.6) and learns topics.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::ErrorCode;

use crate::{
    errors::{self, Verdict},
    event::{Failure, Node, Notice, Request, Subscription, To, TopicMetadata},
    member::{Member, Purpose},
};

/// The state of the coordinator's discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coordinator {
    node: Option<Node>,
    /// Earliest time of the next attempt.
    retry_at_ms: u64,
}

impl Coordinator {
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
}

/// Known topics of the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics {
    known: BTreeMap<Arc<str>, TopicMetadata>,
    /// Time of the last answer.
    since_ms: Option<u64>,
    /// Earliest time of the next request.
    retry_at_ms: u64,
    /// Counts changes of the wanted topics. An answer to an older request does not suffice.
    wish: u64,
    asked_for: u64,
    /// Topics that only the leader needs, in order: those of other members.
    of_the_group: Vec<Arc<str>>,
    /// Topics with an error that does not go away by itself.
    refused: Vec<(Arc<str>, ErrorCode)>,
    /// The topics that the leader planned with.
    planned_by: Option<BTreeMap<Arc<str>, TopicMetadata>>,
}

impl Topics {
    pub fn known(&self) -> impl Iterator<Item = &Arc<str>> {
        self.known.keys()
    }

    pub fn is_known(&self) -> bool {
        self.since_ms.is_some()
    }

    /// Requests the topics again, since the known ones may not suffice.
    pub fn forget(&mut self) {
        self.since_ms = None;
        self.refused.clear();
        self.wish += 1;
    }

    /// Requests the current state of these topics, which are in order, for the leader.
    pub fn watch(&mut self, topics: Vec<Arc<str>>) {
        self.of_the_group = topics;
        self.forget();
    }

    /// Records that the leader plans with the known topics, and returns them.
    pub fn plan(&mut self) -> BTreeMap<Arc<str>, TopicMetadata> {
        let wanted = |topic: &Arc<str>| self.of_the_group.binary_search(topic).is_ok();
        let planned: BTreeMap<_, _> = self
            .known
            .iter()
            .filter(|(topic, _)| wanted(topic))
            .map(|(topic, one)| (topic.clone(), one.clone()))
            .collect();
        self.planned_by = Some(planned.clone());
        planned
    }

    fn lacks_some(&self) -> bool {
        let is_refused = |topic: &Arc<str>| self.refused.iter().any(|(refused, _)| refused == topic);
        self.of_the_group.iter().any(|topic| !self.known.contains_key(topic) && !is_refused(topic))
    }

    /// Records that the member is no longer the leader.
    pub fn unwatch(&mut self) {
        self.of_the_group.clear();
        self.planned_by = None;
    }

    /// Whether the topics have changed since the leader planned.
    fn is_plan_old(&self) -> bool {
        self.planned_by
            .as_ref()
            .is_some_and(|planned| self.of_the_group.iter().any(|topic| self.known.get(topic) != planned.get(topic)))
    }
}

impl Member {
    fn needs_coordinator(&self) -> bool {
        self.coordinator.node.is_none()
            && (self.subscription.is_group() && !self.raised && !self.leaving.is_leaving()
                || self.commits.are_waiting())
    }

    /// Returns when to request topics. A pattern needs them before the join; a leader needs them before it plans, and
    /// must notice changes.
    fn topics_wanted_at(&self) -> Option<u64> {
        if self.config.is_consumer() {
            return None;
        }
        let by_pattern = matches!(self.subscription, Subscription::Pattern(_));
        if self.leaving.is_leaving() || !(by_pattern || self.round.leads()) {
            return None;
        }
        // A missing topic is requested sooner, since it may be about to be created.
        let age_ms =
            if self.topics.lacks_some() { self.config.retry_backoff_max_ms } else { self.config.metadata_max_age_ms };
        let old_at = |since| since + u64::from(age_ms);
        Some(self.topics.since_ms.map_or(self.topics.retry_at_ms, old_at).max(self.topics.retry_at_ms))
    }

    pub(crate) fn next_discovery(&self) -> Option<u64> {
        let find_at = (self.needs_coordinator() && !self.waits_for(Purpose::FindCoordinator))
            .then_some(self.coordinator.retry_at_ms);
        let learn_at = self.topics_wanted_at().filter(|_| !self.waits_for(Purpose::Metadata));
        let names_at = self.config.is_consumer().then(|| self.next_names()).flatten();
        [find_at, learn_at, names_at].into_iter().flatten().min()
    }

    pub(crate) fn discover(&mut self) {
        let timeout_ms = u64::from(self.config.request_timeout_ms);
        if self.needs_coordinator()
            && self.coordinator.retry_at_ms <= self.now_ms
            && !self.waits_for(Purpose::FindCoordinator)
        {
            let body = Request::FindCoordinator { group_id: self.config.group_id.clone() };
            self.send(Purpose::FindCoordinator, To::Any, body, timeout_ms);
        }
        if self.config.is_consumer() {
            return self.look_names_up();
        }
        if self.topics_wanted_at().is_some_and(|at| at <= self.now_ms) && !self.waits_for(Purpose::Metadata) {
            let topics = match self.subscription {
                Subscription::Pattern(_) => None,
                _ => Some(self.topics.of_the_group.clone()),
            };
            self.topics.asked_for = self.topics.wish;
            self.send(Purpose::Metadata, To::Any, Request::Metadata { topics }, timeout_ms);
        }
    }

    pub(crate) fn found(&mut self, found: Result<Node, ErrorCode>) {
        match found {
            Ok(node) => {
                self.coordinator.node = Some(node);
                // The session counts from finding the coordinator.
                self.heartbeats.session_starts(self.now_ms, &self.config);
                if self.config.is_consumer() {
                    self.heartbeats.schedule(self.now_ms);
                }
            }
            Err(error) if errors::find(error) == Verdict::Retry => self.find_later(),
            Err(error) => {
                self.find_later();
                let failure = Failure::Answer { api: "FindCoordinator", error };
                self.fail_commits(&failure);
                self.raise(failure);
            }
        }
    }

    pub(crate) fn find_later(&mut self) {
        let wait_ms = self.spread(u64::from(self.config.retry_backoff_ms));
        self.coordinator.retry_at_ms = self.now_ms + wait_ms;
    }

    /// Drops the coordinator, which has moved or is unreachable.
    pub(crate) fn forget_coordinator(&mut self) {
        if self.coordinator.node.take().is_some() {
            self.find_later();
        }
    }

    pub(crate) fn learn_later(&mut self) {
        let wait_ms = self.spread(u64::from(self.config.retry_backoff_ms));
        self.topics.retry_at_ms = self.now_ms + wait_ms;
    }

    pub(crate) fn learned(&mut self, topics: BTreeMap<Arc<str>, TopicMetadata>, refused: Vec<(Arc<str>, ErrorCode)>) {
        let before = self.subscribed_topics();
        self.topics.known = topics;
        self.topics.since_ms = (self.topics.asked_for == self.topics.wish).then_some(self.now_ms);
        let by_pattern = matches!(self.subscription, Subscription::Pattern(_));
        if by_pattern && self.subscribed_topics() != before {
            self.rejoin("topics that match the subscription came or went");
        } else if self.round.leads() && self.topics.is_plan_old() {
            self.rejoin("the partitions of a topic changed");
        }
        self.report_refused(refused);
    }

    /// Reports topics of the member that are refused, once. It stays in its group.
    fn report_refused(&mut self, refused: Vec<(Arc<str>, ErrorCode)>) {
        // Not the topics of other members that this one plans for.
        let is_own = |topic: &Arc<str>| matches!(&self.subscription, Subscription::Topics(own) if own.contains(topic));
        let is_new = |one: &&(Arc<str>, ErrorCode)| is_own(&one.0) && !self.topics.refused.contains(one);
        let found = refused.iter().find(is_new).map(|(_, error)| *error);
        if let Some(error) = found {
            let same = refused.iter().filter(|(topic, other)| *other == error && is_own(topic));
            let topics = same.map(|(topic, _)| Arc::clone(topic)).collect();
            self.tell(Notice::Failed(Failure::Topics { error, topics }));
        }
        self.topics.refused = refused;
    }
}
