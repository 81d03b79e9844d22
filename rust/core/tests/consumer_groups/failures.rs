//! Appends that take long or fail, and coordinators that begin anew.

use rota_core::ErrorCode;

use crate::{
    classic::{PAIR, heartbeat, scene},
    offsets::commit,
    scene::{Scene, beat, join, settings},
};

const FOO: &[&str] = &["foo"];

#[test]
fn an_answer_waits_for_its_records_and_later_requests_wait_behind_it() {
    let mut g = Scene::new(settings(0));
    let first = g.begin(&join("m1", FOO));
    let second = g.begin(&join("m2", FOO));
    let third = g.begin(&beat("m1", 2));
    assert!(g.effects.answers.is_empty());
    assert_eq!(g.effects.appends.len(), 1, "one append at a time");
    g.settle();
    assert_eq!(g.effects.answers[&first], "2 [foo:012345]");
    assert_eq!(g.effects.answers[&second], "3 []");
    assert_eq!(g.effects.answers[&third], "2 [foo:012]");
}

#[test]
fn a_failed_append_leaves_the_group_as_it_was() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    let before = g.state();
    let join_of_m2 = g.begin(&join("m2", FOO));
    let waiting = g.begin(&beat("m1", 2));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.effects.answers[&join_of_m2], "15");
    assert_eq!(g.effects.answers[&waiting], "2 -");
    assert_eq!(g.state(), before);
    assert_eq!(g.send(&beat("m2", 3)), "25 Member m2 is not a member of group g.");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn of_two_members_that_the_log_gives_one_partition_the_later_has_it() {
    let mut g = Scene::new(settings(0));
    g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.send(&join("m2", FOO)), "2 [foo:012345]");
    // The log has the records of the failed append, too.
    let mut g = Scene::from_log(settings(0), &g.log());
    g.coordinator.check_invariants().unwrap();
    assert_eq!(g.send(&join("m1", FOO)), "2 []");
    assert_eq!(g.send(&beat("m2", 2)), "2 -");
}

#[test]
fn a_generation_after_an_upgrade_that_was_stored_and_reported_as_failed_is_loaded() {
    let mut g = scene(settings(0), PAIR);
    g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(commit(&mut g, 9, "A", 2), "0", "the record of the classic group is written again with it");
    let mut g = Scene::from_log(settings(0), &g.log());
    assert_eq!(g.state(), "none", "it is a classic group");
    assert_eq!((heartbeat(&mut g, "A", None, 2), heartbeat(&mut g, "B", None, 2)), ("0".to_owned(), "0".to_owned()));
}

#[test]
fn a_leave_that_was_not_stored_leaves_a_member_whose_session_runs() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.begin(&beat("m1", -1));
    g.fail(ErrorCode::KafkaStorageError);
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    g.pass(46_000);
    assert_eq!(g.state(), "Empty G3 T3");
}

#[test]
fn a_first_join_that_was_not_stored_leaves_no_group() {
    let mut g = Scene::new(settings(0));
    g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotLeaderOrFollower);
    assert_eq!(g.state(), "none");
    assert_eq!(g.send(&beat("m1", 2)), "69 Consumer group g not found.");
}

#[test]
fn a_request_that_waits_for_too_long_is_told_so_and_the_append_counts_later() {
    let mut g = Scene::new(settings(0));
    let first = g.begin(&join("m1", FOO));
    g.now_ms += 3_000;
    let second = g.begin(&join("m2", FOO));
    g.now_ms += 3_000;
    let now = g.now();
    g.coordinator.advance(now, &mut g.effects);
    assert_eq!(g.effects.answers[&first], "15");
    g.now_ms += 3_000;
    let now = g.now();
    g.coordinator.advance(now, &mut g.effects);
    assert_eq!(g.effects.answers[&second], "15");
    g.settle();
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
}

#[test]
fn who_waits_when_ownership_is_lost_is_answered() {
    let mut g = Scene::new(settings(0));
    let asked = [g.begin(&join("m1", FOO)), g.begin(&join("m2", FOO))];
    let now = g.now();
    g.coordinator.unload(now, &mut g.effects);
    for ticket in asked {
        assert_eq!(g.effects.answers[&ticket], "16");
    }
}

#[test]
fn a_group_is_the_same_after_a_reload_and_after_a_compaction() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&join("a1", FOO).of("i1"));
    g.send(&beat("m1", 2));
    g.send(&beat("a1", -2).of("i1"));
    let log = g.log();
    let reloaded = Scene::from_log(settings(0), &log);
    let newest =
        (0..log.len()).filter(|at| log[at + 1..].iter().all(|later| later.key_bytes() != log[*at].key_bytes()));
    let compacted: Vec<_> = newest.map(|at| log[at].clone()).collect();
    assert!(compacted.len() < log.len());
    let compacted = Scene::from_log(settings(0), &compacted);
    let shown = |scene: &Scene| {
        let group = scene.coordinator.consumer_group("g").unwrap();
        let members: Vec<String> = group
            .members()
            .map(|(id, member, value)| format!("{id} {:?} {:?} {value:?}", member.target, member.current))
            .collect();
        (scene.state(), members)
    };
    assert_eq!(shown(&g), shown(&reloaded));
    assert_eq!(shown(&g), shown(&compacted));
}

#[test]
fn a_snapshot_is_the_group_with_what_waits() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.begin(&join("m2", FOO));
    g.begin(&beat("m1", 2));
    let snapshot = g.coordinator.snapshot();
    let restored = rota_core::Coordinator::restore(&snapshot).unwrap();
    assert_eq!(restored.snapshot(), snapshot);
}

#[test]
fn members_that_a_load_found_have_a_whole_session() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    let mut g = Scene::from_log(settings(0), &g.log());
    g.pass(44_000);
    assert_eq!(g.state(), "Stable G2 T2");
    g.pass(2_000);
    assert_eq!(g.state(), "Empty G3 T3");
}
