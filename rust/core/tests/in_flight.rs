//! What happens while something is on its way to the log, and when that ends late, badly or in another order:
//! docs/protocol.md §4.10, §6.4, §9, §10.3.

mod scene;

use rota_core::{AppendId, Config, Coordinator, ErrorCode, LogEntry, Record, State, records::OffsetValue};
use scene::{Joining, Scene, config, joining};

/// As `append_unattended` promises.
const UNATTENDED_BYTES_MAX: usize = 256 * 1024;

/// i1 comes back without its id while the group is Stable: its replacement goes to the log.
fn replace_i1(scene: &mut Scene) -> (rota_core::Ticket, AppendId) {
    let ticket = scene.join(&joining("i1"));
    assert!(scene.is_open(ticket), "it waits for its record");
    (ticket, scene.newest())
}

fn two_stable(scene: &mut Scene) -> (String, String) {
    scene.two_stable(&joining("i0"), &joining("i1"))
}

/// The member ids of the group record that an append has.
fn recorded_members(records: &[Record]) -> Option<Vec<String>> {
    records.iter().find_map(|record| match record {
        Record::Group { value: Some(value), .. } => {
            Some(value.members.iter().map(|member| member.member_id.to_string()).collect())
        }
        _ => None,
    })
}

fn is_tombstone(record: &Record) -> bool {
    matches!(record, Record::Offset { value: None, .. })
}

#[test]
fn a_replacement_overtaken_by_a_rebalance_stands_though_its_append_fails_later() {
    let mut scene = Scene::new(config());
    let brief = |instance| Joining { rebalance_ms: 1_000, ..joining(instance) };
    let (leader, follower) = scene.two_stable(&brief("i0"), &brief("i1"));
    let newcomer = scene.join(&brief("i1"));
    let replacement = scene.newest();
    let rejoined = scene.join(&Joining { member_id: &leader, ..brief("i0") });
    assert_eq!(scene.reply(newcomer).error, ErrorCode::RebalanceInProgress);
    scene.until(1_000);
    assert_eq!((scene.reply(rejoined).error, scene.reply(rejoined).generation), (ErrorCode::None, 2));
    let synced = scene.sync(&leader, 2, &[(&leader, b"X")]);
    let plan = scene.newest();
    scene.fail(replacement);
    assert!(!scene.member_ids().contains(&follower), "the predecessor does not come back");
    scene.end(plan, Ok(1));
    assert_eq!((scene.reply(synced).error, &*scene.reply(synced).assignment), (ErrorCode::None, &b"X"[..]));
    assert!(!scene.member_ids().contains(&follower));
}

#[test]
fn an_overtaken_replacement_keeps_the_protocols_that_others_joined_with() {
    let mut scene = Scene::new(config());
    let both: &[&str] = &["range", "sticky"];
    let brief = |instance, offers| Joining { rebalance_ms: 1_000, offers, ..joining(instance) };
    let (leader, _) = scene.two_stable(&brief("i0", both), &brief("i1", &["range"]));
    scene.join(&brief("i1", both));
    let replacement = scene.newest();
    // Only now that i1 offers it too is sticky common to all.
    let third = scene.join(&brief("i2", &["sticky"]));
    scene.fail(replacement);
    scene.join(&Joining { member_id: &leader, ..brief("i0", both) });
    scene.until(1_000);
    assert_eq!(scene.reply(third).error, ErrorCode::None);
    assert_eq!(scene.group().protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn a_parked_newcomer_removed_by_the_sync_deadline_is_answered_unknown_member_id() {
    let mut scene = Scene::new(config());
    let brief = |instance| Joining { rebalance_ms: 1_000, ..joining(instance) };
    let (leader, _) = scene.two_joined(&brief("i0"), &brief("i1"));
    scene.sync(&leader, 1, &[]);
    scene.store();
    assert_eq!(scene.group().state, State::Stable, "i1 has not synced");
    let newcomer = scene.join(&brief("i1"));
    let replacement = scene.newest();
    scene.until(1_000);
    assert_eq!(scene.reply(newcomer).error, ErrorCode::UnknownMemberId);
    assert_eq!(scene.member_ids(), [leader]);
    scene.end(replacement, Ok(3));
    scene.reply(newcomer);
}

#[test]
fn a_newcomer_that_comes_back_with_its_id_takes_the_place_of_its_parked_request() {
    let mut scene = Scene::new(config());
    two_stable(&mut scene);
    let (first, replacement) = replace_i1(&mut scene);
    let id = scene.member_ids().remove(1);
    let second = scene.join(&Joining { member_id: &id, ..joining("i1") });
    assert_eq!(scene.reply(first).error, ErrorCode::NotCoordinator);
    assert!(scene.is_open(second));
    scene.end(replacement, Ok(3));
    assert_eq!((scene.reply(second).error, &scene.reply(second).member_id), (ErrorCode::None, &id));
    scene.reply(first);
}

#[test]
fn a_newcomer_that_comes_back_with_another_offer_rebalances_and_every_request_is_answered_once() {
    let mut scene = Scene::new(config());
    let (leader, _) = two_stable(&mut scene);
    let (first, replacement) = replace_i1(&mut scene);
    let id = scene.member_ids().remove(1);
    let changed = Joining { member_id: &id, offers: &["range", "sticky"], ..joining("i1") };
    let second = scene.join(&changed);
    assert_eq!(scene.reply(first).error, ErrorCode::NotCoordinator);
    assert_eq!(scene.group().state, State::PreparingRebalance);
    scene.end(replacement, Ok(3));
    // What overtakes a replacement sends its request back, this one too (departure D3): it comes again.
    assert_eq!(scene.reply(second).error, ErrorCode::RebalanceInProgress);
    let third = scene.join(&changed);
    let rejoined = scene.join(&Joining { member_id: &leader, ..joining("i0") });
    for ticket in [third, rejoined] {
        assert_eq!((scene.reply(ticket).error, scene.reply(ticket).generation), (ErrorCode::None, 2));
    }
    // Its session was armed once: with the two gone nothing is left to wait for.
    scene.leave(&[&leader, &id]);
    scene.store();
    scene.until(500_000);
    let next = scene.coordinator.next_deadline();
    assert_eq!(scene.group().state, State::Empty);
    assert!(next.is_some_and(|next| next > 500_000), "nothing is left but the cleaner, not {next:?}");
    scene.reply(first);
    scene.reply(second);
}

#[test]
fn a_replacement_that_fails_is_undone_and_its_newcomer_told() {
    let mut scene = Scene::new(config());
    let (leader, follower) = two_stable(&mut scene);
    let (newcomer, replacement) = replace_i1(&mut scene);
    scene.fail(replacement);
    assert_eq!(scene.reply(newcomer).error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(scene.member_ids(), [leader, follower]);
}

#[test]
fn a_replacement_of_a_replacement_that_fails_as_the_first_does_brings_back_who_was_before_both() {
    let mut scene = Scene::new(config());
    let (leader, follower) = two_stable(&mut scene);
    let (first, replacement) = replace_i1(&mut scene);
    let (second, replacement_of_it) = replace_i1(&mut scene);
    assert_eq!(scene.reply(first).error, ErrorCode::FencedInstanceId);
    scene.fail(replacement);
    assert!(scene.is_open(second));
    scene.fail(replacement_of_it);
    assert_eq!(scene.reply(second).error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(scene.member_ids(), [leader, follower]);
}

#[test]
fn a_late_failure_of_an_undone_replacement_is_not_written_again() {
    let mut scene = Scene::new(config());
    let long = |instance| Joining { session_ms: 60_000, ..joining(instance) };
    let (_, follower) = scene.two_stable(&long("i0"), &long("i1"));
    let (newcomer, replacement) = replace_i1(&mut scene);
    scene.until(5_000);
    assert_eq!(scene.reply(newcomer).error, ErrorCode::CoordinatorNotAvailable, "it takes too long");
    assert!(scene.member_ids().contains(&follower));
    scene.fail(replacement);
    scene.commit("other", "t", 1);
    let later = scene.effects.appends.iter().filter(|(append_id, _)| *append_id > replacement);
    let groups = later.filter_map(|(_, records)| recorded_members(records)).count();
    assert_eq!(groups, 0, "the log has the predecessor already");
}

#[test]
fn a_late_success_of_an_undone_replacement_is_corrected_by_the_groups_record() {
    let mut scene = Scene::new(config());
    let long = |instance| Joining { session_ms: 60_000, ..joining(instance) };
    let (leader, follower) = scene.two_stable(&long("i0"), &long("i1"));
    let (_, replacement) = replace_i1(&mut scene);
    scene.until(5_000);
    scene.end(replacement, Ok(9));
    let correction = scene.newest();
    assert!(correction > replacement, "the log has a newcomer that the group has not");
    assert_eq!(recorded_members(scene.records(correction)), Some(vec![leader, follower]));
}

#[test]
fn a_correction_that_fails_goes_before_the_next_append() {
    let mut scene = Scene::new(config());
    let long = |instance| Joining { session_ms: 60_000, ..joining(instance) };
    let (leader, follower) = scene.two_stable(&long("i0"), &long("i1"));
    let (_, replacement) = replace_i1(&mut scene);
    scene.until(5_000);
    scene.end(replacement, Ok(9));
    scene.fail(scene.newest());
    scene.commit("other", "t", 1);
    let commit = scene.newest();
    let again = AppendId(commit.0 - 1);
    assert_eq!(recorded_members(scene.records(again)), Some(vec![leader, follower]));
}

#[test]
fn a_newcomer_that_is_told_it_is_in_does_not_expire_in_the_same_instant() {
    let mut scene = Scene::new(config());
    let brief = |instance| Joining { session_ms: 1_000, ..joining(instance) };
    scene.two_stable(&joining("i0"), &brief("i1"));
    let newcomer = scene.join(&brief("i1"));
    let replacement = scene.newest();
    scene.until(2_000);
    scene.end(replacement, Ok(3));
    assert_eq!(scene.reply(newcomer).error, ErrorCode::None);
    scene.until(2_000);
    assert_eq!(scene.group().members.len(), 2, "it has its session to be heard of");
    scene.until(3_000);
    assert_eq!(scene.group().members.len(), 1, "and no more than that");
}

#[test]
fn an_older_commit_that_ends_after_its_tombstone_does_not_bring_the_offset_back() {
    let mut scene = Scene::new(config());
    let ticket = scene.commit("g", "t", 1);
    let commit = scene.newest();
    scene.delete_topic("t");
    let tombstone = scene.newest();
    assert!(tombstone > commit && scene.records(tombstone).iter().all(is_tombstone));
    scene.end(tombstone, Ok(1));
    assert!(scene.is_open(ticket), "an end counts when those of older appends have come");
    scene.end(commit, Ok(0));
    assert_eq!(scene.reply(ticket).error, ErrorCode::None);
    assert!(scene.coordinator.project("g").is_none_or(|group| group.offsets.is_empty()));
}

#[test]
fn a_tombstone_that_fails_before_its_commit_ends_is_written_again() {
    let mut scene = Scene::new(config());
    scene.commit("g", "t", 1);
    let commit = scene.newest();
    scene.delete_topic("t");
    scene.fail(scene.newest());
    scene.end(commit, Ok(0));
    scene.commit("h", "u", 1);
    let again = AppendId(scene.newest().0 - 1);
    assert!(scene.records(again).iter().all(is_tombstone), "before the next append");
    scene.end(again, Ok(2));
    assert!(scene.group().offsets.is_empty());
}

#[test]
fn an_older_group_record_that_fails_after_a_newer_one_is_durable_is_not_written_again() {
    let mut scene = Scene::new(config());
    let (leader, follower) = two_stable(&mut scene);
    scene.leave(&[&leader, &follower]);
    let emptied = scene.newest();
    assert_eq!(recorded_members(scene.records(emptied)), Some(vec![]));
    let joined = scene.join(&joining("i0"));
    scene.until(0);
    let id = scene.reply(joined).member_id.clone();
    scene.sync(&id, 3, &[]);
    let plan = scene.newest();
    scene.end(plan, Ok(1));
    scene.fail(emptied);
    assert_eq!(scene.group().state, State::Stable);
    scene.commit("h", "u", 1);
    let later = scene.effects.appends.iter().filter(|(append_id, _)| *append_id > plan);
    assert_eq!(later.filter_map(|(_, records)| recorded_members(records)).count(), 0);
}

#[test]
fn tombstones_fill_a_batch_to_its_last_byte() {
    let mut scene = Scene::new(config());
    // 128 bytes are reckoned for a record beside its key, which is 11 bytes here and the topic's name.
    let topic = "t".repeat(256 - 128 - 11);
    let records = UNATTENDED_BYTES_MAX / 256;
    scene.commit("g", &topic, i32::try_from(records + 1).expect("a thousand"));
    scene.store();
    let before = scene.effects.appends.len();
    scene.delete_topic(&topic);
    let lengths: Vec<usize> = scene.effects.appends[before..].iter().map(|(_, records)| records.len()).collect();
    assert_eq!(lengths, [records, 1]);
}

#[test]
fn tombstones_that_do_not_fit_fail_alone_and_other_appends_go_on() {
    let mut scene = Scene::new(config());
    let topic = "t".repeat(249);
    scene.commit("g", &topic, 2_000);
    scene.store();
    let before = scene.effects.appends.len();
    scene.delete_topic(&topic);
    let batches: Vec<(AppendId, Vec<Record>)> = scene.effects.appends.drain(before..).collect();
    assert!(batches.len() > 1, "so many do not go as one");
    for (append_id, records) in &batches {
        let bytes: usize = records.iter().map(|record| record.key_bytes().len()).sum();
        assert!(bytes <= UNATTENDED_BYTES_MAX && records.iter().all(is_tombstone));
        scene.end(*append_id, Err(ErrorCode::MessageTooLarge));
    }
    // The next request tries them again, and its result does not depend on them.
    for _ in 0..3 {
        let ticket = scene.commit("innocent", "u", 1);
        let (commit, tried): (AppendId, Vec<_>) = (scene.newest(), scene.effects.appends.drain(before..).collect());
        assert_eq!(tried.len(), batches.len() + 1);
        for (append_id, records) in tried {
            assert_eq!(append_id == commit, !records.iter().any(is_tombstone), "a commit is an append of its own");
            let result = if append_id == commit { Ok(1) } else { Err(ErrorCode::MessageTooLarge) };
            scene.end(append_id, result);
        }
        assert_eq!(scene.reply(ticket).error, ErrorCode::None);
    }
}

#[test]
fn absent_static_members_without_a_rebalance_timeout_are_looked_at_every_100_ms() {
    let mut scene = Scene::new(config());
    let hasty = |instance| Joining { session_ms: 1_800_000, rebalance_ms: 0, ..joining(instance) };
    scene.two_stable(&Joining { rebalance_ms: 5, ..joining("i0") }, &Joining { rebalance_ms: 5, ..joining("i1") });
    for instance in ["i0", "i1"] {
        scene.join(&hasty(instance));
        scene.store();
    }
    // A third begins a rebalance that the two, alive as they are, never join, and leaves it.
    let third = scene.join(&hasty("i2"));
    let id = scene.member_ids().remove(2);
    scene.leave(&[&id]);
    assert_eq!(scene.reply(third).error, ErrorCode::UnknownMemberId);
    scene.until(0);
    for look in 1..=20 {
        let (name, deadline_ms) = scene.group().timers[0];
        assert_eq!((name, deadline_ms, scene.group().state), ("Join", look * 100, State::PreparingRebalance));
        scene.until(deadline_ms);
    }
}

#[test]
fn a_join_phase_that_is_over_before_its_groups_record_is_answers_when_that_is_durable() {
    let mut scene = Scene::new(Config { group_initial_rebalance_delay_ms: 100, ..config() });
    let first = scene.join(&joining("i0"));
    let record = scene.newest();
    scene.until(100);
    let second = scene.join(&joining("i1"));
    assert!(scene.is_open(first) && scene.is_open(second));
    scene.end(record, Ok(0));
    for ticket in [first, second] {
        assert_eq!((scene.reply(ticket).error, scene.reply(ticket).generation), (ErrorCode::None, 1));
    }
    assert_eq!(scene.group().state, State::CompletingRebalance);
}

#[test]
fn a_coordinator_that_loads_appends_nothing_when_a_topic_goes() {
    let mut coordinator = Coordinator::new(config(), 0, 0);
    let value = OffsetValue {
        offset: 1,
        leader_epoch: -1,
        metadata: "".into(),
        commit_timestamp_ms: 0,
        expire_timestamp_ms: None,
        topic_id: 0,
    };
    let record = Record::Offset { group_id: "g".into(), topic: "t".into(), partition: 0, value: Some(value) };
    coordinator.replay(&LogEntry { offset: 0, timestamp_ms: 0, record });
    let mut scene = Scene::around(coordinator);
    scene.delete_topic("t");
    assert!(scene.effects.appends.is_empty());
}
