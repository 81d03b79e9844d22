//! Decodes and replays entries of a journal.

use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use rota_journal::{Difference, Entry, Replay};

/// Sequence number, what differs, event, journal's value, replay's value.
type DifferenceRow = (u64, &'static str, String, String, String);

/// Formats one entry of a journal as a JSON object. Raises `ValueError` if it is malformed or of a later version.
#[pyfunction]
fn journal_entry(value: &[u8]) -> PyResult<String> {
    let json = Entry::read(value).and_then(|entry| entry.to_json());
    json.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the time of an entry's event: monotonic and wall milliseconds. Raises `ValueError` if it is malformed or of
/// a later version.
#[pyfunction]
fn journal_time(value: &[u8]) -> PyResult<(u64, i64)> {
    let entry = Entry::read(value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((entry.now.mono_ms, entry.now.wall_ms))
}

/// Replays the journal of one partition through a new coordinator.
#[pyclass(module = "rota._rota")]
struct JournalReplay {
    replay: Replay,
}

#[pymethods]
impl JournalReplay {
    /// Creates a replay without state.
    #[new]
    fn new() -> JournalReplay {
        JournalReplay { replay: Replay::new() }
    }

    /// Replays the next entry. Returns the difference, if any.
    fn fold(&mut self, value: &[u8]) -> Option<DifferenceRow> {
        let Difference { sequence, what, event, journal, replayed } = self.replay.fold(value).err()?;
        Some((sequence, what, event, journal, replayed))
    }

    /// Returns the coordinator's state for `Coordinator.restore`; `None` if earlier entries are missing.
    fn snapshot<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.replay.coordinator().map(|coordinator| PyBytes::new(py, &coordinator.snapshot()))
    }

    /// Returns an entry with the whole state, after which another replay can continue; empty if there is no state.
    /// `None` in the middle of an advance.
    fn as_entry<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.replay.as_entry().map(|entry| PyBytes::new(py, &entry))
    }

    /// Returns entries read, compared, snapshots compared, entries missing, unchecked, incarnations cut.
    fn counts(&self) -> (u64, u64, u64, u64, u64, u64) {
        let counts = self.replay.counts();
        (counts.entries, counts.compared, counts.snapshots, counts.missing, counts.unchecked, counts.cut)
    }
}

/// Adds the functions and the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(journal_entry, module)?)?;
    module.add_function(wrap_pyfunction!(journal_time, module)?)?;
    module.add_class::<JournalReplay>()
}
