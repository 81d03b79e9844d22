//! `_rota.bench_*`: the measurements of `rota bench`.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::atomic::AtomicBool,
    time::Duration,
};

use pyo3::{exceptions::PyOSError, prelude::*};
use rota_bench::{
    BenchError,
    core_path::{Crowd, HeartbeatRun},
    crowd::{self, CrowdPlan, Seat},
    echo,
    floors::{self, Floor},
    load::{self, LoadPlan},
    storm::{self, StormPlan},
};

/// Group, member id, generation.
type SeatRow = (String, String, i32);
/// Name, count, seconds.
type FloorRow = (String, u64, f64);
/// Seconds, requests, generations, seconds of the median, 99th percentile and slowest join, and the seats.
type StormRow = (f64, u64, i32, (f64, f64, f64), Vec<SeatRow>);
/// (Share, nanoseconds) along a distribution.
type Points = Vec<(f64, u64)>;
/// Answers, errors, seconds, durations of answers, and delays of the load itself.
type LoadRow = (u64, u64, f64, Points, Points);

fn failed(error: BenchError) -> PyErr {
    PyOSError::new_err(error.0)
}

fn resolved(broker: &str) -> PyResult<SocketAddr> {
    let mut addresses = broker.to_socket_addrs().map_err(|error| PyOSError::new_err(format!("`{broker}`: {error}")))?;
    addresses.next().ok_or_else(|| PyOSError::new_err(format!("`{broker}` has no address")))
}

fn seat((group, member_id, generation): SeatRow) -> Seat {
    Seat { group, member_id, generation }
}

fn floor_row(floor: Floor) -> FloorRow {
    (floor.what, floor.count, floor.elapsed.as_secs_f64())
}

fn beats_row(beats: HeartbeatRun) -> (u64, f64) {
    (beats.count, beats.elapsed.as_secs_f64())
}

/// Joins members at a broker. Returns group, member id and generation of each.
#[pyfunction]
fn bench_assemble(
    py: Python<'_>,
    broker: &str,
    members: usize,
    group_members: usize,
    session_timeout_ms: i32,
    prefix: String,
) -> PyResult<Vec<SeatRow>> {
    let (broker, plan) = (resolved(broker)?, CrowdPlan { members, group_members, session_timeout_ms, prefix });
    let seats = py.detach(|| crowd::assemble(broker, &plan)).map_err(failed)?;
    Ok(seats.into_iter().map(|seat| (seat.group, seat.member_id, seat.generation)).collect())
}

/// Removes members from their groups.
#[pyfunction]
fn bench_dismiss(py: Python<'_>, broker: &str, seats: Vec<SeatRow>) -> PyResult<()> {
    let (broker, seats) = (resolved(broker)?, seats.into_iter().map(seat).collect::<Vec<_>>());
    py.detach(|| crowd::dismiss(broker, &seats)).map_err(failed)
}

/// Sends heartbeats of members. Returns answers, errors among them, seconds, and nanoseconds by share.
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
#[pyfunction]
#[pyo3(signature = (broker, seats, *, connections, depth, warm_up_s, seconds, rate=None))]
fn bench_load(
    py: Python<'_>,
    broker: &str,
    seats: Vec<SeatRow>,
    connections: usize,
    depth: usize,
    warm_up_s: f64,
    seconds: f64,
    rate: Option<f64>,
) -> PyResult<LoadRow> {
    let (broker, seats) = (resolved(broker)?, seats.into_iter().map(seat).collect::<Vec<_>>());
    let (warm_up, duration) = (Duration::from_secs_f64(warm_up_s), Duration::from_secs_f64(seconds));
    let plan = LoadPlan { connections, depth, warm_up, duration, rate, tls: None };
    let measured = py.detach(|| load::run(broker, &seats, &plan)).map_err(failed)?;
    let (took, late) = (load::points(&measured.took_ns), load::points(&measured.late_ns));
    Ok((measured.answers, measured.errors, measured.elapsed.as_secs_f64(), took, late))
}

/// Joins all members of some groups at once.
#[pyfunction]
fn bench_storm(
    py: Python<'_>,
    broker: &str,
    groups: usize,
    group_members: usize,
    session_timeout_ms: i32,
    prefix: String,
) -> PyResult<StormRow> {
    let (broker, plan) = (resolved(broker)?, StormPlan { groups, group_members, session_timeout_ms, prefix });
    let storm = py.detach(|| storm::run(broker, &plan)).map_err(failed)?;
    let took_s = |share: f64| Duration::from_nanos(storm.joins_ns.value_at_quantile(share)).as_secs_f64();
    let seats = storm.seats.into_iter().map(|seat| (seat.group, seat.member_id, seat.generation)).collect();
    let joins = (took_s(0.5), took_s(0.99), took_s(1.0));
    Ok((storm.elapsed.as_secs_f64(), storm.requests, storm.generations, joins, seats))
}

/// Runs the echo server: calls `listening` with its port, and answers until the process ends.
#[pyfunction]
fn bench_echo(py: Python<'_>, address: &str, listening: Bound<'_, PyAny>) -> PyResult<()> {
    let (echo, local) = echo::listen(resolved(address)?).map_err(failed)?;
    listening.call1((local.port(),))?;
    py.detach(|| echo::serve(echo, &AtomicBool::new(false))).map_err(failed)
}

/// Heartbeats through the coordinator without sockets.
#[pyclass(module = "rota._rota")]
struct BenchCrowd {
    crowd: Crowd,
}

#[pymethods]
impl BenchCrowd {
    #[new]
    fn new(py: Python<'_>, members: usize) -> PyResult<BenchCrowd> {
        Ok(BenchCrowd { crowd: py.detach(|| Crowd::assemble(members)).map_err(failed)? })
    }

    /// Runs requests from bytes to answers in bytes. Returns their number and seconds.
    fn requests(&mut self, py: Python<'_>, seconds: f64) -> PyResult<(u64, f64)> {
        let duration = Duration::from_secs_f64(seconds);
        py.detach(|| self.crowd.requests(duration)).map(beats_row).map_err(failed)
    }

    /// Like `requests`, one request at a time.
    fn requests_singly(&mut self, py: Python<'_>, seconds: f64) -> PyResult<(u64, f64)> {
        let duration = Duration::from_secs_f64(seconds);
        py.detach(|| self.crowd.requests_singly(duration)).map(beats_row).map_err(failed)
    }

    /// Runs heartbeats by arrays of handles. Returns their number and seconds.
    fn handles(&mut self, py: Python<'_>, seconds: f64) -> PyResult<(u64, f64)> {
        let duration = Duration::from_secs_f64(seconds);
        py.detach(|| self.crowd.handles(duration)).map(beats_row).map_err(failed)
    }
}

/// Measures readings of the clock.
#[pyfunction]
fn bench_clock(py: Python<'_>, seconds: f64) -> FloorRow {
    py.detach(|| floor_row(floors::clock(Duration::from_secs_f64(seconds))))
}

/// Measures loads that depend on each other.
#[pyfunction]
fn bench_loads(py: Python<'_>, size_bytes: usize, seconds: f64) -> FloorRow {
    py.detach(|| floor_row(floors::dependent_loads(size_bytes, Duration::from_secs_f64(seconds))))
}

/// Measures hits in a map of member ids.
#[pyfunction]
fn bench_map_hits(py: Python<'_>, members: usize, seconds: f64) -> FloorRow {
    py.detach(|| floor_row(floors::map_hits(members, Duration::from_secs_f64(seconds))))
}

/// Measures blocks of 4 KiB written in place and synced.
#[pyfunction]
fn bench_syncs(py: Python<'_>, directory: PathBuf, seconds: f64) -> PyResult<FloorRow> {
    let floor = py.detach(|| floors::syncs(&directory, Duration::from_secs_f64(seconds)));
    floor.map(floor_row).map_err(failed)
}

/// Adds the functions and the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BenchCrowd>()?;
    module.add_function(wrap_pyfunction!(bench_assemble, module)?)?;
    module.add_function(wrap_pyfunction!(bench_dismiss, module)?)?;
    module.add_function(wrap_pyfunction!(bench_load, module)?)?;
    module.add_function(wrap_pyfunction!(bench_storm, module)?)?;
    module.add_function(wrap_pyfunction!(bench_echo, module)?)?;
    module.add_function(wrap_pyfunction!(bench_clock, module)?)?;
    module.add_function(wrap_pyfunction!(bench_loads, module)?)?;
    module.add_function(wrap_pyfunction!(bench_map_hits, module)?)?;
    module.add_function(wrap_pyfunction!(bench_syncs, module)?)
}
