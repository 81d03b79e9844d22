//! The Python module `rota._rota`: conversions only, no logic.
use pyo3::prelude::*;

/// The compiled half of the package `rota`.
#[pymodule]
fn _rota(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
