//! `_rota.explore`: explores every state of the coordinator within bounds, for `rota check` and the tests.

use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};
use std::fmt::Debug;

use rota_sim::{
    consumers, explore as classic,
    search::{self, Found},
};

/// Returns the names of the bounds of `explore`: those of the classic protocol, then those of the newer one.
#[pyfunction]
fn exploration_bounds() -> Vec<&'static str> {
    let names = classic::Bounds::all().into_iter().map(|bounds| bounds.name);
    names.chain(consumers::Bounds::all().into_iter().map(|bounds| bounds.name)).collect()
}

/// Returns the number of cells of state x event x validity, and of those documented as impossible, of both protocols.
#[pyfunction]
fn exploration_cells() -> (usize, usize) {
    let (cells, more) = (classic::cells::all(), consumers::cells::all());
    let argued = cells.iter().filter(|cell| classic::cells::reason(cell).is_some()).count();
    let argued_too = more.iter().filter(|cell| consumers::cells::reason(cell).is_some()).count();
    (cells.len() + more.len(), argued + argued_too)
}

/// Calls `progress` with the number of states so far, and keeps what it raises.
fn told(progress: Option<&Py<PyAny>>, raised: &mut Option<PyErr>, states: u64) -> bool {
    let told = Python::attach(|py| {
        py.check_signals()?;
        progress.map_or(Ok(()), |progress| progress.call1(py, (states,)).map(drop))
    });
    told.map_err(|error| *raised = Some(error)).is_ok()
}

/// Explores every state of the coordinator within these bounds, up to a number of states. Calls `progress` with the
/// number so far.
#[pyfunction]
#[pyo3(signature = (bounds, states_max, workers, progress=None))]
fn explore<'py>(
    py: Python<'py>,
    bounds: &str,
    states_max: usize,
    workers: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (mut raised, workers, progress) = (None, workers.max(1), progress.as_ref());
    if let Some(chosen) = classic::Bounds::named(bounds) {
        let mut tell = |found: &classic::Found| told(progress, &mut raised, found.states);
        let found = py.detach(|| classic::explore(&chosen, states_max, workers, None, &mut tell));
        raised.map_or(Ok(()), Err)?;
        return figures(py, &found, |broken| classic::witness::transcript(broken, &chosen.config));
    }
    let chosen = consumers::Bounds::named(bounds).ok_or_else(|| {
        PyValueError::new_err(format!("unknown bounds `{bounds}` (expected {})", exploration_bounds().join(", ")))
    })?;
    let mut tell = |found: &consumers::Found| told(progress, &mut raised, found.states);
    let found = py.detach(|| consumers::explore(&chosen, states_max, workers, None, &mut tell));
    raised.map_or(Ok(()), Err)?;
    figures(py, &found, consumers::witness)
}

fn figures<'py, V: Debug, E>(
    py: Python<'py>,
    found: &Found<(&'static str, &'static str, V), E>,
    witness: impl Fn(&search::Violation<E>) -> String,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("states", found.states)?;
    told.set_item("transitions", found.transitions)?;
    told.set_item("cut", found.cut)?;
    told.set_item("depth", found.by_depth.len() - 1)?;
    told.set_item("complete", found.complete)?;
    told.set_item("memory_bytes", found.memory_bytes)?;
    told.set_item("checked", &found.checked)?;
    // Events of the newer protocol that are no requests have no cell.
    let cells = found.cells.keys().filter(|(_, kind, _)| !kind.is_empty());
    let cells: Vec<String> = cells.map(|(state, kind, sender)| format!("{state} {kind} {sender:?}")).collect();
    told.set_item("cells", cells)?;
    let violation = found.violation.as_ref();
    told.set_item("violation", violation.map(|broken| (&broken.id, &broken.detail, witness(broken))))?;
    Ok(told)
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(exploration_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(exploration_cells, module)?)?;
    module.add_function(wrap_pyfunction!(explore, module)?)
}
