//! Random faults, from a seed.

use std::collections::BTreeMap;

use crate::scene::{PARTITIONS, Scene, TTL_MS, run};

/// A generator that needs no crate: splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

const NODES: i32 = 3;

fn strike(scene: &mut Scene, dice: &mut Dice, paused: &mut BTreeMap<i32, bool>) {
    let id = 1 + dice.below(NODES as u64) as i32;
    let lives = scene.processes.contains_key(&id);
    match dice.below(9) {
        _ if !lives => {
            paused.remove(&id);
            scene.start(id);
        }
        0 => scene.kill(id),
        1 | 2 => {
            if paused.insert(id, true) != Some(true) {
                scene.pause(id);
            }
        }
        3 | 4 => {
            if paused.insert(id, false) == Some(true) {
                scene.resume(id);
            }
        }
        5 => scene.processes[&id].link.set_faults(|faults| faults.is_silent = !faults.is_silent),
        6 => scene.processes[&id].link.set_faults(|faults| faults.is_watch_stalled = !faults.is_watch_stalled),
        7 => {
            let (lost, exhausted, twins) = (dice.below(3) as u32, dice.below(2) as u32, dice.below(3) as u32);
            scene.processes[&id].link.set_faults(|faults| {
                (faults.lost_answers, faults.lost_requests) = (lost, 2 - lost);
                (faults.exhausted, faults.twins) = (exhausted, twins);
            });
        }
        _ => {
            scene.engine.carry_out_twins();
        }
    }
}

/// Returns how many appends were acknowledged.
async fn play(seed: u64, faults: u64) -> usize {
    let mut scene = Scene::new();
    let mut dice = Dice(seed);
    let mut paused = BTreeMap::new();
    (1..=NODES).for_each(|id| scene.start(id));
    for _ in 0..faults {
        strike(&mut scene, &mut dice, &mut paused);
        for _ in 0..=dice.below(20) {
            let ids: Vec<i32> = scene.processes.keys().copied().collect();
            for id in ids {
                scene.append(id, dice.below(u64::from(PARTITIONS)) as i32);
            }
            scene.pass(10 + dice.below(400)).await;
        }
    }
    // All faults end.
    for id in 1..=NODES {
        if paused.get(&id) == Some(&true) && scene.processes.contains_key(&id) {
            scene.resume(id);
        }
        match scene.processes.get(&id) {
            Some(process) => process.link.set_faults(|faults| *faults = rota_cluster::Faults::default()),
            None => scene.start(id),
        }
    }
    scene.engine.carry_out_twins();
    scene.until(8 * TTL_MS, Scene::all_answer).await;
    scene.pass(1_000).await;
    scene.truth.acknowledged.lock().unwrap().values().map(Vec::len).sum()
}

#[test]
fn whatever_happens_nothing_acknowledged_is_lost_and_no_two_nodes_answer() {
    let acknowledged: usize = (0..12).map(|seed| run(|| play(seed, 25))).sum();
    assert!(acknowledged > 500, "{acknowledged}");
}
