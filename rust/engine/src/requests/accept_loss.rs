//! `AcceptLoss`: an operator begins a new history after the engine went back (§8).

use super::Content;
use crate::{ids::HistoryId, store::Store};

/// Writes a new history, if the present one is still the one that the operator looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AcceptLoss {
    /// The history that lost something.
    pub lost: HistoryId,
    /// The new one.
    pub begin: HistoryId,
}

impl AcceptLoss {
    pub(super) fn apply(&self, store: &mut Store) -> Content {
        if store.view.meta.history != self.lost {
            return Content::OtherHistory(store.view.meta);
        }
        store.next_revision();
        store.view.meta.history = self.begin;
        Content::HistoryBegun
    }
}
