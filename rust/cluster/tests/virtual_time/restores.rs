//! Restores of the engine, and processes that find another one under their node's id: who waits, for what, and goes on.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use rota_engine::{Body, Directory, HistoryId, Incarnation, NodeId, PartitionId, Request, requests::Register};

use crate::{
    commit_everywhere, of, one_node,
    scene::{PARTITIONS, Scene, TTL_MS, run},
    two_nodes,
};

const ACCEPT: &str = "rota cluster accept-loss";

/// What was lost is lost: the test forgets it, too.
fn restore(scene: &Scene) {
    scene.engine.restore();
    scene.truth.acknowledged.lock().unwrap().clear();
}

/// An operator accepts the loss, and all processes begin anew.
async fn accept_loss(scene: &Scene, begin: u128) {
    let epoch = |scene: &Scene| scene.engine.view().parts[&PartitionId(0)].epoch;
    let before = epoch(scene);
    scene.accept_loss(begin);
    scene.until(2 * TTL_MS, |scene| epoch(scene) > before && scene.all_answer()).await;
}

/// Node 1 says that an operator has to accept the loss, and nothing is served however long that takes.
async fn waits_for_the_operator(scene: &Scene) {
    scene.until(TTL_MS, |scene| scene.says(1, ACCEPT)).await;
    scene.pass(4 * TTL_MS).await;
    assert_eq!(scene.owners(), [None; PARTITIONS as usize]);
    assert!(scene.says(1, ACCEPT), "{:?}", scene.trouble(1));
}

#[test]
fn an_older_history_that_a_restore_brings_back_is_no_accepted_one() {
    run(|| async {
        let scene = one_node().await;
        scene.engine.back_up();
        accept_loss(&scene, 8).await;
        commit_everywhere(&scene).await;
        restore(&scene);
        scene.write_notes(1_000);
        waits_for_the_operator(&scene).await;
        accept_loss(&scene, 9).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn an_older_history_that_an_operator_had_begun_is_no_accepted_one() {
    run(|| async {
        let scene = one_node().await;
        accept_loss(&scene, 8).await;
        scene.engine.back_up();
        accept_loss(&scene, 9).await;
        restore(&scene);
        scene.write_notes(1_000);
        waits_for_the_operator(&scene).await;
        accept_loss(&scene, 10).await;
    });
}

#[test]
fn a_process_that_joins_while_a_history_is_announced_goes_on_in_it() {
    run(|| async {
        let mut scene = Scene::new();
        let (view, begin) = (scene.engine.view(), HistoryId(8));
        let announced = Body::Note(rota_cluster::operator::announce(&view, begin));
        scene.engine.carry_out(&Request { history: view.meta.history, body: announced });
        scene.start(1);
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        let before = scene.processes[&1].epoch_of(0);
        scene.begin_history(8);
        scene.until(2 * TTL_MS, |scene| scene.all_answer() && scene.processes[&1].epoch_of(0) > before).await;
    });
}

#[test]
fn a_history_that_no_operator_has_begun_is_no_accepted_one() {
    run(|| async {
        let scene = one_node().await;
        scene.begin_history(8);
        waits_for_the_operator(&scene).await;
        accept_loss(&scene, 9).await;
    });
}

#[test]
fn a_process_whose_registration_is_lost_waits_for_the_operator_and_goes_on() {
    run(|| async {
        let mut scene = two_nodes().await;
        // Node 1 owns nothing: only its registration shows it that the engine went back.
        let view = scene.engine.view();
        for note in rota_cluster::operator::drain(&view, NodeId(1)).unwrap() {
            scene.engine.carry_out(&Request { history: view.meta.history, body: Body::Note(note) });
        }
        scene.until(TTL_MS, |scene| of(scene, 2).len() == PARTITIONS as usize).await;
        scene.engine.back_up();
        scene.kill(1);
        scene.start(1);
        scene.until(2 * TTL_MS, |scene| scene.trouble(1).is_none()).await;
        restore(&scene);
        scene.write_notes(1_000);
        scene.until(2 * TTL_MS, |scene| scene.says(1, ACCEPT)).await;
        scene.pass(2 * TTL_MS).await;
        assert!(scene.says(1, ACCEPT), "{:?}", scene.trouble(1));
        scene.accept_loss(8);
        scene.until(2 * TTL_MS, |scene| scene.trouble(1).is_none()).await;
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_process_that_is_replaced_by_a_late_registration_of_its_own_joins_again() {
    run(|| async {
        let scene = one_node().await;
        commit_everywhere(&scene).await;
        let register = Register { node: NodeId(1), directory: Directory(1), incarnation: Incarnation(999) };
        let history = scene.engine.view().meta.history;
        scene.engine.carry_out(&Request { history, body: Body::Register(register) });
        scene.until(TTL_MS, |scene| !scene.all_answer()).await;
        scene.until(3 * TTL_MS, Scene::all_answer).await;
        commit_everywhere(&scene).await;
    });
}

/// The engine carries the first attempt to register out once more, after the process has joined with a later one.
#[test]
fn a_late_attempt_to_join_does_not_replace_the_process() {
    run(|| async {
        let mut scene = one_node().await;
        scene.start(2);
        let (link, connects) = (scene.processes[&2].link.clone(), Arc::clone(&scene.processes[&2].connects));
        link.set_faults(|faults| (faults.lost_answers, faults.twins) = (1, 1));
        scene.until(2 * TTL_MS, |scene| connects.load(Ordering::Relaxed) == 2 && scene.trouble(2).is_none()).await;
        scene.until(5 * TTL_MS, |scene| !of(scene, 2).is_empty()).await;
        assert_eq!(scene.engine.carry_out_twins(), 1);
        scene.pass(2 * TTL_MS).await;
        assert_eq!(connects.load(Ordering::Relaxed), 2, "it joined once");
        assert!(scene.all_answer() && !of(&scene, 2).is_empty());
    });
}

/// The first beat of a node arrives when the process has joined the next history, and waits for the first beat there.
#[test]
fn an_answer_to_an_earlier_node_of_the_process_is_not_told_to_the_next_one() {
    run(|| async {
        let mut scene = Scene::new();
        scene.start(1);
        let (link, connects) = (scene.processes[&1].link.clone(), Arc::clone(&scene.processes[&1].connects));
        let slow = |latency_ms| link.set_faults(|faults| faults.latency = Duration::from_millis(latency_ms));
        slow(3_000);
        scene.until(5 * TTL_MS, |scene| scene.trouble(1).is_none()).await;
        scene.accept_loss(8);
        slow(800);
        scene.until(TTL_MS, |scene| connects.load(Ordering::Relaxed) == 2 && scene.trouble(1).is_none()).await;
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        assert_eq!(connects.load(Ordering::Relaxed), 2, "it joined each history once");
    });
}

#[test]
fn a_process_that_is_replaced_waits_while_the_other_one_lives() {
    run(|| replaced(false));
}

/// Its watch shows neither the registration of the other process nor its beats.
#[test]
fn a_process_that_is_replaced_and_whose_watch_is_late_waits_while_the_other_one_lives() {
    run(|| replaced(true));
}

async fn replaced(is_watch_stalled: bool) {
    let mut scene = one_node().await;
    scene.pause(1);
    let first = scene.processes.remove(&1).unwrap();
    first.link.set_faults(|faults| faults.is_watch_stalled = is_watch_stalled);
    scene.start(1);
    // Time passes while it claims what the first one has taken.
    scene.processes[&1].link.set_faults(|faults| faults.latency = Duration::from_millis(5));
    scene.until(2 * TTL_MS, Scene::all_answer).await;
    let second = scene.processes.insert(1, first).unwrap();
    scene.processes.insert(11, second);
    scene.resume(1);
    scene.until(TTL_MS, |scene| scene.says(1, "another process has this node's id")).await;
    scene.until(2 * TTL_MS, |scene| scene.says(1, "another server runs as node 1")).await;
    let connects = |scene: &Scene| scene.processes[&1].connects.load(Ordering::Relaxed);
    let before = connects(&scene);
    scene.pass(4 * TTL_MS).await;
    let more = connects(&scene) - before;
    assert!((1..=5).contains(&more), "{more} connections to the engine in 20 s");
    assert_eq!(of(&scene, 1).len(), PARTITIONS as usize, "the second one serves");
    assert!(scene.says(1, "another server runs as node 1"), "{:?}", scene.trouble(1));
    scene.processes[&1].link.set_faults(|faults| faults.is_watch_stalled = false);
    scene.kill(11);
    scene.until(3 * TTL_MS, |scene| scene.trouble(1).is_none()).await;
    scene.until(2 * TTL_MS, Scene::all_answer).await;
    commit_everywhere(&scene).await;
}

/// What a node shows its server: the history, and whether topic `t` is there.
type Shown = Arc<Mutex<Vec<(Option<HistoryId>, bool)>>>;

/// Starts a node after a backup without topic `t`, which it is shown then. The engine goes back, and gives revisions out
/// that are higher than all before.
async fn topic_that_a_restore_takes_away(prepare: impl AsyncFn(&mut Scene), meanwhile: impl AsyncFn(&mut Scene)) {
    let mut scene = Scene::new();
    let shown = Shown::default();
    let show = Arc::clone(&shown);
    scene.start_with(1, |config| {
        config.on_table = Box::new(move |table, _| {
            show.lock().unwrap().push((table.history, table.topics.contains_key("t")));
        });
    });
    scene.until(TTL_MS, Scene::all_answer).await;
    prepare(&mut scene).await;
    scene.engine.back_up();
    scene.write_note("topic/t", "it");
    meanwhile(&mut scene).await;
    assert_eq!(shown.lock().unwrap().last(), Some(&(Some(HistoryId(7)), true)));
    restore(&scene);
    scene.write_notes(1_000);
    waits_for_the_operator(&scene).await;
    scene.processes[&1].link.set_faults(|faults| faults.is_watch_stalled = false);
    assert_eq!(shown.lock().unwrap().last(), Some(&(Some(HistoryId(7)), true)), "no server deletes its messages");
    scene.accept_loss(8);
    scene.until(2 * TTL_MS, Scene::all_answer).await;
    let mut shown = shown.lock().unwrap().clone();
    shown.drain(..shown.iter().position(|(_, is_there)| *is_there).unwrap());
    assert!(shown.contains(&(Some(HistoryId(8)), false)));
    assert!(!shown.contains(&(Some(HistoryId(7)), false)), "{shown:?}");
}

#[test]
fn a_topic_that_a_restore_takes_away_is_not_shown_as_deleted() {
    run(|| topic_that_a_restore_takes_away(async |_| (), async |scene| scene.pass(1_500).await));
}

#[test]
fn a_topic_that_a_restore_takes_away_with_a_claim_is_not_shown_as_deleted() {
    let killed = async |scene: &mut Scene| {
        scene.start(2);
        scene.until(5 * TTL_MS, |scene| !of(scene, 2).is_empty()).await;
    };
    let claims = async |scene: &mut Scene| {
        scene.kill(2);
        scene.until(2 * TTL_MS, |scene| of(scene, 1).len() == PARTITIONS as usize).await;
    };
    run(|| topic_that_a_restore_takes_away(killed, claims));
}

/// The first answer after the restore is that of a beat: the watch shows the engine later, with that beat.
#[test]
fn a_topic_that_a_restore_takes_away_from_a_late_watch_is_not_shown_as_deleted() {
    let stalls = async |scene: &mut Scene| {
        scene.pass(1_500).await;
        scene.processes[&1].link.set_faults(|faults| faults.is_watch_stalled = true);
    };
    run(|| topic_that_a_restore_takes_away(async |_| (), stalls));
}
