//! Reading the log of the partition (§8).

use std::sync::Arc;

use super::{Coordinator, Phase, entry::Entry};
use crate::{messages::Effect, record, record_error::RecordError};

impl Coordinator {
    /// Reads one record, in the order of the log. The last record of an id counts.
    pub fn load(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RecordError> {
        let Some(id) = record::read_key(key)? else { return Ok(()) };
        match value {
            None => drop(self.ids.remove(id)),
            Some(value) => {
                let current = Some(record::read_value(value)?);
                self.ids.insert(id.into(), Entry { current, ..Entry::default() });
            }
        }
        Ok(())
    }

    /// The log is read: finishes decided transactions, and serves.
    pub fn loaded(&mut self, now_ms: i64, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Loading {
            return;
        }
        self.phase = Phase::Serving;
        let ids: Vec<Arc<str>> = self.ids.keys().cloned().collect();
        for id in ids {
            let is_decided = self.transaction(&id).is_some_and(|current| current.state.is_prepare());
            if is_decided {
                self.send_markers(now_ms, &id, effects);
            }
            self.rearm(&id);
        }
    }
}
