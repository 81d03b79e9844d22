//! `rota.simulate`: the simulator's worlds, as JSON.

use pyo3::{exceptions::PyValueError, prelude::*};
use rota_sim::fleet::{
    Options,
    faults::Kind,
    faults_of, json, minimise,
    plan::{Plan, Restart},
    protocols::Protocol,
    run, seeds,
    shape::Timeouts,
};

/// Returns the protocol with this name.
fn protocol_named(name: &str) -> PyResult<Protocol> {
    let known = Protocol::ALL.map(Protocol::name).join(", ");
    Protocol::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown protocol `{name}` (expected {known})")))
}

/// Returns what a caller chose of a world; the rest is as usual. Errors: `ValueError`, there is no such protocol.
pub fn chosen(protocol: &str, swarm: bool, engine: bool) -> PyResult<Options> {
    Ok(Options { protocol: protocol_named(protocol)?, swarm, engine, ..Options::default() })
}

/// Runs the world of a seed and returns its report as JSON. `lines` adds one line per event. `minimised` removes faults
/// that the violation does not need; `None` without a violation.
#[pyfunction]
#[pyo3(signature = (seed, *, protocol="all", swarm=false, engine=false, lines=false, minimised=false))]
#[expect(clippy::fn_params_excessive_bools, reason = "named options in Python")]
fn simulate_world(
    py: Python<'_>,
    seed: u64,
    protocol: &str,
    swarm: bool,
    engine: bool,
    lines: bool,
    minimised: bool,
) -> PyResult<Option<String>> {
    let options = Options { lines, ..chosen(protocol, swarm, engine)? };
    Ok(py.detach(|| {
        let faults = faults_of(seed, options);
        let report = if minimised { minimise(seed, &faults, options)? } else { run(seed, &faults, options) };
        Some(json::report(&report).to_string())
    }))
}

/// Runs the worlds of the seeds from `first` to `stop` - 1, up to the first violation, and returns the result as JSON.
#[pyfunction]
#[pyo3(signature = (first, stop, *, protocol="all", swarm=false, engine=false))]
fn simulate_worlds(
    py: Python<'_>,
    first: u64,
    stop: u64,
    protocol: &str,
    swarm: bool,
    engine: bool,
) -> PyResult<String> {
    if first >= stop {
        return Err(PyValueError::new_err(format!("no seeds from {first} to {stop}")));
    }
    let options = chosen(protocol, swarm, engine)?;
    Ok(py.detach(|| json::total(&seeds::run_all(first..stop, options)).to_string()))
}

/// Runs one group with planned restarts, each (index, at ms, for ms, whether it closes its member), and returns the
/// report as JSON. Timeouts are session, heartbeat, poll interval and initial delay, in milliseconds.
#[pyfunction]
#[pyo3(signature = (seed, *, members, partitions, assignor, is_static, timeouts_ms, restarts, until_ms))]
#[expect(clippy::too_many_arguments, reason = "a plan has as many parts")]
fn simulate_plan(
    py: Python<'_>,
    seed: u64,
    members: usize,
    partitions: i32,
    assignor: &str,
    is_static: bool,
    timeouts_ms: (u32, u32, u32, u32),
    restarts: Vec<(usize, u64, u64, bool)>,
    until_ms: u64,
) -> PyResult<String> {
    let assignor = crate::assign::named(assignor)?;
    let (session_ms, heartbeat_ms, rebalance_ms, initial_delay_ms) = timeouts_ms;
    let restarts = restarts.into_iter();
    let plan = Plan {
        members,
        partitions,
        assignor,
        is_static,
        timeouts: Timeouts { session_ms, heartbeat_ms, rebalance_ms, initial_delay_ms },
        restarts: restarts.map(|(member, at_ms, down_ms, closes)| Restart { member, at_ms, down_ms, closes }).collect(),
        until_ms,
    };
    let report = py.detach(|| plan.run(seed)).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(json::report(&report).to_string())
}

/// Returns the kinds of faults with descriptions.
#[pyfunction]
fn simulate_faults() -> Vec<(&'static str, &'static str)> {
    Kind::ALL.iter().map(|kind| (kind.name(), kind.told())).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_world, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_worlds, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_plan, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_faults, module)?)
}
