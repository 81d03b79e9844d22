//! Members without a record of their assignment, and assignments without a member.

use rota_core::{
    ErrorCode, Record,
    consumer_group::group::ConsumerGroup,
    records::{ConsumerRecord, CurrentValue, EpochedIndexes},
};

use crate::{
    classic::{FOO, leave, with_join},
    scene::{Scene, beat, join, join_by, settings},
};

/// A load of the records of `g` for which `is_kept`.
fn loaded(g: &Scene, is_kept: impl Fn(&ConsumerRecord) -> bool) -> Scene {
    let kept = |record: &Record| matches!(record, Record::Consumer { about, .. } if is_kept(about));
    let log: Vec<Record> = g.log().into_iter().filter(kept).collect();
    Scene::from_log(settings(0), &log)
}

#[test]
fn a_member_without_a_record_of_its_assignment_is_at_epoch_0() {
    let mut g = Scene::new(settings(0));
    g.send(&join("a1", FOO).of("i1"));
    let mut g = loaded(&g, |about| matches!(about, ConsumerRecord::Member(..)));
    assert_eq!(g.state(), "Reconciling G1 T1", "it has not reached the target");
    assert_eq!(g.send(&beat("a1", -2).of("i1")), "-2 -");
    assert_eq!(g.records(), "8(a1 e-2 prev -1 STABLE 0)");
}

#[test]
fn a_stray_assignment_holds_no_partition() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    let mut g = loaded(&g, |about| !matches!(about, ConsumerRecord::Member(..)));
    assert_eq!(g.state(), "Empty G2 T2");
    g.coordinator.check_invariants().unwrap();
    assert_eq!(g.send(&join("m2", FOO)), "3 [foo:012345]");
}

#[test]
fn a_stray_pattern_is_forgotten() {
    let mut g = Scene::new(settings(0));
    g.send(&join_by("m1", "o.*"));
    g.tick();
    let g = loaded(&g, |about| !matches!(about, ConsumerRecord::Member(..)));
    assert_eq!(g.coordinator.consumer_group("g").unwrap().patterns().count(), 0);
}

/// A group of epoch 0 with the member m1: a classic group without a generation was converted (docs/consumer-protocol.md
/// §16.1).
fn at_epoch_0() -> Scene {
    let mut g = Scene::new(settings(0));
    assert_eq!(with_join("", Some("i1"), "", |request| g.ask(request)), "", "it waits for others");
    assert_eq!(leave(&mut g, &[("", Some("i1"))]), "0: 0");
    assert_eq!(g.send(&join_by("m1", "nothing")), "0 []");
    g.tick();
    assert_eq!(g.state(), "Stable G0 T0");
    g.records();
    g
}

#[test]
fn a_join_at_epoch_0_is_no_heartbeat_that_says_nothing() {
    let mut g = at_epoch_0();
    assert_eq!(g.send(&join_by("m1", "nothing")), "0 []", "a join is answered with the assignment");
    assert_eq!(g.records(), "");
}

#[test]
fn a_join_at_epoch_0_that_was_not_stored_leaves_no_member() {
    let mut g = at_epoch_0();
    let joining = g.begin(&join("m2", &[]));
    assert_eq!(g.records(), "5(m2)");
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.effects.answers[&joining], "15");
    assert_eq!(g.coordinator.view_consumer_group("g").unwrap().members.len(), 1);
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn the_last_record_that_names_a_partition_says_who_holds_it() {
    let mut group = ConsumerGroup::new("g".into());
    let holds = |id: &str, partitions: &[i32]| {
        let assigned = vec![EpochedIndexes { topic_id: 1, partitions: partitions.to_vec(), epochs: Vec::new() }];
        let value = CurrentValue { epoch: 1, previous_epoch: 0, state: 0, assigned, pending_revocation: Vec::new() };
        ConsumerRecord::Current(id.into(), Some(Box::new(value)))
    };
    let steps = [
        (holds("m1", &[0, 1]), "m1 m1"),
        (holds("m2", &[1, 2]), "m1 m2 m2"),
        (holds("m1", &[0, 1]), "m1 m1 m2"),
        (holds("m2", &[2]), "m1 m1 m2"),
        (holds("m1", &[]), "m2"),
    ];
    for (record, owners) in steps {
        group.apply(&record);
        assert_eq!(group.owners().values().map(|owner| &**owner).collect::<Vec<_>>().join(" "), owners, "{record:?}");
    }
}
