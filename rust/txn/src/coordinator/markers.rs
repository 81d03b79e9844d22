//! Markers of decided transactions (§5).

use std::sync::Arc;

use super::{Coordinator, entry::Sending};
use crate::{
    marker::Participant,
    messages::{Effect, MarkerId, Marking},
};

impl Coordinator {
    /// Sends the markers of a decided transaction to all participants.
    pub(super) fn send_markers(&mut self, now_ms: i64, id: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        let Some(current) = &entry.current else { return };
        let unmarked = current.participants.iter().map(|participant| (participant.clone(), Sending::Again(now_ms)));
        entry.unmarked = unmarked.collect();
        self.send_due_markers(now_ms, id, effects);
        self.complete_if_marked(id, effects);
    }

    /// Sends the markers that are due.
    pub(super) fn send_due_markers(&mut self, now_ms: i64, id: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(entry) = self.ids.get(id) else { return };
        let Some(marker) = entry.current.as_ref().map(|current| current.marker(self.epoch)) else { return };
        let is_due = |sending: &Sending| matches!(sending, Sending::Again(at_ms) if *at_ms <= now_ms);
        let due = entry.unmarked.iter().filter(|(_, sending)| is_due(sending));
        let due: Vec<Participant> = due.map(|(participant, _)| participant.clone()).collect();
        for participant in due {
            let marker_id = self.marker_id();
            let Some(entry) = self.ids.get_mut(id) else { return };
            entry.unmarked.insert(participant.clone(), Sending::Sent(marker_id));
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
        let Some((id, entry)) = self.ids.get_key_value(transactional_id) else { return };
        let id = Arc::clone(id);
        let sent = entry.unmarked.iter().find(|(_, sending)| **sending == Sending::Sent(marker));
        let Some(participant) = sent.map(|(participant, _)| participant.clone()) else { return };
        let Some(entry) = self.ids.get_mut(&id) else { return };
        match result {
            Marking::Fenced => return self.give_up(effects),
            Marking::Written | Marking::Gone => drop(entry.unmarked.remove(&participant)),
            Marking::Failed => {
                let again = Sending::Again(now_ms.saturating_add(self.config.retry_ms));
                entry.unmarked.insert(participant, again);
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
