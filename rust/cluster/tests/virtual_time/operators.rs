//! What operators ask: nodes follow it by themselves.

use std::time::Duration;

use rota_cluster::operator::{self, Placed, Refused, Topic};
use rota_engine::{
    Body, NodeId, Request, View,
    requests::{Content, NotePut, PutNote},
};

use crate::{
    of,
    scene::{PARTITIONS, Scene, TTL_MS, run},
    two_nodes,
};

/// Carries a change out as an operator does.
fn change(scene: &Scene, decide: impl Fn(&View) -> Result<Vec<PutNote>, Refused>) {
    let view = scene.engine.view();
    for note in decide(&view).unwrap() {
        let request = Request { history: view.meta.history, body: Body::Note(note) };
        assert_eq!(scene.engine.carry_out(&request).content, Content::NotePut(NotePut::Written));
    }
}

fn handovers(scene: &Scene, id: i32, kind: &str) -> u64 {
    scene.processes[&id].host.stats().handovers.get(kind).copied().unwrap_or(0)
}

#[test]
fn a_drained_node_gives_everything_up_at_once_and_gets_its_share_again() {
    run(|| async {
        let scene = two_nodes().await;
        let before = of(&scene, 2).len() as u64;
        assert!(before > 0);
        change(&scene, |view| operator::drain(view, NodeId(2)));
        let took_ms = scene.until(TTL_MS, |scene| of(scene, 1).len() == PARTITIONS as usize).await;
        assert!(took_ms < 500, "{took_ms}");
        assert_eq!(handovers(&scene, 2, "given_up"), before);
        assert_eq!(handovers(&scene, 2, "lost"), 0);
        scene.pass(10 * TTL_MS).await;
        assert_eq!(of(&scene, 2), []);
        change(&scene, |view| operator::undrain(view, NodeId(2)));
        scene.until(10 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
        scene.check();
    });
}

#[test]
fn a_planned_move_waits_for_the_append_that_is_under_way() {
    run(|| async {
        let scene = two_nodes().await;
        let partition = of(&scene, 2)[0];
        scene.processes[&2].link.set_faults(|faults| faults.latency = Duration::from_millis(60));
        let value = scene.append(2, partition);
        scene.pass(10).await;
        change(&scene, |view| operator::drain(view, NodeId(2)));
        scene.until(TTL_MS, |scene| of(scene, 1).len() == PARTITIONS as usize).await;
        assert!(scene.truth.acknowledged.lock().unwrap()[&partition].contains(&value));
    });
}

#[test]
fn a_partition_is_where_it_was_placed_as_long_as_that_node_lives() {
    run(|| async {
        let mut scene = two_nodes().await;
        let partition = of(&scene, 1)[0];
        let placed = Placed { topic: Topic::Groups, partition };
        change(&scene, |view| operator::pin(view, placed, NodeId(2)));
        scene.until(TTL_MS, |scene| of(scene, 2).contains(&partition)).await;
        scene.pass(10 * TTL_MS).await;
        assert!(of(&scene, 2).contains(&partition));
        scene.kill(2);
        scene.until(2 * TTL_MS, |scene| of(scene, 1).contains(&partition)).await;
        scene.start(2);
        scene.until(10 * TTL_MS, |scene| of(scene, 2).contains(&partition)).await;
        scene.check();
    });
}

#[test]
fn a_node_that_was_forgotten_while_it_was_silent_introduces_itself_again() {
    run(|| async {
        let mut scene = two_nodes().await;
        scene.pause(2);
        scene.until(2 * TTL_MS, |scene| of(scene, 1).len() == PARTITIONS as usize).await;
        change(&scene, |view| operator::forget(view, NodeId(2)));
        assert_eq!(rota_cluster::notes::nodes(&scene.engine.view()).len(), 1);
        scene.pass(TTL_MS).await;
        scene.resume(2);
        scene.until(10 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
        assert_eq!(rota_cluster::notes::nodes(&scene.engine.view()).len(), 2);
        // One that is gone stays forgotten.
        scene.kill(2);
        scene.until(2 * TTL_MS, |scene| of(scene, 1).len() == PARTITIONS as usize).await;
        change(&scene, |view| operator::forget(view, NodeId(2)));
        scene.pass(10 * TTL_MS).await;
        assert_eq!(rota_cluster::notes::nodes(&scene.engine.view()).len(), 1);
        scene.check();
    });
}

#[test]
fn appends_are_counted_by_their_outcome() {
    run(|| async {
        let scene = two_nodes().await;
        let partition = of(&scene, 1)[0];
        scene.append(1, partition);
        scene.pass(100).await;
        let answered = scene.processes[&1].host.stats().outcomes["answered"];
        assert!(answered >= 1);
        scene.processes[&1].link.set_faults(|faults| faults.lost_answers = 1);
        scene.append(1, partition);
        scene.pass(3_000).await;
        let stats = scene.processes[&1].host.stats();
        assert_eq!((stats.outcomes["unknown"], stats.outcomes["answered"]), (1, answered + 1));
        assert_eq!(stats.appends.count(), answered + 2);
    });
}
