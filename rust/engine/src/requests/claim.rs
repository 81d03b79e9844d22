//! `Claim`: a node takes a partition. From its revision on, no append of an earlier epoch takes effect.

use crate::{
    ids::{Epoch, Incarnation, NodeId, PartitionId, Revision},
    store::Store,
    view::{Beat, Part, Token},
};

/// Makes the node the owner, if the partition's owner is still the one it saw, and still silent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner as the claimant saw it.
    pub seen: Option<Part>,
    /// Why the claimant may, if that owner had not released it.
    pub silence: Silence,
    /// The claimant.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The claimant's epoch is at least this one: an import has records of earlier epochs. 1 otherwise.
    pub at_least: Epoch,
}

/// What must still hold of the old owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    /// Nothing: the partition has no owner, or the claimant itself.
    NotNeeded,
    /// Its last beat is this one.
    Beat(NodeId, Option<Beat>),
    /// Its node runs another process, so that this one never beats again.
    Replaced(NodeId, Incarnation),
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claimed {
    /// The claimant owns the partition.
    Owner(Token),
    /// Something had changed. The partition's owner and the revision that wrote it.
    Lost(Option<(Part, Revision)>),
}

impl Claim {
    /// What the claim writes.
    pub fn part(&self) -> Part {
        let epoch = self.seen.map_or(Epoch(1), |part| part.epoch.next()).max(self.at_least);
        Part { epoch, node: self.node, incarnation: self.incarnation, held: true }
    }

    /// The claimant's token, if the claim was carried out at this revision.
    pub fn token(&self, claimed: Revision) -> Token {
        let Part { epoch, node, incarnation, held: _ } = self.part();
        Token { epoch, node, incarnation, claimed }
    }

    pub(super) fn apply(&self, store: &mut Store) -> Claimed {
        if store.part(self.partition) != self.seen || !self.is_silent(store) {
            let written = store.parts_written.get(&self.partition);
            return Claimed::Lost(store.part(self.partition).zip(written.copied()));
        }
        let claimed = store.set_part(self.partition, self.part());
        Claimed::Owner(self.token(claimed))
    }

    fn is_silent(&self, store: &Store) -> bool {
        match self.silence {
            Silence::NotNeeded => true,
            Silence::Beat(node, beat) => store.view.beats.get(&node).copied() == beat,
            Silence::Replaced(node, incarnation) => {
                store.view.nodes.get(&node).is_some_and(|known| known.incarnation != incarnation)
            }
        }
    }
}
