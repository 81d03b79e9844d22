//! Serializes the whole state, and restores it.

use std::fmt;

use crate::{coordinator::Coordinator, invariants::Violation};

/// The format number of a snapshot, its first byte. Every change of the serialized state gets a new number.
pub const SNAPSHOT_FORMAT: u8 = 8;

/// The format number of a snapshot without offsets of open transactions, which are after the rest.
const FORMAT_WITHOUT_PENDING_OFFSETS: u8 = 7;

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
        let format = match (self.pending_offsets.is_empty(), self.consumer_groups.is_empty()) {
            (false, _) => SNAPSHOT_FORMAT,
            (true, false) => FORMAT_WITHOUT_PENDING_OFFSETS,
            (true, true) => FORMAT_WITHOUT_CONSUMER_GROUPS,
        };
        let mut bytes = postcard::to_extend(self, vec![format]).expect("plain data can be written");
        if format == SNAPSHOT_FORMAT {
            bytes = postcard::to_extend(&self.pending_offsets, bytes).expect("plain data can be written");
        }
        bytes
    }

    /// Restores a snapshot. Refuses a state that breaks an invariant.
    pub fn restore(bytes: &[u8]) -> Result<Coordinator, RestoreError> {
        let (format, state) = match bytes {
            [
                format @ (SNAPSHOT_FORMAT | FORMAT_WITHOUT_PENDING_OFFSETS | FORMAT_WITHOUT_CONSUMER_GROUPS),
                state @ ..,
            ] => (*format, state),
            [format, ..] => return Err(RestoreError::OtherFormat(*format)),
            [] => return Err(RestoreError::Unreadable("no bytes".to_owned())),
        };
        let unreadable = |error: postcard::Error| RestoreError::Unreadable(error.to_string());
        let (mut coordinator, mut rest): (Coordinator, &[u8]) = postcard::take_from_bytes(state).map_err(unreadable)?;
        if format == SNAPSHOT_FORMAT {
            (coordinator.pending_offsets, rest) = postcard::take_from_bytes(rest).map_err(unreadable)?;
        }
        // Groups of an older format are read wrongly.
        if format == FORMAT_WITHOUT_CONSUMER_GROUPS && !coordinator.consumer_groups.is_empty() {
            return Err(RestoreError::OtherFormat(format));
        }
        if !rest.is_empty() {
            return Err(RestoreError::Unreadable(format!("{} bytes follow it", rest.len())));
        }
        for group in coordinator.group_ids.values() {
            if let Some(group) = coordinator.groups.get_mut(*group) {
                group.joined.close_gaps(&mut coordinator.members);
            }
        }
        coordinator.check_invariants().map_err(RestoreError::Broken)?;
        Ok(coordinator)
    }
}
