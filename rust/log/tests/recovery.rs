//! What opening a directory makes of tails, damage and directories of Kafka's.

use std::{path::Path, sync::Arc};

use rota_log::{
    BatchWriter, LogError,
    files::{Access as FileAccess, Fault, Files, ForgetfulFiles, Operation, Survival, read_file, write_all_at},
    store::{Access, Command, Durability, OpenError, PartitionHandle, Report, Store, StoreOptions, repair},
};

const TOPIC: &str = "__consumer_offsets";

fn options(durability: Durability) -> StoreOptions {
    StoreOptions { durability, segment_bytes: 1_000, wal_reserve_bytes: 512, ..StoreOptions::default() }
}

fn open_as(files: &ForgetfulFiles, options: StoreOptions) -> Result<(Store, Report), OpenError> {
    Store::open(Arc::new(files.clone()), Path::new(""), options)
}

fn open(files: &ForgetfulFiles, durability: Durability) -> (Store, Report) {
    open_as(files, options(durability)).unwrap()
}

fn batch(n: u64) -> Vec<u8> {
    let mut writer = BatchWriter::default();
    writer.push(1_000, Some(format!("key {n}").as_bytes()), Some(b"value"));
    writer.finish().to_vec()
}

/// Two partitions, opened under epoch 1, with `records` records each.
fn filled(files: &ForgetfulFiles, durability: Durability, records: u64) -> Store {
    let (mut store, _) = open(files, durability);
    for partition in 0..2 {
        let create = Command::Create { topic: TOPIC.to_owned(), partition, topic_id: 9 };
        let handle = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
        store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
        for n in 0..records {
            let append = Command::Append { partition: handle, epoch: 1, batch: batch(n) };
            assert_eq!(store.pass(vec![append]), [Ok(n as i64)]);
        }
    }
    store
}

fn count(store: &Store, partition: i32) -> Result<usize, LogError> {
    let view = store.view(store.handle(TOPIC, partition).unwrap()).unwrap();
    view.read_records(0, usize::MAX).map(|records| records.len())
}

fn segment(partition: i32, base_offset: i64) -> String {
    format!("{TOPIC}-{partition}/{base_offset:020}.log")
}

#[test]
fn a_torn_tail_is_cut_at_the_last_whole_batch_and_reported() {
    let files = ForgetfulFiles::new(64);
    drop(filled(&files, Durability::Os, 5));
    let path = segment(0, 0);
    let whole = read_file(&files, Path::new(&path)).unwrap().unwrap().len();
    files.damage(Path::new(&path), |bytes| bytes.truncate(whole - 7)).unwrap();
    let (mut store, report) = open(&files, Durability::Os);
    let batch_bytes = whole / 5;
    assert_eq!(report.cut, [(path.clone().into(), 4 * batch_bytes as u64, batch_bytes as u64 - 7)]);
    assert!(!report.was_clean && report.damage.is_empty());
    assert_eq!((count(&store, 0), count(&store, 1)), (Ok(4), Ok(5)));
    let handle = store.handle(TOPIC, 0).unwrap();
    let again = vec![
        Command::Open { partition: handle, epoch: 2 },
        Command::Append { partition: handle, epoch: 2, batch: batch(9) },
    ];
    assert_eq!(store.pass(again), [Ok(4), Ok(4)]);
}

#[test]
fn damage_before_a_whole_batch_refuses_that_partition_only_and_says_where_and_what_to_do() {
    let files = ForgetfulFiles::new(64);
    drop(filled(&files, Durability::Os, 5));
    let path = segment(0, 0);
    let batch_bytes = read_file(&files, Path::new(&path)).unwrap().unwrap().len() / 5;
    files.damage(Path::new(&path), |bytes| bytes[2 * batch_bytes + 70] ^= 1).unwrap();
    let (mut store, report) = open(&files, Durability::Os);
    let damage = &report.damage[0];
    assert_eq!((damage.file.to_str(), damage.position, damage.offset), (Some(&*path), 2 * batch_bytes as u64, 2));
    assert!(damage.to_string().contains("rota log repair"), "{damage}");
    assert!(matches!(count(&store, 0), Err(LogError::Damaged(_))));
    assert_eq!(count(&store, 1), Ok(5));
    let handle = store.handle(TOPIC, 0).unwrap();
    let refused = store.pass(vec![Command::Open { partition: handle, epoch: 2 }]).remove(0).unwrap_err();
    assert_eq!(refused.code(), 56);
    let bytes = read_file(&files, Path::new(&path)).unwrap().unwrap();
    assert_eq!(bytes.len(), 5 * batch_bytes, "nothing was cut");
    drop(store);
    assert_eq!(open(&files, Durability::Os).1.damage.len(), 1, "and it stays refused");
}

#[test]
fn a_segment_of_the_checkpoint_that_is_missing_refuses_the_partition_although_later_ones_are_there() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Os, 5);
    store.checkpoint().unwrap();
    let handle = store.handle(TOPIC, 0).unwrap();
    for n in 5..30 {
        store.pass(vec![Command::Append { partition: handle, epoch: 1, batch: batch(n) }]).remove(0).unwrap();
    }
    drop(store);
    files.remove(Path::new(&segment(0, 0))).unwrap();
    let segments = files.list(Path::new(&format!("{TOPIC}-0"))).unwrap();
    assert!(segments.iter().any(|entry| entry.name.contains(".log")), "{segments:?}");
    let (store, report) = open(&files, Durability::Os);
    let damage = &report.damage[0];
    assert_eq!((damage.file.to_str(), damage.offset, &*damage.reason), (Some(&*segment(0, 0)), 0, "it is missing"));
    assert!(matches!(count(&store, 0), Err(LogError::Damaged(_))));
    assert_eq!(count(&store, 1), Ok(5));
}

#[test]
fn damage_that_the_checkpoint_knows_to_be_none_of_a_tail_is_not_cut() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 5);
    store.checkpoint().unwrap();
    drop(store);
    let path = segment(0, 0);
    // The last batch of all: without the checkpoint it would look like a torn one.
    files.damage(Path::new(&path), |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap();
    let (store, _) = open(&files, Durability::Fsync);
    let Err(LogError::Damaged(damage)) = count(&store, 0) else { panic!("an acknowledged record is gone") };
    assert_eq!(damage.offset, 4);
    assert_eq!(count(&store, 1), Ok(5));
    files.damage(Path::new(&path), |bytes| bytes.truncate(10)).unwrap();
    drop(store);
    let (store, report) = open(&files, Durability::Fsync);
    assert!(report.damage[0].reason.contains("were there at the last checkpoint"), "{report:?}");
    assert_eq!(count(&store, 1), Ok(5));
}

#[test]
fn what_the_segments_lost_comes_from_the_write_ahead_file() {
    let files = ForgetfulFiles::new(64);
    let store = filled(&files, Durability::Fsync, 30);
    let after = files.after_crash(Survival::Nothing);
    drop(store);
    assert!(after.list(Path::new("")).unwrap().iter().all(|entry| !entry.is_dir), "no segment was synced");
    let (store, report) = open(&after, Durability::Fsync);
    assert_eq!((report.completed_batches, report.missing_batches, report.was_clean), (60, 60, false));
    assert_eq!((count(&store, 0), count(&store, 1)), (Ok(30), Ok(30)));
    assert!(after.list(Path::new(&format!("{TOPIC}-0"))).unwrap().len() > 3, "it is rolled as it was");
    drop(store);
    let (_, report) = open(&after, Durability::Fsync);
    assert!(report.was_clean, "{report:?}");
}

#[test]
fn what_the_segments_have_is_not_missing() {
    let files = ForgetfulFiles::new(64);
    drop(filled(&files, Durability::Fsync, 30));
    let (store, report) = open(&files.after_crash(Survival::Everything), Durability::Fsync);
    assert_eq!((report.missing_batches, report.was_clean), (0, false));
    assert_eq!((count(&store, 0), count(&store, 1)), (Ok(30), Ok(30)));
}

#[test]
fn a_topic_named_like_a_kept_write_ahead_file_survives_starts_after_crashes_and_repairs() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 5);
    let create = Command::Create { topic: "rota.kept.orders".to_owned(), partition: 0, topic_id: 8 };
    let partition = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    let append =
        |n, epoch| vec![Command::Open { partition, epoch }, Command::Append { partition, epoch, batch: batch(n) }];
    assert_eq!(store.pass(append(0, 1)), [Ok(0), Ok(0)]);
    store.checkpoint().unwrap();
    assert_eq!(store.pass(append(1, 1)), [Ok(1), Ok(1)]);
    drop(store);
    let after = files.after_crash(Survival::Everything);
    let records = |files: &ForgetfulFiles| {
        let (store, report) = open(files, Durability::Fsync);
        let view = store.view(store.handle("rota.kept.orders", 0).unwrap()).unwrap();
        (view.read_records(0, usize::MAX).unwrap().len(), report.damage.len())
    };
    assert_eq!(records(&after), (2, 0));
    after.damage(Path::new(&segment(0, 0)), |bytes| bytes.truncate(10)).unwrap();
    assert_eq!(records(&after), (2, 1));
    assert_eq!(repair(&(Arc::new(after.clone()) as Arc<dyn Files>), Path::new("")).unwrap().1.len(), 1);
    assert_eq!(records(&after), (2, 0));
}

#[test]
fn a_topic_that_was_made_again_since_the_checkpoint_is_not_missing() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 5);
    store.checkpoint().unwrap();
    let former = store.handle(TOPIC, 0).unwrap();
    store.pass(vec![Command::Delete { partition: former }]).remove(0).unwrap();
    let create = Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 10 };
    let handle = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
    for n in 0..7 {
        store.pass(vec![Command::Append { partition: handle, epoch: 1, batch: batch(n) }]).remove(0).unwrap();
    }
    let (everything, nothing) = (files.after_crash(Survival::Everything), files.after_crash(Survival::Nothing));
    drop(store);
    let (store, report) = open(&everything, Durability::Fsync);
    assert_eq!((report.completed_batches, report.missing_batches, count(&store, 0)), (7, 0, Ok(7)));
    let (store, report) = open(&nothing, Durability::Fsync);
    assert_eq!((report.completed_batches, report.missing_batches, count(&store, 0)), (7, 7, Ok(7)));
}

#[test]
fn a_damaged_or_missing_write_ahead_file_refuses_the_directory() {
    let files = ForgetfulFiles::new(64);
    drop(filled(&files, Durability::Fsync, 5));
    let wal = files.list(Path::new("")).unwrap().into_iter().find(|entry| entry.name.contains("wal")).unwrap().name;
    let after = files.after_crash(Survival::Everything);
    after.damage(Path::new(&wal), |bytes| bytes[100] ^= 1).unwrap();
    let error = open_as(&after, options(Durability::Fsync)).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&wal) && error.to_string().contains("rota log recover"), "{error}");
    files.remove(Path::new(&wal)).unwrap();
    let error = open_as(&files, options(Durability::Fsync)).unwrap_err();
    assert!(error.to_string().contains("it is missing"), "{error}");
}

#[test]
fn a_newest_write_ahead_file_with_frames_is_not_taken_for_one_that_was_being_created() {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = open_as(&files, StoreOptions { wal_bytes: 1, ..options(Durability::Fsync) }).unwrap();
    let create = Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 9 };
    let handle = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
    store.pass(vec![Command::Append { partition: handle, epoch: 1, batch: batch(0) }]).remove(0).unwrap();
    // The next file begins, and the checkpoint does not end.
    drop(store.next_task(0).expect("a checkpoint is due"));
    store.pass(vec![Command::Append { partition: handle, epoch: 1, batch: batch(1) }]).remove(0).unwrap();
    drop(store);
    let names = files.list(Path::new("")).unwrap().into_iter().map(|entry| entry.name);
    let wals: Vec<String> = names.filter(|name| name.contains("wal")).collect();
    assert_eq!(wals.len(), 2, "{wals:?}");
    let untouched = files.after_crash(Survival::Everything);
    assert_eq!(count(&open(&untouched, Durability::Fsync).0, 0), Ok(2));
    files.damage(Path::new(&wals[1]), |bytes| bytes[10] ^= 1).unwrap();
    let error = open_as(&files, options(Durability::Fsync)).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }) && error.to_string().contains(&wals[1]), "{error}");
}

#[test]
fn a_later_format_is_refused_before_old_write_ahead_files_are_deleted() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 5);
    store.checkpoint().unwrap();
    drop(store);
    let old = Path::new("rota.wal.0000000000");
    files.open(old, FileAccess::Create).unwrap();
    let entries = files.list(Path::new("")).unwrap();
    let current = entries.into_iter().map(|entry| entry.name).filter(|name| name.contains("wal")).max().unwrap();
    let later = |bytes: &mut Vec<u8>| {
        bytes[7] = b'2';
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_be_bytes());
    };
    files.damage(Path::new(&current), later).unwrap();

    let error = open_as(&files, options(Durability::Fsync)).unwrap_err();
    assert!(matches!(error, OpenError::LaterFormat { found: 2, .. }), "{error}");
    assert!(read_file(&files, old).unwrap().is_some(), "the refused directory stays as it is");

    files.remove(Path::new(&current)).unwrap();
    open_as(&files, options(Durability::Fsync)).unwrap_err();
    assert!(read_file(&files, old).unwrap().is_none(), "without a later format the old file goes");
}

/// A directory as Kafka leaves one: no file of ours, indexes, a partition whose log begins later.
fn kafkas() -> ForgetfulFiles {
    let ours = ForgetfulFiles::new(64);
    drop(filled(&ours, Durability::Os, 30));
    let files = ForgetfulFiles::new(64);
    let put = |path: &str, bytes: &[u8]| {
        let file = files.open(Path::new(path), FileAccess::Create).unwrap();
        write_all_at(file.as_ref(), bytes, 0).unwrap();
    };
    put("meta.properties", b"#\nversion=1\nnode.id=1\ncluster.id=abc\n");
    put("recovery-point-offset-checkpoint", b"0\n0\n");
    for partition in 0..2 {
        let dir = format!("{TOPIC}-{partition}");
        files.create_dir(Path::new(&dir)).unwrap();
        for entry in ours.list(Path::new(&dir)).unwrap().iter().filter(|entry| entry.name.len() == 24) {
            let path = format!("{dir}/{}", entry.name);
            put(&path, &read_file(&ours, Path::new(&path)).unwrap().unwrap());
            put(&path.replace(".log", ".index"), &[0; 100]);
        }
        put(&format!("{dir}/leader-epoch-checkpoint"), b"0\n2\n0 0\n4 20\n");
        put(&format!("{dir}/partition.metadata"), b"version: 0\ntopic_id: lBj3j9mkR5CSrYX6wOZ9pg");
    }
    files
}

#[test]
fn a_directory_of_kafkas_is_only_read_unless_it_is_adopted() {
    let files = kafkas();
    let before = files.operations();
    let (mut store, report) = open(&files, Durability::Fsync);
    assert!(report.is_foreign && report.damage.is_empty());
    assert_eq!((count(&store, 0), count(&store, 1)), (Ok(30), Ok(30)));
    let info = store.partitions().remove(0);
    assert_eq!((info.epoch, info.topic_id >> 120), (Some(4), 0x94));
    let refused = store.pass(vec![Command::Open { partition: info.handle, epoch: 9 }]);
    assert_eq!(refused, [Err(LogError::ReadOnly)]);
    drop(store);
    assert_eq!(files.operations(), before, "nothing was changed");

    let adopting = || StoreOptions { access: Access::Adopt, ..options(Durability::Fsync) };
    let (mut store, _) = open_as(&files, adopting()).unwrap();
    let handle = store.handle(TOPIC, 0).unwrap();
    let fenced = store.pass(vec![Command::Open { partition: handle, epoch: 3 }]).remove(0);
    assert_eq!(fenced, Err(LogError::Fenced { current_epoch: 4, epoch: 3 }));
    let append = Command::Append { partition: handle, epoch: 5, batch: batch(99) };
    assert_eq!(store.pass(vec![Command::Open { partition: handle, epoch: 5 }, append]), [Ok(30), Ok(30)]);
    let after = files.after_crash(Survival::Nothing);
    let (store, report) = open(&after, Durability::Fsync);
    assert!(!report.is_foreign, "it is ours now");
    assert_eq!((count(&store, 0), count(&store, 1)), (Ok(31), Ok(30)));
}

#[test]
fn partitions_without_a_topic_id_get_that_of_their_topic_when_a_directory_is_adopted() {
    let topic_ids = |store: &Store| store.partitions().iter().map(|info| info.topic_id).collect::<Vec<_>>();
    let metadata = |partition: i32| std::path::PathBuf::from(format!("{TOPIC}-{partition}/partition.metadata"));
    for lost in [&[0][..], &[0, 1]] {
        let files = kafkas();
        let (read, _) = open(&files, Durability::Fsync);
        let of_kafka = topic_ids(&read)[1];
        for partition in lost {
            files.remove(&metadata(*partition)).unwrap();
        }
        let adopting = StoreOptions { access: Access::Adopt, ..options(Durability::Fsync) };
        let (store, _) = open_as(&files, adopting).unwrap();
        let ids = topic_ids(&store);
        assert!(ids[0] == ids[1] && ids[0] != 0, "{ids:?}");
        assert_eq!(ids[0] == of_kafka, lost.len() == 1);
        drop(store);
        let after = files.after_crash(Survival::Nothing);
        let (store, _) = open(&after, Durability::Fsync);
        assert_eq!((topic_ids(&store), count(&store, 0), count(&store, 1)), (ids, Ok(30), Ok(30)));
        assert!(lost.iter().all(|partition| read_file(&after, &metadata(*partition)).unwrap().is_some()));
    }
}

#[test]
fn a_partition_whose_creation_a_crash_interrupted_is_removed_and_one_with_other_files_is_not() {
    let files = ForgetfulFiles::new(64);
    drop(filled(&files, Durability::Fsync, 5));
    for (dir, name) in [("begun-0", "partition.metadata"), ("backup-1", "notes.txt")] {
        files.create_dir(Path::new(dir)).unwrap();
        files.open(&Path::new(dir).join(name), FileAccess::Create).unwrap();
    }
    let (store, _) = open(&files, Durability::Fsync);
    assert_eq!(store.handle("begun", 0), None);
    assert!(files.list(Path::new("begun-0")).is_err() && files.list(Path::new("backup-1")).is_ok());
    let info = store.partitions().into_iter().find(|info| info.topic == "backup").unwrap();
    assert_eq!(info.topic_id, 0);
    drop(store);
    // A topic id that is restored later counts, too.
    let theirs = files.open(Path::new("backup-1/partition.metadata"), FileAccess::Create).unwrap();
    write_all_at(theirs.as_ref(), b"version: 0\ntopic_id: lBj3j9mkR5CSrYX6wOZ9pg", 0).unwrap();
    let (store, _) = open(&files, Durability::Fsync);
    let info = store.partitions().into_iter().find(|info| info.topic == "backup").unwrap();
    assert_eq!(info.topic_id >> 120, 0x94);
}

#[test]
fn whose_a_segment_is_is_durable_before_it_has_a_batch() {
    let files = ForgetfulFiles::new(64);
    drop(filled(&files, Durability::Os, 1));
    let root_durable = files.after_crash(Survival::Nothing);
    assert!(root_durable.list(Path::new(&format!("{TOPIC}-0"))).is_err(), "nothing else was synced");
    files.sync_dir(Path::new("")).unwrap();
    let after = files.after_crash(Survival::Nothing);
    let metadata = read_file(&after, Path::new(&format!("{TOPIC}-0/partition.metadata"))).unwrap().unwrap();
    assert!(String::from_utf8(metadata).unwrap().contains("topic_id: "));
}

#[test]
fn the_first_records_of_many_partitions_share_one_sync_and_a_checkpoint_syncs_their_topic_ids() {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = open(&files, Durability::Fsync);
    let create = |partition| Command::Create { topic: TOPIC.to_owned(), partition, topic_id: 9 };
    let created = store.pass((0..20).map(create).collect());
    let handles: Vec<_> = created.into_iter().map(|handle| PartitionHandle(handle.unwrap() as u32)).collect();
    store.pass(handles.iter().map(|partition| Command::Open { partition: *partition, epoch: 1 }).collect());
    let before = files.history().len();
    let append = |partition: &PartitionHandle| Command::Append { partition: *partition, epoch: 1, batch: batch(0) };
    assert_eq!(store.pass(handles.iter().map(append).collect()), vec![Ok(0); 20]);
    let history = files.history().split_off(before);
    let syncs = history.iter().filter(|(operation, _)| matches!(operation, Operation::Sync | Operation::SyncDir));
    assert_eq!(syncs.count(), 1, "{history:?}");
    store.checkpoint().unwrap();
    let after = files.after_crash(Survival::Nothing);
    for partition in 0..20 {
        let metadata = read_file(&after, Path::new(&format!("{TOPIC}-{partition}/partition.metadata"))).unwrap();
        assert!(String::from_utf8(metadata.unwrap()).unwrap().contains("topic_id: "));
    }
}

#[test]
fn segments_whose_topic_id_a_power_failure_takes_are_those_of_the_declared_topic() {
    let metadata = format!("{TOPIC}-0/partition.metadata");
    for (is_checkpointed, is_stored) in [(false, false), (false, true), (true, false), (true, true)] {
        let files = ForgetfulFiles::new(64);
        let mut store = filled(&files, Durability::Fsync, 0);
        if is_checkpointed {
            store.checkpoint().unwrap();
        }
        let partition = store.handle(TOPIC, 0).unwrap();
        let append = vec![Command::Append { partition, epoch: 1, batch: batch(0) }];
        assert_eq!(store.pass(append), [Ok(0)]);
        drop(store);
        let after = files.after_crash(Survival::Everything);
        after.damage(Path::new(&metadata), Vec::clear).unwrap();
        if !is_stored {
            let names = after.list(Path::new("")).unwrap().into_iter().map(|entry| entry.name);
            let wal = names.filter(|name| name.contains("wal")).max().unwrap();
            // The frame of the append, which is the last one.
            let at = read_file(&after, Path::new(&wal)).unwrap().unwrap();
            let at = at.windows(5).rposition(|bytes| bytes == b"value").unwrap();
            after.damage(Path::new(&wal), |bytes| bytes[at] ^= 1).unwrap();
        }
        let (mut store, report) = open(&after, Durability::Fsync);
        let place = format!("checkpointed: {is_checkpointed}, stored: {is_stored}");
        assert_eq!((report.damage.len(), count(&store, 0)), (0, Ok(usize::from(is_stored))), "{place}");
        assert!(store.partitions().iter().all(|info| info.topic_id == 9), "{place}");
        let partition = store.handle(TOPIC, 0).unwrap();
        let next =
            vec![Command::Open { partition, epoch: 2 }, Command::Append { partition, epoch: 2, batch: batch(1) }];
        assert!(store.pass(next).iter().all(Result::is_ok), "{place}");
        store.checkpoint().unwrap();
        let durable = read_file(&after.after_crash(Survival::Nothing), Path::new(&metadata)).unwrap().unwrap();
        assert!(String::from_utf8(durable).unwrap().contains("topic_id: "), "{place}");
    }
}

#[test]
fn a_directory_can_be_read_while_nothing_in_it_is_changed() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 5);
    store.checkpoint().unwrap();
    let before = files.operations();
    let reading = StoreOptions { access: Access::Read, ..options(Durability::Fsync) };
    let (mut reader, _) = open_as(&files, reading).unwrap();
    assert_eq!(count(&reader, 0), Ok(5));
    assert!(reader.next_task(0).is_none());
    assert_eq!(reader.checkpoint(), Err(LogError::ReadOnly));
    assert_eq!(files.operations(), before);
}

#[test]
fn a_compaction_that_a_crash_interrupted_leaves_the_newest_of_each_key_and_no_files() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 30);
    store.checkpoint().unwrap();
    let mut task = store.next_task(0).expect("everything is dirty");
    loop {
        let after = files.after_crash(Survival::Everything);
        let (recovered, _) = open(&after, Durability::Fsync);
        assert_eq!((count(&recovered, 0), count(&recovered, 1)), (Ok(30), Ok(30)), "every key is there once");
        let names = after.list(Path::new(&format!("{TOPIC}-0"))).unwrap();
        assert!(names.iter().all(|entry| !entry.name.ends_with("cleaned") && !entry.name.ends_with("swap")));
        if !task.step().unwrap() {
            break;
        }
    }
    store.finish(task, Ok(()));
    assert_eq!(store.compactions(), 1);
}

#[test]
fn an_append_for_which_there_is_no_space_fails_alone_and_the_next_one_goes_well() {
    // Of an append in one pass: the segment, more of the write-ahead file, its frame. The first two can be taken back.
    for behind in 0..2 {
        let files = ForgetfulFiles::new(64);
        let mut store = filled(&files, Durability::Fsync, 1);
        let partition = store.handle(TOPIC, 0).unwrap();
        let append = |n: u64, bytes: usize| {
            let mut writer = BatchWriter::default();
            writer.push(0, Some(n.to_string().as_bytes()), Some(&vec![7; bytes]));
            vec![Command::Append { partition, epoch: 1, batch: writer.finish().to_vec() }]
        };
        files.fail_at(files.operations() + behind, Fault::NoSpace(1));
        let refused = store.pass(append(1, 600));
        assert!(matches!(&refused[..], [Err(LogError::Storage { .. })]), "{behind}: {refused:?}");
        assert!(store.failing().is_some_and(|why| why.contains("free space")) && store.stopped().is_none());
        assert_eq!(store.pass(append(2, 5)), [Ok(1)]);
        assert_eq!(store.failing(), None, "it takes writes again");
        drop(store);
        let (store, _) = open(&files.after_crash(Survival::Nothing), Durability::Fsync);
        let records = store.view(partition).unwrap().read_records(1, 10).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].record.key, b"2");
    }
}

#[test]
fn a_partition_whose_append_cannot_be_taken_back_stays_failing_until_the_next_start() {
    let files = ForgetfulFiles::new(64);
    let mut store = filled(&files, Durability::Fsync, 1);
    let partition = store.handle(TOPIC, 0).unwrap();
    let append = |n| vec![Command::Append { partition, epoch: 1, batch: batch(n) }];
    // The write to the segment, and the truncation of what it left.
    files.fail_at(files.operations(), Fault::IoFor(2));
    let failed = store.pass(append(1));
    assert!(matches!(&failed[..], [Err(LogError::Stopped { .. })]), "{failed:?}");
    assert!(store.failing().is_some());
    let refused = store.pass(append(1));
    assert!(matches!(&refused[..], [Err(LogError::Stopped { .. })]), "{refused:?}");
    store.probe();
    assert!(store.failing().is_some_and(|why| why.contains("could not be taken back")), "{:?}", store.failing());
    assert_eq!(count(&store, 0), Ok(1), "it can be read");
    drop(store);
    let (store, _) = open(&files, Durability::Fsync);
    assert_eq!((store.failing(), count(&store, 0)), (None, Ok(1)));
}

/// All files but the lock.
fn all_files(files: &ForgetfulFiles) -> Vec<std::path::PathBuf> {
    let mut paths = Vec::new();
    for entry in files.list(Path::new("")).unwrap() {
        if entry.is_dir {
            let inside = files.list(Path::new(&entry.name)).unwrap();
            paths.extend(inside.into_iter().map(|file| Path::new(&entry.name).join(file.name)));
        } else if entry.name != ".lock" {
            paths.push(entry.name.into());
        }
    }
    paths
}

#[test]
fn a_byte_that_changed_anywhere_is_never_taken_for_a_record_and_never_ends_in_a_panic() {
    let (mut refused, mut served, mut directories) = (0, 0, 0);
    for durability in [Durability::Fsync, Durability::Os] {
        let origin = ForgetfulFiles::new(64);
        let mut store = filled(&origin, durability, 20);
        store.checkpoint().unwrap();
        let handle = store.handle(TOPIC, 1).unwrap();
        store.pass(vec![Command::Append { partition: handle, epoch: 1, batch: batch(20) }]).remove(0).unwrap();
        for path in all_files(&origin) {
            let size = read_file(&origin, &path).unwrap().unwrap().len();
            for at in (0..size.min(1_500)).step_by(3) {
                let files = origin.after_crash(Survival::Everything);
                files.damage(&path, |bytes| bytes[at] ^= 0x81).unwrap();
                let Ok((store, _)) = open_as(&files, options(durability)) else {
                    directories += 1;
                    continue;
                };
                for info in store.partitions() {
                    match info.view.read_records(0, usize::MAX) {
                        Err(_) => refused += 1,
                        Ok(records) => {
                            served += 1;
                            for (n, stored) in records.iter().enumerate() {
                                assert_eq!(stored.record.key, format!("key {n}").into_bytes(), "{path:?} {at}");
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 100 && served > 100 && directories > 100, "{refused} {served} {directories}");
}

#[test]
fn a_start_after_a_run_that_did_not_sync_begins_a_new_epoch_durably() {
    let opened = |files: &ForgetfulFiles| {
        let options = StoreOptions { raises_epochs: true, compacted_topics: Vec::new(), ..options(Durability::Os) };
        open_as(files, options).unwrap().0
    };
    let epochs = |store: &Store| store.partitions().remove(0).epochs;
    let appended = |store: &mut Store, epoch, count| {
        let partition = store.handle(TOPIC, 0).unwrap();
        store.pass(vec![Command::Open { partition, epoch }]).remove(0).unwrap();
        for n in 0..count {
            store.pass(vec![Command::Append { partition, epoch, batch: batch(n) }]).remove(0).unwrap();
        }
    };
    let files = ForgetfulFiles::new(64);
    let mut store = opened(&files);
    store.pass(vec![Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 9 }]).remove(0).unwrap();
    appended(&mut store, 0, 5);
    store.checkpoint().unwrap();
    appended(&mut store, 0, 5);
    let files = files.after_crash(Survival::Nothing);
    let mut store = opened(&files);
    assert_eq!(epochs(&store), [(0, 0), (1, 5)]);
    appended(&mut store, 1, 3);
    let files = files.after_crash(Survival::Nothing);
    assert_eq!(epochs(&opened(&files)), [(0, 0), (2, 5)], "what was read in epoch 1 is gone");
    let files = files.after_crash(Survival::Nothing);
    assert_eq!(epochs(&opened(&files)), [(0, 0), (3, 5)]);
    // After the end of a process the records are there.
    let files = files.after_crash(Survival::Nothing);
    appended(&mut opened(&files), 4, 2);
    let files = files.after_crash(Survival::Everything);
    assert_eq!(epochs(&opened(&files)), [(0, 0), (4, 5), (5, 7)]);
}

/// Drops all records of partition 0, and appends one more.
fn drop_all(store: &mut Store, end_offset: i64) {
    let partition = store.handle(TOPIC, 0).unwrap();
    let roll = Command::Roll { partition, end_offset };
    let _may_fail = store.pass(vec![roll.clone(), roll]);
    while let Some(mut task) = store.next_task(0) {
        let done = task.run();
        store.finish(task, done);
    }
    let trim = Command::Trim { partition, limit_bytes: u64::MAX, below: end_offset };
    let append = Command::Append { partition, epoch: 1, batch: batch(9) };
    let _may_fail = (store.pass(vec![trim]), store.pass(vec![append]));
}

#[test]
fn a_crash_while_all_records_of_a_partition_go_leaves_no_damage() {
    let power_failures = [Survival::Nothing, Survival::Some(1), Survival::Some(2)];
    let cases = power_failures.map(|survival| (Durability::Fsync, survival)).into_iter();
    let ends = [Durability::Fsync, Durability::Os].map(|durability| (durability, Survival::Everything));
    for (durability, survival) in cases.chain(ends) {
        for at in 0.. {
            let files = ForgetfulFiles::new(64);
            let mut store = filled(&files, durability, 5);
            files.fail_at(files.operations() + at, Fault::Crash);
            drop_all(&mut store, 5);
            let (store, report) = open(&files.after_crash(survival), durability);
            assert_eq!(report.damage, [], "{durability:?} {survival:?} {at}");
            let view = store.view(store.handle(TOPIC, 0).unwrap()).unwrap();
            let (first, next) = (view.first_offset(), view.next_offset());
            assert!(
                [0, 5].contains(&first) && [5, 6].contains(&next),
                "{durability:?} {survival:?} {at}: {first} {next}"
            );
            if !files.has_crashed() {
                // What was removed may be there again after a power failure.
                assert!((first, next) == (5, 6) || survival != Survival::Everything, "{first} {next}");
                break;
            }
        }
    }
}
