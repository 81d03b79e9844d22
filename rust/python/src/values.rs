//! How single values cross the border: bytes, tuples and times.

use pyo3::{
    Borrowed,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyByteArray, PyBytes, PyInt, PyTuple, PyType},
};

/// `bytes`. A list of integers, which PyO3 would take too, is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Octets(pub Box<[u8]>);

impl From<&[u8]> for Octets {
    fn from(bytes: &[u8]) -> Octets {
        Octets(bytes.into())
    }
}

impl<'py> FromPyObject<'_, 'py> for Octets {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Octets> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Octets(bytes.as_bytes().into()));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Octets(bytes.to_vec().into()));
        }
        Err(PyTypeError::new_err(format!("expected bytes, not {}", object.get_type().name()?)))
    }
}

impl<'py> IntoPyObject<'py> for Octets {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyBytes::new(py, &self.0))
    }
}

/// Read from any sequence, shown as a tuple: the classes here are frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tuple<T>(pub Vec<T>);

impl<T> Default for Tuple<T> {
    fn default() -> Tuple<T> {
        Tuple(Vec::new())
    }
}

impl<T> FromIterator<T> for Tuple<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Tuple<T> {
        Tuple(elements.into_iter().collect())
    }
}

impl<'py, T> FromPyObject<'_, 'py> for Tuple<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Tuple<T>> {
        object.extract::<Vec<T>>().map(Tuple)
    }
}

impl<'py, T> IntoPyObject<'py> for Tuple<T>
where
    T: IntoPyObject<'py>,
{
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        PyTuple::new(py, self.0)
    }
}

/// `A | B | ...`, for annotations and `isinstance`.
pub fn union<'py>(classes: &[Bound<'py, PyType>]) -> PyResult<Bound<'py, PyAny>> {
    let (first, rest) = classes.split_first().ok_or_else(|| PyTypeError::new_err("a union of nothing"))?;
    rest.iter().try_fold(first.clone().into_any(), |union, class| union.bitor(class))
}

/// Monotonic milliseconds. The upper limit keeps every sum of a time and a timeout inside 64 bits.
#[derive(Clone, Copy)]
pub struct Millis(pub u64);

/// The largest `now_ms`: 2^53, about 285,000 years.
pub const LAST_MS: u64 = 1 << 53;

impl<'py> FromPyObject<'_, 'py> for Millis {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Millis> {
        match object.extract() {
            Ok(now_ms) if now_ms <= LAST_MS => Ok(Millis(now_ms)),
            _ if object.is_instance_of::<PyInt>() => {
                Err(PyValueError::new_err(format!("a time is from 0 to 2**53 ms, not {}", object.str()?)))
            }
            _ => Err(PyTypeError::new_err(format!(
                "a time is an int of milliseconds, not {}",
                object.get_type().name()?
            ))),
        }
    }
}
