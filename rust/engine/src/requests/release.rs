//! `Release`: an owner gives a partition up. The next owner need not wait.

use super::{Fence, fence};
use crate::{
    ids::PartitionId,
    store::Store,
    view::{Part, Token},
};

/// Marks the partition as released, if the writer owns it. An append that is still under way is fenced by this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
}

impl Release {
    pub(super) fn apply(&self, store: &mut Store) -> Fence {
        let fence = fence(store, self.partition, &self.token);
        if fence == Fence::Held {
            store.set_part(self.partition, Part { held: false, ..self.token.part() });
        }
        fence
    }
}
