//! What a step does to the outside: answers and appends, handed to a sink as they arise.

use crate::{
    history::Rebalance,
    records::Record,
    request::{Now, Ticket},
    response::Answer,
};

/// What has just happened to a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It has begun (§5.1).
    Began,
    /// Its join phase is complete (§5.4).
    Joined,
    /// The group is Stable, or Empty, again.
    Settled,
}

/// The coordinator's name for one append, counted up from 0 within an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AppendId(pub u64);

/// Takes effects in the order in which they happen. A sink must not call back into the coordinator.
pub trait Sink {
    /// `ticket` is answered, exactly once.
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>);
    /// A deadline that `advance` found passed is about to be fired: its name in `Operation::NAMES`, and the group it is
    /// about, if it is about one. The effects that follow are its own.
    fn firing(&mut self, _timer: &'static str, _group_id: Option<&str>) {}
    /// Something has happened to a rebalance of a group: for those who count, or write a line.
    fn rebalance(&mut self, _group_id: &str, _moment: Moment, _rebalance: &Rebalance) {}
    /// `records` are to be appended as one batch; the caller reports the end through `Coordinator::appended`.
    fn append(&mut self, append_id: AppendId, records: &[Record]);
}

/// One event: when it happens, and where its effects go.
pub(crate) struct Step<'s> {
    pub now: Now,
    pub sink: &'s mut dyn Sink,
}
