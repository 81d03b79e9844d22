//! Settings of one group, and what the coordinator tells of its groups.

use rota_core::{
    Request,
    consumer_group::config::{ConsumerConfig, GroupSettings, Timing},
    request::{ConsumerGroupDescribe, WriteTxnMarker},
};

use crate::{
    classic::FOO,
    offsets::{commit, commit_by, commit_in_transaction},
    scene::{Scene, beat, join, settings},
};

#[test]
fn each_setting_of_a_group_is_known_by_its_name() {
    let mut own = GroupSettings::default();
    for (name, value) in [
        (GroupSettings::ASSIGNMENT_INTERVAL, 1),
        (GroupSettings::HEARTBEAT_INTERVAL, 2),
        (GroupSettings::SESSION_TIMEOUT, 3),
    ] {
        *own.value_mut(name).expect(name) = Some(value);
    }
    let all =
        GroupSettings { assignment_interval_ms: Some(1), heartbeat_interval_ms: Some(2), session_timeout_ms: Some(3) };
    assert_eq!(own, all);
    assert_eq!(own.value_mut("consumer.unknown"), None);
}

#[test]
fn a_group_has_its_own_settings_until_they_are_the_brokers_again() {
    let mut g = Scene::new(settings(0));
    let of_broker = Timing { session_timeout_ms: 45_000, heartbeat_interval_ms: 5_000, assignment_interval_ms: 0 };
    assert_eq!(g.coordinator.timing_of("g"), of_broker);
    let own = GroupSettings { session_timeout_ms: Some(50_000), ..GroupSettings::default() };
    g.coordinator.configure_group("g", own);
    assert_eq!(g.coordinator.timing_of("g"), Timing { session_timeout_ms: 50_000, ..of_broker });
    assert_eq!(g.coordinator.timing_of("other"), of_broker);
    g.send(&join("m1", FOO));
    g.pass(45_500);
    assert_eq!(g.send(&beat("m1", 2)), "2 -", "its session lasts longer than the broker's");
    g.coordinator.configure_group("g", GroupSettings::default());
    assert_eq!(g.coordinator.timing_of("g"), of_broker);
}

#[test]
fn the_settings_of_all_groups_are_those_that_were_given() {
    let config = ConsumerConfig { max_size: 7, ..settings(3) };
    assert_eq!(Scene::new(config.clone()).coordinator.consumer_config(), &config);
}

#[test]
fn the_groups_are_those_that_are_there() {
    let mut g = Scene::new(settings(0));
    let ids = |g: &Scene| g.coordinator.consumer_group_ids().map(ToString::to_string).collect::<Vec<_>>();
    assert!(ids(&g).is_empty());
    g.send(&join("m1", FOO));
    assert_eq!(ids(&g), ["g"]);
}

/// A topic that is changed keeps its id; one that was made anew has another.
#[test]
fn a_topic_that_is_made_anew_is_looked_at_with_the_next_heartbeat() {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join("m1", &["one"])), "2 [one:0]");
    g.change_topic("one", 3, 1);
    assert_eq!(g.send(&beat("m1", 2)), "2 -", "nothing has changed");
    g.change_topic("one", 3, 2);
    assert_eq!(g.send(&beat("m1", 2)), "3 [one:01]");
}

/// A member at the epoch of the target goes on with the next one (docs/consumer-protocol.md §6.1).
#[test]
fn partitions_of_a_deleted_topic_stay_until_the_next_target() {
    let mut g = Scene::new(settings(1_000));
    assert_eq!(g.send(&join("m1", &["foo", "one"])), "2 [foo:012345 one:0]");
    g.now_ms += 300;
    g.delete_topic("one");
    g.records();
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    assert_eq!(g.records(), "3(3)");
    g.now_ms += 700;
    assert_eq!(g.send(&beat("m1", 2)), "2 [foo:012345]");
}

fn describe(g: &mut Scene, group_id: &str) -> String {
    g.ask(Request::ConsumerGroupDescribe(ConsumerGroupDescribe { group_id }))
}

#[test]
fn a_description_has_what_each_member_holds_and_is_to_hold_by_topic() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", &["foo", "one"]));
    assert_eq!(g.send(&join("m2", FOO)), "3 []");
    let told = describe(&mut g, "g");
    let foo = |partitions: &str| format!("NamedTopic {{ topic_id: 1, topic: \"foo\", partitions: [{partitions}] }}");
    let one = "NamedTopic { topic_id: 3, topic: \"one\", partitions: [0] }";
    let holds = format!("assignment: [{}, {one}]", foo("0, 1, 2, 3, 4, 5"));
    assert!(told.contains(&holds), "{told}");
    assert!(told.contains(&format!("target_assignment: [{}", foo("0, 1, 2"))), "{told}");
    assert!(told.contains(&format!("target_assignment: [{}]", foo("3, 4, 5"))), "{told}");
    g.delete_topic("one");
    let told = describe(&mut g, "g");
    assert!(told.contains(&foo("0, 1, 2, 3, 4, 5")) && !told.contains("\"one\", partitions"), "{told}");
    assert_eq!(describe(&mut g, "other"), "69 Group other not found.");
}

#[test]
fn a_group_without_members_ends_with_a_run_of_the_cleaner_unless_it_has_offsets() {
    for has_offsets in [false, true] {
        let mut g = Scene::new(settings(0));
        g.send(&join("m1", FOO));
        if has_offsets {
            assert_eq!(commit(&mut g, 9, "m1", 2), "0");
        }
        assert_eq!(g.send(&beat("m1", -1)), "-1 -");
        g.pass(700_000);
        assert_eq!(g.state() == "none", !has_offsets, "{}", g.state());
    }
}

/// Its offsets count once the transaction commits, whether the cleaner has run before or not.
#[test]
fn a_group_whose_offsets_a_transaction_has_yet_to_decide_does_not_end() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    assert_eq!(commit_in_transaction(&mut g, 5, ("m1", None, 2), "foo"), "0");
    assert_eq!(g.send(&beat("m1", -1)), "-1 -");
    g.pass(700_000);
    assert_eq!(g.state(), "Empty G3 T3");
    let marker = WriteTxnMarker {
        producer_id: 7,
        producer_epoch: 0,
        coordinator_epoch: 0,
        is_commit: true,
        transactional_id: None,
    };
    assert_eq!(g.ask(Request::WriteTxnMarker(marker)), "0");
    g.pass(700_000);
    assert_eq!((g.state().as_str(), g.coordinator.offset_count()), ("Empty G3 T3", 1));
}

#[test]
fn a_group_with_a_commit_in_flight_does_not_end() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    assert_eq!(g.send(&beat("m1", -1)), "-1 -");
    g.now_ms += 600_001;
    let ticket = g.submit(Request::OffsetCommit(commit_by(9, "", -1)));
    g.tick();
    assert_eq!(g.effects.answers[&ticket], "0");
    assert_eq!((g.state().as_str(), g.coordinator.offset_count()), ("Empty G3 T3", 1));
}
