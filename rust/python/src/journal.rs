//! A journal's entries, read and folded again.

use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use rota_journal::{Difference, Entry, Replay};

/// Sequence, what differs, the event, what the journal has, what the replay has.
type DifferenceRow = (u64, &'static str, String, String, String);

/// One entry of a journal as a JSON object. `ValueError`: it is none, or of a later version.
#[pyfunction]
fn journal_entry(value: &[u8]) -> PyResult<String> {
    let json = Entry::read(value).and_then(|entry| entry.to_json());
    json.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// When an entry's event happened: monotonic and wall milliseconds. `ValueError`: it is none, or of a later version.
#[pyfunction]
fn journal_time(value: &[u8]) -> PyResult<(u64, i64)> {
    let entry = Entry::read(value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((entry.now.mono_ms, entry.now.wall_ms))
}

/// Folds the journal of one partition through a fresh coordinator.
#[pyclass(module = "rota._rota")]
struct JournalReplay {
    replay: Replay,
}

#[pymethods]
impl JournalReplay {
    /// Nothing is known before the first entry.
    #[new]
    fn new() -> JournalReplay {
        JournalReplay { replay: Replay::new() }
    }

    /// Folds the next entry; gives where it differs from what the coordinator does, if it does.
    fn fold(&mut self, value: &[u8]) -> Option<DifferenceRow> {
        let Difference { sequence, what, event, journal, replayed } = self.replay.fold(value).err()?;
        Some((sequence, what, event, journal, replayed))
    }

    /// The coordinator's whole state, for `Coordinator.restore`; `None`: what was before the entries is not there.
    fn snapshot<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.replay.coordinator().map(|coordinator| PyBytes::new(py, &coordinator.snapshot()))
    }

    /// An entry with all of this, behind which another replay can go on; empty: there is nothing to go on from. `None`:
    /// in the middle of an advance.
    fn as_entry<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.replay.as_entry().map(|entry| PyBytes::new(py, &entry))
    }

    /// Entries in all, compared, whole states compared, missing, unchecked, incarnations cut short.
    fn tally(&self) -> (u64, u64, u64, u64, u64, u64) {
        let tally = self.replay.tally();
        (tally.entries, tally.compared, tally.snapshots, tally.missing, tally.unchecked, tally.cut)
    }
}

/// Adds them to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(journal_entry, module)?)?;
    module.add_function(wrap_pyfunction!(journal_time, module)?)?;
    module.add_class::<JournalReplay>()
}
