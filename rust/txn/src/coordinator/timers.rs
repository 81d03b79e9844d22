//! What the coordinator does when time has passed (§7).

use std::sync::Arc;

use super::Coordinator;
use crate::{messages::Effect, state::State};

impl Coordinator {
    /// Returns the wall time at which something is due.
    pub fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Does everything that is due.
    pub(super) fn advance(&mut self, now_ms: i64, effects: &mut Vec<Effect>) {
        while let Some((_, id)) = self.deadlines.first().filter(|(deadline_ms, _)| *deadline_ms <= now_ms).cloned() {
            self.fire(now_ms, &id, effects);
            self.rearm(&id);
        }
    }

    /// After the clock was set back, tries again in time what failed before.
    pub(super) fn set_back(&mut self, now_ms: i64, effects: &mut Vec<Effect>) {
        let latest_ms = now_ms.saturating_add(self.config.retry_ms);
        let ids: Vec<Arc<str>> = self.ids.keys().cloned().collect();
        for id in ids {
            if let Some(entry) = self.ids.get_mut(&id) {
                entry.try_again_by(latest_ms);
            }
            self.rearm(&id);
        }
        self.advance(now_ms, effects);
    }

    fn fire(&mut self, now_ms: i64, id: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(current) = self.ids.get(id).and_then(|entry| entry.settled()) else { return };
        match current.state {
            State::Ongoing => {
                let aborted = current.fenced(self.config.has_second_protocol(), now_ms);
                self.append(id, Some(aborted), None, effects);
            }
            State::PrepareCommit | State::PrepareAbort if self.ids[id].unmarked.is_empty() => {
                self.complete(id, effects);
            }
            State::PrepareCommit | State::PrepareAbort => self.send_due_markers(now_ms, id, effects),
            State::Empty | State::CompleteCommit | State::CompleteAbort => self.append(id, None, None, effects),
            State::Dead => {}
        }
    }

    /// Records when something is due for an id.
    pub(super) fn rearm(&mut self, id: &Arc<str>) {
        let Some(entry) = self.ids.get_mut(id) else {
            // Forgotten: its time went with the append of the tombstone.
            return;
        };
        let deadline_ms = entry.deadline_ms(self.config.expiration_ms);
        if entry.armed_ms == deadline_ms {
            return;
        }
        if let Some(armed_ms) = std::mem::replace(&mut entry.armed_ms, deadline_ms) {
            self.deadlines.remove(&(armed_ms, Arc::clone(id)));
        }
        if let Some(deadline_ms) = deadline_ms {
            self.deadlines.insert((deadline_ms, Arc::clone(id)));
        }
    }
}
