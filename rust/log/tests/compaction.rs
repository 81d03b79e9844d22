//! Compaction of a partition: what stays, also after a failure, and that it ends.

use std::{path::Path, sync::Arc};

use rota_log::{
    BatchWriter,
    files::{Fault, Files, ForgetfulFiles, Operation},
    store::{Command, Durability, PartitionHandle, Store, StoreOptions},
};

const TOPIC: &str = "__consumer_offsets";

fn options() -> StoreOptions {
    StoreOptions {
        durability: Durability::Fsync,
        segment_bytes: 500,
        wal_reserve_bytes: 512,
        cleanable_percent_min: 1,
        ..StoreOptions::default()
    }
}

fn open(files: &ForgetfulFiles, options: StoreOptions) -> Store {
    Store::open(Arc::new(files.clone()), Path::new(""), options).unwrap().0
}

fn created(store: &mut Store) -> PartitionHandle {
    let create = Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 9 };
    let handle = PartitionHandle(store.pass(vec![create]).remove(0).unwrap() as u32);
    store.pass(vec![Command::Open { partition: handle, epoch: 1 }]).remove(0).unwrap();
    handle
}

/// Appends a batch of one record, whose value is `round`. Returns its offset.
fn append(store: &mut Store, partition: PartitionHandle, key: usize, round: usize) -> i64 {
    let mut writer = BatchWriter::default();
    let value = round.to_string();
    writer.push(1_000, Some(format!("key {key}").as_bytes()), Some(value.as_bytes()));
    store.pass(vec![Command::Append { partition, epoch: 1, batch: writer.finish().to_vec() }]).remove(0).unwrap()
}

/// The records, each with its offset, key and value.
fn records(store: &Store) -> Vec<(i64, String, String)> {
    let view = store.view(store.handle(TOPIC, 0).unwrap()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let stored = view.read_records(0, usize::MAX).unwrap();
    stored.iter().map(|at| (at.offset, text(&at.record.key), text(at.record.value.as_deref().unwrap()))).collect()
}

/// Runs tasks until none is due. Returns their number and the number of those that failed.
fn run_tasks(store: &mut Store, tasks_max: usize) -> (usize, usize) {
    let (mut tasks, mut failed) = (0, 0);
    while let Some(mut task) = store.next_task(0) {
        tasks += 1;
        assert!(tasks <= tasks_max, "compaction does not end");
        let done = task.run();
        failed += usize::from(done.is_err());
        store.finish(task, done);
    }
    (tasks, failed)
}

/// Six keys in each of two segments, then those of the first segment again, and others.
fn written(files: &ForgetfulFiles, options: StoreOptions) -> (Store, PartitionHandle) {
    let mut store = open(files, options);
    let handle = created(&mut store);
    (0..12).for_each(|key| assert!(append(&mut store, handle, key, 0) >= 0));
    (0..6).for_each(|key| assert!(append(&mut store, handle, key, 1) >= 0));
    (12..20).for_each(|key| assert!(append(&mut store, handle, key, 1) >= 0));
    store.checkpoint().unwrap();
    (store, handle)
}

#[test]
fn a_compaction_that_fails_while_it_renames_files_makes_no_later_one_wrong() {
    // Where in the swaps of all groups the directory cannot be synced.
    let mut failures = 0;
    for nth in 0.. {
        let files = ForgetfulFiles::new(64);
        let (mut store, handle) = written(&files, options());
        let before = files.operations();
        let copy = ForgetfulFiles::new(64);
        let (mut trial, _) = written(&copy, options());
        run_tasks(&mut trial, 10);
        let history = copy.history();
        let syncs = (before..).zip(&history[before as usize..]);
        let mut syncs = syncs.filter(|(_, (operation, name))| *operation == Operation::SyncDir && !name.is_empty());
        let Some((at, _)) = syncs.nth(nth) else { break };
        files.fail_at(at, Fault::Io);
        assert_eq!(run_tasks(&mut store, 10).1, 1, "{nth}");
        failures += 1;
        // Nothing of the first segment is left, so the next compaction would join it with the second one.
        let is_kept = |key: usize| (6..9).contains(&key);
        for key in (0..20).filter(|key| !is_kept(*key)) {
            append(&mut store, handle, key, 2);
        }
        store.checkpoint().unwrap();
        run_tasks(&mut store, 10);
        let newest = |records: &[(i64, String, String)]| {
            let find = |key: usize| records.iter().rfind(|(_, found, _)| *found == format!("key {key}")).cloned();
            (0..20).map(|key| find(key).unwrap()).collect::<Vec<_>>()
        };
        let there = records(&store);
        let values = newest(&there).into_iter().map(|(.., value)| value);
        assert!(values.eq((0..20).map(|key| if is_kept(key) { "0" } else { "2" })), "{nth}: {there:?}");
        drop(store);
        let store = open(&files, options());
        let after = records(&store);
        assert_eq!(newest(&after), newest(&there), "{nth}");
        assert!(after.windows(2).all(|pair| pair[0].0 < pair[1].0), "{nth}: {after:?}");
        assert!(files.list(Path::new(&format!("{TOPIC}-0"))).unwrap().iter().all(|at| !at.name.ends_with("swap")));
    }
    assert!(failures >= 6, "two groups at least: {failures}");
}

#[test]
fn more_keys_than_a_compaction_remembers_are_compacted_by_several_that_end() {
    for compaction_keys_max in [1, 5, 10] {
        let files = ForgetfulFiles::new(64);
        let options = || StoreOptions { compaction_keys_max, ..options() };
        let mut store = open(&files, options());
        let partition = created(&mut store);
        for round in 0..6 {
            for key in 0..20 {
                append(&mut store, partition, key, round);
            }
            store.checkpoint().unwrap();
            let (tasks, failed) = run_tasks(&mut store, 40);
            assert!(tasks > 1 && failed == 0, "{tasks}, {failed}");
            let there = records(&store);
            // Besides the newest segment, every key is there once.
            let active = store.view(partition).unwrap().segments().last().unwrap().base_offset;
            let mut keys: Vec<&String> = there.iter().filter(|at| at.0 < active).map(|(_, key, _)| key).collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{compaction_keys_max} {round}: {there:?}");
            for key in 0..20 {
                let newest = there.iter().rfind(|(_, found, _)| *found == format!("key {key}"));
                assert_eq!(newest.map(|at| at.2.clone()), Some(round.to_string()), "{compaction_keys_max}: {key}");
            }
            if round == 3 {
                drop(store);
                store = open(&files, options());
                store.pass(vec![Command::Open { partition, epoch: 1 }]).remove(0).unwrap();
                assert_eq!(records(&store), there, "a start changes nothing");
            }
        }
    }
}
