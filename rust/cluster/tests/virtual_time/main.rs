//! Hosts over an engine in memory, in virtual time: kills, pauses, silence, unknown outcomes, restores. All the while no
//! two nodes may answer for a partition, and who answers must know everything that was acknowledged.

mod appends;
mod chaos;
mod fenced_reads;
mod notes;
mod operators;
mod restores;
mod scene;

use std::{collections::BTreeSet, time::Duration};

use rota_cluster::{Engine, Standing, notes::Plan};
use rota_engine::{NodeId, PartitionId};

use scene::{PARTITIONS, Scene, TTL_MS, run};

const ALL: std::ops::Range<i32> = 0..PARTITIONS as i32;

async fn one_node() -> Scene {
    let mut scene = Scene::new();
    scene.start(1);
    scene.until(1_000, Scene::all_answer).await;
    scene
}

/// Two nodes with two partitions each.
async fn two_nodes() -> Scene {
    let mut scene = one_node().await;
    scene.start(2);
    scene.until(5 * TTL_MS, |scene| scene.owners().iter().filter(|owner| **owner == Some(2)).count() == 2).await;
    scene.until(1_000, Scene::all_answer).await;
    scene
}

fn of(scene: &Scene, id: i32) -> Vec<i32> {
    ALL.filter(|partition| scene.owners()[*partition as usize] == Some(id)).collect()
}

/// The epochs of all partitions.
fn epochs(scene: &Scene) -> Vec<i32> {
    scene.engine.view().parts.values().map(|part| part.epoch.0).collect()
}

/// A value that was acknowledged, for each partition.
async fn commit_everywhere(scene: &Scene) {
    let values: Vec<(i32, String)> = ALL
        .map(|partition| (partition, scene.append(scene.owners()[partition as usize].unwrap(), partition)))
        .collect();
    scene
        .until(1_000, |scene| {
            let acknowledged = scene.truth.acknowledged.lock().unwrap();
            values.iter().all(|(partition, value)| acknowledged.get(partition).is_some_and(|all| all.contains(value)))
        })
        .await;
}

fn acknowledged(scene: &Scene) -> usize {
    scene.truth.acknowledged.lock().unwrap().values().map(Vec::len).sum()
}

#[test]
fn a_node_that_joins_gets_its_share_and_what_was_committed() {
    run(|| async {
        let scene = one_node().await;
        commit_everywhere(&scene).await;
        drop(scene);
        let scene = two_nodes().await;
        commit_everywhere(&scene).await;
        assert_eq!((of(&scene, 1).len(), of(&scene, 2).len()), (2, 2));
        let table = scene.processes[&1].host.table();
        assert_eq!(table.standing, Standing::Member);
        assert_eq!(
            table.nodes.iter().map(|node| (node.id.0, node.is_alive)).collect::<Vec<_>>(),
            [(1, true), (2, true)]
        );
        assert_eq!(table.settings.as_ref().unwrap().id, "cluster");
    });
}

#[test]
fn partitions_move_for_balance_when_no_node_has_come_or_gone_for_a_while() {
    run(|| async {
        let mut scene = one_node().await;
        scene.start(2);
        scene.pass(2 * TTL_MS).await;
        assert_eq!(of(&scene, 1).len(), PARTITIONS as usize);
        scene.until(2 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
    });
}

#[test]
fn a_killed_owner_is_replaced_within_a_ttl_and_half_a_second() {
    run(|| async {
        let mut scene = two_nodes().await;
        commit_everywhere(&scene).await;
        scene.kill(2);
        let took_ms = scene.until(2 * TTL_MS, Scene::all_answer).await;
        assert!(took_ms <= TTL_MS + 500, "{took_ms} ms");
        assert_eq!(of(&scene, 1).len(), 4);
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_short_pause_moves_nothing() {
    run(|| async {
        let scene = two_nodes().await;
        let epochs: Vec<_> = of(&scene, 2).iter().map(|at| scene.processes[&2].epoch_of(*at)).collect();
        scene.pause(2);
        scene.pass(TTL_MS / 2).await;
        scene.resume(2);
        scene.pass(2 * TTL_MS).await;
        let now: Vec<_> = of(&scene, 2).iter().map(|at| scene.processes[&2].epoch_of(*at)).collect();
        assert_eq!(now, epochs);
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_node_that_slept_through_its_death_neither_writes_nor_answers() {
    run(|| async {
        let scene = two_nodes().await;
        let lost = of(&scene, 2);
        scene.pause(2);
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        commit_everywhere(&scene).await;
        // It still believes that it owns them, and its client's request is in its socket.
        let process = &scene.processes[&2];
        assert!(process.epoch_of(lost[0]).is_some());
        assert!(process.read(lost[0]).is_none(), "its clock went on");
        let before = scene.engine.inspect(|memory| memory.store().log(PartitionId(lost[0])).entries.len());
        scene.append(2, lost[0]);
        scene.resume(2);
        scene.pass(1_000).await;
        assert_eq!(scene.engine.inspect(|memory| memory.store().log(PartitionId(lost[0])).entries.len()), before);
        scene.until(6 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_node_whose_serving_thread_is_stuck_looks_dead() {
    run(|| async {
        let mut scene = two_nodes().await;
        scene.stick(2);
        scene.until(2 * TTL_MS, |scene| of(scene, 1).len() == 4).await;
    });
}

#[test]
fn a_serving_thread_whose_host_is_stuck_stops_answering_by_its_clock() {
    run(|| async {
        let mut scene = two_nodes().await;
        scene.stick_host(2);
        scene.until(2 * TTL_MS, |scene| of(scene, 1).len() == 4).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_node_that_is_cut_off_stops_answering_before_another_one_answers() {
    run(|| async {
        let scene = two_nodes().await;
        scene.processes[&2].link.set_faults(|faults| faults.is_silent = true);
        // `pass` looks that no two nodes answer at one time.
        scene.until(2 * TTL_MS, |scene| of(scene, 1).len() == 4).await;
        commit_everywhere(&scene).await;
        scene.processes[&2].link.set_faults(|faults| faults.is_silent = false);
        scene.until(6 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn after_an_outage_of_the_engine_everybody_has_what_it_had() {
    run(|| async {
        let scene = two_nodes().await;
        commit_everywhere(&scene).await;
        let before = scene.owners();
        for process in scene.processes.values() {
            process.link.set_faults(|faults| faults.is_silent = true);
        }
        scene.pass(60_000).await;
        assert_eq!(scene.owners(), [None; PARTITIONS as usize]);
        for process in scene.processes.values() {
            process.link.set_faults(|faults| faults.is_silent = false);
        }
        let took_ms = scene.until(TTL_MS, Scene::all_answer).await;
        assert!(took_ms <= 3_000, "{took_ms} ms");
        assert_eq!(scene.owners(), before);
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_load_that_takes_long_is_waited_for_and_ends_with_the_session() {
    run(|| async {
        let mut scene = Scene::new();
        scene.start(1);
        let link = scene.processes[&1].link.clone();
        link.set_faults(|faults| faults.load = std::time::Duration::from_mins(2));
        let loads = || ALL.filter(|partition| link.loaded_bytes(PartitionId(*partition)).is_some()).count();
        scene.pass(1_000).await;
        assert_eq!(loads(), PARTITIONS as usize);
        let unserved = |scene: &Scene| rota_cluster::notes::unserved(&scene.engine.view());
        assert_eq!(unserved(&scene), [].into());
        scene.until(20_000, |scene| unserved(scene).len() == PARTITIONS as usize).await;
        assert!(unserved(&scene).values().all(|(id, of)| id.0 == 1 && of.reason == "reads it from the engine"));
        scene.until(121_000, Scene::all_answer).await;
        scene.until(2_000, |scene| unserved(scene).is_empty()).await;
        link.set_faults(|faults| faults.is_silent = true);
        scene.pass(2 * TTL_MS).await;
        link.set_faults(|faults| faults.is_silent = false);
        scene.until(TTL_MS, |_| loads() > 0).await;
        link.set_faults(|faults| faults.is_silent = true);
        scene.pass(2 * TTL_MS).await;
        assert_eq!(loads(), 0, "no node waits for them");
    });
}

#[test]
fn a_node_whose_beats_are_late_takes_over_from_a_dead_one() {
    run(|| async {
        let mut scene = two_nodes().await;
        scene.kill(2);
        let link = scene.processes[&1].link.clone();
        // More than half a TTL passes between two answered beats, and the session lasts.
        let mut rounds = 0;
        while !scene.all_answer() {
            rounds += 1;
            assert!(rounds < 10, "{:?}", scene.owners());
            link.set_faults(|faults| faults.is_silent = true);
            scene.pass(2_600).await;
            link.set_faults(|faults| faults.is_silent = false);
            scene.pass(1_100).await;
        }
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_stalled_watch_alone_takes_nothing_from_anybody() {
    run(|| async {
        let mut scene = one_node().await;
        // Their beats do not come at one time.
        scene.pass(400).await;
        scene.start(2);
        scene.until(5 * TTL_MS, |scene| of(scene, 2).len() == 2).await;
        scene.until(1_000, Scene::all_answer).await;
        scene.pass(5 * TTL_MS).await;
        let (before, epochs) = (scene.owners(), epochs(&scene));
        for stalled in [1, 2] {
            let stall = |stalls| scene.processes[&stalled].link.set_faults(|faults| faults.is_watch_stalled = stalls);
            stall(true);
            scene.pass(4 * TTL_MS).await;
            stall(false);
            scene.pass(2 * TTL_MS).await;
            assert_eq!(scene.owners(), before, "node {stalled}: others beat, and claims are refused");
            assert_eq!(self::epochs(&scene), epochs, "node {stalled}");
        }
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_node_that_was_killed_and_is_there_again_within_a_ttl_keeps_its_partitions() {
    run(|| async {
        let mut scene = two_nodes().await;
        commit_everywhere(&scene).await;
        scene.pass(5 * TTL_MS).await;
        let before = (scene.owners(), Plan::of(&scene.engine.view()));
        scene.kill(2);
        scene.start(2);
        // It does not beat in the moment at which it registers.
        scene.processes[&2].link.set_faults(|faults| faults.latency = Duration::from_millis(50));
        let from = scene.now_ms();
        while scene.now_ms() - from < 2 * TTL_MS {
            scene.pass(10).await;
            assert_eq!(Plan::of(&scene.engine.view()), before.1, "{} ms", scene.now_ms() - from);
        }
        assert_eq!(scene.owners(), before.0);
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_node_that_dies_again_as_soon_as_it_has_registered_is_replaced_within_a_ttl() {
    run(|| async {
        let mut scene = two_nodes().await;
        commit_everywhere(&scene).await;
        let registered = |scene: &Scene| scene.engine.view().nodes[&NodeId(2)].incarnation;
        let from = scene.now_ms();
        scene.kill(2);
        // Only the first of several attempts counts.
        let mut first_ms = None;
        while of(&scene, 1).len() < 4 {
            assert!(scene.now_ms() - from < 4 * TTL_MS, "{:?}", scene.owners());
            let before = registered(&scene);
            scene.start(2);
            scene.processes[&2].link.set_faults(|faults| faults.latency = Duration::from_millis(50));
            scene.until(TTL_MS, |scene| registered(scene) != before || of(scene, 1).len() == 4).await;
            first_ms.get_or_insert(scene.now_ms());
            scene.kill(2);
        }
        let took_ms = scene.now_ms() - first_ms.unwrap();
        assert!(took_ms <= TTL_MS + 500, "{took_ms} ms");
        commit_everywhere(&scene).await;
    });
}

#[test]
fn appends_of_unknown_outcome_come_into_the_log_once_and_in_order() {
    run(|| async {
        let scene = one_node().await;
        for round in 0..20 {
            scene.processes[&1].link.set_faults(|faults| match round % 4 {
                0 => faults.lost_answers = 1,
                1 => faults.lost_requests = 1,
                2 => faults.exhausted = 2,
                _ => faults.twins = 2,
            });
            for _ in 0..5 {
                scene.append(1, round % 4);
            }
            let expected = 5 * (round as usize + 1);
            scene.until(8_000, |scene| acknowledged(scene) == expected).await;
            scene.engine.carry_out_twins();
        }
        let truth = scene.truth.acknowledged.lock().unwrap().clone();
        drop(scene.processes);
        for (partition, expected) in truth {
            let found: Vec<String> = scene.engine.inspect(|memory| {
                let log = memory.store().log(PartitionId(partition));
                let entries = log.entries.values().flat_map(|entry| rota_log::batches(&entry.value.bytes));
                entries
                    .flat_map(|batch| {
                        let batch = batch.unwrap();
                        let payload = batch.payload(1 << 20).unwrap();
                        let key = |record: Result<rota_log::RecordView<'_>, _>| record.unwrap().key.unwrap().to_vec();
                        batch.records_in(&payload).map(key).collect::<Vec<_>>()
                    })
                    .map(|key| String::from_utf8(key).unwrap())
                    .collect()
            });
            assert_eq!(found, expected, "partition {partition}");
        }
    });
}

#[test]
fn a_serving_thread_that_follows_late_answers_nothing_of_what_it_has_lost() {
    run(|| async {
        let scene = two_nodes().await;
        commit_everywhere(&scene).await;
        scene.processes[&2].late.set(Duration::from_millis(300));
        let left = scene.processes[&2].host.leave();
        // `pass` looks that no two nodes answer at one time.
        let took_ms = scene.until(1_000, |scene| of(scene, 1).len() == 4).await;
        assert!(took_ms <= 200, "{took_ms} ms");
        commit_everywhere(&scene).await;
        left.await.unwrap();
    });
}

#[test]
fn a_node_that_leaves_hands_over_at_once() {
    run(|| async {
        let scene = two_nodes().await;
        commit_everywhere(&scene).await;
        let left = scene.processes[&2].host.leave();
        let took_ms = scene.until(1_000, |scene| of(scene, 1).len() == 4).await;
        assert!(took_ms <= 500, "{took_ms} ms");
        left.await.unwrap();
        commit_everywhere(&scene).await;
        assert_eq!(scene.processes[&2].host.table().standing, Standing::Left);
    });
}

#[test]
fn a_node_that_left_comes_back_without_waiting_and_one_that_was_killed_soon() {
    run(|| async {
        let mut scene = one_node().await;
        commit_everywhere(&scene).await;
        scene.processes[&1].host.leave().await.unwrap();
        scene.kill(1);
        scene.start(1);
        let took_ms = scene.until(TTL_MS, Scene::all_answer).await;
        assert!(took_ms <= 200, "{took_ms} ms");
        scene.kill(1);
        scene.start(1);
        let took_ms = scene.until(TTL_MS, Scene::all_answer).await;
        assert!(took_ms <= TTL_MS / 2 + 200, "{took_ms} ms");
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_second_server_under_the_same_id_waits_and_takes_nothing() {
    run(|| async {
        let mut scene = one_node().await;
        let first = scene.processes.remove(&1).unwrap();
        scene.start_with(1, |config| config.directory = rota_engine::Directory(99));
        scene.pass(3 * TTL_MS).await;
        let second = scene.processes.insert(1, first).unwrap();
        assert!(second.served.partitions.lock().unwrap().is_empty());
        let trouble = second.host.table().trouble.clone().unwrap();
        assert!(trouble.contains("another server runs as node 1"), "{trouble}");
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_server_with_other_settings_says_what_to_change() {
    run(|| async {
        let mut scene = one_node().await;
        scene.start_with(2, |config| config.partitions.groups = 50);
        scene.start_with(3, |config| config.ttl_ms = 9_000);
        scene.start_with(4, |config| config.partitions.transactions = 50);
        scene.pass(1_000).await;
        let trouble = |id: i32| scene.processes[&id].host.table().trouble.clone().unwrap();
        assert!(trouble(2).contains("set offsets.topic.num.partitions=2"), "{}", trouble(2));
        assert!(trouble(4).contains("set transaction.state.log.num.partitions=2"), "{}", trouble(4));
        assert!(trouble(3).contains("TTL of 5000 ms"), "{}", trouble(3));
    });
}

#[test]
fn a_server_that_is_shown_no_image_says_so_and_joins_when_there_is_one() {
    run(|| async {
        let mut scene = Scene::new();
        scene.start(1);
        let link = scene.processes[&1].link.clone();
        link.set_faults(|faults| faults.is_watch_blind = true);
        scene.until(10_000, |scene| scene.says(1, "the engine's watch shows nothing")).await;
        link.set_faults(|faults| faults.is_watch_blind = false);
        scene.until(10_000, Scene::all_answer).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_cluster_of_a_version_without_transactions_gets_their_partitions() {
    run(|| async {
        let mut scene = Scene::new();
        let note = b"id=older\noffsets.topic.num.partitions=2\nttl.ms=5000\n".to_vec();
        let put = rota_engine::requests::PutNote { name: "cluster".to_owned(), seen: None, value: Some(note) };
        let body = rota_engine::Body::Note(put);
        scene.engine.carry_out(&rota_engine::Request { history: rota_engine::HistoryId(7), body });
        scene.start(1);
        scene.until(1_000, Scene::all_answer).await;
        commit_everywhere(&scene).await;
        assert_eq!(scene.processes[&1].host.table().settings.as_ref().unwrap().id, "older");
    });
}

#[test]
fn an_engine_that_went_back_is_noticed_and_nothing_is_answered_until_the_loss_is_accepted() {
    run(|| async {
        let scene = one_node().await;
        commit_everywhere(&scene).await;
        scene.engine.back_up();
        commit_everywhere(&scene).await;
        scene.engine.restore();
        // What was lost is lost: the test forgets it, too.
        scene.truth.acknowledged.lock().unwrap().clear();
        scene.until(TTL_MS, |scene| matches!(scene.processes[&1].host.table().standing, Standing::Stopped(_))).await;
        scene.pass(2 * TTL_MS).await;
        assert_eq!(scene.owners(), [None; PARTITIONS as usize]);
        scene.accept_loss(8);
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        commit_everywhere(&scene).await;
    });
}

#[test]
fn a_long_tail_becomes_a_snapshot_with_what_is_newest() {
    run(|| async {
        let mut scene = one_node().await;
        // Of this key there is one record only.
        commit_everywhere(&scene).await;
        for round in 0..30 {
            // Five keys, each written again and again.
            scene.append_value(1, 0, format!("key{}", round % 5), 100_000);
            scene.pass(10).await;
        }
        let head = |scene: &Scene| scene.engine.inspect(|memory| memory.store().log(PartitionId(0)).head);
        scene.until(5_000, |scene| head(scene).is_some()).await;
        scene.pass(1_000).await;
        let bytes = scene.engine.inspect(|memory| {
            let log = memory.store().log(PartitionId(0));
            log.chunks.values().map(Vec::len).sum::<usize>()
                + log.entries.values().map(|e| e.value.bytes.len()).sum::<usize>()
        });
        assert!(bytes < 2_000_000, "{bytes}");
        assert!(scene.processes[&1].host.stats().snapshots > 0);
        scene.kill(1);
        scene.start(1);
        scene.until(2 * TTL_MS, Scene::all_answer).await;
        let (_, values) = scene.answering(0).unwrap();
        let distinct: BTreeSet<&String> = values.iter().collect();
        assert_eq!(distinct.len(), 6);
        commit_everywhere(&scene).await;
    });
}
