//! Deletions of partitions that are damaged, or whose writes fail, and what takes their names.

use std::{path::Path, sync::Arc};

use rota_log::{
    BatchWriter, LogError,
    files::{Fault, Files, ForgetfulFiles, Survival},
    store::{Command, Durability, Outcome, PartitionHandle, Report, SideFile, Store, StoreOptions},
};

const TOPIC: &str = "orders";
const FORMER: u128 = 9;
const LATER: u128 = 10;

fn open(files: &ForgetfulFiles, durability: Durability) -> (Store, Report) {
    let options = StoreOptions { durability, wal_reserve_bytes: 512, ..StoreOptions::default() };
    Store::open(Arc::new(files.clone()), Path::new(""), options).unwrap()
}

fn batch(value: &[u8]) -> Vec<u8> {
    let mut writer = BatchWriter::default();
    writer.push(1_000, Some(b"key"), Some(value));
    writer.finish().to_vec()
}

fn create(partition: i32, topic_id: u128) -> Command {
    Command::Create { topic: TOPIC.to_owned(), partition, topic_id }
}

fn append(partition: PartitionHandle) -> Command {
    Command::Append { partition, epoch: 1, batch: batch(b"value") }
}

/// Creates a partition with so many records.
fn fill(store: &mut Store, partition: i32, topic_id: u128, records: usize) -> PartitionHandle {
    let handle = PartitionHandle(store.pass(vec![create(partition, topic_id)]).remove(0).unwrap() as u32);
    assert_eq!(store.pass(vec![Command::Open { partition: handle, epoch: 1 }]), [Ok(0)]);
    (0..records).for_each(|n| assert_eq!(store.pass(vec![append(handle)]), [Ok(n as i64)]));
    handle
}

/// Deletes a partition in a pass whose write fails for lack of space, because of a large batch of another one.
fn fail_to_delete(files: &ForgetfulFiles, store: &mut Store, partition: PartitionHandle, other: PartitionHandle) {
    let large = Command::Append { partition: other, epoch: 1, batch: batch(&[7; 2_000]) };
    // After the write to the segment: the one that makes the write-ahead file longer.
    files.fail_at(files.operations() + 1, Fault::NoSpace(1));
    let outcomes = store.pass(vec![Command::Delete { partition }, large]);
    assert!(outcomes.iter().all(is_refused), "{outcomes:?}");
}

/// Topic ids and numbers of records.
fn found(store: &Store) -> Vec<(i32, u128, Result<usize, LogError>)> {
    let records = |view: &rota_log::store::PartitionView| view.read_records(0, usize::MAX).map(|records| records.len());
    store.partitions().into_iter().map(|info| (info.partition, info.topic_id, records(&info.view))).collect()
}

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(LogError::Storage { .. } | LogError::Stopped { .. }))
}

#[test]
fn a_damaged_partition_can_be_deleted_and_its_name_used_again() {
    for durability in [Durability::Fsync, Durability::Os] {
        let files = ForgetfulFiles::new(64);
        let (mut store, _) = open(&files, durability);
        fill(&mut store, 0, FORMER, 5);
        store.checkpoint().unwrap();
        drop(store);
        let segment = format!("{TOPIC}-0/00000000000000000000.log");
        files.damage(Path::new(&segment), |bytes| bytes.truncate(10)).unwrap();
        let (mut store, report) = open(&files, durability);
        assert_eq!(report.damage.len(), 1);
        let partition = store.handle(TOPIC, 0).unwrap();
        let outcomes = store.pass(vec![append(partition), Command::Delete { partition }, append(partition)]);
        assert!(matches!(&outcomes[0], Err(LogError::Damaged(_))), "{outcomes:?}");
        assert_eq!(outcomes[1..], [Ok(0), Err(LogError::UnknownPartition { partition: 0 })]);
        assert!(files.list(Path::new(&format!("{TOPIC}-0"))).is_err());
        let deleted = files.after_crash(Survival::Everything);
        let (again, report) = open(&deleted, durability);
        assert_eq!((found(&again), report.damage.len()), (vec![], 0));
        fill(&mut store, 0, LATER, 2);
        drop(store);
        let (store, report) = open(&files.after_crash(Survival::Everything), durability);
        assert_eq!((found(&store), report.damage.len()), (vec![(0, LATER, Ok(2))], 0));
    }
}

#[test]
fn a_deletion_goes_well_though_an_append_before_it_fails() {
    // With the second fault the append cannot be taken back either.
    for fault in [Fault::NoSpace(1), Fault::Io, Fault::IoFor(2)] {
        for durability in [Durability::Fsync, Durability::Os] {
            let files = ForgetfulFiles::new(64);
            let (mut store, _) = open(&files, durability);
            let partition = fill(&mut store, 0, FORMER, 3);
            fill(&mut store, 1, FORMER, 1);
            files.fail_at(files.operations(), fault);
            let snapshot = SideFile::Snapshot(4, vec![1]);
            let outcomes = store.pass(vec![
                append(partition),
                Command::WriteBeside { partition, files: vec![snapshot] },
                Command::Delete { partition },
                append(partition),
            ]);
            assert!(is_refused(&outcomes[0]) && is_refused(&outcomes[1]), "{fault:?}: {outcomes:?}");
            assert_eq!(outcomes[2..], [Ok(0), Err(LogError::UnknownPartition { partition: 0 })], "{fault:?}");
            assert_eq!((store.failing(), store.stopped()), (None, None));
            fill(&mut store, 0, LATER, 2);
            let expected = vec![(0, LATER, Ok(2)), (1, FORMER, Ok(1))];
            let mut survivals = vec![Survival::Everything];
            if durability == Durability::Fsync {
                survivals.extend([Survival::Nothing, Survival::Some(1)]);
            }
            drop(store);
            for survival in survivals {
                let (store, report) = open(&files.after_crash(survival), durability);
                let mut found = found(&store);
                found.sort_by_key(|(partition, ..)| *partition);
                assert_eq!((found, report.damage.len()), (expected.clone(), 0), "{fault:?} {survival:?}");
            }
        }
    }
}

#[test]
fn a_file_beside_a_failed_append_is_not_written() {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = open(&files, Durability::Fsync);
    let partition = fill(&mut store, 0, FORMER, 1);
    files.fail_at(files.operations(), Fault::Io);
    let snapshot = SideFile::Snapshot(2, vec![1]);
    let outcomes = store.pass(vec![append(partition), Command::WriteBeside { partition, files: vec![snapshot] }]);
    assert!(outcomes.iter().all(is_refused), "{outcomes:?}");
    let names = files.list(Path::new(&format!("{TOPIC}-0"))).unwrap();
    assert!(names.iter().all(|entry| !entry.name.ends_with("snapshot")), "{names:?}");
}

#[test]
fn a_partition_whose_deletion_failed_gives_its_name_to_another_topic_and_no_other_partition_does() {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = open(&files, Durability::Fsync);
    let partition = fill(&mut store, 0, FORMER, 3);
    let other = fill(&mut store, 1, FORMER, 1);
    let taken = store.pass(vec![create(0, LATER)]);
    assert_eq!(taken, [Err(LogError::UnknownPartition { partition: 0 })], "it was not to be deleted");
    fail_to_delete(&files, &mut store, partition, other);
    assert_eq!(found(&store), [(0, FORMER, Ok(3)), (1, FORMER, Ok(1))]);
    let outcomes = store.pass(vec![append(partition), create(0, LATER), append(other), create(2, LATER)]);
    assert_eq!(outcomes[0], Ok(3), "until then it is the former one");
    let created = PartitionHandle(outcomes[1].clone().unwrap() as u32);
    assert_eq!((&outcomes[2], store.handle(TOPIC, 0)), (&Ok(1), Some(created)));
    assert_eq!(store.pass(vec![append(partition)]), [Err(LogError::UnknownPartition { partition: 0 })]);
    assert_eq!(store.pass(vec![Command::Open { partition: created, epoch: 1 }, append(created)]), [Ok(0), Ok(0)]);
    drop(store);
    for survival in [Survival::Nothing, Survival::Everything] {
        let mut found = found(&open(&files.after_crash(survival), Durability::Fsync).0);
        found.sort_by_key(|(partition, ..)| *partition);
        assert_eq!(found, [(0, LATER, Ok(1)), (1, FORMER, Ok(2)), (2, LATER, Ok(0))], "{survival:?}");
    }
}

#[test]
fn a_former_partition_that_still_cannot_be_deleted_keeps_its_name_and_its_messages() {
    let files = ForgetfulFiles::new(64);
    let (mut store, _) = open(&files, Durability::Fsync);
    let partition = fill(&mut store, 0, FORMER, 3);
    let other = fill(&mut store, 1, FORMER, 1);
    fail_to_delete(&files, &mut store, partition, other);
    files.fail_at(files.operations(), Fault::Io);
    let outcomes = store.pass(vec![create(0, LATER)]);
    assert!(matches!(&outcomes[..], [Err(LogError::Stopped { .. })]), "{outcomes:?}");
    drop(store);
    let (store, _) = open(&files.after_crash(Survival::Nothing), Durability::Fsync);
    assert_eq!(found(&store), [(0, FORMER, Ok(3)), (1, FORMER, Ok(1))]);
}
