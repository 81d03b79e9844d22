//! `rota._rota.SimulatedJournal`: consecutive worlds with their journals in one directory.

use std::{path::PathBuf, sync::Arc};

use pyo3::{exceptions::PyOSError, prelude::*};
use rota_journal::JOURNAL_TOPIC;
use rota_log::{
    BatchWriter, SegmentStore,
    files::DiskFiles,
    store::{Command, Durability, PartitionHandle, StoreOptions},
};
use rota_sim::fleet::{
    Entry, Options, Report, faults_of, json, run,
    seeds::Total,
    shape::{PARTITIONS_MAX, WORLD_BEGINS_WALL_MS},
};

use crate::simulate::chosen;

const SEGMENT_BYTES: u64 = 64 << 20;
const EPOCH: i32 = 0;

/// A journal's directory, and what was written to it. Its worlds follow each other in time.
#[pyclass(module = "rota._rota")]
struct SimulatedJournal {
    store: SegmentStore,
    partitions: Vec<PartitionHandle>,
    next_world_ms: u64,
    #[pyo3(get)]
    entries: u64,
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

#[pymethods]
impl SimulatedJournal {
    /// Creates a journal in a directory that is empty, or created if its parent exists. Raises `OSError` otherwise.
    #[new]
    fn new(directory: PathBuf) -> PyResult<SimulatedJournal> {
        let options = StoreOptions {
            durability: Durability::Os,
            segment_bytes: SEGMENT_BYTES,
            wal_bytes: SEGMENT_BYTES,
            batch_bytes_max: i32::MAX as usize,
            compacted_topics: Vec::new(),
            ..StoreOptions::default()
        };
        let (store, _) = SegmentStore::open(Arc::new(DiskFiles), &directory, options).map_err(failed)?;
        if !store.partitions().is_empty() {
            return Err(PyOSError::new_err(format!("`{}` contains logs: give another directory", directory.display())));
        }
        store.log(JOURNAL_TOPIC, PARTITIONS_MAX, 0, usize::MAX).map_err(failed)?;
        let partitions: Vec<PartitionHandle> =
            (0..).map_while(|number| store.inspect(move |store| store.handle(JOURNAL_TOPIC, number))?).collect();
        let open = |&partition| Command::Open { partition, epoch: EPOCH };
        for outcome in store.call(partitions.iter().map(open).collect()) {
            outcome.map_err(failed)?;
        }
        Ok(SimulatedJournal { store, partitions, next_world_ms: 0, entries: 0 })
    }

    /// Like `simulate_world`.
    #[pyo3(signature = (seed, *, protocol="all", swarm=false, engine=false, lines=false))]
    fn world(
        &mut self,
        py: Python<'_>,
        seed: u64,
        protocol: &str,
        swarm: bool,
        engine: bool,
        lines: bool,
    ) -> PyResult<String> {
        let options = Options { lines, journal: true, ..chosen(protocol, swarm, engine)? };
        py.detach(|| Ok(json::report(&self.run(seed, options)?).to_string()))
    }

    /// Like `simulate_worlds`.
    #[pyo3(signature = (first, stop, *, protocol="all", swarm=false, engine=false))]
    fn worlds(
        &mut self,
        py: Python<'_>,
        first: u64,
        stop: u64,
        protocol: &str,
        swarm: bool,
        engine: bool,
    ) -> PyResult<String> {
        let options = Options { journal: true, ..chosen(protocol, swarm, engine)? };
        py.detach(|| {
            let mut total = Total::default();
            for seed in first..stop {
                total.add(self.run(seed, options)?);
                if total.broken.is_some() {
                    break;
                }
            }
            Ok(json::total(&total).to_string())
        })
    }

    /// Writes the remaining segments. No more can be written.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.close());
        self.store.stopped().map_or(Ok(()), |reason| Err(failed(reason)))
    }
}

impl SimulatedJournal {
    /// Runs a world and writes its journal.
    fn run(&mut self, seed: u64, options: Options) -> PyResult<Report> {
        let mut report = run(seed, &faults_of(seed, options), options);
        let began_ms = WORLD_BEGINS_WALL_MS + self.next_world_ms as i64;
        let journal = std::mem::take(&mut report.journal);
        self.entries += journal.iter().map(|entries| entries.len() as u64).sum::<u64>();
        let written = self.partitions.iter().zip(journal).filter(|(_, entries)| !entries.is_empty());
        let commands = written.map(|(&partition, entries)| {
            let mut batch = BatchWriter::default();
            for Entry { at_ms, group_id, value } in entries {
                batch.push(began_ms + at_ms as i64, Some(group_id.as_bytes()), Some(&value));
            }
            Command::Append { partition, epoch: EPOCH, batch: batch.finish().into() }
        });
        for outcome in self.store.call(commands.collect()) {
            outcome.map_err(failed)?;
        }
        self.next_world_ms += report.figures.simulated_ms;
        Ok(report)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimulatedJournal>()
}
