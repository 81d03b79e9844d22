//! `rota.simulate`: the simulator's worlds, as JSON.

use pyo3::{exceptions::PyValueError, prelude::*};
use rota_sim::fleet::{Options, faults::Kind, faults_of, json, minimise, run, seeds};

/// Runs the world of a seed; its report as JSON. `lines` asks for one line for each thing that happens. `minimised`
/// leaves out the faults that are not needed to break it; `None` if nothing breaks.
#[pyfunction]
#[pyo3(signature = (seed, *, swarm=false, lines=false, minimised=false))]
fn simulate_world(py: Python<'_>, seed: u64, swarm: bool, lines: bool, minimised: bool) -> Option<String> {
    py.detach(|| {
        let options = Options { swarm, lines, planted: None };
        let faults = faults_of(seed, swarm);
        let report = if minimised { minimise(seed, &faults, options)? } else { run(seed, &faults, options) };
        Some(json::report(&report).to_string())
    })
}

/// Runs the worlds of the seeds from `first` to `stop` - 1, up to the first that breaks; what they came to as JSON.
#[pyfunction]
#[pyo3(signature = (first, stop, *, swarm=false))]
fn simulate_worlds(py: Python<'_>, first: u64, stop: u64, swarm: bool) -> PyResult<String> {
    if first >= stop {
        return Err(PyValueError::new_err(format!("no seeds from {first} to {stop}")));
    }
    let options = Options { swarm, ..Options::default() };
    Ok(py.detach(|| json::total(&seeds::run_all(first..stop, options)).to_string()))
}

/// The kinds of faults, and what each does.
#[pyfunction]
fn simulate_faults() -> Vec<(&'static str, &'static str)> {
    Kind::ALL.iter().map(|kind| (kind.name(), kind.told())).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_world, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_worlds, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_faults, module)?)
}
