//! The observer receives each deadline that fires, with its group.

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use rota_core::{Answer, AppendId, Config, Record, Sink, Ticket};
use scene::{Joining, Scene, config, joining};

/// The deadlines that fired, each with its group.
#[derive(Default)]
struct Fired(Vec<(&'static str, Option<String>)>);

impl Sink for Fired {
    fn answer(&mut self, _: Ticket, _: Answer<'_>) {}

    fn append(&mut self, _: AppendId, _: &[Record]) {}

    fn firing(&mut self, name: &'static str, group_id: Option<&str>) {
        self.0.push((name, group_id.map(str::to_owned)));
    }
}

/// What fires from now on until this moment, in order.
fn fired(scene: &mut Scene, until_ms: u64) -> Vec<(&'static str, Option<String>)> {
    let mut fired = Fired::default();
    let now = rota_core::Now { mono_ms: until_ms, ..scene.now() };
    scene.coordinator.advance(now, &mut fired);
    fired.0
}

fn of(name: &'static str, group: &str) -> (&'static str, Option<String>) {
    (name, Some(group.to_owned()))
}

#[test]
fn a_deadline_that_fires_names_its_group_and_the_cleaner_none() {
    let mut scene = Scene::new(config());
    scene.two_stable(&joining("i0"), &joining("i1"));
    scene.commit("h", "t", 1);
    assert_eq!(fired(&mut scene, 5_000), [of("Append", "h")]);
    assert_eq!(fired(&mut scene, 10_000), [of("Session", "g"), of("Session", "g")]);
    assert_eq!(fired(&mut scene, Config::default().offsets_retention_check_interval_ms), [("Cleaner", None)]);
}

#[test]
fn the_deadlines_of_a_rebalance_name_its_group() {
    let mut scene = Scene::new(config());
    let [first, second] = ["i0", "i1"].map(|instance| Joining { rebalance_ms: 5_000, ..joining(instance) });
    scene.two_joined(&first, &second);
    assert_eq!(fired(&mut scene, 5_000), [of("Sync", "g")]);
    let mut scene = Scene::new(Config { group_initial_rebalance_delay_ms: 3_000, ..config() });
    scene.join(&joining("i0"));
    scene.store();
    scene.join(&Joining { instance: None, ..joining("") });
    assert_eq!(fired(&mut scene, 3_000), [of("InitialDelay", "g")]);
    assert_eq!(fired(&mut scene, 10_000), [of("Pending", "g")]);
}
