//! Read-only views of groups for operators. Every call is a short order to a node's thread.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rota_core::{
    consumer_group::group::GroupState,
    consumer_view::ConsumerView,
    coordinator::Coordinator,
    explain::Explanation,
    projection::Projection,
    states::State,
    summary::{Client, Slack, Summary},
};
use rota_txn::{Transaction, coordinator::Filter};

use super::Server;
use crate::{
    base::{error::ServerError, metrics::Metrics},
    node::Node,
};

/// The state of one group at one moment.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// What the group is doing, and why.
    pub explanation: Explanation,
    /// Its members and offsets.
    pub details: GroupDetails,
}

/// The members and offsets of a group, by its protocol.
#[derive(Clone, Debug)]
pub enum GroupDetails {
    /// A classic group, and the clients of its members in joining order.
    Classic(Projection, Vec<Client>),
    /// A consumer group.
    Consumer(ConsumerView),
}

impl GroupView {
    fn of(coordinator: &Coordinator, group_id: &str, now_ms: u64) -> Option<GroupView> {
        let explanation = coordinator.explain(group_id, now_ms)?;
        let details = match coordinator.view_consumer_group(group_id) {
            Some(view) => GroupDetails::Consumer(view),
            None => GroupDetails::Classic(coordinator.project(group_id)?, coordinator.clients(group_id)?),
        };
        Some(GroupView { explanation, details })
    }
}

/// An open transaction that holds offsets of a group back.
#[derive(Clone, Debug)]
pub struct HeldBy {
    /// Its producer id.
    pub producer_id: i64,
    /// Its transactional id and state; `None` if no coordinator knows the producer.
    pub transaction: Option<(String, Transaction)>,
    /// Its transactional id and the node that coordinates it, if that is another server and this one knows it.
    pub elsewhere: Option<(String, i32)>,
    /// The partitions whose offsets it holds back, sorted.
    pub partitions: Vec<(String, i32)>,
}

impl HeldBy {
    /// The transactions of these producers, by producer id.
    fn of(node: &Node, pending: BTreeMap<i64, Vec<(String, i32)>>, now_ms: i64) -> Vec<HeldBy> {
        if pending.is_empty() {
            return Vec::new();
        }
        let filter = Filter { producer_ids: pending.keys().copied().collect(), ..Filter::default() };
        let (mut known, transactions) = (BTreeMap::new(), node.all_transactions());
        for partition in 0..transactions.owners().partitions() {
            // A partition that is being loaded knows nothing yet.
            let _not_yet = transactions.list(partition, &filter, now_ms, |id, transaction| {
                known.insert(transaction.producer.id, (id.to_owned(), transaction.clone()));
            });
        }
        let held = |(producer_id, partitions)| {
            let transaction = known.remove(&producer_id);
            let elsewhere = if transaction.is_none() { node.named_elsewhere(producer_id) } else { None };
            HeldBy { producer_id, transaction, elsewhere, partitions }
        };
        pending.into_iter().map(held).collect()
    }
}

/// Totals of all groups; each partition is read at one moment.
#[derive(Clone, Debug, Default)]
pub struct GroupTotals {
    /// Number of classic groups by state, in the order of `State::ALL`.
    pub states: [u64; State::ALL.len()],
    /// Number of consumer groups by state, in the order of `GroupState::ALL`.
    pub consumer_states: [u64; GroupState::ALL.len()],
    /// Time left of running sessions.
    pub slack: Slack,
    /// Number of members.
    pub members: u64,
    /// (group, topic, lag in messages), by group and topic.
    pub lags: Vec<(String, String, i64)>,
}

impl Server {
    /// Returns the ids of all groups, sorted.
    pub fn groups(&self) -> Result<Vec<String>, ServerError> {
        let of_node = |node: &mut Node| node.group_ids().iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut groups = self.ask_all(of_node)?.concat();
        groups.sort_unstable();
        Ok(groups)
    }

    /// Explains a group. Also returns the time of the answer in monotonic milliseconds.
    pub fn explain(&self, group_id: &str) -> Result<(Explanation, u64), ServerError> {
        let asked = group_id.to_owned();
        let partition = self.partition_of(group_id);
        let found = self.ask_owner(partition, move |node| (node.explain(&asked), node.clock().now().mono_ms))?;
        let (explanation, now_ms) = found;
        Ok((explanation.ok_or_else(|| self.unknown_group(group_id.to_owned()))?, now_ms))
    }

    /// Returns the ids of all members of all groups.
    pub fn member_ids(&self) -> Result<Vec<Arc<str>>, ServerError> {
        Ok(self.ask_all(|node| node.member_ids())?.concat())
    }

    /// Returns the number of requests whose handler panicked. Each is a bug and has closed the client's connection.
    pub fn panics(&self) -> u64 {
        self.shared.panics()
    }

    /// Returns how often clients have authenticated again on their connection.
    pub fn reauthentications(&self) -> u64 {
        self.shared.reauthentications()
    }

    /// Returns the number of open connections, and of requests that wait for their answer.
    pub fn load(&self) -> Result<(usize, usize), ServerError> {
        let loads =
            self.run_on_all_loops(|event_loop| (event_loop.connection_count(), event_loop.node.borrow().waiting()))?;
        Ok(loads.iter().fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1)))
    }

    /// Returns the totals of all groups. Reads one partition at a time, so that requests are handled in between.
    pub fn group_totals(&self) -> Result<GroupTotals, ServerError> {
        let (mut totals, mut offsets) = (GroupTotals::default(), Vec::new());
        for partition in 0..self.shared.owners().partitions() {
            let counted = self.ask_owner(partition, move |node| {
                let coordinator = node.coordinator(partition)?;
                let of = |(group, topic, index, offset): (&Arc<str>, &Arc<str>, i32, i64)| {
                    (group.to_string(), topic.to_string(), index, offset)
                };
                let committed: Vec<_> = coordinator.offsets().map(of).collect();
                let slack = coordinator.slack_of_all(node.clock().now().mono_ms);
                let states = (coordinator.state_counts(), coordinator.consumer_state_counts());
                Some((states, slack, coordinator.member_count() as u64, committed))
            })?;
            let Some(((states, consumer_states), slack, members, committed)) = counted else { continue };
            totals.consumer_states.iter_mut().zip(consumer_states).for_each(|(sum, count)| *sum += count);
            totals.states.iter_mut().zip(states).for_each(|(sum, count)| *sum += count);
            totals.slack.iter_mut().zip(slack).for_each(|(sum, count)| *sum += count);
            totals.members += members;
            offsets.extend(committed);
        }
        let places = offsets.iter().map(|(_, topic, index, _)| (topic.clone(), *index)).collect();
        let mut lags: BTreeMap<(String, String), i64> = BTreeMap::new();
        for ((group, topic, _, offset), end) in offsets.into_iter().zip(self.log_ends(places)?) {
            if let Some(end) = end {
                *lags.entry((group, topic)).or_default() += (end - offset).max(0);
            }
        }
        totals.lags = lags.into_iter().map(|((group, topic), lag)| (group, topic, lag)).collect();
        Ok(totals)
    }

    /// Returns the sum of all nodes' counts since the start.
    pub fn metrics(&self) -> Result<Metrics, ServerError> {
        let mut all = Metrics::default();
        for metrics in self.ask_all(|node| node.metrics().clone())? {
            all.add(&metrics);
        }
        all.fsyncs = self.health().unwrap_or_default().syncs;
        Ok(all)
    }

    /// Returns the state of a group, `None` if it does not exist, and the time in monotonic milliseconds.
    pub fn inspect_group(&self, group_id: &str) -> Result<(Option<GroupView>, u64), ServerError> {
        let group_id = group_id.to_owned();
        let partition = self.partition_of(&group_id);
        self.ask_owner(partition, move |node| {
            let now_ms = node.clock().now().mono_ms;
            let view =
                node.coordinator(partition).and_then(|coordinator| GroupView::of(coordinator, &group_id, now_ms));
            (view, now_ms)
        })
    }

    /// Returns the open transactions that hold offsets of a group back, by producer id, and the wall time in milliseconds.
    pub fn held_by(&self, group_id: &str) -> Result<(Vec<HeldBy>, i64), ServerError> {
        let group_id = group_id.to_owned();
        let partition = self.partition_of(&group_id);
        self.ask_owner(partition, move |node| {
            let now_ms = node.clock().now().wall_ms;
            let mut pending: BTreeMap<i64, Vec<(String, i32)>> = BTreeMap::new();
            for ((topic, index), producer_id) in
                node.coordinator(partition).into_iter().flat_map(|coordinator| coordinator.pending_of(&group_id))
            {
                pending.entry(producer_id).or_default().push((topic.to_string(), *index));
            }
            (HeldBy::of(node, pending, now_ms), now_ms)
        })
    }

    /// Returns the members of a group whose client is disconnected or paused, so that only a timeout ends a wait for
    /// them. Empty on the real clock, and if the group does not exist.
    pub fn silent_members(&self, group_id: &str) -> Result<Vec<String>, ServerError> {
        if !self.shared.clock().is_virtual() {
            return Ok(Vec::new());
        }
        let group_id = group_id.to_owned();
        let partition = self.partition_of(&group_id);
        self.ask_owner(partition, move |node| {
            let names = node.coordinator(partition).and_then(|coordinator| coordinator.member_identities(&group_id));
            let members = names.unwrap_or_default().into_iter().map(|(member_id, _)| member_id);
            let silent = members.filter(|member_id| !node.is_responsive(&group_id, member_id));
            silent.map(|member_id| member_id.to_string()).collect()
        })
    }

    /// Waits until groups have changed since this returned `seen`, at most `timeout`. Returns the value for the next
    /// call; a view after this returns includes every counted change. The first call passes a `timeout` of 0.
    pub fn wait_for_change(&self, seen: u64, timeout: Duration) -> Result<u64, ServerError> {
        let count = self.shared.wait_for_change(seen, timeout);
        self.check_running()?;
        Ok(count)
    }

    /// Returns summaries of these groups, by id, with at most `waits_max` waits each, and the time of the last one in
    /// monotonic milliseconds. Missing groups are left out. Reads one partition at a time, so that requests are handled
    /// in between.
    pub fn summaries(&self, group_ids: Vec<String>, waits_max: usize) -> Result<(Vec<Summary>, u64), ServerError> {
        let mut by_partition: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for group_id in group_ids {
            by_partition.entry(self.partition_of(&group_id)).or_default().push(group_id);
        }
        let (mut summaries, mut now_ms) = (Vec::new(), self.now_ms()?);
        for (partition, asked) in by_partition {
            let (found, at_ms) = self.ask_owner(partition, move |node| {
                let at_ms = node.clock().now().mono_ms;
                let found = node.coordinator(partition).map_or_else(Vec::new, |coordinator| {
                    let summary = |group_id: &String| coordinator.summarize(group_id, at_ms, waits_max);
                    asked.iter().filter_map(summary).collect()
                });
                (found, at_ms)
            })?;
            summaries.extend(found);
            now_ms = now_ms.max(at_ms);
        }
        summaries.sort_unstable_by(|one: &Summary, other| one.group_id.cmp(&other.group_id));
        Ok((summaries, now_ms))
    }

    /// Returns the next offset of partitions of topics; `None` for a partition that is missing or cannot be read.
    pub fn log_ends(&self, partitions: Vec<(String, i32)>) -> Result<Vec<Option<i64>>, ServerError> {
        let count = partitions.len();
        let asked = Arc::new(partitions);
        let of_nodes = self.ask_all(move |node| {
            asked.iter().map(|(topic, index)| node.topics().log_end(topic, *index)).collect::<Vec<_>>()
        })?;
        // A partition has one leader.
        Ok((0..count).map(|at| of_nodes.iter().find_map(|ends| ends[at])).collect())
    }

    /// Returns the partitions of `__consumer_offsets` that are being loaded.
    pub fn loading(&self) -> Result<Vec<u32>, ServerError> {
        let of_nodes = self.ask_all(|node| node.loading().collect::<Vec<u32>>())?;
        let mut loading = of_nodes.concat();
        loading.sort_unstable();
        Ok(loading)
    }
}
