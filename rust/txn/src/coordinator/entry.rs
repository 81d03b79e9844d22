//! What a coordinator knows of one transactional id.

use std::collections::BTreeMap;

use crate::{
    marker::Participant,
    messages::{Answer, AppendId, MarkerId, Ticket},
    state::State,
    transaction::Transaction,
};

/// A record in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub append: AppendId,
    /// The state once the record is durable; `None`: the id is forgotten.
    pub next: Option<Transaction>,
    /// The request that waits for it, with its answer.
    pub answer: Option<(Ticket, Answer)>,
}

/// A marker that is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sending {
    /// It is on its way.
    Sent(MarkerId),
    /// It will be sent at this wall time.
    Again(i64),
}

/// One transactional id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// The durable state; `None` before the first record.
    pub current: Option<Transaction>,
    /// The record in flight.
    pub change: Option<Change>,
    /// In a Prepare state, the participants without a marker.
    pub unmarked: BTreeMap<Participant, Sending>,
    /// After a failure, what the coordinator does by itself is not tried before this wall time.
    pub not_before_ms: Option<i64>,
    /// The entry's time in the coordinator's deadlines.
    pub armed_ms: Option<i64>,
}

impl Entry {
    /// Returns the durable state, unless a record is in flight.
    pub fn settled(&self) -> Option<&Transaction> {
        self.current.as_ref().filter(|_| self.change.is_none())
    }

    /// Returns when something is due.
    pub fn deadline_ms(&self, expiration_ms: i64) -> Option<i64> {
        let transaction = self.settled()?;
        let due_ms = match transaction.state {
            State::Ongoing => timed_out_ms(transaction),
            State::PrepareCommit | State::PrepareAbort if self.unmarked.is_empty() => i64::MIN,
            State::PrepareCommit | State::PrepareAbort => {
                let again = |sending: &Sending| match sending {
                    Sending::Sent(_) => None,
                    Sending::Again(at_ms) => Some(*at_ms),
                };
                return self.unmarked.values().filter_map(again).min();
            }
            State::Empty | State::CompleteCommit | State::CompleteAbort => {
                transaction.updated_ms.saturating_add(expiration_ms)
            }
            State::Dead => return None,
        };
        Some(due_ms.max(self.not_before_ms.unwrap_or(i64::MIN)))
    }
}

/// Returns when an open transaction is aborted (§7): its time is over when more than the timeout has passed.
pub(super) fn timed_out_ms(transaction: &Transaction) -> i64 {
    transaction.start_ms.saturating_add(i64::from(transaction.timeout_ms)).saturating_add(1)
}
