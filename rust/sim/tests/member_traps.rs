//! The classic traps with real members at the real coordinator: no member waits too long, and nothing is lost.

mod household;

use std::{collections::BTreeSet, sync::Arc};

use household::{Household, of};
use rota_assign::Assignor;
use rota_core::{ErrorCode, LogEntry, Projection, State};
use rota_member::{Config, Event, Failure, Member, Notice, Request, Strategy, Subscription, To};

const SESSION_MS: u64 = 10_000;
const HEARTBEAT_MS: u64 = 3_000;
/// Also the rebalance timeout.
const POLL_MS: u64 = 20_000;
const REQUEST_MS: u64 = 5_000;
/// The longest back-off.
const RETRY_MS: u64 = 1_000;
const NEW: i16 = 9;

fn usual() -> Config {
    Config {
        session_timeout_ms: SESSION_MS as u32,
        heartbeat_interval_ms: HEARTBEAT_MS as u32,
        max_poll_interval_ms: POLL_MS as u32,
        request_timeout_ms: REQUEST_MS as u32,
        metadata_max_age_ms: 10_000,
        ..Config::new("readers")
    }
}

fn of_instance(instance_id: &str) -> Config {
    Config { instance_id: Some(instance_id.to_owned()), ..usual() }
}

fn subscribe(room: &mut Household, at: usize, topics: &[&str]) {
    let topics = topics.iter().map(|name| Arc::from(*name)).collect();
    room.happen(at, Event::Subscribe(Subscription::Topics(topics)));
}

/// A new member: a client of some version that wants to read `t`.
fn enter(room: &mut Household, config: Config, join_version: i16) -> usize {
    let at = room.add(Member::new(config).expect("a good configuration"));
    room.clients[at].join_version = join_version;
    subscribe(room, at, &["t"]);
    at
}

/// A client that asks for a member id, and never gets further.
fn ask_for_an_id(room: &mut Household) -> usize {
    let at = room.add(Member::new(usual()).expect("a good configuration"));
    room.clients[at].loses = Some(is_join_with_id);
    subscribe(room, at, &["t"]);
    assert!(!room.clients[at].member.member_id().is_empty());
    at
}

fn is_join_with_id(request: &Request) -> bool {
    matches!(request, Request::JoinGroup { member_id, .. } if !member_id.is_empty())
}

fn is_sync(request: &Request) -> bool {
    matches!(request, Request::SyncGroup { .. })
}

/// A room in which these have all that there is, four partitions.
fn settled(configs: Vec<Config>, join_version: i16) -> Household {
    let mut room = Household::new(&[("t", 4)]);
    let all: Vec<usize> = configs.into_iter().map(|config| enter(&mut room, config, join_version)).collect();
    room.wait_until(HEARTBEAT_MS * all.len() as u64, |room| room.is_settled(&all));
    room
}

/// How long it takes until these have all that there is.
fn settle(room: &mut Household, within_ms: u64, places: &[usize]) -> u64 {
    let before_ms = room.now_ms;
    room.wait_until(within_ms, |room| room.is_settled(places));
    room.now_ms - before_ms
}

fn told(room: &Household) -> Projection {
    room.core.project("readers").expect("the group")
}

fn fences(room: &Household, at: usize) -> usize {
    let is_fence =
        |notice: &&Notice| matches!(notice, Notice::Failed(Failure::Answer { error: ErrorCode::FencedInstanceId, .. }));
    room.clients[at].notices.iter().filter(is_fence).count()
}

/// The coordinator loses its memory, and another has what was durable: its connections are gone, and what waited there
/// is not answered.
fn fail_over(room: &mut Household) {
    let mut core = household::coordinator(room.core.epoch() + 1);
    for (offset, record) in (0..).zip(&room.log) {
        core.replay(&LogEntry { offset, timestamp_ms: 0, record: record.clone() });
    }
    core.loaded(household::now(room.now_ms), &mut household::Effects::default());
    room.core = core;
    room.waiting.clear();
    for at in 0..room.clients.len() {
        room.happen(at, Event::Disconnected(To::Coordinator(household::NODE)));
    }
}

#[test]
fn trap_01_a_leader_that_never_syncs_is_waited_for_until_the_rebalance_timeout() {
    let patient = || Config { request_timeout_ms: 2 * POLL_MS as u32, ..usual() };
    let mut room = settled(vec![patient(), patient()], NEW);
    room.clients[0].loses = Some(is_sync);
    enter(&mut room, patient(), NEW);
    room.wait_until(HEARTBEAT_MS, |room| told(room).state == State::CompletingRebalance);
    let waited_ms = settle(&mut room, POLL_MS, &[1, 2]);
    assert_eq!(waited_ms, POLL_MS);
}

#[test]
fn trap_02_a_new_member_that_dies_before_its_first_sync_has_its_session_and_no_more() {
    let mut room = settled(vec![usual()], NEW);
    let newcomer = enter(&mut room, usual(), 3);
    room.clients[newcomer].is_deaf = true;
    let generation = room.clients[0].member.generation();
    room.wait_until(HEARTBEAT_MS, |room| room.clients[0].member.generation() == generation + 1);
    let waited_ms = settle(&mut room, SESSION_MS + HEARTBEAT_MS, &[0]);
    assert!(waited_ms >= SESSION_MS, "{waited_ms}");
}

#[test]
fn trap_03_each_of_many_that_join_and_are_gone_is_there_for_five_minutes_of_its_own() {
    let patient = Config { max_poll_interval_ms: 600_000, ..usual() };
    let mut room = settled(vec![patient], NEW);
    room.happen(0, Event::Busy);
    for before in 0..10 {
        assert_eq!(told(&room).members.len(), 1 + before);
        let orphan = enter(&mut room, usual(), 3);
        room.clients[orphan].is_deaf = true;
        room.pass(30_000);
    }
    for gone in 1..=10 {
        assert_eq!(told(&room).members.len(), 1 + 10 - gone);
        room.pass(if gone < 10 { 30_000 } else { 0 });
    }
    room.happen(0, Event::Poll);
    assert_eq!(settle(&mut room, 0, &[0]), 0);
}

#[test]
fn trap_03_those_who_have_to_ask_for_an_id_first_leave_nothing_but_an_id_that_expires() {
    let mut room = settled(vec![usual()], NEW);
    for _ in 0..10 {
        let orphan = ask_for_an_id(&mut room);
        room.clients[orphan].is_deaf = true;
        let found = told(&room);
        assert_eq!((found.members.len(), found.pending.len()), (1, 1));
        room.pass(SESSION_MS);
    }
    assert!(told(&room).pending.is_empty());
}

#[test]
fn trap_04_an_abandoned_id_is_waited_for_until_it_expires_and_not_longer() {
    let mut room = settled(vec![usual()], NEW);
    let abandoned = ask_for_an_id(&mut room);
    room.clients[abandoned].is_deaf = true;
    room.pass(2);
    let again = enter(&mut room, usual(), NEW);
    assert_eq!(settle(&mut room, SESSION_MS, &[0, again]), SESSION_MS - 2);
}

#[test]
fn trap_05_an_id_that_is_given_up_ends_the_join_phase_at_once() {
    let mut room = settled(vec![usual()], NEW);
    room.topics.insert("u".into(), of(1));
    let pending = ask_for_an_id(&mut room);
    subscribe(&mut room, 0, &["t", "u"]);
    assert!(!room.is_settled(&[0]));
    room.happen(pending, Event::Close { commit_timeout_ms: None });
    assert_eq!(settle(&mut room, 0, &[0]), 0);
}

#[test]
fn trap_05_an_id_that_expires_ends_the_join_phase() {
    let mut room = settled(vec![usual()], NEW);
    room.topics.insert("u".into(), of(1));
    let pending = ask_for_an_id(&mut room);
    room.clients[pending].is_deaf = true;
    subscribe(&mut room, 0, &["t", "u"]);
    assert_eq!(settle(&mut room, SESSION_MS, &[0]), SESSION_MS);
}

#[test]
fn trap_06_a_group_whose_last_member_expires_is_empty_though_an_id_is_out_and_that_id_begins_anew() {
    let mut room = settled(vec![usual()], NEW);
    let generation = told(&room).generation;
    room.clients[0].is_deaf = true;
    room.pass(SESSION_MS / 2);
    let pending = ask_for_an_id(&mut room);
    room.wait_until(SESSION_MS, |room| told(room).members.is_empty());
    room.wait_until(1, |room| told(room).state == State::Empty);
    let found = told(&room);
    assert_eq!((found.generation, found.pending.len()), (generation + 1, 1));
    room.clients[pending].loses = None;
    room.happen(pending, Event::Disconnected(To::Coordinator(household::NODE)));
    settle(&mut room, RETRY_MS, &[pending]);
    assert_eq!(told(&room).generation, generation + 2);
}

#[test]
fn trap_07_a_leave_ends_the_join_phase_at_once() {
    let mut room = settled(vec![usual(), usual()], NEW);
    room.topics.insert("u".into(), of(1));
    subscribe(&mut room, 0, &["t", "u"]);
    room.happen(1, Event::Close { commit_timeout_ms: None });
    assert_eq!(settle(&mut room, 0, &[0]), 0);
}

#[test]
fn trap_08_the_old_session_of_one_that_missed_the_join_phase_ends_nothing() {
    let long = || Config { session_timeout_ms: 3 * POLL_MS as u32, ..usual() };
    let mut room = settled(vec![long(), long()], NEW);
    room.topics.insert("u".into(), of(1));
    room.clients[1].is_deaf = true;
    subscribe(&mut room, 0, &["t", "u"]);
    assert_eq!(settle(&mut room, POLL_MS, &[0]), POLL_MS);
    let generation = told(&room).generation;
    room.pass(4 * POLL_MS);
    assert_eq!(told(&room).generation, generation);
}

#[test]
fn trap_09_members_of_version_0_wait_for_each_other() {
    let mut room = settled(vec![usual()], 0);
    let generation = told(&room).generation;
    enter(&mut room, usual(), 0);
    settle(&mut room, HEARTBEAT_MS, &[0, 1]);
    room.pass(3 * SESSION_MS);
    assert_eq!(told(&room).generation, generation + 1);
    assert!(room.is_settled(&[0, 1]));
}

#[test]
fn trap_10_of_two_processes_with_one_instance_the_older_is_told_at_once() {
    let mut room = settled(vec![of_instance("one"), usual()], NEW);
    room.topics.insert("u".into(), of(1));
    room.clients[1].is_deaf = true;
    subscribe(&mut room, 0, &["t", "u"]);
    let newer = enter(&mut room, of_instance("one"), NEW);
    assert_eq!((fences(&room, 0), fences(&room, newer)), (1, 0));
    let of_one = told(&room).members.iter().filter(|member| member.instance_id.as_deref() == Some("one")).count();
    assert_eq!(of_one, 1);
}

#[test]
fn trap_11_a_static_member_that_restarts_between_join_and_sync_gets_its_part() {
    let mut room = settled(vec![usual(), of_instance("one")], NEW);
    room.clients[0].loses = Some(is_sync);
    enter(&mut room, usual(), NEW);
    room.wait_until(HEARTBEAT_MS, |room| told(room).state == State::CompletingRebalance);
    room.clients[1].is_deaf = true;
    room.clients[0].loses = None;
    let restarted = enter(&mut room, of_instance("one"), NEW);
    settle(&mut room, REQUEST_MS + RETRY_MS, &[0, 2, restarted]);
    assert!(!room.clients[restarted].holds.is_empty());
}

#[test]
fn trap_12_who_replaced_a_static_member_is_known_after_a_fail_over() {
    let mut room = settled(vec![of_instance("one"), usual()], NEW);
    let generation = told(&room).generation;
    room.clients[0].is_deaf = true;
    let restarted = enter(&mut room, of_instance("one"), NEW);
    fail_over(&mut room);
    room.pass(2 * SESSION_MS);
    assert!(room.is_settled(&[1, restarted]));
    assert_eq!(told(&room).generation, generation);
    room.clients[0].is_deaf = false;
    room.wait_until(2 * SESSION_MS, |room| fences(room, 0) == 1);
    assert!(room.is_settled(&[1, restarted]));
}

#[test]
fn trap_13_a_static_leader_that_restarts_goes_on_looking_at_the_topics() {
    let mut room = settled(vec![of_instance("one"), usual()], NEW);
    assert!(room.clients[0].member.is_leader());
    let generation = told(&room).generation;
    room.clients[0].is_deaf = true;
    let restarted = enter(&mut room, of_instance("one"), NEW);
    assert!(room.is_settled(&[1, restarted]));
    assert_eq!(told(&room).generation, generation);
    room.topics.insert("t".into(), of(6));
    settle(&mut room, 10_000 + HEARTBEAT_MS, &[1, restarted]);
    assert_eq!(told(&room).generation, generation + 1);
}

#[test]
fn trap_14_a_static_member_that_is_away_is_kept_at_the_join_deadline_and_given_up_later() {
    let long = Config { session_timeout_ms: 2 * POLL_MS as u32, ..of_instance("one") };
    let mut room = settled(vec![long, usual()], NEW);
    room.topics.insert("u".into(), of(1));
    let generation = told(&room).generation;
    room.clients[0].is_deaf = true;
    subscribe(&mut room, 1, &["t", "u"]);
    room.pass(POLL_MS);
    let found = told(&room);
    assert_eq!((found.generation, found.members.len()), (generation + 1, 2));
    assert!(!room.is_settled(&[1]));
    settle(&mut room, POLL_MS + HEARTBEAT_MS, &[1]);
}

#[test]
fn trap_20_no_partition_has_two_owners_when_old_claims_meet_new_ones() {
    let cooperative = || Config { strategies: vec![Strategy::BuiltIn(Assignor::CooperativeSticky)], ..usual() };
    let mut room = settled(vec![cooperative(), cooperative()], NEW);
    room.clients[1].loses = Some(is_sync);
    enter(&mut room, cooperative(), NEW);
    let generation = told(&room).generation;
    room.wait_until(HEARTBEAT_MS, |room| told(room).generation == generation + 1);
    enter(&mut room, cooperative(), NEW);
    room.clients[1].loses = None;
    room.wait_until(2 * POLL_MS, |room| {
        let held: Vec<_> = room.clients.iter().flat_map(|client| &client.holds).collect();
        assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), held.len(), "one partition, two owners: {held:?}");
        room.is_settled(&[0, 1, 2, 3])
    });
}
