//! `Usage`: how full the engine is.

use crate::store::{Log, Store};

/// Asks for the engine's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Usage;

/// The answer. A real engine also has pages that are free but not given back, and a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Used {
    /// Of the engine's files.
    pub file_bytes: u64,
    /// Of live content.
    pub live_bytes: u64,
    /// What the files may take; 0 if there is no limit.
    pub quota_bytes: u64,
}

impl Usage {
    #[expect(clippy::unused_self, reason = "a request like the others")]
    pub(super) fn apply(self, store: &mut Store) -> Used {
        let live_bytes = store.logs.values().map(Log::bytes).sum();
        Used { file_bytes: live_bytes, live_bytes, quota_bytes: 0 }
    }
}

impl Log {
    fn bytes(&self) -> u64 {
        let entries = self.entries.values().map(|entry| entry.value.bytes.len());
        entries.chain(self.chunks.values().map(Vec::len)).map(|bytes| bytes as u64).sum()
    }
}
