//! What the coordinator says of a consumer group: its state, what it waits for, and what began its epochs.

use rota_core::{
    Coordinator, ErrorCode, Request,
    controls::NotDone,
    explain::{Cause, Explanation, Wait, Waiting},
    request::{LeaveGroup, LeaveIdentity},
};

use crate::{
    classic::{FOO, STATIC_PAIR, rejoin, scene, with_join},
    scene::{Scene, beat, join, join_by, settings},
};

fn explained(g: &Scene) -> Explanation {
    g.coordinator.explain("g", g.now_ms).expect("the group is there")
}

/// Waits as `Revoke m1 until 61000`, with what is known of the member.
fn waits(g: &Scene) -> Vec<String> {
    let shown = |wait: &Wait| {
        let what = format!("{:?}", wait.what).replace("(\"", " ").replace("\")", "");
        let until = if wait.until_ms == u64::MAX { "-".to_owned() } else { wait.until_ms.to_string() };
        let beats = if wait.heartbeats { " heartbeats" } else { "" };
        let is_static = if wait.is_static { " static" } else { "" };
        format!("{what} until {until}{beats}{is_static}")
    };
    explained(g).waiting.iter().map(shown).collect()
}

/// Rebalances as `MemberJoined m1 1 to 2 settled`.
fn history(g: &Scene) -> Vec<String> {
    let explanation = explained(g);
    let rebalances = explanation.rebalances.iter();
    let shown = rebalances.map(|one| {
        let to = one.to_generation.map_or("?".to_owned(), |to| to.to_string());
        let settled = if one.settled_ms.is_some() { " settled" } else { "" };
        format!("{} {} {} to {to}{settled}", one.cause.name(), one.member_id, one.from_generation)
    });
    shown.collect()
}

fn state(g: &Scene) -> (&'static str, i32, Option<i32>, u64) {
    let explanation = explained(g);
    (explanation.state, explanation.generation, explanation.target_epoch, explanation.since_ms)
}

#[test]
fn a_member_that_gives_nothing_up_is_waited_for_until_its_rebalance_timeout() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    assert_eq!((state(&g), waits(&g)), (("Stable", 2, Some(2), 1_000), vec![]));
    g.now_ms = 5_000;
    g.send(&join("m2", FOO));
    g.now_ms = 6_000;
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    assert_eq!(state(&g), ("Reconciling", 3, Some(3), 5_000));
    assert_eq!(waits(&g), ["Revoke m1 until 51000", "Release m2 until -"], "its session ends first");
    g.now_ms = 30_000;
    g.send(&beat("m1", 2));
    g.send(&beat("m2", 3));
    assert_eq!(waits(&g), ["Revoke m1 until 66000 heartbeats", "Release m2 until - heartbeats"]);
    assert_eq!(history(&g), ["MemberJoined m1 1 to 2 settled", "MemberJoined m2 2 to 3"]);
    for _ in 0..4 {
        g.send(&beat("m1", 2));
        g.send(&beat("m2", 3));
        g.pass(9_000);
    }
    assert_eq!(history(&g)[2], "RevocationExpired m1 3 to 4");
    g.send(&beat("m2", 3));
    assert_eq!((state(&g).0, history(&g)[2].as_str()), ("Stable", "RevocationExpired m1 3 to 4 settled"));
}

#[test]
fn a_member_behind_the_target_is_waited_for_until_its_session_ends() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.now_ms = 11_000;
    g.send(&join("m2", FOO));
    assert_eq!(waits(&g), ["Reconcile m1 until 46000", "Release m2 until -"]);
}

#[test]
fn a_target_that_is_not_due_is_waited_for() {
    let mut g = Scene::new(settings(1_000));
    g.send(&join("m1", FOO));
    g.now_ms += 300;
    g.send(&join("m2", FOO));
    assert_eq!(state(&g), ("Assigning", 3, Some(2), 1_300));
    assert_eq!(waits(&g)[0], "Target until 2000");
    g.now_ms = 2_000;
    g.send(&beat("m1", 2));
    let last = explained(&g).rebalances.last().cloned().unwrap();
    assert_eq!((last.began_ms, last.joined_ms, last.settled_ms), (1_300, Some(2_000), None));
}

/// The wall clock was put back, or the target was computed by a node whose clock was ahead (departure D26).
#[test]
fn a_target_of_a_time_to_come_does_not_delay_the_next() {
    let mut g = Scene::new(settings(1_000));
    g.send(&join("m1", FOO));
    g.now_ms += 300;
    g.send(&join("m2", FOO));
    g.wall_ms -= 3_600_000;
    g.tick();
    assert_eq!(waits(&g)[0], "Target until 1300");
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    assert_eq!(g.state(), "Reconciling G3 T3");
}

#[test]
fn a_static_member_that_is_away_is_waited_for_until_its_session_ends() {
    let mut g = Scene::new(settings(0));
    g.send(&join("a1", FOO).of("i1"));
    g.now_ms = 11_000;
    g.send(&beat("a1", -2).of("i1"));
    assert_eq!((state(&g).0, waits(&g)), ("Reconciling", vec!["Return a1 until 46000 static".to_owned()]));
    g.send(&join("a2", FOO).of("i1"));
    assert_eq!((state(&g).0, waits(&g)), ("Stable", vec![]));
    assert_eq!(history(&g), ["MemberJoined a1 1 to 2 settled"], "a return is no rebalance");
}

#[test]
fn a_group_shows_its_durable_state_while_an_append_is_in_flight() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    let before = (state(&g), history(&g));
    g.begin(&join("m2", FOO));
    assert_eq!((state(&g), history(&g)), before);
    assert_eq!(waits(&g), ["Append until 6000"]);
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!((state(&g), history(&g), waits(&g)), (before.0, before.1, vec![]));
}

#[test]
fn what_began_an_epoch_is_remembered() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&beat("m1", 2).names(&["bar", "foo"]).owns("foo:012345"));
    g.change_topic("bar", 2, 4);
    g.send(&beat("m1", 3).owns("foo:012345 bar:012"));
    g.send(&join("m2", FOO));
    g.send(&beat("m2", -1));
    g.pass(46_000);
    let causes: Vec<String> = history(&g).iter().map(|one| one.replace(" settled", "")).collect();
    assert_eq!(
        causes,
        [
            "MemberJoined m1 1 to 2",
            "SubscriptionChanged m1 2 to 3",
            "TopicsChanged  3 to 4",
            "MemberJoined m2 4 to 5",
            "MemberLeft m2 5 to 6",
            "SessionExpired m1 6 to 7",
        ]
    );
    assert_eq!((state(&g).0, state(&g).1), ("Empty", 7));
}

#[test]
fn topics_that_change_before_a_join_that_raises_no_epoch_are_the_cause() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.change_topic("foo", 1, 8);
    g.send(&join("m2", &[]));
    assert_eq!(history(&g)[1..], ["TopicsChanged  2 to 3"]);
}

#[test]
fn the_first_member_of_a_request_that_left_and_its_reason_are_the_cause() {
    let mut g = Scene::new(settings(0));
    for id in ["m1", "m2", "m3"] {
        g.send(&join(id, FOO));
    }
    let leaver = |member_id, reason| LeaveIdentity { member_id, instance_id: None, reason: Some(reason) };
    let members = [leaver("m9", "not there"), leaver("m2", "scaled down"), leaver("m1", "too")];
    let leave = LeaveGroup { version: 5, group_id: Some("g"), members: &members };
    assert_eq!(g.ask(Request::LeaveGroup(leave)), "0: 25 0 0");
    let last = explained(&g).rebalances.pop().unwrap();
    assert_eq!((last.cause, &*last.member_id, &*last.reason), (Cause::MemberLeft, "m2", "scaled down"));
    let long = "\u{e4}".repeat(1_000);
    let leave = LeaveGroup { version: 5, group_id: Some("g"), members: &[leaver("m3", &long)] };
    assert_eq!(g.ask(Request::LeaveGroup(leave)), "0: 0");
    assert_eq!(&*explained(&g).rebalances.pop().unwrap().reason, "\u{e4}".repeat(255));
}

#[test]
fn a_rebalance_ends_when_the_group_is_settled_in_the_other_protocol() {
    let mut g = scene(settings(0), STATIC_PAIR);
    with_join("A", Some("ia"), "012", |request| g.submit(request));
    assert_eq!(history(&g), ["MetadataChanged A 2 to ?"]);
    g.send(&join("b2", FOO).of("ib"));
    assert_eq!(history(&g), ["MetadataChanged A 2 to ?", "Upgraded b2 2 to 3"]);
    assert_eq!(rejoin(&mut g, "A", Some("ia"), "012"), "3 leader= of 0");
    assert_eq!(history(&g), ["MetadataChanged A 2 to ?", "Upgraded b2 2 to 3 settled"]);
    assert_eq!(rejoin(&mut g, "", Some("ib"), "345"), "3 leader= of 0");
    let last = ["Downgraded  3 to 3 settled"];
    assert_eq!(history(&g)[2..], last, "a static member took the place of the last consumer");
}

#[test]
fn history_goes_on_in_a_restored_coordinator_and_not_after_a_load() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.now_ms = 9_000;
    let restored = Coordinator::restore(&g.coordinator.snapshot()).unwrap();
    assert_eq!(restored.explain("g", 9_000), Some(explained(&g)));
    let loaded = Scene::from_log(settings(0), &g.log());
    assert_eq!((state(&loaded), history(&loaded)), (("Stable", 2, Some(2), 1_000), vec![]));
}

#[test]
fn a_summary_and_the_counts_have_the_group() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.now_ms = 10_000;
    g.send(&join("m2", FOO));
    g.send(&beat("m1", 2));
    let summary = g.coordinator.summarize("g", g.now_ms, 1).unwrap();
    assert_eq!((summary.members, summary.waits, summary.explanation.waiting.len()), (2, 2, 1));
    assert_eq!(summary.explanation.waiting[0].what, Waiting::Revoke("m1".into()));
    assert_eq!(summary.slack, [0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(g.coordinator.slack_of_all(g.now_ms), summary.slack);
    assert_eq!(g.coordinator.consumer_state_counts(), [0, 0, 1, 0]);
    assert_eq!(g.coordinator.state_counts().iter().sum::<u64>(), 0);
    assert_eq!(g.coordinator.member_count(), 2);
    assert_eq!(g.coordinator.group_ids(), ["g".into()]);
    let view = g.coordinator.view_consumer_group("g").unwrap();
    let shown: Vec<_> = view
        .members
        .iter()
        .map(|one| (&*one.member_id, one.epoch, one.assigned.len(), one.revoking.len(), one.target.len()))
        .collect();
    assert_eq!(shown, [("m1", 2, 3, 3, 3), ("m2", 3, 0, 0, 3)]);
    assert_eq!((view.members[0].rebalance_ends_ms, view.members[1].session_ends_ms), (Some(70_000), Some(55_000)));
}

#[test]
fn a_control_ends_a_session_and_raises_the_epoch() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    let now = g.now();
    g.coordinator.rebalance("g", now, &mut g.effects).unwrap();
    g.settle();
    assert_eq!((state(&g).0, state(&g).1), ("Assigning", 3));
    assert_eq!(g.send(&beat("m1", 2)), "3 -");
    assert_eq!(g.coordinator.lapse("g", "m9", now, &mut g.effects), Err(NotDone::NoMember));
    g.coordinator.lapse("g", "m1", now, &mut g.effects).unwrap();
    g.settle();
    assert_eq!(history(&g)[1..], ["Requested  2 to 3 settled", "SessionExpired m1 3 to 4 settled"]);
    assert_eq!(g.coordinator.rebalance("g", now, &mut g.effects), Err(NotDone::NoMembers));
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_pattern_that_was_resolved_and_a_topic_that_it_found_later_are_causes() {
    let mut g = Scene::new(settings(0));
    g.send(&join_by("m1", "o.*"));
    assert_eq!(history(&g), [] as [&str; 0], "its join raises no epoch");
    g.tick();
    assert_eq!(history(&g), ["PatternResolved m1 1 to 2"]);
    g.send(&beat("m1", 1));
    g.pass(10_001);
    g.change_topic("other", 9, 1);
    g.send(&beat("m1", 2));
    g.tick();
    assert_eq!(history(&g), ["PatternResolved m1 1 to 2 settled", "TopicsChanged  2 to 3"]);
}

#[test]
fn a_target_waits_for_a_whole_interval_from_the_millisecond_of_the_last_one() {
    let mut g = Scene::new(settings(1_000));
    g.send(&join("m1", FOO));
    g.send(&join("m2", FOO));
    assert_eq!(waits(&g)[0], "Target until 2000");
}

#[test]
fn a_member_that_waited_for_partitions_of_an_earlier_target_is_waited_for_itself() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    assert_eq!(g.send(&join("m2", FOO)), "3 []");
    assert_eq!(waits(&g), ["Reconcile m1 until 46000", "Release m2 until -"]);
    assert_eq!(g.send(&join("m3", FOO)), "4 []");
    assert_eq!(waits(&g), ["Reconcile m1 until 46000", "Reconcile m2 until 46000", "Release m3 until -"]);
}

#[test]
fn slack_is_the_part_of_a_session_that_is_left() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    for (passed_ms, part) in [(4_500, 9), (22_500, 5), (44_999, 0)] {
        let mut slack = [0; 10];
        slack[part] = 1;
        assert_eq!(g.coordinator.slack_of_all(g.now_ms + passed_ms), slack, "after {passed_ms} ms");
    }
}

#[test]
fn a_rebalance_has_the_time_of_its_target_and_keeps_it() {
    let mut g = Scene::new(settings(1_000));
    let joined_ms = |g: &Scene| explained(g).rebalances.last().unwrap().joined_ms;
    g.send(&join("m1", FOO));
    g.now_ms += 300;
    g.send(&join("m2", FOO));
    assert_eq!((g.state(), joined_ms(&g)), ("Assigning G3 T2".to_owned(), None));
    g.now_ms = 2_000;
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    assert_eq!(joined_ms(&g), Some(2_000));
    g.now_ms = 2_500;
    assert_eq!(g.send(&beat("m1", 2).owns("foo:012")), "3 -");
    assert_eq!((g.state(), joined_ms(&g)), ("Reconciling G3 T3".to_owned(), Some(2_000)));
}

#[test]
fn a_static_member_that_comes_back_is_the_cause_of_what_it_changes_only() {
    let both: &[&str] = &["foo", "one"];
    for (names, cause) in [(FOO, "TopicsChanged  2 to 3"), (both, "StaticReplaced a2 2 to 3")] {
        let mut g = Scene::new(settings(0));
        g.send(&join("a1", FOO).of("i1"));
        g.send(&beat("a1", -2).of("i1"));
        g.change_topic("foo", 1, 8);
        assert!(g.send(&join("a2", names).of("i1")).starts_with("3 "));
        assert!(history(&g)[1].starts_with(cause), "{:?}", history(&g));
    }
}

/// It is no new member (departure D14).
#[test]
fn a_dynamic_member_that_becomes_static_is_the_cause_of_its_other_topics() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&join("m1", &["foo", "one"]).of("i1"));
    assert_eq!(history(&g)[1..], ["SubscriptionChanged m1 2 to 3 settled"]);
}
