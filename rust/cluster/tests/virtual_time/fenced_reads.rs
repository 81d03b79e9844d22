//! Reads that trust no clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rota_cluster::SessionClock;
use rota_engine::{Epoch, PartitionId};
use tokio::{
    sync::oneshot::error::TryRecvError,
    time::{Instant, sleep},
};

use crate::{
    ALL, of, one_node,
    scene::{Scene, TTL_MS, run},
};

fn needed(scene: &Scene, id: i32, partition: i32) -> [(PartitionId, Epoch); 1] {
    [(PartitionId(partition), Epoch(scene.processes[&id].epoch_of(partition).expect("an epoch")))]
}

#[test]
fn an_owner_whose_clock_stands_still_is_refused() {
    run(|| async {
        let mut scene = one_node().await;
        let (stopped_ms, zero) = (Arc::new(AtomicU64::new(u64::MAX)), Instant::now());
        let clock = Arc::clone(&stopped_ms);
        let now_ms = move || (zero.elapsed().as_millis() as u64).min(clock.load(Ordering::Relaxed));
        scene.start_with(2, |config| config.clock = SessionClock::new(now_ms));
        scene.until(5 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
        scene.until(1_000, Scene::all_answer).await;
        let (lost, process) = (of(&scene, 2)[0], &scene.processes[&2]);
        process.host.confirm(needed(&scene, 2, lost)).await.expect("it is the owner");
        stopped_ms.store(zero.elapsed().as_millis() as u64, Ordering::Relaxed);
        process.link.set_faults(|faults| faults.is_watch_stalled = true);
        // Not `pass`: two nodes answer, which is the point.
        sleep(Duration::from_millis(3 * TTL_MS)).await;
        assert!(scene.processes[&1].read(lost).is_some(), "the other one has taken over");
        assert!(process.read(lost).is_some(), "its session lasts, by its clock");
        assert!(process.host.confirm(needed(&scene, 2, lost)).await.is_err());
        sleep(Duration::from_millis(100)).await;
        assert!(process.read(lost).is_none(), "it has unloaded what the engine refused");
    });
}

#[test]
fn reads_wait_while_the_engine_is_silent_and_are_refused_when_the_session_is_over() {
    run(|| async {
        let scene = one_node().await;
        let process = &scene.processes[&1];
        let silence = |is_silent| process.link.set_faults(|faults| faults.is_silent = is_silent);
        silence(true);
        let mut waiting = process.host.confirm(needed(&scene, 1, 0));
        scene.pass(TTL_MS / 2).await;
        assert_eq!(waiting.try_recv(), Err(TryRecvError::Empty));
        silence(false);
        scene.until(2_000, |scene| ALL.into_iter().all(|at| scene.processes[&1].read(at).is_some())).await;
        waiting.await.expect("it still is the owner");
        silence(true);
        let mut refused = process.host.confirm(needed(&scene, 1, 0));
        scene.pass(2 * TTL_MS).await;
        assert_eq!(refused.try_recv(), Err(TryRecvError::Closed));
    });
}

#[test]
fn a_read_that_comes_during_a_round_waits_for_the_next_one() {
    run(|| async {
        let scene = one_node().await;
        let process = &scene.processes[&1];
        process.link.set_faults(|faults| faults.latency = Duration::from_millis(50));
        let first = process.host.confirm(needed(&scene, 1, 0));
        scene.pass(30).await;
        let began = Instant::now();
        let second = process.host.confirm(needed(&scene, 1, 0));
        first.await.expect("the first");
        second.await.expect("the second");
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
    });
}

#[test]
fn reads_that_an_engine_refuses_at_once_are_asked_again_after_a_pause() {
    run(|| async {
        let scene = one_node().await;
        let process = &scene.processes[&1];
        process.link.set_faults(|faults| faults.refused = Some(0));
        let mut waiting = process.host.confirm(needed(&scene, 1, 0));
        scene.pass(TTL_MS / 2).await;
        assert_eq!(waiting.try_recv(), Err(TryRecvError::Empty));
        let refused = process.link.faults().refused.expect("a count");
        assert!(refused < 100, "{refused} requests in half a TTL");
        process.link.set_faults(|faults| faults.refused = None);
        waiting.await.expect("it still is the owner");
    });
}
