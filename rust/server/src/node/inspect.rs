//! What can be read of a node without changing it.

use std::{collections::BTreeSet, sync::Arc};

use rota_core::{coordinator::Coordinator, explain::Explanation, request::ListGroups};

use super::Node;
use crate::{base::metrics::Tally, log::newer_groups::Listed};

impl Node {
    /// How many requests wait for their answer.
    pub fn waiting(&self) -> usize {
        self.effects.tickets.waiting()
    }

    /// Ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Arc<str>> {
        let mut group_ids: Vec<Arc<str>> =
            self.coordinators.iter().flatten().flat_map(Coordinator::group_ids).collect();
        group_ids.sort_unstable();
        group_ids
    }

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        let counts = self.coordinators.iter().flatten().map(Coordinator::state_counts);
        counts.map(|of_states| of_states.iter().sum::<u64>() as usize).sum()
    }

    /// How many durable offsets all groups have.
    pub fn offset_count(&self) -> usize {
        self.coordinators.iter().flatten().map(Coordinator::offset_count).sum()
    }

    /// Ids of all members of all groups.
    pub fn member_ids(&self) -> Vec<Arc<str>> {
        self.coordinators.iter().flatten().flat_map(Coordinator::member_ids).map(Arc::from).collect()
    }

    /// What a group is doing, and why; `None` if it is not here.
    pub fn explain(&self, group_id: &str) -> Option<Explanation> {
        self.coordinator(self.partition_of(group_id))?.explain(group_id, self.clock.now().mono_ms)
    }

    /// What it has counted since the start.
    pub fn metrics(&self) -> &Tally {
        &self.effects.metrics
    }

    /// The partitions that it owns and that are still being loaded, in order.
    pub fn loading(&self) -> impl Iterator<Item = u32> {
        self.loading.keys().copied()
    }

    /// Whether loading stands still.
    pub fn holds_loads(&self) -> bool {
        self.loads_held
    }

    /// The groups of the consumer protocol that it coordinates.
    pub fn consumer_group_ids(&self) -> BTreeSet<Arc<str>> {
        self.coordinators.iter().flatten().flat_map(Coordinator::consumer_group_ids).cloned().collect()
    }

    /// The groups of newer protocols in its partitions, each with whether `request` asks for such a one.
    pub fn newer_groups<'n>(&'n self, request: &'n ListGroups<'_>) -> impl Iterator<Item = Listed> + 'n {
        self.newer.values().flat_map(|newer| newer.listed(request))
    }
}
