//! Groups that change their protocol, and classic members in consumer groups: requests, answers and records as Kafka 4.4.0
//! gave them where a test says V.

use rota_core::{
    Config, ErrorCode, Record, Request,
    consumer_group::config::{ConsumerConfig, Migration},
    explain::Rebalance,
    request::{DeleteGroup, JoinGroup, LeaveGroup, LeaveIdentity, OffsetCommit, Protocol},
};

use crate::{
    classic::{
        FOO, PAIR, RANGE, STATIC_PAIR, beats, classic_group, heartbeat, heartbeat_of, joined_without_sync, leave,
        metadata, mixed, policy, rejoin, scene, sync, with_join,
    },
    offsets::{commit, commit_by, stored},
    scene::{Beat, Scene, beat, join, join_by, settings},
};

#[test]
fn v13_a_consumer_upgrades_a_classic_group_and_its_members_rejoin_one_after_the_other() {
    let mut g = scene(settings(0), PAIR);
    assert_eq!(g.send(&join("m1", FOO)), "3 []");
    assert_eq!(
        g.records(),
        "2† 5(A) 5(B) 3(2) 7(A foo:012) 7(B foo:345) 6(2, 0) 8(A e2 prev 2 STABLE foo:012@2) \
         8(B e2 prev 2 STABLE foo:345@2) 5(m1) 3(3) 7(A foo:01) 7(B foo:34) 7(m1 foo:25) 6(3) \
         8(m1 e3 prev 0 UNRELEASED 0)"
    );
    assert_eq!(heartbeat(&mut g, "A", None, 2), "27");
    assert_eq!(sync(&mut g, "A", None, 2), "27");
    assert_eq!(rejoin(&mut g, "A", None, "012"), "2 leader= of 0", "it has to give 2 up");
    assert_eq!(sync(&mut g, "A", None, 2), "[foo:01]");
    assert_eq!(heartbeat(&mut g, "A", None, 2), "27");
    assert_eq!(rejoin(&mut g, "A", None, "01"), "3 leader= of 0");
    assert_eq!(sync(&mut g, "A", None, 3), "[foo:01]");
    assert_eq!(heartbeat(&mut g, "A", None, 3), "0");
    assert_eq!(g.send(&beat("m1", 3)), "3 [foo:2]");
    assert_eq!(rejoin(&mut g, "B", None, ""), "3 leader= of 0", "an eager member acknowledges at once");
    assert_eq!(sync(&mut g, "B", None, 3), "[foo:34]");
    assert_eq!(g.send(&beat("m1", 3)), "3 [foo:25]");
    assert_eq!(g.state(), "Stable G3 T3");
    g.coordinator.check_invariants().unwrap();
}

/// The causes of the group's rebalances, `*` for one that is over.
fn causes(g: &Scene) -> Vec<String> {
    let explanation = g.coordinator.explain("g", g.now_ms).unwrap();
    let shown = |one: &Rebalance| format!("{}{}", one.cause.name(), if one.settled_ms.is_some() { "*" } else { "" });
    explanation.rebalances.iter().map(shown).collect()
}

#[test]
fn history_goes_on_when_a_group_changes_its_protocol() {
    let mut g = mixed(settings(0));
    assert_eq!(causes(&g), ["Upgraded*"]);
    let upgraded = g.coordinator.explain("g", g.now_ms).unwrap().rebalances[0].clone();
    assert_eq!((&*upgraded.member_id, upgraded.from_generation, upgraded.to_generation), ("m1", 2, Some(3)));
    g.send(&beat("m1", -1));
    assert_eq!(causes(&g), ["Upgraded*", "Downgraded*", "MemberLeft"]);
    assert_eq!(g.coordinator.explain("g", g.now_ms).unwrap().state, "PreparingRebalance");
}

#[test]
fn a_group_that_goes_back_without_a_rebalance_says_so() {
    let mut g = scene(settings(0), STATIC_PAIR);
    g.send(&Beat { instance_id: Some("ia"), ..join("m1", FOO) });
    g.now_ms += 5_000;
    rejoin(&mut g, "", Some("ia"), "");
    assert_eq!(causes(&g), ["Upgraded*", "Downgraded*"]);
    let explanation = g.coordinator.explain("g", g.now_ms).unwrap();
    assert_eq!((explanation.state, explanation.since_ms), ("Stable", g.now_ms));
}

#[test]
fn an_upgrade_that_was_not_stored_is_in_the_history() {
    let mut g = scene(settings(0), PAIR);
    let since_ms = g.coordinator.explain("g", g.now_ms).unwrap().since_ms;
    g.now_ms += 5_000;
    g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(causes(&g), ["UpgradeFailed*"]);
    let explanation = g.coordinator.explain("g", g.now_ms).unwrap();
    assert_eq!((explanation.state, explanation.since_ms), ("Stable", since_ms), "it has been Stable all the time");
    assert_eq!(&*explanation.rebalances[0].member_id, "m1");
}

#[test]
fn v14_the_group_goes_back_when_the_last_consumer_leaves() {
    let mut g = mixed(settings(0));
    assert_eq!(g.send(&beat("m1", -1)), "-1 -");
    assert_eq!(g.records(), "8†(A) 8†(m1) 7†(A) 7†(m1) 6† 5†(A) 5†(m1) 4† 3† 2");
    assert_eq!(g.state(), "none");
    assert_eq!(heartbeat(&mut g, "A", None, 1), "22");
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27");
    assert_eq!(rejoin(&mut g, "A", None, "012"), "4 leader=A of 1");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn v15_static_members_change_over_one_by_one_and_back_without_a_rebalance() {
    let mut g = scene(settings(0), STATIC_PAIR);
    let consumer = |member_id, instance_id| Beat { instance_id: Some(instance_id), ..join(member_id, FOO) };
    assert_eq!(g.send(&consumer("m1", "ia")), "2 [foo:012]");
    assert_eq!(g.state(), "Stable G2 T2");
    assert_eq!(heartbeat(&mut g, "A", Some("ia"), 2), "82");
    assert_eq!(heartbeat(&mut g, "B", Some("ib"), 2), "0");
    assert_eq!(g.send(&consumer("m2", "ib")), "2 [foo:345]");
    assert_eq!(rejoin(&mut g, "", Some("ia"), ""), "2 leader= of 0", "though m1 has not left");
    assert!(g.send(&beat("m1", 2).of("ia")).starts_with("82 "));
    assert_eq!(g.state(), "Stable G2 T2");
    g.records();
    assert_eq!(rejoin(&mut g, "", Some("ib"), ""), "2 leader= of 0");
    let records = g.records();
    assert!(records.starts_with("8†(m2) 7†(m2) 5†(m2) 5("), "{records}");
    assert!(records.ends_with("4† 3† 2"), "{records}");
    assert_eq!(g.state(), "none");
    assert!(g.send(&beat("m2", 2).of("ib")).starts_with("69 "));
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn policies_allow_each_direction_by_itself() {
    let both = [
        (Migration::Bidirectional, true, true),
        (Migration::Upgrade, true, false),
        (Migration::Downgrade, false, true),
        (Migration::Disabled, false, false),
    ];
    for (migration, upgrades, downgrades) in both {
        let mut g = scene(policy(migration), PAIR);
        let answer = g.send(&join("m1", FOO));
        if upgrades {
            assert_eq!(answer, "3 []", "{migration:?}");
        } else {
            let refused = "69 Cannot upgrade classic group g to consumer group because online upgrade is disabled.";
            assert_eq!(answer, refused, "{migration:?}");
            assert_eq!(heartbeat(&mut g, "A", None, 2), "0", "{migration:?}");
        }
        let mut g = mixed(settings(0));
        g.coordinator.configure_consumer_groups(policy(migration));
        g.send(&beat("m1", -1));
        assert_eq!(g.state() == "none", downgrades, "{migration:?}: {}", g.state());
    }
}

/// As `createConsumerGroupTombstoneRecords` of Apache Kafka, which removes all resolved patterns.
#[test]
fn a_downgrade_removes_the_patterns_of_the_group() {
    let mut g = scene(settings(0), PAIR);
    g.send(&join_by("m1", "fo+"));
    g.tick();
    assert!(g.records().contains("16(fo+"), "it is resolved");
    g.send(&beat("m1", -1));
    let records = g.records();
    assert!(records.contains("16†(fo+"), "{records}");
    assert_eq!(g.state(), "none");
}

/// The leader had not seen that the topic grew. The conversion takes the topic as it is, so no later heartbeat does, either
/// (departure D25).
#[test]
fn a_consumer_that_replaces_a_static_member_finds_partitions_that_no_member_has() {
    let mut g = scene(settings(0), STATIC_PAIR);
    assert_eq!(g.send(&join("m1", FOO).of("ia")), "2 [foo:012]", "all have a member");
    let mut g = scene(settings(0), STATIC_PAIR);
    g.change_topic("foo", 1, 8);
    assert_eq!(g.send(&join("m1", FOO).of("ia")), "3 [foo:0127]");
    assert_eq!(heartbeat(&mut g, "B", Some("ib"), 2), "27");
}

/// A cooperative plan has taken some from B, and gives them to A in the next rebalance, which does not come (departure D25).
#[test]
fn what_a_cooperative_plan_held_back_gets_a_member() {
    let mut record = classic_group(&[("A", Some("ia"), ""), ("B", Some("ib"), "345")]);
    let Record::Group { value: Some(value), .. } = &mut record else { panic!("a group") };
    value.members[1].subscription = metadata("012345").into();
    let mut g = Scene::with_classic(Config::default(), settings(0), &[record]);
    assert_eq!(g.send(&join("m1", FOO).of("ia")), "3 []");
    assert_eq!(heartbeat(&mut g, "B", Some("ib"), 2), "27");
    assert_eq!(rejoin(&mut g, "B", Some("ib"), "345"), "3 leader= of 0");
    assert_eq!(g.send(&beat("m1", 3).of("ia")), "3 [foo:012]");
}

/// No consumer member is left whose heartbeat would look at the topics (departure D22).
#[test]
fn a_topic_that_grows_sends_classic_members_back_when_no_other_is_left() {
    let mut g = mixed(policy(Migration::Upgrade));
    g.send(&beat("m1", -1));
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27");
    assert_eq!(rejoin(&mut g, "A", None, "012"), "4 leader= of 0");
    assert_eq!(sync(&mut g, "A", None, 4), "[foo:012345]");
    g.change_topic("foo", 1, 6);
    assert_eq!(heartbeat(&mut g, "A", None, 4), "0", "it is as it was");
    g.change_topic("foo", 1, 8);
    assert_eq!(heartbeat(&mut g, "A", None, 4), "27");
    assert_eq!(rejoin(&mut g, "A", None, "012345"), "5 leader= of 0");
    assert_eq!(sync(&mut g, "A", None, 5), "[foo:01234567]");
    assert_eq!(heartbeat(&mut g, "A", None, 5), "0");
}

#[test]
fn a_policy_that_is_disabled_keeps_classic_members_out() {
    let mut g = Scene::new(policy(Migration::Disabled));
    g.send(&join("m1", FOO));
    assert_eq!(rejoin(&mut g, "", None, ""), "23");
    let mut g = Scene::new(policy(Migration::Upgrade));
    g.send(&join("m1", FOO));
    assert!(rejoin(&mut g, "", None, "").starts_with("79 "));
}

#[test]
fn a_classic_member_joins_a_consumer_group_with_the_id_that_it_is_given() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.records();
    let answer = rejoin(&mut g, "", None, "");
    let id = answer.strip_prefix("79 ").unwrap().to_owned();
    assert_eq!(id.len(), 22);
    assert_eq!(g.records(), "", "nothing is stored");
    assert_eq!(rejoin(&mut g, &id, None, ""), "3 leader= of 0");
    assert_eq!(sync(&mut g, &id, None, 3), "[]");
    assert_eq!(heartbeat(&mut g, &id, None, 3), "0", "what it waits for is still held");
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    assert_eq!(g.send(&beat("m1", 2).owns("foo:012")), "3 -");
    assert_eq!(heartbeat(&mut g, &id, None, 3), "27", "and free now");
    assert_eq!(rejoin(&mut g, &id, None, ""), "3 leader= of 0");
    assert_eq!(sync(&mut g, &id, None, 3), "[foo:345]");
}

#[test]
fn leave_group_removes_members_of_both_protocols_and_the_last_leaves_an_empty_group() {
    let mut g = mixed(settings(0));
    assert_eq!(leave(&mut g, &[("x", None), ("m1", None), ("A", None)]), "0: 25 0 0");
    assert_eq!(g.records(), "8†(A) 7†(A) 5†(A) 8†(m1) 7†(m1) 5†(m1) 3(4) 6(4, 0)");
    assert_eq!(g.state(), "Empty G4 T4");
    let mut g = mixed(settings(0));
    assert_eq!(leave(&mut g, &[("m1", None)]), "0: 0");
    assert_eq!(g.state(), "none", "the last consumer member has gone");
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27");
}

#[test]
fn leave_group_takes_an_instance_id_alone_and_refuses_that_of_another_member() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO).of("i1"));
    g.send(&join("m2", FOO));
    assert_eq!(leave(&mut g, &[("m2", Some("i1"))]), "0: 82");
    assert_eq!(leave(&mut g, &[("", Some("i9"))]), "0: 25");
    assert_eq!(leave(&mut g, &[("", Some("i1"))]), "0: 0");
    assert_eq!(g.state(), "Assigning G4 T3");
}

#[test]
fn a_member_id_goes_over_to_the_other_protocol() {
    let mut g = mixed(settings(0));
    assert_eq!(g.send(&join("A", FOO)), "3 [foo:012]");
    assert_eq!(heartbeat(&mut g, "A", None, 3), "25");
    assert_eq!(rejoin(&mut g, "m1", None, "345"), "3 leader= of 0");
    assert_eq!(heartbeat(&mut g, "m1", None, 3), "0");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn classic_members_are_refused_as_kafka_refuses_them() {
    let mut g = mixed(settings(0));
    assert_eq!(heartbeat(&mut g, "m1", None, 3), "25", "no classic member");
    assert_eq!(heartbeat(&mut g, "x", None, 3), "25");
    assert_eq!(heartbeat(&mut g, "A", None, 2), "22");
    assert_eq!(sync(&mut g, "m1", None, 3), "25");
    assert_eq!(sync(&mut g, "A", None, 2), "22");
    assert_eq!(sync(&mut g, "A", Some("i"), 3), "25");
    let join = JoinGroup {
        version: 9,
        group_id: Some("g"),
        member_id: "A",
        instance_id: None,
        client_id: "c",
        client_host: "/127.0.0.1",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: &[Protocol { name: RANGE, metadata: b"?" }],
        reason: None,
    };
    assert_eq!(g.ask(Request::JoinGroup(join)), "23", "metadata that is none");
    let connect = JoinGroup { protocol_type: "connect", ..join };
    assert_eq!(g.ask(Request::JoinGroup(connect)), "23");
    let metadata = metadata("");
    let other = [Protocol { name: "sticky", metadata: &metadata }];
    assert_eq!(g.ask(Request::JoinGroup(JoinGroup { member_id: "B", protocols: &other, ..join })), "23");
    assert_eq!(commit(&mut g, 9, "A", 2), "22");
    assert_eq!(commit(&mut g, 9, "A", 3), "0");
}

#[test]
fn a_classic_member_that_does_not_come_back_in_time_is_removed() {
    let mut g = mixed(settings(0));
    assert_eq!(g.send(&join("m2", FOO)), "4 []");
    for _ in 0..5 {
        assert_eq!(heartbeat(&mut g, "A", None, 3), "27");
        g.send(&beat("m1", 3));
        g.send(&beat("m2", 4));
        g.pass(10_000);
    }
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27", "it is alive");
    assert_eq!(g.send(&beat("m1", 3).owns("foo:34")), "4 -");
    g.pass(10_001);
    assert_eq!(heartbeat(&mut g, "A", None, 3), "25", "and has not joined again");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_classic_member_that_does_not_sync_in_time_is_removed() {
    let mut g = mixed(settings(0));
    assert_eq!(rejoin(&mut g, "A", None, "012"), "3 leader= of 0");
    for _ in 0..6 {
        assert_eq!(heartbeat(&mut g, "A", None, 3), "0");
        g.send(&beat("m1", 3));
        g.pass(10_000);
    }
    assert_eq!(heartbeat(&mut g, "A", None, 3), "25");
}

#[test]
fn a_classic_member_has_its_own_session_timeout() {
    let mut g = mixed(settings(0));
    g.pass(29_000);
    assert_eq!(g.send(&beat("m1", 3)), "3 -");
    g.pass(2_000);
    assert_eq!(heartbeat(&mut g, "A", None, 3), "25");
    assert_eq!(g.send(&beat("m1", 3)), "4 [foo:012345]");
}

#[test]
fn an_upgrade_that_was_not_stored_leaves_the_classic_group() {
    let mut g = scene(settings(0), PAIR);
    let first = g.begin(&join("m1", FOO));
    let second = g.begin(&join("m2", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.effects.answers[&first], "15");
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.effects.answers[&second], "15");
    assert_eq!(g.state(), "none");
    assert_eq!(heartbeat(&mut g, "A", None, 2), "0");
    assert_eq!(sync(&mut g, "B", None, 2), "[foo:345]");
    g.coordinator.check_invariants().unwrap();
    assert_eq!(g.send(&join("m1", FOO)), "3 []");
}

#[test]
fn a_commit_in_flight_is_stored_when_the_group_is_upgraded() {
    let mut g = scene(settings(0), PAIR);
    let committing = g.submit(Request::OffsetCommit(commit_by(8, "A", 2)));
    let joining = g.begin(&join("m1", FOO));
    g.settle();
    assert_eq!((&*g.effects.answers[&committing], &*g.effects.answers[&joining]), ("0", "3 []"));
    let offsets: Vec<_> =
        g.coordinator.offsets().map(|(group_id, topic, at, offset)| (&**group_id, &**topic, at, offset)).collect();
    assert_eq!(offsets, [("g", "foo", 0, 1)]);
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_consumer_joins_a_group_that_is_being_deleted_after_its_end() {
    for log in [[stored()], [classic_group(&[])]] {
        let mut g = Scene::from_log(settings(0), &log);
        let deleting = g.submit(Request::DeleteGroup(DeleteGroup { group_id: Some("g") }));
        let joining = g.begin(&join("m1", FOO));
        g.settle();
        assert_eq!((&*g.effects.answers[&deleting], &*g.effects.answers[&joining]), ("0", "2 [foo:012345]"));
        assert_eq!(g.coordinator.offsets().count(), 0);
        g.coordinator.check_invariants().unwrap();
    }
}

/// A commit of another group, for partition 0 of foo.
fn commit_elsewhere(g: &mut Scene) {
    let commit = OffsetCommit { group_id: Some("other"), ..commit_by(8, "", -1) };
    assert_eq!(g.ask(Request::OffsetCommit(commit)), "0");
}

#[test]
fn an_upgrade_that_was_not_stored_leaves_a_classic_group_with_offsets_in_the_log() {
    let mut log = vec![classic_group(PAIR), stored()];
    let classic = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
    let mut g = Scene::with_classic(classic, settings(0), &log);
    let joining = g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.effects.answers[&joining], "15");
    let failed = g.log().len();
    commit_elsewhere(&mut g);
    g.coordinator.check_invariants().unwrap();
    log.extend(g.log().split_off(failed));
    let mut loaded = Scene::from_log(settings(0), &log);
    assert_eq!(heartbeat(&mut loaded, "A", None, 2), "0");
    assert_eq!(sync(&mut loaded, "B", None, 2), "[foo:345]");
}

#[test]
fn a_join_gets_the_error_if_the_end_of_the_empty_group_was_not_stored() {
    let mut g = scene(settings(0), &[]);
    g.send(&join("m1", FOO));
    g.send(&beat("m1", -1));
    assert!(g.state().starts_with("Empty"));
    let joining = with_join("", None, "", |request| g.submit(request));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert!(g.effects.answers[&joining].starts_with("15"), "{}", g.effects.answers[&joining]);
    let written = g.log().len();
    g.settle();
    assert_eq!(g.log().len(), written, "the end of the group is not written again");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_downgrade_that_was_not_stored_leaves_the_consumer_group() {
    let mut g = mixed(settings(0));
    let leaving = g.begin(&beat("m1", -1));
    let waiting = with_join("A", None, "012", |request| g.submit(request));
    let beat_ticket = g.submit(heartbeat_of("A", None, 3));
    assert_eq!(g.effects.answers[&beat_ticket], "0", "a heartbeat does not wait for the append");
    g.fail(ErrorCode::KafkaStorageError);
    assert_eq!(g.effects.answers[&leaving], "16");
    g.settle();
    assert_eq!(g.effects.answers[&waiting], "3 leader= of 0");
    assert_eq!(g.send(&beat("m1", 3)), "3 -");
    assert_eq!(g.state(), "Stable G3 T3");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_consumer_whose_session_expires_takes_the_group_back_to_the_classic_protocol() {
    for error in [None, Some(ErrorCode::NotEnoughReplicas)] {
        let mut g = mixed(ConsumerConfig { session_timeout_ms: 5_000, ..settings(0) });
        g.now_ms += 5_000;
        let now = g.now();
        g.coordinator.advance(now, &mut g.effects);
        g.coordinator.check_invariants().unwrap();
        match error {
            Some(error) => g.fail(error),
            None => g.settle(),
        }
        g.coordinator.check_invariants().unwrap();
        assert_eq!(g.state() == "none", error.is_none());
        assert_eq!(heartbeat(&mut g, "A", None, 3), if error.is_none() { "27" } else { "0" });
    }
}

#[test]
fn a_member_that_leaves_with_a_downgrade_is_unknown_at_once() {
    let mut g = scene(settings(0), PAIR);
    g.send(&join("m1", FOO));
    let gone = ["m1", "B"].map(|member_id| LeaveIdentity { member_id, instance_id: None, reason: None });
    let leave = LeaveGroup { version: 5, group_id: Some("g"), members: &gone };
    let leaving = g.submit(Request::LeaveGroup(leave));
    let beats = ["A", "B"].map(|member_id| g.submit(heartbeat_of(member_id, None, 2)));
    assert_eq!(beats.map(|ticket| g.effects.answers[&ticket].clone()), ["27", "25"]);
    g.fail(ErrorCode::NotLeaderOrFollower);
    assert_eq!(g.effects.answers[&leaving], "16: ");
    assert_eq!(heartbeat(&mut g, "B", None, 2), "27", "the batch was refused, so it is a member again");
}

#[test]
fn what_waits_for_a_downgrade_finds_the_classic_group() {
    let mut g = mixed(settings(0));
    g.begin(&beat("m1", -1));
    let waiting = with_join("A", None, "012", |request| g.submit(request));
    g.settle();
    assert_eq!(g.effects.answers[&waiting], "4 leader=A of 1");
}

#[test]
fn parked_requests_are_sent_back_when_the_group_is_upgraded() {
    let mut g = scene(settings(0), PAIR);
    let parked = with_join("A", None, "012", |request| g.submit(request));
    assert!(!g.effects.answers.contains_key(&parked));
    assert_eq!(g.send(&join("m1", FOO)), "3 []");
    assert_eq!(g.effects.answers[&parked], "27 A");
    assert_eq!(rejoin(&mut g, "A", None, "012"), "2 leader= of 0");
}

#[test]
fn a_mixed_group_is_the_same_after_a_load() {
    let mut g = scene(settings(0), PAIR);
    g.send(&join("m1", FOO));
    rejoin(&mut g, "A", None, "012");
    let mut log = vec![classic_group(PAIR)];
    log.extend(g.log());
    let mut loaded = Scene::from_log(settings(0), &log);
    assert_eq!(loaded.state(), g.state());
    assert_eq!(heartbeat(&mut loaded, "A", None, 2), "27");
    assert_eq!(rejoin(&mut loaded, "A", None, "01"), "3 leader= of 0");
    loaded.send(&beat("m1", -1));
    assert_eq!(loaded.state(), "none");
    log.extend(loaded.log());
    let mut classic = Scene::from_log(settings(0), &log);
    assert_eq!(heartbeat(&mut classic, "A", None, 3), "27", "the classic group of the downgrade rebalances");
    classic.coordinator.check_invariants().unwrap();
}

#[test]
fn an_upgrade_of_a_full_group_is_refused_and_the_group_stays_classic() {
    let mut g = scene(ConsumerConfig { max_size: 2, ..settings(0) }, PAIR);
    assert!(g.send(&join("m1", FOO)).starts_with("81 "));
    assert_eq!(heartbeat(&mut g, "A", None, 2), "0");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_failed_step_leaves_a_classic_member_its_deadline_to_sync_and_its_session() {
    let mut g = joined_without_sync();
    // The member goes over to the other protocol, but that is not stored.
    g.begin(&join("A", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    g.coordinator.check_invariants().unwrap();
    let before = g.now_ms;
    g.send(&beat("m1", 3));
    let view = g.coordinator.view_consumer_group("g").unwrap();
    let a = view.members.iter().find(|one| &*one.member_id == "A").unwrap();
    assert_eq!(a.rebalance_ends_ms, Some(before + 60_000), "a whole rebalance timeout to sync");
    let mut g = joined_without_sync();
    leave_and_fail(&mut g, "A");
    let view = g.coordinator.view_consumer_group("g").unwrap();
    let a = view.members.iter().find(|one| &*one.member_id == "A").unwrap();
    assert_eq!(a.session_ends_ms, Some(g.now_ms + 30_000), "the session timeout that it asked for");
    assert_eq!(a.rebalance_ends_ms, Some(g.now_ms + 60_000));
    g.coordinator.check_invariants().unwrap();
}

/// A LeaveGroup of the member whose records are not stored.
fn leave_and_fail(g: &mut Scene, member_id: &str) {
    let members = [LeaveIdentity { member_id, instance_id: None, reason: None }];
    g.submit(Request::LeaveGroup(LeaveGroup { version: 5, group_id: Some("g"), members: &members }));
    g.fail(ErrorCode::NotEnoughReplicas);
}

#[test]
fn a_removal_for_a_missing_sync_that_was_not_stored_is_tried_again() {
    let mut g = joined_without_sync();
    beats(&mut g, 59_000);
    g.now_ms += 1_000;
    let now = g.now();
    g.coordinator.advance(now, &mut g.effects);
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(heartbeat(&mut g, "A", None, 3), "0", "it is still there");
    beats(&mut g, 60_000);
    assert_eq!(heartbeat(&mut g, "A", None, 3), "25", "and is removed now");
}

#[test]
fn a_member_that_comes_to_the_consumer_protocol_with_partitions_to_give_up_has_a_rebalance_timeout() {
    let mut g = scene(settings(0), &[("A", None, "012345")]);
    g.send(&join("m1", FOO));
    assert!(rejoin(&mut g, "A", None, "012345").starts_with("2 "), "it has to give up 345");
    let goes_over = Beat { rebalance_timeout_ms: 10_000, ..beat("A", 2).owns("foo:012345") };
    assert!(g.send(&goes_over).starts_with("2 "));
    let group = g.coordinator.view_consumer_group("g").unwrap();
    let a = group.members.iter().find(|one| &*one.member_id == "A").unwrap();
    assert_eq!((a.revoking.len(), a.rebalance_ends_ms), (3, Some(g.now_ms + 10_000)));
    g.coordinator.check_invariants().unwrap();
    let end = g.now_ms + 10_000;
    while g.now_ms < end {
        g.pass(1_000);
        g.send(&beat("A", 2));
        g.send(&beat("m1", 3));
    }
    assert!(g.send(&beat("A", 2)).starts_with("25 "), "it is removed");
}

#[test]
fn a_member_goes_although_the_classic_group_is_too_large_for_a_batch() {
    for error in [ErrorCode::MessageTooLarge, ErrorCode::RecordListTooLarge] {
        let mut g = mixed(settings(0));
        let leaving = g.begin(&beat("m1", -1));
        g.fail(error);
        assert!(!g.effects.answers.contains_key(&leaving), "it waits for the removal");
        g.settle();
        assert_eq!(g.effects.answers[&leaving], "-1 -");
        assert_eq!(g.state(), "Assigning G4 T3", "a consumer group of classic members");
        g.coordinator.check_invariants().unwrap();
        assert_eq!(heartbeat(&mut g, "A", None, 3), "27", "no consumer member is left to compute a target");
        assert!(rejoin(&mut g, "A", None, "012").starts_with("4 "));
        assert_eq!(heartbeat(&mut g, "A", None, 4), "0");
        // Another member comes and goes: nothing is tried that the log has refused.
        g.send(&join("m2", FOO));
        g.records();
        assert_eq!(g.send(&beat("m2", -1)), "-1 -");
        assert!(!g.records().ends_with(" 2"), "no record of a classic group");
    }
}
