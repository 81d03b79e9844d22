//! Requests, answers and records as Kafka 4.4.0 gave them.

use crate::scene::{Beat, Scene, beat, join, settings};

const FOO: &[&str] = &["foo"];
const BOTH: &[&str] = &["bar", "foo"];

#[test]
fn v1_a_second_member_waits_for_the_interval() {
    let mut g = Scene::new(settings(1_000));
    assert_eq!(g.send(&join("m1", FOO)), "2 [foo:012345]");
    assert_eq!(g.records(), "5(m1) 3(2) 7(m1 foo:012345) 6(2) 8(m1 e2 prev 0 STABLE foo:012345@2)");
    g.pass(60);
    assert_eq!(g.send(&join("m2", FOO)), "2 []");
    assert_eq!(g.records(), "5(m2) 3(3) 8(m2 e2 prev 0 STABLE 0)");
    assert_eq!(g.state(), "Assigning G3 T2");
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    assert_eq!(g.send(&beat("m2", 2)), "2 -");
    g.pass(1_030);
    assert_eq!(g.send(&beat("m2", 2)), "3 -");
    assert_eq!(g.records(), "7(m1 foo:012) 7(m2 foo:345) 6(3) 8(m2 e3 prev 2 UNRELEASED 0)");
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    assert_eq!(g.state(), "Reconciling G3 T3");
}

#[test]
fn v2_a_join_that_changes_nothing_writes_no_epoch() {
    let mut g = Scene::new(settings(1_000));
    assert_eq!(g.send(&join("m", &[])), "1 []");
    assert_eq!(g.records(), "5(m) 8(m e1 prev 0 STABLE 0)");
    assert_eq!(g.send(&beat("m", 1)), "1 -");
    assert!(g.send(&beat("m", 2)).starts_with("110 "));
    assert_eq!(g.state(), "Stable G1 T1");
    let mut g = Scene::from_log(settings(1_000), &g.log());
    assert_eq!(g.state(), "Stable G1 T1");
    assert_eq!(g.send(&beat("m", 1)), "1 -");
    assert_eq!(g.send(&beat("m", 1).names(FOO)), "2 [foo:012345]");
    assert_eq!(g.records(), "5(m) 3(2) 7(m foo:012345) 6(2) 8(m e2 prev 1 STABLE foo:012345@2)");
}

#[test]
fn v3_three_members_share_two_topics() {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join("m1", BOTH)), "2 [bar:012 foo:012345]");
    assert_eq!(g.send(&join("m2", BOTH)), "3 []");
    let kept = g.send(&beat("m1", 2));
    let kept = kept.trim_start_matches("2 [").trim_end_matches(']').to_owned();
    assert_eq!(kept.chars().filter(char::is_ascii_digit).count(), 5, "{kept}");
    assert_eq!(g.send(&beat("m1", 2).owns("foo:012345 bar:012")), "2 -", "not given up yet");
    assert_eq!(g.send(&beat("m1", 2).owns(&kept)), "3 -");
    let second = g.send(&beat("m2", 3));
    assert_eq!(second.chars().filter(char::is_ascii_digit).count(), 1 + 4, "{second}");
    assert_eq!(g.send(&join("m3", BOTH)), "4 []");
    assert_eq!(g.state(), "Reconciling G4 T4");
    for (member, epoch) in [("m1", 3), ("m2", 3)] {
        let answer = g.send(&beat(member, epoch));
        let owned = answer.trim_start_matches("3 [").trim_end_matches(']').to_owned();
        assert!(answer.starts_with("3 ["), "{answer}");
        assert_eq!(g.send(&beat("m3", 4)).split(' ').next(), Some("4"));
        assert_eq!(g.send(&beat(member, epoch).owns(&owned)), "4 -");
    }
    assert_ne!(g.send(&beat("m3", 4)), "4 -");
    assert_eq!(g.state(), "Stable G4 T4");
}

#[test]
fn v4_a_target_that_moves_is_reached_through_another_revocation() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&join("m2", FOO));
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    assert_eq!(g.send(&join("m3", FOO)), "4 []");
    assert_eq!(g.send(&beat("m1", 2).owns("foo:012345")), "2 -");
    g.records();
    let answer = g.send(&beat("m1", 2).owns("foo:012"));
    assert!(answer.starts_with("2 [foo:") && answer.len() == "2 [foo:01]".len(), "{answer}");
    let owned = answer.trim_start_matches("2 [").trim_end_matches(']').to_owned();
    assert!(g.records().starts_with("8(m1 e2 prev 2 UNREVOKED foo:"));
    assert_eq!(g.send(&beat("m1", 2).owns(&owned)), "4 -");
    assert!(g.send(&beat("m2", 3)).starts_with("4 [foo:"));
    assert!(g.send(&beat("m3", 4)).starts_with("4 [foo:"));
    assert_eq!(g.state(), "Stable G4 T4");
}

#[test]
fn v5_epochs_are_current_or_the_previous_one_with_a_report() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", BOTH));
    g.send(&join("m2", FOO));
    let first = g.send(&beat("m1", 2));
    let owned = first.trim_start_matches("2 [").trim_end_matches(']').to_owned();
    assert_eq!(g.send(&beat("m1", 2).owns(&owned)), "3 -");
    g.records();
    assert!(g.send(&beat("m1", 2)).starts_with("110 The consumer group member has a smaller member epoch (2)"));
    assert_eq!(g.send(&beat("m1", 2).owns(&owned)), "3 -");
    assert_eq!(g.send(&beat("m1", 2).owns("")), "3 -");
    assert!(g.send(&beat("m1", 2).owns("one:0")).starts_with("110 "));
    assert!(g.send(&beat("m1", 1).owns("")).starts_with("110 "));
    let ahead = "110 The consumer group member has a greater member epoch (4) than the one known by the group \
                 coordinator (3). The member must abandon all its partitions and rejoin.";
    assert_eq!(g.send(&beat("m1", 4)), ahead);
    assert_eq!(g.send(&join("m1", BOTH)), format!("3 [{owned}]"));
    assert_eq!(g.records(), "", "none of them writes");
}

#[test]
fn v6_what_is_not_subscribed_to_any_more_is_given_up_at_once() {
    let mut g = Scene::new(settings(1_000));
    g.send(&join("m", BOTH));
    g.records();
    assert_eq!(g.send(&beat("m", 2).names(FOO)), "2 [foo:012345]");
    assert_eq!(g.records(), "5(m) 3(3) 8(m e2 prev 2 UNREVOKED foo:012345@2 V bar:012@2)");
    assert_eq!(g.send(&beat("m", 2)), "2 -");
    assert_eq!(g.send(&beat("m", 2).owns("foo:012345")), "2 -");
    assert_eq!(g.records(), "8(m e2 prev 2 STABLE foo:012345@2)");
    g.pass(1_100);
    assert_eq!(g.send(&beat("m", 2)), "3 -");
    assert_eq!(g.records(), "7(m foo:012345) 6(3) 8(m e3 prev 2 STABLE foo:012345@2)");
}

#[test]
fn v6b_a_report_in_the_same_request_skips_the_revocation() {
    let mut g = Scene::new(settings(1_000));
    g.send(&join("m", BOTH));
    g.records();
    assert_eq!(g.send(&beat("m", 2).names(FOO).owns("foo:012345")), "2 [foo:012345]");
    assert_eq!(g.records(), "5(m) 3(3) 8(m e2 prev 2 STABLE foo:012345@2)");
    assert_eq!(g.send(&beat("m", 2).names(&[])), "2 []");
    assert_eq!(g.records(), "5(m) 3(4) 8(m e2 prev 2 UNREVOKED 0 V foo:012345@2)");
    assert_eq!(g.send(&beat("m", 2).owns("")), "2 -");
    assert_eq!(g.send(&beat("m", 2).names(BOTH)), "2 -");
    g.pass(1_100);
    assert_eq!(g.send(&beat("m", 2)), "5 [bar:012 foo:012345]");
}

#[test]
fn v7_what_is_being_given_up_comes_back_after_the_acknowledgment() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&join("m2", FOO));
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    g.records();
    assert_eq!(g.send(&beat("m2", -1)), "-1 -");
    assert_eq!(g.records(), "8†(m2) 7†(m2) 5†(m2) 3(4)");
    assert_eq!(g.send(&beat("m1", 2).owns("foo:012345")), "2 -");
    assert_eq!(g.records(), "7(m1 foo:012345) 6(4)");
    assert_eq!(g.send(&beat("m1", 2).owns("foo:012")), "4 [foo:012345]");
    assert_eq!(g.records(), "8(m1 e4 prev 2 STABLE foo:012@2,foo:345@4)");
}

#[test]
fn v8_static_members_leave_for_a_while_and_come_back_under_another_id() {
    let mut g = Scene::new(settings(0));
    g.send(&join("a1", FOO).of("i1"));
    g.send(&join("b1", FOO).of("i2"));
    assert_eq!(g.send(&beat("a1", 2).of("i1").owns("foo:012")), "3 [foo:012]");
    assert_eq!(g.send(&beat("b1", 3).of("i2")), "3 [foo:345]");
    let owned_by_a1 = "cannot join the group because the instance id is owned by a1 member.";
    assert_eq!(g.send(&join("a1", FOO).of("i1")), format!("111 Static member a1 with instance id i1 {owned_by_a1}"));
    assert_eq!(g.send(&join("a2", FOO).of("i1")), format!("111 Static member a2 with instance id i1 {owned_by_a1}"));
    assert_eq!(g.send(&beat("a2", 3).of("i1")), "82 Static member a2 with instance id i1 was fenced by member a1.");
    assert_eq!(g.send(&beat("a1", 3).of("i9")), "25 Instance id i9 is unknown.");
    assert_eq!(g.send(&beat("a1", 3)), "3 -");
    g.records();
    assert_eq!(g.send(&beat("a1", -2).of("i1")), "-2 -");
    assert_eq!(g.records(), "8(a1 e-2 prev 2 STABLE foo:012@0)");
    assert!(g.send(&beat("a1", 3).of("i1")).starts_with("110 "));
    assert_eq!(g.send(&beat("a1", -2).of("i1")), "-2 -");
    g.records();
    assert_eq!(g.send(&join("a2", FOO).of("i1")), "3 [foo:012]");
    assert_eq!(
        g.records(),
        "8†(a1) 7†(a1) 5†(a1) 5(a2) 7(a2 foo:012) 8(a2 e0 prev 0 STABLE foo:012@0) 8(a2 e3 prev 0 STABLE foo:012@0)"
    );
    assert_eq!(g.state(), "Stable G3 T3");
    assert_eq!(g.send(&beat("a1", 3).of("i1")), "82 Static member a1 with instance id i1 was fenced by member a2.");
    assert_eq!(g.send(&beat("a1", 3)), "25 Member a1 is not a member of group g.");
    g.send(&beat("a2", -2).of("i1"));
    g.records();
    let back = g.send(&join("a3", BOTH).of("i1"));
    assert!(back.starts_with("4 ["), "{back}");
    assert!(g.records().contains("8(a3 e0 prev 0 STABLE foo:012@0) 5(a3) 3(4) "));
}

#[test]
fn v9_a_member_that_is_not_heard_or_gives_nothing_up_is_removed() {
    let config = rota_core::consumer_group::config::ConsumerConfig { session_timeout_ms: 1_500, ..settings(0) };
    let mut g = Scene::new(config);
    g.send(&join("m1", FOO));
    g.send(&join("m2", FOO));
    g.records();
    g.pass(1_000);
    assert_eq!(g.send(&beat("m2", 3)), "3 -");
    g.records();
    g.pass(600);
    assert_eq!(g.records(), "8†(m1) 7†(m1) 5†(m1) 3(4)");
    assert_eq!(g.send(&beat("m2", 3)), "4 [foo:012345]");
    assert_eq!(g.records(), "7(m2 foo:012345) 6(4) 8(m2 e4 prev 3 STABLE foo:012345@4)");
    assert_eq!(g.send(&beat("m1", 2)), "25 Member m1 is not a member of group g.");
    let slow = Beat { rebalance_timeout_ms: 800, ..join("m1", FOO) };
    let mut g = Scene::new(settings(0));
    g.send(&slow);
    g.send(&join("m2", FOO));
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012]");
    g.pass(700);
    assert_eq!(g.send(&beat("m1", 2)), "2 -", "a heartbeat does not extend it");
    g.pass(150);
    assert_eq!(g.send(&beat("m1", 2)), "25 Member m1 is not a member of group g.");
    assert_eq!(g.state(), "Assigning G4 T3");
    assert_eq!(g.send(&beat("m2", 3)), "4 [foo:012345]");
}

#[test]
fn v10_the_last_member_leaves_an_empty_target_behind() {
    let mut g = Scene::new(settings(1_000));
    g.send(&join("m1", FOO));
    g.records();
    assert_eq!(g.send(&beat("m1", -1)), "-1 -");
    assert_eq!(g.records(), "8†(m1) 7†(m1) 5†(m1) 3(3) 6(3, 0)");
    assert_eq!(g.state(), "Empty G3 T3");
    assert_eq!(g.send(&join("m2", FOO)), "4 [foo:012345]");
    assert_eq!(g.records(), "5(m2) 3(4) 7(m2 foo:012345) 6(4) 8(m2 e4 prev 0 STABLE foo:012345@4)");
    assert_eq!(g.send(&beat("m2", -1)), "-1 -");
    g.records();
    assert_eq!(g.ask(rota_core::Request::DeleteGroup(rota_core::request::DeleteGroup { group_id: Some("g") })), "0");
    assert_eq!(g.records(), "6† 4† 3†");
    assert_eq!(g.state(), "none");
}

#[test]
fn requests_are_refused_in_the_order_of_kafka() {
    let mut g = Scene::new(settings(0));
    let valid = join("m", FOO);
    let cases = [
        (Beat { member_id: " ", group_id: "", ..valid.clone() }, "42 MemberId can't be empty."),
        (Beat { group_id: " ", instance_id: Some(""), ..valid.clone() }, "42 GroupId can't be empty."),
        (Beat { instance_id: Some(" "), rack_id: Some(""), ..valid.clone() }, "42 InstanceId can't be empty."),
        (Beat { rack_id: Some(""), rebalance_timeout_ms: -1, ..valid.clone() }, "42 RackId can't be empty."),
        (
            Beat { rebalance_timeout_ms: -1, owned: None, ..valid.clone() },
            "42 RebalanceTimeoutMs must be provided in first request.",
        ),
        (Beat { owned: None, names: None, ..valid.clone() }, "42 TopicPartitions must be empty when (re-)joining."),
        (Beat { owned: Some("foo:0"), ..valid.clone() }, "42 TopicPartitions must be empty when (re-)joining."),
        (
            Beat { names: None, assignor: Some("nope"), ..valid.clone() },
            "42 Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (beat("m", -2), "42 InstanceId can't be null."),
        (beat("m", -3), "42 MemberEpoch is invalid."),
        (
            Beat { assignor: Some("nope"), ..beat("m", -1) },
            "112 ServerAssignor nope is not supported. Supported assignors: uniform, range.",
        ),
        (beat("m", 3), "69 Consumer group g not found."),
        (beat("m", -1), "69 Group g not found."),
        (Beat { version: 0, ..beat("", -2).of("i") }, "69 Group g not found."),
        (Beat { version: 0, ..beat("", -1) }, "42 MemberId can't be empty."),
    ];
    for (request, refusal) in cases {
        assert_eq!(g.send(&request), refusal);
    }
    assert_eq!(g.records(), "");
    let mut off = Scene::new(rota_core::consumer_group::config::ConsumerConfig::default());
    assert_eq!(off.send(&beat("", -7)), "35");
}

#[test]
fn a_full_group_takes_in_who_it_knows() {
    let config = rota_core::consumer_group::config::ConsumerConfig { max_size: 2, ..settings(0) };
    let mut g = Scene::new(config);
    g.send(&join("m1", FOO));
    g.send(&join("a1", FOO).of("i1"));
    assert_eq!(g.send(&join("m3", FOO)), "81 The consumer group has reached its maximum capacity of 2 members.");
    assert!(g.send(&join("a2", FOO).of("i1")).starts_with("111 "));
    assert!(g.send(&join("m1", FOO)).starts_with("3 "));
}

#[test]
fn a_member_of_version_0_is_given_an_id() {
    let mut g = Scene::new(settings(0));
    assert!(g.send(&Beat { version: 0, ..join("", FOO) }).starts_with("2 "));
    let ids: Vec<String> =
        g.coordinator.consumer_group("g").unwrap().members().map(|(id, ..)| id.to_string()).collect();
    assert_eq!(ids.len(), 1);
    assert!(ids[0].len() == 22 && ids[0].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
}

#[test]
fn an_assignor_is_chosen_by_most_members_and_a_change_of_it_computes_anew() {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&Beat { assignor: Some("range"), ..join("m1", BOTH) }), "2 [bar:012 foo:012345]");
    g.send(&join("m2", BOTH));
    g.records();
    assert_eq!(g.send(&Beat { assignor: Some("uniform"), ..beat("m2", 3) }).split(' ').next(), Some("4"));
    assert!(g.records().starts_with("5(m2) 3(4)"), "1 : 1 is uniform");
    g.send(&Beat { assignor: Some("uniform"), ..beat("m1", 2) });
    assert!(!g.records().contains("3("), "the winner is the same");
}

#[test]
fn a_topic_that_grows_goes_or_is_made_again_changes_the_group() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m", FOO));
    g.change_topic("foo", 1, 8);
    assert_eq!(g.send(&beat("m", 2)), "3 [foo:01234567]");
    g.change_topic("one", 3, 2);
    assert_eq!(g.send(&beat("m", 3)), "3 -", "no member subscribes to it");
    g.records();
    let now = g.now();
    g.coordinator.topics_deleted(&["foo"], now, &mut g.effects);
    assert_eq!(g.send(&beat("m", 3)), "3 []");
    assert_eq!(g.send(&beat("m", 3).owns("")), "4 -");
    g.change_topic("foo", 3, 2);
    assert_eq!(g.send(&beat("m", 4)), "5 [one:01]", "the new topic has another id");
}
