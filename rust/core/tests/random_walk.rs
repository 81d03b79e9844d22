//! Random events through the coordinator, with its invariants checked after every one of them and the history of
//! answers checked from outside: S1, S4, S9, S11, S14, S15, S18, S22, S23, S25, S26, S29, S34, L7.
//!
//! `ROTA_WALK_STEPS` sets how many events each walk has (default 8,000), `ROTA_WALKS` how many walks (default 24; `make long`
//! has 600).

mod walk;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rota_core::Coordinator;
use walk::{Fault, History, World};

/// What some walk has to reach, or the checks say nothing: every `always` has a `sometimes` beside it.
const SIGHTINGS: [&str; 46] = [
    "JoinGroup NONE",
    "JoinGroup MEMBER_ID_REQUIRED",
    "JoinGroup UNKNOWN_MEMBER_ID",
    "JoinGroup INCONSISTENT_GROUP_PROTOCOL",
    "JoinGroup GROUP_MAX_SIZE_REACHED",
    "JoinGroup FENCED_INSTANCE_ID",
    "JoinGroup NOT_COORDINATOR",
    "JoinGroup COORDINATOR_NOT_AVAILABLE",
    "JoinGroup REBALANCE_IN_PROGRESS",
    "JoinGroup UNKNOWN_SERVER_ERROR",
    "SyncGroup NONE",
    "SyncGroup ILLEGAL_GENERATION",
    "SyncGroup UNKNOWN_MEMBER_ID",
    "SyncGroup FENCED_INSTANCE_ID",
    "SyncGroup REBALANCE_IN_PROGRESS",
    "SyncGroup NOT_COORDINATOR",
    "SyncGroup COORDINATOR_NOT_AVAILABLE",
    "Heartbeat NONE",
    "Heartbeat REBALANCE_IN_PROGRESS",
    "LeaveGroup NONE",
    "OffsetCommit NONE",
    "OffsetCommit ILLEGAL_GENERATION",
    "OffsetCommit REBALANCE_IN_PROGRESS",
    "OffsetCommit COORDINATOR_NOT_AVAILABLE",
    "OffsetFetch NONE",
    "OffsetFetch NOT_COORDINATOR",
    "skip_assignment",
    "an end out of order",
    "a deletion that failed and is in the log",
    "compared Stable",
    "compared Empty",
    "restore",
    "reload",
    "unload",
    "DescribeGroup NONE",
    "DeleteGroup NONE",
    "DeleteGroup NON_EMPTY_GROUP",
    "DeleteGroup GROUP_ID_NOT_FOUND",
    "DeleteGroup NOT_COORDINATOR",
    "DeleteGroup COORDINATOR_NOT_AVAILABLE",
    "OffsetDelete NONE",
    "OffsetDelete NON_EMPTY_GROUP",
    "OffsetDelete GROUP_ID_NOT_FOUND",
    "compared a view",
    "loaded compacted",
    "a group ended",
];

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

fn walked(seed: u64, steps: usize) -> World {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    world
}

#[test]
fn random_events_break_no_invariant_and_every_ticket_is_answered_once() {
    let mut seen = History::default();
    let steps = from_environment("ROTA_WALK_STEPS", 8_000) as usize;
    for seed in 0..from_environment("ROTA_WALKS", 24) {
        let walk = AssertUnwindSafe(|| {
            let mut world = walked(seed, steps);
            world.settle();
            world.history
        });
        let history = catch_unwind(walk).unwrap_or_else(|panic| panic!("walk {seed}: {}", words(&*panic)));
        seen.absorb(&history);
    }
    let unseen: Vec<&str> = SIGHTINGS.into_iter().filter(|what| seen.count(what) == 0).collect();
    assert!(unseen.is_empty(), "no walk ever saw {unseen:?}");
}

#[test]
fn a_heartbeat_is_the_same_by_the_slot_in_its_id_by_handle_and_all_at_once() {
    let mut from_members = 0;
    for seed in 0..12 {
        let mut world = World::new(seed);
        for step in 0..1_500 {
            world.step();
            if step % 5 == 0 {
                from_members += world.compare_ways_of_beating();
            }
        }
    }
    assert!(from_members > 1_000, "only {from_members} heartbeats came from members");
}

#[test]
fn the_same_events_give_the_same_effects_and_snapshot() {
    let run = |seed| {
        let mut world = World::new(seed);
        world.transcript = Some(Vec::new());
        for _ in 0..1_000 {
            world.step();
        }
        (world.transcript, world.coordinator.snapshot())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0, "another seed gives another walk");
}

#[test]
fn a_restored_snapshot_goes_on_as_the_original_does() {
    let mut original = walked(11, 500);
    original.transcript = Some(Vec::new());
    let mut restored = original.clone();
    restored.coordinator = Coordinator::restore(&original.coordinator.snapshot()).expect("its own snapshot");
    for _ in 0..500 {
        original.step();
        restored.step();
    }
    assert_eq!(original.transcript, restored.transcript);
}

/// The outside checks can fail: each planted fault is found, by the check that is there for it.
#[test]
fn a_planted_fault_is_found_by_the_check_that_is_there_for_it() {
    for (fault, check) in Fault::CAUGHT_BY {
        let found: Vec<String> = (0..6)
            .filter_map(|seed| {
                let walk = AssertUnwindSafe(|| {
                    let mut world = World::new(seed);
                    world.fault = Some(fault);
                    for _ in 0..1_500 {
                        world.step();
                    }
                    world.settle();
                });
                catch_unwind(walk).err().map(|panic| words(&*panic))
            })
            .collect();
        assert!(!found.is_empty(), "{fault:?} went unnoticed");
        for message in found {
            assert!(message.contains(check), "{fault:?} is for {check} and was found so: {message}");
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
