//! `Register`: a process begins. From here on no earlier process of the node beats.

use crate::{
    ids::{Directory, Incarnation, NodeId},
    store::Store,
    view::{Registration, View},
};

/// Writes the node's incarnation, if the id is free or belongs to the same directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// The node.
    pub node: NodeId,
    /// Its directory, whose lock the process holds.
    pub directory: Directory,
    /// The process.
    pub incarnation: Incarnation,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Registered {
    /// The node may beat; the small keys at this revision.
    As(View),
    /// The id belongs to another directory.
    Taken(Directory),
}

impl Register {
    pub(super) fn apply(&self, store: &mut Store) -> Registered {
        if let Some(known) = store.view.nodes.get(&self.node)
            && known.directory != self.directory
        {
            return Registered::Taken(known.directory);
        }
        let registration = Registration { directory: self.directory, incarnation: self.incarnation };
        store.next_revision();
        store.view.nodes.insert(self.node, registration);
        Registered::As(store.view.clone())
    }
}
