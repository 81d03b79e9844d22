//! Effects of a step: answers and appends, passed to a sink as they arise.

use std::sync::Arc;

use crate::{
    consumer_group::stamp::Stamp,
    history::Rebalance,
    purgatory::OpId,
    records::{Record, TransactionBatch},
    request::{Now, Ticket},
    response::Answer,
};

/// A step of a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The rebalance began (§5.1).
    Began,
    /// The join phase completed (§5.4).
    Joined,
    /// The group became Stable or Empty.
    Settled,
    /// A consumer group has a new epoch (docs/consumer-protocol.md §4.3).
    EpochBumped,
    /// Every member of a consumer group owns its part of the target, or no member is left.
    Reconciled,
}

/// Identifies one append of a coordinator. Ids count up from 0 within an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AppendId(pub u64);

/// What a heartbeat of a consumer group leaves that changed nothing and was answered nothing new. With it
/// [`Coordinator::repeat_heartbeat`](crate::Coordinator::repeat_heartbeat) handles the next one that is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub(crate) stamp: Stamp,
    pub(crate) session: OpId,
    pub(crate) session_timeout_ms: i32,
    /// The incarnation of the coordinator.
    pub(crate) epoch: u32,
    /// From then on the group compares its topics again.
    pub(crate) until_mono_ms: u64,
}

/// Receives effects in the order in which they happen. A sink must not call back into the coordinator.
pub trait Sink {
    /// Answers `ticket`. The coordinator answers each ticket exactly once.
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>);
    /// Reports that `advance` fires a deadline: its name in `Operation::NAMES`, and its group if it has one. The
    /// effects that follow belong to it.
    fn firing(&mut self, _timer: &'static str, _group_id: Option<&str>) {}
    /// Reports a step of a group's rebalance, for counts and log lines.
    fn rebalance(&mut self, _group_id: &str, _moment: Moment, _rebalance: &Rebalance) {}
    /// Reports that the request of `ticket` has the patterns of a group resolved, by the next `advance`. Before that, the
    /// caller may limit what they match to what this client may see, with `Coordinator::limit_patterns`.
    fn resolving(&mut self, _group_id: &Arc<str>, _ticket: Ticket) {}
    /// Reports that the answer to `ticket`, which follows, leaves a receipt for `Coordinator::repeat_heartbeat`.
    fn receipt(&mut self, _ticket: Ticket, _receipt: Receipt) {}
    /// Appends `records` as one batch. The caller reports the result through `Coordinator::appended`.
    fn append(&mut self, append_id: AppendId, records: &[Record]);
    /// Appends a batch of a transaction, or its marker without records. A sink that writes a log must store which. The
    /// default fits sinks that only record appends.
    fn append_in_transaction(&mut self, append_id: AppendId, _batch: TransactionBatch, records: &[Record]) {
        self.append(append_id, records);
    }
}

/// The time of one event, and the sink of its effects.
pub(crate) struct Step<'s> {
    pub now: Now,
    pub sink: &'s mut dyn Sink,
}
