//! How groups and offsets end: deletion against what is in flight, and the cleaner's steps (docs/protocol.md §12.3, §13).

#[expect(dead_code, reason = "what only other tests use of it")]
mod scene;

use std::collections::BTreeSet;

use rota_core::{
    AppendId, Config, Coordinator, ErrorCode, LogEntry, Now, Record, Request, State, Ticket,
    records::OffsetValue,
    request::{DeleteGroup, DescribeGroup, OffsetDelete, OffsetDeleteTopic},
};
use scene::{Joining, Scene, config, joining};

const HOUR_MS: u64 = 3_600_000;

fn hour() -> Config {
    Config { offsets_retention_minutes: 60, offsets_retention_check_interval_ms: HOUR_MS, ..config() }
}

fn delete(scene: &mut Scene, group: &str) -> Ticket {
    scene.send(Request::DeleteGroup(DeleteGroup { group_id: Some(group) }))
}

fn describe(scene: &mut Scene) -> ErrorCode {
    let ticket = scene.send(Request::DescribeGroup(DescribeGroup { version: 6, group_id: Some("g") }));
    scene.reply(ticket).error
}

/// A join that is refused, and leaves an Empty group behind whose record is on its way.
fn create(scene: &mut Scene) -> AppendId {
    let ticket = scene.join(&Joining { offers: &[], ..joining("i0") });
    assert_eq!(scene.reply(ticket).error, ErrorCode::InconsistentGroupProtocol);
    scene.newest()
}

fn ends_group(records: &[Record]) -> bool {
    records.iter().any(|record| matches!(record, Record::Group { value: None, .. }))
}

/// Everything that the scene has appended so far, as far as it was stored, loaded again.
fn loaded_again(scene: &Scene, stored: &[AppendId]) -> Coordinator {
    let mut coordinator = Coordinator::new(config(), 0, 1);
    let records = scene.effects.appends.iter().filter(|(append_id, _)| stored.contains(append_id));
    for (offset, record) in records.flat_map(|(_, records)| records).enumerate() {
        coordinator.replay(&LogEntry { offset: offset as u64, timestamp_ms: 0, record: record.clone() });
    }
    coordinator
}

#[test]
fn a_group_whose_creation_fails_under_its_deletion_is_gone_whatever_becomes_of_that() {
    for deletion_fails in [false, true] {
        let mut scene = Scene::new(config());
        let creation = create(&mut scene);
        let ticket = delete(&mut scene, "g");
        let deletion = scene.newest();
        assert!(ends_group(scene.records(deletion)));
        scene.fail(creation);
        let join = scene.join(&joining("i0"));
        assert!(scene.is_open(join), "no member joins a group whose end is undecided");
        let result = if deletion_fails { Err(ErrorCode::KafkaStorageError) } else { Ok(2) };
        scene.end(deletion, result);
        let expected = if deletion_fails { ErrorCode::NotCoordinator } else { ErrorCode::None };
        assert_eq!(scene.reply(ticket).error, expected);
        assert_eq!(scene.group().state, State::PreparingRebalance);
        let created = scene.newest();
        assert!(created > deletion && !scene.group().durable, "the one that joined began another group");
    }
}

#[test]
fn a_creation_that_is_late_and_a_deletion_behind_it_leave_nothing() {
    let mut scene = Scene::new(config());
    let creation = create(&mut scene);
    let ticket = delete(&mut scene, "g");
    let deletion = scene.newest();
    scene.until(5_000);
    assert_eq!(scene.reply(ticket).error, ErrorCode::CoordinatorNotAvailable);
    scene.end(creation, Ok(0));
    assert_eq!(describe(&mut scene), ErrorCode::None, "it exists after all");
    scene.end(deletion, Ok(1));
    assert_eq!(describe(&mut scene), ErrorCode::GroupIdNotFound, "and was deleted after all");
    assert!(loaded_again(&scene, &[creation, deletion]).group_ids().is_empty());
}

#[test]
fn a_deletion_takes_along_the_offset_whose_own_tombstone_could_not_be_stored() {
    let mut scene = Scene::new(config());
    scene.commit("g", "t", 1);
    let commit = scene.newest();
    scene.store();
    scene.delete_topic("t");
    scene.fail(scene.newest());
    let ticket = delete(&mut scene, "g");
    let deletion = scene.newest();
    // Written again just before, and failed again.
    scene.fail(AppendId(deletion.0 - 1));
    scene.end(deletion, Ok(2));
    assert_eq!(scene.reply(ticket).error, ErrorCode::None);
    assert!(loaded_again(&scene, &[commit, deletion]).group_ids().is_empty(), "S29: it does not come back by a load");
}

#[test]
fn a_held_join_phase_goes_on_when_an_offset_makes_the_group_durable() {
    let mut scene = Scene::new(config());
    scene.commit("g", "t", 1);
    let commit = scene.newest();
    let join = scene.join(&joining("i0"));
    scene.until(0);
    assert!(scene.is_open(join), "the log has nothing of the group");
    scene.end(commit, Ok(0));
    assert_eq!(scene.reply(join).error, ErrorCode::None);
}

/// A scene with these groups of so many offsets, all of them as old as can be.
fn with_old_offsets(groups: &[(String, i32)]) -> Scene {
    let topics: Vec<_> = groups.iter().map(|(group_id, partitions)| (group_id.as_str(), "t", *partitions)).collect();
    with_old_topics(&topics)
}

/// The same with offsets of several topics: group, topic, how many.
fn with_old_topics(topics: &[(&str, &str, i32)]) -> Scene {
    let mut coordinator = Coordinator::new(hour(), 0, 0);
    for (group_id, topic, partitions) in topics.iter().copied() {
        for partition in 0..partitions {
            let value = Some(OffsetValue {
                offset: 5,
                leader_epoch: -1,
                metadata: "".into(),
                commit_timestamp_ms: 0,
                expire_timestamp_ms: None,
                topic_id: 0,
            });
            let record = Record::Offset { group_id: group_id.into(), topic: topic.into(), partition, value };
            coordinator.replay(&LogEntry { offset: 0, timestamp_ms: 0, record });
        }
    }
    let mut scene = Scene::around(coordinator);
    let now = scene.now();
    scene.coordinator.loaded(now, &mut scene.effects);
    scene
}

/// One call of `advance` at this moment; returns the append that it made, if any.
fn advance_once(scene: &mut Scene, now_ms: u64) -> Option<AppendId> {
    let before = scene.effects.appends.len();
    scene.step(now_ms);
    assert!(scene.effects.appends.len() <= before + 1, "a step is one batch");
    scene.effects.appends.get(before).map(|(append_id, _)| *append_id)
}

#[test]
fn a_run_over_many_groups_takes_steps_and_everybody_else_is_served_between_them() {
    let groups: Vec<(String, i32)> = (0..1_200).map(|at| (format!("g{at:04}"), 1)).collect();
    let mut scene = with_old_offsets(&groups);
    assert_eq!(advance_once(&mut scene, HOUR_MS - 1), None);
    let mut steps = Vec::new();
    while let Some(append_id) = advance_once(&mut scene, HOUR_MS) {
        assert!(scene.records(append_id).len() <= 1_000);
        steps.push(append_id);
        let ticket = scene.send(Request::DescribeGroup(DescribeGroup { version: 6, group_id: Some("g1199") }));
        assert_eq!(scene.reply(ticket).error, ErrorCode::None);
    }
    assert_eq!(steps.len(), 3, "two entries for each group, a thousand in a step");
    assert_eq!(scene.coordinator.group_ids().len(), 1_200, "nothing is gone before it is durable");
    // The second step's batch is refused: its groups stay, and only they.
    for (at, append_id) in steps.iter().enumerate() {
        scene.end(*append_id, if at == 1 { Err(ErrorCode::MessageTooLarge) } else { Ok(0) });
    }
    assert_eq!(scene.coordinator.group_ids().len(), 500);
    let next = advance_once(&mut scene, 2 * HOUR_MS).expect("the next run finds them");
    scene.end(next, Ok(0));
    assert!(scene.coordinator.group_ids().is_empty());
}

#[test]
fn a_group_that_is_larger_than_a_step_goes_with_the_run_after_its_offsets() {
    let mut scene = with_old_offsets(&[("g".to_owned(), 2_500), ("h".to_owned(), 1)]);
    let mut counts = Vec::new();
    while let Some(append_id) = advance_once(&mut scene, HOUR_MS) {
        counts.push(scene.records(append_id).len());
        scene.end(append_id, Ok(0));
    }
    assert_eq!(counts.iter().sum::<usize>(), 2_502, "{counts:?}: the offsets of g, and all of h");
    assert_eq!(scene.coordinator.group_ids().len(), 1);
    assert!(scene.group().offsets.is_empty());
    let last = advance_once(&mut scene, 2 * HOUR_MS).expect("the next run ends g");
    assert!(ends_group(scene.records(last)));
    scene.end(last, Ok(0));
    assert!(scene.coordinator.group_ids().is_empty());
}

#[test]
fn a_run_looks_at_each_offset_of_a_large_group_once_though_the_log_has_not_answered_yet() {
    let mut scene = with_old_topics(&[("g", "t", 1_500), ("g", "u", 700), ("g", "v", 10)]);
    let mut batches = Vec::new();
    while let Some(append_id) = advance_once(&mut scene, HOUR_MS) {
        batches.push(append_id);
    }
    let keys = batches.iter().flat_map(|append_id| scene.records(*append_id)).map(Record::key_bytes);
    let keys: Vec<_> = keys.collect();
    let different: BTreeSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (2_210, 2_210), "in {} steps", batches.len());
}

#[test]
fn a_long_group_id_makes_no_batch_that_no_log_takes() {
    let long = format!("g{}", "x".repeat(32_000));
    let mut scene = with_old_offsets(&[("a".to_owned(), 1), (long.clone(), 100), ("h".to_owned(), 1)]);
    for run in 1..=2 {
        while let Some(append_id) = advance_once(&mut scene, run * HOUR_MS) {
            let keys = scene.records(append_id).iter().map(|record| record.key_bytes().len());
            assert!(keys.sum::<usize>() < 512 * 1024, "Kafka's limit of a batch is 1 MiB");
            scene.end(append_id, Ok(0));
        }
        let left = scene.coordinator.group_ids();
        assert_eq!(left.iter().map(|id| &**id).collect::<Vec<_>>(), if run == 1 { vec![&*long] } else { vec![] });
    }
}

#[test]
fn a_step_that_is_used_up_leaves_a_large_group_to_the_next() {
    // 999 offsets and their group are all that a step looks at.
    let mut scene = with_old_offsets(&[("g".to_owned(), 999), ("h".to_owned(), 1_500)]);
    let mut counts = Vec::new();
    while let Some(append_id) = advance_once(&mut scene, HOUR_MS) {
        counts.push(scene.records(append_id).len());
    }
    assert_eq!((counts[0], counts.iter().sum::<usize>()), (1_000, 2_500), "{counts:?}");
}

#[test]
fn long_names_of_many_groups_make_no_batch_that_no_log_takes() {
    let topic = "t".repeat(249);
    let groups: Vec<String> = (0..10).map(|at| format!("g{at}")).collect();
    let topics: Vec<_> = groups.iter().map(|group_id| (&**group_id, &*topic, 90)).collect();
    let mut scene = with_old_topics(&topics);
    let mut batches = Vec::new();
    while let Some(append_id) = advance_once(&mut scene, HOUR_MS) {
        batches.push(scene.records(append_id).iter().map(|record| record.key_bytes().len() + 128).sum::<usize>());
        scene.end(append_id, Ok(0));
    }
    // A group more than the limit, as groups of this size go whole.
    assert!(batches.iter().all(|bytes| *bytes < (256 + 64) * 1024), "{batches:?}");
    assert!(scene.coordinator.group_ids().is_empty());
}

#[test]
fn a_run_that_is_written_down_between_two_steps_goes_on_where_it_was() {
    let groups: Vec<(String, i32)> = (0..1_200).map(|at| (format!("g{at:04}"), 1)).collect();
    let rest = |restores: bool| {
        let mut scene = with_old_offsets(&groups);
        let first = advance_once(&mut scene, HOUR_MS).expect("the first step");
        if restores {
            scene.coordinator = Coordinator::restore(&scene.coordinator.snapshot()).expect("its own snapshot");
        }
        while advance_once(&mut scene, HOUR_MS).is_some() {}
        scene.effects.appends.retain(|(append_id, _)| *append_id > first);
        scene.effects.appends
    };
    assert_eq!(rest(true), rest(false));
}

#[test]
fn the_offsets_of_a_topic_that_is_deleted_go_in_one_batch_if_there_is_room() {
    let mut scene = Scene::new(config());
    scene.commit("g", "t", 100);
    scene.store();
    let before = scene.effects.appends.len();
    scene.delete_topic("t");
    assert_eq!(scene.effects.appends.len() - before, 1);
    assert_eq!(scene.records(scene.newest()).len(), 100);
}

/// A scene with one offset of a consumer group that is Empty since the start, and the appends that the log has stored.
fn with_an_old_offset() -> (Scene, Vec<AppendId>) {
    let mut scene = Scene::new(hour());
    let join = scene.join(&joining("i0"));
    let mut stored = vec![scene.newest()];
    scene.store();
    scene.until(0);
    let member_id = scene.reply(join).member_id.clone();
    scene.sync(&member_id, 1, &[(&member_id, b"A")]);
    stored.push(scene.newest());
    scene.store();
    scene.leave(&[&member_id]);
    scene.until(60_000);
    assert_eq!(scene.group().state, State::Empty);
    stored.push(scene.newest());
    scene.store();
    scene.commit("g", "t", 1);
    stored.push(scene.newest());
    scene.store();
    (scene, stored)
}

/// Stores every append that is new since the last one of `stored`.
fn store_the_rest(scene: &mut Scene, stored: &mut Vec<AppendId>) {
    let last = stored.last().copied();
    let new: Vec<AppendId> = scene.effects.appends.iter().map(|(id, _)| *id).filter(|id| Some(*id) > last).collect();
    for append_id in new {
        scene.end(append_id, Ok(0));
        stored.push(append_id);
    }
}

#[test]
fn offsets_outlive_a_load_when_their_tombstones_are_stored_and_answered_with_an_error() {
    let (mut scene, mut stored) = with_an_old_offset();
    scene.until(2 * HOUR_MS);
    let tombstones = scene.newest();
    assert!(ends_group(scene.records(tombstones)), "the run ends the group with its offset");
    scene.end(tombstones, Err(ErrorCode::RequestTimedOut));
    stored.push(tombstones);
    assert!(loaded_again(&scene, &stored).group_ids().is_empty(), "the log has stored them nonetheless");

    let join = scene.join(&joining("i0"));
    scene.until(2 * HOUR_MS);
    let (member_id, generation) = (scene.reply(join).member_id.clone(), scene.reply(join).generation);
    let sync = scene.sync(&member_id, generation, &[(&member_id, b"A")]);
    store_the_rest(&mut scene, &mut stored);
    assert_eq!(scene.reply(sync).error, ErrorCode::None);
    assert_eq!(scene.group().offsets.len(), 1, "the member reads the offset");

    let loaded = loaded_again(&scene, &stored).project("g").expect("the group");
    assert_eq!((loaded.generation, loaded.offsets), (generation, scene.group().offsets));
}

#[test]
fn a_deletion_that_failed_and_is_in_the_log_is_undone_by_the_next_append() {
    for of_offsets in [false, true] {
        let (mut scene, mut stored) = with_an_old_offset();
        let ticket = if of_offsets { delete_offset(&mut scene) } else { delete(&mut scene, "g") };
        let deletion = scene.newest();
        scene.fail(deletion);
        stored.push(deletion);
        assert_ne!(scene.reply(ticket).error, ErrorCode::None);
        scene.commit("h", "t", 1);
        store_the_rest(&mut scene, &mut stored);
        let loaded = loaded_again(&scene, &stored).project("g").expect("the group");
        assert_eq!((loaded.generation, loaded.offsets), (scene.group().generation, scene.group().offsets));
    }
}

#[test]
fn a_deletion_that_is_tried_again_does_not_write_first_what_it_deletes() {
    let (mut scene, mut stored) = with_an_old_offset();
    delete(&mut scene, "g");
    scene.fail(scene.newest());
    let before = scene.newest();
    let ticket = delete(&mut scene, "g");
    assert_eq!(scene.newest(), AppendId(before.0 + 1));
    stored.push(scene.newest());
    scene.store();
    assert_eq!(scene.reply(ticket).error, ErrorCode::None);
    scene.commit("h", "t", 1);
    store_the_rest(&mut scene, &mut stored);
    assert_eq!(loaded_again(&scene, &stored).group_ids(), vec!["h".into()], "nothing brings the group back");
}

fn delete_offset(scene: &mut Scene) -> Ticket {
    let topics = [OffsetDeleteTopic { name: "t", partitions: &[0] }];
    scene.send(Request::OffsetDelete(OffsetDelete { group_id: Some("g"), topics: &topics }))
}

#[test]
fn a_group_of_which_the_log_has_only_offsets_is_written_with_the_time_of_its_load() {
    let value = OffsetValue {
        offset: 7,
        leader_epoch: -1,
        metadata: "".into(),
        commit_timestamp_ms: 1,
        expire_timestamp_ms: None,
        topic_id: 0,
    };
    let record = Record::Offset { group_id: "g".into(), topic: "t".into(), partition: 0, value: Some(value) };
    let mut coordinator = Coordinator::new(config(), 0, 0);
    coordinator.replay(&LogEntry { offset: 0, timestamp_ms: 0, record });
    let mut scene = Scene::around(coordinator);
    let loaded_at = Now { mono_ms: 0, wall_ms: 90_000 };
    scene.coordinator.loaded(loaded_at, &mut scene.effects);
    delete(&mut scene, "g");
    scene.fail(scene.newest());
    scene.commit("h", "t", 1);
    let written = scene.effects.appends.iter().flat_map(|(_, records)| records).find_map(|record| match record {
        Record::Group { value: Some(value), .. } => Some(value.state_timestamp_ms),
        _ => None,
    });
    assert_eq!(written, Some(90_000));
}
