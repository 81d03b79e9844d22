//! The words of the core's enums, for a test that compares them with `python/rota/specs/vocabulary.toml`.

use pyo3::{prelude::*, types::PyDict};
use rota_core::{
    ErrorCode, Request, State,
    consumer_group::group::GroupState,
    explain::{Cause, Departed, Waiting},
    operations::Operation,
    states::TRANSITIONS,
};

/// The names and kinds of a struct's fields.
type Fields = &'static [(&'static str, &'static str)];

macro_rules! fields {
    ($plain:ident) => {
        (stringify!($plain), &[] as Fields)
    };
    ($name:ident { $($(#[$doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+ }) => {
        (stringify!($name), &[$((stringify!($field), stringify!($kind $(or $null)?))),+] as Fields)
    };
}

macro_rules! fields_of_requests {
    (
        requests { $($(#[$doc:meta])* $api:ident $fields:tt)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        const REQUESTS: &[(&str, Fields)] =
            &[$(fields! { $api $fields },)+ $(fields! { $element $element_fields },)+];
    };
}

macro_rules! fields_of_answers {
    (
        answers { $($(#[$doc:meta])* $api:ident => $answer:ident $({ $($fields:tt)+ })?)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        const ANSWERS: &[(&str, Fields)] =
            &[$(fields! { $answer $({ $($fields)+ })? },)+ $(fields! { $element $element_fields },)+];
    };
}

rota_core::requests!(fields_of_requests);
rota_core::answers!(fields_of_answers);

/// Requests that other tables lack: the `OffsetFetch` of a member is an `OffsetFetch` there, and the model of groups has
/// no transactions.
const APART: [&str; 3] = ["ConsumerOffsetFetch", "TxnOffsetCommit", "WriteTxnMarker"];

/// Returns the words of the protocol in the compiled module.
#[pyfunction]
fn vocabulary(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("states", State::ALL.map(State::name))?;
    words.set_item("consumer_states", GroupState::ALL.map(GroupState::name))?;
    let transitions: Vec<_> = TRANSITIONS.iter().map(|(from, to)| (from.name(), to.name())).collect();
    words.set_item("transitions", transitions)?;
    let errors = PyDict::new(py);
    for error in ErrorCode::ALL {
        errors.set_item(error.name(), error.code())?;
    }
    words.set_item("errors", errors)?;
    words.set_item("causes", Cause::ALL.map(|cause| format!("{cause:?}")))?;
    words.set_item("waits", Waiting::NAMES)?;
    words.set_item("departures", Departed::ALL.map(Departed::name))?;
    let requests: Vec<&str> = Request::NAMES.iter().copied().filter(|name| !APART.contains(name)).collect();
    words.set_item("requests", requests)?;
    words.set_item("operations", Operation::NAMES)?;
    words.set_item("messages", [REQUESTS, ANSWERS].concat())?;
    Ok(words)
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(vocabulary, module)?)
}
