//! A data directory, opened: its store, what opening found, and where its partitions go on.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::channel},
    time::{Duration, Instant},
};

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
    },
    log::{CONSUMER_OFFSETS, offsets_log::SharedLog},
};

/// The largest batch that the store takes: the limits that clients meet are looked at before.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;
/// The write-ahead file is ended, and segments become eligible for compaction, after at most so many bytes.
const WAL_BYTES_MAX: u64 = 32 << 20;
const WAL_BYTES_MIN: u64 = 64 << 10;
const WAL_RESERVE_BYTES_MAX: u64 = 1 << 20;

/// Where a server keeps its data, and how.
#[derive(Clone, Debug)]
pub struct DataConfig {
    /// The directory. It is created if its parent exists.
    pub dir: PathBuf,
    /// When an append is durable.
    pub durability: Durability,
    /// A directory that Kafka wrote becomes ours; otherwise it is only read.
    pub take_over: bool,
    /// Who is asked for files: [`DiskFiles`], unless a test stands in for the disk.
    pub files: Arc<dyn Files>,
}

impl DataConfig {
    /// A directory of this machine with the defaults.
    pub fn at(dir: PathBuf) -> DataConfig {
        DataConfig { dir, durability: Durability::Fsync, take_over: false, files: Arc::new(DiskFiles) }
    }
}

/// What a start found, for whoever started the server.
#[derive(Clone, Debug, Default)]
pub struct StartReport {
    /// One line each: what was completed, cut or refused.
    pub lines: Vec<String>,
    /// Groups that were loaded.
    pub groups: usize,
    /// Their offsets.
    pub offsets: usize,
    /// From the opening of the directory until everything was loaded.
    pub took: Duration,
    /// Nothing is written: Kafka's directory.
    pub is_read_only: bool,
}

/// How the data directory is.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Why nothing is accepted any more, if that is so.
    pub stopped: Option<String>,
    /// Partitions that are refused, and why.
    pub refused: Vec<String>,
    /// Syncs of the write-ahead file for appends since the start.
    pub syncs: Histogram,
    /// Compactions that were finished since the start.
    pub compactions: u64,
    /// Why the last compaction that was given up was.
    pub compaction_error: Option<String>,
    /// Why writes fail at the moment, if they do, and what to do. Each append tries again.
    pub failing: Option<String>,
    /// How many writes have failed since the start: a disk may be full for a moment only.
    pub failures: u64,
    /// Why the last of them did.
    pub last_failure: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub struct DataDir {
    /// Its store.
    pub store: Arc<SegmentStore>,
    dir: PathBuf,
    /// Its files.
    pub files: Arc<dyn Files>,
    /// Nothing is written.
    pub is_read_only: bool,
    /// As its `meta.properties` says.
    pub cluster_id: String,
    /// What opening found.
    pub lines: Vec<String>,
    /// When opening began.
    pub began: Instant,
    /// The topic id of `__consumer_offsets`.
    pub offsets_id: u128,
}

impl DataDir {
    /// Opens a directory; a new one gets `cluster_id`. `settings` take over how many partitions `__consumer_offsets`
    /// has there. Errors: `CannotOpen`, `BadData`.
    pub fn open(config: &DataConfig, settings: &mut Settings, cluster_id: &str) -> Result<DataDir, ServerError> {
        let began = Instant::now();
        let dir = config.dir.clone();
        let bad = |reason: String| ServerError::BadData { dir: dir.clone(), reason };
        check_place(&dir).map_err(bad)?;
        let segment_bytes = settings.segment_bytes();
        let wal_bytes = segment_bytes.clamp(WAL_BYTES_MIN, WAL_BYTES_MAX);
        let options = StoreOptions {
            durability: config.durability,
            segment_bytes,
            batch_bytes_max: BATCH_BYTES_MAX,
            wal_bytes,
            wal_reserve_bytes: wal_bytes.min(WAL_RESERVE_BYTES_MAX),
            cluster_id: cluster_id.to_owned(),
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
                "`{}` was written by Kafka and is only read: commits and joins are refused; --take-over makes it ours",
                dir.display()
            ));
        }
        let partitions = store.partitions();
        let offsets = partitions.iter().filter(|info| info.topic == CONSUMER_OFFSETS);
        let last = offsets.clone().map(|info| info.partition).max();
        if let Some(count) = last.and_then(|last| u32::try_from(last + 1).ok()) {
            if count != settings.offsets_partitions() {
                lines.push(format!(
                    "`{CONSUMER_OFFSETS}` has {count} partitions there, and offsets.topic.num.partitions, {}, does not \
                     apply",
                    settings.offsets_partitions()
                ));
            }
            settings.set_offsets_partitions(count);
        }
        let known_id = offsets.map(|info| info.topic_id).find(|id| *id != 0);
        let offsets_id = known_id.unwrap_or_else(|| {
            uuid::Builder::from_random_bytes(RandomBits::default().draw().to_be_bytes()).into_uuid().as_u128()
        });
        let cluster_id = property(&dir, "cluster.id").unwrap_or_else(|| cluster_id.to_owned());
        Ok(DataDir { store: Arc::new(store), dir, files, is_read_only, cluster_id, lines, began, offsets_id })
    }

    /// The log of all coordinators. Every partition is taken over under a new epoch, which `owners` get.
    /// Errors: `BadData`.
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
            // All are waited for, unless one has failed.
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

    /// The error of a directory that cannot be served, for this reason.
    pub fn bad(&self, reason: &str) -> ServerError {
        ServerError::BadData { dir: self.dir.clone(), reason: reason.to_owned() }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How it is now. If writes have failed, tries whether there is room again: the next look says what came of it.
    pub fn health(&self) -> Health {
        let stopped = self.store.stopped().map(|reason| reason.to_string());
        let look = |store: &mut rota_log::store::Store| {
            let refusals = store.partitions().into_iter().filter_map(|info| {
                let refusal = info.view.refusal()?;
                Some(format!("partition {} of {}: {refusal}", info.partition, info.topic))
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

/// What is wrong with a place for a directory, before anything is done there.
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
    for (name, newest) in [("version", 1), ("rota.version", 1)] {
        if let Some(found) = property(dir, name)
            && found.parse::<u64>().is_ok_and(|version| version > newest)
        {
            return Err(format!(
                "is of a later format, {name}={found} in its meta.properties, and this version knows {newest}; \
                 use the version of rota or Kafka that wrote it"
            ));
        }
    }
    Ok(())
}

/// A line of `meta.properties`.
fn property(dir: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join("meta.properties")).ok()?;
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(|value| value.trim().to_owned());
    text.lines().find_map(value)
}

/// What opening found and did, one line each.
pub fn report_lines(dir: &Path, report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.given_up.iter().map(|what| format!("given up: {what}")).collect();
    if !report.was_clean && (report.completed_batches > 0 || report.torn_wal_bytes > 0) {
        let mut line = format!("`{}` was not closed: ", dir.display());
        let _infallible =
            write!(line, "{} batches were completed from the write-ahead files", report.completed_batches);
        if report.torn_wal_bytes > 0 {
            let _infallible = write!(line, ", {} bytes of an unfinished one were cut", report.torn_wal_bytes);
        }
        lines.push(line);
    }
    for (file, left, cut) in report.cut.iter().filter(|_| report.completed_batches == 0) {
        lines.push(format!("`{}`: a torn tail of {cut} bytes was cut, {left} bytes are left", file.display()));
    }
    lines.extend(report.damage.iter().map(|damage| format!("a partition is refused, the others go on: {damage}")));
    let kept = |file: &PathBuf| format!("`{}` is kept: a refused partition may need it", file.display());
    lines.extend(report.kept.iter().map(kept));
    lines
}
