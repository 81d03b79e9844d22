//! An open data directory: its store, the findings at its opening, and the start of its partitions.

use std::{
    collections::BTreeSet,
    fs, mem,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::channel},
    time::{Duration, Instant},
};

use rota_journal::JOURNAL_TOPIC;
use rota_log::{
    Completions, FaultyLog, FencedLog, Histogram, LogError, SegmentStore,
    files::{DiskFiles, Files},
    store::{Access, Durability, Report, StoreOptions},
};

use crate::{
    base::{
        clock::Clock,
        entropy::RandomBits,
        error::ServerError,
        owners::{Owner, Owners},
        settings::Settings,
        text_file::TextFile,
    },
    log::{
        CONSUMER_OFFSETS, TRANSACTION_STATE,
        node_file::{Home, NODE_FILE, NodeFile},
        offsets_log::SharedLog,
    },
};

/// Maximum batch of the store. Limits for clients are checked before.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;
/// Maximum bytes after which the write-ahead file is replaced and segments become eligible for compaction.
const WAL_BYTES_MAX: u64 = 32 << 20;
const WAL_BYTES_MIN: u64 = 64 << 10;
/// Files that only a data directory has.
const OF_DATA: [&str; 4] = ["rota.topics", "rota.acls", "rota.groups", NODE_FILE];
const WAL_RESERVE_BYTES_MAX: u64 = 1 << 20;

/// Location and options of a data directory.
#[derive(Clone, Debug)]
pub struct DataConfig {
    /// The directory, created if its parent exists.
    pub dir: PathBuf,
    /// When an append is durable.
    pub durability: Durability,
    /// Takes over a directory of Kafka; otherwise it is only read.
    pub take_over: bool,
    /// The file system: [`DiskFiles`], or a replacement in tests.
    pub files: Arc<dyn Files>,
}

impl DataConfig {
    /// Creates the configuration of a directory on disk, with defaults.
    pub fn at(dir: PathBuf) -> DataConfig {
        DataConfig { dir, durability: Durability::Fsync, take_over: false, files: Arc::new(DiskFiles) }
    }
}

/// The findings of a start.
#[derive(Clone, Debug, Default)]
pub struct StartReport {
    /// Completed, cut or refused files and partitions, one line each.
    pub lines: Vec<String>,
    /// Number of loaded groups.
    pub groups: usize,
    /// Number of loaded offsets.
    pub offsets: usize,
    /// Time from opening the directory until everything was loaded.
    pub took: Duration,
    /// Whether the directory is Kafka's and only read.
    pub is_read_only: bool,
}

/// The health of a data directory.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Why the store accepts nothing any more; `None` while it works.
    pub stopped: Option<String>,
    /// Partitions that are refused, or have damage that a read has met, with the reason.
    pub refused: Vec<String>,
    /// Syncs of the write-ahead file for appends since the start.
    pub syncs: Histogram,
    /// Compactions that were finished since the start.
    pub compactions: u64,
    /// The error of the last abandoned compaction.
    pub compaction_error: Option<String>,
    /// Why writes currently fail, and what to do; `None` if they succeed. Each append tries again.
    pub failing: Option<String>,
    /// Number of failed writes since the start, including those of a disk that was full for a moment.
    pub failures: u64,
    /// The reason of the last failed write.
    pub last_failure: Option<String>,
}

/// An open data directory.
#[derive(Debug)]
pub struct DataDir {
    /// Its store.
    pub store: Arc<SegmentStore>,
    dir: PathBuf,
    /// Its files.
    pub files: Arc<dyn Files>,
    /// Whether nothing is written, since it is Kafka's.
    pub is_read_only: bool,
    /// The cluster id in `meta.properties`.
    pub cluster_id: String,
    /// The findings at opening, one line each.
    pub lines: Vec<String>,
    /// When opening began.
    pub began: Instant,
    /// The topic id of `__consumer_offsets`.
    pub offsets_id: u128,
}

impl DataDir {
    /// Opens the directory of a server that is alone; a new one gets `cluster_id`. `settings` adopt its number of
    /// `__consumer_offsets` partitions. Errors: `CannotOpen`, `BadData`.
    pub fn open(config: &DataConfig, settings: &mut Settings, cluster_id: &str) -> Result<DataDir, ServerError> {
        let mut data = DataDir::open_any(config, settings, cluster_id, true)?;
        if let Some(of) = NodeFile::read(&data.text_file(NODE_FILE)).map_err(|reason| data.bad(&reason))? {
            return Err(data.bad(&format!(
                "has the messages of node {} of a cluster, whose groups are in its engine: give --engine and --node-id, \
                 too, or take the groups out with `rota cluster export`",
                of.node_id
            )));
        }
        data.adopt_partitions(settings);
        Ok(data)
    }

    /// Opens the directory for the messages of a node of a cluster. Returns where it was used before; `None`: nowhere.
    /// Errors: as `open`.
    pub fn open_for_node(
        config: &DataConfig,
        settings: &Settings,
        cluster_id: &str,
        node_id: i32,
    ) -> Result<(DataDir, Option<Home>), ServerError> {
        // All servers of a cluster say the same epoch.
        let mut data = DataDir::open_any(config, settings, cluster_id, false)?;
        if data.is_read_only {
            return Err(data.bad("was written by Kafka; a server of a cluster needs a directory of its own"));
        }
        let file = data.text_file(NODE_FILE);
        match NodeFile::read(&file).map_err(|reason| data.bad(&reason))? {
            Some(of) if of.node_id != node_id => {
                let other = of.node_id;
                Err(data.bad(&format!("has the messages of node {other}, and this is node {node_id}: give its own")))
            }
            Some(of) => Ok((data, of.home)),
            // What has groups stays usable for a server that is alone, until the cluster has turned out to be its own.
            None if !data.store.partitions().is_empty() => {
                // So it does not give its id to a new cluster.
                let of_before = mem::replace(&mut data.cluster_id, cluster_id.to_owned());
                Ok((data, Some(Home { cluster_id: of_before, history: None })))
            }
            None => {
                let written = file.replace(&NodeFile { node_id, home: None }.written());
                written.map_err(|error| data.bad(&format!("cannot be written: {error}")))?;
                Ok((data, None))
            }
        }
    }

    fn open_any(
        config: &DataConfig,
        settings: &Settings,
        cluster_id: &str,
        raises_epochs: bool,
    ) -> Result<DataDir, ServerError> {
        let began = Instant::now();
        let dir = config.dir.clone();
        let bad = |reason: String| ServerError::BadData { dir: dir.clone(), reason };
        check_place(&dir).map_err(bad)?;
        let segment_bytes = settings.segment_bytes();
        let wal_bytes = segment_bytes.clamp(WAL_BYTES_MIN, WAL_BYTES_MAX);
        let options = StoreOptions {
            durability: config.durability,
            raises_epochs,
            segment_bytes,
            batch_bytes_max: BATCH_BYTES_MAX,
            wal_bytes,
            wal_reserve_bytes: wal_bytes.min(WAL_RESERVE_BYTES_MAX),
            cluster_id: cluster_id.to_owned(),
            compacted_topics: vec![CONSUMER_OFFSETS.to_owned(), TRANSACTION_STATE.to_owned()],
            access: if config.take_over { Access::Adopt } else { Access::Own },
            ..StoreOptions::default()
        };
        let files = Arc::clone(&config.files);
        let opened = SegmentStore::open(Arc::clone(&files), &dir, options);
        let (store, report) = opened.map_err(ServerError::CannotOpen)?;
        let is_read_only = report.is_foreign && !config.take_over;
        let mut lines = report_lines(&dir, &report);
        if is_read_only {
            lines.push(format!(
                "`{}` was written by Kafka and is read-only: commits and joins are refused; --take-over makes it writable",
                dir.display()
            ));
        }
        let partitions = store.partitions();
        let offsets = partitions.iter().filter(|info| info.topic == CONSUMER_OFFSETS);
        let known_id = offsets.map(|info| info.topic_id).find(|id| *id != 0);
        let offsets_id = known_id.unwrap_or_else(|| {
            uuid::Builder::from_random_bytes(RandomBits::default().draw().to_be_bytes()).into_uuid().as_u128()
        });
        let cluster_id = property(&dir, "cluster.id").unwrap_or_else(|| cluster_id.to_owned());
        Ok(DataDir { store: Arc::new(store), dir, files, is_read_only, cluster_id, lines, began, offsets_id })
    }

    /// Makes `settings` have the number of `__consumer_offsets` partitions of the directory, if it has any.
    fn adopt_partitions(&mut self, settings: &mut Settings) {
        let partitions = self.store.partitions();
        let offsets = partitions.iter().filter(|info| info.topic == CONSUMER_OFFSETS);
        let numbers: BTreeSet<i32> = offsets.map(|info| info.partition).collect();
        let Some(count) = numbers.last().and_then(|last| u32::try_from(last + 1).ok()) else { return };
        // A broker of a larger cluster has some of them, and not necessarily the last one.
        let has_all = numbers.len() == count as usize;
        let count = if has_all { count } else { count.max(settings.offsets_partitions()) };
        if count != settings.offsets_partitions() {
            self.lines.push(format!(
                "`{CONSUMER_OFFSETS}` has {count} partitions there, and offsets.topic.num.partitions, {}, does not apply",
                settings.offsets_partitions()
            ));
        }
        settings.set_offsets_partitions(count);
    }

    /// Returns the log of all coordinators, with every partition opened under a new epoch, which `owners` get. Errors:
    /// `BadData`.
    pub fn offsets_log(
        &self,
        settings: &Settings,
        owners: &Owners,
        clock: Clock,
    ) -> Result<Arc<SharedLog>, ServerError> {
        let count = owners.partitions();
        let log = self.store.log(CONSUMER_OFFSETS, count, self.offsets_id, settings.message_max_bytes());
        let log =
            log.map_err(|error| self.bad(&format!("has no `{CONSUMER_OFFSETS}` of {count} partitions: {error}")))?;
        let (opened, opens) = channel();
        let to = Completions::relay(move |completion| {
            // Waits for all, unless one failed.
            let _nobody = opened.send(completion.result);
        });
        for info in self.store.partitions().iter().filter(|info| info.topic == CONSUMER_OFFSETS) {
            let partition = info.partition as u32;
            let stored = info.epoch.map_or(-1, i64::from);
            let epoch = u32::try_from(if self.is_read_only { stored.max(0) } else { stored + 1 }).unwrap_or(0);
            if let Some(owner) = owners.of(partition) {
                owners.set(partition, Owner { epoch, ..owner });
            }
            log.open(info.partition, epoch as i32, &to);
        }
        drop(to);
        if let Some(error) = opens.iter().filter_map(Result::err).find(|error| !is_damage(error)) {
            return Err(self.bad(&format!("cannot be written: {error}")));
        }
        Ok(Arc::new(FaultyLog::new(Arc::new(log), move || clock.now().mono_ms)))
    }

    /// Returns the error of a directory that cannot be served.
    pub fn bad(&self, reason: &str) -> ServerError {
        ServerError::BadData { dir: self.dir.clone(), reason: reason.to_owned() }
    }

    /// Returns the path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a text file of the directory.
    pub fn text_file(&self, name: &str) -> TextFile {
        let (files, store) = (Arc::clone(&self.files), Arc::downgrade(&self.store));
        TextFile { files, path: self.dir.join(name), is_read_only: self.is_read_only, store }
    }

    /// Returns the current health. After failed writes, tries a write; the next call shows its result.
    pub fn health(&self) -> Health {
        let stopped = self.store.stopped().map(|reason| reason.to_string());
        let look = |store: &mut rota_log::store::Store| {
            let refusals = store.partitions().into_iter().filter_map(|info| {
                let failure = info.view.failure()?;
                Some(format!("partition {} of {}: {failure}", info.partition, info.topic))
            });
            let (refused, failing) = (refusals.collect(), store.failing());
            let (failures, last_failure) = store.failures();
            store.probe();
            Health {
                stopped: None,
                failing: failing.map(|reason| reason.to_string()),
                failures,
                last_failure: last_failure.map(|reason| reason.to_string()),
                refused,
                syncs: store.syncs().clone(),
                compactions: store.compactions(),
                compaction_error: store.last_compaction_error().map(str::to_owned),
            }
        };
        Health { stopped, ..self.store.inspect(look).unwrap_or_default() }
    }
}

fn is_damage(error: &LogError) -> bool {
    matches!(error, LogError::Damaged(_))
}

/// Checks the location of a directory before anything is created or deleted there.
fn check_place(dir: &Path) -> Result<(), String> {
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => return Err("is not a directory; choose another place".to_owned()),
        Ok(_) => {}
        Err(_) => {
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            return match parent {
                Some(parent) if !parent.is_dir() => {
                    Err(format!("cannot be created: there is no directory `{}`; create that", parent.display()))
                }
                _ => Ok(()),
            };
        }
    }
    // A start deletes the partitions of topics that it does not know.
    if topics_in(dir).iter().any(|topic| topic == JOURNAL_TOPIC) {
        return Err("has a journal and is no data directory; give the data directory of its server".to_owned());
    }
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match dir.parent() {
        Some(parent) if topic_of(&name).is_some() && parent.join("meta.properties").is_file() => {
            Err(format!("is a partition of the data directory `{}`; give that", parent.display()))
        }
        _ => Ok(()),
    }
}

/// Checks the location of a journal: the directory has no partition of another topic and no file of a data directory.
/// These belong to a server, whose next start would delete the journal.
pub fn check_journal_place(dir: &Path) -> Result<(), String> {
    if let Some(file) = OF_DATA.into_iter().find(|file| dir.join(file).exists()) {
        return Err(format!("is a data directory, which has `{file}`; choose a directory of its own for the journal"));
    }
    match topics_in(dir).into_iter().find(|topic| topic != JOURNAL_TOPIC) {
        Some(topic) => Err(format!("has partitions of `{topic}`; choose a directory of its own for the journal")),
        None => Ok(()),
    }
}

/// Returns the topics whose partitions are in a directory; none if it cannot be read.
fn topics_in(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    entries.filter_map(|entry| topic_of(&entry.file_name().to_string_lossy()).map(str::to_owned)).collect()
}

/// Returns the topic of a partition directory's name, such as `orders-3`.
fn topic_of(name: &str) -> Option<&str> {
    let (topic, partition) = name.rsplit_once('-')?;
    partition.parse::<u32>().ok().map(|_| topic)
}

/// Reads a property of `meta.properties`.
fn property(dir: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join("meta.properties")).ok()?;
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(|value| value.trim().to_owned());
    text.lines().find_map(value)
}

/// Formats the findings at opening, one line each.
pub fn report_lines(dir: &Path, report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.given_up.iter().map(|what| format!("given up: {what}")).collect();
    let mut done: Vec<String> = Vec::new();
    match report.missing_batches {
        0 => {}
        1 => done.push("1 batch that its segments lacked was restored from the write-ahead file".to_owned()),
        missing => {
            done.push(format!("{missing} batches that its segments lacked were restored from the write-ahead files"));
        }
    }
    if report.torn_wal_bytes > 0 {
        done.push(format!("an unfinished write of {} bytes, not acknowledged, was removed", report.torn_wal_bytes));
    }
    if !done.is_empty() {
        lines.push(format!("`{}` was not closed: {}", dir.display(), done.join("; ")));
    }
    for (file, left, cut) in report.cut.iter().filter(|_| report.completed_batches == 0) {
        lines.push(format!("`{}`: removed a torn tail of {cut} bytes; {left} bytes remain", file.display()));
    }
    lines.extend(
        report.damage.iter().map(|damage| format!("refused a damaged partition; the others continue: {damage}")),
    );
    let kept = |file: &PathBuf| format!("`{}` is kept: a refused partition may need it", file.display());
    lines.extend(report.kept.iter().map(kept));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of partitions that a server finds in a directory of Kafka's that has these.
    fn found(there: &[u32], configured: u32) -> u32 {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("meta.properties"), "version=1\nnode.id=1\ncluster.id=abc\n").unwrap();
        for partition in there {
            fs::create_dir(dir.path().join(format!("{CONSUMER_OFFSETS}-{partition}"))).unwrap();
        }
        let mut settings = Settings::default();
        settings.set_offsets_partitions(configured);
        let data = DataDir::open(&DataConfig::at(dir.path().to_owned()), &mut settings, "c").unwrap();
        assert!(data.is_read_only);
        let owners = Owners::new(settings.offsets_partitions(), 1);
        data.offsets_log(&settings, &owners, Clock::standing()).unwrap();
        settings.offsets_partitions()
    }

    #[test]
    fn a_directory_with_some_partitions_of_groups_has_those_of_the_settings_unless_it_has_more() {
        assert_eq!([found(&[], 50), found(&[3, 7], 50), found(&[3, 60], 50)], [50, 50, 61]);
        assert_eq!(found(&[0, 1, 2], 50), 3, "it has all of them");
    }
}
