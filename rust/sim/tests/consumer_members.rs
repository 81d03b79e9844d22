//! Members of `rota-member` that use the newer protocol, in groups of the real coordinator (docs/consumer-protocol.md
//! §22).

mod household;

use std::{collections::BTreeSet, sync::Arc};

use household::{Household, Wanted};
use rota_core::ErrorCode;
use rota_member::{
    Answer, CommitId, Config, ConfigError, ConsumerHeartbeat, Event, Failure, Member, Notice, Offset, Partition,
    Request, State, Strategy, Subscription, To,
};
use rota_sim::dice::Rng;

/// `group.consumer.heartbeat.interval.ms` and `group.consumer.session.timeout.ms`.
const HEARTBEAT_MS: u64 = 5_000;
const SESSION_MS: u64 = 45_000;

fn config(seed: u64) -> Config {
    Config { seed, ..Config::consumer("readers", None) }
}

fn member(seed: u64) -> Member {
    Member::new(config(seed)).expect("a good configuration")
}

fn static_member(instance_id: &str, seed: u64) -> Member {
    let config = Config { instance_id: Some(instance_id.to_owned()), ..config(seed) };
    Member::new(config).expect("a good configuration")
}

fn topics(names: &[&str]) -> Event {
    Event::Subscribe(Subscription::Topics(names.iter().map(|name| Arc::from(*name)).collect()))
}

fn pattern(pattern: &str) -> Event {
    Event::Subscribe(Subscription::CoordinatorPattern(Arc::from(pattern)))
}

/// Waits until these hold everything, each a part of it.
fn settle(room: &mut Household, places: &[usize]) {
    let all_have = |room: &Household| places.iter().all(|&at| !room.clients[at].holds.is_empty());
    room.wait_until(60_000, |room| room.is_settled(places) && all_have(room));
}

/// So many members that read `t`, settled.
fn group(partitions: i32, members: usize) -> Household {
    let mut room = Household::new(&[("t", partitions)]);
    for at in 0..members {
        room.add(member(at as u64));
        room.happen(at, topics(&["t"]));
    }
    settle(&mut room, &(0..members).collect::<Vec<_>>());
    room
}

fn is_beat(request: &Request) -> bool {
    matches!(request, Request::ConsumerGroupHeartbeat(_))
}

/// An error as the coordinator would give it to a heartbeat.
fn beat(error: ErrorCode) -> (Wanted, Answer) {
    let message = Some("because".to_owned());
    let answer =
        Answer::ConsumerGroupHeartbeat { error, message, epoch: 0, heartbeat_interval_ms: 0, assignment: None };
    (is_beat, answer)
}

/// A heartbeat without what identifies the member.
#[derive(Debug, PartialEq, Eq)]
struct Beat {
    epoch: i32,
    rebalance_timeout_ms: i32,
    topics: Option<Vec<String>>,
    pattern: Option<String>,
    assignor: Option<String>,
    owned: Option<Vec<(u128, Vec<i32>)>>,
}

/// A heartbeat that says nothing but its epoch.
fn plain(epoch: i32) -> Beat {
    Beat { epoch, rebalance_timeout_ms: -1, topics: None, pattern: None, assignor: None, owned: None }
}

/// One that says everything.
fn full(epoch: i32, owned: &[(u128, Vec<i32>)]) -> Beat {
    let topics = Some(vec!["t".to_owned()]);
    Beat { rebalance_timeout_ms: 300_000, topics, owned: Some(owned.to_vec()), ..plain(epoch) }
}

fn beats(room: &Household, at: usize) -> Vec<Beat> {
    let beat = |request: &Request| match request.clone() {
        Request::ConsumerGroupHeartbeat(heartbeat) => {
            let ConsumerHeartbeat { epoch, rebalance_timeout_ms, topics, pattern, assignor, owned, .. } = heartbeat;
            let topics = topics.map(|topics| topics.iter().map(|topic| (**topic).to_owned()).collect());
            let pattern = pattern.map(|pattern| (*pattern).to_owned());
            Some(Beat { epoch, rebalance_timeout_ms, topics, pattern, assignor, owned })
        }
        _ => None,
    };
    room.clients[at].sent.iter().filter_map(beat).collect()
}

/// Member ids of all heartbeats.
fn ids(room: &Household, at: usize) -> BTreeSet<String> {
    let id = |request: &Request| match request {
        Request::ConsumerGroupHeartbeat(heartbeat) => Some(heartbeat.member_id.clone()),
        _ => None,
    };
    room.clients[at].sent.iter().filter_map(id).collect()
}

/// The notices about partitions: a sign and how many.
fn told(room: &Household, at: usize) -> Vec<(char, usize)> {
    let change = |notice: &Notice| match notice {
        Notice::Assign { added, .. } => Some(('+', added.len())),
        Notice::Revoke { partitions } => Some(('-', partitions.len())),
        Notice::Lose { partitions } => Some(('!', partitions.len())),
        _ => None,
    };
    room.clients[at].notices.iter().filter_map(change).collect()
}

fn failures(room: &Household, at: usize) -> Vec<Failure> {
    let failure = |notice: &Notice| match notice {
        Notice::Failed(failure) => Some(failure.clone()),
        _ => None,
    };
    room.clients[at].notices.iter().filter_map(failure).collect()
}

fn commits(room: &Household, at: usize) -> Vec<Result<(), Failure>> {
    let result = |notice: &Notice| match notice {
        Notice::Committed { result, .. } => Some(result.clone()),
        _ => None,
    };
    room.clients[at].notices.iter().filter_map(result).collect()
}

fn commit(room: &mut Household, at: usize, partition: &Partition, offset: i64) {
    let offsets = vec![(partition.clone(), Offset::at(offset))];
    room.happen(at, Event::Commit { commit: CommitId(1), offsets });
}

fn some_partition(room: &Household, at: usize) -> Partition {
    room.clients[at].holds.first().cloned().expect("it holds a partition")
}

#[test]
fn one_member_joins_with_everything_then_says_only_what_is_new() {
    let mut room = group(2, 1);
    room.pass(2 * HEARTBEAT_MS);
    let epoch = room.clients[0].member.generation();
    let acknowledgment = Beat { owned: Some(vec![(1, vec![0, 1])]), ..plain(epoch) };
    assert_eq!(beats(&room, 0), [full(0, &[]), acknowledgment, plain(epoch), plain(epoch)]);
    assert_eq!(told(&room, 0), [('+', 2)]);
    let expected = room.clients[0].member.member_id();
    assert_eq!(expected.len(), 22);
    assert_eq!(ids(&room, 0), BTreeSet::from([expected.to_owned()]));
}

#[test]
fn a_member_gives_up_what_moves_before_it_acknowledges() {
    let mut room = group(4, 1);
    room.add(member(1));
    room.happen(1, topics(&["t"]));
    assert_eq!(room.clients[1].member.state(), State::Stable, "with nothing, so far");
    room.clients[0].is_slow = true;
    room.wait_until(60_000, |room| told(room, 0).contains(&('-', 2)));
    room.pass(3 * HEARTBEAT_MS);
    assert_eq!(room.clients[1].holds.len(), 0, "the first one has not finished");
    assert_eq!(room.clients[0].member.state(), State::Reconciling);
    assert_eq!(beats(&room, 0).last().and_then(|beat| beat.owned.clone()), None);
    room.clients[0].is_slow = false;
    room.happen(0, Event::Done);
    let owned = beats(&room, 0).last().and_then(|beat| beat.owned.clone()).expect("it acknowledges at once");
    assert_eq!(owned.iter().map(|(_, indexes)| indexes.len()).sum::<usize>(), 2);
    settle(&mut room, &[0, 1]);
    assert_eq!(told(&room, 0), [('+', 4), ('-', 2)]);
    assert_eq!(told(&room, 1), [('+', 0), ('+', 2)]);
}

#[test]
fn a_dynamic_member_leaves_for_good() {
    let mut room = group(4, 2);
    room.happen(0, Event::Close { commit_timeout_ms: None });
    assert!(room.clients[0].member.is_closed());
    assert_eq!(beats(&room, 0).last(), Some(&plain(-1)));
    assert_eq!(told(&room, 0).last(), Some(&('-', 2)));
    room.wait_until(2 * HEARTBEAT_MS, |room| room.is_settled(&[1]));
}

#[test]
fn a_member_that_must_not_leave_on_close_says_nothing() {
    let mut room = Household::new(&[("t", 1)]);
    let config = Config { leave_on_close: false, ..config(0) };
    room.add(Member::new(config).expect("a good configuration"));
    room.happen(0, topics(&["t"]));
    settle(&mut room, &[0]);
    let before = beats(&room, 0).len();
    room.happen(0, Event::Close { commit_timeout_ms: None });
    assert!(room.clients[0].member.is_closed());
    assert_eq!(beats(&room, 0).len(), before);
}

#[test]
fn a_silent_member_is_removed_and_comes_back_under_its_id() {
    let mut room = group(4, 2);
    room.clients[0].is_deaf = true;
    let (before, told_before) = (room.now_ms, told(&room, 0).len());
    settle(&mut room, &[1]);
    assert!(room.now_ms > before + SESSION_MS - HEARTBEAT_MS);
    room.clients[0].is_deaf = false;
    settle(&mut room, &[0, 1]);
    assert_eq!(told(&room, 0)[told_before..], [('!', 2), ('+', 0), ('+', 2)]);
    assert_eq!(ids(&room, 0).len(), 1);
    assert!(failures(&room, 0).is_empty());
}

#[test]
fn a_fenced_member_gives_everything_up_then_joins_again() {
    for error in [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId] {
        let mut room = group(2, 1);
        room.clients[0].is_slow = true;
        room.injected.push_back(beat(error));
        room.wait_until(2 * HEARTBEAT_MS, |room| told(room, 0).last() == Some(&('!', 2)));
        assert_eq!(room.clients[0].member.state(), State::Unjoined);
        let before = beats(&room, 0).len();
        room.pass(HEARTBEAT_MS);
        assert_eq!(beats(&room, 0).len(), before, "not before the application has given up");
        room.clients[0].is_slow = false;
        room.happen(0, Event::Done);
        assert_eq!(beats(&room, 0)[before], full(0, &[]));
        settle(&mut room, &[0]);
        assert_eq!(ids(&room, 0).len(), 1);
    }
}

#[test]
fn a_member_that_is_fenced_while_it_revokes_loses_the_rest() {
    let mut room = group(4, 1);
    room.add(member(1));
    room.happen(1, topics(&["t"]));
    room.clients[0].is_slow = true;
    room.wait_until(60_000, |room| told(room, 0).contains(&('-', 2)));
    room.injected.push_back(beat(ErrorCode::FencedMemberEpoch));
    room.pass(HEARTBEAT_MS);
    assert_eq!(told(&room, 0), [('+', 4), ('-', 2)], "one notice at a time");
    room.clients[0].is_slow = false;
    room.happen(0, Event::Done);
    settle(&mut room, &[0, 1]);
    assert_eq!(told(&room, 0)[..3], [('+', 4), ('-', 2), ('!', 2)]);
}

#[test]
fn a_member_that_is_fenced_while_it_takes_over_loses_everything() {
    let mut room = Household::new(&[("t", 2)]);
    room.add(member(0));
    room.clients[0].is_slow = true;
    room.happen(0, topics(&["t"]));
    assert_eq!(told(&room, 0), [('+', 2)]);
    room.injected.push_back(beat(ErrorCode::FencedMemberEpoch));
    room.pass(HEARTBEAT_MS);
    room.clients[0].is_slow = false;
    room.happen(0, Event::Done);
    settle(&mut room, &[0]);
    assert_eq!(told(&room, 0), [('+', 2), ('!', 2), ('+', 2)]);
}

#[test]
fn after_a_lost_answer_a_member_says_everything_again() {
    let mut room = group(2, 1);
    let epoch = room.clients[0].member.generation();
    room.clients[0].misses = Some(is_beat);
    room.pass(HEARTBEAT_MS);
    room.clients[0].misses = None;
    room.happen(0, Event::Disconnected(To::Coordinator(household::NODE)));
    room.pass(HEARTBEAT_MS);
    let after = beats(&room, 0);
    assert!(after.contains(&full(epoch, &[(1, vec![0, 1])])), "{after:?}");
    assert!(room.is_settled(&[0]));
    assert_eq!(told(&room, 0), [('+', 2)]);
}

#[test]
fn a_join_whose_answer_was_lost_is_repeated_under_the_same_id() {
    let mut room = Household::new(&[("t", 2)]);
    room.add(member(0));
    room.clients[0].misses = Some(is_beat);
    room.happen(0, topics(&["t"]));
    assert_eq!(room.clients[0].member.state(), State::Joining);
    room.clients[0].misses = None;
    room.pass(60_000);
    assert!(room.is_settled(&[0]));
    assert_eq!(beats(&room, 0)[..2], [full(0, &[]), full(0, &[])]);
    assert_eq!(room.core.member_ids().count(), 1);
}

#[test]
fn a_static_member_keeps_its_place_while_it_is_away() {
    let mut room = Household::new(&[("t", 4)]);
    for (at, instance_id) in ["one", "two"].into_iter().enumerate() {
        room.add(static_member(instance_id, at as u64));
        room.happen(at, topics(&["t"]));
    }
    settle(&mut room, &[0, 1]);
    let (told_before, had) = (told(&room, 0), room.clients[1].holds.clone());
    room.happen(1, Event::Close { commit_timeout_ms: None });
    assert_eq!(beats(&room, 1).last(), Some(&plain(-2)));
    let again = room.add(static_member("two", 9));
    room.happen(again, topics(&["t"]));
    settle(&mut room, &[0, again]);
    assert_eq!(room.clients[again].holds, had);
    assert_eq!(told(&room, 0), told_before);
}

#[test]
fn the_newer_of_two_with_one_instance_id_is_refused() {
    let mut room = Household::new(&[("t", 4)]);
    room.add(static_member("one", 0));
    room.happen(0, topics(&["t"]));
    settle(&mut room, &[0]);
    room.add(static_member("one", 1));
    room.happen(1, topics(&["t"]));
    let [Failure::Refused { error, message, .. }] = &failures(&room, 1)[..] else { panic!("one failure") };
    assert_eq!(*error, ErrorCode::UnreleasedInstanceId);
    assert!(message.contains("is owned by"), "{message}");
    room.happen(0, Event::Close { commit_timeout_ms: None });
    room.happen(1, Event::Poll);
    settle(&mut room, &[1]);
}

#[test]
fn the_coordinator_resolves_patterns() {
    let mut room = Household::new(&[("ta", 2)]);
    room.add(member(0));
    room.happen(0, pattern("t.*"));
    settle(&mut room, &[0]);
    room.create("tb", 3);
    settle(&mut room, &[0]);
    let joined = Beat { topics: Some(Vec::new()), pattern: Some("t.*".to_owned()), ..full(0, &[]) };
    assert_eq!(beats(&room, 0)[0], joined);
    assert!(beats(&room, 0)[1..].iter().all(|beat| beat.pattern.is_none()));
}

#[test]
fn a_change_of_the_subscription_is_reported_at_once() {
    let mut room = Household::new(&[("t", 2), ("u", 1)]);
    room.add(member(0));
    room.happen(0, pattern("[tu]"));
    settle(&mut room, &[0]);
    room.happen(0, topics(&["u"]));
    let epoch = beats(&room, 0).last().map_or(0, |beat| beat.epoch);
    let expected = Beat { topics: Some(vec!["u".to_owned()]), pattern: Some(String::new()), ..plain(epoch) };
    let after = beats(&room, 0);
    assert!(after.contains(&expected), "{after:?}");
    room.wait_until(60_000, |room| room.clients[0].holds == BTreeSet::from([Partition::new("u", 0)]));
    assert_eq!(told(&room, 0).last(), Some(&('-', 2)));
}

#[test]
fn a_pattern_that_the_coordinator_cannot_read_is_raised() {
    let mut room = Household::new(&[("t", 2)]);
    room.add(member(0));
    room.happen(0, pattern("("));
    let [Failure::Refused { error, .. }] = &failures(&room, 0)[..] else { panic!("one failure") };
    assert_eq!(*error, ErrorCode::InvalidRegularExpression);
    room.pass(60_000);
    assert_eq!(beats(&room, 0).len(), 1, "not before the application polls");
    room.happen(0, pattern("t"));
    room.happen(0, Event::Poll);
    settle(&mut room, &[0]);
}

#[test]
fn an_application_that_works_for_too_long_leaves_and_comes_back() {
    let mut room = group(4, 2);
    room.happen(0, Event::Busy);
    room.wait_until(400_000, |room| room.is_settled(&[1]));
    assert_eq!(beats(&room, 0).last(), Some(&plain(-1)));
    assert_eq!(room.clients[0].member.state(), State::Unjoined);
    assert_eq!(room.clients[0].holds.len(), 2, "it has not polled, and does not know");
    room.happen(0, Event::Poll);
    settle(&mut room, &[0, 1]);
    assert!(told(&room, 0).contains(&('!', 2)));
}

#[test]
fn a_member_that_unsubscribes_leaves_and_can_come_back() {
    let mut room = group(4, 2);
    room.happen(0, Event::Subscribe(Subscription::None));
    assert_eq!(beats(&room, 0).last(), Some(&plain(-1)));
    settle(&mut room, &[1]);
    room.happen(0, topics(&["t"]));
    settle(&mut room, &[0, 1]);
}

#[test]
fn commits_carry_the_epoch_and_a_stale_one_waits_for_the_next() {
    let mut room = group(2, 1);
    let partition = some_partition(&room, 0);
    commit(&mut room, 0, &partition, 1);
    assert_eq!(commits(&room, 0), [Ok(())]);
    let is_commit: Wanted = |request| matches!(request, Request::OffsetCommit { .. });
    let stale = Answer::OffsetCommit(vec![(partition.clone(), ErrorCode::StaleMemberEpoch)]);
    room.injected.push_back((is_commit, stale));
    commit(&mut room, 0, &partition, 2);
    let sent = |room: &Household| room.clients[0].sent.iter().filter(|request| is_commit(request)).count();
    assert_eq!((commits(&room, 0).len(), sent(&room)), (1, 2));
    let before = beats(&room, 0).len();
    room.wait_until(2 * HEARTBEAT_MS, |room| commits(room, 0).len() == 2);
    assert_eq!(commits(&room, 0)[1], Ok(()));
    assert_eq!(sent(&room), 3);
    assert!(beats(&room, 0).len() > before);
}

#[test]
fn a_stale_commit_of_a_partition_that_has_moved_fails() {
    let mut room = group(4, 2);
    let theirs = some_partition(&room, 1);
    let is_commit: Wanted = |request| matches!(request, Request::OffsetCommit { .. });
    let stale = Answer::OffsetCommit(vec![(theirs.clone(), ErrorCode::StaleMemberEpoch)]);
    room.injected.push_back((is_commit, stale));
    commit(&mut room, 0, &theirs, 9);
    assert_eq!(commits(&room, 0), [Err(Failure::CommitFailed)]);
}

#[test]
fn a_commit_is_not_retried_once_a_partition_of_it_has_moved() {
    let mut room = group(2, 1);
    let is_commit: Wanted = |request| matches!(request, Request::OffsetCommit { .. });
    let partition = some_partition(&room, 0);
    for _ in 0..1_000 {
        let loading = Answer::OffsetCommit(vec![(partition.clone(), ErrorCode::CoordinatorLoadInProgress)]);
        room.injected.push_back((is_commit, loading));
    }
    for index in 0..2 {
        commit(&mut room, 0, &Partition::new("t", index), 9);
    }
    room.add(member(1));
    room.happen(1, topics(&["t"]));
    settle(&mut room, &[0, 1]);
    room.wait_until(HEARTBEAT_MS, |room| !commits(room, 0).is_empty());
    // One partition has moved; the commit of the other is still retried.
    assert_eq!(commits(&room, 0), [Err(Failure::CommitFailed)]);
}

#[test]
fn a_member_without_an_epoch_commits_nothing() {
    let mut room = Household::new(&[("t", 2)]);
    room.add(member(0));
    commit(&mut room, 0, &Partition::new("t", 0), 1);
    room.happen(0, topics(&["t"]));
    room.injected.push_back(beat(ErrorCode::UnreleasedInstanceId));
    room.pass(HEARTBEAT_MS);
    room.injected.push_back(beat(ErrorCode::UnreleasedInstanceId));
    room.happen(0, Event::Poll);
    commit(&mut room, 0, &Partition::new("t", 0), 1);
    assert_eq!(commits(&room, 0).last(), Some(&Err(Failure::CommitFailed)));
}

#[test]
fn positions_are_committed_before_partitions_move_and_on_close() {
    let mut room = Household::new(&[("t", 2)]);
    for at in 0..2 {
        let config = Config { auto_commit_interval_ms: Some(60_000), ..config(at) };
        room.add(Member::new(config).expect("a good configuration"));
    }
    room.happen(0, topics(&["t"]));
    settle(&mut room, &[0]);
    for index in 0..2 {
        let offset = Offset::at(7 + i64::from(index));
        room.happen(0, Event::Position { partition: Partition::new("t", index), offset });
    }
    room.happen(1, topics(&["t"]));
    settle(&mut room, &[0, 1]);
    let moved = some_partition(&room, 1);
    room.happen(1, Event::Fetch { fetch: CommitId(5), partitions: vec![moved.clone()] });
    let found = room.clients[1].notices.iter().rev().find_map(|notice| match notice {
        Notice::Fetched { result: Ok(offsets), .. } => offsets.first().and_then(|(_, offset)| offset.clone()),
        _ => None,
    });
    assert_eq!(found, Some(Offset::at(7 + i64::from(moved.index))));
    room.happen(1, Event::Position { partition: moved.clone(), offset: Offset::at(70) });
    room.happen(1, Event::Close { commit_timeout_ms: None });
    room.happen(0, Event::Fetch { fetch: CommitId(6), partitions: vec![moved.clone()] });
    let expected = Notice::Fetched { fetch: CommitId(6), result: Ok(vec![(moved, Some(Offset::at(70)))]) };
    assert!(room.clients[0].notices.contains(&expected));
}

#[test]
fn a_topic_that_no_broker_knows_is_looked_up_until_one_does() {
    let mut room = Household::new(&[("t", 2), ("u", 1)]);
    room.add(member(0));
    let hidden = room.ids.remove(&2).expect("the second topic");
    room.happen(0, topics(&["t", "u"]));
    room.pass(2 * HEARTBEAT_MS);
    assert_eq!(room.clients[0].holds.len(), 2, "what has a name is taken over");
    assert_eq!(room.clients[0].member.state(), State::Reconciling);
    room.ids.insert(2, hidden);
    settle(&mut room, &[0]);
    assert_eq!(told(&room, 0), [('+', 2), ('+', 1)]);
}

#[test]
fn a_topic_that_is_created_again_is_given_up_and_taken_over() {
    let mut room = group(2, 1);
    room.core.topics_deleted(&["t"], household::now(room.now_ms), &mut household::Effects::default());
    room.topics.clear();
    room.create("t", 2);
    room.pass(4 * HEARTBEAT_MS);
    settle(&mut room, &[0]);
    assert_eq!(told(&room, 0), [('+', 2), ('-', 2), ('+', 2)]);
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Another heartbeat after a back-off.
    Again,
    /// It looks for the coordinator first.
    Find,
    /// It loses its partitions and joins again.
    Rejoin,
    /// The application gets the error. The member keeps its partitions.
    Raised,
    /// The application gets the error, and loses its partitions when it polls.
    Out,
}

#[test]
fn errors_of_heartbeats() {
    let table = [
        (ErrorCode::CoordinatorLoadInProgress, Then::Again),
        (ErrorCode::CoordinatorNotAvailable, Then::Find),
        (ErrorCode::NotCoordinator, Then::Find),
        (ErrorCode::FencedMemberEpoch, Then::Rejoin),
        (ErrorCode::UnknownMemberId, Then::Rejoin),
        (ErrorCode::TopicAuthorizationFailed, Then::Raised),
        (ErrorCode::GroupAuthorizationFailed, Then::Out),
        (ErrorCode::InvalidRequest, Then::Out),
        (ErrorCode::GroupMaxSizeReached, Then::Out),
        (ErrorCode::FencedInstanceId, Then::Out),
        (ErrorCode::UnreleasedInstanceId, Then::Out),
        (ErrorCode::UnsupportedAssignor, Then::Out),
        (ErrorCode::InvalidRegularExpression, Then::Out),
        (ErrorCode::GroupIdNotFound, Then::Out),
        (ErrorCode::UnsupportedVersion, Then::Out),
        (ErrorCode::UnknownServerError, Then::Out),
    ];
    for (error, expected) in table {
        let mut room = group(2, 1);
        let found = |room: &Household| {
            room.clients[0].sent.iter().filter(|one| matches!(one, Request::FindCoordinator { .. })).count()
        };
        let before = (told(&room, 0).len(), found(&room));
        room.injected.push_back(beat(error));
        room.wait_until(2 * HEARTBEAT_MS, |room| room.injected.is_empty());
        room.pass(HEARTBEAT_MS);
        let raised = !failures(&room, 0).is_empty();
        let lost_before = told(&room, 0).len() > before.0;
        room.happen(0, Event::Poll);
        settle(&mut room, &[0]);
        let lost = told(&room, 0).len() > before.0;
        let then = match (raised, lost_before, lost) {
            (true, false, false) => Then::Raised,
            (true, false, true) => Then::Out,
            (false, true, true) => Then::Rejoin,
            _ if found(&room) > before.1 => Then::Find,
            _ => Then::Again,
        };
        assert_eq!(then, expected, "{error:?}");
        let message = failures(&room, 0).into_iter().next_back().map(|failure| failure.to_string());
        if error == ErrorCode::UnsupportedVersion {
            assert!(message.is_some_and(|text| text.contains("use group_protocol `classic`")));
        } else if raised {
            let expected = format!("ConsumerGroupHeartbeat was answered {}: because", error.name());
            assert_eq!(message, Some(expected));
        }
    }
}

#[test]
fn a_heartbeat_that_no_coordinator_could_give_is_repeated() {
    let mut room = group(2, 1);
    let answer = Answer::ConsumerGroupHeartbeat {
        error: ErrorCode::None,
        message: None,
        epoch: -7,
        heartbeat_interval_ms: -1,
        assignment: None,
    };
    room.injected.push_back((is_beat, answer));
    room.pass(2 * HEARTBEAT_MS);
    assert!(room.injected.is_empty() && room.is_settled(&[0]));
}

#[test]
fn settings_that_are_the_brokers_are_refused() {
    let refused = |config: Config| Member::new(config).map(|_| ()).expect_err("a bad configuration");
    let session = Config { session_timeout_ms: 6_000, ..config(0) };
    assert_eq!(refused(session), ConfigError::BrokerDecides { setting: "session_timeout_ms", found: 6_000 });
    let heartbeat = Config { heartbeat_interval_ms: 300, ..config(0) };
    let message = refused(heartbeat).to_string();
    assert!(message.contains("change `consumer.heartbeat.interval.ms` of the group"), "{message}");
    let strategies = vec![Strategy::BuiltIn(rota_assign::Assignor::Range)];
    assert_eq!(refused(Config { strategies, ..config(0) }), ConfigError::CoordinatorAssigns);
    assert_eq!(refused(Config::consumer("readers", Some(String::new()))), ConfigError::EmptyAssignor);
}

#[test]
fn the_wanted_assignor_is_sent_and_an_unknown_one_is_raised() {
    let mut room = Household::new(&[("t", 2)]);
    for (at, name) in ["range", "fair"].into_iter().enumerate() {
        let config = Config { seed: at as u64, ..Config::consumer("readers", Some(name.to_owned())) };
        room.add(Member::new(config).expect("a good configuration"));
        room.happen(at, topics(&["t"]));
    }
    settle(&mut room, &[0]);
    assert_eq!(beats(&room, 0)[0].assignor.as_deref(), Some("range"));
    let [Failure::Refused { error: ErrorCode::UnsupportedAssignor, .. }] = failures(&room, 1)[..] else {
        panic!("{:?}", failures(&room, 1));
    };
}

/// No partition is with two members of the group. One whose session has ended does not know it yet, and does not count.
fn assert_exclusive(room: &Household, places: &[usize], seed: u64) {
    let group = room.core.consumer_group("readers").expect("the group");
    let mut holders: BTreeSet<&Partition> = BTreeSet::new();
    let clients = places.iter().map(|&at| &room.clients[at]);
    for client in clients.filter(|client| group.member(client.member.member_id()).is_some()) {
        for partition in &client.holds {
            assert!(holders.insert(partition), "seed {seed}: {partition} is with two members");
        }
    }
}

#[test]
fn under_lost_answers_changes_and_slow_applications_a_partition_has_one_holder_and_all_settle() {
    for seed in 0..60 {
        let mut dice = Rng::new(seed);
        let mut room = Household::new(&[("t", 5), ("u", 3)]);
        let all: Vec<usize> = (0..4).map(|at| room.add(member(seed * 10 + at))).collect();
        for &at in &all {
            room.happen(at, topics(&["t", "u"]));
        }
        for _ in 0..60 {
            let at = dice.below(4);
            match dice.below(9) {
                0 => room.clients[at].misses = Some(is_beat),
                1 => room.clients[at].misses = None,
                2 => room.happen(at, Event::Disconnected(To::Coordinator(household::NODE))),
                3 => room.clients[at].is_slow = true,
                4 | 5 => {
                    room.clients[at].is_slow = false;
                    room.happen(at, Event::Done);
                }
                6 => room.happen(at, topics(&["t"])),
                7 => room.happen(at, topics(&["t", "u"])),
                _ => room.happen(at, Event::Poll),
            }
            // Shorter than a session: the coordinator removes no member that it hears of.
            room.pass(dice.below(4_000) as u64);
            room.clients[at].misses = room.clients[at].misses.filter(|_| dice.below(2) == 0);
            assert_exclusive(&room, &all, seed);
        }
        for &at in &all {
            room.clients[at].misses = None;
            room.clients[at].is_slow = false;
            room.happen(at, Event::Done);
            room.happen(at, topics(&["t", "u"]));
            room.happen(at, Event::Poll);
        }
        room.wait_until(600_000, |room| room.is_settled(&all));
        assert_exclusive(&room, &all, seed);
    }
}
