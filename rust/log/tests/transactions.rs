//! Batches of transactions and their markers in both fenced logs: bytes, what is read back, compaction.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use rota_log::{
    AbortedTransaction, Append, Batch, BatchKind, Completions, EndMarker, FencedLog, LogError, LogRecord, MemoryLog,
    SegmentStore, TransactionIndex,
    files::ForgetfulFiles,
    store::{Access as StoreAccess, Command, Durability, SideFile, Store, StoreOptions},
};

const TOPIC: &str = "__consumer_offsets";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Control batches as Apache Kafka 4.4.0 has stored them: offset, time, marker, bytes.
fn recorded() -> [(i64, i64, EndMarker, Vec<u8>); 2] {
    let marker = |producer_id, is_commit| EndMarker { producer_id, producer_epoch: 1, coordinator_epoch: 0, is_commit };
    [
        (
            5,
            0x1a2_0438_902e,
            marker(652, false),
            bytes(
                "0000000000000005 00000042 00000000 02 5f8982b5 0030 00000000 000001a20438902e 000001a20438902e
                 000000000000028c 0001 ffffffff 00000001 20 00 00 00 08 00000000 0c 000000000000 00",
            ),
        ),
        (
            6,
            0x1a2_0438_9051,
            marker(653, true),
            bytes(
                "0000000000000006 00000042 00000000 02 f337cd50 0030 00000000 000001a204389051 000001a204389051
                 000000000000028d 0001 ffffffff 00000001 20 00 00 00 08 00000001 0c 000000000000 00",
            ),
        ),
    ]
}

#[test]
fn a_marker_has_the_bytes_of_kafka_and_reads_back() {
    for (offset, timestamp_ms, marker, recorded) in recorded() {
        let mut written = marker.batch(timestamp_ms).to_vec();
        rota_log::rewrite_header(&mut written, offset, 0);
        assert_eq!(written, recorded);
        let (batch, _) = Batch::split(&recorded).unwrap();
        batch.validate().unwrap();
        assert_eq!(EndMarker::read(&batch), Ok(Some(marker)));
        assert!(batch.header().is_control() && batch.header().is_transactional());
    }
}

#[test]
fn other_control_batches_are_no_markers_and_damaged_ones_are_errors() {
    let (.., recorded) = &recorded()[0];
    // The type is in the last two bytes of the key, at the end of 61 bytes of header and 5 of the record.
    for (kind, expected) in [(2_u8, Ok(None)), (9, Ok(None))] {
        let mut other = recorded.clone();
        other[61 + 5 + 3] = kind;
        assert_eq!(EndMarker::read(&Batch::split(&other).unwrap().0), expected, "{kind}");
    }
    for at in 61..recorded.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut damaged = recorded.clone();
            damaged[at] = byte;
            // Any result but a panic.
            let _read = EndMarker::read(&Batch::split(&damaged).unwrap().0);
        }
    }
}

const A: BatchKind = BatchKind::Transactional { producer_id: 7, producer_epoch: 3 };
const B: BatchKind = BatchKind::Transactional { producer_id: 8, producer_epoch: 0 };

fn ends(kind: BatchKind, is_commit: bool) -> BatchKind {
    let BatchKind::Transactional { producer_id, producer_epoch } = kind else { panic!("a transaction") };
    BatchKind::Marker(EndMarker { producer_id, producer_epoch, coordinator_epoch: 4, is_commit })
}

fn append(
    log: &dyn FencedLog<Vec<LogRecord>>,
    kind: BatchKind,
    keys: &[(&str, Option<&str>)],
) -> Result<i64, LogError> {
    let (sender, result) = mpsc::channel();
    let to = Completions::relay(move |completion| sender.send(completion.result).unwrap());
    let record = |(key, value): &(&str, Option<&str>)| LogRecord {
        key: key.as_bytes().to_vec(),
        value: value.map(|value| value.as_bytes().to_vec()),
    };
    let batch = keys.iter().map(record).collect();
    log.append(Append { partition: 0, epoch: 2, id: 0, timestamp_ms: 5, kind, batch }, &to);
    result.recv_timeout(Duration::from_mins(1)).expect("an append completes")
}

fn open(log: &dyn FencedLog<Vec<LogRecord>>) {
    let (sender, result) = mpsc::channel();
    log.open(0, 2, &Completions::relay(move |completion| sender.send(completion.result).unwrap()));
    result.recv_timeout(Duration::from_mins(1)).expect("an open completes").unwrap();
}

/// Offset, kind, key and value of everything.
type Read = Vec<(i64, BatchKind, String, Option<String>)>;

fn read_with(mut slice: impl FnMut(i64, &mut dyn FnMut(rota_log::RecordInPlace<'_>)) -> i64) -> Read {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let next = slice(from, &mut |record| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.push((record.offset, record.kind, text(record.key), record.value.map(text)));
        });
        if next == from {
            return all;
        }
        from = next;
    }
}

fn read(log: &dyn FencedLog<Vec<LogRecord>>) -> Read {
    read_with(|from, visit| log.read(0, from, visit).unwrap())
}

/// What a reader of committed records sees: the newest value of each key, by the position of the record.
fn visible(all: &Read) -> Vec<(String, String)> {
    let mut newest: BTreeMap<String, (i64, Option<String>)> = BTreeMap::new();
    let mut open: BTreeMap<i64, Read> = BTreeMap::new();
    let mut see = |(offset, _, key, value): (i64, BatchKind, String, Option<String>)| {
        let known = newest.entry(key).or_insert((offset, value.clone()));
        if known.0 <= offset {
            *known = (offset, value);
        }
    };
    for record in all.iter().cloned() {
        match record.1 {
            BatchKind::Plain => see(record),
            BatchKind::Transactional { producer_id, .. } => open.entry(producer_id).or_default().push(record),
            BatchKind::Marker(marker) => {
                let decided = open.remove(&marker.producer_id).unwrap_or_default();
                decided.into_iter().filter(|_| marker.is_commit).for_each(&mut see);
            }
        }
    }
    newest.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect()
}

/// Writes a session with every order of plain records, transactions and markers, and checks what is read back.
fn check_read_back(log: &dyn FencedLog<Vec<LogRecord>>) {
    open(log);
    assert_eq!(append(log, A, &[("a", Some("1")), ("b", None)]), Ok(0));
    assert_eq!(append(log, BatchKind::Plain, &[("a", Some("2"))]), Ok(2));
    assert_eq!(append(log, ends(A, true), &[]), Ok(3));
    assert_eq!(append(log, B, &[("c", Some("3"))]), Ok(4));
    assert_eq!(append(log, ends(B, false), &[]), Ok(5));
    assert_eq!(append(log, A, &[]), Err(LogError::Empty));
    assert_eq!(append(log, ends(A, true), &[("a", None)]), Err(LogError::Empty), "a marker has no records");
    let text = |text: &str| Some(text.to_owned());
    let expected = vec![
        (0, A, "a".to_owned(), text("1")),
        (1, A, "b".to_owned(), None),
        (2, BatchKind::Plain, "a".to_owned(), text("2")),
        (3, ends(A, true), String::new(), None),
        (4, B, "c".to_owned(), text("3")),
        (5, ends(B, false), String::new(), None),
    ];
    assert_eq!(read(log), expected);
    assert_eq!(visible(&expected), [("a".to_owned(), "2".to_owned())]);
}

#[test]
fn the_log_in_memory_reads_back_what_a_batch_is() {
    check_read_back(&MemoryLog::new(1, 1_000));
}

#[test]
fn the_log_on_disk_reads_back_what_a_batch_is_also_after_a_restart() {
    let files = ForgetfulFiles::new(4_096);
    let begin = || SegmentStore::open(Arc::new(files.clone()), Path::new(""), StoreOptions::default()).unwrap().0;
    let store = begin();
    let log = store.log(TOPIC, 1, 7, 1_000).unwrap();
    check_read_back(&log);
    let before = read(&log);
    drop((log, store));
    let store = begin();
    let log = store.log(TOPIC, 1, 7, 1_000).unwrap();
    assert_eq!(read(&log), before);
    let records = log.view(0).unwrap().read_records(0, usize::MAX).unwrap();
    assert_eq!(records.iter().map(|stored| stored.offset).collect::<Vec<_>>(), [0, 1, 2, 4], "markers are no records");
    // Kafka's coordinator writes sequence 0.
    let slice = log.view(0).unwrap().read_slice(0, 1).unwrap();
    let header = *slice.batches().next().unwrap().unwrap().header();
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 3, 0));
}

/// A session of many transactions of three producers over ten keys. Some are open at its end.
fn session(seed: u64, steps: u64, mut write: impl FnMut(BatchKind, &[(&str, Option<&str>)])) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut open = [false; 3];
    for step in 0..steps {
        let (key, value) = (draw(10).to_string(), step.to_string());
        let value = (draw(8) > 0).then_some(&*value);
        let producer = draw(3) as usize;
        let kind = BatchKind::Transactional { producer_id: producer as i64, producer_epoch: 0 };
        match draw(10) {
            // In the second half, nothing ends the transaction of the last producer.
            0..=2 if open[producer] && !(producer == 2 && step > steps / 2) => {
                open[producer] = false;
                write(ends(kind, draw(2) == 0), &[]);
            }
            0..=4 => {
                open[producer] = true;
                write(kind, &[(&key, value)]);
            }
            _ => write(BatchKind::Plain, &[(&key, value)]),
        }
    }
}

/// Both decisions about every open transaction.
fn both_ends(all: &Read) -> [Vec<(String, String)>; 2] {
    [true, false].map(|is_commit| {
        let mut all = all.clone();
        for producer_id in 0..3 {
            let kind = BatchKind::Transactional { producer_id, producer_epoch: 0 };
            all.push((i64::MAX, ends(kind, is_commit), String::new(), None));
        }
        visible(&all)
    })
}

#[test]
fn compaction_in_memory_keeps_what_a_transaction_may_still_decide() {
    for seed in 1..6 {
        let log = MemoryLog::new(1, 1_000);
        open(&log);
        let mut written: Read = Vec::new();
        session(seed, 4_000, |kind, keys| {
            let offset = append(&log, kind, keys).unwrap();
            let (key, value) = keys.first().copied().unwrap_or_default();
            written.push((offset, kind, key.to_owned(), value.map(str::to_owned)));
        });
        let kept = read(&log);
        assert!(kept.len() < written.len(), "it was compacted");
        assert_eq!(both_ends(&kept), both_ends(&written), "seed {seed}");
    }
}

/// Writes checkpoints and compacts until nothing is left to do.
fn compact(store: &mut Store, now_ms: i64) {
    store.checkpoint().unwrap();
    let mut tasks = 0;
    while let Some(mut task) = store.next_task(now_ms) {
        tasks += 1;
        assert!(tasks < 1_000, "compaction does not end");
        while task.step().unwrap() {}
        store.finish(task, Ok(()));
    }
}

#[test]
fn compaction_on_disk_keeps_what_a_transaction_may_still_decide_and_ends_markers_after_a_day() {
    // With so few keys, each compaction takes up the keys where the last one ended.
    for (seed, compaction_keys_max) in (1..4).flat_map(|seed| [(seed, 1_000), (seed, 4)]) {
        let files = ForgetfulFiles::new(64);
        let segment_bytes = if compaction_keys_max < 10 { 500 } else { 4_096 };
        let options =
            StoreOptions { segment_bytes, compaction_keys_max, cleanable_percent_min: 1, ..StoreOptions::default() };
        let (mut store, _) = Store::open(Arc::new(files), Path::new(""), options).unwrap();
        store.pass(vec![Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 7 }]);
        let partition = store.handle(TOPIC, 0).unwrap();
        store.pass(vec![Command::Open { partition, epoch: 2 }]);
        let view = store.view(partition).unwrap();
        let mut written: Read = Vec::new();
        session(seed, 600, |kind, keys| {
            let batch = match kind {
                BatchKind::Marker(marker) => marker.batch(5).to_vec(),
                _ => data(kind, keys),
            };
            let offset = store.pass(vec![Command::Append { partition, epoch: 2, batch }]).remove(0).unwrap();
            let (key, value) = keys.first().copied().unwrap_or_default();
            written.push((offset, kind, key.to_owned(), value.map(str::to_owned)));
            if offset % 100 == 99 {
                // Every second time, tombstones of earlier ones end.
                compact(&mut store, offset / 200 * 86_400_000 * 2);
            }
        });
        let kept = read_with(|from, visit| view.visit_records(from, 4_096, &mut *visit).unwrap());
        assert!(store.compactions() > 1 && kept.len() < written.len() * 3 / 4, "{} records are kept", kept.len());
        assert_eq!(both_ends(&kept), both_ends(&written), "seed {seed}, {compaction_keys_max} keys");
    }
}

fn data(kind: BatchKind, keys: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut writer = rota_log::BatchWriter::default();
    if let BatchKind::Transactional { producer_id, producer_epoch } = kind {
        writer.producer = Some((producer_id, producer_epoch, 0));
        writer.is_transactional = true;
    }
    for (key, value) in keys {
        writer.push(5, Some(key.as_bytes()), value.map(str::as_bytes));
    }
    writer.finish().to_vec()
}

#[test]
fn a_marker_without_records_goes_after_the_retention_of_tombstones() {
    const DAY_MS: i64 = 86_400_000;
    let options = StoreOptions { segment_bytes: 200, cleanable_percent_min: 1, ..StoreOptions::default() };
    let (mut store, _) = Store::open(Arc::new(ForgetfulFiles::new(64)), Path::new(""), options).unwrap();
    store.pass(vec![Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 7 }]);
    let partition = store.handle(TOPIC, 0).unwrap();
    store.pass(vec![Command::Open { partition, epoch: 2 }]);
    let view = store.view(partition).unwrap();
    let write = |store: &mut Store, kind: BatchKind, keys: &[(&str, Option<&str>)]| {
        let batch = if let BatchKind::Marker(marker) = kind { marker.batch(5).to_vec() } else { data(kind, keys) };
        store.pass(vec![Command::Append { partition, epoch: 2, batch }]).remove(0).unwrap();
    };
    let markers = || {
        let all = read_with(|from, visit| view.visit_records(from, 4_096, &mut *visit).unwrap());
        all.into_iter().filter(|(_, kind, ..)| kind.is_marker()).map(|(offset, ..)| offset).collect::<Vec<_>>()
    };
    write(&mut store, A, &[("a", Some("1"))]);
    write(&mut store, ends(A, true), &[]);
    write(&mut store, B, &[("b", Some("1"))]);
    write(&mut store, ends(B, false), &[]);
    // Superseded: the transaction of `a` has no record any more.
    let more = |store: &mut Store, now_ms| {
        for _ in 0..6 {
            write(store, BatchKind::Plain, &[("a", Some("2"))]);
        }
        compact(store, now_ms);
    };
    more(&mut store, 0);
    assert_eq!(markers(), [1, 3], "records of both were there");
    more(&mut store, 10);
    assert_eq!(markers(), [1, 3], "they are found without records for the first time");
    more(&mut store, 9 + DAY_MS);
    assert_eq!(markers(), [1, 3]);
    more(&mut store, 11 + DAY_MS);
    assert_eq!(markers(), [0_i64; 0]);
}

/// A store of one user topic with small segments, and its files.
fn topic_store(files: &ForgetfulFiles) -> (Store, rota_log::store::PartitionHandle) {
    topic_store_with(files, Durability::Fsync)
}

fn topic_store_with(files: &ForgetfulFiles, durability: Durability) -> (Store, rota_log::store::PartitionHandle) {
    let options = StoreOptions { segment_bytes: 600, wal_bytes: 1 << 20, durability, ..StoreOptions::default() };
    let (mut store, _) = Store::open(Arc::new(files.clone()), Path::new(""), options).unwrap();
    store.pass(vec![Command::Create { topic: "t".to_owned(), partition: 0, topic_id: 7 }]);
    let partition = store.handle("t", 0).unwrap();
    store.pass(vec![Command::Open { partition, epoch: 0 }]);
    (store, partition)
}

/// Writes a session as a server does: a snapshot before the first transaction, and files whenever a segment is full.
fn write_topic(store: &mut Store, partition: rota_log::store::PartitionHandle, steps: u64) -> TransactionIndex {
    let view = store.view(partition).unwrap();
    let mut index = TransactionIndex::default();
    let beside = |store: &mut Store, files| {
        assert_eq!(store.pass(vec![Command::WriteBeside { partition, files }]), [Ok(0)]);
    };
    beside(store, vec![SideFile::Snapshot(0, index.snapshot())]);
    session(3, steps, |kind, keys| {
        let batch = if let BatchKind::Marker(marker) = kind { marker.batch(5).to_vec() } else { data(kind, keys) };
        let header = *Batch::split(&batch).unwrap().0.header();
        let base_offset = store.pass(vec![Command::Append { partition, epoch: 0, batch }]).remove(0).unwrap();
        let segments = view.segments();
        if let [.., full, active] = &segments[..]
            && active.base_offset == base_offset
        {
            let within = index.aborted().iter().filter(|aborted| aborted.last_offset >= full.base_offset);
            let rows = within.flat_map(AbortedTransaction::row).collect();
            let aborted = SideFile::Aborted(full.base_offset, rows);
            beside(store, vec![aborted, SideFile::Snapshot(base_offset, index.snapshot())]);
        }
        let marker = if let BatchKind::Marker(marker) = kind { Some(marker) } else { None };
        index.observe(&rota_log::BatchHeader { base_offset, ..header }, marker.as_ref());
    });
    index
}

#[test]
fn transactions_of_a_topic_are_the_same_after_a_restart_with_or_without_their_files() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    assert_eq!(store.transactions(partition), Ok(None), "a partition without a snapshot has none");
    let index = write_topic(&mut store, partition, 300);
    assert!(index.first_open().is_some() && index.aborted().len() > 5);
    assert_eq!(store.transactions(partition), Ok(Some(index.clone())));
    store.checkpoint().unwrap();
    drop(store);
    let names = |files: &ForgetfulFiles| -> Vec<String> {
        let entries = rota_log::files::Files::list(files, Path::new("t-0")).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    };
    let side = |name: &String| name.ends_with(".txnindex") || name.ends_with(".snapshot");
    let all: Vec<String> = names(&files).into_iter().filter(side).collect();
    assert!(all.len() > 10, "{all:?}");
    for name in &all {
        for damage in [true, false] {
            let files = files.after_crash(rota_log::files::Survival::Everything);
            let path = Path::new("t-0").join(name);
            if damage {
                files.damage(&path, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x55)).unwrap();
            } else {
                rota_log::files::Files::remove(&files, &path).unwrap();
            }
            let (store, partition) = topic_store(&files);
            assert_eq!(store.transactions(partition), Ok(Some(index.clone())), "without {name}");
        }
    }
}

/// Removes the files beside segments with this suffix and these offsets.
fn remove_side_files(files: &ForgetfulFiles, suffix: &str, offsets: std::ops::RangeInclusive<i64>) {
    for entry in rota_log::files::Files::list(files, Path::new("t-0")).unwrap() {
        let offset = entry.name.strip_suffix(suffix).and_then(|digits| digits.parse().ok());
        if offset.is_some_and(|offset: i64| offsets.contains(&offset)) {
            rota_log::files::Files::remove(files, &Path::new("t-0").join(entry.name)).unwrap();
        }
    }
}

/// Returns the base offset of the first segment with the marker of an aborted transaction which is not the first one.
fn aborting_segment(store: &Store, partition: rota_log::store::PartitionHandle, index: &TransactionIndex) -> i64 {
    let segments = store.view(partition).unwrap().segments();
    let has_marker = |base: i64, end: i64| index.aborted().iter().any(|it| (base..end).contains(&it.last_offset));
    let mut bounds = segments.windows(2).skip(1).map(|pair| (pair[0].base_offset, pair[1].base_offset));
    bounds.find(|(base, end)| has_marker(*base, *end)).unwrap().0
}

#[test]
fn a_trim_that_a_power_failure_takes_back_in_part_shows_no_aborted_transaction() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    let index = write_topic(&mut store, partition, 300);
    let base = aborting_segment(&store, partition, &index);
    store.checkpoint().unwrap();
    drop(store);
    // The segments are back, but not their files.
    remove_side_files(&files, ".snapshot", 0..=base);
    remove_side_files(&files, ".txnindex", 0..=base);
    let (store, partition) = topic_store(&files);
    assert_eq!(store.transactions(partition), Ok(Some(index)));
}

/// Removes the segments below `below`, but not those of open transactions.
fn trim_below(store: &mut Store, partition: rota_log::store::PartitionHandle, below: i64) {
    let command = Command::Trim { partition, limit_bytes: u64::MAX, below };
    assert_eq!(store.pass(vec![command]), [Ok(below)]);
}

#[test]
fn a_trim_without_the_snapshot_of_its_end_loses_no_transaction() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    let mut expected = write_topic(&mut store, partition, 300);
    let base = aborting_segment(&store, partition, &expected);
    store.checkpoint().unwrap();
    drop(store);
    // A crash before it was written leaves the next one after the next segment.
    remove_side_files(&files, ".snapshot", base..=base);
    let (mut store, partition) = topic_store(&files);
    assert_eq!(store.transactions(partition), Ok(Some(expected.clone())));
    store.view(partition).unwrap().keep_open(expected.first_open());
    trim_below(&mut store, partition, base);
    expected.forget_below(base);
    drop(store);
    let (store, partition) = topic_store(&files);
    assert_eq!(store.transactions(partition), Ok(Some(expected)));
}

#[test]
fn transactions_of_a_topic_that_no_checkpoint_has_are_the_same_after_a_crash() {
    for steps in [1, 3, 300] {
        let files = ForgetfulFiles::new(64);
        let (mut store, partition) = topic_store(&files);
        let index = write_topic(&mut store, partition, steps);
        for survival in [rota_log::files::Survival::Everything, rota_log::files::Survival::Nothing] {
            let (mut store, partition) = topic_store(&files.after_crash(survival));
            let found = store.transactions(partition).map(Option::unwrap_or_default);
            assert_eq!(found, Ok(index.clone()), "{steps} steps");
            store.checkpoint().unwrap();
            if let Some(second) = store.view(partition).unwrap().segments().get(1) {
                check_trim_without_snapshot(&mut store, partition, second.base_offset, &index);
            }
        }
    }
}

/// Trims a partition that has no snapshot from `below` on, and checks what is found of the transactions.
fn check_trim_without_snapshot(
    store: &mut Store,
    partition: rota_log::store::PartitionHandle,
    below: i64,
    index: &TransactionIndex,
) {
    store.view(partition).unwrap().keep_open(index.first_open());
    trim_below(store, partition, below);
    let found = store.transactions(partition).unwrap().unwrap();
    assert_eq!(found.first_open(), index.first_open(), "below {below}");
    // A transaction begins with the first of its records that is left; without any it needs no row.
    let bounds = |index: &TransactionIndex| -> Vec<(i64, i64)> {
        index.aborted().iter().map(|aborted| (aborted.first_offset, aborted.last_offset)).collect()
    };
    let (found, all) = (bounds(&found), bounds(index));
    assert!(all.iter().filter(|(begin, _)| *begin >= below).all(|whole| found.contains(whole)), "below {below}");
    assert!(found.iter().all(|(_, end)| all.iter().any(|(_, other)| other == end)), "below {below}");
}

#[test]
fn a_snapshot_from_before_a_trim_brings_back_no_transaction() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    let index = write_topic(&mut store, partition, 300);
    let segments = store.view(partition).unwrap().segments();
    store.checkpoint().unwrap();
    drop(store);
    let last = segments.iter().rposition(|segment| Some(segment.base_offset) <= index.first_open()).unwrap();
    assert!(last > 5);
    for segment in &segments[1..=last] {
        let files = files.after_crash(rota_log::files::Survival::Everything);
        remove_side_files(&files, ".snapshot", segment.base_offset..=i64::MAX);
        let (mut store, partition) = topic_store(&files);
        check_trim_without_snapshot(&mut store, partition, segment.base_offset, &index);
    }
}

#[test]
fn a_trim_keeps_open_transactions_and_removes_the_files_of_removed_segments() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    let index = write_topic(&mut store, partition, 300);
    store.checkpoint().unwrap();
    let view = store.view(partition).unwrap();
    let first_open = index.first_open().unwrap();
    view.keep_open(Some(first_open));
    let trim = |store: &mut Store| {
        let command = Command::Trim { partition, limit_bytes: 0, below: i64::MAX };
        store.pass(vec![command]).remove(0).unwrap()
    };
    let first = trim(&mut store);
    assert!(first > 0 && first <= first_open, "{first} of {first_open}");
    let mut expected = index.clone();
    expected.forget_below(first);
    assert_eq!(store.transactions(partition).unwrap().unwrap().aborted(), expected.aborted());
    assert_eq!(store.transactions(partition).unwrap().unwrap().first_open(), Some(first_open));
    view.keep_open(None);
    assert!(trim(&mut store) > first_open);
}

#[test]
fn no_snapshot_is_written_after_a_file_that_fails() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    let index = write_topic(&mut store, partition, 300);
    let view = store.view(partition).unwrap();
    let (indexed_below, end) = (view.indexed_below(), view.next_offset());
    let active = view.segments().last().unwrap().base_offset;
    assert_eq!(indexed_below, active, "that of the newest snapshot");
    let beside = |store: &mut Store| {
        let rows = index.aborted().iter().filter(|aborted| aborted.last_offset >= active);
        let aborted = SideFile::Aborted(active, rows.flat_map(AbortedTransaction::row).collect());
        let files = vec![aborted, SideFile::Snapshot(end, index.snapshot())];
        store.pass(vec![Command::WriteBeside { partition, files }]).remove(0)
    };
    for at in 0..4 {
        files.fail_at(files.operations() + at, rota_log::files::Fault::Io);
        assert!(matches!(beside(&mut store), Err(LogError::Storage { .. })), "{at}");
        let names = rota_log::files::Files::list(&files, Path::new("t-0")).unwrap();
        assert!(!names.iter().any(|entry| entry.name == format!("{end:020}.snapshot")), "{at}");
        assert_eq!(view.indexed_below(), indexed_below, "{at}");
    }
    assert_eq!(beside(&mut store), Ok(0));
    assert_eq!(view.indexed_below(), end);
    assert_eq!(store.transactions(partition), Ok(Some(index)));
}

#[test]
fn a_snapshot_of_records_that_a_power_failure_has_lost_opens_no_transaction() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store_with(&files, Durability::Os);
    let mut index = write_topic(&mut store, partition, 12);
    store.checkpoint().unwrap();
    let end = store.view(partition).unwrap().next_offset();
    // It is durable although the records before it are not.
    let kind = BatchKind::Transactional { producer_id: 9, producer_epoch: 0 };
    let append = |store: &mut Store, kind| {
        let batch =
            if let BatchKind::Marker(marker) = kind { marker.batch(5).to_vec() } else { data(kind, &[("a", None)]) };
        let header = *Batch::split(&batch).unwrap().0.header();
        let base_offset = store.pass(vec![Command::Append { partition, epoch: 0, batch }]).remove(0).unwrap();
        rota_log::BatchHeader { base_offset, ..header }
    };
    let before = index.clone();
    index.observe(&append(&mut store, kind), None);
    let active = store.view(partition).unwrap().segments().last().unwrap().base_offset;
    let rows = index.aborted().iter().filter(|aborted| aborted.last_offset >= active);
    let aborted = SideFile::Aborted(active, rows.flat_map(AbortedTransaction::row).collect());
    let beside = vec![aborted, SideFile::Snapshot(end + 1, index.snapshot())];
    assert_eq!(store.pass(vec![Command::WriteBeside { partition, files: beside }]), [Ok(0)]);
    let files = files.after_crash(rota_log::files::Survival::Nothing);
    let (mut store, partition) = topic_store_with(&files, Durability::Os);
    assert_eq!(store.view(partition).unwrap().next_offset(), end);
    assert_eq!(store.transactions(partition), Ok(Some(before.clone())));
    append(&mut store, BatchKind::Plain);
    append(&mut store, BatchKind::Plain);
    store.checkpoint().unwrap();
    drop(store);
    let files = files.after_crash(rota_log::files::Survival::Nothing);
    let (store, partition) = topic_store_with(&files, Durability::Os);
    assert_eq!(store.view(partition).unwrap().next_offset(), end + 2);
    assert_eq!(store.transactions(partition), Ok(Some(before)));
}

/// Makes a directory one that Kafka has written and not stopped cleanly.
fn give_to_kafka(files: &ForgetfulFiles) {
    use rota_log::files::{Access, Files, write_all_at};
    remove_side_files(files, ".snapshot", 0..=i64::MAX);
    remove_side_files(files, ".txnindex", 0..=i64::MAX);
    for entry in files.list(Path::new("")).unwrap().iter().filter(|entry| !entry.is_dir) {
        files.remove(Path::new(&entry.name)).unwrap();
    }
    let meta = files.open(Path::new("meta.properties"), Access::Create).unwrap();
    write_all_at(meta.as_ref(), b"version=1\nnode.id=1\ncluster.id=abc\n", 0).unwrap();
}

#[test]
fn transactions_of_a_directory_of_kafka_without_snapshots_are_known_before_and_after_the_take_over() {
    let files = ForgetfulFiles::new(64);
    let (mut store, partition) = topic_store(&files);
    let expected = write_topic(&mut store, partition, 300);
    store.pass(vec![Command::Create { topic: "plain".to_owned(), partition: 0, topic_id: 8 }]);
    let plain = store.handle("plain", 0).unwrap();
    let append = Command::Append { partition: plain, epoch: 0, batch: data(BatchKind::Plain, &[("a", None)]) };
    store.pass(vec![Command::Open { partition: plain, epoch: 0 }, append]);
    store.checkpoint().unwrap();
    drop(store);
    give_to_kafka(&files);
    let found = |access| {
        let options = StoreOptions { segment_bytes: 600, access, ..StoreOptions::default() };
        let (store, _) = Store::open(Arc::new(files.clone()), Path::new(""), options).unwrap();
        ["t", "plain"].map(|topic| store.transactions(store.handle(topic, 0).unwrap()))
    };
    for access in [StoreAccess::Own, StoreAccess::Adopt, StoreAccess::Own] {
        assert_eq!(found(access), [Ok(Some(expected.clone())), Ok(None)], "{access:?}");
    }
}
