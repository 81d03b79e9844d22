//! One-dimensional arrays of numbers: read from any object with the buffer protocol, and returned as numpy arrays, or
//! as `array.array` without numpy.

use pyo3::{
    Borrowed,
    buffer::{Element, PyBuffer, PyUntypedBuffer},
    exceptions::PyTypeError,
    prelude::*,
    sync::PyOnceLock,
    types::PyBytes,
};

/// An element type of arrays.
pub trait Number: Element + Default {
    /// The numpy name of the type.
    const DTYPE: &str;
    /// The type code of the module `array`.
    const CODE: &str;
}

impl Number for i16 {
    const DTYPE: &str = "int16";
    const CODE: &str = "h";
}

impl Number for i32 {
    const DTYPE: &str = "int32";
    const CODE: &str = "i";
}

impl Number for u32 {
    const DTYPE: &str = "uint32";
    const CODE: &str = "I";
}

impl Number for u64 {
    const DTYPE: &str = "uint64";
    const CODE: &str = "Q";
}

/// A copy of an argument, so that no other thread can write to it while the interpreter lock is released.
pub struct Array<T>(pub Vec<T>);

impl<'py, T: Number> FromPyObject<'_, 'py> for Array<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Array<T>> {
        copied(&object).map(Array).map_err(|complaint| PyTypeError::new_err(format!("expected {complaint}")))
    }
}

/// Copies the elements. The error says what was expected and what the object is.
pub fn copied<T: Number>(object: &Bound<'_, PyAny>) -> Result<Vec<T>, String> {
    elements(object).ok_or_else(|| {
        let kind = T::DTYPE;
        format!("a one-dimensional array of {kind} (numpy, array.array or another buffer), not {}", kind_of(object))
    })
}

fn elements<T: Number>(object: &Bound<'_, PyAny>) -> Option<Vec<T>> {
    let buffer = PyUntypedBuffer::get(object).ok().filter(|buffer| buffer.dimensions() == 1)?;
    if buffer.item_count() == 0 && T::is_compatible_format(buffer.format()) {
        // PyO3 refuses the address of an empty `array.array`, which is not aligned.
        return Some(Vec::new());
    }
    buffer.into_typed::<T>().ok()?.to_vec(object.py()).ok()
}

fn kind_of(object: &Bound<'_, PyAny>) -> String {
    if let (Ok(dtype), Ok(shape)) = (object.getattr("dtype"), object.getattr("shape")) {
        return format!("{dtype} of shape {shape}");
    }
    let class = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    match PyUntypedBuffer::get(object) {
        Ok(buffer) => format!("{class} of format {:?} and shape {:?}", buffer.format(), buffer.shape()),
        Err(_) => class,
    }
}

/// Creates an array of these elements.
pub fn array<'py, T: Number>(py: Python<'py>, elements: &[T]) -> PyResult<Bound<'py, PyAny>> {
    static NUMPYS_EMPTY: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    let numpys_empty = NUMPYS_EMPTY.get_or_init(py, || Some(py.import("numpy").ok()?.getattr("empty").ok()?.unbind()));
    let made = if let Some(empty) = numpys_empty {
        empty.bind(py).call1((elements.len(), T::DTYPE))?
    } else {
        let zeros = PyBytes::new_with(py, std::mem::size_of_val(elements), |_| Ok(()))?;
        py.import("array")?.getattr("array")?.call1((T::CODE, zeros))?
    };
    if !elements.is_empty() {
        PyBuffer::<T>::get(&made)?.copy_from_slice(py, elements)?;
    }
    Ok(made)
}
