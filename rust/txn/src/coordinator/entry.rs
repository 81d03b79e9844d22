//! What a coordinator knows of one transactional id.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

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

/// The participants of a decided transaction that have no marker yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unmarked {
    /// Those whose marker is on its way.
    pub sent: BTreeMap<MarkerId, Participant>,
    /// Those whose marker will be sent, by wall time.
    pub again: BTreeSet<(i64, Participant)>,
}

impl Unmarked {
    /// Whether every participant has its marker.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.again.is_empty()
    }

    /// Takes the participants whose marker is due, in their order.
    pub fn take_due(&mut self, now_ms: i64) -> Vec<Participant> {
        let mut due = Vec::new();
        while self.again.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms) {
            due.extend(self.again.pop_first().map(|(_, participant)| participant));
        }
        due.sort_unstable();
        due
    }

    pub fn participants(&self) -> impl Iterator<Item = &Participant> {
        self.sent.values().chain(self.again.iter().map(|(_, participant)| participant))
    }
}

/// One transactional id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// The durable state; `None` before the first record.
    pub current: Option<Transaction>,
    /// The record in flight.
    pub change: Option<Change>,
    /// In a Prepare state, the participants without a marker.
    pub unmarked: Unmarked,
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

    /// Tries nothing again later than then.
    pub fn try_again_by(&mut self, latest_ms: i64) {
        let again = mem::take(&mut self.unmarked.again).into_iter();
        self.unmarked.again = again.map(|(at_ms, participant)| (at_ms.min(latest_ms), participant)).collect();
        self.not_before_ms = self.not_before_ms.map(|at_ms| at_ms.min(latest_ms));
    }

    /// Returns when something is due.
    pub fn deadline_ms(&self, expiration_ms: i64) -> Option<i64> {
        let transaction = self.settled()?;
        let due_ms = match transaction.state {
            State::Ongoing => timed_out_ms(transaction),
            State::PrepareCommit | State::PrepareAbort if self.unmarked.is_empty() => i64::MIN,
            State::PrepareCommit | State::PrepareAbort => {
                return self.unmarked.again.first().map(|(at_ms, _)| *at_ms);
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
