//! The store on a file system that forgets: every fault at every operation of a fixed workload, and planted bugs that
//! must be found. `ROTA_FAULT_SEEDS=N` tries N crashes with different survivors at each position.

mod workload;

use std::{collections::BTreeSet, sync::Mutex};

use rota_log::{
    files::{Answer, Fault, ForgetfulFiles, Operation, Survival},
    store::Durability::{Fsync, Os},
};
use workload::Workload;

const PAGE_BYTES: usize = 64;

fn seeds() -> u64 {
    std::env::var("ROTA_FAULT_SEEDS").map_or(1, |text| text.parse().expect("ROTA_FAULT_SEEDS is a number"))
}

fn survivals() -> Vec<Survival> {
    [Survival::Nothing, Survival::Everything].into_iter().chain((1..=seeds()).map(Survival::Some)).collect()
}

fn operations() -> u64 {
    let files = ForgetfulFiles::new(PAGE_BYTES);
    let workload = Workload::run(&files, Fsync);
    let Workload { checkpoints, compactions, failures, .. } = workload;
    assert!(checkpoints >= 3 && compactions >= 3, "{checkpoints} checkpoints, {compactions} compactions");
    assert_eq!(failures, 0);
    let kinds: BTreeSet<Operation> = files.history().into_iter().map(|(operation, _)| operation).collect();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    let operations = files.operations();
    workload.verdict(&files, Fsync).unwrap();
    operations
}

#[test]
fn after_a_crash_at_any_operation_what_was_acknowledged_is_there_and_nothing_that_was_fenced() {
    let operations = operations();
    let mut tried = 0;
    for at in 0..operations {
        let files = ForgetfulFiles::new(PAGE_BYTES);
        files.fail_at(at, Fault::Crash);
        let workload = Workload::run(&files, Fsync);
        assert!(files.has_crashed());
        for survival in survivals() {
            let verdict = workload.verdict(&files.after_crash(survival), Fsync);
            assert_eq!(verdict, Ok(()), "crash at operation {at}, {survival:?} survives");
            tried += 1;
        }
    }
    println!("{operations} operations, {tried} crashes");
}

#[test]
fn after_a_second_crash_during_recovery_nothing_is_lost_either() {
    let operations = operations();
    let mut tried = 0;
    for at in (0..operations).step_by(if seeds() > 2 { 1 } else { 13 }) {
        let files = ForgetfulFiles::new(PAGE_BYTES);
        files.fail_at(at, Fault::Crash);
        let workload = Workload::run(&files, Fsync);
        for (survival, next) in [
            (Survival::Some(at), Survival::Nothing),
            (Survival::Everything, Survival::Some(at)),
            (Survival::Nothing, Survival::Some(at)),
        ] {
            for again in 0.. {
                let files = files.after_crash(survival);
                files.fail_at(again, Fault::Crash);
                let _ = workload.verdict(&files, Fsync);
                if !files.has_crashed() {
                    break;
                }
                let verdict = workload.verdict(&files.after_crash(next), Fsync);
                // What `verdict` appends itself may be there: it has no acknowledgement.
                let is_own =
                    verdict.as_ref().is_err_and(|reason| reason.contains(&format!("{:?}", b"new key".to_vec())));
                assert!(verdict.is_ok() || is_own, "{at}, {survival:?}, then {again}, {next:?}: {verdict:?}");
                tried += 1;
            }
        }
    }
    println!("{tried} second crashes");
}

#[test]
fn after_a_failure_of_any_operation_what_was_acknowledged_is_there_even_if_the_power_goes_later() {
    let operations = operations();
    let (mut tried, mut noticed) = (0, 0);
    for at in 0..operations {
        for fault in [Fault::ShortWrite, Fault::NoSpace(1), Fault::NoSpace(20), Fault::Io] {
            let files = ForgetfulFiles::new(PAGE_BYTES);
            files.fail_at(at, fault);
            let workload = Workload::run(&files, Fsync);
            noticed += u64::from(workload.failures > 0);
            for survival in survivals() {
                let verdict = workload.verdict(&files.after_crash(survival), Fsync);
                assert_eq!(verdict, Ok(()), "{fault:?} at operation {at}, {survival:?} survives");
                tried += 1;
            }
        }
    }
    assert!(noticed > 0);
    println!("{operations} operations, {tried} failures, {noticed} of {} reported", operations * 4);
}

/// The first bad verdict on the crashes of a workload in whose file system a bug is planted.
fn caught(bug: fn() -> Bug) -> Option<String> {
    for at in 0..operations() {
        let files = ForgetfulFiles::new(PAGE_BYTES);
        files.plant(bug());
        files.fail_at(at, Fault::Crash);
        let workload = Workload::run(&files, Fsync);
        for survival in [Survival::Nothing, Survival::Some(1), Survival::Some(2), Survival::Some(3)] {
            let after = files.after_crash(survival);
            after.plant(bug());
            if let Err(reason) = workload.verdict(&after, Fsync) {
                return Some(reason);
            }
        }
    }
    None
}

#[test]
fn without_syncs_nothing_is_lost_when_the_process_dies_at_any_operation() {
    let mut at = 0;
    loop {
        let files = ForgetfulFiles::new(PAGE_BYTES);
        files.fail_at(at, Fault::Crash);
        let workload = Workload::run(&files, Os);
        if !files.has_crashed() {
            break;
        }
        // The next run may keep its log in the other way.
        for durability in [Os, Fsync] {
            let verdict = workload.verdict(&files.after_crash(Survival::Everything), durability);
            assert_eq!(verdict, Ok(()), "killed at operation {at}, opened with {durability:?}");
        }
        at += 1;
    }
    println!("{at} operations");
}

#[test]
fn without_syncs_a_failure_of_any_operation_loses_nothing_either() {
    let mut tried = 0;
    for fault in [Fault::ShortWrite, Fault::NoSpace(1), Fault::NoSpace(20), Fault::Io] {
        for at in 0.. {
            let files = ForgetfulFiles::new(PAGE_BYTES);
            files.fail_at(at, fault);
            let workload = Workload::run(&files, Os);
            let verdict = workload.verdict(&files.after_crash(Survival::Everything), Os);
            assert_eq!(verdict, Ok(()), "{fault:?} at operation {at}");
            tried += 1;
            if files.operations() <= at {
                break;
            }
        }
    }
    println!("{tried} failures");
}

type Bug = Box<dyn Fn(Operation, &str, u64) -> Answer + Send + Sync>;

/// Says that an operation of this kind was done where it was not, on the names that pass.
fn skipping(skipped: Operation, passes: fn(&str) -> bool) -> Bug {
    Box::new(move |operation, name, _| if operation == skipped && passes(name) { Answer::Skip } else { Answer::Do })
}

/// Syncs each write-ahead file when it is created and not again.
fn unsynced_frames() -> Bug {
    let synced = Mutex::new(BTreeSet::new());
    Box::new(move |operation, name, _| {
        let is_sync = operation == Operation::Sync && name.starts_with("rota.wal.");
        if is_sync && !synced.lock().unwrap().insert(name.to_owned()) { Answer::Skip } else { Answer::Do }
    })
}

fn is_segment(name: &str) -> bool {
    name.contains(".log")
}

type Planting = (&'static str, fn() -> Bug);

const BUGS: [Planting; 9] = [
    ("an append is acknowledged before the write-ahead file is synced", unsynced_frames),
    ("a checkpoint does not sync segments", || {
        skipping(Operation::Sync, |name| name.rsplit('.').next() == Some("log"))
    }),
    ("a checkpoint does not sync topic ids", || skipping(Operation::Sync, |name| name == "partition.metadata")),
    ("a checkpoint is renamed before it is synced", || {
        skipping(Operation::Sync, |name| name.starts_with("rota.checkpoint"))
    }),
    ("a compacted segment is renamed before it is synced", || {
        skipping(Operation::Sync, |name| name.ends_with(".cleaned"))
    }),
    ("the data directory is not synced", || skipping(Operation::SyncDir, str::is_empty)),
    ("partitions' directories are not synced", || skipping(Operation::SyncDir, |name| !name.is_empty())),
    ("what comes after the last whole batch is not cut", || skipping(Operation::Truncate, is_segment)),
    ("too much is cut", || {
        Box::new(|operation, name, size_bytes| {
            let is_cut = operation == Operation::Truncate && is_segment(name) && size_bytes > 0;
            if is_cut { Answer::TruncateTo(size_bytes - 1) } else { Answer::Do }
        })
    }),
];

#[test]
fn planted_bugs_are_found() {
    for (name, bug) in BUGS {
        let reason = caught(bug);
        println!("{name}: {reason:?}");
        assert!(reason.is_some(), "{name}: it was not found");
    }
}
