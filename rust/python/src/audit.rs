//! Functions of the audit: segments in ranges, their rows as Arrow buffers, and replays of journals.

use std::path::PathBuf;

use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    pybacked::PyBackedBytes,
    types::PyBytes,
};
use rota_audit::{
    Cause, Columns, Edit, Extent, Fetched, Filter, Fold, Kind, Range, RangeReader, Source, Span, Transaction,
    Uncommitted, cut, decode, decode_batches, edit, extent, first_wrong, records_in, replay_range, transactions,
};
use rota_core::explain::Rebalance;
use rota_log::{
    BatchWriter, EndMarker,
    files::DiskFiles,
    rewrite_header,
    store::{Ahead, ahead},
};

use crate::log::{RecordRow, record_row};

/// Start, end, expected first offset, next offset, newest timestamp, number of records.
type RangeRow = (u64, u64, i64, i64, i64, u64);
/// Partition, write-ahead file, and the [`RangeRow`] of a batch in it.
type AheadRow = (i32, PathBuf, RangeRow);
/// Producer id, first offset, end offset.
type TransactionRow = (i64, i64, i64);
/// Validity, offsets (empty for numbers), values.
type BufferRow<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// Number of rows, and the buffers of each column.
type ColumnsRow<'py> = (usize, Vec<BufferRow<'py>>);
/// Offset, wall milliseconds, key, value.
type FetchedRow = (i64, i64, PyBackedBytes, Option<PyBackedBytes>);
/// Entries read, compared, snapshots compared, entries missing, unchecked, incarnations cut.
type CountsRow = (u64, u64, u64, u64, u64, u64);
/// Offset, sequence number, what differs, event, journal's value, replay's value.
type DifferenceRow = (i64, u64, &'static str, String, String, String);
/// Group, offset, generation, cause, member, the client's reason, start in wall milliseconds.
type CauseRow = (String, i64, Option<i32>, &'static str, String, String, i64);

/// Counts, differences, causes, and why the rest could not be read.
type FoldRow = (CountsRow, Vec<DifferenceRow>, Vec<CauseRow>, Option<String>);

fn failed(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    PyOSError::new_err(format!("`{}`: {error}", path.display()))
}

/// Returns the columns of log rows: (name, kind), where the kind is `long`, `int`, `text` or `bytes`.
#[pyfunction]
fn audit_columns() -> Vec<(&'static str, &'static str)> {
    let name = |kind| match kind {
        Kind::Long => "long",
        Kind::Int => "int",
        Kind::Text => "text",
        Kind::Bytes => "bytes",
    };
    Columns::NAMES.iter().map(|(column, kind)| (*column, name(*kind))).collect()
}

fn range_row(range: &Range) -> RangeRow {
    (range.start, range.end, range.first_offset, range.next_offset, range.newest_ms, range.records)
}

/// Splits a segment from position `start` to `end` into at most `ranges_max` parts of about `target_bytes` that begin
/// and end with a batch. `first_offset` is the offset expected at `start`. Raises `OSError` if it cannot be read.
#[pyfunction]
#[pyo3(signature = (path, first_offset, target_bytes, start=0, ranges_max=usize::MAX, end=u64::MAX))]
fn audit_ranges(
    py: Python<'_>,
    path: PathBuf,
    first_offset: i64,
    target_bytes: u64,
    start: u64,
    ranges_max: usize,
    end: u64,
) -> PyResult<Vec<RangeRow>> {
    let ranges = py.detach(|| cut(&path, start, end, first_offset, target_bytes, ranges_max));
    let ranges = ranges.map_err(|error| failed(&path, &error))?;
    Ok(ranges.iter().map(range_row).collect())
}

/// Returns the first damage of a segment at offset `checked_from` or later. Raises `OSError` if it cannot be read.
#[pyfunction]
fn audit_wrong(py: Python<'_>, path: PathBuf, base_offset: i64, checked_from: i64) -> PyResult<Option<RangeRow>> {
    let wrong = py.detach(|| first_wrong(&path, base_offset, checked_from));
    let wrong = wrong.map_err(|error| failed(&path, &error))?;
    Ok(wrong.as_ref().map(range_row))
}

/// Returns the batches of a topic in the write-ahead files of a directory. Raises `OSError` if they cannot be read or
/// are damaged.
#[pyfunction]
fn audit_ahead(py: Python<'_>, directory: PathBuf, topic: &str) -> PyResult<Vec<AheadRow>> {
    let found = py.detach(|| ahead(&DiskFiles, &directory, topic));
    let found = found.map_err(|error| failed(&directory, &error))?;
    let row = |one: Ahead| {
        let range = (one.start, one.end, one.first_offset, one.next_offset, one.newest_ms, one.records);
        (one.partition, one.path, range)
    };
    Ok(found.into_iter().map(row).collect())
}

fn uncommitted_of(rows: Vec<TransactionRow>) -> Uncommitted {
    let one = |(producer_id, first_offset, end_offset)| Transaction { producer_id, first_offset, end_offset };
    Uncommitted::new(rows.into_iter().map(one))
}

/// Returns the transactions whose records do not count, as (producer id, first offset, end offset), and where in its file
/// the first one begins that has not ended. `files` are consecutive pieces of the log of a partition, none of a file that
/// cannot be read. Transactions that begin at `before_offset` or later do not matter, and markers of a time later than
/// `until_ms` have not come. Raises `OSError` if a file cannot be read.
#[pyfunction]
#[pyo3(signature = (files, before_offset=i64::MAX, until_ms=i64::MAX))]
fn audit_transactions(
    py: Python<'_>,
    files: Vec<(PathBuf, Vec<(u64, u64)>)>,
    before_offset: i64,
    until_ms: i64,
) -> PyResult<(Vec<TransactionRow>, Option<u64>)> {
    let found = py.detach(|| transactions(&files, Span { before_offset, until_ms }));
    let found = found.map_err(|error| PyOSError::new_err(format!("the transactions cannot be read: {error}")))?;
    let row = |one: &Transaction| (one.producer_id, one.first_offset, one.end_offset);
    Ok((found.uncommitted.iter().map(row).collect(), found.undecided_at))
}

/// Returns the records with a key in pieces of a file, within a range of offsets, without those of `uncommitted`
/// transactions. Raises `OSError` if they cannot be read or have other offsets.
#[pyfunction]
#[pyo3(signature = (path, pieces, offsets, is_newest, uncommitted=Vec::new()))]
fn audit_records(
    py: Python<'_>,
    path: PathBuf,
    pieces: Vec<(u64, u64)>,
    offsets: (i64, i64),
    is_newest: bool,
    uncommitted: Vec<TransactionRow>,
) -> PyResult<Vec<RecordRow<'_>>> {
    let uncommitted = uncommitted_of(uncommitted);
    let found = py.detach(|| records_in(&path, &pieces, offsets, is_newest, &uncommitted));
    let found = found.map_err(|error| failed(&path, &error))?;
    Ok(found.into_iter().map(|stored| record_row(py, stored)).collect())
}

/// Reads the rows of one part of a log, some thousands at a time.
#[pyclass(module = "rota._rota")]
pub struct AuditRows {
    /// Where the rows come from.
    pub reader: RangeReader,
}

#[pymethods]
impl AuditRows {
    /// Reads the pieces of a file into memory, each from a start position to an end. Raises `OSError` if it cannot be
    /// read.
    #[new]
    #[pyo3(signature = (path, pieces, first_offset, is_newest, is_journal, groups=None, since_ms=None, until_ms=None, has_entries=false, uncommitted=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn new(
        path: PathBuf,
        pieces: Vec<(u64, u64)>,
        first_offset: i64,
        is_newest: bool,
        is_journal: bool,
        groups: Option<Vec<String>>,
        since_ms: Option<i64>,
        until_ms: Option<i64>,
        has_entries: bool,
        uncommitted: Vec<TransactionRow>,
    ) -> PyResult<AuditRows> {
        let groups = groups.map(|groups| groups.into_iter().collect());
        let filter = Filter { groups, since_ms, until_ms, has_entries, uncommitted: uncommitted_of(uncommitted) };
        let source = if is_journal { Source::Journal } else { Source::Offsets };
        let reader = RangeReader::open(&path, &pieces, first_offset, is_newest, source, filter);
        let reader = reader.map_err(|error| failed(&path, &error))?;
        Ok(AuditRows { reader })
    }

    /// Returns the number of the next rows, and the buffers of each column in Arrow's layout; `None` at the end.
    fn next_columns<'py>(&mut self, py: Python<'py>) -> Option<ColumnsRow<'py>> {
        let columns = py.detach(|| self.reader.next_columns())?;
        Some(columns_row(py, columns))
    }
}

fn columns_row(py: Python<'_>, columns: Columns) -> ColumnsRow<'_> {
    let rows = columns.rows();
    let of_column = |buffers: rota_audit::Buffers| {
        let [validity, offsets, data] = [buffers.validity, buffers.offsets, buffers.data];
        (PyBytes::new(py, &validity), PyBytes::new(py, &offsets), PyBytes::new(py, &data))
    };
    (rows, columns.into_buffers().into_iter().map(of_column).collect())
}

/// Returns the rows of records of `__consumer_offsets` as `AuditRows.next_columns` does. With a `first_offset` they are
/// consecutive records of one partition, and offsets without a record have rows, too.
#[pyfunction]
#[pyo3(signature = (records, first_offset=None))]
fn audit_decode(py: Python<'_>, records: Vec<FetchedRow>, first_offset: Option<i64>) -> ColumnsRow<'_> {
    let columns = py.detach(|| {
        let records = records.iter().map(|(offset, at_ms, key, value)| Fetched {
            offset: *offset,
            at_ms: *at_ms,
            key,
            value: value.as_deref(),
        });
        decode(first_offset, records)
    });
    columns_row(py, columns)
}

/// Returns the rows of the offsets from `first_offset` to before `end_offset` in batches that a broker sent to a reader of
/// committed records, as `AuditRows.next_columns` does. `aborted` has the aborted transactions, as (producer id, first
/// offset).
#[pyfunction]
fn audit_fetched<'py>(
    py: Python<'py>,
    batches: &[u8],
    first_offset: i64,
    end_offset: i64,
    aborted: Vec<(i64, i64)>,
) -> ColumnsRow<'py> {
    let columns = py.detach(|| decode_batches(batches, first_offset, end_offset, aborted));
    columns_row(py, columns)
}

/// Returns the offset behind the last whole batch that a broker sent, and the epoch of the leader that wrote it; `None`
/// without a whole batch. Raises `ValueError` if the bytes are no batches.
#[pyfunction]
fn audit_extent(batches: &[u8]) -> PyResult<Option<(i64, i32)>> {
    let found = extent(batches).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(found.map(|Extent { next_offset, leader_epoch }| (next_offset, leader_epoch)))
}

/// Replays the first of these parts of one partition of a journal, with as many of the others as needed. Returns the
/// counts, differences, causes of generations, and why the rest could not be read. Raises `OSError` if a file cannot be
/// read.
#[pyfunction]
fn audit_replay(py: Python<'_>, ranges: Vec<(PathBuf, u64, u64)>, is_first: bool) -> PyResult<FoldRow> {
    if ranges.is_empty() {
        return Err(PyValueError::new_err("no parts given to fold"));
    }
    let folded = py.detach(|| replay_range(&ranges, is_first));
    let Fold { counts, differences, causes, damage } = folded.map_err(|error| failed(&ranges[0].0, &error))?;
    let differences = differences
        .into_iter()
        .map(|(offset, found)| (offset, found.sequence, found.what, found.event, found.journal, found.replayed));
    let causes = causes.into_iter().map(|Cause { group_id, offset, rebalance }| {
        let Rebalance { cause, member_id, reason, to_generation, began_wall_ms, .. } = rebalance;
        let (member_id, reason) = (member_id.to_string(), reason.to_string());
        (group_id, offset, to_generation, cause.name(), member_id, reason, began_wall_ms)
    });
    let counts = (counts.entries, counts.compared, counts.snapshots, counts.missing, counts.unchecked, counts.cut);
    Ok((counts, differences.collect(), causes.collect(), damage))
}

/// Returns a changed entry of a journal: each given argument replaces a value of the entry. Raises `ValueError` if the
/// bytes are not an entry.
#[pyfunction]
#[pyo3(signature = (value, *, sequence=None, later_ms=0, told=None, error=None, generation=None, leader=None,
    protocol=None, assignment=None, unlisted=None, asked_generation=None, asked_by=None, append_id=None, without_answers=false,
    answers_twice=false))]
#[expect(clippy::too_many_arguments, reason = "they are keywords")]
fn edit_entry<'py>(
    py: Python<'py>,
    value: &[u8],
    sequence: Option<u64>,
    later_ms: i64,
    told: Option<&str>,
    error: Option<i16>,
    generation: Option<i32>,
    leader: Option<&str>,
    protocol: Option<&str>,
    assignment: Option<&[u8]>,
    unlisted: Option<&str>,
    asked_generation: Option<i32>,
    asked_by: Option<&str>,
    append_id: Option<u64>,
    without_answers: bool,
    answers_twice: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let error = match error.map(|code| (code, rota_core::ErrorCode::from_code(code))) {
        None => None,
        Some((_, Some(error))) => Some(error),
        Some((code, None)) => return Err(PyValueError::new_err(format!("unknown error code {code}"))),
    };
    let changes = Edit {
        sequence,
        later_ms,
        told,
        error,
        generation,
        leader,
        protocol,
        assignment,
        unlisted,
        asked_generation,
        asked_by,
        append_id,
        without_answers,
        answers_twice,
    };
    let edited = edit(value, &changes).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &edited))
}

/// Encodes one batch of records, each (wall milliseconds, key, value), the first at `base_offset`. With a `producer_id`
/// they belong to its transaction.
#[pyfunction]
#[pyo3(signature = (base_offset, records, producer_id=None))]
fn write_batch(
    py: Python<'_>,
    base_offset: i64,
    records: Vec<(i64, Vec<u8>, Option<Vec<u8>>)>,
    producer_id: Option<i64>,
) -> Bound<'_, PyBytes> {
    let mut batch = BatchWriter::default();
    (batch.base_offset, batch.leader_epoch) = (base_offset, 0);
    batch.producer = producer_id.map(|producer_id| (producer_id, 0, 0));
    batch.is_transactional = producer_id.is_some();
    for (timestamp_ms, key, value) in records {
        batch.push(timestamp_ms, Some(&key), value.as_deref());
    }
    PyBytes::new(py, &batch.finish())
}

/// Encodes the batch that ends a producer's transaction.
#[pyfunction]
fn write_marker(py: Python<'_>, base_offset: i64, at_ms: i64, producer_id: i64, is_commit: bool) -> Bound<'_, PyBytes> {
    let marker = EndMarker { producer_id, producer_epoch: 0, coordinator_epoch: 0, is_commit };
    let mut batch = marker.batch(at_ms).to_vec();
    rewrite_header(&mut batch, base_offset, 0);
    PyBytes::new(py, &batch)
}

/// Adds the functions and classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(audit_ahead, module)?)?;
    module.add_function(wrap_pyfunction!(audit_columns, module)?)?;
    module.add_function(wrap_pyfunction!(audit_decode, module)?)?;
    module.add_function(wrap_pyfunction!(audit_extent, module)?)?;
    module.add_function(wrap_pyfunction!(audit_fetched, module)?)?;
    module.add_function(wrap_pyfunction!(audit_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(audit_records, module)?)?;
    module.add_function(wrap_pyfunction!(audit_replay, module)?)?;
    module.add_function(wrap_pyfunction!(audit_transactions, module)?)?;
    module.add_function(wrap_pyfunction!(audit_wrong, module)?)?;
    module.add_function(wrap_pyfunction!(edit_entry, module)?)?;
    module.add_function(wrap_pyfunction!(write_batch, module)?)?;
    module.add_function(wrap_pyfunction!(write_marker, module)?)?;
    module.add_class::<AuditRows>()
}
