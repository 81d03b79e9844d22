//! Finding the coordinator (§22.6), and knowing the topics.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::ErrorCode;

use crate::{
    errors::{self, Verdict},
    event::{Failure, Node, Request, Subscription, To, TopicMetadata},
    member::{Member, Purpose},
};

/// What the member knows of its coordinator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coordinator {
    node: Option<Node>,
    /// Not looked for before.
    retry_at_ms: u64,
}

impl Coordinator {
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
}

/// What the member knows of the cluster's topics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics {
    known: BTreeMap<Arc<str>, TopicMetadata>,
    /// When it was told.
    since_ms: Option<u64>,
    /// Not asked for before.
    retry_at_ms: u64,
    /// Counts what was wanted; an answer to an older wish does not do.
    wish: u64,
    asked_for: u64,
    /// What else the leader needs: the topics of the others.
    of_the_group: Vec<Arc<str>>,
    /// What the leader planned by.
    planned_by: Option<BTreeMap<Arc<str>, TopicMetadata>>,
}

impl Topics {
    pub fn known(&self) -> impl Iterator<Item = &Arc<str>> {
        self.known.keys()
    }

    pub fn is_known(&self) -> bool {
        self.since_ms.is_some()
    }

    /// What is known may not be enough: ask again.
    pub fn forget(&mut self) {
        self.since_ms = None;
        self.wish += 1;
    }

    /// The leader needs these, as they are now.
    pub fn watch(&mut self, topics: Vec<Arc<str>>) {
        self.of_the_group = topics;
        self.forget();
    }

    /// The leader plans by what is known.
    pub fn plan(&mut self) -> BTreeMap<Arc<str>, TopicMetadata> {
        let wanted = |topic: &Arc<str>| self.of_the_group.contains(topic);
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
        self.of_the_group.iter().any(|topic| !self.known.contains_key(topic))
    }

    /// The member leads no more.
    pub fn unwatch(&mut self) {
        self.of_the_group.clear();
        self.planned_by = None;
    }

    /// Whether what the leader planned by is not so any more.
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

    /// By pattern one must know the topics before one can join; a leader must before it can plan, and has to notice
    /// when they change.
    fn topics_wanted_at(&self) -> Option<u64> {
        let by_pattern = matches!(self.subscription, Subscription::Pattern(_));
        if self.leaving.is_leaving() || !(by_pattern || self.round.leads()) {
            return None;
        }
        // A topic that is not there yet is looked for sooner: it may just be coming into being.
        let age_ms =
            if self.topics.lacks_some() { self.config.retry_backoff_max_ms } else { self.config.metadata_max_age_ms };
        let old_at = |since| since + u64::from(age_ms);
        Some(self.topics.since_ms.map_or(self.topics.retry_at_ms, old_at).max(self.topics.retry_at_ms))
    }

    pub(crate) fn next_discovery(&self) -> Option<u64> {
        let find_at = (self.needs_coordinator() && !self.waits_for(Purpose::FindCoordinator))
            .then_some(self.coordinator.retry_at_ms);
        let learn_at = self.topics_wanted_at().filter(|_| !self.waits_for(Purpose::Metadata));
        [find_at, learn_at].into_iter().flatten().min()
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
                // A coordinator that was just found has not been silent.
                self.heartbeats.session_starts(self.now_ms, &self.config);
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

    /// It moved, or is not to be reached.
    pub(crate) fn forget_coordinator(&mut self) {
        if self.coordinator.node.take().is_some() {
            self.find_later();
        }
    }

    pub(crate) fn learn_later(&mut self) {
        let wait_ms = self.spread(u64::from(self.config.retry_backoff_ms));
        self.topics.retry_at_ms = self.now_ms + wait_ms;
    }

    pub(crate) fn learned(&mut self, topics: BTreeMap<Arc<str>, TopicMetadata>) {
        let before = self.subscribed_topics();
        self.topics.known = topics;
        self.topics.since_ms = (self.topics.asked_for == self.topics.wish).then_some(self.now_ms);
        let by_pattern = matches!(self.subscription, Subscription::Pattern(_));
        if by_pattern && self.subscribed_topics() != before {
            self.rejoin("topics that match the subscription came or went");
        } else if self.round.leads() && self.topics.is_plan_old() {
            self.rejoin("the partitions of a topic changed");
        }
    }
}
