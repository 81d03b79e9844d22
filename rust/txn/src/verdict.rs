//! The coordinator's verdict on data of a transaction, before a participant appends it.

use crate::error::Error;

/// Whether a participant may append data of a transaction (§6). Everything but `Verified` refuses the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The transaction is open, and the participant was added to it.
    Verified,
    /// The participant was not added to an open transaction: `INVALID_TXN_STATE`, or `TRANSACTION_ABORTABLE` for clients
    /// that know it.
    NotAdded,
    /// The transaction is being ended: the client tries again.
    Concurrent,
    /// The transactional id is unknown, or has another producer id: `INVALID_PRODUCER_ID_MAPPING`.
    UnknownMapping,
    /// The producer's epoch is not the current one: `INVALID_PRODUCER_EPOCH`.
    WrongEpoch,
    /// This node does not coordinate the transactional id: `NOT_COORDINATOR`.
    NotCoordinator,
    /// The coordinator is being loaded: `COORDINATOR_LOAD_IN_PROGRESS`.
    Loading,
}

impl Verdict {
    /// Returns the error of a refusal; `None`: `Verified`, or `NotAdded`, which each API answers in its own way.
    pub fn error(self) -> Option<Error> {
        match self {
            Verdict::Verified | Verdict::NotAdded => None,
            Verdict::Concurrent => Some(Error::Concurrent),
            Verdict::UnknownMapping => Some(Error::UnknownMapping),
            Verdict::WrongEpoch => Some(Error::Fenced),
            Verdict::NotCoordinator => Some(Error::NotCoordinator),
            Verdict::Loading => Some(Error::Loading),
        }
    }
}
