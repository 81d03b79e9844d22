//! Read-only access to a node.

use std::{collections::BTreeSet, sync::Arc};

use rota_core::{coordinator::Coordinator, explain::Explanation, request::ListGroups};

use super::Node;
use crate::{base::metrics::Metrics, log::newer_groups::Listed};

impl Node {
    /// Returns the number of requests that wait for their answer.
    pub fn waiting(&self) -> usize {
        self.effects.tickets.waiting()
    }

    /// Returns the ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Arc<str>> {
        let mut group_ids: Vec<Arc<str>> =
            self.coordinators.iter().flatten().flat_map(Coordinator::group_ids).collect();
        group_ids.sort_unstable();
        group_ids
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        let coordinators = self.coordinators.iter().flatten();
        let count = |one: &Coordinator| one.state_counts().iter().chain(&one.consumer_state_counts()).sum::<u64>();
        coordinators.map(|one| count(one) as usize).sum()
    }

    /// Returns the number of durable offsets.
    pub fn offset_count(&self) -> usize {
        self.coordinators.iter().flatten().map(Coordinator::offset_count).sum()
    }

    /// Returns the ids of all members.
    pub fn member_ids(&self) -> Vec<Arc<str>> {
        self.coordinators.iter().flatten().flat_map(Coordinator::member_ids).map(Arc::from).collect()
    }

    /// Explains a group; `None` if it is not on this node.
    pub fn explain(&self, group_id: &str) -> Option<Explanation> {
        self.coordinator(self.partition_of(group_id))?.explain(group_id, self.clock.now().mono_ms)
    }

    /// Returns the counts since the start.
    pub fn metrics(&self) -> &Metrics {
        &self.effects.metrics
    }

    /// Iterates over the partitions of this node that are being loaded, ascending.
    pub fn loading(&self) -> impl Iterator<Item = u32> {
        self.loading.keys().copied()
    }

    /// Whether loading is held.
    pub fn holds_loads(&self) -> bool {
        self.loads_held
    }

    /// Returns the groups of the consumer protocol on this node.
    pub fn consumer_group_ids(&self) -> BTreeSet<Arc<str>> {
        self.coordinators.iter().flatten().flat_map(Coordinator::consumer_group_ids).cloned().collect()
    }

    /// Returns the groups in this node's partitions whose protocol the coordinators do not have, each with whether
    /// `request` selects it. A group that has members of another protocol since is the coordinator's.
    pub fn newer_groups<'n>(&'n self, request: &'n ListGroups<'_>) -> impl Iterator<Item = Listed> + 'n {
        self.newer.iter().flat_map(move |(partition, newer)| {
            newer.listed(request).filter(move |listed| !self.has_protocol(*partition, listed.group_id()))
        })
    }

    /// Whether the coordinator of a partition has a group with more than offsets.
    fn has_protocol(&self, partition: u32, group_id: &str) -> bool {
        let now_ms = self.clock().now().mono_ms;
        let summary = self.coordinator(partition).and_then(|coordinator| coordinator.summarize(group_id, now_ms, 0));
        summary.is_some_and(|summary| summary.protocol_type.is_some())
    }
}
