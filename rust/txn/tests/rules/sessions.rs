//! Sessions of several requests (§3): repetitions, overflows, aborts by the coordinator.

use rota_txn::{
    Config, Coordinator, Effect, Event, MarkerId, Marking, Participant, Producer, Request, State, Ticket,
    TransactionVersion,
};

use crate::scene::{ID, NONE, Scene, add, shown};

use TransactionVersion::{V1, V2};

/// A scene with an open transaction.
fn open(level: i16, version: TransactionVersion) -> (Scene, Producer) {
    let mut scene = Scene::at_level(level);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    scene.ask(add(producer, version, &[("t", 0), ("__consumer_offsets", 1)]));
    (scene, producer)
}

fn raised(producer: Producer, by: i16) -> Producer {
    Producer { epoch: producer.epoch + by, ..producer }
}

fn end(scene: &mut Scene, producer: Producer, is_commit: bool, version: TransactionVersion) -> String {
    let request = scene.end(producer, is_commit, version);
    shown(scene.ask(request))
}

fn init(scene: &mut Scene, own: Producer) -> String {
    let request = scene.init(own);
    shown(scene.ask(request))
}

#[test]
fn pipelined_ends_of_the_first_protocol_are_concurrent_until_the_transaction_is_complete() {
    let (mut scene, producer) = open(0, V1);
    scene.holds_markers = true;
    let answers: Vec<_> = (0..3).map(|_| end(&mut scene, producer, true, V1)).collect();
    assert_eq!(answers, ["0", "51", "51"]);
    scene.end_markers(Marking::Written);
    assert_eq!((end(&mut scene, producer, true, V1), end(&mut scene, producer, false, V1)), ("0".into(), "48".into()));
}

#[test]
fn a_repeated_end_of_the_second_protocol_gets_the_same_answer_again() {
    let (mut scene, producer) = open(2, V2);
    scene.holds_markers = true;
    let answers: Vec<_> = (0..3).map(|_| end(&mut scene, producer, true, V2)).collect();
    assert_eq!(answers, ["0 101:1", "51", "51"]);
    scene.holds_markers = false;
    scene.end_markers(Marking::Written);
    assert_eq!(end(&mut scene, producer, true, V2), "0 101:1");
    assert_eq!(end(&mut scene, producer, false, V2), "48");
    let next = raised(producer, 1);
    assert_eq!(end(&mut scene, next, true, V2), "48");
    assert_eq!(end(&mut scene, next, false, V2), "0 101:2");
    assert_eq!(end(&mut scene, producer, true, V2), "90");
    assert_eq!(end(&mut scene, next, false, V2), "0 101:2");
    assert_eq!(end(&mut scene, next, true, V2), "48");
}

#[test]
fn a_late_end_does_not_touch_the_next_transaction() {
    let (mut scene, producer) = open(2, V2);
    end(&mut scene, producer, true, V2);
    let next = raised(producer, 1);
    scene.ask(add(next, V2, &[("t", 0)]));
    assert_eq!((end(&mut scene, producer, true, V2), end(&mut scene, producer, false, V2)), ("90".into(), "90".into()));
    assert_eq!(scene.state(), Some(State::Ongoing));
}

#[test]
fn a_new_producer_aborts_the_open_transaction_and_fences_its_producer_once() {
    for level in [0, 2] {
        let (mut scene, producer) = open(level, V1);
        scene.holds_markers = true;
        let answers: Vec<_> = (0..3).map(|_| init(&mut scene, NONE)).collect();
        assert_eq!(answers, ["51", "51", "51"]);
        scene.end_markers(Marking::Written);
        assert_eq!(scene.state(), Some(State::CompleteAbort));
        assert_eq!(init(&mut scene, NONE), "0 101:2", "level {level}");
        assert_eq!(end(&mut scene, producer, true, V1), "90");
        assert_eq!(shown(scene.ask(add(producer, V1, &[("t", 0)]))), "90");
        let epochs: Vec<_> =
            scene.written.iter().map(|(_, marker)| (marker.producer_epoch, marker.is_commit)).collect();
        assert_eq!(epochs, [(1, false), (1, false)]);
    }
}

#[test]
fn a_producer_that_names_its_epoch_after_an_abort_by_the_coordinator_continues_at_level_2_only() {
    for (level, answer) in [(0, "90"), (2, "0 101:1")] {
        let (mut scene, producer) = open(level, V1);
        assert_eq!(init(&mut scene, producer), "51");
        assert_eq!(init(&mut scene, producer), answer, "level {level}");
    }
}

#[test]
fn a_repeated_init_that_names_its_epoch_gets_the_same_answer() {
    let mut scene = Scene::at_level(0);
    assert_eq!(init(&mut scene, NONE), "0 101:0");
    let producer = scene.producer();
    let answers: Vec<_> = (0..3).map(|_| init(&mut scene, producer)).collect();
    assert_eq!(answers, ["0 101:1", "0 101:1", "0 101:1"]);
    assert_eq!(init(&mut scene, NONE), "0 101:2");
    assert_eq!(init(&mut scene, raised(producer, 1)), "90", "another producer came in between");
}

#[test]
fn after_a_time_out_the_producer_is_fenced_and_may_learn_the_outcome_at_level_2() {
    for (level, version) in [(0, V1), (2, V1), (2, V2)] {
        let (mut scene, producer) = open(level, version);
        scene.sleep(60_000);
        assert_eq!(scene.state(), Some(State::Ongoing), "not more than the timeout has passed");
        scene.sleep(1);
        assert_eq!((scene.state(), scene.producer()), (Some(State::CompleteAbort), raised(producer, 1)));
        assert!(scene.written.iter().all(|(_, marker)| marker.producer_epoch == 1 && !marker.is_commit));
        assert_eq!(shown(scene.ask(add(producer, V1, &[("t", 0)]))), "90");
        assert_eq!(end(&mut scene, producer, true, V1), "90");
        if level == 2 {
            assert_eq!(end(&mut scene, producer, true, V2), "48");
            assert_eq!(end(&mut scene, producer, false, V2), "0 101:1");
            assert_eq!(init(&mut scene, producer), "0 101:1");
        } else {
            assert_eq!(init(&mut scene, producer), "90");
        }
        assert_eq!(init(&mut scene, NONE), "0 101:2");
    }
}

#[test]
fn an_end_by_the_other_protocol_than_the_one_that_opened_decides_about_the_epoch() {
    let (mut scene, producer) = open(2, V2);
    assert_eq!(end(&mut scene, producer, true, V1), "0");
    assert_eq!(scene.producer(), producer);
    scene.ask(add(producer, V1, &[("t", 0)]));
    assert_eq!(end(&mut scene, producer, true, V2), "0 101:1");
    let epochs: Vec<_> = scene.written.iter().map(|(_, marker)| marker.producer_epoch).collect();
    assert_eq!(epochs, [0, 0, 1]);
}

#[test]
fn the_last_epoch_leads_to_a_new_producer_id() {
    let (mut scene, _) = open(2, V2);
    end(&mut scene, Producer { id: 101, epoch: 0 }, false, V2);
    scene.raise_epoch_to(32_765);
    let producer = scene.producer();
    scene.ask(add(producer, V2, &[("t", 0)]));
    assert_eq!(end(&mut scene, producer, true, V2), "0 101:32766");
    let last = raised(producer, 1);
    scene.ask(add(last, V2, &[("t", 0)]));
    let answer = end(&mut scene, last, true, V2);
    let next = scene.producer();
    assert_eq!((answer, next.epoch), (format!("0 {}:0", next.id), 0));
    assert_ne!(next.id, last.id);
    let (_, marker) = scene.written.last().expect("a marker");
    assert_eq!((marker.producer_id, marker.producer_epoch), (last.id, i16::MAX));
    assert_eq!(end(&mut scene, last, true, V2), format!("0 {}:0", next.id), "a repetition");
    assert_eq!(end(&mut scene, last, false, V2), "48");
    assert_eq!(end(&mut scene, last, true, V1), "49");
    assert_eq!(shown(scene.ask(add(last, V1, &[("t", 0)]))), "49");
}

#[test]
fn a_producer_that_starts_with_an_id_of_a_lost_history_gets_a_new_one() {
    let mut scene = Scene::of(Config { first_producer_id: 102, level: 2, ..Config::default() });
    assert_eq!(init(&mut scene, NONE), "0 101:0");
    let lost = scene.producer();
    scene.ask(add(lost, V2, &[("t", 0)]));
    assert_eq!(init(&mut scene, NONE), "51", "its open transaction is aborted first");
    let (_, marker) = scene.written.last().expect("a marker");
    assert_eq!((marker.producer_id, marker.producer_epoch), (101, 1));
    let answer = init(&mut scene, NONE);
    let next = scene.producer();
    assert_eq!((answer, next.epoch), (format!("0 {}:0", next.id), 0));
    assert_ne!(next.id, lost.id);
    assert_eq!(init(&mut scene, NONE), format!("0 {}:1", next.id), "an id of this history stays");
    assert_eq!(shown(scene.ask(add(lost, V2, &[("t", 0)]))), "49");
}

#[test]
fn a_producer_of_a_lost_history_that_asks_again_gets_the_same_new_id() {
    for is_open in [false, true] {
        let mut scene = Scene::of(Config { first_producer_id: 102, level: 2, ..Config::default() });
        init(&mut scene, NONE);
        let lost = scene.producer();
        if is_open {
            scene.ask(add(lost, V2, &[("t", 0)]));
            assert_eq!(init(&mut scene, lost), "51");
        }
        let answer = init(&mut scene, lost);
        let next = scene.producer();
        assert_eq!(answer, format!("0 {}:0", next.id));
        assert_ne!(next.id, lost.id);
        assert_eq!(init(&mut scene, lost), answer, "its answer was lost");
    }
}

#[test]
fn a_producer_that_starts_at_the_last_epoch_gets_a_new_id() {
    for own in [false, true] {
        let mut scene = Scene::at_level(0);
        init(&mut scene, NONE);
        scene.raise_epoch_to(32_766);
        let last = scene.producer();
        let answer = init(&mut scene, if own { last } else { NONE });
        let next = scene.producer();
        assert_eq!(answer, format!("0 {}:0", next.id));
        assert_ne!(next.id, last.id);
        assert_eq!(end(&mut scene, last, true, V1), "49");
        // A repetition of the request that named its epoch; otherwise it is another producer.
        assert_eq!(init(&mut scene, last), if own { answer } else { "90".to_owned() });
    }
}

#[test]
fn an_abort_by_the_coordinator_at_the_last_epoch_leaves_no_producer_beyond_it() {
    let (mut scene, producer) = open(2, V2);
    end(&mut scene, producer, false, V2);
    scene.raise_epoch_to(32_766);
    let last = scene.producer();
    scene.ask(add(last, V2, &[("t", 0)]));
    scene.sleep(60_001);
    assert_eq!(scene.producer().epoch, i16::MAX);
    assert_eq!(end(&mut scene, last, false, V2), "90");
    let answer = init(&mut scene, last);
    assert_eq!((answer, scene.producer().epoch), (format!("0 {}:0", scene.producer().id), 0));
}

#[test]
fn a_transaction_without_participants_needs_no_marker() {
    let mut scene = Scene::at_level(2);
    init(&mut scene, NONE);
    let producer = scene.producer();
    scene.ask(add(producer, V1, &[]));
    assert_eq!(end(&mut scene, producer, true, V1), "0");
    assert_eq!(scene.state(), Some(State::CompleteCommit));
    assert_eq!(end(&mut scene, producer, false, V2), "0 101:1");
    assert_eq!((scene.state(), scene.written.len()), (Some(State::CompleteAbort), 0));
}

/// Takes minutes if the time of a marker grows with the number of markers in flight.
#[test]
fn a_transaction_of_many_partitions_ends_after_the_last_marker() {
    const PARTITIONS: i32 = 100_000;
    let (mut coordinator, mut effects) = (Coordinator::new(Config::default(), 0), Vec::new());
    coordinator.loaded(0, &mut effects);
    let ask = |coordinator: &mut Coordinator, request: Request| {
        let mut effects = Vec::new();
        coordinator.step(0, Event::Requested(Ticket(0), request), &mut effects);
        let [Effect::Append { id, .. }] = effects[..] else { panic!("{effects:?}") };
        let mut effects = Vec::new();
        coordinator.step(0, Event::Appended(id, Ok(())), &mut effects);
        effects
    };
    let transactional_id = || ID.to_owned();
    let (own, timeout_ms, spare_producer_id) = (NONE, 60_000, 1);
    let init = Request::InitProducerId { transactional_id: transactional_id(), timeout_ms, own, spare_producer_id };
    ask(&mut coordinator, init);
    let producer = Producer { id: 1, epoch: 0 };
    let participants = (0..PARTITIONS).map(|partition| Participant::new("t", partition)).collect();
    let add = Request::AddParticipants { transactional_id: transactional_id(), producer, participants, version: V1 };
    ask(&mut coordinator, add);
    let end = Request::EndTransaction {
        transactional_id: transactional_id(),
        producer,
        is_commit: true,
        version: V1,
        spare_producer_id,
    };
    let markers: Vec<MarkerId> = ask(&mut coordinator, end)
        .iter()
        .filter_map(|effect| match effect {
            Effect::SendMarker { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(markers.len(), PARTITIONS as usize);
    for (count, marker) in markers.into_iter().enumerate() {
        assert!(effects.is_empty(), "the Complete state follows after {count} markers");
        let transactional_id = ID.into();
        coordinator.step(0, Event::Marked { transactional_id, marker, result: Marking::Written }, &mut effects);
    }
    assert!(matches!(effects[..], [Effect::Append { .. }]));
    assert_eq!(coordinator.violations(), Vec::<String>::new());
}
