//! Timeouts, expiry, listings by age (§7, §3.5).

use rota_txn::{AppendFailure, Config, Coordinator, Error, State, TransactionVersion, coordinator::Filter};

use crate::scene::{ID, NONE, Scene, add, shown};

const WEEK_MS: i64 = 7 * 24 * 3_600_000;

#[test]
fn an_idle_id_is_forgotten_with_a_tombstone() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    scene.sleep(WEEK_MS - 1);
    assert_eq!(scene.state(), Some(State::Empty));
    scene.sleep(1);
    assert_eq!((scene.state(), scene.coordinator.id_count()), (None, 0));
    assert_eq!(scene.log.last().map(|(_, value)| value), Some(&None));
    scene.restart();
    assert_eq!(scene.coordinator.id_count(), 0);
    let request = scene.init(NONE);
    assert_eq!(shown(scene.ask(request)), "0 102:0");
}

#[test]
fn an_abort_in_time_whose_record_fails_is_tried_again() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    scene.ask(add(producer, TransactionVersion::V1, &[("t", 0)]));
    scene.holds_appends = true;
    scene.sleep(60_001);
    scene.end_appends(Err(AppendFailure::Failed));
    assert_eq!((scene.state(), scene.appends.len()), (Some(State::Ongoing), 0));
    scene.holds_appends = false;
    scene.sleep(99);
    assert_eq!(scene.state(), Some(State::Ongoing));
    scene.sleep(1);
    assert_eq!((scene.state(), scene.producer().epoch), (Some(State::CompleteAbort), 1));
}

#[test]
fn a_partition_has_at_most_so_many_ids() {
    let mut scene = Scene::of(Config { ids_max: 0, ..Config::default() });
    let request = scene.init(NONE);
    assert_eq!(shown(scene.ask(request)), "15");
}

fn listed(coordinator: &Coordinator, filter: &Filter, now_ms: i64) -> usize {
    coordinator.list(filter, now_ms).map_or(usize::MAX, Iterator::count)
}

#[test]
fn a_listing_passes_every_filter() {
    let mut scene = Scene::at_level(0);
    let request = scene.init(NONE);
    scene.ask(request);
    let producer = scene.producer();
    let by_age = Filter { min_age_ms: Some(500), ..Filter::default() };
    assert_eq!(listed(&scene.coordinator, &by_age, 1_000), 1, "an id without a transaction passes");
    scene.ask(add(producer, TransactionVersion::V1, &[("t", 1), ("t", 0)]));
    let all = Filter::default();
    let (by_state, by_producer) = (
        |state| Filter { states: [state].into(), ..Filter::default() },
        |id| Filter { producer_ids: [id].into(), ..Filter::default() },
    );
    let count = |filter: &Filter, now_ms| listed(&scene.coordinator, filter, now_ms);
    assert_eq!(count(&all, 1_000), 1);
    assert_eq!((count(&by_state(State::Ongoing), 1_000), count(&by_state(State::Empty), 1_000)), (1, 0));
    assert_eq!((count(&by_producer(producer.id), 1_000), count(&by_producer(9), 1_000)), (1, 0));
    assert_eq!((count(&by_age, 1_500), count(&by_age, 1_501)), (0, 1));
    let described = scene.coordinator.describe(ID).expect("a known id");
    assert_eq!((described.state, described.producer, described.start_ms), (State::Ongoing, producer, 1_000));
    assert_eq!(described.participants.iter().map(|at| at.partition).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(scene.coordinator.describe("other"), Err(Error::NotFound));
    assert_eq!(scene.coordinator.describe(""), Err(Error::InvalidRequest));
}
