//! Consumer groups in which no member speaks the newer protocol any more, and classic members beside one that does.

use rota_core::{Config, consumer_group::config::Migration};

use crate::{
    classic::{FOO, PAIR, STATIC_PAIR, classic_group, classic_only, heartbeat, mixed, policy, rejoin, scene},
    scene::{Scene, beat, join, settings},
};

/// The monotonic clock may begin at 0 (departure D22).
#[test]
fn a_classic_member_looks_at_topics_that_change_in_the_first_millisecond() {
    let mut log = vec![classic_group(&[("A", None, "012345")])];
    log.extend(classic_only().log());
    let mut g = Scene::loaded_at(0, Config::default(), policy(Migration::Upgrade), &log);
    g.change_topic("foo", 1, 8);
    assert_eq!(heartbeat(&mut g, "A", None, 4), "27");
}

/// The next heartbeat of a consumer member computes the target (departure D22).
#[test]
fn a_classic_member_leaves_changed_topics_to_a_consumer_member() {
    let mut g = mixed(settings(0));
    g.change_topic("foo", 1, 8);
    assert_eq!(heartbeat(&mut g, "A", None, 3), "0");
    assert!(g.send(&beat("m1", 3)).starts_with("4 "));
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27");
}

/// Only who takes the place of the last consumer member makes a classic group of it (docs/consumer-protocol.md §17.1).
#[test]
fn a_classic_member_that_takes_the_place_of_a_classic_one_ends_no_consumer_group() {
    let mut g = scene(policy(Migration::Upgrade), STATIC_PAIR);
    g.send(&join("m1", FOO));
    g.send(&beat("m1", -1));
    g.coordinator.configure_consumer_groups(policy(Migration::Bidirectional));
    assert_eq!(rejoin(&mut g, "", Some("ia"), ""), "4 leader= of 0");
    assert_eq!(g.state(), "Reconciling G4 T4");
}

/// A rebalance timeout bounds what a consumer member has to give up (docs/consumer-protocol.md §10).
#[test]
fn a_classic_member_has_no_time_to_give_partitions_up_after_a_load() {
    let mut g = scene(settings(0), PAIR);
    g.send(&join("m1", FOO));
    assert_eq!(rejoin(&mut g, "A", None, "012"), "2 leader= of 0");
    let mut log = vec![classic_group(PAIR)];
    log.extend(g.log());
    let loaded = Scene::from_log(settings(0), &log);
    let view = loaded.coordinator.view_consumer_group("g").unwrap();
    assert_eq!((view.members[0].revoking.len(), view.members[0].rebalance_ends_ms), (1, None));
}
