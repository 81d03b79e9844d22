//! The id of an entry.
use serde::{Deserialize, Serialize};

/// Identifies one armed entry. The id is stale after the entry fired or was cancelled, even if its memory is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimerId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl TimerId {
    /// Returns the id as a number, never zero; small for the first entries of a wheel.
    pub const fn number(self) -> u64 {
        ((self.generation as u64) << 32) | (self.index as u64 + 1)
    }

    /// Returns the id with this [`number`](Self::number); `None` if no id has it.
    pub const fn from_number(number: u64) -> Option<Self> {
        match (number as u32).checked_sub(1) {
            Some(index) => Some(Self { index, generation: (number >> 32) as u32 }),
            None => None,
        }
    }
}
