//! Random events through the coordinator, with its invariants checked after every one of them and the history of
//! answers checked from outside: S1, S4, S9, S11, S14, S18, S22, S23, S26.
//!
//! `ROTA_WALK_STEPS` sets how many events each walk has (default 8,000).

mod walk;

use walk::{History, World};

const WALKS: u64 = 60;

fn steps() -> usize {
    std::env::var("ROTA_WALK_STEPS").ok().map_or(8_000, |steps| steps.parse().expect("a number of steps"))
}

#[test]
fn random_events_break_no_invariant_and_every_ticket_is_answered_once() {
    let mut seen = History::default();
    for seed in 0..WALKS {
        let mut world = World::new(seed);
        for _ in 0..steps() {
            world.step();
        }
        world.settle();
        seen.absorb(&world.history);
    }
    // Every `always` has a `sometimes` beside it: the walk went where the rules are.
    for (what, count) in seen.sightings() {
        assert!(count > 0, "no walk ever saw {what}");
    }
}

#[test]
fn the_same_events_give_the_same_effects_digests_and_snapshot() {
    let run = |seed| {
        let mut world = World::new(seed);
        for _ in 0..1_000 {
            world.step();
        }
        (world.transcript.clone(), world.coordinator.snapshot())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0, "another seed gives another walk");
}

#[test]
fn a_restored_snapshot_goes_on_as_the_original_does() {
    let mut original = World::new(11);
    for _ in 0..500 {
        original.step();
    }
    let mut restored = original.clone();
    restored.coordinator =
        rota_core::Coordinator::restore(&original.coordinator.snapshot()).expect("its own snapshot is readable");
    for _ in 0..500 {
        original.step();
        restored.step();
    }
    assert_eq!(original.transcript, restored.transcript);
}

#[test]
fn damaged_snapshots_are_refused_or_keep_every_invariant() {
    let mut world = World::new(3);
    for _ in 0..300 {
        world.step();
    }
    let bytes = world.coordinator.snapshot();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(restored) = rota_core::Coordinator::restore(&damaged) {
                restored.check_invariants().expect("a state that was let in keeps the invariants");
            }
        }
    }
}

/// The outside checks can fail: each planted fault is found.
#[test]
fn a_planted_fault_in_the_history_is_found() {
    for fault in walk::Fault::ALL {
        let is_found = |seed| {
            let walk = move || {
                let mut world = World::new(seed);
                world.fault = Some(fault);
                for _ in 0..4_000 {
                    world.step();
                }
                world.settle();
            };
            std::panic::catch_unwind(walk).is_err()
        };
        assert!((0..20).any(is_found), "{fault:?} went unnoticed");
    }
}
