//! Durable before answered (§2), and failures of the log and of participants (§5, §7).

use rota_txn::{AppendFailure, Event, Marking, Participant, State, TransactionVersion, Verdict};

use crate::scene::{ID, NONE, Scene, add, shown};

use TransactionVersion::V1;

#[test]
fn a_request_is_answered_when_its_record_is_durable_and_others_are_concurrent_until_then() {
    let mut scene = Scene::at_level(0);
    scene.holds_appends = true;
    let request = scene.init(NONE);
    let first = scene.submit(request);
    let request = scene.init(NONE);
    assert_eq!(shown(scene.ask(request)), "51");
    assert!(!scene.answers.contains_key(&first));
    scene.end_appends(Ok(()));
    assert_eq!(shown(scene.answers[&first]), "0 101:0");
}

#[test]
fn a_participant_is_verified_when_the_record_that_adds_it_is_durable() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let (producer, at) = (scene.producer(), Participant::new("t", 0));
    let verdict = |scene: &Scene, producer| scene.coordinator.verify(ID, producer, &at);
    assert_eq!(verdict(&scene, producer), Verdict::NotAdded);
    scene.holds_appends = true;
    scene.submit(add(producer, V1, &[("t", 0)]));
    assert_eq!(verdict(&scene, producer), Verdict::NotAdded);
    scene.end_appends(Ok(()));
    assert_eq!(verdict(&scene, producer), Verdict::Verified);
    let other = rota_txn::Producer { epoch: 1, ..producer };
    assert_eq!(verdict(&scene, other), Verdict::WrongEpoch);
    assert_eq!(verdict(&scene, rota_txn::Producer { id: 5, ..producer }), Verdict::UnknownMapping);
    assert_eq!(scene.coordinator.verify(ID, producer, &Participant::new("t", 1)), Verdict::NotAdded);
    assert_eq!(scene.coordinator.verify("other", producer, &at), Verdict::UnknownMapping);
    scene.holds_markers = true;
    let request = scene.end(producer, true, V1);
    scene.submit(request);
    scene.end_appends(Ok(()));
    assert_eq!(verdict(&scene, producer), Verdict::Concurrent);
}

#[test]
fn no_marker_is_sent_before_the_decision_is_durable() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    scene.ask(add(producer, V1, &[("t", 0)]));
    (scene.holds_appends, scene.holds_markers) = (true, true);
    let request = scene.end(producer, true, V1);
    scene.submit(request);
    assert!(scene.sent.is_empty());
    scene.end_appends(Ok(()));
    assert_eq!(scene.sent.len(), 1);
    assert_eq!(scene.state(), Some(State::PrepareCommit));
}

#[test]
fn a_failed_append_changes_nothing_and_the_client_may_try_again() {
    let mut scene = Scene::at_level(0);
    scene.holds_appends = true;
    let request = scene.init(NONE);
    let ticket = scene.submit(request);
    scene.end_appends(Err(AppendFailure::Failed));
    assert_eq!((shown(scene.answers[&ticket]), scene.coordinator.id_count()), ("15".to_owned(), 0));
    scene.holds_appends = false;
    let request = scene.init(NONE);
    assert_eq!(shown(scene.ask(request)), "0 102:0");
    let producer = scene.producer();
    scene.ask(add(producer, V1, &[("t", 0)]));
    scene.holds_appends = true;
    let request = scene.end(producer, true, V1);
    let ticket = scene.submit(request);
    scene.end_appends(Err(AppendFailure::Failed));
    assert_eq!((shown(scene.answers[&ticket]), scene.state()), ("15".to_owned(), Some(State::Ongoing)));
    assert!(scene.written.is_empty());
}

/// A scene whose markers of a commit, for two participants, are on their way.
fn with_markers_on_their_way() -> Scene {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    scene.ask(add(producer, V1, &[("t", 0), ("t", 1)]));
    scene.holds_markers = true;
    let request = scene.end(producer, true, V1);
    scene.ask(request);
    scene
}

#[test]
fn markers_and_the_complete_state_are_tried_again_until_they_succeed() {
    let mut scene = with_markers_on_their_way();
    scene.end_markers(Marking::Failed);
    scene.sleep(99);
    assert!(scene.sent.is_empty());
    scene.sleep(1);
    assert_eq!(scene.sent.len(), 2);
    scene.holds_appends = true;
    scene.end_markers(Marking::Written);
    scene.end_appends(Err(AppendFailure::Failed));
    assert!(scene.appends.is_empty());
    scene.sleep(100);
    scene.end_appends(Ok(()));
    assert_eq!((scene.state(), scene.written.len()), (Some(State::CompleteCommit), 2));
}

#[test]
fn what_failed_is_tried_again_in_time_after_the_clock_was_set_back() {
    let mut scene = with_markers_on_their_way();
    let set_back = |scene: &mut Scene| {
        scene.now_ms -= 3_600_000;
        scene.step(Event::SetBack);
    };
    scene.end_markers(Marking::Failed);
    set_back(&mut scene);
    assert!(scene.sent.is_empty());
    scene.sleep(100);
    assert_eq!(scene.sent.len(), 2);
    scene.holds_appends = true;
    scene.end_markers(Marking::Written);
    scene.end_appends(Err(AppendFailure::Failed));
    set_back(&mut scene);
    scene.sleep(100);
    scene.end_appends(Ok(()));
    assert_eq!(scene.state(), Some(State::CompleteCommit));
}

#[test]
fn a_participant_that_is_gone_has_no_need_of_a_marker() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    scene.ask(add(producer, V1, &[("t", 0)]));
    scene.holds_markers = true;
    let request = scene.end(producer, false, V1);
    scene.ask(request);
    scene.end_markers(Marking::Gone);
    assert_eq!(scene.state(), Some(State::CompleteAbort));
}

#[test]
fn a_coordinator_that_is_fenced_gives_up_and_answers_what_waits() {
    for by_marker in [false, true] {
        let mut scene = Scene::at_level(0);
        let request = scene.init(NONE);
        scene.ask(request);
        let producer = scene.producer();
        scene.ask(add(producer, V1, &[("t", 0)]));
        (scene.holds_appends, scene.holds_markers) = (true, true);
        let request = scene.end(producer, true, V1);
        let ticket = scene.submit(request);
        if by_marker {
            scene.end_appends(Ok(()));
            scene.end_markers(Marking::Fenced);
        } else {
            scene.end_appends(Err(AppendFailure::Fenced));
            assert_eq!(shown(scene.answers[&ticket]), "16");
        }
        assert!(scene.gave_up);
        let request = scene.init(NONE);
        assert_eq!(shown(scene.ask(request)), "16");
        assert_eq!(scene.coordinator.verify(ID, producer, &Participant::new("t", 0)), Verdict::NotCoordinator);
        assert_eq!(scene.coordinator.next_deadline(), None);
    }
}
