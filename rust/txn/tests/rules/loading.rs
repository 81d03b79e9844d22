//! A coordinator that reads its log (§8).

use rota_txn::{
    Answer, Config, Coordinator, Error, Event, Marking, Participant, State, Ticket, TransactionVersion, Verdict,
};

use crate::scene::{ID, NONE, Scene, add, shown};

#[test]
fn a_loaded_coordinator_finishes_a_decided_transaction_and_keeps_its_outcome() {
    for is_commit in [true, false] {
        let mut scene = Scene::at_level(0);
        let request = scene.init(NONE);
        scene.ask(request);
        let producer = scene.producer();
        scene.ask(add(producer, TransactionVersion::V1, &[("t", 0), ("t", 1)]));
        scene.holds_markers = true;
        let request = scene.end(producer, is_commit, TransactionVersion::V1);
        assert_eq!(scene.ask(request), Answer::Done);
        // One marker is written, and its completion is lost.
        scene.restart();
        let again: Vec<_> =
            scene.sent.iter().map(|(_, _, participant, marker)| (participant.partition, *marker)).collect();
        assert_eq!(again.len(), 2);
        assert!(again.iter().all(|(_, marker)| marker.is_commit == is_commit && marker.coordinator_epoch == 1));
        scene.end_markers(Marking::Written);
        assert_eq!(scene.state().and_then(State::is_commit), Some(is_commit));
        assert!(!scene.state().expect("a state").is_prepare());
    }
}

#[test]
fn a_loaded_coordinator_knows_open_transactions_and_aborts_them_in_time() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    scene.ask(add(producer, TransactionVersion::V1, &[("t", 0)]));
    scene.restart();
    let at = Participant::new("t", 0);
    assert_eq!(scene.coordinator.verify(ID, producer, &at), Verdict::Verified);
    scene.sleep(60_001);
    assert_eq!(scene.state(), Some(State::CompleteAbort));
}

#[test]
fn while_the_log_is_read_nothing_is_answered_from_it() {
    let mut coordinator = Coordinator::new(Config::default(), 3);
    let mut effects = Vec::new();
    let mut scene = Scene::at_level(0);
    coordinator.step(0, Event::Requested(Ticket(1), scene.init(NONE)), &mut effects);
    assert_eq!(effects, [rota_txn::Effect::Answer(Ticket(1), Answer::Refused(Error::Loading))]);
    assert_eq!(coordinator.verify(ID, NONE, &Participant::new("t", 0)), Verdict::Loading);
    assert_eq!(coordinator.describe(ID), Err(Error::Loading));
}

#[test]
fn a_repeated_init_is_not_known_after_a_restart() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    let request = scene.init(producer);
    assert_eq!(shown(scene.ask(request)), "0 101:1");
    scene.restart();
    let request = scene.init(producer);
    assert_eq!(shown(scene.ask(request)), "90");
}
