//! Timers that expire while an append is in flight, of members that have done what they were waited for before that is
//! handled (docs/consumer-protocol.md §4.4).

use rota_core::{Request, request::SyncGroup};

use crate::{
    classic::{FOO, RANGE, awaiting_a_join, beats, heartbeat, joined_without_sync, with_join},
    scene::{Beat, Scene, beat, join, settings},
    waiting::elapse,
};

/// An append that changes nothing for the other members.
fn hold(g: &mut Scene) {
    g.begin(&join("m9", &[]));
}

#[test]
fn a_member_that_gives_its_partitions_up_before_its_expired_timer_is_handled_stays() {
    let mut g = Scene::new(settings(15_000));
    g.send(&Beat { rebalance_timeout_ms: 5_000, ..join("m1", &["bar", "foo"]) });
    assert_eq!(g.send(&beat("m1", 2).names(FOO)), "2 [foo:012345]");
    elapse(&mut g, 4_000);
    hold(&mut g);
    let giving_up = g.begin(&beat("m1", 2).owns("foo:012345"));
    elapse(&mut g, 1_000);
    g.settle();
    assert_eq!(g.effects.answers[&giving_up], "2 -");
    assert_eq!(g.send(&beat("m1", 2)), "2 -", "it is a member");
}

#[test]
fn a_classic_member_that_joins_before_its_expired_timer_is_handled_stays() {
    let mut g = awaiting_a_join();
    g.pass(14_000);
    hold(&mut g);
    let joining = with_join("A", None, "", |request| g.submit(request));
    elapse(&mut g, 1_000);
    g.settle();
    assert_eq!(g.effects.answers[&joining], "4 leader= of 0");
    assert_eq!(heartbeat(&mut g, "A", None, 4), "0", "it is a member");
}

#[test]
fn a_classic_member_that_joins_again_before_its_expired_timer_to_sync_is_handled_stays() {
    let mut g = joined_without_sync();
    beats(&mut g, 59_000);
    hold(&mut g);
    let joining = with_join("A", None, "012", |request| g.submit(request));
    elapse(&mut g, 1_000);
    g.settle();
    assert_eq!(g.effects.answers[&joining], "3 leader= of 0");
    assert_eq!(heartbeat(&mut g, "A", None, 3), "0", "it is a member");
}

#[test]
fn what_waits_behind_a_sync_is_handled() {
    let mut g = joined_without_sync();
    hold(&mut g);
    let syncing = g.submit(Request::SyncGroup(SyncGroup {
        version: 5,
        group_id: Some("g"),
        generation: 3,
        member_id: "A",
        instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some(RANGE),
        assignments: &[],
    }));
    let beating = g.begin(&beat("m1", 3));
    g.settle();
    assert_eq!(g.effects.answers[&syncing], "[foo:012]");
    assert_eq!(g.effects.answers.get(&beating).map(String::as_str), Some("3 -"));
}
