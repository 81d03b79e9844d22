//! Acquire: when a node may claim a partition, and what became of the claim.

use super::{
    Command, Node,
    state::{Phase, Purpose, Step},
};
use crate::{
    ids::{Epoch, PartitionId},
    requests::{Body, Claim, Claimed, Silence},
    view::Part,
};

impl Node {
    pub(super) fn acquire(&mut self, now_ms: u64, partition: PartitionId, commands: &mut Vec<Command>) {
        if !self.is_valid(now_ms) || self.state.partitions.contains_key(&partition) {
            return;
        }
        let seen = self.state.view.parts.get(&partition).copied();
        let Some(silence) = self.may_claim(now_ms, seen) else { return };
        let Node { config, state: _ } = &*self;
        let (node, incarnation) = (config.node, config.incarnation);
        let claim = Claim { partition, seen, silence, node, incarnation, at_least: Epoch(1) };
        self.state.partitions.insert(partition, Phase::Claiming(claim.clone()));
        self.send(Purpose::Of(partition, Step::Claim), Body::Claim(claim), commands);
    }

    /// What the claim has to be compared with; `None` if the owner may live.
    fn may_claim(&self, now_ms: u64, seen: Option<Part>) -> Option<Silence> {
        let Some(part) = seen.filter(|part| part.held) else { return Some(Silence::NotNeeded) };
        if part.node == self.config.node {
            let is_mine = part.incarnation == self.config.incarnation;
            // An earlier process of this directory is dead: this one holds the directory's lock.
            return Some(if is_mine { Silence::NotNeeded } else { Silence::Replaced(part.node, part.incarnation) });
        }
        let silent = self.state.silent.get(&(part.node, part.incarnation))?;
        if now_ms.saturating_sub(silent.since_ms) < self.config.ttl_ms {
            return None;
        }
        let registered = self.state.view.nodes.get(&part.node);
        if registered.is_some_and(|node| node.incarnation != part.incarnation) {
            return Some(Silence::Replaced(part.node, part.incarnation));
        }
        Some(Silence::Beat(part.node, self.state.view.beats.get(&part.node).copied()))
    }

    pub(super) fn claimed(&mut self, claim: &Claim, claimed: Claimed, commands: &mut Vec<Command>) {
        let token = match claimed {
            Claimed::Owner(token) => token,
            // An earlier attempt was carried out.
            Claimed::Lost(Some((part, revision))) if part == claim.part() => claim.token(revision),
            Claimed::Lost(_) => {
                self.state.partitions.remove(&claim.partition);
                return;
            }
        };
        self.state.partitions.insert(claim.partition, Phase::Loading(token));
        self.read(claim.partition, commands);
    }
}
