//! What was not stored is undone: with the deadlines, and with the classic group that was to end.

use rota_core::{ErrorCode, consumer_group::config::Migration};

use crate::{
    classic::{FOO, PAIR, awaiting_a_join, heartbeat, policy, rejoin, scene},
    scene::{Beat, Scene, beat, join, settings},
    waiting::elapse,
};

/// When the phase of a member ends.
fn phase_ends(g: &Scene, member_id: &str) -> Option<u64> {
    let view = g.coordinator.view_consumer_group("g").unwrap();
    view.members.iter().find(|member| &*member.member_id == member_id).unwrap().rebalance_ends_ms
}

#[test]
fn a_classic_group_that_could_not_be_converted_has_its_leader() {
    let mut g = scene(settings(0), PAIR);
    g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(rejoin(&mut g, "B", None, ""), "2 leader=A of 0");
}

#[test]
fn a_removal_for_a_missing_join_that_was_not_stored_is_tried_again() {
    let mut g = awaiting_a_join();
    let ends_ms = g.now_ms + 15_000;
    assert_eq!(phase_ends(&g, "A"), Some(ends_ms));
    elapse(&mut g, 15_000);
    assert_eq!(g.now_ms, ends_ms);
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(phase_ends(&g, "A"), Some(ends_ms + 60_000));
}

/// The removal would have made a classic group of those that stay.
#[test]
fn a_missing_join_that_was_to_end_the_consumer_group_is_waited_for_again() {
    let mut g = scene(policy(Migration::Upgrade), PAIR);
    g.send(&join("m1", FOO));
    g.send(&beat("m1", -1));
    g.coordinator.configure_consumer_groups(policy(Migration::Bidirectional));
    assert_eq!(heartbeat(&mut g, "A", None, 2), "27");
    let ends_ms = g.now_ms + 60_000;
    for _ in 0..2 {
        g.pass(20_000);
        heartbeat(&mut g, "A", None, 2);
        heartbeat(&mut g, "B", None, 2);
    }
    g.records();
    elapse(&mut g, 20_000);
    assert!(g.records().ends_with("3† 2"), "A is to go, and B alone is a classic group");
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(phase_ends(&g, "A"), Some(ends_ms + 60_000));
}

/// After a load a member that is away has this deadline, too, as in Kafka. When it ends, nothing changes.
#[test]
fn a_failed_append_leaves_the_deadline_that_a_load_gave_a_member_that_is_away() {
    let mut g = Scene::new(settings(0));
    g.send(&Beat { rebalance_timeout_ms: 10_000, ..join("a1", FOO).of("i1") });
    g.send(&join("m2", FOO));
    assert_eq!(g.send(&beat("a1", 2).of("i1")), "2 [foo:012]");
    g.send(&beat("a1", -2).of("i1"));
    let mut g = Scene::from_log(settings(0), &g.log());
    let ends_ms = g.now_ms + 10_000;
    assert_eq!(phase_ends(&g, "a1"), Some(ends_ms));
    g.begin(&join("m3", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(phase_ends(&g, "a1"), Some(ends_ms));
    g.pass(11_000);
    assert!(g.coordinator.consumer_group("g").unwrap().member("a1").is_some());
}
