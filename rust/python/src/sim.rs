//! `_rota.explore`: explores every state of the coordinator within bounds, for `rota check` and the tests.

use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};
use rota_sim::explore::{Bounds, Found, cells, explore as explored, witness};

/// Returns the names of the bounds of `explore`.
#[pyfunction]
fn exploration_bounds() -> Vec<&'static str> {
    Bounds::all().into_iter().map(|bounds| bounds.name).collect()
}

/// Returns the number of cells of state x event x validity, and of those documented as impossible.
#[pyfunction]
fn exploration_cells() -> (usize, usize) {
    let all = cells::all();
    (all.len(), all.iter().filter(|cell| cells::reason(cell).is_some()).count())
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
    let chosen = Bounds::named(bounds).ok_or_else(|| {
        PyValueError::new_err(format!("unknown bounds `{bounds}` (expected {})", exploration_bounds().join(", ")))
    })?;
    let mut raised = None;
    let found = py.detach(|| {
        explored(&chosen, states_max, workers.max(1), None, &mut |found| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (found.states,)).map(drop))
            });
            told.map_err(|error| raised = Some(error)).is_ok()
        })
    });
    raised.map_or(Ok(()), Err)?;
    figures(py, &chosen, &found)
}

fn figures<'py>(py: Python<'py>, bounds: &Bounds, found: &Found) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("states", found.states)?;
    told.set_item("transitions", found.transitions)?;
    told.set_item("cut", found.cut)?;
    told.set_item("depth", found.by_depth.len() - 1)?;
    told.set_item("complete", found.complete)?;
    told.set_item("memory_bytes", found.memory_bytes)?;
    told.set_item("checked", &found.checked)?;
    let cells: Vec<String> =
        found.cells.keys().map(|(state, kind, validity)| format!("{state} {kind} {validity:?}")).collect();
    told.set_item("cells", cells)?;
    let violation = found.violation.as_ref();
    let violation = violation.map(|broken| (&broken.id, &broken.detail, witness::transcript(broken, &bounds.config)));
    told.set_item("violation", violation)?;
    Ok(told)
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(exploration_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(exploration_cells, module)?)?;
    module.add_function(wrap_pyfunction!(explore, module)?)
}
