//! `rota.coordinator.Coordinator`: the core's methods under the same names, with the caller's clock.

use std::sync::{Mutex, MutexGuard};

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    sync::MutexExt,
    types::{PyBytes, PyMapping, PyType},
};
use rota_core::{
    AppendId, Entropy, ErrorCode, LogEntry, Now, Phase, Record, Ticket, consumer_group::topics::TopicMetadata,
};

use crate::{
    answers::{Effect, Effects},
    arrays::{Number, array, copied},
    config::{configs_from, group_settings_from},
    consumer_view::ConsumerView,
    errors::{self, Code, InvariantViolation, RotaError, SnapshotError},
    explain::{Explanation, explanation},
    projection::Projection,
    records::PyRecord,
    requests::with_request,
    values::{self, Epoch, Millis, PartitionNumber, RecordOffset},
};

/// Wall time at monotonic 0 if the caller gives none: 14 November 2023.
pub const EPOCH_MS: i64 = 1_700_000_000_000;

/// The handle of an unknown member in `member_handles`. `heartbeats` answers it with `UNKNOWN_MEMBER_ID`.
const NOBODY: u64 = u64::MAX;

/// The coordinator of one partition of `__consumer_offsets`, in this process and in your own time.
#[pyclass(frozen, module = "rota.coordinator")]
pub struct Coordinator {
    // Never held while Python code can run: effects become Python objects after its release.
    core: Mutex<rota_core::Coordinator>,
}

impl Coordinator {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, rota_core::Coordinator>> {
        let guard = self.core.lock_py_attached(py);
        guard.map_err(|_| RotaError::new_err("an earlier call panicked: this coordinator can no longer be used"))
    }

    /// Runs one event: checks the clock, calls the core, and collects its effects in order.
    fn step(
        &self,
        py: Python<'_>,
        now_ms: Millis,
        wall_ms: Option<i64>,
        verb: impl FnOnce(&mut rota_core::Coordinator, Now, &mut Effects) -> PyResult<()>,
    ) -> PyResult<Vec<Effect>> {
        let mut effects = Effects::default();
        let mut core = self.lock(py)?;
        let now = tick(&core, now_ms, wall_ms)?;
        verb(&mut core, now, &mut effects)?;
        Ok(effects.0)
    }

    /// Like `step`, for methods that are allowed before `loaded` only.
    fn loading(&self, py: Python<'_>, verb: &str, call: impl FnOnce(&mut rota_core::Coordinator)) -> PyResult<()> {
        let mut core = self.lock(py)?;
        require_loading(&core, verb)?;
        call(&mut core);
        Ok(())
    }
}

/// Returns the time of an event. The clock must not go back.
fn tick(core: &rota_core::Coordinator, now_ms: Millis, wall_ms: Option<i64>) -> PyResult<Now> {
    let latest_ms = core.now().mono_ms;
    if now_ms.0 < latest_ms {
        return Err(PyValueError::new_err(format!("now_ms went back: {} after {latest_ms}", now_ms.0)));
    }
    let since_epoch_ms = i64::try_from(now_ms.0).unwrap_or(i64::MAX);
    Ok(Now { mono_ms: now_ms.0, wall_ms: wall_ms.unwrap_or(EPOCH_MS.saturating_add(since_epoch_ms)) })
}

fn require_loading(core: &rota_core::Coordinator, verb: &str) -> PyResult<()> {
    match core.phase() {
        Phase::Loading => Ok(()),
        phase => Err(RotaError::new_err(format!("`{verb}` requires a loading coordinator; this one is {phase:?}"))),
    }
}

#[pymethods]
impl Coordinator {
    #[new]
    #[pyo3(
        signature = (config=None, *, partition=PartitionNumber(0), epoch=Epoch(1)),
        text_signature = "(config=None, *, partition=0, epoch=1)"
    )]
    fn new(config: Option<&Bound<'_, PyMapping>>, partition: PartitionNumber, epoch: Epoch) -> PyResult<Self> {
        let (config, consumer) = configs_from(config)?;
        let mut core = rota_core::Coordinator::new(config, partition.0, epoch.0);
        core.configure_consumer_groups(consumer);
        Ok(Coordinator { core: Mutex::new(core) })
    }

    /// Restores a snapshot.
    #[classmethod]
    fn restore(_class: &Bound<'_, PyType>, data: &[u8]) -> PyResult<Self> {
        let core = rota_core::Coordinator::restore(data).map_err(|error| SnapshotError::new_err(error.to_string()))?;
        Ok(Coordinator { core: Mutex::new(core) })
    }

    /// The partition of `__consumer_offsets` that this coordinator owns.
    #[getter]
    fn partition(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.lock(py)?.partition())
    }

    /// The epoch of its ownership.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.lock(py)?.epoch())
    }

    /// `Loading`, `Active`, `Failed` or `Unloaded`.
    #[getter]
    fn phase(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{:?}", self.lock(py)?.phase()))
    }

    /// The latest time of an event in monotonic milliseconds.
    #[getter]
    fn now_ms(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.now().mono_ms)
    }

    /// Applies one committed record.
    fn replay(&self, py: Python<'_>, record: PyRecord, offset: RecordOffset, timestamp_ms: i64) -> PyResult<()> {
        let entry = LogEntry { offset: offset.0, timestamp_ms, record: Record::from(&record) };
        self.loading(py, "replay", |core| core.replay(&entry))
    }

    /// Completes loading: sessions start, and groups with too many members rebalance.
    #[pyo3(signature = (now_ms, wall_ms=None))]
    fn loaded(&self, py: Python<'_>, now_ms: Millis, wall_ms: Option<i64>) -> PyResult<Vec<Effect>> {
        require_loading(&*self.lock(py)?, "loaded")?;
        self.step(py, now_ms, wall_ms, |core, now, sink| {
            core.loaded(now, sink);
            Ok(())
        })
    }

    /// Fails loading, because the log could not be read.
    fn load_failed(&self, py: Python<'_>) -> PyResult<()> {
        self.loading(py, "load_failed", rota_core::Coordinator::load_failed)
    }

    /// Handles one request. It is answered exactly once, now or later.
    #[pyo3(signature = (now_ms, ticket, request, *, entropy, wall_ms=None))]
    fn submit(
        &self,
        py: Python<'_>,
        now_ms: Millis,
        ticket: values::Ticket,
        request: &Bound<'_, PyAny>,
        entropy: u128,
        wall_ms: Option<i64>,
    ) -> PyResult<Vec<Effect>> {
        self.step(py, now_ms, wall_ms, |core, now, sink| {
            with_request(request, |request| core.submit(now, Ticket(ticket.0), Entropy(entropy), request, sink))
        })
    }

    /// Fires every deadline up to now.
    #[pyo3(signature = (now_ms, wall_ms=None))]
    fn advance(&self, py: Python<'_>, now_ms: Millis, wall_ms: Option<i64>) -> PyResult<Vec<Effect>> {
        self.step(py, now_ms, wall_ms, |core, now, sink| {
            core.advance(now, sink);
            Ok(())
        })
    }

    /// Returns when to call `advance` next, in monotonic milliseconds: never late, possibly early.
    fn next_deadline(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.lock(py)?.next_deadline())
    }

    /// Reports the result of an append: its offset, or the error.
    #[pyo3(signature = (append_id, result, now_ms, wall_ms=None))]
    fn appended(
        &self,
        py: Python<'_>,
        append_id: values::AppendId,
        result: &Bound<'_, PyAny>,
        now_ms: Millis,
        wall_ms: Option<i64>,
    ) -> PyResult<Vec<Effect>> {
        let result = append_result(result)?;
        self.step(py, now_ms, wall_ms, |core, now, sink| {
            core.appended(AppendId(append_id.0), result, now, sink);
            Ok(())
        })
    }

    /// Removes the offsets of deleted topics.
    #[pyo3(signature = (topics, now_ms, wall_ms=None))]
    fn topics_deleted(
        &self,
        py: Python<'_>,
        topics: Vec<String>,
        now_ms: Millis,
        wall_ms: Option<i64>,
    ) -> PyResult<Vec<Effect>> {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        self.step(py, now_ms, wall_ms, |core, now, sink| {
            core.topics_deleted(&topics, now, sink);
            Ok(())
        })
    }

    /// Reports new and changed topics: (name, id, number of partitions).
    #[pyo3(signature = (topics, now_ms, wall_ms=None))]
    fn topics_changed(
        &self,
        py: Python<'_>,
        topics: Vec<(String, u128, i32)>,
        now_ms: Millis,
        wall_ms: Option<i64>,
    ) -> PyResult<Vec<Effect>> {
        let topic = |(name, topic_id, partitions): (String, u128, i32)| TopicMetadata {
            name: name.into(),
            topic_id,
            partitions,
            racks: Vec::new(),
        };
        let topics: Vec<TopicMetadata> = topics.into_iter().map(topic).collect();
        self.step(py, now_ms, wall_ms, |core, now, _| {
            core.topics_changed(&topics, now);
            Ok(())
        })
    }

    /// Changes the settings of a single group. An empty mapping returns to those of the coordinator.
    fn configure_group(&self, py: Python<'_>, group_id: &str, settings: &Bound<'_, PyMapping>) -> PyResult<()> {
        let settings = group_settings_from(settings)?;
        self.lock(py)?.configure_group(group_id, settings);
        Ok(())
    }

    /// Gives up ownership: waiting requests get `NOT_COORDINATOR`.
    #[pyo3(signature = (now_ms, wall_ms=None))]
    fn unload(&self, py: Python<'_>, now_ms: Millis, wall_ms: Option<i64>) -> PyResult<Vec<Effect>> {
        self.step(py, now_ms, wall_ms, |core, now, sink| {
            core.unload(now, sink);
            Ok(())
        })
    }

    /// Explains what a group is doing, what it waits for, and why it rebalanced lately, at `now_ms` or the latest
    /// event.
    #[pyo3(signature = (group_id, now_ms=None))]
    fn explain(&self, py: Python<'_>, group_id: &str, now_ms: Option<Millis>) -> PyResult<Option<Explanation>> {
        let core = self.lock(py)?;
        let latest_ms = core.now().mono_ms;
        let now_ms = now_ms.map_or(latest_ms, |now_ms| now_ms.0.max(latest_ms));
        Ok(core.explain(group_id, now_ms).map(|explained| explanation(group_id, now_ms, &explained)))
    }

    /// Returns one consumer group as plain data.
    fn view_consumer_group(&self, py: Python<'_>, group_id: &str) -> PyResult<Option<ConsumerView>> {
        Ok(self.lock(py)?.view_consumer_group(group_id).as_ref().map(ConsumerView::from))
    }

    /// Returns one group's state as plain data.
    fn project(&self, py: Python<'_>, group_id: &str) -> PyResult<Option<Projection>> {
        Ok(self.lock(py)?.project(group_id).as_ref().map(Projection::from))
    }

    /// Returns a 64-bit hash of a group's projection.
    fn digest(&self, py: Python<'_>, group_id: &str) -> PyResult<Option<u64>> {
        Ok(self.lock(py)?.digest(group_id))
    }

    /// Returns the ids of all groups, sorted.
    fn group_ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.lock(py)?.group_ids().iter().map(ToString::to_string).collect())
    }

    /// Serializes the whole state, with parked requests and deadlines.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.lock(py)?.snapshot();
        Ok(PyBytes::new(py, &bytes))
    }

    /// Raises `InvariantViolation` if the state breaks an invariant.
    fn check_invariants(&self, py: Python<'_>) -> PyResult<()> {
        let checked = self.lock(py)?.check_invariants();
        checked.map_err(|violation| InvariantViolation::new_err(violation.to_string()))
    }

    /// Returns handles of members for `heartbeats`.
    fn member_handles<'py>(
        &self,
        py: Python<'py>,
        group_id: &str,
        member_ids: Vec<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let core = self.lock(py)?;
        let handle = |member_id: &String| core.member_handle(group_id, member_id).unwrap_or(NOBODY);
        let handles: Vec<u64> = member_ids.iter().map(handle).collect();
        drop(core);
        array(py, &handles)
    }

    /// Handles one heartbeat per element, with the interpreter lock released.
    fn heartbeats<'py>(
        &self,
        py: Python<'py>,
        now_ms: Millis,
        handles: &Bound<'py, PyAny>,
        generations: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handles: Vec<u64> = column("handles", handles)?;
        let generations: Vec<i32> = column("generations", generations)?;
        if handles.len() != generations.len() {
            return Err(PyValueError::new_err(format!(
                "handles and generations must have the same length, not {} and {}",
                handles.len(),
                generations.len()
            )));
        }
        let codes = py.detach(|| {
            let mut codes = vec![0_i16; handles.len()];
            let mut core = self.core.lock().ok()?;
            let now = tick(&core, now_ms, None);
            Some(now.map(|now| {
                core.heartbeats_by_handle(now, &handles, &generations, &mut codes);
                codes
            }))
        });
        let codes = codes.ok_or_else(|| RotaError::new_err("an earlier call panicked"))??;
        array(py, &codes)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let core = self.lock(py)?;
        Ok(format!(
            "<rota.Coordinator of partition {}, epoch {}: {:?}, {} groups, {} ms>",
            core.partition(),
            core.epoch(),
            core.phase(),
            core.group_ids().len(),
            core.now().mono_ms
        ))
    }
}

/// Returns an offset, or the error of a failed append.
pub fn append_result(result: &Bound<'_, PyAny>) -> PyResult<Result<u64, ErrorCode>> {
    if result.is_instance(&errors::error_code_class(result.py())?)? {
        return match result.extract::<Code>()?.0 {
            ErrorCode::None => {
                Err(PyValueError::new_err("ErrorCode.NONE is not the result of an append: give its offset"))
            }
            error => Ok(Err(error)),
        };
    }
    let offset = result.extract::<u64>();
    offset.map(Ok).map_err(|_| PyTypeError::new_err("the result is an offset (an int from 0) or an ErrorCode"))
}

fn column<T: Number>(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    copied(array).map_err(|complaint| PyValueError::new_err(format!("{name} must be {complaint}")))
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Coordinator>()
}
