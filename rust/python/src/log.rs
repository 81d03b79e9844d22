//! `rota._rota.DataLog`: reads the records of a data directory, which a server may write meanwhile. `recover_log` and
//! `repair_log` repair one that no server uses.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::PyBytes,
};
use rota_log::{
    StoredRecord,
    files::{DiskFiles, Files, Lock},
    store::{Access, Loss, OpenError, PartitionView, Repaired, Store, StoreOptions, recover, repair},
};

/// Offset, wall milliseconds, epoch, key, value.
pub type RecordRow<'py> = (i64, i64, i32, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// Converts a record.
pub fn record_row(py: Python<'_>, stored: StoredRecord) -> RecordRow<'_> {
    let value = stored.record.value.map(|value| PyBytes::new(py, &value));
    (stored.offset, stored.timestamp_ms, stored.epoch, PyBytes::new(py, &stored.record.key), value)
}

/// Topic, partition, first offset, next offset.
type PartitionRow = (String, i32, i64, i64);

/// A data directory opened for reading; nothing in it is changed.
#[pyclass(frozen, module = "rota._rota")]
pub struct DataLog {
    partitions: Vec<(String, i32, Arc<PartitionView>)>,
    notes: Vec<String>,
    damage: Vec<String>,
    _lock: Mutex<Option<Lock>>,
}

#[pymethods]
impl DataLog {
    /// Opens a directory. With `lock` no server starts on it meanwhile.
    #[new]
    #[pyo3(signature = (directory, lock = false))]
    fn new(py: Python<'_>, directory: PathBuf, lock: bool) -> PyResult<DataLog> {
        let locked = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => cannot(OpenError::locked(&directory, &error)),
            _ => PyOSError::new_err(error.to_string()),
        };
        let held = if lock { Some(DiskFiles.lock(&directory.join(".lock")).map_err(locked)?) } else { None };
        let options = StoreOptions { access: Access::Read, ..StoreOptions::default() };
        let opened = py.detach(|| Store::open(Arc::new(DiskFiles), &directory, options));
        let (store, report) = opened.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let partition = |info: rota_log::store::PartitionInfo| (info.topic, info.partition, info.view);
        let mut partitions: Vec<_> = store.partitions().into_iter().map(partition).collect();
        partitions.sort_by(|left, right| (&left.0, left.1).cmp(&(&right.0, right.1)));
        let mut notes = Vec::new();
        if report.torn_wal_bytes > 0 {
            notes.push(format!("{} bytes of an unfinished write-ahead frame", report.torn_wal_bytes));
        }
        let cut = |(file, left, bytes): &(PathBuf, u64, u64)| {
            format!("`{}`: a torn tail of {bytes} bytes after byte {left}", file.display())
        };
        notes.extend(report.cut.iter().map(cut));
        let damage = report.damage.iter().map(ToString::to_string).collect();
        Ok(DataLog { partitions, notes, damage, _lock: Mutex::new(held) })
    }

    /// (topic, partition, first offset, next offset), sorted.
    fn partitions(&self) -> Vec<PartitionRow> {
        let row = |(topic, partition, view): &(String, i32, Arc<PartitionView>)| {
            (topic.clone(), *partition, view.first_offset(), view.next_offset())
        };
        self.partitions.iter().map(row).collect()
    }

    /// What a start would cut or complete.
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Damage found while opening.
    fn damage(&self) -> Vec<String> {
        self.damage.clone()
    }

    /// Returns at most `records_max` records with a key from an offset on; none at the end. Raises `OSError` that names
    /// the damage.
    fn records<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        partition: i32,
        from_offset: i64,
        records_max: usize,
    ) -> PyResult<Vec<RecordRow<'py>>> {
        let view = self.view(topic, partition)?;
        let read = py.detach(|| view.read_records(from_offset, records_max));
        let records = read.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(records.into_iter().map(|stored| record_row(py, stored)).collect())
    }

    /// Reads a partition to its end. Returns the bytes and number of its batches. Raises `OSError` that names the
    /// damage.
    fn verify(&self, py: Python<'_>, topic: &str, partition: i32) -> PyResult<(u64, u64)> {
        let view = self.view(topic, partition)?;
        let read = py.detach(|| {
            let (mut from, mut bytes, mut count) = (view.first_offset(), 0, 0);
            loop {
                let slice = view.read_slice(from, 1 << 20)?;
                if slice.next_offset == from {
                    return Ok::<_, rota_log::LogError>((bytes, count));
                }
                bytes += slice.bytes.len() as u64;
                count += slice.batches().count() as u64;
                from = slice.next_offset;
            }
        });
        read.map_err(|error| PyOSError::new_err(error.to_string()))
    }
}

impl DataLog {
    /// The next offset of a partition, and all its batches.
    pub fn whole(&self, py: Python<'_>, topic: &str, partition: i32) -> PyResult<(i64, Vec<u8>)> {
        let view = self.view(topic, partition)?;
        let read = py.detach(|| {
            let (mut from, mut bytes) = (view.first_offset(), Vec::new());
            loop {
                let slice = view.read_slice(from, 1 << 20)?;
                if slice.next_offset == from {
                    return Ok::<_, rota_log::LogError>((view.next_offset(), bytes));
                }
                bytes.extend_from_slice(&slice.bytes);
                from = slice.next_offset;
            }
        });
        read.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    fn view(&self, topic: &str, partition: i32) -> PyResult<Arc<PartitionView>> {
        let found = self.partitions.iter().find(|(name, number, _)| name == topic && *number == partition);
        let unknown = || PyValueError::new_err(format!("there is no partition {partition} of `{topic}`"));
        found.map(|(_, _, view)| Arc::clone(view)).ok_or_else(unknown)
    }
}

/// File, position, bytes, first lost offset, offset after the loss, reason.
type LossRow = (PathBuf, u64, u64, i64, i64, String);

/// Topic, partition, losses, batches restored from write-ahead files, kept files.
type RepairedRow = (String, i32, Vec<LossRow>, u64, Vec<PathBuf>);

fn cannot(error: OpenError) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// Recovers like a start. Returns what was found and done, and remaining damage, one line each.
#[pyfunction]
fn recover_log(py: Python<'_>, directory: PathBuf, give_up: bool) -> PyResult<(Vec<String>, Vec<String>)> {
    let files: Arc<dyn Files> = Arc::new(DiskFiles);
    let report = py.detach(|| recover(&files, &directory, give_up)).map_err(cannot)?;
    let damage = report.damage.iter().map(ToString::to_string).collect();
    Ok((rota_server::report_lines(&directory, &report), damage))
}

/// Recovers, and removes unreadable bytes from every partition.
#[pyfunction]
fn repair_log(py: Python<'_>, directory: PathBuf) -> PyResult<Vec<RepairedRow>> {
    let files: Arc<dyn Files> = Arc::new(DiskFiles);
    let (_, repaired) = py.detach(|| repair(&files, &directory)).map_err(cannot)?;
    let loss = |loss: Loss| (loss.file, loss.position, loss.bytes, loss.from_offset, loss.to_offset, loss.reason);
    let row = |found: Repaired| {
        let losses = found.losses.into_iter().map(loss).collect();
        (found.topic, found.partition, losses, found.completed_batches, found.kept)
    };
    Ok(repaired.into_iter().map(row).collect())
}

/// Adds the class and the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(recover_log, module)?)?;
    module.add_function(wrap_pyfunction!(repair_log, module)?)?;
    module.add_class::<DataLog>()
}
