//! A fixed workload on a store, with its acknowledgements: the log has to agree with them after any crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use rota_log::{
    BatchWriter, LogError, StoredRecord, batches,
    files::{Files, ForgetfulFiles, Survival, read_file},
    store::{
        Access, Command, Durability, OpenError, PartitionHandle, PartitionInfo, Report, Store, StoreOptions, Task,
    },
};

pub const OFFSETS: &str = "__consumer_offsets";
pub const TOPIC: &str = "t";

pub fn options(durability: Durability) -> StoreOptions {
    StoreOptions {
        durability,
        segment_bytes: 500,
        batch_bytes_max: 2_000,
        wal_bytes: 1_000,
        wal_reserve_bytes: 512,
        cluster_id: "c".to_owned(),
        access: Access::Own,
        raises_epochs: false,
        compacted_topics: vec![OFFSETS.to_owned()],
        delete_retention_ms: 30,
        compaction_keys_max: 2_000_000,
        cleanable_percent_min: 50,
    }
}

/// The requests and answers of one life of a partition.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Offset to key, value and epoch, of acknowledged records.
    acknowledged: BTreeMap<i64, Asked>,
    /// Of records that may be there or not.
    uncertain: BTreeSet<Asked>,
    /// Epoch, and the next offset when it was opened.
    epochs: Vec<(i32, i64)>,
}

type Asked = (Vec<u8>, Option<Vec<u8>>, i32);

/// Topic, partition, topic id.
type Life = (&'static str, i32, u128);

#[derive(Debug, Default)]
pub struct Workload {
    pub told: BTreeMap<Life, History>,
    /// Lives whose deletion was acknowledged, or asked for.
    deleted: BTreeSet<Life>,
    deleting: BTreeSet<Life>,
    task: Option<Task>,
    serial: u64,
    now_ms: i64,
    epoch: i32,
    pub checkpoints: u64,
    pub compactions: u64,
    pub failures: u64,
}

/// A row of appends of one life: how many records in each.
struct Round<'r> {
    appends: &'r [(Life, u64)],
}

impl Workload {
    fn handle(store: &Store, life: Life) -> Option<PartitionHandle> {
        let found = store
            .partitions()
            .into_iter()
            .find(|info| info.topic == life.0 && info.partition == life.1 && info.topic_id == life.2);
        found.map(|info| info.handle)
    }

    /// A restart goes on where the file system is; an opening that meets the fault is tried once more.
    fn open(files: &ForgetfulFiles, durability: Durability) -> Option<(Store, Report)> {
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let open = || Store::open(Arc::clone(&shared), Path::new(""), options(durability)).ok();
        open().or_else(open)
    }

    /// The whole of it; ends early when the machine crashes.
    pub fn run(files: &ForgetfulFiles, durability: Durability) -> Workload {
        let mut workload = Workload::default();
        let lives: [Life; 4] = [(OFFSETS, 0, 1), (OFFSETS, 1, 1), (OFFSETS, 2, 1), (TOPIC, 0, 2)];
        for restart in 0..3 {
            let Some((mut store, _)) = Workload::open(files, durability) else { return workload };
            for life in lives {
                workload.create(&mut store, life);
            }
            workload.open_all(&mut store, &lives);
            for round in 0..7_u64 {
                let rows: Vec<(Life, u64)> = (0..)
                    .zip(lives)
                    .filter(|(at, _)| (round + at) % 3 != 0)
                    .map(|(at, life)| (life, 1 + (round + at) % 3))
                    .collect();
                workload.pass(&mut store, &Round { appends: &rows });
                workload.work(&mut store, 5);
            }
            if restart == 1 {
                workload.delete(&mut store, lives[3]);
                workload.create(&mut store, (TOPIC, 0, 3));
                workload.open_all(&mut store, &[(TOPIC, 0, 3), lives[0]]);
                workload.pass(&mut store, &Round { appends: &[((TOPIC, 0, 3), 2), (lives[0], 1)] });
            }
            if restart == 0 {
                workload.work(&mut store, usize::MAX);
                let _ = store.checkpoint();
            }
            workload.compactions += store.compactions();
            workload.task = None;
            if files.has_crashed() {
                break;
            }
        }
        workload
    }

    fn create(&mut self, store: &mut Store, life: Life) {
        if self.deleted.contains(&life) || self.deleting.contains(&life) {
            return;
        }
        let (topic, partition, topic_id) = life;
        let _ = store.pass(vec![Command::Create { topic: topic.to_owned(), partition, topic_id }]);
    }

    fn delete(&mut self, store: &mut Store, life: Life) {
        let Some(partition) = Workload::handle(store, life) else { return };
        self.deleting.insert(life);
        if store.pass(vec![Command::Delete { partition }])[0].is_ok() {
            self.deleted.insert(life);
        }
    }

    fn open_all(&mut self, store: &mut Store, lives: &[Life]) {
        self.epoch += 1;
        let epoch = self.epoch;
        let handles: Vec<_> =
            lives.iter().filter_map(|life| Workload::handle(store, *life).map(|h| (*life, h))).collect();
        let opens = handles.iter().map(|(_, partition)| Command::Open { partition: *partition, epoch }).collect();
        for ((life, _), outcome) in handles.iter().zip(store.pass(opens)) {
            if let Ok(next_offset) = outcome {
                let told = self.told.entry(*life).or_default();
                let acknowledged = told.acknowledged.keys().next_back();
                assert!(acknowledged.is_none_or(|last| *last < next_offset), "{life:?} goes on before its end");
                told.epochs.push((epoch, next_offset));
            }
        }
    }

    fn pass(&mut self, store: &mut Store, round: &Round<'_>) {
        let epoch = self.epoch;
        let mut asked: Vec<(Life, Vec<Asked>)> = Vec::new();
        let mut commands = Vec::new();
        for (life, records) in round.appends {
            let Some(partition) = Workload::handle(store, *life) else { continue };
            for _ in 0..2 {
                let mut writer = BatchWriter::default();
                let mut contents = Vec::new();
                for _ in 0..*records {
                    self.serial += 1;
                    let key = format!("k{}", self.serial % 5).into_bytes();
                    let value = (!self.serial.is_multiple_of(7)).then(|| format!("value {}", self.serial).into_bytes());
                    writer.push(self.now_ms, Some(&key), value.as_deref());
                    contents.push((key, value, epoch));
                }
                asked.push((*life, contents));
                commands.push(Command::Append { partition, epoch, batch: writer.finish().to_vec() });
            }
        }
        for ((life, contents), outcome) in asked.into_iter().zip(store.pass(commands)) {
            let told = self.told.entry(life).or_default();
            match outcome {
                Ok(base_offset) => told.acknowledged.extend((base_offset..).zip(contents)),
                Err(LogError::Stopped { .. }) => {
                    self.failures += 1;
                    told.uncertain.extend(contents);
                }
                // Anything else has not been done and never will be.
                Err(_) => self.failures += 1,
            }
        }
        self.now_ms += 10;
    }

    /// Some slices of what is to be done beside the passes.
    fn work(&mut self, store: &mut Store, slices: usize) {
        for _ in 0..slices {
            if self.task.is_none() {
                self.task = store.next_task(self.now_ms);
            }
            let Some(mut task) = self.task.take() else { return };
            match task.step() {
                Ok(true) => self.task = Some(task),
                done => {
                    self.checkpoints += u64::from(done.is_ok() && matches!(task, Task::Checkpoint(_)));
                    store.finish(task, done.map(|_| ()));
                }
            }
        }
    }

    /// What is wrong with the log that was recovered on `files`, if anything is. It is opened, appended to, and opened
    /// again.
    pub fn verdict(&self, files: &ForgetfulFiles, durability: Durability) -> Result<(), String> {
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let open = || Store::open(Arc::clone(&shared), Path::new(""), options(durability));
        let read = read(files);
        let (mut store, report) = open().map_err(|error| error.to_string())?;
        if let Some(damage) = report.damage.first() {
            return Err(format!("damage: {damage}"));
        }
        if read?.is_some_and(|read| read != records_by_life(&store)) {
            return Err("a reader finds something else than a start".into());
        }
        whole_batches(files)?;
        topic_ids_are_durable(files)?;
        let mut appended = Vec::new();
        for (life, told) in &self.told {
            let Some(handle) = Workload::handle(&store, *life) else {
                if self.deleting.contains(life) || told.acknowledged.is_empty() && told.epochs.is_empty() {
                    continue;
                }
                return Err(format!("{life:?} is gone"));
            };
            if self.deleted.contains(life) {
                return Err(format!("{life:?} is back"));
            }
            let view = store.view(handle).expect("it has a handle");
            let records = view.read_records(0, usize::MAX).map_err(|error| format!("{life:?}: {error}"))?;
            told.check(life.0 == OFFSETS, &records).map_err(|reason| format!("{life:?}: {reason}"))?;
            let newest = told.epochs.last().map_or(-1, |(epoch, _)| *epoch);
            let outcome = store.pass(vec![Command::Open { partition: handle, epoch: newest - 1 }]).remove(0);
            if newest > 0 && !matches!(outcome, Err(LogError::Fenced { .. })) {
                return Err(format!("{life:?}: epoch {} is let in again: {outcome:?}", newest - 1));
            }
            appended.push((*life, append_one(&mut store, handle, newest + 100)?, records.len()));
        }
        drop(store);
        let (store, _) = open().map_err(|error| format!("the second time: {error}"))?;
        for (life, offset, before) in appended {
            let handle = Workload::handle(&store, life).ok_or("gone the second time")?;
            let view = store.view(handle).expect("it has a handle");
            let records = view.read_records(0, usize::MAX).map_err(|error| format!("the second time: {error}"))?;
            if records.len() != before + 1 || records.last().map(|last| last.offset) != Some(offset) {
                return Err(format!("{life:?}: not what was there, and one more"));
            }
        }
        Ok(())
    }
}

type Records = BTreeMap<(String, i32, u128), Result<Vec<StoredRecord>, LogError>>;

fn records_by_life(store: &Store) -> Records {
    let records =
        |info: PartitionInfo| ((info.topic, info.partition, info.topic_id), info.view.read_records(0, usize::MAX));
    store.partitions().into_iter().map(records).collect()
}

/// What a reader finds who changes nothing; `None` if there is nothing yet.
fn read(files: &ForgetfulFiles) -> Result<Option<Records>, String> {
    let before = files.operations();
    let reading = StoreOptions { access: Access::Read, ..options(Durability::Fsync) };
    let opened = Store::open(Arc::new(files.clone()), Path::new(""), reading);
    assert_eq!(files.operations(), before, "nothing is changed");
    match opened {
        Ok((store, _)) => Ok(Some(records_by_life(&store))),
        Err(OpenError::NoData { .. }) => Ok(None),
        Err(error) => Err(format!("a reader: {error}")),
    }
}

/// The segments' files contain whole batches and nothing else.
fn whole_batches(files: &ForgetfulFiles) -> Result<(), String> {
    for dir in files.list(Path::new("")).expect("there is a root").into_iter().filter(|entry| entry.is_dir) {
        for entry in files.list(Path::new(&dir.name)).expect("it is listed") {
            let path = Path::new(&dir.name).join(&entry.name);
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let bytes = read_file(files, &path).expect("it is listed").unwrap_or_default();
            for batch in batches(&bytes) {
                let checked = batch.and_then(|batch| batch.check_crc());
                checked.map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// A recovered directory says of every segment whose it is, also after a loss of power.
fn topic_ids_are_durable(files: &ForgetfulFiles) -> Result<(), String> {
    let durable = files.after_crash(Survival::Nothing);
    for dir in files.list(Path::new("")).expect("there is a root").into_iter().filter(|entry| entry.is_dir) {
        let names = files.list(Path::new(&dir.name)).expect("it is listed");
        let metadata = read_file(&durable, &Path::new(&dir.name).join("partition.metadata"));
        let has_id = metadata.is_ok_and(|text| text.is_some_and(|text| text.len() > 30));
        let is_segment = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "log");
        if names.iter().any(|entry| is_segment(&entry.name)) && !has_id {
            return Err(format!("{} has segments and no topic id", dir.name));
        }
    }
    Ok(())
}

fn append_one(store: &mut Store, partition: PartitionHandle, epoch: i32) -> Result<i64, String> {
    let mut writer = BatchWriter::default();
    writer.push(0, Some(b"new key"), Some(b"new"));
    let batch = writer.finish().to_vec();
    let outcomes = store.pass(vec![Command::Open { partition, epoch }, Command::Append { partition, epoch, batch }]);
    outcomes.into_iter().last().expect("two").map_err(|error| format!("cannot go on: {error}"))
}

impl History {
    fn check(&self, is_compacted: bool, records: &[StoredRecord]) -> Result<(), String> {
        if !records.is_sorted_by(|one, next| one.offset < next.offset) {
            return Err("offsets do not ascend".into());
        }
        for stored in records {
            let StoredRecord { offset, epoch, .. } = *stored;
            let content = (stored.record.key.clone(), stored.record.value.clone(), epoch);
            match self.acknowledged.get(&offset) {
                Some(asked) if *asked == content => {}
                Some(_) => return Err(format!("offset {offset} was acknowledged with another record")),
                None if self.uncertain.contains(&content) => {}
                None => return Err(format!("{content:?} must not be found at offset {offset}")),
            }
            let in_force = self.epochs.iter().rfind(|(_, start)| *start <= offset).map(|(epoch, _)| *epoch);
            if in_force.is_some_and(|in_force| epoch < in_force) {
                return Err(format!("offset {offset} has epoch {epoch}, which was fenced by {in_force:?}"));
            }
        }
        let found: BTreeMap<i64, &StoredRecord> = records.iter().map(|stored| (stored.offset, stored)).collect();
        for (offset, (key, value, _)) in &self.acknowledged {
            let newer = records.iter().rfind(|stored| stored.record.key == *key && stored.offset > *offset);
            let older = records.iter().any(|stored| stored.record.key == *key && stored.offset < *offset);
            let may_be_gone = is_compacted && (newer.is_some() || value.is_none() && !older);
            if !found.contains_key(offset) && !may_be_gone {
                return Err(format!("acknowledged offset {offset} is lost"));
            }
        }
        Ok(())
    }
}
