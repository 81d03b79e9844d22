//! Results of appends (§2).

use std::sync::Arc;

use super::{Coordinator, entry::Change};
use crate::{
    error::Error,
    messages::{Answer, AppendFailure, AppendId, Effect},
    state::State,
    transaction::Transaction,
};

impl Coordinator {
    pub(super) fn appended(
        &mut self,
        now_ms: i64,
        append: AppendId,
        result: Result<(), AppendFailure>,
        effects: &mut Vec<Effect>,
    ) {
        if result == Err(AppendFailure::Fenced) && self.appends.contains_key(&append) {
            return self.give_up(effects);
        }
        let Some(id) = self.appends.remove(&append) else { return };
        let Some(change) = self.ids.get_mut(&id).and_then(|entry| entry.change.take()) else { return };
        match result {
            Ok(()) => self.apply(now_ms, &id, change, effects),
            Err(_) => self.revert(now_ms, &id, &change, effects),
        }
        self.rearm(&id);
    }

    fn apply(&mut self, now_ms: i64, id: &Arc<str>, change: Change, effects: &mut Vec<Effect>) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        entry.not_before_ms = None;
        let from = entry.current.as_ref().map_or(State::Empty, |current| current.state);
        let to = change.next.as_ref().map_or(State::Dead, |next| next.state);
        debug_assert!(from.may_become(to), "{id}: {from:?} -> {to:?}");
        entry.current = change.next;
        if let Some((ticket, answer)) = change.answer {
            effects.push(Effect::Answer(ticket, answer));
        }
        match to {
            State::Dead => drop(self.ids.remove(id)),
            State::PrepareCommit | State::PrepareAbort => self.send_markers(now_ms, id, effects),
            _ => {}
        }
    }

    /// Nothing has changed. What the coordinator wanted by itself, it tries again later.
    fn revert(&mut self, now_ms: i64, id: &Arc<str>, change: &Change, effects: &mut Vec<Effect>) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        match change.answer {
            Some((ticket, _)) => effects.push(Effect::Answer(ticket, Answer::Refused(Error::NotAvailable))),
            None => entry.not_before_ms = Some(now_ms.saturating_add(self.config.retry_ms)),
        }
        if entry.current.is_none() {
            self.ids.remove(id);
        }
    }

    /// Appends the Complete state of an id whose participants all have their markers.
    pub(super) fn complete(&mut self, id: &Arc<str>, effects: &mut Vec<Effect>) {
        let completed = self.ids.get(id).and_then(|entry| entry.settled()).map(Transaction::completed);
        if let Some(completed) = completed {
            self.append(id, Some(completed), None, effects);
        }
    }
}
