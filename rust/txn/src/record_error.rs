//! Why a record of `__transaction_state` cannot be read.

use std::fmt;

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The field, such as `status`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a record of __transaction_state: {}: {}", self.field, self.problem)
    }
}

impl std::error::Error for RecordError {}
