//! The whole state as bytes, and back.

use std::fmt;

use crate::{coordinator::Coordinator, invariants::Violation};

/// The first byte of a snapshot: what the rest is. Another for every change of what a coordinator keeps.
const FORM: u8 = 2;

/// Why bytes are not a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// They are of a version whose coordinators keep something else.
    OtherForm(u8),
    /// They are not what `snapshot` writes.
    Unreadable(String),
    /// They describe a state that breaks an invariant.
    Broken(Violation),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::OtherForm(form) => {
                write!(formatter, "not a snapshot of this version: it has form {form}, and {FORM} is known")
            }
            RestoreError::Unreadable(what) => write!(formatter, "not a snapshot of this version: {what}"),
            RestoreError::Broken(violation) => write!(formatter, "the snapshot's state is broken: {violation}"),
        }
    }
}

impl std::error::Error for RestoreError {}

impl Coordinator {
    /// The whole state, parked requests and deadlines included. The same state gives the same bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORM]).expect("plain data can be written")
    }

    /// The state that `snapshot` wrote. INVARIANT: a state that breaks one is refused.
    pub fn restore(bytes: &[u8]) -> Result<Coordinator, RestoreError> {
        let state = match bytes {
            [FORM, state @ ..] => state,
            [form, ..] => return Err(RestoreError::OtherForm(*form)),
            [] => return Err(RestoreError::Unreadable("no bytes".to_owned())),
        };
        let (coordinator, rest): (Coordinator, &[u8]) =
            postcard::take_from_bytes(state).map_err(|error| RestoreError::Unreadable(error.to_string()))?;
        if !rest.is_empty() {
            return Err(RestoreError::Unreadable(format!("{} bytes follow it", rest.len())));
        }
        coordinator.check_invariants().map_err(RestoreError::Broken)?;
        Ok(coordinator)
    }
}
