//! Topics on disk: the table in its own file, messages in the segments of the store.
//!
//! The table's file is replaced as a whole, and is durable before a change is acknowledged. A topic is in it before any
//! of its messages is on disk, and removed from it before its partitions are deleted. So after a crash, partitions of
//! topics outside of the table belong to deleted topics.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use kafka_protocol::{messages::create_topics_request::CreatableTopicConfig, protocol::StrBytes};
use rota_log::{
    AbortedTransaction, LogError, SegmentStore, TransactionIndex,
    store::{Command, Outcome, PartitionHandle, PartitionInfo, PartitionView, SideFile, Store},
};
use uuid::Uuid;

use super::{
    CONSUMER_OFFSETS,
    configs::TopicConfigs,
    snapshot::{Table, Topic},
    starts::{KAFKAS_STARTS_FILE, Place, STARTS_FILE, Starts, parse_kafkas},
};
use crate::{
    base::{
        error::ServerError,
        owners::FIRST_NODE,
        text_file::{TextFile, check_format, entries, escaped, summed, unescaped},
    },
    log::{data_dir::DataDir, node_file::NODE_FILE},
};

/// The table's file in the data directory.
pub const TOPICS_FILE: &str = "rota.topics";

/// The first word of the table, before the number of its format.
const HEAD: &str = "rota.topics ";
/// The format that this release writes. Every format ends with the line of the checksum.
const FORMAT: u32 = 1;

/// Kafka's internal topics, which clients neither create nor write to.
pub(super) const KAFKAS_OWN: [&str; 4] =
    [CONSUMER_OFFSETS, "__transaction_state", "__share_group_state", "__cluster_metadata"];

/// Bytes read at once by a scan of a segment.
pub(super) const SCAN_BYTES: usize = 1 << 20;

/// A partition in the store.
#[derive(Clone, Debug)]
pub(super) struct OnDisk {
    pub handle: PartitionHandle,
    pub epoch: i32,
    /// The epochs of its batches with their first offsets, oldest first: more than one only if Kafka wrote some, or a start
    /// began some.
    pub epochs: Arc<[(i32, i64)]>,
    pub view: Arc<PartitionView>,
}

impl OnDisk {
    /// Returns a partition that was found in the store.
    pub fn of(info: PartitionInfo) -> OnDisk {
        let PartitionInfo { handle, epoch, mut epochs, view, .. } = info;
        let epoch = epoch.unwrap_or_else(|| newest_epoch(&view));
        if epochs.is_empty() {
            // Where earlier epochs end is not known: not before the end, which would make consumers go back.
            epochs.push((epoch, view.next_offset()));
        }
        OnDisk { handle, epoch, epochs: epochs.into(), view }
    }
}

/// Returns the epoch of the last batch of a partition without the file of its epochs; 0 if there is none.
fn newest_epoch(view: &PartitionView) -> i32 {
    let mut epoch = 0;
    let mut from = view.segments().last().map_or(0, |newest| newest.base_offset);
    while let Ok(slice) = view.read_slice(from, SCAN_BYTES)
        && slice.next_offset != from
    {
        epoch = slice.batches().flatten().last().map_or(epoch, |batch| batch.header().leader_epoch.max(0));
        from = slice.next_offset;
    }
    epoch
}

/// The table and the store of topics.
#[derive(Debug)]
pub struct TopicDisk {
    store: Arc<SegmentStore>,
    file: TextFile,
    starts: Starts,
    partitions: Mutex<HashMap<(Uuid, i32), OnDisk>>,
}

/// A topic found on disk.
#[derive(Debug)]
pub(super) struct Found {
    pub name: String,
    pub topic: Topic,
}

impl TopicDisk {
    /// Creates the topics over an open data directory. Errors: `BadData`.
    pub fn new(data: &DataDir) -> Result<TopicDisk, ServerError> {
        let unreadable = |file: &str, reason: &str| {
            data.bad(&format!("has a `{file}` that cannot be read: {reason}; restore it from a copy, or remove it"))
        };
        let starts = Starts::read(data.text_file(STARTS_FILE)).map_err(|reason| unreadable(STARTS_FILE, &reason))?;
        let (store, file) = (Arc::clone(&data.store), data.text_file(TOPICS_FILE));
        let disk = TopicDisk { store, file, starts, partitions: Mutex::default() };
        let text = if disk.is_as_kafka_left_it(data) { data.text_file(KAFKAS_STARTS_FILE).read() } else { Ok(None) };
        let text = text.map_err(|error| unreadable(KAFKAS_STARTS_FILE, &error.to_string()))?;
        let text = text.unwrap_or_default();
        let kafkas = parse_kafkas(&text).map_err(|reason| unreadable(KAFKAS_STARTS_FILE, &reason))?;
        let taken = disk.take_over_starts(&kafkas);
        taken.map_err(|error| data.bad(&format!("has a `{STARTS_FILE}` that cannot be written: {error}")))?;
        Ok(disk)
    }

    /// Whether no topic and no first offset has changed since the directory was Kafka's. Its names of topics mean other
    /// ones once some were deleted. A node of a cluster has no file of topics.
    fn is_as_kafka_left_it(&self, data: &DataDir) -> bool {
        let is_missing = |file: &TextFile| matches!(file.read(), Ok(None));
        !self.starts.is_there() && is_missing(&self.file) && is_missing(&data.text_file(NODE_FILE))
    }

    /// Hides what `DeleteRecords` had removed in Kafka.
    fn take_over_starts(&self, kafkas: &[(&str, i32, i64)]) -> io::Result<()> {
        if kafkas.is_empty() {
            return Ok(());
        }
        let offsets: HashMap<(&str, i32), i64> =
            kafkas.iter().map(|(topic, index, offset)| ((*topic, *index), *offset)).collect();
        let start = |info: PartitionInfo| {
            let offset = *offsets.get(&(info.topic.as_str(), info.partition))?;
            let is_topics = info.topic_id != 0 && !KAFKAS_OWN.contains(&info.topic.as_str());
            is_topics.then_some(((Uuid::from_u128(info.topic_id), info.partition), offset))
        };
        let starts: Vec<(Place, i64)> = self.store.partitions().into_iter().filter_map(start).collect();
        self.starts.take_over(&starts)
    }

    /// Makes the first offsets of partitions durable. Errors: the file cannot be written.
    pub(super) fn save_starts(&self, starts: &[(Place, i64)]) -> io::Result<()> {
        // Also those of topics that a cluster may bring back.
        let places =
            || self.store.partitions().iter().map(|info| (Uuid::from_u128(info.topic_id), info.partition)).collect();
        self.starts.save(starts, places)
    }

    /// Removes segments below `offset`, but not those of open transactions.
    pub(super) fn trim_below(&self, on_disk: &OnDisk, offset: i64) {
        self.submit(Command::Trim { partition: on_disk.handle, limit_bytes: u64::MAX, below: offset }, |_| ());
    }

    /// Removes segments below `offset`, of records that have expired. As in Kafka, the newest one is finished first if all
    /// of them have.
    pub(super) fn expire_below(&self, on_disk: &OnDisk, offset: i64) {
        if offset == on_disk.view.next_offset() && offset <= on_disk.view.keep_from() {
            self.submit(Command::Roll { partition: on_disk.handle, end_offset: offset }, |_| ());
        }
        self.trim_below(on_disk, offset);
    }

    /// Returns the data directory.
    pub(super) fn dir(&self) -> &Path {
        self.file.path.parent().unwrap_or(&self.file.path)
    }

    /// Whether nothing may be written.
    pub(super) fn is_read_only(&self) -> bool {
        self.file.is_read_only
    }

    /// Reads the table, or derives it from the partitions. Errors: why it cannot be read.
    fn read_table(&self, infos: &[PartitionInfo]) -> Result<Vec<Found>, String> {
        let from_a_copy = |reason: String| format!("{reason}; restore it from a copy");
        let Some(text) = self.file.read().map_err(|error| from_a_copy(error.to_string()))? else {
            return Ok(derived(infos));
        };
        check_format(&text, HEAD, FORMAT)?;
        parse(&text).map_err(from_a_copy)
    }

    /// Reads the topics of the data directory, with existing nodes as leaders. Deletes partitions of deleted topics.
    /// Errors: why the table cannot be read, or which partitions could be of any topic.
    pub(super) fn find(&self, nodes: u32) -> Result<Vec<Found>, String> {
        let mut infos = self.store.partitions();
        infos.retain(|info| !KAFKAS_OWN.contains(&info.topic.as_str()));
        let unreadable = |reason| format!("has a `{TOPICS_FILE}` that cannot be read: {reason}");
        let mut found = self.read_table(&infos).map_err(unreadable)?;
        if !self.is_read_only() {
            check_topic_ids(&infos)?;
        }
        for (at, Found { topic, .. }) in found.iter_mut().enumerate() {
            for (index, leader) in topic.leaders.iter_mut().enumerate() {
                if !(FIRST_NODE..FIRST_NODE + nodes as i32).contains(leader) {
                    *leader = FIRST_NODE + ((at + index) % nodes as usize) as i32;
                }
            }
        }
        // A client of an earlier release could create such a topic. Its messages would be taken for a coordinator's records.
        found.retain(|found| !KAFKAS_OWN.contains(&found.name.as_str()));
        let known: HashMap<Uuid, usize> =
            found.iter().map(|found| (found.topic.id, found.topic.leaders.len())).collect();
        let (kept, gone): (Vec<PartitionInfo>, Vec<PartitionInfo>) = infos.into_iter().partition(|info| {
            known.get(&Uuid::from_u128(info.topic_id)).is_some_and(|count| (info.partition as usize) < *count)
        });
        if !self.is_read_only() && !gone.is_empty() {
            self.delete_gone(&gone);
        }
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        let on_disk = |info: PartitionInfo| ((Uuid::from_u128(info.topic_id), info.partition), OnDisk::of(info));
        partitions.extend(kept.into_iter().map(on_disk));
        let applied = self.starts.apply(partitions.iter().map(|(place, at)| (place, at.view.as_ref())));
        applied.map_err(|error| format!("cannot be used: {error}"))?;
        let opens = partitions.values();
        let opens: Vec<Command> = opens.map(|at| Command::Open { partition: at.handle, epoch: at.epoch }).collect();
        drop(partitions);
        if !self.is_read_only() {
            // A partition that cannot be opened refuses produce requests.
            self.store.call(opens);
        }
        Ok(found)
    }

    /// Deletes partitions of topics outside of the table, and says so: an older copy of the table lacks topics, too.
    fn delete_gone(&self, gone: &[PartitionInfo]) {
        let outcomes = self.store.call(gone.iter().map(|info| Command::Delete { partition: info.handle }).collect());
        let dir = self.dir().display();
        for (info, outcome) in gone.iter().zip(outcomes) {
            eprintln!("rota: `{dir}`: {}", said_of_gone(info, outcome));
        }
    }

    /// Adds open partitions.
    pub(super) fn add(&self, found: &[((Uuid, i32), OnDisk)]) {
        if let Err(error) = self.starts.apply(found.iter().map(|(place, at)| (place, at.view.as_ref()))) {
            eprintln!("rota: partitions are refused until the server starts again: {error}");
        }
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner).extend(found.iter().cloned());
    }

    /// Forgets the partitions of topics, which stay in the directory.
    pub(super) fn release(&self, ids: &HashSet<Uuid>) {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner).retain(|(id, _), _| !ids.contains(id));
    }

    /// Returns the leader epochs above 0.
    pub(super) fn later_epochs(&self) -> HashMap<Place, i32> {
        let partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        partitions.iter().filter(|(_, at)| at.epoch > 0).map(|(place, at)| (*place, at.epoch)).collect()
    }

    /// Returns the partitions on disk.
    pub(super) fn all(&self) -> Vec<((Uuid, i32), OnDisk)> {
        let partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        partitions.iter().map(|(place, on_disk)| (*place, on_disk.clone())).collect()
    }

    /// Returns the transactions of these partitions; `None`: a partition never had any. Errors: which records are
    /// aborted is not known, so none of the partition may be read.
    pub(super) fn transactions(
        &self,
        handles: Vec<PartitionHandle>,
    ) -> Vec<Result<Option<TransactionIndex>, LogError>> {
        let read = move |store: &mut Store| handles.iter().map(|handle| store.transactions(*handle)).collect();
        self.store.inspect(read).unwrap_or_default()
    }

    /// Refuses a partition from now on, because of `error`, and says so once.
    pub(super) fn refuse(&self, on_disk: &OnDisk, name: &str, error: &LogError) {
        let is_known = on_disk.view.refusal().is_some() || matches!(error, LogError::Stopped { .. });
        on_disk.view.refuse(error.clone());
        // Any of its records may be of an open transaction.
        on_disk.view.keep_open(Some(0));
        if !is_known {
            let dir = self.dir().display();
            eprintln!("rota: `{dir}`: refused {name}: its transactions cannot be read: {error}");
        }
    }

    /// After a start, completes the files of the aborted transactions. Usually these are those of the last segment.
    pub(super) fn complete_aborted(&self, on_disk: &OnDisk, transactions: &TransactionIndex) {
        if !self.is_read_only() {
            let files = aborted_files(on_disk, transactions, i64::MAX);
            self.submit(Command::WriteBeside { partition: on_disk.handle, files }, |_| ());
        }
    }

    /// Before the first transaction of a partition, makes durable that it has transactions. Waits for the store. Errors:
    /// those of the store.
    pub(super) fn begin_transactions(&self, on_disk: &OnDisk) -> Result<(), LogError> {
        let file = SideFile::Snapshot(on_disk.view.next_offset(), TransactionIndex::default().snapshot());
        let command = Command::WriteBeside { partition: on_disk.handle, files: vec![file] };
        self.store.call(vec![command]).into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
    }

    /// If a durable batch begins a segment, writes the files of transactions about what is before it. `transactions` is
    /// the state before the batch. After a failure there is no snapshot, and the next segment writes all of them again.
    pub(super) fn note_segment(&self, on_disk: &OnDisk, transactions: &TransactionIndex, base_offset: i64) {
        let segments = on_disk.view.segments();
        // The first segment begins at 0, or all before it has expired.
        if base_offset == 0 || !segments.iter().any(|segment| segment.base_offset == base_offset) {
            return;
        }
        let mut files = aborted_files(on_disk, transactions, base_offset);
        files.push(SideFile::Snapshot(base_offset, transactions.snapshot()));
        self.submit(Command::WriteBeside { partition: on_disk.handle, files }, |_| ());
    }

    /// Adds an aborted transaction to the file of the segment with its marker.
    pub(super) fn note_aborted(&self, on_disk: &OnDisk, aborted: &AbortedTransaction) {
        let segments = on_disk.view.segments();
        let holder = segments.iter().rfind(|segment| segment.base_offset <= aborted.last_offset);
        if let Some(segment) = holder {
            let file = SideFile::MoreAborted(segment.base_offset, aborted.row().to_vec());
            self.submit(Command::WriteBeside { partition: on_disk.handle, files: vec![file] }, |_| ());
        }
    }

    /// Writes the table durably.
    pub(super) fn save(&self, table: &Table) -> io::Result<()> {
        self.file.replace(&written(table))
    }

    /// Creates a partition of a topic in the table. Waits for the store.
    pub(super) fn create(&self, topic: &str, id: Uuid, index: i32) -> Result<OnDisk, LogError> {
        let created = self.create_all(&BTreeMap::from([((id, index), topic.to_owned())]));
        created.into_iter().next().unwrap_or(Err(LogError::UnknownPartition { partition: index }))
    }

    /// Creates partitions of topics in the table, with these names. Waits for the store.
    pub(super) fn create_all(&self, partitions: &BTreeMap<(Uuid, i32), String>) -> Vec<Result<OnDisk, LogError>> {
        let create = |((id, partition), topic): (&(Uuid, i32), &String)| Command::Create {
            topic: topic.clone(),
            partition: *partition,
            topic_id: id.as_u128(),
        };
        let created = self.store.call(partitions.iter().map(create).collect());
        let handle = |created: i64| PartitionHandle(created as u32);
        let handles: Vec<PartitionHandle> = created.iter().flatten().copied().map(handle).collect();
        let open = |partition: &PartitionHandle| Command::Open { partition: *partition, epoch: 0 };
        let mut opened = self.store.call(handles.iter().map(open).collect()).into_iter();
        let views =
            self.store.inspect(move |store| handles.iter().map(|handle| store.view(*handle)).collect::<Vec<_>>());
        let mut views = views.unwrap_or_default().into_iter();
        let mut known = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        let on_disk = |(created, place): (Result<i64, LogError>, &(Uuid, i32))| {
            let handle = handle(created?);
            let (opened, view) = (opened.next(), views.next().flatten());
            opened.transpose()?;
            let view = view.ok_or(LogError::UnknownPartition { partition: place.1 })?;
            let on_disk = OnDisk { handle, epoch: 0, epochs: Arc::new([(0, 0)]), view };
            known.insert(*place, on_disk.clone());
            Ok(on_disk)
        };
        created.into_iter().zip(partitions.keys()).map(on_disk).collect()
    }

    /// Deletes the partitions of topics outside of the table, by one pass of the store. Returns the topics with
    /// partitions that remain, and the error; the next start deletes those.
    pub(super) fn delete(&self, ids: &HashSet<Uuid>) -> BTreeMap<Uuid, LogError> {
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<(Place, OnDisk)> = partitions.extract_if(|(id, _), _| ids.contains(id)).collect();
        drop(partitions);
        let delete = |(_, on_disk): &(Place, OnDisk)| Command::Delete { partition: on_disk.handle };
        let outcomes = self.store.call(gone.iter().map(delete).collect());
        let places = gone.into_iter().map(|(place, _)| place);
        places.zip(outcomes).filter_map(|((id, _), outcome)| deleted(outcome).err().map(|error| (id, error))).collect()
    }

    /// Queues `command`. The log thread calls `tell` with its outcome.
    pub(super) fn submit(&self, command: Command, tell: impl FnOnce(Result<i64, LogError>) + Send + 'static) {
        self.store.submit(command, tell);
    }
}

/// Checks the outcome of a deletion. A partition that is not there any more is deleted.
pub(super) fn deleted(outcome: Outcome) -> Result<(), LogError> {
    match outcome {
        Ok(_) | Err(LogError::UnknownPartition { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the line about a partition that is in no topic of the table.
fn said_of_gone(info: &PartitionInfo, outcome: Outcome) -> String {
    let (PartitionInfo { topic, partition, .. }, id) = (info, Uuid::from_u128(info.topic_id));
    let why = format!("`{TOPICS_FILE}` has no such partition of topic id {id}");
    match deleted(outcome) {
        Ok(()) => format!("deleted {topic}-{partition}: {why}"),
        Err(error) => format!("could not delete {topic}-{partition}: {error}. {why}; the next start tries again"),
    }
}

/// Refuses partitions whose topic id is not known: they could be of a topic in the table, and of a deleted one.
fn check_topic_ids(infos: &[PartitionInfo]) -> Result<(), String> {
    let unnamed = infos.iter().filter(|info| info.topic_id == 0);
    let names: Vec<String> = unnamed.map(|info| format!("`{}-{}`", info.topic, info.partition)).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(format!(
        "has partitions without a readable `partition.metadata`, so whose messages these are is not known: {}; restore \
         that file from a copy, or move these directories away",
        names.join(", ")
    ))
}

/// Returns the files of the aborted transactions of the segments that begin below `end` and may lack some.
fn aborted_files(on_disk: &OnDisk, transactions: &TransactionIndex, end: i64) -> Vec<SideFile> {
    let (segments, indexed_below) = (on_disk.view.segments(), on_disk.view.indexed_below());
    let aborted = transactions.aborted();
    let ended_below = |offset: i64| aborted.partition_point(|aborted| aborted.last_offset < offset);
    let next_bases = segments.iter().skip(1).map(|next| next.base_offset).chain([i64::MAX]);
    let bounds = segments.iter().map(|segment| segment.base_offset).zip(next_bases);
    let incomplete = bounds.filter(|(base_offset, next_base)| *base_offset < end && *next_base > indexed_below);
    let file = |(base_offset, next_base)| {
        let rows = &aborted[ended_below(base_offset)..ended_below(next_base)];
        SideFile::Aborted(base_offset, rows.iter().flat_map(AbortedTransaction::row).collect())
    };
    incomplete.map(file).collect()
}

/// Derives topics from the names of partition directories, in a directory of Kafka without a table.
fn derived(infos: &[PartitionInfo]) -> Vec<Found> {
    let mut topics: BTreeMap<&str, (u128, i32)> = BTreeMap::new();
    for info in infos.iter().filter(|info| info.topic_id != 0) {
        let (_, count) = topics.entry(&info.topic).or_insert((info.topic_id, 0));
        *count = (*count).max(info.partition + 1);
    }
    let found = |(name, (id, count)): (&str, (u128, i32))| {
        let leaders = vec![0; count as usize];
        let topic = Topic { id: Uuid::from_u128(id), internal: false, configs: TopicConfigs::default(), leaders };
        Found { name: name.to_owned(), topic }
    };
    topics.into_iter().map(found).collect()
}

/// Formats the file: a line per topic with id, name and leaders, a line per setting, then the checksum.
pub(super) fn written(table: &Table) -> String {
    let mut text = format!("{HEAD}{FORMAT}\n");
    for (name, topic) in table.by_name.iter().filter(|(_, topic)| !topic.internal) {
        let leaders: Vec<String> = topic.leaders.iter().map(i32::to_string).collect();
        let _infallible = writeln!(text, "topic {} {} {}", topic.id, name.as_str(), leaders.join(","));
        for (setting, value) in topic.configs.given() {
            let _infallible = writeln!(text, "set {setting} {}", escaped(value));
        }
    }
    summed(text)
}

pub(super) fn parse(text: &str) -> Result<Vec<Found>, String> {
    let mut topics: Vec<(Found, Vec<CreatableTopicConfig>)> = Vec::new();
    for line in entries(text, HEAD, FORMAT)? {
        let bad = || format!("the line `{line}` cannot be parsed");
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match (&words[..], topics.last_mut()) {
            (["topic", id, name, leaders], _) => {
                let leaders: Result<Vec<i32>, _> = leaders.split(',').map(str::parse).collect();
                let (id, leaders) = (id.parse().map_err(|_| bad())?, leaders.map_err(|_| bad())?);
                let topic = Topic { id, internal: false, configs: TopicConfigs::default(), leaders };
                topics.push((Found { name: (*name).to_owned(), topic }, Vec::new()));
            }
            (["set", setting, ..], Some((_, configs))) => {
                let value = unescaped(&line["set ".len() + setting.len() + 1..]).ok_or_else(bad)?;
                let config = CreatableTopicConfig::default().with_name(StrBytes::from_string((*setting).to_owned()));
                configs.push(config.with_value(Some(StrBytes::from_string(value))));
            }
            _ => return Err(bad()),
        }
    }
    let configured = |(mut found, configs): (Found, Vec<CreatableTopicConfig>)| {
        found.topic.configs = TopicConfigs::read(&configs).map_err(|error| error.message)?;
        Ok(found)
    };
    topics.into_iter().map(configured).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{base::settings::Settings, log::data_dir::DataConfig};

    fn open(dir: &std::path::Path) -> DataDir {
        DataDir::open(&DataConfig::at(dir.to_owned()), &mut Settings::default(), "c").unwrap()
    }

    #[test]
    fn partitions_without_a_topic_id_are_refused_and_those_of_deleted_topics_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let data = open(dir.path());
        let disk = TopicDisk::new(&data).unwrap();
        disk.save(&table()).unwrap();
        disk.create("c", Uuid::from_u128(2), 0).unwrap();
        drop((disk, data));
        let unnamed = dir.path().join("u-0");
        fs::create_dir(&unnamed).unwrap();
        fs::write(unnamed.join("00000000000000000000.log"), b"").unwrap();

        let data = open(dir.path());
        let reason = TopicDisk::new(&data).unwrap().find(1).unwrap_err();
        assert!(reason.contains("`u-0`") && reason.contains("partition.metadata"), "{reason}");
        assert!(unnamed.join("00000000000000000000.log").exists());
        drop(data);
        // Of a topic that is not in the table.
        fs::write(unnamed.join("partition.metadata"), "version: 0\ntopic_id: lBj3j9mkR5CSrYX6wOZ9pg").unwrap();
        let data = open(dir.path());
        assert_eq!(TopicDisk::new(&data).unwrap().find(1).unwrap().len(), 2);
        assert!(!unnamed.exists());
        assert_eq!(data.store.partitions().iter().filter(|info| info.topic == "c").count(), 1);
    }

    /// A directory of Kafka with topic `c` of five records. Those below offset 3 were deleted.
    fn of_kafka() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let data = open(dir.path());
        let handle = TopicDisk::new(&data).unwrap().create("c", Uuid::from_u128(2), 0).unwrap().handle;
        for _ in 0..5 {
            let mut writer = rota_log::BatchWriter::default();
            writer.push(0, None, Some(b"v"));
            let batch = writer.finish().to_vec();
            data.store.call(vec![Command::Append { partition: handle, epoch: 0, batch }]).remove(0).unwrap();
        }
        drop(data);
        for entry in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("rota.") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        fs::write(dir.path().join("meta.properties"), "version=1\ncluster.id=c\nnode.id=1\n").unwrap();
        fs::write(dir.path().join(KAFKAS_STARTS_FILE), "0\n2\nc 0 3\ngone 1 7\n").unwrap();
        dir
    }

    fn opened(dir: &std::path::Path, take_over: bool) -> DataDir {
        let config = DataConfig { take_over, ..DataConfig::at(dir.to_owned()) };
        DataDir::open(&config, &mut Settings::default(), "c").unwrap()
    }

    /// The first offset of `c`.
    fn first_offset(data: &DataDir) -> i64 {
        let disk = TopicDisk::new(data).unwrap();
        disk.find(1).unwrap();
        disk.all()[0].1.view.first_offset()
    }

    #[test]
    fn records_that_were_deleted_in_kafka_stay_deleted() {
        let dir = of_kafka();
        assert_eq!(first_offset(&opened(dir.path(), false)), 3, "it is only read");
        assert!(!dir.path().join(STARTS_FILE).exists());
        assert_eq!(first_offset(&opened(dir.path(), true)), 3);
        fs::remove_file(dir.path().join(KAFKAS_STARTS_FILE)).unwrap();
        assert_eq!(first_offset(&open(dir.path())), 3, "it is durable");
    }

    #[test]
    fn a_topic_made_anew_does_not_begin_where_that_of_kafka_did() {
        let dir = of_kafka();
        let data = opened(dir.path(), true);
        // As an earlier release left it, which did not read Kafka's file.
        TopicDisk::new(&data).unwrap().save(&table()).unwrap();
        fs::remove_file(dir.path().join(STARTS_FILE)).unwrap();
        drop(data);
        let data = open(dir.path());
        assert_eq!(first_offset(&data), 0);
    }

    #[test]
    fn a_malformed_file_of_first_offsets_of_kafka_is_named() {
        let dir = of_kafka();
        fs::write(dir.path().join(KAFKAS_STARTS_FILE), "0\n1\nc 0 three\n").unwrap();
        let refused = TopicDisk::new(&opened(dir.path(), true)).unwrap_err().to_string();
        let reason = "has a `log-start-offset-checkpoint` that cannot be read: the line `c 0 three` cannot be parsed";
        assert!(refused.contains(reason), "{refused}");
        fs::remove_file(dir.path().join(KAFKAS_STARTS_FILE)).unwrap();
        assert_eq!(first_offset(&open(dir.path())), 0);
    }

    #[test]
    fn a_partition_that_could_not_be_deleted_is_not_called_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let data = open(dir.path());
        TopicDisk::new(&data).unwrap().create("c", Uuid::from_u128(2), 0).unwrap();
        let info = data.store.partitions().into_iter().find(|info| info.topic == "c").unwrap();
        assert!(said_of_gone(&info, Ok(0)).starts_with("deleted c-0: `rota.topics` has no such partition"));
        let failed = said_of_gone(&info, Err(LogError::Storage { reason: "the disk is full".into() }));
        assert!(failed.starts_with("could not delete c-0: the disk is full. `rota.topics` has no such"), "{failed}");
    }

    fn table() -> Table {
        let mut table = Table::default();
        for (at, name) in ["a.b", "c"].iter().enumerate() {
            // The second has no effect and any value.
            let settings = [("cleanup.policy", "compact"), ("compression.type", " 100%\n")];
            let configs = settings.map(|(name, value)| {
                CreatableTopicConfig::default()
                    .with_name(StrBytes::from_static_str(name))
                    .with_value(Some(StrBytes::from_static_str(value)))
            });
            let configs = TopicConfigs::read(&configs).unwrap();
            let id = Uuid::from_u128(at as u128 + 1);
            table.insert(name, Topic { id, internal: false, configs, leaders: vec![1, 2, 1] });
        }
        table
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let found = parse(&written(&table())).unwrap();
        let names: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.topic.leaders.len())).collect();
        assert_eq!(names, [("a.b", 3), ("c", 3)]);
        for Found { name, topic } in &found {
            let table = table();
            let original = table.topic(name).unwrap();
            assert_eq!((topic.id, &topic.configs), (original.id, &original.configs));
        }
    }

    #[test]
    fn a_table_of_which_a_byte_was_changed_or_that_is_newer_is_refused() {
        let text = written(&table());
        assert_eq!(parse(&text.replacen('a', "b", 1)).unwrap_err(), "its checksum is wrong");
        assert_eq!(parse("").unwrap_err(), "it has no checksum");
        let newer = "rota.topics 2\n";
        let newer = format!("{newer}crc32c {:08x}\n", crc32c::crc32c(newer.as_bytes()));
        let refused = check_format(&newer, HEAD, FORMAT).unwrap_err();
        assert!(refused.starts_with("it has format 2, and this release of rota knows format 1; use"), "{refused}");
        assert_eq!(check_format(&text, HEAD, FORMAT), Ok(()));
        assert_eq!(
            check_format(&newer.replacen('2', "3", 1), HEAD, FORMAT),
            Ok(()),
            "the checksum is wrong: that is damage"
        );
    }
}
