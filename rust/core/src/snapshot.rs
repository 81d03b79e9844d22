//! Serializes the whole state, and restores it.

use std::fmt;

use crate::{coordinator::Coordinator, invariants::Violation};

/// The format number of a snapshot, its first byte. Every change of the serialized state gets a new number.
pub const SNAPSHOT_FORMAT: u8 = 7;

/// The format number of a snapshot without consumer groups, whose serialized state has not changed since.
const FORMAT_WITHOUT_CONSUMER_GROUPS: u8 = 4;

/// Why bytes cannot be restored as a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The snapshot has another format.
    OtherFormat(u8),
    /// The bytes are not a snapshot.
    Unreadable(String),
    /// The state breaks an invariant.
    Broken(Violation),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::OtherFormat(format) => write!(
                formatter,
                "the snapshot has format {format}, and this release of rota knows format {SNAPSHOT_FORMAT}; restore it \
                 with the release that wrote it, or load the coordinator from its log"
            ),
            RestoreError::Unreadable(what) => write!(formatter, "not a snapshot of this version: {what}"),
            RestoreError::Broken(violation) => write!(formatter, "the snapshot's state is broken: {violation}"),
        }
    }
}

impl std::error::Error for RestoreError {}

impl Coordinator {
    /// Serializes the whole state, with parked requests and deadlines. The same state gives the same bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let format = if self.consumer_groups.is_empty() { FORMAT_WITHOUT_CONSUMER_GROUPS } else { SNAPSHOT_FORMAT };
        postcard::to_extend(self, vec![format]).expect("plain data can be written")
    }

    /// Restores a snapshot. Refuses a state that breaks an invariant.
    pub fn restore(bytes: &[u8]) -> Result<Coordinator, RestoreError> {
        let (format, state) = match bytes {
            [format @ (SNAPSHOT_FORMAT | FORMAT_WITHOUT_CONSUMER_GROUPS), state @ ..] => (*format, state),
            [format, ..] => return Err(RestoreError::OtherFormat(*format)),
            [] => return Err(RestoreError::Unreadable("no bytes".to_owned())),
        };
        let (coordinator, rest): (Coordinator, &[u8]) =
            postcard::take_from_bytes(state).map_err(|error| RestoreError::Unreadable(error.to_string()))?;
        // Groups of an older format are read wrongly.
        if format != SNAPSHOT_FORMAT && !coordinator.consumer_groups.is_empty() {
            return Err(RestoreError::OtherFormat(format));
        }
        if !rest.is_empty() {
            return Err(RestoreError::Unreadable(format!("{} bytes follow it", rest.len())));
        }
        coordinator.check_invariants().map_err(RestoreError::Broken)?;
        Ok(coordinator)
    }
}
