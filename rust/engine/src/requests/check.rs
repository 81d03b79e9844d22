//! `Check`: an owner asks whether it still is, for reads that trust no clock.

use super::{Fence, fence};
use crate::{ids::PartitionId, store::Store, view::Token};

/// A linearizable look at the partition's owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
}

impl Check {
    pub(super) fn apply(&self, store: &mut Store) -> Fence {
        fence(store, self.partition, &self.token)
    }
}
