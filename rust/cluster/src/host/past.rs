//! What a process knows of the histories and registrations of its earlier lives in the cluster: it goes on only in the
//! history that it knew, or in one that an operator has begun since.

use std::collections::BTreeSet;

use rota_engine::{HistoryId, Incarnation, NodeId, View, node::Stop};

use crate::{
    notes,
    table::{OTHER_HISTORY, WENT_BACK},
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// In which it may join again; `None`: in none that it knows.
    current: Option<HistoryId>,
    /// Those that it was in, and those that operators had begun by then.
    known: BTreeSet<HistoryId>,
    /// Processes of the node whose registrations this one has replaced.
    replaced: BTreeSet<Incarnation>,
    /// Its registrations.
    own: BTreeSet<Incarnation>,
    /// The registration that is sent until it is answered. Attempts share it: the engine may carry an earlier one out late,
    /// and another incarnation would replace this process then.
    next: Option<Incarnation>,
    /// What was registered when it was sent.
    seen: BTreeSet<Incarnation>,
}

impl Past {
    /// For how long another process under the node's id has to be silent before this one joins. One that was replaced does
    /// not come back while the other one may still answer reads.
    pub fn silence_ms(&self, registered: Option<Incarnation>, ttl_ms: u64) -> u64 {
        match registered {
            Some(registered) if self.own.contains(&registered) || self.next == Some(registered) => 0,
            _ if self.own.is_empty() => ttl_ms / 2,
            _ => ttl_ms,
        }
    }

    /// The registration that is sent now. `seen`: the one that is there; `new` makes one.
    pub fn registers(&mut self, seen: Option<Incarnation>, new: impl FnOnce() -> Incarnation) -> Incarnation {
        let next = *self.next.get_or_insert_with(new);
        self.seen.extend(seen.filter(|seen| *seen != next));
        next
    }

    /// The node is registered.
    pub fn joined(&mut self, view: &View) {
        self.own.extend(self.next.take());
        self.replaced.append(&mut self.seen);
        self.current = Some(view.meta.history);
        self.known.insert(view.meta.history);
        // One that is announced after it has yet to begin.
        let begun = notes::begun(view);
        let upto = begun.iter().position(|history| *history == view.meta.history).map_or(0, |at| at + 1);
        self.known.extend(&begun[..upto]);
    }

    /// The node has stopped.
    pub fn stopped(&mut self, stop: Stop) {
        if stop != Stop::Replaced {
            self.current = None;
        }
    }

    /// Why the process may not join; `None`: it may.
    pub fn refusal(&self, node: NodeId, view: &View) -> Option<&'static str> {
        let history = view.meta.history;
        if self.own.is_empty() || self.is_accepted(view) {
            return None;
        }
        if self.current != Some(history) {
            return Some(if self.known.contains(&history) { WENT_BACK } else { OTHER_HISTORY });
        }
        // The engine had confirmed that this process replaced those.
        let registered = view.nodes.get(&node).map(|known| known.incarnation);
        registered.is_none_or(|registered| self.replaced.contains(&registered)).then_some(WENT_BACK)
    }

    /// Whether an operator has begun the history after everything that this process knows. An older one comes back with a
    /// restore, and a new one with an engine that was emptied.
    fn is_accepted(&self, view: &View) -> bool {
        let history = view.meta.history;
        let is_known = self.known.contains(&history);
        !is_known && notes::begun(view).contains(&history)
    }
}
