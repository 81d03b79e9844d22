//! The verbs: one partition of `__consumer_offsets` as a fold over events.

use std::sync::Arc;

use crate::{
    config::Config,
    effects::{AppendId, Sink},
    error::ErrorCode,
    explain::Explanation,
    records::Record,
    request::{Entropy, Now, Request, Ticket},
};

/// One committed log entry, as `replay` takes it.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its offset in the partition.
    pub offset: u64,
    /// Wall milliseconds.
    pub timestamp_ms: i64,
    /// What it says.
    pub record: Record,
}

/// The coordinator of one partition of `__consumer_offsets`.
#[derive(Clone, Debug)]
pub struct Coordinator {
    #[allow(dead_code)]
    config: Config,
}

#[allow(unused_variables, clippy::needless_pass_by_value, clippy::unused_self, missing_docs)]
impl Coordinator {
    /// Starts loading: until `loaded`, every request gets the gate's answer (§3).
    pub fn new(config: Config, partition: u32, epoch: u32) -> Coordinator {
        Coordinator { config }
    }
    pub fn replay(&mut self, entry: LogEntry) {
        todo!()
    }
    pub fn loaded(&mut self, now: Now, sink: &mut impl Sink) {
        todo!()
    }
    pub fn load_failed(&mut self, error: ErrorCode) {
        todo!()
    }
    pub fn submit(&mut self, now: Now, ticket: Ticket, entropy: Entropy, request: Request<'_>, sink: &mut impl Sink) {
        todo!()
    }
    /// Fires every deadline <= now that was armed before this call, by (deadline, arming order).
    pub fn advance(&mut self, now: Now, sink: &mut impl Sink) {
        todo!()
    }
    /// A lower bound, in monotonic milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        todo!()
    }
    pub fn appended(&mut self, append_id: AppendId, result: Result<u64, ErrorCode>, now: Now, sink: &mut impl Sink) {
        todo!()
    }
    pub fn topics_deleted(&mut self, topics: &[&str], now: Now, sink: &mut impl Sink) {
        todo!()
    }
    pub fn unload(&mut self, now: Now, sink: &mut impl Sink) {
        todo!()
    }
    pub fn explain(&self, group_id: &str) -> Option<Explanation> {
        todo!()
    }
    pub fn digest(&self, group_id: &str) -> Option<u64> {
        todo!()
    }
    /// Ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Arc<str>> {
        todo!()
    }
}
