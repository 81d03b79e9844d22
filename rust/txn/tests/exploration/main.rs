//! One transactional id, two partitions and one partition of groups: every state within small bounds, with a crash at
//! every step (docs/transactions.md §9).

mod actions;
mod bounds;
mod clients;
mod participant;
mod promises;
mod search;
mod world;

use bounds::{ALL, DEEP, Named};

/// A search without end is a mistake in the bounds.
const STATES_MAX: usize = 5_000_000;

fn explore_named(name: &str) {
    let Named { name, bounds, sometimes } =
        ALL.iter().chain(DEEP).find(|each| each.name == name).expect("known bounds");
    let found = search::explore(*bounds, STATES_MAX);
    println!("{name}: {} states, {} steps", found.states, found.steps);
    if let Some((broken, way)) = &found.broken {
        panic!("\n{name}: {broken}\n{way}");
    }
    assert!(found.is_whole, "{name} has more than {STATES_MAX} states");
    let never: Vec<_> = sometimes.iter().filter(|name| !found.seen.contains(**name)).collect();
    assert!(never.is_empty(), "{name}: never happened: {never:?}\nhappened: {:?}", found.seen);
}

#[test]
fn first_protocol() {
    explore_named("first_protocol");
}

#[test]
fn second_protocol() {
    explore_named("second_protocol");
}

#[test]
fn repetitions() {
    explore_named("repetitions");
}

#[test]
fn new_producers() {
    explore_named("new_producers");
}

#[test]
fn fenced_producers() {
    explore_named("fenced_producers");
}

#[test]
fn time() {
    explore_named("time");
}

#[test]
fn failures() {
    explore_named("failures");
}

#[test]
fn late_data() {
    explore_named("late_data");
}

#[test]
fn late_data_v1() {
    explore_named("late_data_v1");
}

#[test]
#[ignore = "minutes, release build"]
fn deep_first_protocol() {
    explore_named("deep_first_protocol");
}

#[test]
#[ignore = "minutes, release build"]
fn deep_second_protocol() {
    explore_named("deep_second_protocol");
}

#[test]
#[ignore = "minutes, release build"]
fn deep_producers() {
    explore_named("deep_producers");
}

#[test]
#[ignore = "minutes, release build"]
fn deep_failures() {
    explore_named("deep_failures");
}

/// The known hole of the first protocol: data that is late by a transaction joins the next one (§6). That the search
/// finds it shows that it looks, and that `late_data` holds because of the second protocol.
#[test]
fn late_data_of_the_first_protocol_joins_the_next_transaction() {
    let Named { bounds, .. } = ALL.iter().find(|each| each.name == "late_data").expect("known bounds");
    let bounds = bounds::Bounds { version: rota_txn::TransactionVersion::V1, level: 0, ..*bounds };
    let found = search::explore(bounds, STATES_MAX);
    let (broken, _) = found.broken.expect("the hole");
    assert!(broken.starts_with("T3"), "{broken}");
}
