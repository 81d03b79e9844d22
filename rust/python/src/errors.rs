//! The exceptions, and the protocol's error codes as `rota.protocol.ErrorCode`.

use pyo3::{
    Borrowed, create_exception,
    exceptions::{PyException, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyTuple, PyType},
};
use rota_core::ErrorCode;

create_exception!(rota, RotaError, PyException, "Base class of the exceptions of rota.");
create_exception!(rota, ConfigError, RotaError, "Unknown setting, or invalid value of a setting.");
create_exception!(
    rota,
    InvariantViolation,
    RotaError,
    "The coordinator's state violates an invariant: a bug in rota. The message begins with the invariant's id."
);
create_exception!(rota, SnapshotError, RotaError, "Invalid snapshot, or a snapshot of another version of rota.");
create_exception!(rota, RecordError, RotaError, "Invalid record of `__consumer_offsets`.");
create_exception!(rota, EmbeddedError, RotaError, "Invalid message of the embedded consumer protocol.");
create_exception!(rota, EngineError, RotaError, "The engine of a cluster does not answer, or refuses.");
create_exception!(rota, ServerError, RotaError, "The server could not start, or stopped unexpectedly.");

static NOT_FOUND: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// `rota.NotFoundError`: a `RotaError`, and also a `ValueError`, which these calls raised before.
fn not_found_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let class = NOT_FOUND.get_or_try_init(py, || {
        let bases = PyTuple::new(py, [py.get_type::<RotaError>(), py.get_type::<PyValueError>()])?;
        let members = PyDict::new(py);
        members.set_item("__module__", "rota")?;
        let doc = "Unknown group, member, topic, partition, node or transactional id. `what` says which.";
        members.set_item("__doc__", doc)?;
        let class = py.get_type::<PyType>().call1(("NotFoundError", bases, members))?;
        PyResult::Ok(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}

/// Returns the error that something does not exist; `what` is "group", "member", "topic", "partition", "node" or "cluster".
pub fn not_found(what: &'static str, message: String) -> PyErr {
    Python::attach(|py| {
        let made = not_found_class(py).and_then(|class| {
            let error = class.call1((message,))?;
            error.setattr("what", what)?;
            Ok(PyErr::from_value(error))
        });
        made.unwrap_or_else(|failed| failed)
    })
}

/// An error code; in Python a member of the `IntEnum` `rota.protocol.ErrorCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub ErrorCode);

struct PythonCodes {
    class: Py<PyAny>,
    /// In the order of `ErrorCode::ALL`, by number.
    members: Vec<Py<PyAny>>,
}

static PYTHON_CODES: PyOnceLock<PythonCodes> = PyOnceLock::new();

fn python_codes(py: Python<'_>) -> PyResult<&PythonCodes> {
    PYTHON_CODES.get_or_try_init(py, || {
        let names: Vec<(&str, i16)> = ErrorCode::ALL.iter().map(|error| (error.name(), error.code())).collect();
        let options = PyDict::new(py);
        options.set_item("module", "rota.protocol")?;
        let class = py.import("enum")?.getattr("IntEnum")?.call(("ErrorCode", names), Some(&options))?;
        class.setattr("__doc__", "An error code of the Kafka protocol, by the protocol's own name and number.")?;
        let members = ErrorCode::ALL
            .iter()
            .map(|error| class.getattr(error.name()).map(Bound::unbind))
            .collect::<PyResult<_>>()?;
        Ok(PythonCodes { class: class.unbind(), members })
    })
}

impl<'py> IntoPyObject<'py> for Code {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let at = ErrorCode::ALL.binary_search_by_key(&self.0.code(), |error| error.code());
        let at = at.map_err(|_| PyValueError::new_err(format!("{} is not in the table", self.0.code())))?;
        Ok(python_codes(py)?.members[at].bind(py).clone())
    }
}

impl<'py> FromPyObject<'_, 'py> for Code {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Code> {
        let number = object.extract::<i16>()?;
        ErrorCode::from_code(number)
            .map(Code)
            .ok_or_else(|| PyValueError::new_err(format!("unknown error code {number}")))
    }
}

/// Returns the class `rota.protocol.ErrorCode`.
pub fn error_code_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(python_codes(py)?.class.bind(py).clone())
}

/// Adds the exceptions and `ErrorCode` to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("RotaError", py.get_type::<RotaError>())?;
    module.add("ConfigError", py.get_type::<ConfigError>())?;
    module.add("InvariantViolation", py.get_type::<InvariantViolation>())?;
    module.add("SnapshotError", py.get_type::<SnapshotError>())?;
    module.add("RecordError", py.get_type::<RecordError>())?;
    module.add("EmbeddedError", py.get_type::<EmbeddedError>())?;
    module.add("EngineError", py.get_type::<EngineError>())?;
    module.add("ServerError", py.get_type::<ServerError>())?;
    module.add("NotFoundError", not_found_class(py)?)?;
    module.add("ErrorCode", error_code_class(py)?)
}
