//! `DescribeTransactions` (§3.5).

use super::Coordinator;
use crate::{error::Error, marker::Participant, state::State, transaction::Producer};

/// What `DescribeTransactions` says about an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The state.
    pub state: State,
    /// The producer.
    pub producer: Producer,
    /// The timeout of a transaction.
    pub timeout_ms: i32,
    /// Start of the current or last transaction in wall milliseconds; -1 in Empty.
    pub start_ms: i64,
    /// The participants, sorted.
    pub participants: Vec<Participant>,
}

impl Coordinator {
    /// Describes an id. Errors: `InvalidRequest`, `Loading`, `NotCoordinator`, `NotFound`.
    pub fn describe(&self, transactional_id: &str) -> Result<Description, Error> {
        if transactional_id.is_empty() {
            return Err(Error::InvalidRequest);
        }
        self.check_phase()?;
        let current = self.transaction(transactional_id).ok_or(Error::NotFound)?;
        Ok(Description {
            state: current.state,
            producer: current.producer,
            timeout_ms: current.timeout_ms,
            start_ms: current.start_ms,
            participants: current.participants.iter().cloned().collect(),
        })
    }
}
