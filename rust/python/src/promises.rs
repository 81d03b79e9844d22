//! The promises of logs: the fold of `rota_promises` over Arrow's buffers, or over a log itself.

use std::collections::BTreeMap;

use pyo3::{exceptions::PyValueError, prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use rota_promises::{Batch, Column, Extent, Finding, Fold, Severity, Shown, StateError, Tally};

use crate::audit::AuditRows;

/// Name, id, whether it is a violation, `records` or `journal`, meaning.
type PromiseRow = (&'static str, &'static str, bool, &'static str, &'static str);
/// Name, group, generation, first offset, last offset, wall milliseconds, members, witness.
type FindingRow = (&'static str, Option<String>, Option<i32>, i64, i64, Option<i64>, Vec<String>, String);
/// Rows, offsets without a record, offset, kind and reason of what could not be read, and records that were skipped by
/// what they are about.
type TallyRow = (u64, i64, Vec<(i64, String, String)>, BTreeMap<String, u64>);
/// Validity, offsets, values, and the index of the first row in them.
type ColumnRow = (PyBackedBytes, PyBackedBytes, PyBackedBytes, usize);

/// Returns the promises that a fold looks for.
#[pyfunction]
fn audit_promises() -> Vec<PromiseRow> {
    let shown = |shown| match shown {
        Shown::Records => "records",
        Shown::Journal => "journal",
    };
    let row = |promise: rota_promises::Promise| {
        (promise.name, promise.id, promise.severity == Severity::Violation, shown(promise.shown), promise.says)
    };
    rota_promises::promises().map(row).collect()
}

/// Checks the rows of one partition of a log, in log order.
#[pyclass(module = "rota._rota")]
struct AuditFold {
    fold: Fold,
}

fn batch_of(rows: usize, columns: &[ColumnRow]) -> PyResult<Batch<'_>> {
    let columns: Vec<Column<'_>> = columns
        .iter()
        .map(|(validity, offsets, data, first)| Column { validity, offsets, data, first: *first })
        .collect();
    Batch::new(rows, &columns).ok_or_else(|| PyValueError::new_err("the rows have too few columns"))
}

fn refused(error: &StateError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl AuditFold {
    /// `is_whole`: all of the log is folded, so what sums up is found at its end.
    #[new]
    fn new(is_journal: bool, is_whole: bool) -> AuditFold {
        let extent = if is_whole { Extent::Whole } else { Extent::Growing };
        AuditFold { fold: Fold::new(is_journal, extent) }
    }

    /// Folds all rows of a part of the log.
    fn read(&mut self, py: Python<'_>, mut rows: PyRefMut<'_, AuditRows>) {
        let (fold, reader) = (&mut self.fold, &mut rows.reader);
        py.detach(|| {
            while let Some(columns) = reader.next_columns() {
                fold.rows(&columns.batch());
            }
        });
    }

    /// From this offset on a part of the log cannot be read.
    fn unreadable(&mut self, offset: i64, reason: &str) {
        self.fold.unreadable(offset, reason);
    }

    /// Folds rows in the columns of `audit_columns`. Raises `ValueError` if there are fewer columns.
    fn rows(&mut self, py: Python<'_>, count: usize, columns: Vec<ColumnRow>) -> PyResult<()> {
        let batch = batch_of(count, &columns)?;
        py.detach(|| self.fold.rows(&batch));
        Ok(())
    }

    /// Ends the log.
    fn end(&mut self, py: Python<'_>) {
        py.detach(|| self.fold.end());
    }

    /// Takes what was found since the last time.
    fn take(&mut self) -> Vec<FindingRow> {
        let row = |found: Finding| {
            let members = found.members.iter().map(ToString::to_string).collect();
            let group = found.group.map(|group| group.to_string());
            let Finding { name, generation, first_offset, last_offset, at_ms, witness, .. } = found;
            (name, group, generation, first_offset, last_offset, at_ms, members, witness)
        };
        self.fold.take().into_iter().map(row).collect()
    }

    /// Takes what was counted since the last time.
    fn tally(&mut self) -> TallyRow {
        let Tally { rows, compacted, troubles, skipped } = self.fold.take_tally();
        let troubles = troubles.into_iter().map(|trouble| (trouble.offset, trouble.kind, trouble.reason));
        (rows, compacted, troubles.collect(), skipped)
    }

    /// Returns the groups, and whether each is one of the newer protocol.
    fn groups(&self) -> Vec<(String, bool)> {
        self.fold.groups().map(|(name, is_newer)| (name.to_string(), is_newer)).collect()
    }

    /// Returns the groups whose states rows need.
    fn needs(&self, count: usize, columns: Vec<ColumnRow>) -> PyResult<Vec<String>> {
        let batch = batch_of(count, &columns)?;
        Ok(self.fold.needs(&batch).into_iter().map(|name| name.to_string()).collect())
    }

    /// The offset before which everything has been seen.
    #[getter]
    fn next_offset(&self) -> i64 {
        self.fold.next_offset()
    }

    /// Returns the state of the partition without its groups.
    fn state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.fold.state())
    }

    /// Goes on with the state of a partition. Raises `ValueError` if it is of another version.
    fn resume(&mut self, state: &[u8]) -> PyResult<()> {
        self.fold.resume(state).map_err(|error| refused(&error))
    }

    /// Returns the states of the groups by name.
    fn group_states<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyBytes>)> {
        self.fold.group_states().map(|(name, state)| (name.to_string(), PyBytes::new(py, &state))).collect()
    }

    /// Goes on with the state of a group. Raises `ValueError` if it is of another version.
    fn resume_group(&mut self, name: &str, state: &[u8]) -> PyResult<()> {
        self.fold.resume_group(name, state).map_err(|error| refused(&error))
    }
}

/// Adds the functions and classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(audit_promises, module)?)?;
    module.add_class::<AuditFold>()
}
