//! Markers of decided transactions (§5).

use std::{collections::BTreeMap, sync::Arc};

use super::{Coordinator, entry::Unmarked};
use crate::messages::{Effect, MarkerId, Marking};

impl Coordinator {
    /// Sends the markers of a decided transaction to all participants.
    pub(super) fn send_markers(&mut self, now_ms: i64, id: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        let Some(current) = &entry.current else { return };
        let again = current.participants.iter().map(|participant| (now_ms, participant.clone())).collect();
        entry.unmarked = Unmarked { sent: BTreeMap::new(), again };
        self.send_due_markers(now_ms, id, effects);
        self.complete_if_marked(id, effects);
    }

    /// Sends the markers that are due.
    pub(super) fn send_due_markers(&mut self, now_ms: i64, id: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        let Some(marker) = entry.current.as_ref().map(|current| current.marker(self.epoch)) else { return };
        for participant in entry.unmarked.take_due(now_ms) {
            let marker_id = self.marker_id();
            let Some(entry) = self.ids.get_mut(id) else { return };
            entry.unmarked.sent.insert(marker_id, participant.clone());
            let transactional_id = Arc::clone(id);
            effects.push(Effect::SendMarker { id: marker_id, transactional_id, participant, marker });
        }
    }

    pub(super) fn marked(
        &mut self,
        now_ms: i64,
        transactional_id: &str,
        marker: MarkerId,
        result: Marking,
        effects: &mut Vec<Effect>,
    ) {
        let Some(id) = self.ids.get_key_value(transactional_id).map(|(id, _)| Arc::clone(id)) else { return };
        let Some(entry) = self.ids.get_mut(&id) else { return };
        let Some(participant) = entry.unmarked.sent.remove(&marker) else { return };
        match result {
            Marking::Fenced => return self.give_up(effects),
            Marking::Written | Marking::Gone => {}
            Marking::Failed => {
                let again_ms = now_ms.saturating_add(self.config.retry_ms);
                entry.unmarked.again.insert((again_ms, participant));
            }
        }
        self.complete_if_marked(&id, effects);
        self.rearm(&id);
    }

    fn complete_if_marked(&mut self, id: &Arc<str>, effects: &mut Vec<Effect>) {
        if self.ids.get(id).is_some_and(|entry| entry.unmarked.is_empty()) {
            self.complete(id, effects);
        }
    }
}
