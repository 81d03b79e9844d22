//! What views and answers of beats show of partitions that the node owns.

use std::collections::BTreeMap;

use super::{
    Command, Lost, Node, Reason, Stop,
    state::{Phase, own_beat},
};
use crate::{
    ids::{PartitionId, Revision},
    view::{Part, View},
};

impl Node {
    pub(super) fn see(&mut self, now_ms: u64, view: View, commands: &mut Vec<Command>) {
        if view.meta.history != self.state.history {
            return self.stop(Stop::OtherHistory(view.meta.history), commands);
        }
        // Of a part of the engine that lags behind.
        if view.revision < self.state.view.revision {
            return;
        }
        self.state.known = self.state.known.max(view.revision);
        // Revisions may be higher after a restore: it takes away what the node has seen all the same.
        let known = view.nodes.get(&self.config.node).map(|known| known.incarnation);
        if known != Some(self.config.incarnation) {
            return self.stop(Stop::Replaced, commands);
        }
        if let Some(counter) = self.lost_beat(&view) {
            return self.went_back(Lost::Beat(counter), commands);
        }
        self.observe(view.revision, &view.parts, commands);
        // Who follows the node's image would forget what the engine has lost, and could not have it again.
        if self.state.stopped.is_none() {
            self.state.listen(now_ms, view);
        }
    }

    /// The beat of this process that an image lacks, although an earlier one, or an answer, has shown it.
    fn lost_beat(&mut self, view: &View) -> Option<u64> {
        let counter = own_beat(&self.config, view).map_or(0, |beat| beat.counter);
        let lost = self.state.shown.filter(|(at, shown)| view.revision >= *at && counter < *shown);
        if counter > 0 {
            self.show_beat(view.revision, counter);
        }
        lost.map(|(_, shown)| shown)
    }

    /// The owners of all partitions at a revision.
    pub(super) fn observe(
        &mut self,
        revision: Revision,
        parts: &BTreeMap<PartitionId, Part>,
        commands: &mut Vec<Command>,
    ) {
        let owned: Vec<PartitionId> = self.state.partitions.keys().copied().collect();
        for partition in owned {
            let Some(token) = self.state.partitions.get(&partition).and_then(Phase::token) else { continue };
            // An older image says nothing about this ownership.
            if revision < token.claimed {
                continue;
            }
            let shown = parts.get(&partition).copied();
            if shown != Some(token.part()) {
                let token = *token;
                self.lost(partition, token.part(), shown, commands);
            }
        }
    }

    /// The engine shows another owner than this node, or none.
    pub(super) fn lost(
        &mut self,
        partition: PartitionId,
        mine: Part,
        shown: Option<Part>,
        commands: &mut Vec<Command>,
    ) {
        match shown {
            Some(part) if part.epoch > mine.epoch => self.unload(partition, Reason::Fenced, commands),
            // Its own release, whose answer is still under way.
            Some(part) if part == (Part { held: false, ..mine }) && self.is_releasing(partition) => {}
            _ => self.went_back(Lost::Ownership { partition, mine, shown }, commands),
        }
    }
}
