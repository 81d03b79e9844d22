//! What operators look at: groups as they are, without changing any. Every look is an order to the nodes' threads, small
//! enough that requests do not wait for it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rota_core::{
    coordinator::Coordinator,
    explain::Explanation,
    projection::Projection,
    states::State,
    summary::{Client, Slack, Summary},
};

use super::Server;
use crate::{
    base::{error::ServerError, metrics::Tally},
    node::Node,
};

/// Everything about one group, as of one moment.
#[derive(Clone, Debug)]
pub struct GroupSight {
    /// What it is doing, and why.
    pub explanation: Explanation,
    /// Its state.
    pub projection: Projection,
    /// Who joined its members, in joining order.
    pub clients: Vec<Client>,
}

impl GroupSight {
    fn of(coordinator: &Coordinator, group_id: &str, now_ms: u64) -> Option<GroupSight> {
        Some(GroupSight {
            explanation: coordinator.explain(group_id, now_ms)?,
            projection: coordinator.project(group_id)?,
            clients: coordinator.clients(group_id)?,
        })
    }
}

/// All groups together, as of one moment of each partition.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// How many groups are in each state, in the order of `State::ALL`.
    pub states: [u64; State::ALL.len()],
    /// How far members are from the end of their sessions.
    pub slack: Slack,
    /// How many members there are.
    pub members: u64,
    /// (group, topic, messages between the committed offsets and the ends of the logs), by group and topic.
    pub lags: Vec<(String, String, i64)>,
}

impl Server {
    /// Ids of all groups, sorted.
    pub fn groups(&self) -> Result<Vec<String>, ServerError> {
        let of_node = |node: &mut Node| node.group_ids().iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut groups = self.ask_all(of_node)?.concat();
        groups.sort_unstable();
        Ok(groups)
    }

    /// What a group is doing and why, and the monotonic millisecond of the answer.
    pub fn explain(&self, group_id: &str) -> Result<(Explanation, u64), ServerError> {
        let asked = group_id.to_owned();
        let partition = self.partition_of(group_id);
        let found = self.ask_owner(partition, move |node| (node.explain(&asked), node.clock().now().mono_ms))?;
        let (explanation, now_ms) = found;
        Ok((explanation.ok_or_else(|| self.unknown_group(group_id.to_owned()))?, now_ms))
    }

    /// Ids of all members of all groups.
    pub fn member_ids(&self) -> Result<Vec<Arc<str>>, ServerError> {
        Ok(self.ask_all(|node| node.member_ids())?.concat())
    }

    /// How many requests have made their handler panic. Each is a bug, and has cost its client the connection.
    pub fn panics(&self) -> u64 {
        self.shared.panics()
    }

    /// How many connections are open, and how many requests wait for their answer.
    pub fn load(&self) -> Result<(usize, usize), ServerError> {
        let loads = self.look_all(|event_loop| (event_loop.connection_count(), event_loop.node.borrow().waiting()))?;
        Ok(loads.iter().fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1)))
    }

    /// All groups together. Partitions are asked one after the other, so that requests are handled in between.
    pub fn census(&self) -> Result<Census, ServerError> {
        let (mut census, mut offsets) = (Census::default(), Vec::new());
        for partition in 0..self.shared.owners().partitions() {
            let counted = self.ask_owner(partition, move |node| {
                let coordinator = node.coordinator(partition)?;
                let of = |(group, topic, index, offset): (&Arc<str>, &Arc<str>, i32, i64)| {
                    (group.to_string(), topic.to_string(), index, offset)
                };
                let committed: Vec<_> = coordinator.offsets().map(of).collect();
                let slack = coordinator.slack_of_all(node.clock().now().mono_ms);
                Some((coordinator.state_counts(), slack, coordinator.member_count() as u64, committed))
            })?;
            let Some((states, slack, members, committed)) = counted else { continue };
            census.states.iter_mut().zip(states).for_each(|(sum, count)| *sum += count);
            census.slack.iter_mut().zip(slack).for_each(|(sum, count)| *sum += count);
            census.members += members;
            offsets.extend(committed);
        }
        let places = offsets.iter().map(|(_, topic, index, _)| (topic.clone(), *index)).collect();
        let mut lags: BTreeMap<(String, String), i64> = BTreeMap::new();
        for ((group, topic, _, offset), end) in offsets.into_iter().zip(self.log_ends(places)?) {
            if let Some(end) = end {
                *lags.entry((group, topic)).or_default() += (end - offset).max(0);
            }
        }
        census.lags = lags.into_iter().map(|((group, topic), lag)| (group, topic, lag)).collect();
        Ok(census)
    }

    /// What all nodes have counted since the start.
    pub fn tally(&self) -> Result<Tally, ServerError> {
        let mut all = Tally::default();
        for tally in self.ask_all(|node| node.metrics().clone())? {
            all.add(&tally);
        }
        all.fsyncs = self.health().unwrap_or_default().syncs;
        Ok(all)
    }

    /// Everything about a group, and the monotonic millisecond of the answer; `None` if there is no such group.
    pub fn look(&self, group_id: &str) -> Result<(Option<GroupSight>, u64), ServerError> {
        let group_id = group_id.to_owned();
        let partition = self.partition_of(&group_id);
        self.ask_owner(partition, move |node| {
            let now_ms = node.clock().now().mono_ms;
            let sight =
                node.coordinator(partition).and_then(|coordinator| GroupSight::of(coordinator, &group_id, now_ms));
            (sight, now_ms)
        })
    }

    /// The members of a group whose client has closed its connection or is paused, so that only their timeouts end a
    /// wait for them. Empty on the real clock, where those end by themselves, and if there is no such group.
    pub fn silent_members(&self, group_id: &str) -> Result<Vec<String>, ServerError> {
        if !self.shared.clock().is_virtual() {
            return Ok(Vec::new());
        }
        let group_id = group_id.to_owned();
        let partition = self.partition_of(&group_id);
        self.ask_owner(partition, move |node| {
            let projection = node.coordinator(partition).and_then(|coordinator| coordinator.project(&group_id));
            let members = projection.map(|projection| projection.members).unwrap_or_default();
            let silent = members.iter().filter(|member| !node.hears(&group_id, &member.member_id));
            silent.map(|member| member.member_id.to_string()).collect()
        })
    }

    /// Waits until groups have changed since this returned `seen`, `timeout` at most. Returns what to pass next; a look
    /// at a group after this returns includes every change that it counts. The first call passes a `timeout` of 0.
    pub fn wait_for_change(&self, seen: u64, timeout: Duration) -> Result<u64, ServerError> {
        let count = self.shared.wait_for_change(seen, timeout);
        self.check_running()?;
        Ok(count)
    }

    /// These groups in a few figures each, by id, with at most `waits_max` waits, and the monotonic millisecond of the
    /// last answer. One that is not there is left out. Partitions are asked one after the other, so that requests are
    /// handled in between.
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

    /// Where partitions of topics end: the offset that the next message will have; `None` of one that does not exist.
    pub fn log_ends(&self, partitions: Vec<(String, i32)>) -> Result<Vec<Option<i64>>, ServerError> {
        let count = partitions.len();
        let asked = Arc::new(partitions);
        let of_nodes = self.ask_all(move |node| {
            asked.iter().map(|(topic, index)| node.topics().log_end(topic, *index)).collect::<Vec<_>>()
        })?;
        // A partition has one leader.
        Ok((0..count).map(|at| of_nodes.iter().find_map(|ends| ends[at])).collect())
    }

    /// The partitions of `__consumer_offsets` whose clients are told `COORDINATOR_LOAD_IN_PROGRESS`.
    pub fn loading(&self) -> Result<Vec<u32>, ServerError> {
        let of_nodes = self.ask_all(|node| node.loading().collect::<Vec<u32>>())?;
        let mut loading = of_nodes.concat();
        loading.sort_unstable();
        Ok(loading)
    }
}
