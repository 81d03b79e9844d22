//! Mending a directory: what `rota log recover` and `rota log repair` keep and give up.

use std::{path::Path, sync::Arc};

use rota_log::{
    BatchWriter,
    files::{Fault, Files, ForgetfulFiles, Survival, read_file},
    store::{
        Command, Durability, Loss, OpenError, PartitionHandle, Repaired, Report, Store, StoreOptions, recover, repair,
    },
};

const TOPIC: &str = "__consumer_offsets";
const RECORDS: i64 = 20;

fn options(durability: Durability) -> StoreOptions {
    StoreOptions { durability, segment_bytes: 500, wal_reserve_bytes: 512, ..StoreOptions::default() }
}

fn shared(files: &ForgetfulFiles) -> Arc<dyn Files> {
    Arc::new(files.clone())
}

fn open(files: &ForgetfulFiles, durability: Durability) -> Result<(Store, Report), OpenError> {
    Store::open(shared(files), Path::new(""), options(durability))
}

fn recovered(files: &ForgetfulFiles, give_up: bool) -> Result<Report, OpenError> {
    recover(&shared(files), Path::new(""), give_up)
}

fn repaired(files: &ForgetfulFiles) -> Vec<Repaired> {
    repair(&shared(files), Path::new("")).unwrap().1
}

fn key(offset: i64) -> Vec<u8> {
    format!("key {offset}").into_bytes()
}

fn batch(offset: i64) -> Vec<u8> {
    let mut writer = BatchWriter::default();
    writer.push(1_000, Some(&key(offset)), Some(b"value"));
    writer.finish().to_vec()
}

fn append(store: &mut Store, partition: i32, offset: i64) {
    let handle = store.handle(TOPIC, partition).unwrap();
    let append = Command::Append { partition: handle, epoch: 1, batch: batch(offset) };
    assert_eq!(store.pass(vec![append]), [Ok(offset)]);
}

/// Two partitions of several segments; the last `behind` records of each were written after the checkpoint.
fn written(durability: Durability, behind: i64) -> ForgetfulFiles {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = open(&files, durability).unwrap();
    for partition in 0..2 {
        let create = Command::Create { topic: TOPIC.to_owned(), partition, topic_id: 9 };
        let handle = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
        store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
        (0..RECORDS - behind).for_each(|offset| append(&mut store, partition, offset));
    }
    store.checkpoint().unwrap();
    (0..2).for_each(|partition| (RECORDS - behind..RECORDS).for_each(|offset| append(&mut store, partition, offset)));
    drop(store);
    files.after_crash(Survival::Everything)
}

fn is_segment(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "log")
}

/// The segments of partition 0, oldest first, and their bytes.
fn segments(files: &ForgetfulFiles) -> Vec<(String, usize)> {
    let dir = format!("{TOPIC}-0");
    let names = files.list(Path::new(&dir)).unwrap().into_iter().map(|entry| format!("{dir}/{}", entry.name));
    let logs = names.filter(|name| is_segment(name));
    logs.map(|name| (name.clone(), read_file(files, Path::new(&name)).unwrap().unwrap().len())).collect()
}

fn offsets(files: &ForgetfulFiles, durability: Durability, partition: i32) -> Vec<i64> {
    let (store, report) = open(files, durability).unwrap();
    assert_eq!(report.damage, []);
    let view = store.view(store.handle(TOPIC, partition).unwrap()).unwrap();
    let records = view.read_records(0, usize::MAX).unwrap();
    assert!(records.iter().all(|stored| stored.record.key == key(stored.offset)), "every record is at its offset");
    records.iter().map(|stored| stored.offset).collect()
}

fn without(lost: &[i64]) -> Vec<i64> {
    (0..RECORDS).filter(|offset| !lost.contains(offset)).collect()
}

#[test]
fn a_repair_gives_up_the_batch_that_cannot_be_read_and_keeps_all_others_in_their_places() {
    for durability in [Durability::Fsync, Durability::Os] {
        let files = written(durability, 0);
        let (path, size) = segments(&files).swap_remove(0);
        let batch_bytes = batch(2).len();
        files.damage(Path::new(&path), |bytes| bytes[2 * batch_bytes + 70] ^= 1).unwrap();
        let [found] = &repaired(&files)[..] else { panic!("one partition is damaged") };
        let Loss { file, position, bytes, from_offset, to_offset, reason } = &found.losses[0];
        assert_eq!((file.to_str(), found.losses.len()), (Some(&*path), 1));
        assert_eq!((*position, *bytes), (2 * batch_bytes as u64, batch_bytes as u64));
        assert_eq!((*from_offset, *to_offset), (2, 3));
        assert!(reason.contains("checksum"), "{reason}");
        let kept = read_file(&files, &found.kept[0]).unwrap().unwrap();
        assert_eq!(kept.len(), size, "what was there is kept");
        assert_eq!(offsets(&files, durability, 0), without(&[2]));
        assert_eq!(offsets(&files, durability, 1), without(&[]));
        assert_eq!(repaired(&files), [], "there is nothing left to repair");
    }
}

#[test]
fn an_offset_that_was_given_is_not_given_again_though_its_record_is_lost() {
    let files = written(Durability::Fsync, 0);
    let (path, _) = segments(&files).pop().unwrap();
    files.damage(Path::new(&path), |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap();
    let found = repaired(&files);
    assert_eq!((found[0].losses[0].from_offset, found[0].losses[0].to_offset), (RECORDS - 1, RECORDS));
    let (mut store, _) = open(&files, Durability::Fsync).unwrap();
    let handle = store.handle(TOPIC, 0).unwrap();
    store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
    append(&mut store, 0, RECORDS);
    drop(store);
    let there = offsets(&files, Durability::Fsync, 0);
    assert_eq!((there.len() as i64, there.last()), (RECORDS, Some(&RECORDS)));
}

#[test]
fn what_a_refused_partition_was_told_after_the_checkpoint_comes_from_the_write_ahead_file() {
    let files = written(Durability::Fsync, 7);
    let (path, _) = segments(&files).swap_remove(2);
    files.damage(Path::new(&path), |bytes| bytes.truncate(10)).unwrap();
    let (store, report) = open(&files, Durability::Fsync).unwrap();
    assert_eq!((report.damage.len(), report.kept.len()), (1, 1));
    drop(store);
    let found = repaired(&files);
    let lost: Vec<i64> = (found[0].losses[0].from_offset..found[0].losses[0].to_offset).collect();
    assert_eq!(found[0].completed_batches, 7);
    assert!(!lost.is_empty() && lost.iter().all(|offset| *offset < RECORDS - 7), "{lost:?}");
    assert_eq!(offsets(&files, Durability::Fsync, 0), without(&lost));
}

#[test]
fn a_batch_whose_offset_changed_is_the_one_that_is_given_up() {
    for (at, wrong) in [(3, 0_u8), (3, 77), (1, 3)] {
        let files = written(Durability::Fsync, 0);
        let (path, _) = segments(&files).swap_remove(0);
        files.damage(Path::new(&path), |bytes| bytes[at * batch(2).len() + 7] = wrong).unwrap();
        let found = repaired(&files);
        assert_eq!(found[0].losses.len(), 1, "{at} {wrong}: {found:?}");
        assert_eq!(offsets(&files, Durability::Fsync, 0), without(&[at as i64]), "{at} {wrong}");
    }
}

#[test]
fn a_whole_batch_that_goes_back_is_no_torn_tail() {
    let files = written(Durability::Os, 2);
    let (path, _) = segments(&files).pop().unwrap();
    files.damage(Path::new(&path), |bytes| bytes[7] = 147).unwrap();
    assert_eq!(open(&files, Durability::Os).unwrap().1.damage.len(), 1);
    assert_eq!(repaired(&files).len(), 1);
    assert_eq!(offsets(&files, Durability::Os, 0), without(&[RECORDS - 2]));
}

#[test]
fn a_repair_that_is_interrupted_anywhere_is_finished_by_the_next_one() {
    let mut tried = 0;
    for at in 0.. {
        let files = written(Durability::Fsync, 3);
        let (path, _) = segments(&files).swap_remove(0);
        files.damage(Path::new(&path), |bytes| bytes[2 * batch(2).len() + 70] ^= 1).unwrap();
        files.fail_at(files.operations() + at, Fault::Crash);
        let done = repair(&shared(&files), Path::new(""));
        if !files.has_crashed() {
            assert_eq!(done.unwrap().1.len(), 1);
            break;
        }
        for survival in [Survival::Nothing, Survival::Everything, Survival::Some(at)] {
            let after = files.after_crash(survival);
            repaired(&after);
            assert_eq!(offsets(&after, Durability::Fsync, 0), without(&[2]), "{at}, {survival:?}");
            assert_eq!(offsets(&after, Durability::Fsync, 1), without(&[]), "{at}, {survival:?}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

fn shared_file(files: &ForgetfulFiles, part: &str) -> String {
    files.list(Path::new("")).unwrap().into_iter().rfind(|entry| entry.name.contains(part)).unwrap().name
}

#[test]
fn a_recovery_gives_up_shared_files_only_when_it_is_told_to_and_then_has_what_the_segments_have() {
    for (part, at) in [
        ("rota.checkpoint", Some(30)),
        ("rota.checkpoint", None),
        ("rota.wal", Some(20)),
        ("rota.wal", Some(100)),
        ("rota.wal", None),
    ] {
        let files = written(Durability::Fsync, 6);
        let name = shared_file(&files, part);
        match at {
            Some(at) => files.damage(Path::new(&name), |bytes| bytes[at] ^= 1).unwrap(),
            None => files.remove(Path::new(&name)).unwrap(),
        }
        let before = files.operations();
        let error = recovered(&files, false).unwrap_err();
        assert!(error.to_string().contains(&name) && error.to_string().contains("--give-up"), "{error}");
        assert_eq!(files.operations(), before, "nothing was changed");
        let report = recovered(&files, true).unwrap();
        assert!(report.given_up[0].contains(&name), "{report:?}");
        for partition in 0..2 {
            assert_eq!(offsets(&files, Durability::Fsync, partition), without(&[]), "{part} {at:?}");
        }
        assert_eq!(recovered(&files, true).unwrap().given_up, Vec::<String>::new());
    }
}

#[test]
fn a_recovery_that_gives_up_the_checkpoint_keeps_segments_whose_topic_id_only_the_write_ahead_file_has() {
    let files = written(Durability::Fsync, 6);
    files.remove(Path::new("rota.checkpoint")).unwrap();
    files.remove(Path::new(&format!("{TOPIC}-0/partition.metadata"))).unwrap();
    recovered(&files, true).unwrap();
    let (store, _) = open(&files, Durability::Fsync).unwrap();
    assert_eq!(store.partitions().iter().map(|info| info.topic_id).collect::<Vec<_>>(), [9, 9]);
    drop(store);
    assert_eq!(offsets(&files, Durability::Fsync, 0), without(&[]));
}

#[test]
fn a_recovery_that_gives_up_a_write_ahead_file_writes_the_topic_ids_that_only_the_checkpoint_has() {
    let files = written(Durability::Fsync, 6);
    let wal = shared_file(&files, "rota.wal");
    files.damage(Path::new(&wal), |bytes| bytes[20] ^= 1).unwrap();
    files.damage(Path::new(&format!("{TOPIC}-0/partition.metadata")), Vec::clear).unwrap();
    recovered(&files, true).unwrap();
    let after = files.after_crash(Survival::Nothing);
    after.remove(Path::new("rota.checkpoint")).unwrap();
    recovered(&after, true).unwrap();
    let (store, _) = open(&after, Durability::Fsync).unwrap();
    assert_eq!(store.partitions().iter().map(|info| info.topic_id).collect::<Vec<_>>(), [9, 9]);
}

/// Damages the frame of the write-ahead file that has this record, of partition 0.
fn damage_frame(files: &ForgetfulFiles, offset: i64) {
    let (wal, key) = (shared_file(files, "rota.wal"), key(offset));
    let there = read_file(files, Path::new(&wal)).unwrap().unwrap();
    let at = there.windows(key.len()).position(|bytes| bytes == key).unwrap();
    files.damage(Path::new(&wal), |bytes| bytes[at] ^= 1).unwrap();
}

#[test]
fn without_segments_a_recovery_has_what_is_left_of_the_write_ahead_file() {
    let files = written(Durability::Fsync, 6);
    let after = files.after_crash(Survival::Nothing);
    damage_frame(&after, RECORDS - 4);
    let report = recovered(&after, true).unwrap();
    assert_eq!(report.damage.len(), 1, "records are missing in between: {report:?}");
    let found = repaired(&after);
    let lost: Vec<i64> = (found[0].losses[0].from_offset..found[0].losses[0].to_offset).collect();
    assert_eq!(lost, [RECORDS - 4], "{found:?}");
    assert_eq!(offsets(&after, Durability::Fsync, 0), without(&lost));
    assert_eq!(offsets(&after, Durability::Fsync, 1), without(&[]));
}

#[test]
fn frames_of_a_partition_that_nothing_names_any_more_are_counted() {
    let files = written(Durability::Fsync, 6);
    let after = files.after_crash(Survival::Nothing);
    // It is declared in the frame of its first record.
    damage_frame(&after, RECORDS - 6);
    let report = recovered(&after, true).unwrap();
    assert_eq!((report.given_up.len(), report.completed_batches), (2, 6), "{report:?}");
    assert!(report.given_up[1].contains("5 batches"), "{report:?}");
    assert_eq!(offsets(&after, Durability::Fsync, 0), (0..RECORDS - 6).collect::<Vec<_>>());
}

#[test]
fn only_directories_of_ours_are_mended() {
    let files = ForgetfulFiles::new(64);
    assert!(matches!(recovered(&files, true), Err(OpenError::NoData { .. })));
    let meta = files.open(Path::new("meta.properties"), rota_log::files::Access::Create).unwrap();
    meta.write_at(b"version=1\n", 0).unwrap();
    let before = files.operations();
    assert!(matches!(recovered(&files, true), Err(OpenError::Foreign { .. })));
    assert!(matches!(repair(&shared(&files), Path::new("")), Err(OpenError::Foreign { .. })));
    assert_eq!(files.operations(), before);
}

#[test]
fn after_a_byte_changed_anywhere_a_directory_can_be_mended_and_no_more_is_lost_than_what_had_it() {
    let mut mended = 0;
    // Without a sync it is unknown how far the log went: a last offset that is too large looks like any other.
    for (durability, behind) in [(Durability::Fsync, 2), (Durability::Os, 0)] {
        let origin = written(durability, behind);
        let dir = format!("{TOPIC}-0");
        let inside = origin.list(Path::new(&dir)).unwrap().into_iter().map(|entry| format!("{dir}/{}", entry.name));
        let shared = origin.list(Path::new("")).unwrap().into_iter().map(|entry| entry.name);
        let logs = inside.filter(|name| is_segment(name));
        for path in logs.chain(shared.filter(|name| name.starts_with("rota."))) {
            let size = read_file(&origin, Path::new(&path)).unwrap().unwrap().len();
            for at in (0..size.min(1_500)).step_by(11) {
                let files = origin.after_crash(Survival::Everything);
                files.damage(Path::new(&path), |bytes| bytes[at] ^= 0x81).unwrap();
                let report = recovered(&files, true).unwrap_or_else(|error| panic!("{path} {at}: {error}"));
                let found = repaired(&files);
                mended += found.len();
                let lost: usize = (0..2).map(|n| RECORDS as usize - offsets(&files, durability, n).len()).sum();
                // A last batch or frame that is wrong is taken for one that was being written.
                assert!(lost <= 1, "{durability:?} {path} {at}: {lost} lost, {report:?}, {found:?}");
            }
        }
    }
    assert!(mended > 100, "{mended}");
}
