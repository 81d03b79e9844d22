//! Conversions of single values: bytes, tuples and times.

use pyo3::{
    Borrowed,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyByteArray, PyBytes, PyTuple, PyType},
};

/// `bytes`. A list of integers, which PyO3 would accept, is refused.
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

/// Read from any sequence and shown as a tuple, because the classes are frozen.
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

/// Returns `A | B | ...`, for annotations and `isinstance`.
pub fn union<'py>(classes: &[Bound<'py, PyType>]) -> PyResult<Bound<'py, PyAny>> {
    let (first, rest) = classes.split_first().ok_or_else(|| PyTypeError::new_err("a union of nothing"))?;
    rest.iter().try_fold(first.clone().into_any(), |union, class| union.bitor(class))
}

/// The largest `now_ms`: 2^53, about 285,000 years. It keeps every sum of a time and a timeout within 64 bits.
pub const LAST_MS: u64 = 1 << 53;

/// Returns the whole number from 0 to `last` that an argument has. The error names the argument and its value.
fn whole<N: TryFrom<u64>>(name: &str, value: Borrowed<'_, '_, PyAny>, last: u64) -> PyResult<N> {
    let number = value.extract::<u64>().ok().filter(|number| *number <= last);
    match number.and_then(|number| N::try_from(number).ok()) {
        Some(number) => Ok(number),
        None if value.hasattr("__index__")? => {
            Err(PyValueError::new_err(format!("{name} is {}: give 0 to {last}", value.str()?)))
        }
        None => Err(PyTypeError::new_err(format!("{name} is {}: give a whole number", value.repr()?))),
    }
}

/// Declares arguments by their names in Python, with the largest number of each.
macro_rules! arguments {
    ($($(#[$about:meta])* $argument:ident($number:ty) = $name:literal, $last:expr;)*) => { $(
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub struct $argument(pub $number);

        impl<'py> FromPyObject<'_, 'py> for $argument {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<$argument> {
                whole($name, value, $last).map($argument)
            }
        }
    )* };
}

arguments! {
    /// Monotonic milliseconds.
    Millis(u64) = "now_ms", LAST_MS;
    /// A partition of `__consumer_offsets`.
    PartitionNumber(u32) = "partition", u64::from(u32::MAX);
    /// The epoch of an ownership.
    Epoch(u32) = "epoch", u64::from(u32::MAX);
    /// The number that connects a request to its answer.
    Ticket(u64) = "ticket", u64::MAX;
    /// The number of an append.
    AppendId(u64) = "append_id", u64::MAX;
    /// An offset of a record in the log.
    RecordOffset(u64) = "offset", u64::MAX;
    /// The number of a commit of `rota.Member`.
    Commit(u64) = "commit", u64::MAX;
}
