//! `Beat`: a node lives, and learns what it still owns.

use std::collections::BTreeMap;

use crate::{
    ids::{NodeId, PartitionId},
    store::Store,
    view::{Beat, Part},
};

/// Writes the beat if the node's registration has its incarnation, and the beat there is older and not lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PutBeat {
    /// The node.
    pub node: NodeId,
    /// The beat.
    pub beat: Beat,
    /// The engine has shown the process its beat of this counter; 0: none. One that has an earlier beat went back.
    pub shown: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Beaten {
    /// The beat is written, by this attempt or by an earlier one. All partitions at this revision.
    Alive(BTreeMap<PartitionId, Part>),
    /// A later beat of the process is written already: this one says nothing.
    Late,
    /// The engine has lost a beat that it had shown.
    Lost,
    /// Another process runs under the node's id.
    Replaced,
}

impl PutBeat {
    pub(super) fn apply(&self, store: &mut Store) -> Beaten {
        let registered = store.view.nodes.get(&self.node).map(|node| node.incarnation);
        if registered != Some(self.beat.incarnation) {
            return Beaten::Replaced;
        }
        let last = store.view.beats.get(&self.node);
        if self.is_lost(last) {
            return Beaten::Lost;
        }
        if !self.follows(last) {
            return Beaten::Late;
        }
        store.next_revision();
        store.view.beats.insert(self.node, self.beat);
        Beaten::Alive(store.view.parts.clone())
    }

    /// A restore may give higher revisions out: only the beat tells that the engine went back (§8).
    fn is_lost(&self, last: Option<&Beat>) -> bool {
        let own = last.filter(|last| last.incarnation == self.beat.incarnation);
        own.map_or(0, |last| last.counter) < self.shown
    }

    /// A twin of an earlier beat must not bring back a beat that a claimant has already counted as silence (§3.2).
    fn follows(&self, last: Option<&Beat>) -> bool {
        last.is_none_or(|last| last.incarnation != self.beat.incarnation || last.counter < self.beat.counter)
    }
}
