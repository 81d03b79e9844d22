//! The log under `__transaction_state`: in the data directory, in the engine of a cluster, or none in memory, where
//! nothing outlives the process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::channel},
};

use rota_cluster::notes::Partitions;
use rota_engine::PartitionId;
use rota_log::{
    Append, BatchKind, Completion, Completions, FaultyLog, FencedLog, LogError, LogRecord, SegmentStore,
    store::PartitionInfo,
};
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
    kept: Kept,
}

/// Where records are kept.
enum Kept {
    Nowhere,
    InDataDir(Disk),
    InEngine(EngineLog),
}

/// The log of a cluster, under the numbers that partitions have there.
struct EngineLog {
    log: Arc<SharedLog>,
    partitions: Partitions,
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
        StateLog { partitions, kept: Kept::Nowhere }
    }

    /// The log of a cluster.
    pub fn in_engine(log: Arc<SharedLog>, partitions: Partitions) -> StateLog {
        StateLog { partitions: partitions.transactions, kept: Kept::InEngine(EngineLog { log, partitions }) }
    }

    /// Opens the log of a data directory, under new epochs. A new log gets so many `partitions`. Errors: it cannot be
    /// written.
    pub fn in_data_dir(data: &DataDir, partitions: u32, clock: Clock) -> Result<StateLog, ServerError> {
        let stored = data.store.partitions();
        let infos = own(stored.clone());
        let partitions = infos.last().map_or(partitions, |last| last.partition as u32 + 1);
        let mut epochs = vec![0; partitions as usize];
        // Whatever topic they are of: the log opens partitions by their names.
        for info in stored.iter().filter(|info| info.topic == TRANSACTION_STATE) {
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
        Ok(StateLog { partitions, kept: Kept::InDataDir(disk) })
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Reads the coordinator of a partition, unless it is in an engine. Errors: a record cannot be read.
    pub(super) fn load(&self, config: Config, partition: u32) -> Result<Coordinator, ServerError> {
        let Kept::InDataDir(disk) = &self.kept else { return Ok(Coordinator::new(config, 0)) };
        let mut coordinator = Coordinator::new(config, disk.epochs[partition as usize]);
        if disk.is_read_only {
            // Kafka's directory: nothing may be written, so no transaction can go on.
            coordinator.unload(&mut Vec::new());
            return Ok(coordinator);
        }
        let Some(log) = disk.lock().clone() else { return Ok(coordinator) };
        let mut next = 0;
        loop {
            let from = next;
            let read = load_slice(&log, partition as i32, &mut coordinator, from);
            next = read.map_err(|reason| disk.bad(&format!("partition {partition}{reason}")))?;
            if next == from {
                return Ok(coordinator);
            }
        }
    }

    /// Opens a partition in the engine under the epoch of its claim. The completion comes to `to`.
    pub fn open(&self, partition: u32, epoch: i32, to: &Arc<Completions>) {
        if let Kept::InEngine(engine) = &self.kept {
            engine.log.open(engine.partitions.of_transactions(partition).0, epoch, to);
        }
    }

    /// Reads the next slice of a partition in the engine. Returns the offset of the next record: `from` at the end.
    /// Errors: a record cannot be read.
    pub(super) fn load_slice(&self, partition: u32, coordinator: &mut Coordinator, from: i64) -> Result<i64, String> {
        let Kept::InEngine(engine) = &self.kept else { return Ok(from) };
        load_slice(&engine.log, engine.partitions.of_transactions(partition).0, coordinator, from)
    }

    /// The partition of `__transaction_state` that a completion names.
    pub fn partition_of(&self, completion: &Completion) -> u32 {
        match &self.kept {
            Kept::InEngine(engine) => {
                engine.partitions.in_transactions(PartitionId(completion.partition)).unwrap_or_default()
            }
            _ => completion.partition as u32,
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
        let append = |partition| Append {
            partition,
            epoch,
            id: id.0,
            timestamp_ms: now_ms,
            kind: BatchKind::Plain,
            batch: vec![record],
        };
        match &self.kept {
            Kept::Nowhere => return false,
            Kept::InEngine(engine) => {
                engine.log.append(append(engine.partitions.of_transactions(partition).0), to);
            }
            Kept::InDataDir(disk) => {
                let append = append(partition as i32);
                match disk.open(self.partitions) {
                    Ok(log) => log.append(append, to),
                    Err(error) => to.put([append.completion(Err(error))]),
                }
            }
        }
        true
    }
}

/// Returns the partitions of the coordinators, in order. They are created together from 0 on with one topic id. What else has
/// the name is of a topic that a client of an earlier release created.
fn own(mut infos: Vec<PartitionInfo>) -> Vec<PartitionInfo> {
    infos.retain(|info| info.topic == TRANSACTION_STATE && info.partition >= 0);
    infos.sort_by_key(|info| info.partition);
    let mut by_id: BTreeMap<u128, Vec<PartitionInfo>> = BTreeMap::new();
    for info in infos {
        by_id.entry(info.topic_id).or_default().push(info);
    }
    // An operator may have removed one that was damaged.
    let has_most =
        |found: &Vec<PartitionInfo>| found.last().is_some_and(|last| 2 * found.len() as i32 > last.partition);
    by_id.into_values().filter(has_most).max_by_key(Vec::len).unwrap_or_default()
}

/// Reads the next slice of a log into a coordinator. Returns the offset of the next record. Errors: where and why a record
/// cannot be read.
fn load_slice(log: &SharedLog, partition: i32, coordinator: &mut Coordinator, from: i64) -> Result<i64, String> {
    let mut refused = None;
    let read = log.read(partition, from, &mut |record| {
        if refused.is_none() {
            refused = coordinator.load(record.key, record.value).err().map(|error| (record.offset, error));
        }
    });
    let next = read.map_err(|error| format!(": {error}"))?;
    refused.map_or(Ok(next), |(offset, error)| Err(format!(" at offset {offset}: {error}")))
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
        let known = own(self.store.partitions()).into_iter().next();
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rota_log::{BatchWriter, store::Command, store::PartitionHandle};

    use super::*;
    use crate::{base::settings::Settings, log::data_dir::DataConfig};

    fn opened(dir: &Path, partitions: u32) -> (DataDir, StateLog) {
        let data = DataDir::open(&DataConfig::at(dir.to_owned()), &mut Settings::default(), "c").unwrap();
        let log = StateLog::in_data_dir(&data, partitions, Clock::standing()).unwrap();
        (data, log)
    }

    /// A partition of a topic of this name that is not the coordinators', with a message.
    fn write_another(data: &DataDir, partition: i32, epoch: i32) {
        let create = Command::Create { topic: TRANSACTION_STATE.to_owned(), partition, topic_id: 9 };
        let created = data.store.call(vec![create]).remove(0).unwrap();
        let partition = PartitionHandle(created as u32);
        let mut writer = BatchWriter::default();
        writer.push(0, Some(b"k"), Some(b"v"));
        let append = Command::Append { partition, epoch, batch: writer.finish().to_vec() };
        let outcomes = data.store.call(vec![Command::Open { partition, epoch }, append]);
        assert_eq!(outcomes.into_iter().last(), Some(Ok(0)));
    }

    fn loads_all(log: &StateLog) -> bool {
        (0..log.partitions()).all(|partition| log.load(Config::default(), partition).is_ok())
    }

    #[test]
    fn a_topic_with_the_name_changes_neither_the_number_of_partitions_nor_their_records() {
        let dir = tempfile::tempdir().unwrap();
        let (data, log) = opened(dir.path(), 50);
        write_another(&data, 50, 0);
        drop((data, log));
        let (data, log) = opened(dir.path(), 50);
        assert_eq!((log.partitions(), loads_all(&log)), (50, true));
        let Kept::InDataDir(disk) = &log.kept else { panic!("it is in a data directory") };
        disk.open(log.partitions()).unwrap();
        drop((data, log));
        // Beside the coordinators' own.
        let (data, log) = opened(dir.path(), 50);
        assert_eq!((log.partitions(), loads_all(&log)), (50, true));
        assert!(own(data.store.partitions()).iter().all(|info| info.topic_id != 9));
    }

    /// As of one of several directories of a broker that was taken over.
    #[test]
    fn the_log_goes_on_in_a_directory_with_few_partitions_of_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let (data, log) = opened(dir.path(), 50);
        write_another(&data, 40, 7);
        drop((data, log));
        for _ in 0..2 {
            let (_data, log) = opened(dir.path(), 50);
            let Kept::InDataDir(disk) = &log.kept else { panic!("it is in a data directory") };
            disk.open(log.partitions()).unwrap();
            assert_eq!(log.partitions(), 50);
        }
    }

    #[test]
    fn the_number_of_partitions_stays_if_one_of_them_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (data, log) = opened(dir.path(), 4);
        let Kept::InDataDir(disk) = &log.kept else { panic!("it is in a data directory") };
        disk.open(4).unwrap();
        let first = own(data.store.partitions()).remove(0).handle;
        assert_eq!(data.store.call(vec![Command::Delete { partition: first }]), [Ok(0)]);
        drop((data, log));
        let (_data, log) = opened(dir.path(), 50);
        assert_eq!((log.partitions(), loads_all(&log)), (4, true));
    }
}
