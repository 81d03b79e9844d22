//! Which node should have which partition. Plans only say who may try: a stale planner does no harm.

use std::collections::BTreeMap;

use rota_assign::{NOBODY, Problem, Scratch, sticky};
use rota_engine::{NodeId, PartitionId};

use crate::notes::{Partitions, Plan};

/// Partitions that move for balance at a time.
const MOVES_MAX: usize = 5;

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// Nodes that live and want partitions, ascending.
    pub members: &'a [NodeId],
    /// The plan before.
    pub plan: &'a Plan,
    /// Who holds each partition.
    pub holders: &'a BTreeMap<PartitionId, NodeId>,
    /// Where operators have placed partitions.
    pub pins: &'a BTreeMap<PartitionId, NodeId>,
    /// Whether no node has come or gone for a while, so that partitions may move for balance.
    pub is_settled: bool,
    /// The partitions.
    pub partitions: Partitions,
}

impl Situation<'_> {
    /// The next plan. A partition whose node is gone moves at once. For balance a few move at a time.
    pub fn planned(&self) -> Plan {
        let index = |node: NodeId| self.members.binary_search(&node).ok().map(|at| at as u32);
        let all = || self.partitions.all();
        let of = |partition: PartitionId| {
            let pinned = self.pins.get(&partition).copied().and_then(index);
            let planned = self.plan.node_of(partition).and_then(index);
            pinned.or(planned).or_else(|| self.holders.get(&partition).copied().and_then(index))
        };
        let present: Vec<u32> = all().map(|partition| of(partition).unwrap_or(NOBODY)).collect();
        // Each node has its share of both topics.
        let (groups, transactions) = present.split_at(self.partitions.groups as usize);
        let balanced = [groups, transactions].map(|of_topic| balanced(self.members.len() as u32, of_topic)).concat();
        let under_way = all().filter(|partition| {
            let planned = self.plan.node_of(*partition);
            planned.is_some() && self.holders.get(partition).is_some_and(|holder| Some(*holder) != planned)
        });
        let mut moves = if self.is_settled { MOVES_MAX.saturating_sub(under_way.count()) } else { 0 };
        let next = all().zip(&present).zip(&balanced).map(|((partition, present), balanced)| {
            let is_pinned = self.pins.get(&partition).copied().and_then(index).is_some();
            let moves_for_balance = !is_pinned && present != balanced && moves > 0;
            let node = match (*present, moves_for_balance) {
                (NOBODY, _) => *balanced,
                (_, true) => {
                    moves -= 1;
                    *balanced
                }
                (present, false) => present,
            };
            self.members.get(node as usize).copied()
        });
        Plan(next.collect())
    }
}

/// The most even plan with the fewest moves.
fn balanced(members: u32, present: &[u32]) -> Vec<u32> {
    let topic_starts = [0, present.len() as u32];
    let member_starts: Vec<u32> = (0..=members).collect();
    let subscriptions = vec![0; members as usize];
    let mut owners = vec![NOBODY; present.len()];
    if let Ok(problem) = Problem::new(&topic_starts, &member_starts, &subscriptions, None)
        && members > 0
    {
        sticky(&problem, present, &mut Scratch::default(), &mut owners);
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(members: &[i32], plan: &[i32], is_settled: bool, pins: &[(i32, i32)]) -> Vec<i32> {
        let members: Vec<NodeId> = members.iter().map(|id| NodeId(*id)).collect();
        let plan = Plan(plan.iter().map(|id| (*id >= 0).then_some(NodeId(*id))).collect());
        let holders = plan.0.iter().enumerate().filter_map(|(at, node)| Some((PartitionId(at as i32), (*node)?)));
        let holders = holders.collect();
        let pins = pins.iter().map(|(partition, node)| (PartitionId(*partition), NodeId(*node))).collect();
        let partitions = Partitions { groups: plan.0.len() as u32, transactions: 0 };
        let situation =
            Situation { members: &members, plan: &plan, holders: &holders, pins: &pins, is_settled, partitions };
        situation.planned().0.iter().map(|node| node.map_or(-1, |node| node.0)).collect()
    }

    fn count(plan: &[i32], node: i32) -> usize {
        plan.iter().filter(|planned| **planned == node).count()
    }

    #[test]
    fn the_first_node_gets_everything_at_once() {
        assert_eq!(plan(&[3], &[-1; 4], false, &[]), [3; 4]);
    }

    #[test]
    fn partitions_of_a_node_that_is_gone_are_spread_at_once_and_others_stay() {
        let before = [1, 2, 3, 1, 2, 3];
        let after = plan(&[1, 3], &before, false, &[]);
        assert_eq!((count(&after, 1), count(&after, 3)), (3, 3));
        for at in [0, 2, 3, 5] {
            assert_eq!(after[at], before[at]);
        }
    }

    #[test]
    fn a_node_that_joins_gets_its_share_in_steps_after_a_while() {
        let before = [1; 16];
        assert_eq!(plan(&[1, 2], &before, false, &[]), before);
        let mut now = before.to_vec();
        let mut sizes = Vec::new();
        while count(&now, 2) < 8 {
            now = plan(&[1, 2], &now, true, &[]);
            sizes.push(count(&now, 2));
        }
        assert_eq!(sizes, [5, 8]);
        assert_eq!(plan(&[1, 2], &now, true, &[]), now, "a balanced plan stays");
    }

    #[test]
    fn a_pin_holds_while_its_node_is_there() {
        assert_eq!(plan(&[1, 2], &[1, 2, 1, 2], true, &[(0, 2)])[0], 2);
        assert_eq!(plan(&[1], &[2, 1], true, &[(0, 2)]), [1, 1]);
    }

    #[test]
    fn each_node_has_its_share_of_both_topics() {
        let (plan, holders, pins) = (Plan(vec![Some(NodeId(1)); 8]), BTreeMap::new(), BTreeMap::new());
        let partitions = Partitions { groups: 4, transactions: 4 };
        let members = [NodeId(1), NodeId(2)];
        let situation =
            Situation { members: &members, plan: &plan, holders: &holders, pins: &pins, is_settled: true, partitions };
        let next = situation.planned().0;
        let moved = |of_topic: &[Option<NodeId>]| of_topic.iter().filter(|node| **node == Some(NodeId(2))).count();
        assert_eq!((moved(&next[..4]), moved(&next[4..])), (2, 2));
    }

    #[test]
    fn without_nodes_nothing_is_planned() {
        assert_eq!(plan(&[], &[1, 2], true, &[]), [-1, -1]);
    }
}
