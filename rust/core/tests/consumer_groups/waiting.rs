//! Requests and expired timers that wait for an append, and what they find when it has ended.

use rota_core::{
    ErrorCode, Record, Request,
    consumer_group::config::ConsumerConfig,
    records::{ConsumerRecord, TargetEpochValue},
    request::{ConsumerGroupHeartbeat, DeleteGroup, DescribeGroup, ListGroups},
};

use crate::{
    classic::{FOO, PAIR, beats, heartbeat, heartbeat_of, joined_without_sync, mixed, rejoin, scene},
    scene::{Beat, Scene, beat, join, settings},
};

/// The answer of a request that waits for no append.
fn look(g: &mut Scene, request: Request<'_>) -> String {
    let ticket = g.submit(request);
    g.effects.answers[&ticket].clone()
}

fn list(g: &mut Scene) -> String {
    look(g, Request::ListGroups(ListGroups::ALL))
}

fn describe(g: &mut Scene) -> String {
    look(g, Request::DescribeGroup(DescribeGroup { version: 6, group_id: Some("g") }))
}

/// The clock moves, what is due fires, and no append ends.
pub fn elapse(g: &mut Scene, ms: u64) {
    g.now_ms += ms;
    let now = g.now();
    g.coordinator.advance(now, &mut g.effects);
}

#[test]
fn a_timer_that_waited_for_a_downgrade_is_void() {
    let mut g = joined_without_sync();
    beats(&mut g, 59_000);
    g.begin(&beat("m1", -1));
    let upgrading = g.begin(&join("c", FOO));
    elapse(&mut g, 1_000);
    assert!(!g.effects.answers.contains_key(&upgrading), "A's time to sync is over while both wait");
    g.settle();
    assert!(g.effects.answers[&upgrading].starts_with("4 "), "{:?}", g.effects.answers.get(&upgrading));
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27", "A is a member still");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_timer_that_waited_for_an_upgrade_that_failed_is_void() {
    let mut g = scene(settings(0), PAIR);
    g.begin(&join("m1", FOO));
    for _ in 0..60 {
        elapse(&mut g, 1_000);
        for id in ["A", "B"] {
            g.submit(heartbeat_of(id, None, 2));
        }
    }
    let upgrading = g.begin(&join("c", FOO));
    elapse(&mut g, 1_000);
    g.fail(ErrorCode::NotEnoughReplicas);
    g.settle();
    assert!(g.effects.answers[&upgrading].starts_with("3 "), "{:?}", g.effects.answers.get(&upgrading));
    for id in ["A", "B"] {
        assert_eq!(heartbeat(&mut g, id, None, 2), "27", "{id} is a member still");
    }
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_refused_heartbeat_leaves_changed_topics_to_the_next_one() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&join("m2", FOO));
    g.send(&beat("m1", 2).owns("foo:012"));
    let mut log = g.log();
    for record in &mut log {
        if let Record::Consumer { about: ConsumerRecord::Current(id, Some(value)), .. } = record
            && **id == *"m1"
        {
            value.state = 9;
        }
    }
    let mut g = Scene::from_log(settings(0), &log);
    assert_eq!(g.send(&beat("m2", 3)), "3 [foo:345]");
    g.change_topic("foo", 1, 8);
    assert!(g.send(&beat("m1", 3).owns("foo:012")).starts_with("110 "), "its state is of a later version");
    assert_eq!(g.state(), "Reconciling G3 T3");
    assert!(g.send(&beat("m2", 3)).starts_with("4 [foo:3457]"), "it gets a new partition");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_heartbeat_that_acknowledges_nothing_extends_no_expired_revocation() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&join("m2", FOO));
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    for _ in 0..59 {
        g.pass(1_000);
        g.send(&beat("m1", 2));
        g.send(&beat("m2", 3));
    }
    g.begin(&join("m3", FOO));
    let waiting = g.begin(&beat("m1", 2));
    elapse(&mut g, 1_000);
    g.settle();
    assert_eq!(g.effects.answers[&waiting], "2 -", "it came before the end of its time");
    assert!(g.send(&beat("m1", 2)).starts_with("25 "), "and is removed then");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_static_member_that_is_away_has_nothing_to_give_up_after_a_failed_append() {
    let mut g = Scene::new(settings(0));
    g.send(&Beat { rebalance_timeout_ms: 10_000, ..join("a1", FOO).of("i1") });
    g.send(&join("m2", FOO));
    assert_eq!(g.send(&beat("a1", 2).of("i1")), "2 [foo:012]");
    g.send(&beat("a1", -2).of("i1"));
    g.begin(&join("m3", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    g.coordinator.check_invariants().unwrap();
    g.pass(44_000);
    let ids = |g: &Scene| -> Vec<String> {
        let view = g.coordinator.view_consumer_group("g").unwrap();
        view.members.iter().map(|member| member.member_id.to_string()).collect()
    };
    assert_eq!(ids(&g), ["a1", "m2"], "its session goes on");
    g.send(&beat("m2", 3));
    g.pass(2_000);
    assert_eq!(ids(&g), ["m2"]);
}

#[test]
fn a_failed_append_gives_a_member_the_time_to_give_partitions_up_again() {
    let mut g = Scene::new(settings(0));
    g.send(&Beat { rebalance_timeout_ms: 10_000, ..join("a1", FOO).of("i1") });
    g.send(&join("m2", FOO));
    g.send(&beat("a1", 2).of("i1"));
    g.begin(&beat("a1", -2).of("i1"));
    g.fail(ErrorCode::NotEnoughReplicas);
    let view = g.coordinator.view_consumer_group("g").unwrap();
    assert_eq!(view.members[0].rebalance_ends_ms, Some(g.now_ms + 10_000));
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_damaged_time_of_the_target_delays_nothing() {
    for timestamp_ms in [i64::MAX, i64::MIN] {
        let mut g = Scene::new(settings(1_000));
        g.send(&join("m1", FOO));
        g.send(&join("m2", FOO));
        let about = ConsumerRecord::TargetEpoch(Some(TargetEpochValue { epoch: 2, timestamp_ms }));
        let mut log = g.log();
        log.push(Record::Consumer { group_id: "g".into(), about });
        let g = Scene::from_log(ConsumerConfig { session_timeout_ms: 45_000, ..settings(1_000) }, &log);
        let waiting = g.coordinator.explain("g", g.now_ms).unwrap().waiting;
        assert!(waiting[0].until_ms <= g.now_ms, "{waiting:?}");
    }
}

#[test]
fn groups_are_listed_and_described_as_the_log_has_them() {
    let mut g = Scene::new(settings(0));
    assert_eq!(list(&mut g), "");
    g.begin(&join("m1", FOO));
    assert_eq!((list(&mut g), describe(&mut g)), (String::new(), "69 Group g not found.".to_owned()));
    g.settle();
    assert_eq!(list(&mut g), "g Stable");
    assert_eq!(describe(&mut g), "69 Group g is not a classic group.");
    g.begin(&join("m2", FOO));
    assert_eq!(list(&mut g), "g Stable");
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(list(&mut g), "g Stable");
    g.begin(&beat("m1", -1));
    assert_eq!(list(&mut g), "g Stable");
    g.settle();
    assert_eq!(list(&mut g), "g Empty");
    let deleting = g.submit(Request::DeleteGroup(DeleteGroup { group_id: Some("g") }));
    assert_eq!(list(&mut g), "g Empty");
    assert_eq!(describe(&mut g), "69 Group g is not a classic group.");
    g.settle();
    assert_eq!(g.effects.answers[&deleting], "0");
    assert_eq!(list(&mut g), "");
}

#[test]
fn a_group_of_its_first_epoch_is_listed() {
    let mut g = Scene::new(settings(0));
    g.begin(&join("m1", &[]));
    assert_eq!(list(&mut g), "");
    g.settle();
    assert_eq!(list(&mut g), "g Stable");
    let mut converted = scene(settings(0), PAIR);
    converted.begin(&join("m1", FOO));
    assert_eq!(list(&mut converted), "g Reconciling", "it is one of consumers already");
    converted.settle();
    assert!(rejoin(&mut converted, "A", None, "012").starts_with("2 "));
}

/// Renews the session of a member that is connected.
fn keep(g: &mut Scene, member_id: &str) -> String {
    look(g, Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat::keeping("g", member_id)))
}

#[test]
fn a_request_that_keeps_a_session_changes_nothing_else() {
    let mut g = mixed(ConsumerConfig { session_timeout_ms: 45_000, ..settings(0) });
    let written = g.effects.appends.len();
    g.change_topic("foo", 1, 8);
    let ends = |g: &Scene, at: usize| {
        g.coordinator.view_consumer_group("g").unwrap().members[at].session_ends_ms.map(|ends| ends - g.now_ms)
    };
    elapse(&mut g, 20_000);
    assert_eq!((keep(&mut g, "A"), keep(&mut g, "m1")), ("3 -".to_owned(), "3 -".to_owned()));
    assert_eq!([ends(&g, 0), ends(&g, 1)], [Some(30_000), Some(45_000)], "each has its own session timeout");
    assert_eq!(g.effects.appends.len(), written, "changed topics wait for a heartbeat");
    assert_eq!(keep(&mut g, "m9"), "25");
    g.begin(&join("m2", FOO));
    elapse(&mut g, 20_000);
    assert_eq!(keep(&mut g, "m1"), "3 -", "it waits for no append");
    assert_eq!(ends(&g, 1), Some(45_000));
    g.settle();
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_static_member_that_is_away_is_not_kept() {
    let mut g = Scene::new(settings(0));
    g.send(&join("a1", FOO).of("i1"));
    g.send(&beat("a1", -2).of("i1"));
    assert_eq!(keep(&mut g, "a1"), "25");
    g.pass(45_000);
    assert_eq!(g.state(), "Empty G3 T3");
}
