//! The log under `__transaction_state`: in the data directory, or none in memory, where nothing outlives the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::channel};

use rota_log::{Append, BatchKind, Completions, FaultyLog, FencedLog, LogError, LogRecord, SegmentStore};
use rota_txn::{AppendId, Config, Coordinator};

use crate::{
    base::{clock::Clock, entropy::RandomBits, error::ServerError},
    log::{TRANSACTION_STATE, data_dir::DataDir, offsets_log::SharedLog},
};

/// Kafka's maximum of a batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// The log of all coordinators.
pub struct StateLog {
    partitions: u32,
    disk: Option<Disk>,
}

/// The log in a data directory. The topic is created with the first transactional id.
struct Disk {
    store: Arc<SegmentStore>,
    clock: Clock,
    is_read_only: bool,
    dir: std::path::PathBuf,
    /// The epoch under which each partition is opened.
    epochs: Vec<i32>,
    log: Mutex<Option<Arc<SharedLog>>>,
}

impl StateLog {
    /// Creates a log that forgets.
    pub fn in_memory(partitions: u32) -> StateLog {
        StateLog { partitions, disk: None }
    }

    /// Opens the log of a data directory, under new epochs. A new log gets so many `partitions`. Errors: it cannot be
    /// written.
    pub fn in_data_dir(data: &DataDir, partitions: u32, clock: Clock) -> Result<StateLog, ServerError> {
        let infos = data.store.partitions();
        let infos: Vec<_> = infos.iter().filter(|info| info.topic == TRANSACTION_STATE).collect();
        let count = infos.iter().map(|info| info.partition + 1).max();
        let partitions = count.and_then(|count| u32::try_from(count).ok()).unwrap_or(partitions);
        let mut epochs = vec![0; partitions as usize];
        for info in &infos {
            if let (Some(epoch), Some(stored)) = (epochs.get_mut(info.partition as usize), info.epoch) {
                *epoch = stored.saturating_add(1);
            }
        }
        let disk = Disk {
            store: Arc::clone(&data.store),
            clock,
            is_read_only: data.is_read_only,
            dir: data.dir().to_owned(),
            epochs,
            log: Mutex::default(),
        };
        if !infos.is_empty() && !data.is_read_only {
            disk.open(partitions).map_err(|error| disk.bad(&format!("cannot be written: {error}")))?;
        }
        Ok(StateLog { partitions, disk: Some(disk) })
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Reads the coordinator of a partition. Errors: a record cannot be read.
    pub(super) fn load(&self, config: Config, partition: u32) -> Result<Coordinator, ServerError> {
        let Some(disk) = &self.disk else { return Ok(Coordinator::new(config, 0)) };
        let mut coordinator = Coordinator::new(config, disk.epochs[partition as usize]);
        if disk.is_read_only {
            // Kafka's directory: nothing may be written, so no transaction can go on.
            coordinator.unload(&mut Vec::new());
            return Ok(coordinator);
        }
        let Some(log) = disk.lock().clone() else { return Ok(coordinator) };
        let mut next = 0;
        loop {
            let mut refused = None;
            let read = log.read(partition as i32, next, &mut |record| {
                if refused.is_none() {
                    refused = coordinator.load(record.key, record.value).err().map(|error| (record.offset, error));
                }
            });
            let from = next;
            next = read.map_err(|error| disk.bad(&format!("partition {partition}: {error}")))?;
            if let Some((offset, error)) = refused {
                return Err(disk.bad(&format!("partition {partition} at offset {offset}: {error}")));
            }
            if next == from {
                return Ok(coordinator);
            }
        }
    }

    /// Appends a record. Its completion comes to `to`, at once or later. Returns false in memory: the record needs no
    /// log.
    pub fn append(
        &self,
        partition: u32,
        epoch: i32,
        id: AppendId,
        now_ms: i64,
        record: LogRecord,
        to: &Arc<Completions>,
    ) -> bool {
        let Some(disk) = &self.disk else { return false };
        let append = Append {
            partition: partition as i32,
            epoch,
            id: id.0,
            timestamp_ms: now_ms,
            kind: BatchKind::Plain,
            batch: vec![record],
        };
        match disk.open(self.partitions) {
            Ok(log) => log.append(append, to),
            Err(error) => to.put([append.completion(Err(error))]),
        }
        true
    }
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<SharedLog>>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the log. The first call creates what is missing, opens every partition and waits for that.
    fn open(&self, partitions: u32) -> Result<Arc<SharedLog>, LogError> {
        let mut opened = self.lock();
        if let Some(log) = &*opened {
            return Ok(Arc::clone(log));
        }
        let known = self.store.partitions().into_iter().find(|info| info.topic == TRANSACTION_STATE);
        let topic_id = known.map(|info| info.topic_id).filter(|id| *id != 0).unwrap_or_else(|| {
            uuid::Builder::from_random_bytes(RandomBits::default().draw().to_be_bytes()).into_uuid().as_u128()
        });
        let log = self.store.log(TRANSACTION_STATE, partitions, topic_id, BATCH_BYTES_MAX)?;
        let (opens, results) = channel();
        let to = Completions::relay(move |completion| {
            // Waits for all, unless one failed.
            let _nobody = opens.send(completion.result);
        });
        for (partition, epoch) in self.epochs.iter().enumerate() {
            log.open(partition as i32, *epoch, &to);
        }
        drop(to);
        if let Some(error) = results.iter().find_map(Result::err) {
            return Err(error);
        }
        let clock = self.clock.clone();
        let log: Arc<SharedLog> = Arc::new(FaultyLog::new(Arc::new(log), move || clock.now().mono_ms));
        *opened = Some(Arc::clone(&log));
        Ok(log)
    }

    fn bad(&self, reason: &str) -> ServerError {
        ServerError::BadData { dir: self.dir.clone(), reason: format!("`{TRANSACTION_STATE}`: {reason}") }
    }
}
