//! Every state of nodes and an engine within small bounds, with every fault at every step (docs/engine-protocol.md §9).

mod bounds;
mod checks;
mod normal;
mod search;
mod world;

use bounds::{Bounds, Named};

/// A search without end is a mistake in the normal form.
const STATES_MAX: usize = 20_000_000;

fn explore(name: &str, bounds: Bounds, sometimes: &[&str]) {
    let found = search::explore(bounds, STATES_MAX);
    println!("{name}: {} states, {} steps", found.states, found.steps);
    if let Some(((promise, how), way)) = &found.broken {
        panic!("\n{name}: {promise} is broken: {how}\n{way}");
    }
    assert!(found.is_whole, "{name} has more than {STATES_MAX} states");
    let never: Vec<_> = sometimes.iter().filter(|name| !found.seen.contains(**name)).collect();
    assert!(never.is_empty(), "{name}: never happened: {never:?}\nhappened: {:?}", found.seen);
}

fn explore_named(name: &str) {
    let Named { name, bounds, sometimes } =
        bounds::ALL.iter().chain(bounds::DEEP).find(|each| each.name == name).expect("known bounds");
    explore(name, *bounds, sometimes);
}

#[test]
fn appends() {
    explore_named("appends");
}

#[test]
fn exhaustion() {
    explore_named("exhaustion");
}

#[test]
fn queues() {
    explore_named("queues");
}

#[test]
fn releases() {
    explore_named("releases");
}

#[test]
fn snapshots() {
    explore_named("snapshots");
}

#[test]
fn sweeps() {
    explore_named("sweeps");
}

#[test]
fn restores() {
    explore_named("restores");
}

#[test]
fn survivors() {
    explore_named("survivors");
}

#[test]
fn returns() {
    explore_named("returns");
}

#[test]
fn bumps() {
    explore_named("bumps");
}

#[test]
fn histories() {
    explore_named("histories");
}

#[test]
fn sessions() {
    explore_named("sessions");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn twins() {
    explore_named("twins");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn clocks() {
    explore_named("clocks");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn restarts() {
    explore_named("restarts");
}
#[test]
#[ignore = "minutes; make explore-engine"]
fn fresh_reads() {
    explore_named("fresh_reads");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn three_nodes() {
    explore_named("three_nodes");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn long_sweeps() {
    explore_named("long_sweeps");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn long_returns() {
    explore_named("long_returns");
}

#[test]
#[ignore = "minutes; make explore-engine"]
fn latency() {
    explore_named("latency");
}
