//! `Wheel` and `Purgatory` of `rota.coordinator`: the core's, with Python objects as payloads.
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use rota_core::purgatory as core_purgatory;
use rota_core::purgatory::OpId;
use rota_core::wheel as core_wheel;
use rota_core::wheel::TimerId;

/// An expired entry: id, deadline in milliseconds, object.
type Fired = (u64, u64, Py<PyAny>);

/// Converts a Python int to milliseconds. The `ValueError` names the argument and its value.
fn instant_ms(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            PyValueError::new_err(format!("`{argument}` must be from 0 to 2**64 - 1 ms, not {value}"))
        } else {
            error
        }
    })
}

/// Converts a Python int to an id; `None` if no id has this number.
fn id_number(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    match value.extract() {
        Ok(number) => Ok(Some(number)),
        Err(error) if PyErr::is_instance_of::<PyOverflowError>(&error, value.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A hierarchical timing wheel of 1 ms ticks on the caller's clock: entries fire in `advance` only.
#[pyclass(module = "rota.coordinator")]
pub struct Wheel {
    wheel: core_wheel::Wheel<Py<PyAny>>,
}

impl Wheel {
    fn id(value: &Bound<'_, PyAny>) -> PyResult<Option<TimerId>> {
        Ok(id_number(value)?.and_then(TimerId::from_number))
    }
}

#[pymethods]
impl Wheel {
    #[new]
    #[pyo3(signature = (now_ms=None), text_signature = "(now_ms=0)")]
    fn new(now_ms: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let now_ms = now_ms.map_or(Ok(0), |value| instant_ms("now_ms", value))?;
        Ok(Self { wheel: core_wheel::Wheel::new(now_ms) })
    }

    /// The wheel's time in ms.
    #[getter]
    fn now_ms(&self) -> u64 {
        self.wheel.now_ms()
    }

    /// Arms `payload` for `deadline_ms`; returns its id.
    fn arm(&mut self, deadline_ms: &Bound<'_, PyAny>, payload: Py<PyAny>) -> PyResult<u64> {
        Ok(self.wheel.arm(instant_ms("deadline_ms", deadline_ms)?, payload).number())
    }

    /// Sets a new deadline; False if the entry is gone.
    fn rearm(&mut self, timer_id: &Bound<'_, PyAny>, deadline_ms: &Bound<'_, PyAny>) -> PyResult<bool> {
        let deadline_ms = instant_ms("deadline_ms", deadline_ms)?;
        Ok(Self::id(timer_id)?.is_some_and(|id| self.wheel.rearm(id, deadline_ms)))
    }

    /// Cancels an entry and returns its payload; None if it is gone.
    fn cancel(&mut self, timer_id: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        Ok(Self::id(timer_id)?.and_then(|id| self.wheel.cancel(id)))
    }

    /// Returns an entry's deadline in milliseconds; None if it is gone.
    fn deadline(&self, timer_id: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        Ok(Self::id(timer_id)?.and_then(|id| self.wheel.deadline(id)))
    }

    /// Advances the time and returns due entries as (id, deadline in milliseconds, payload), by deadline, then arming
    /// order.
    fn advance(&mut self, now_ms: &Bound<'_, PyAny>) -> PyResult<Vec<Fired>> {
        let mut due = self.wheel.advance(instant_ms("now_ms", now_ms)?);
        let mut fired = Vec::with_capacity(due.len());
        while let Some((id, deadline_ms, payload)) = self.wheel.take_due(&mut due) {
            fired.push((id.number(), deadline_ms, payload));
        }
        Ok(fired)
    }

    /// Returns when to advance next, in milliseconds: at or before every deadline; None if nothing is armed.
    fn next_deadline(&self) -> Option<u64> {
        self.wheel.next_deadline()
    }

    fn __len__(&self) -> usize {
        self.wheel.len()
    }

    fn __repr__(&self) -> String {
        format!("<rota.Wheel at {} ms, {} armed>", self.wheel.now_ms(), self.wheel.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.wheel.iter().try_for_each(|(_, _, payload)| visit.call(payload))
    }

    fn __clear__(&mut self) {
        self.wheel = core_wheel::Wheel::new(self.wheel.now_ms());
    }
}

/// Operations that wait for a condition or their deadline, on the caller's clock and without callbacks.
#[pyclass(module = "rota.coordinator")]
pub struct Purgatory {
    purgatory: core_purgatory::Purgatory<String, Py<PyAny>>,
}

impl Purgatory {
    fn id(value: &Bound<'_, PyAny>) -> PyResult<Option<OpId>> {
        Ok(id_number(value)?.and_then(OpId::from_number))
    }
}

#[pymethods]
impl Purgatory {
    #[new]
    #[pyo3(signature = (now_ms=None), text_signature = "(now_ms=0)")]
    fn new(now_ms: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let now_ms = now_ms.map_or(Ok(0), |value| instant_ms("now_ms", value))?;
        Ok(Self { purgatory: core_purgatory::Purgatory::new(now_ms) })
    }

    /// The purgatory's time in ms.
    #[getter]
    fn now_ms(&self) -> u64 {
        self.purgatory.now_ms()
    }

    /// Adds an `operation` that waits until `deadline_ms`, watched under `keys`; returns its id.
    fn watch(&mut self, operation: Py<PyAny>, deadline_ms: &Bound<'_, PyAny>, keys: Vec<String>) -> PyResult<u64> {
        Ok(self.purgatory.watch(instant_ms("deadline_ms", deadline_ms)?, &keys, operation).number())
    }

    /// Returns the operations that `key` watches as (id, operation), in watching order.
    fn check(&self, py: Python<'_>, key: String) -> Vec<(u64, Py<PyAny>)> {
        let operation = |id: OpId| Some((id.number(), self.purgatory.get(id)?.clone_ref(py)));
        self.purgatory.check(&key).into_iter().filter_map(operation).collect()
    }

    /// Returns how many operations `key` watches.
    fn watched(&self, key: String) -> usize {
        self.purgatory.watched(&key)
    }

    /// Removes an operation with its deadline and watches; None if it is gone.
    fn complete(&mut self, operation_id: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        Ok(Self::id(operation_id)?.and_then(|id| self.purgatory.complete(id)))
    }

    /// Sets a new deadline of an operation; False if it is gone.
    fn rearm(&mut self, operation_id: &Bound<'_, PyAny>, deadline_ms: &Bound<'_, PyAny>) -> PyResult<bool> {
        let deadline_ms = instant_ms("deadline_ms", deadline_ms)?;
        Ok(Self::id(operation_id)?.is_some_and(|id| self.purgatory.rearm(id, deadline_ms)))
    }

    /// Returns an operation's deadline in milliseconds; None if it is gone.
    fn deadline(&self, operation_id: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        Ok(Self::id(operation_id)?.and_then(|id| self.purgatory.deadline(id)))
    }

    /// Advances the time and returns expired operations as (id, deadline in milliseconds, operation), by deadline, then
    /// arming order.
    fn advance(&mut self, now_ms: &Bound<'_, PyAny>) -> PyResult<Vec<Fired>> {
        let mut due = self.purgatory.advance(instant_ms("now_ms", now_ms)?);
        let mut expired = Vec::with_capacity(due.len());
        while let Some((id, deadline_ms, operation)) = self.purgatory.take_expired(&mut due) {
            expired.push((id.number(), deadline_ms, operation));
        }
        Ok(expired)
    }

    /// Returns when to advance next, in milliseconds: at or before every deadline; None if nothing waits.
    fn next_deadline(&self) -> Option<u64> {
        self.purgatory.next_deadline()
    }

    fn __len__(&self) -> usize {
        self.purgatory.len()
    }

    fn __repr__(&self) -> String {
        format!("<rota.Purgatory at {} ms, {} waiting>", self.purgatory.now_ms(), self.purgatory.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.purgatory.iter().try_for_each(|(_, _, operation)| visit.call(operation))
    }

    fn __clear__(&mut self) {
        self.purgatory = core_purgatory::Purgatory::new(self.purgatory.now_ms());
    }
}

/// Adds both classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wheel>()?;
    module.add_class::<Purgatory>()
}
