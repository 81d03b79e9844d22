//! `_rota.Naive` and `_rota.explore`: what holds the coordinator to the protocol page, for `rota check` and the tests.

use std::sync::{Mutex, MutexGuard};

use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    sync::MutexExt,
    types::{PyDict, PyMapping},
};
use rota_core::{AppendId, Entropy, LogEntry, Now, Record, Ticket};
use rota_sim::explore::{Bounds, Found, cells, explore as explored, witness};

use crate::{
    answers::{Effect, Effects},
    config::config_from,
    coordinator::{EPOCH_MS, append_result},
    errors::RotaError,
    records::PyRecord,
    requests::with_request,
};

/// The naive coordinator, with the verbs of `rota.coordinator.Coordinator`.
#[pyclass(frozen, module = "rota._rota")]
pub struct Naive {
    naive: Mutex<rota_sim::Naive>,
}

fn at(now_ms: u64) -> Now {
    Now { mono_ms: now_ms, wall_ms: EPOCH_MS.saturating_add(i64::try_from(now_ms).unwrap_or(i64::MAX)) }
}

impl Naive {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, rota_sim::Naive>> {
        let guard = self.naive.lock_py_attached(py);
        guard.map_err(|_| RotaError::new_err("an earlier call panicked; this coordinator cannot be used any more"))
    }
}

#[pymethods]
impl Naive {
    #[new]
    #[pyo3(signature = (config=None))]
    fn new(config: Option<&Bound<'_, PyMapping>>) -> PyResult<Self> {
        Ok(Naive { naive: Mutex::new(rota_sim::Naive::new(config_from(config)?)) })
    }

    fn replay(&self, py: Python<'_>, record: PyRecord, offset: u64, timestamp_ms: i64) -> PyResult<()> {
        let entry = LogEntry { offset, timestamp_ms, record: Record::from(&record) };
        self.lock(py)?.replay(&entry);
        Ok(())
    }

    fn loaded(&self, py: Python<'_>, now_ms: u64) -> PyResult<Vec<Effect>> {
        let mut effects = Effects::default();
        self.lock(py)?.loaded(at(now_ms), &mut effects);
        Ok(effects.0)
    }

    #[pyo3(signature = (now_ms, ticket, request, *, entropy))]
    fn submit(
        &self,
        py: Python<'_>,
        now_ms: u64,
        ticket: u64,
        request: &Bound<'_, PyAny>,
        entropy: u128,
    ) -> PyResult<Vec<Effect>> {
        let mut effects = Effects::default();
        let mut naive = self.lock(py)?;
        with_request(request, |request| {
            naive.submit(at(now_ms), Ticket(ticket), Entropy(entropy), request, &mut effects);
        })?;
        Ok(effects.0)
    }

    fn advance(&self, py: Python<'_>, now_ms: u64) -> PyResult<Vec<Effect>> {
        let mut effects = Effects::default();
        self.lock(py)?.advance(at(now_ms), &mut effects);
        Ok(effects.0)
    }

    fn next_deadline(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.lock(py)?.next_deadline())
    }

    fn appended(
        &self,
        py: Python<'_>,
        append_id: u64,
        result: &Bound<'_, PyAny>,
        now_ms: u64,
    ) -> PyResult<Vec<Effect>> {
        let result = append_result(result)?;
        let mut effects = Effects::default();
        self.lock(py)?.appended(AppendId(append_id), result, at(now_ms), &mut effects);
        Ok(effects.0)
    }

    fn topics_deleted(&self, py: Python<'_>, topics: Vec<String>, now_ms: u64) -> PyResult<Vec<Effect>> {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let mut effects = Effects::default();
        self.lock(py)?.topics_deleted(&topics, at(now_ms), &mut effects);
        Ok(effects.0)
    }

    fn unload(&self, py: Python<'_>, now_ms: u64) -> PyResult<Vec<Effect>> {
        let mut effects = Effects::default();
        self.lock(py)?.unload(at(now_ms), &mut effects);
        Ok(effects.0)
    }
}

/// The names of the bounds that `explore` knows.
#[pyfunction]
fn exploration_bounds() -> Vec<&'static str> {
    Bounds::all().into_iter().map(|bounds| bounds.name).collect()
}

/// How many cells of state x event x validity there are, and how many of them are argued not to come up.
#[pyfunction]
fn exploration_cells() -> (usize, usize) {
    let all = cells::all();
    (all.len(), all.iter().filter(|cell| cells::reason(cell).is_some()).count())
}

/// Every state of the coordinator within these bounds, until so many are known; `progress` is told how many are.
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
        PyValueError::new_err(format!("no bounds are called `{bounds}` (expected {})", exploration_bounds().join(", ")))
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

/// Adds the class and the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Naive>()?;
    module.add_function(wrap_pyfunction!(exploration_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(exploration_cells, module)?)?;
    module.add_function(wrap_pyfunction!(explore, module)?)
}
