//! Which nodes live, by this node's own clock.

use std::collections::BTreeMap;

use rota_engine::{Incarnation, NodeId, View};

/// A node's last sign of life: its process has registered, or has beaten.
#[derive(Clone, Copy, Debug)]
struct Seen {
    incarnation: Incarnation,
    /// Of its last beat; 0: it has registered only.
    counter: u64,
    since_ms: u64,
    /// Whether the count of its silence has begun anew since then.
    is_anew: bool,
}

/// Since when each node's last sign of life has been seen.
#[derive(Debug, Default)]
pub(crate) struct Members {
    seen: BTreeMap<NodeId, Seen>,
    /// When a node came or went last.
    changed_ms: u64,
    alive: Vec<NodeId>,
}

impl Members {
    /// A view arrives.
    pub fn listen(&mut self, now_ms: u64, view: &View) {
        self.seen.retain(|node, _| view.nodes.contains_key(node));
        for (node, registered) in &view.nodes {
            let incarnation = registered.incarnation;
            // A beat of an earlier process is no sign of life, and a process that has registered beats soon.
            let beat = view.beats.get(node).filter(|beat| beat.incarnation == incarnation);
            let counter = beat.map_or(0, |beat| beat.counter);
            let is_known = self.seen.get(node).is_some_and(|seen| {
                // Of processes that register and die before they beat only the first one counts.
                seen.counter == counter && (counter == 0 || seen.incarnation == incarnation)
            });
            if !is_known {
                self.seen.insert(*node, Seen { incarnation, counter, since_ms: now_ms, is_anew: false });
            }
        }
    }

    /// Counts the silence of all nodes anew: it was this node's, or the engine's. Once for each silence: a node whose own
    /// beats are late would otherwise take a dead one for alive for ever.
    pub fn count_anew(&mut self, now_ms: u64) {
        for seen in self.seen.values_mut().filter(|seen| !seen.is_anew) {
            (seen.since_ms, seen.is_anew) = (now_ms, true);
        }
    }

    /// Looks who lives now. Returns whether a node came or went.
    pub fn look(&mut self, now_ms: u64, ttl_ms: u64) -> bool {
        let lives = |seen: &Seen| now_ms.saturating_sub(seen.since_ms) < ttl_ms;
        let alive: Vec<NodeId> = self.seen.iter().filter(|(_, seen)| lives(seen)).map(|(node, _)| *node).collect();
        let has_changed = alive != self.alive;
        if has_changed {
            (self.alive, self.changed_ms) = (alive, now_ms);
        }
        has_changed
    }

    /// The nodes that lived at the last look, ascending.
    pub fn alive(&self) -> &[NodeId] {
        &self.alive
    }

    /// Whether the node lived at the last look.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.alive.binary_search(&node).is_ok()
    }

    /// When a node came or went last.
    pub fn changed_ms(&self) -> u64 {
        self.changed_ms
    }
}
