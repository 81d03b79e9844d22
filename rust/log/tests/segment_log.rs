//! The store on its threads: appends of several logs, completions in order, wake-ups, what is left after a close.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Condvar, Mutex, mpsc},
    time::{Duration, Instant},
};

use rota_log::{
    Append, BatchKind, Completion, Completions, FencedLog, LogError, LogRecord, Operation, SegmentLog, SegmentStore,
    StoredRecord,
    files::{DiskFiles, Fault, Files, ForgetfulFiles, Operation as OnFile, Survival, read_file},
    store::{Access, Command, OpenError, Store, StoreOptions},
};

const TOPIC: &str = "__consumer_offsets";

/// A caller of a log, which waits with a deadline for what ends.
struct Caller {
    log: SegmentLog,
    completions: Arc<Completions>,
    woken: Arc<(Mutex<u64>, Condvar)>,
    next_id: u64,
}

impl Caller {
    /// Of `__consumer_offsets` with so many partitions.
    fn of(store: &SegmentStore, partitions: u32) -> Caller {
        let woken = Arc::new((Mutex::new(0), Condvar::new()));
        let counter = Arc::clone(&woken);
        let completions = Completions::new(move || {
            *counter.0.lock().unwrap() += 1;
            counter.1.notify_all();
        });
        Caller { log: store.log(TOPIC, partitions, 7, usize::MAX).unwrap(), completions, woken, next_id: 0 }
    }

    fn open(&self, partition: i32, epoch: i32) -> Result<i64, LogError> {
        let (opened, result) = mpsc::channel();
        let to = Completions::relay(move |completion| opened.send(completion.result).unwrap());
        self.log.open(partition, epoch, &to);
        result.recv_timeout(Duration::from_mins(1)).expect("an open completions")
    }

    fn append(&mut self, partition: i32, epoch: i32, timestamp_ms: i64, batch: Vec<LogRecord>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.log
            .append(Append { partition, epoch, id, timestamp_ms, kind: BatchKind::Plain, batch }, &self.completions);
        id
    }

    /// What has ended, once there are so many.
    fn wait(&self, count: usize) -> Vec<Completion> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let woken = self.woken.0.lock().unwrap();
            let before = *woken;
            drop(woken);
            taken.extend(self.completions.take());
            if taken.len() < count {
                let woken = self.woken.0.lock().unwrap();
                let waited = self.woken.1.wait_timeout_while(woken, Duration::from_mins(1), |woken| *woken == before);
                assert!(!waited.unwrap().1.timed_out(), "no notification came, {} of {count} arrived", taken.len());
            }
        }
        taken
    }

    fn read(&self, partition: i32, from: i64, records_max: usize) -> Vec<StoredRecord> {
        self.log.view(partition).unwrap().read_records(from, records_max).unwrap()
    }
}

fn options() -> StoreOptions {
    StoreOptions { segment_bytes: 4_096, wal_bytes: 16_384, wal_reserve_bytes: 4_096, ..StoreOptions::default() }
}

fn open(files: &ForgetfulFiles) -> SegmentStore {
    SegmentStore::open(Arc::new(files.clone()), Path::new(""), options()).unwrap().0
}

fn record(key: u64, value: u64) -> Vec<LogRecord> {
    vec![LogRecord { key: key.to_string().into_bytes(), value: Some(value.to_string().into_bytes()) }]
}

#[test]
fn appends_of_a_partition_are_stored_in_their_order_and_survive_a_power_loss() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut log = Caller::of(&store, 4);
    for partition in 0..4 {
        assert_eq!(log.open(partition, 3), Ok(0));
    }
    let mut expected: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for n in 0..400_u64 {
        let partition = (n % 4) as i32;
        let id = log.append(partition, 3, 1_000, record(n, n));
        expected.entry(partition).or_default().push(id);
    }
    let mut arrived: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for completion in log.wait(400) {
        let ids = arrived.entry(completion.partition).or_default();
        assert_eq!(completion.result, Ok(ids.len() as i64));
        let Operation::Append(id) = completion.operation else { panic!("an append") };
        ids.push(id);
    }
    assert_eq!(arrived, expected);

    let after = files.after_crash(Survival::Nothing);
    let store = open(&after);
    let log = Caller::of(&store, 4);
    for partition in 0..4 {
        let records = log.read(partition, 0, usize::MAX);
        assert_eq!(records.len(), 100);
        assert!(records.iter().all(|stored| stored.epoch == 3 && stored.timestamp_ms == 1_000));
    }
}

#[test]
fn one_sync_serves_every_append_that_waits_in_every_partition() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut log = Caller::of(&store, 50);
    for partition in 0..50 {
        log.open(partition, 0).unwrap();
    }
    let before = store.inspect(|store| store.syncs().count()).unwrap();
    // The log's thread is busy until everything has been asked for.
    let ((enter, entered), (leave, leaves)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            store.inspect(move |_| {
                enter.send(()).unwrap();
                let _left = leaves.recv();
            })
        });
        entered.recv().unwrap();
        for partition in 0..50 {
            log.append(partition, 0, 0, record(0, 0));
        }
        drop(leave);
    });
    log.wait(50);
    assert_eq!(store.inspect(|store| store.syncs().count()).unwrap(), before + 1);
}

#[test]
fn nothing_older_than_the_newest_epoch_is_appended_also_after_a_restart() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut log = Caller::of(&store, 1);
    log.open(0, 5).unwrap();
    log.append(0, 5, 0, record(0, 0));
    log.open(0, 6).unwrap();
    log.append(0, 5, 0, record(0, 1));
    log.append(0, 7, 0, record(0, 2));
    log.append(0, 6, 0, record(0, 3));
    let results: Vec<_> = log.wait(4).into_iter().map(|completion| completion.result).collect();
    let fenced = LogError::Fenced { current_epoch: 6, epoch: 5 };
    assert_eq!(
        results,
        [Ok(0), Err(fenced.clone()), Err(LogError::UnknownEpoch { current_epoch: 6, epoch: 7 }), Ok(1)]
    );
    drop(store);
    let store = open(&files.after_crash(Survival::Nothing));
    let mut log = Caller::of(&store, 1);
    assert_eq!(log.open(0, 5), Err(fenced));
    log.append(0, 6, 0, record(0, 4));
    assert_eq!(log.wait(1)[0].result, Err(LogError::NotOpen { partition: 0 }));
    assert_eq!(log.open(0, 7), Ok(2));
}

#[test]
fn two_logs_of_one_store_get_their_own_completions() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut one = Caller::of(&store, 2);
    let mut other = Caller::of(&store, 2);
    one.open(0, 0).unwrap();
    other.open(1, 0).unwrap();
    for n in 0..10 {
        one.append(0, 0, 0, record(n, n));
        other.append(1, 0, 0, record(n, n));
    }
    assert!(one.wait(10).iter().all(|completion| completion.partition == 0));
    assert!(other.wait(10).iter().all(|completion| completion.partition == 1));
    assert_eq!(one.read(1, 5, 100).len(), 5, "each reads everything");
}

#[test]
fn after_a_failed_sync_every_append_fails_and_the_store_says_why() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut log = Caller::of(&store, 2);
    log.open(0, 0).unwrap();
    log.open(1, 0).unwrap();
    // The next operations write a segment, then the frame, then sync it.
    for behind in 0..20 {
        files.fail_at(files.operations() + behind, Fault::Io);
        log.append(0, 0, 0, record(0, 0));
        let result = log.wait(1).remove(0).result;
        if store.stopped().is_some() {
            assert!(matches!(result, Err(LogError::Stopped { .. })));
            break;
        }
    }
    let reason = store.stopped().expect("a sync has failed");
    assert!(reason.contains("rota.wal.") && reason.contains("start again"), "{reason}");
    log.append(1, 0, 0, record(0, 0));
    let result = log.wait(1).remove(0).result;
    assert_eq!(result, Err(LogError::Stopped { reason }));
    assert_eq!(LogError::Stopped { reason: "".into() }.code(), 56);
    let syncs = files.history().iter().filter(|(operation, _)| *operation == OnFile::Sync).count();
    drop(store);
    let after = files.history().iter().filter(|(operation, _)| *operation == OnFile::Sync).count();
    assert_eq!(syncs, after, "nothing is synced again, not even at the close");
}

#[test]
fn old_records_of_a_key_go_and_the_start_stays_short_while_it_is_written_for_ever() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut log = Caller::of(&store, 1);
    log.open(0, 0).unwrap();
    let rounds = 5_000_u64;
    for n in 0..rounds {
        log.append(0, 0, 0, record(n % 20, n));
        if n % 100 == 99 {
            log.wait(100);
        }
    }
    // On a busy machine the thread that compacts may be behind. It gets its next task after each message.
    let deadline = Instant::now() + Duration::from_mins(1);
    while log.read(0, 0, usize::MAX).len() >= 1_000 && Instant::now() < deadline {
        store.inspect(|_| ());
    }
    drop(store);
    let store = open(&files);
    let log = Caller::of(&store, 1);
    let records = log.read(0, 0, usize::MAX);
    assert!(records.len() < 1_000, "{} records are kept", records.len());
    for n in rounds - 20..rounds {
        let newest = records.iter().rfind(|stored| stored.record.key == (n % 20).to_string().into_bytes()).unwrap();
        assert_eq!((newest.offset, newest.record.value.clone()), (n as i64, Some(n.to_string().into_bytes())));
    }
    assert_eq!(log.read(0, rounds as i64 - 1, 10).len(), 1);
}

#[test]
fn a_directory_on_disk_is_kafkas_and_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let disk: Arc<dyn Files> = Arc::new(DiskFiles);
    let (store, report) = SegmentStore::open(Arc::clone(&disk), &path, options()).unwrap();
    assert!(report.was_clean);
    let mut log = Caller::of(&store, 18);
    log.open(17, 2).unwrap();
    log.append(17, 2, 0, record(1, 2));
    log.wait(1);
    assert!(path.join("__consumer_offsets-17/00000000000000000000.log").is_file());
    let second = SegmentStore::open(Arc::clone(&disk), &path, options());
    assert!(matches!(second, Err(OpenError::Locked { .. })), "{second:?}");
    drop(store);
    let epochs = std::fs::read_to_string(path.join("__consumer_offsets-17/leader-epoch-checkpoint")).unwrap();
    assert_eq!(epochs, "0\n1\n2 0\n");
    let (store, report) = SegmentStore::open(disk, &path, options()).unwrap();
    assert!(report.was_clean, "{report:?}");
    let log = Caller::of(&store, 18);
    assert_eq!(log.read(17, 0, 10).len(), 1);
}

#[test]
fn what_is_asked_after_the_close_is_refused() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let mut log = Caller::of(&store, 1);
    drop(store);
    assert!(matches!(log.open(0, 0), Err(LogError::Stopped { .. })));
    log.append(0, 0, 0, record(0, 0));
    assert!(matches!(log.wait(1)[0].result, Err(LogError::Stopped { .. })));
}

#[test]
fn a_topic_is_trimmed_by_whole_segments_and_found_by_time() {
    let files = ForgetfulFiles::new(4_096);
    let store = open(&files);
    let create = |topic_id| Command::Create { topic: "t".to_owned(), partition: 0, topic_id };
    let handle = store.call(vec![create(1)])[0].clone().unwrap();
    assert_eq!(store.call(vec![create(1)]), [Ok(handle)], "it is there");
    assert!(store.call(vec![create(2)])[0].is_err(), "it is another one");
    let info = store.partitions().remove(0);
    store.call(vec![Command::Open { partition: info.handle, epoch: 0 }])[0].clone().unwrap();
    for n in 0..200_i64 {
        let mut writer = rota_log::BatchWriter::default();
        writer.push(n * 10, None, Some(&[7; 100]));
        let batch = writer.finish().to_vec();
        assert_eq!(store.call(vec![Command::Append { partition: info.handle, epoch: 0, batch }]), [Ok(n)]);
    }
    let found = info.view.offset_for_timestamp(1_005, &mut usize::MAX.clone()).unwrap().unwrap();
    assert_eq!((found.offset, found.timestamp_ms), (101, 1_010));
    for (timestamp_ms, offset) in [(0, Some(0)), (1_005, Some(101)), (1_990, Some(199)), (1_991, None)] {
        let found = info.view.offset_for_timestamp(timestamp_ms, &mut usize::MAX.clone()).unwrap();
        assert_eq!(found.map(|found| found.offset), offset, "segments whose newest timestamp is known are passed over");
    }
    let newest = || info.view.offset_of_max_timestamp(&mut usize::MAX.clone()).unwrap().unwrap();
    assert_eq!((newest().offset, newest().timestamp_ms), (199, 1_990));
    info.view.delete_below(120);
    assert_eq!((newest().offset, newest().timestamp_ms), (199, 1_990));
    let found = info.view.offset_for_timestamp(1_005, &mut usize::MAX.clone()).unwrap().unwrap();
    assert_eq!((info.view.first_offset(), found.offset), (120, 120), "the caller keeps that for the next start");
    drop(store);
    let store = open(&files);
    let info = store.partitions().remove(0);
    let trimmed =
        store.call(vec![Command::Trim { partition: info.handle, limit_bytes: 9_000, below: 0 }])[0].clone().unwrap();
    assert!(trimmed > 0 && info.view.first_offset() == trimmed);
    let slice = info.view.read_slice(180, 500).unwrap();
    assert_eq!(slice.batches().next().unwrap().unwrap().header().base_offset, 180);
    assert_eq!(store.call(vec![Command::Delete { partition: info.handle }]), [Ok(0)]);
    assert!(store.partitions().is_empty());
    assert!(matches!(info.view.read_slice(150, 500), Err(LogError::UnknownPartition { .. })));
}

#[test]
fn a_trim_keeps_the_bytes_of_the_limit_in_whole_segments() {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = Store::open(Arc::new(files), Path::new(""), options()).unwrap();
    store.pass(vec![Command::Create { topic: "t".to_owned(), partition: 0, topic_id: 1 }]).remove(0).unwrap();
    let partition = store.handle("t", 0).unwrap();
    store.pass(vec![Command::Open { partition, epoch: 0 }]).remove(0).unwrap();
    let mut writer = rota_log::BatchWriter::default();
    writer.push(0, None, Some(&[7; 3_900]));
    let batch = writer.finish().to_vec();
    // One batch is one segment.
    let segment_bytes = batch.len() as u64;
    for n in 0..6 {
        let append = Command::Append { partition, epoch: 0, batch: batch.clone() };
        assert_eq!(store.pass(vec![append]), [Ok(n)]);
    }
    store.checkpoint().unwrap();
    let mut trim = |limit_bytes| store.pass(vec![Command::Trim { partition, limit_bytes, below: 0 }]).remove(0);
    assert_eq!(trim(5 * segment_bytes + 1), Ok(0), "without the oldest segment, less than the limit would remain");
    assert_eq!(trim(5 * segment_bytes), Ok(1));
    assert_eq!(trim(2 * segment_bytes + 1), Ok(3));
    assert_eq!(trim(u64::MAX), Ok(3));
    assert_eq!(trim(0), Ok(5), "the segment that is written to stays");
}

#[test]
fn a_directory_that_somebody_else_uses_is_left_alone() {
    let files = ForgetfulFiles::new(64);
    drop(files.open(Path::new("precious.txt"), rota_log::files::Access::Create).unwrap());
    let opened = SegmentStore::open(Arc::new(files), Path::new(""), options());
    assert!(matches!(&opened, Err(OpenError::Strange { .. })), "{opened:?}");
    assert!(opened.unwrap_err().to_string().contains("choose an empty directory"));
    assert_eq!(options().access, Access::Own);
}

#[test]
fn partitions_that_a_directory_of_kafkas_lacks_are_empty_and_nothing_is_created() {
    for there in [vec![1], vec![]] {
        let ours = ForgetfulFiles::new(4_096);
        let store = open(&ours);
        let mut log = Caller::of(&store, 2);
        log.open(1, 3).unwrap();
        log.append(1, 3, 0, record(0, 0));
        log.wait(1);
        drop(store);
        let files = ForgetfulFiles::new(4_096);
        let put = |path: &str, bytes: &[u8]| {
            let file = files.open(Path::new(path), rota_log::files::Access::Create).unwrap();
            file.write_at(bytes, 0).unwrap();
        };
        put("meta.properties", b"version=1\nnode.id=1\ncluster.id=abc\n");
        for partition in &there {
            files.create_dir(Path::new(&format!("{TOPIC}-{partition}"))).unwrap();
            let segment = format!("{TOPIC}-{partition}/00000000000000000000.log");
            put(&segment, &read_file(&ours, Path::new(&segment)).unwrap().unwrap());
        }
        let before = files.operations();
        let store = open(&files);
        let mut log = Caller::of(&store, 3);
        let count = |partition| {
            let mut records = 0;
            log.log.read(partition, 0, &mut |_| records += 1).map(|next| (next, records))
        };
        let stored = there.len() as i64;
        assert_eq!((log.open(1, 3), log.log.end(1), count(1)), (Ok(stored), Ok(stored), Ok((stored, stored))));
        for partition in [0, 2] {
            let state = (log.open(partition, 0), log.log.end(partition), count(partition));
            assert_eq!(state, (Ok(0), Ok(0), Ok((0, 0))));
        }
        let unknown = LogError::UnknownPartition { partition: 3 };
        assert_eq!((log.open(3, 0), count(3)), (Err(unknown.clone()), Err(unknown)));
        for partition in 0..3 {
            log.append(partition, 3, 0, record(0, 1));
            assert_eq!(log.wait(1)[0].result, Err(LogError::ReadOnly));
        }
        drop(store);
        assert_eq!(files.operations(), before, "nothing was changed");
    }
}

#[test]
fn a_reader_beside_the_writer_finds_every_record_once_and_in_order() {
    let files = ForgetfulFiles::new(4_096);
    let options = StoreOptions { compacted_topics: Vec::new(), ..options() };
    let store = SegmentStore::open(Arc::new(files), Path::new(""), options).unwrap().0;
    let mut log = Caller::of(&store, 1);
    log.open(0, 0).unwrap();
    let view = Arc::clone(log.log.view(0).unwrap());
    let records = 3_000_u64;
    let reader = std::thread::spawn(move || {
        let mut next = 0;
        while next < records as i64 {
            for stored in view.read_records(next, 50).expect("nothing is damaged") {
                assert_eq!(stored.offset, next);
                assert_eq!(stored.record.key, next.to_string().into_bytes());
                next += 1;
            }
            std::thread::yield_now();
        }
    });
    for n in 0..records {
        log.append(0, 0, 0, record(n, n));
    }
    log.wait(records as usize);
    reader.join().unwrap();
}

#[test]
fn messages_without_timestamps_age_by_the_time_of_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { segment_bytes: 500, ..StoreOptions::default() };
    let (store, _) = SegmentStore::open(Arc::new(DiskFiles), dir.path(), options).unwrap();
    let created = store.call(vec![Command::Create { topic: "t".to_owned(), partition: 0, topic_id: 1 }]);
    assert_eq!(created, [Ok(0)]);
    let info = store.partitions().remove(0);
    store.call(vec![Command::Open { partition: info.handle, epoch: 0 }])[0].clone().unwrap();
    for n in 0..3 {
        let mut writer = rota_log::BatchWriter::default();
        writer.push(-1, None, Some(&[7; 400]));
        let batch = writer.finish().to_vec();
        assert_eq!(store.call(vec![Command::Append { partition: info.handle, epoch: 0, batch }]), [Ok(n)]);
    }
    let set_modified = |base_offset: usize, seconds| {
        let path = dir.path().join(format!("t-0/{base_offset:020}.log"));
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    };
    set_modified(0, 10);
    set_modified(1, 20);
    let older_than = [9_999, 10_001, 20_000, 20_001].map(|oldest_ms| info.view.older_than(oldest_ms).unwrap());
    assert_eq!(older_than, [0, 1, 1, 2]);
    set_modified(2, 30);
    assert_eq!([30_000, 30_001].map(|oldest_ms| info.view.older_than(oldest_ms).unwrap()), [2, 3]);
}
