//! The words that the core's enums use, for a test to hold them to `specs/vocabulary.toml`.

use pyo3::{prelude::*, types::PyDict};
use rota_core::{
    ErrorCode, State,
    explain::{Cause, Departed, Waiting},
    operations::Operation,
    states::TRANSITIONS,
};

use crate::requests;

/// The words of the protocol as the compiled module has them.
#[pyfunction]
fn vocabulary(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("states", State::ALL.map(State::name))?;
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
    words.set_item("requests", requests::NAMES)?;
    words.set_item("operations", Operation::NAMES)?;
    Ok(words)
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(vocabulary, module)?)
}
