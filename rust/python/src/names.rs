//! The closest of several names.

use pyo3::prelude::*;
use rota_server::names::{Likeness, nearest as nearest_of};

/// Returns the closest name; `None` if none is close. With `misspelt` it must be closer.
#[pyfunction]
#[pyo3(signature = (name, names, *, misspelt = false))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it away")]
fn nearest(name: &str, names: Vec<String>, misspelt: bool) -> Option<String> {
    let likeness = if misspelt { Likeness::Misspelt } else { Likeness::Close };
    nearest_of(name, names.iter().map(String::as_str), likeness).map(str::to_owned)
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nearest, module)?)
}
