//! Names of the topics in assignments.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::IdPartition;
use crate::{
    event::{Partition, Request, RequestId, To},
    member::{Member, Purpose},
};

/// Names by topic id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    known: BTreeMap<u128, Arc<str>>,
    /// Earliest time of the next request.
    retry_at_ms: u64,
}

impl Names {
    /// Whether the topic of a partition has a known name.
    pub fn has(&self, (topic, _): &IdPartition) -> bool {
        self.known.contains_key(topic)
    }

    /// Returns partitions by name. Those of unknown topics are left out.
    pub fn named<'a>(&self, partitions: impl IntoIterator<Item = &'a IdPartition>) -> Vec<Partition> {
        let named =
            |(topic, index): &IdPartition| Some(Partition { topic: self.known.get(topic)?.clone(), index: *index });
        let mut found: Vec<Partition> = partitions.into_iter().filter_map(named).collect();
        found.sort();
        found
    }
}

impl Member {
    /// Returns the assigned topics without a known name.
    pub(super) fn unnamed(&self) -> BTreeSet<u128> {
        let target = self.consumer.target.iter().flatten();
        target.filter(|one| !self.consumer.names.has(one)).map(|(topic, _)| *topic).collect()
    }

    /// Returns when to look up names.
    pub(crate) fn next_names(&self) -> Option<u64> {
        let asks = !self.leaving.is_leaving() && !self.waits_for(Purpose::TopicNames) && !self.unnamed().is_empty();
        asks.then_some(self.consumer.names.retry_at_ms)
    }

    pub(crate) fn look_names_up(&mut self) {
        if self.next_names().is_some_and(|at| at <= self.now_ms) {
            let body = Request::TopicNames { ids: self.unnamed().into_iter().collect() };
            self.send(Purpose::TopicNames, To::Any, body, u64::from(self.config.request_timeout_ms));
        }
    }

    /// Whether a request asked for names of topics. Its answer is [`Answer::TopicNames`](crate::Answer::TopicNames).
    pub fn asked_for_names(&self, request: RequestId) -> bool {
        self.pending.get(&request).is_some_and(|pending| pending.purpose == Purpose::TopicNames)
    }

    pub(crate) fn names_learned(&mut self, names: BTreeMap<u128, Arc<str>>) {
        self.consumer.names.known.extend(names);
        let Self { consumer, .. } = self;
        let target = consumer.target.iter().flatten();
        let needed: BTreeSet<u128> = target.chain(&consumer.held).map(|(topic, _)| *topic).collect();
        consumer.names.known.retain(|topic, _| needed.contains(topic));
        // A topic without a name was deleted, or the broker has not heard of it yet.
        let wait_ms = if self.unnamed().is_empty() { 0 } else { self.config.retry_backoff_max_ms };
        self.consumer.names.retry_at_ms = self.now_ms + u64::from(wait_ms);
    }

    /// Looks up names later, since no broker answered.
    pub(crate) fn names_later(&mut self) {
        let wait_ms = self.spread(u64::from(self.config.retry_backoff_ms));
        self.consumer.names.retry_at_ms = self.now_ms + wait_ms;
    }
}
