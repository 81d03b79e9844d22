//! Notes that a server writes, and the producer ids that it takes from one.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, TryRecvError},
    },
    time::Duration,
};

use rota_cluster::{Standing, Written};
use rota_engine::{Revision, requests::PutNote};

use crate::{
    one_node,
    scene::{Scene, TTL_MS, run},
};

async fn take_ids(scene: &Scene, node: i32, count: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    while ids.len() < count {
        match scene.processes[&node].host.producer_ids.take() {
            Some(id) => ids.push(id),
            None => scene.pass(10).await,
        }
        assert!(scene.now_ms() < 60_000, "no id arrives");
    }
    ids
}

/// Waits for the end of a change of notes: its result, and about how many the engine has answered before.
async fn ended(scene: &Scene, written: &Receiver<Written>) -> (Result<Revision, String>, usize) {
    let mut answered = 0;
    loop {
        match written.try_recv() {
            Ok(Written::One) => answered += 1,
            Ok(Written::All(result)) => return (result, answered),
            Err(TryRecvError::Empty) => scene.pass(10).await,
            Err(TryRecvError::Disconnected) => panic!("the host has ended"),
        }
        assert!(scene.now_ms() < 120_000, "the change does not end");
    }
}

fn topic_notes(count: usize) -> Vec<PutNote> {
    let note = |at| PutNote { name: format!("topic/t{at}"), seen: None, value: Some(b"1".to_vec()) };
    (0..count).map(note).collect()
}

#[test]
fn many_notes_are_written_side_by_side_and_each_answer_is_reported() {
    run(|| async {
        let scene = one_node().await;
        let process = &scene.processes[&1];
        process.link.set_faults(|faults| faults.latency = Duration::from_millis(50));
        let from_ms = scene.now_ms();
        let (result, answered) = ended(&scene, &process.host.put_notes(topic_notes(200))).await;
        assert_eq!(answered, 200);
        // One after the other they take ten seconds of the virtual time.
        assert!(scene.now_ms() - from_ms < 3_000, "{}", scene.now_ms() - from_ms);
        let view = scene.engine.view();
        assert_eq!(view.notes.keys().filter(|name| name.starts_with("topic/t")).count(), 200);
        assert!(result.is_ok_and(|revision| revision <= view.revision));
    });
}

#[test]
fn after_a_note_that_is_refused_or_a_caller_that_is_gone_no_more_are_written() {
    run(|| async {
        let scene = one_node().await;
        let process = &scene.processes[&1];
        let count = || scene.engine.view().notes.keys().filter(|name| name.starts_with("topic/t")).count();
        scene.write_note("topic/t20", "of another server");
        let (result, _) = ended(&scene, &process.host.put_notes(topic_notes(200))).await;
        assert_eq!(result, Err("another node changed it meanwhile".to_owned()));
        let written = count();
        assert!((21..40).contains(&written), "{written}");
        process.link.set_faults(|faults| faults.latency = Duration::from_millis(50));
        drop(process.host.put_notes(topic_notes(200).split_off(100)));
        scene.pass(5_000).await;
        assert!((written + 1..written + 20).contains(&count()), "{written} {}", count());
    });
}

#[test]
fn a_note_of_unknown_outcome_is_written_when_that_is_said() {
    run(|| async {
        let scene = one_node().await;
        let process = &scene.processes[&1];
        process.link.set_faults(|faults| faults.lost_requests = 1);
        let put = PutNote { name: "topic/orders".to_owned(), seen: None, value: Some(b"1".to_vec()) };
        let written = process.host.put_notes(vec![put]);
        assert!(ended(&scene, &written).await.0.is_ok());
        assert!(scene.engine.view().notes.contains_key("topic/orders"));
    });
}

#[test]
fn an_image_with_a_note_of_unknown_outcome_is_shown_at_the_revision_that_its_writer_waits_for() {
    run(|| async {
        let mut scene = Scene::new();
        let shown = Arc::<Mutex<Vec<(bool, Revision)>>>::default();
        let to = Arc::clone(&shown);
        scene.start_with(1, |config| {
            config.on_table = Box::new(move |table, revision| {
                to.lock().unwrap().push((table.topics.contains_key("orders"), revision));
            });
        });
        scene.until(TTL_MS, Scene::all_answer).await;
        // Nothing but beats changes any more.
        scene.pass(3 * TTL_MS).await;
        let process = &scene.processes[&1];
        process.link.set_faults(|faults| faults.lost_answers = 1);
        let put = PutNote { name: "topic/orders".to_owned(), seen: None, value: Some(b"1".to_vec()) };
        let written = process.host.put_notes(vec![put]);
        let needed = ended(&scene, &written).await.0.unwrap();
        let first = shown.lock().unwrap().iter().find(|(has_it, _)| *has_it).copied();
        assert!(first.is_some_and(|(_, revision)| revision < needed), "the first attempt was carried out: {first:?}");
        let is_shown = || shown.lock().unwrap().iter().filter(|(_, revision)| *revision >= needed).count();
        scene.until(TTL_MS, |_| is_shown() > 0).await;
        scene.pass(3 * TTL_MS).await;
        assert_eq!(is_shown(), 1, "nothing has changed since");
    });
}

#[test]
fn no_two_nodes_give_one_producer_id() {
    run(|| async {
        let mut scene = Scene::new();
        let nodes = 1..=3;
        nodes.clone().for_each(|id| scene.start(id));
        scene.until(TTL_MS, Scene::all_answer).await;
        let mut given = BTreeSet::new();
        for node in nodes.clone() {
            given.extend(take_ids(&scene, node, 5).await);
        }
        assert_eq!(given.len(), 15, "{given:?}");
    });
}

#[test]
fn a_producer_id_of_a_history_that_was_lost_is_not_given_again() {
    run(|| async {
        let mut scene = Scene::new();
        scene.engine.back_up();
        scene.start(1);
        scene.until(TTL_MS, Scene::all_answer).await;
        let before = take_ids(&scene, 1, 5).await;
        scene.engine.restore();
        let is_stopped = |scene: &Scene| matches!(scene.processes[&1].host.table().standing, Standing::Stopped(_));
        scene.until(TTL_MS, is_stopped).await;
        scene.accept_loss(8);
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        let after = take_ids(&scene, 1, 5).await;
        assert!(after.iter().all(|id| !before.contains(id)), "{before:?} {after:?}");
    });
}
