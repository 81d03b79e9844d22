//! Groups that end, and what stays of them.

use rota_core::{
    Config, ErrorCode, Record, Request,
    request::{DeleteGroup, ListGroups},
};

use crate::{
    classic::{FOO, classic_group, with_join},
    offsets::{commit, stored},
    scene::{Scene, beat, join, settings},
};

const DELETION: Request<'_> = Request::DeleteGroup(DeleteGroup { group_id: Some("g") });

/// A group that was deleted with its offsets.
fn deleted() -> Scene {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    assert_eq!(commit(&mut g, 9, "m1", 2), "0");
    g.send(&beat("m1", -1));
    assert_eq!(g.ask(DELETION), "0");
    g
}

#[test]
fn nothing_is_left_of_a_group_that_was_deleted_with_its_offsets() {
    let mut g = deleted();
    assert_eq!(g.ask(Request::ListGroups(ListGroups::ALL)), "");
    assert!(g.coordinator.group_ids().is_empty());
}

#[test]
fn a_group_that_was_deleted_with_its_offsets_is_not_loaded() {
    let g = Scene::from_log(settings(0), &deleted().log());
    assert!(g.coordinator.group_ids().is_empty());
}

/// A classic group that no member has joined yet, as the log has it.
fn without_type() -> Record {
    let mut record = classic_group(&[]);
    if let Record::Group { value: Some(value), .. } = &mut record {
        value.protocol_type = "".into();
        value.generation = 0;
    }
    record
}

#[test]
fn a_classic_group_without_members_ends_when_the_join_of_a_consumer_is_stored() {
    let mut g = Scene::from_log(settings(0), &[without_type()]);
    g.begin(&join("m1", FOO));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!((g.state().as_str(), g.coordinator.group_ids()), ("none", vec!["g".into()]), "it stays");
    assert_eq!(g.send(&join("m1", FOO)), "2 [foo:012345]");
    g.send(&beat("m1", -1));
    assert_eq!(g.ask(DELETION), "0");
    assert!(g.coordinator.group_ids().is_empty(), "it has ended");
}

#[test]
fn offsets_stay_when_a_consumer_ends_a_classic_group_without_members() {
    let mut g = Scene::with_classic(Config::default(), settings(0), &[classic_group(&[]), stored()]);
    assert_eq!(g.send(&join("m1", FOO)), "2 [foo:012345]");
    assert_eq!(g.coordinator.offset_count(), 1);
}

#[test]
fn a_join_that_waits_for_a_deletion_that_was_not_stored_is_handled_then() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    g.send(&beat("m1", -1));
    let deleting = g.submit(DELETION);
    let joining = with_join("", None, "", |request| g.submit(request));
    g.fail(ErrorCode::NotEnoughReplicas);
    assert_eq!(g.effects.answers[&deleting], "15");
    g.settle();
    assert!(g.effects.answers[&joining].starts_with("79 "), "{}", g.effects.answers[&joining]);
}
