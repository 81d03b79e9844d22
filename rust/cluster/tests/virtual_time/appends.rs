//! When an append is acknowledged, refused, or given up.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rota_engine::PartitionId;
use rota_log::{Append, BatchKind, Completions, FencedLog, LogError, LogRecord};

use crate::{
    one_node,
    scene::{Scene, TTL_MS, run},
};

type Results = Arc<Mutex<Vec<Result<i64, LogError>>>>;

/// Appends to partition 0 of node 1 under an epoch. The result of its completion comes into the list.
fn append_under(scene: &Scene, epoch: i32, bytes: usize) -> Results {
    let results = Results::default();
    let put = Arc::clone(&results);
    let to = Completions::relay(move |completion| put.lock().unwrap().push(completion.result));
    let batch = vec![LogRecord { key: b"key".to_vec(), value: Some(vec![7; bytes]) }];
    let append = Append { partition: 0, epoch, id: 1, timestamp_ms: 0, kind: BatchKind::Plain, batch };
    scene.processes[&1].host.log.append(append, &to);
    results
}

fn epoch(scene: &Scene) -> i32 {
    scene.processes[&1].epoch_of(0).unwrap()
}

#[test]
fn an_append_is_acknowledged_when_the_engine_has_it() {
    run(|| async {
        let scene = one_node().await;
        scene.processes[&1].link.set_faults(|faults| faults.latency = Duration::from_millis(300));
        let results = append_under(&scene, epoch(&scene), 10);
        scene.pass(200).await;
        assert!(results.lock().unwrap().is_empty());
        scene.pass(200).await;
        assert!(matches!(results.lock().unwrap()[..], [Ok(0)]), "{results:?}");
        assert_eq!(scene.engine.inspect(|memory| memory.store().log(PartitionId(0)).entries.len()), 1);
    });
}

#[test]
fn an_append_of_an_earlier_epoch_is_refused() {
    run(|| async {
        let scene = one_node().await;
        let before = epoch(&scene);
        // Its serving thread has unloaded it.
        scene.processes[&1].host.session.dropped(PartitionId(0), rota_engine::Epoch(before));
        let is_back = |scene: &Scene| scene.processes[&1].read(0).is_some() && epoch(scene) > before;
        scene.until(TTL_MS, is_back).await;
        let results = append_under(&scene, before, 10);
        scene.pass(500).await;
        assert!(matches!(results.lock().unwrap()[..], [Err(LogError::Fenced { .. })]), "{results:?}");
    });
}

#[test]
fn an_append_without_an_outcome_is_given_up_after_its_timeout() {
    run(|| async {
        let mut scene = Scene::new();
        scene.start_with(1, |config| config.append_timeout_ms = 1_000);
        scene.until(1_000, Scene::all_answer).await;
        scene.processes[&1].link.set_faults(|faults| faults.exhausted = u32::MAX);
        let results = append_under(&scene, epoch(&scene), 10);
        scene.pass(900).await;
        assert!(results.lock().unwrap().is_empty());
        scene.pass(600).await;
        assert!(matches!(results.lock().unwrap()[..], [Err(LogError::Fenced { .. })]), "{results:?}");
    });
}

#[test]
fn every_append_ends_when_its_partition_is_lost() {
    run(|| async {
        let scene = one_node().await;
        scene.processes[&1].link.set_faults(|faults| faults.is_silent = true);
        // An entry has room for one of them: the others wait.
        let results: Vec<Results> = (0..3).map(|_| append_under(&scene, epoch(&scene), 600_000)).collect();
        scene.pass(2 * TTL_MS).await;
        for each in results {
            assert!(matches!(each.lock().unwrap()[..], [Err(LogError::Fenced { .. })]), "{each:?}");
        }
    });
}

#[test]
fn an_engine_that_refuses_every_request_is_not_asked_without_a_pause() {
    run(|| async {
        let scene = one_node().await;
        let link = &scene.processes[&1].link;
        link.set_faults(|faults| faults.refused = Some(0));
        let results = append_under(&scene, epoch(&scene), 10);
        scene.pass(1_000).await;
        // The append, and beats.
        let refused = link.faults().refused.unwrap();
        assert!((10..=50).contains(&refused), "{refused}");
        assert_eq!(*results.lock().unwrap(), []);
        link.set_faults(|faults| faults.refused = None);
        scene.pass(200).await;
        assert_eq!(*results.lock().unwrap(), [Ok(0)]);
    });
}

#[test]
fn batches_have_the_epoch_of_their_owner() {
    run(|| async {
        let mut scene = one_node().await;
        for _ in 0..2 {
            let results = append_under(&scene, epoch(&scene), 10);
            scene.pass(200).await;
            assert!(matches!(results.lock().unwrap()[..], [Ok(_)]), "{results:?}");
            scene.kill(1);
            scene.start(1);
            scene.until(TTL_MS, Scene::all_answer).await;
        }
        let epochs: Vec<i32> = scene.engine.inspect(|memory| {
            let log = memory.store().log(PartitionId(0));
            let batches = log.entries.values().flat_map(|entry| rota_log::batches(&entry.value.bytes));
            batches.map(|batch| batch.unwrap().header().leader_epoch).collect()
        });
        assert_eq!(epochs, [1, 2]);
    });
}

#[test]
fn appends_to_a_server_that_has_not_joined_take_no_room_from_later_ones() {
    run(|| async {
        let mut scene = Scene::new();
        scene.start(1);
        scene.processes[&1].link.set_faults(|faults| faults.is_silent = true);
        for _ in 0..10 {
            let results = append_under(&scene, 1, 800 << 10);
            scene.pass(100).await;
            assert!(matches!(results.lock().unwrap()[..], [Err(LogError::NotOpen { partition: 0 })]), "{results:?}");
        }
        scene.processes[&1].link.set_faults(|faults| faults.is_silent = false);
        scene.until(TTL_MS, Scene::all_answer).await;
        let results = append_under(&scene, epoch(&scene), 10);
        scene.pass(100).await;
        assert_eq!(*results.lock().unwrap(), [Ok(0)]);
    });
}

#[test]
fn an_append_to_a_busy_lane_of_a_node_that_has_stopped_ends() {
    run(|| async {
        let scene = one_node().await;
        let epoch = epoch(&scene);
        scene.processes[&1].link.set_faults(|faults| faults.latency = Duration::from_millis(900));
        let first = append_under(&scene, epoch, 10);
        scene.pass(10).await;
        // The call of the lane is under way. The next append waits for its end.
        scene.begin_history(8);
        scene.until(TTL_MS, |scene| scene.trouble(1).is_some()).await;
        assert!(first.lock().unwrap()[0].is_err());
        let second = append_under(&scene, epoch, 10);
        scene.until(100, |_| !second.lock().unwrap().is_empty()).await;
        assert!(second.lock().unwrap()[0].is_err());
    });
}

#[test]
fn an_append_behind_the_end_of_a_host_is_refused_and_so_is_every_later_one() {
    run(|| async {
        let mut scene = Scene::new();
        // The engine is silent: the node has not joined.
        scene.start(1);
        scene.processes[&1].link.set_faults(|faults| faults.is_silent = true);
        scene.pass(100).await;
        let _left = scene.processes[&1].host.leave();
        let behind = append_under(&scene, 1, 10);
        for results in [behind, append_under(&scene, 1, 10)] {
            scene.until(100, |_| !results.lock().unwrap().is_empty()).await;
            assert!(results.lock().unwrap()[0].is_err());
        }
        let later = append_under(&scene, 1, 10);
        assert!(later.lock().unwrap()[0].is_err());
    });
}
