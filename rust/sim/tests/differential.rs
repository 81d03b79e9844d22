//! The core and the naive coordinator on the same random steps: every effect in order, every projection, each step.
//!
//! `ROTA_WALKS` and `ROTA_WALK_STEPS` set how many walks of how many steps; `rota-sim differential` is the long run.

use rota_sim::{
    differential,
    world::{Effects, World},
};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn the_core_does_what_the_naive_coordinator_does() {
    let steps = from_environment("ROTA_WALK_STEPS", 4_000);
    if let Err((seed, difference)) = differential::walks(0..from_environment("ROTA_WALKS", 60), steps, 2) {
        let listed: Vec<String> = difference.steps.iter().map(|step| format!("  {step:?}")).collect();
        panic!("walk {seed}, step {}:\n{}\n{}", difference.after, listed.join("\n"), difference.told);
    }
}

/// A comparison that sees nothing says nothing: each kind of answer comes up, good and bad.
#[test]
fn walks_see_every_kind_of_answer_and_every_end() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..8 {
        let mut world = World::new(&differential::config(seed), false);
        let mut dice = rota_sim::dice::Dice::new(seed);
        let mut effects = Effects::default();
        for at in 0..8_000 {
            let step = differential::propose(&world, &mut dice, at);
            world.apply(&step, &mut effects).expect("nobody to differ from");
            seen.extend(effects.answers.iter().map(|(_, kind, error)| format!("{kind} {}", error.name())));
        }
    }
    let wanted = [
        "JoinGroup NONE",
        "JoinGroup MEMBER_ID_REQUIRED",
        "JoinGroup FENCED_INSTANCE_ID",
        "JoinGroup NOT_COORDINATOR",
        "JoinGroup GROUP_MAX_SIZE_REACHED",
        "JoinGroup INCONSISTENT_GROUP_PROTOCOL",
        "JoinGroup REBALANCE_IN_PROGRESS",
        "JoinGroup COORDINATOR_NOT_AVAILABLE",
        "JoinGroup UNKNOWN_MEMBER_ID",
        "SyncGroup NONE",
        "SyncGroup REBALANCE_IN_PROGRESS",
        "SyncGroup NOT_COORDINATOR",
        "SyncGroup ILLEGAL_GENERATION",
        "SyncGroup INCONSISTENT_GROUP_PROTOCOL",
        "Heartbeat NONE",
        "Heartbeat REBALANCE_IN_PROGRESS",
        "LeaveGroup NONE",
        "OffsetCommit NONE",
        "OffsetCommit OFFSET_METADATA_TOO_LARGE",
        "OffsetCommit REBALANCE_IN_PROGRESS",
        "OffsetFetch NONE",
        "OffsetFetch NOT_COORDINATOR",
        "DescribeGroup NONE",
        "ListGroups NONE",
        "DeleteGroup NONE",
        "DeleteGroup NON_EMPTY_GROUP",
        "OffsetDelete NONE",
        "OffsetDelete GROUP_SUBSCRIBED_TO_TOPIC",
    ];
    let missing: Vec<&str> = wanted.into_iter().filter(|what| !seen.contains(*what)).collect();
    assert!(missing.is_empty(), "no walk ever saw {missing:?}");
}
