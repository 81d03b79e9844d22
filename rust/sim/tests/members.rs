//! Members of `rota-member` in groups of the real coordinator.

mod household;

use std::sync::Arc;

use household::{Household, Wanted, of};
use rota_assign::Assignor;
use rota_core::ErrorCode;
use rota_member::{
    Answer, CommitId, Config, Event, Failure, Member, Notice, Offset, Partition, Request, State, Strategy, Subscription,
};

fn member(strategy: Assignor, instance_id: Option<&str>, seed: u64) -> Member {
    let config = Config {
        strategies: vec![Strategy::BuiltIn(strategy)],
        instance_id: instance_id.map(str::to_owned),
        auto_commit_interval_ms: Some(5_000),
        seed,
        ..Config::new("readers")
    };
    Member::new(config).expect("a good configuration")
}

fn topics(names: &[&str]) -> Event {
    Event::Subscribe(Subscription::Topics(names.iter().map(|name| Arc::from(*name)).collect()))
}

/// A room with so many members that all read `t`.
fn group(strategy: Assignor, partitions: i32, members: usize) -> Household {
    let mut room = Household::new(&[("t", partitions)]);
    for at in 0..members {
        room.add(member(strategy, None, at as u64));
        room.happen(at, topics(&["t"]));
    }
    let all: Vec<usize> = (0..members).collect();
    room.wait_until(60_000, |room| room.is_settled(&all));
    room
}

fn count(room: &Household, at: usize, wanted: fn(&Notice) -> bool) -> usize {
    room.clients[at].notices.iter().filter(|notice| wanted(notice)).count()
}

fn failures(room: &Household, at: usize) -> Vec<Failure> {
    let failure = |notice: &Notice| match notice {
        Notice::Failed(failure) => Some(failure.clone()),
        _ => None,
    };
    room.clients[at].notices.iter().filter_map(failure).collect()
}

/// An error as the coordinator would give it to a heartbeat.
fn beat(error: ErrorCode) -> (Wanted, Answer) {
    (|request| matches!(request, Request::Heartbeat { .. }), Answer::Heartbeat(error))
}

#[test]
fn one_member_gets_everything() {
    let room = group(Assignor::Range, 4, 1);
    assert_eq!(room.clients[0].holds.len(), 4);
    assert_eq!(room.clients[0].member.generation(), 1);
    assert!(room.clients[0].member.is_leader());
}

#[test]
fn every_strategy_settles_and_survives_a_leave_and_a_silence() {
    for strategy in [Assignor::Range, Assignor::RoundRobin, Assignor::Sticky, Assignor::CooperativeSticky] {
        let mut room = group(strategy, 7, 3);
        room.happen(0, Event::Close { commit_timeout_ms: None });
        room.wait_until(60_000, |room| room.clients[0].member.is_closed() && room.is_settled(&[1, 2]));
        room.clients[1].is_deaf = true;
        let before = room.now_ms;
        room.wait_until(60_000, |room| room.is_settled(&[2]));
        assert!(room.now_ms >= before + 42_000, "{strategy:?}: not before its session ended");
    }
}

#[test]
fn the_eager_give_up_everything_before_they_join() {
    let mut room = group(Assignor::Range, 4, 1);
    room.add(member(Assignor::Range, None, 9));
    room.happen(1, topics(&["t"]));
    room.wait_until(60_000, |room| room.is_settled(&[0, 1]));
    let revoked = room.clients[0].notices.iter().find_map(|notice| match notice {
        Notice::Revoke { partitions } => Some(partitions.len()),
        _ => None,
    });
    assert_eq!(revoked, Some(4));
}

#[test]
fn the_cooperative_give_up_only_what_moves() {
    let mut room = group(Assignor::CooperativeSticky, 4, 1);
    room.add(member(Assignor::CooperativeSticky, None, 9));
    room.happen(1, topics(&["t"]));
    room.wait_until(60_000, |room| room.is_settled(&[0, 1]));
    let revoked: Vec<usize> = room.clients[0]
        .notices
        .iter()
        .filter_map(|notice| if let Notice::Revoke { partitions } = notice { Some(partitions.len()) } else { None })
        .collect();
    assert_eq!(revoked, [2], "two move, once");
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    let mut room = Household::new(&[("t", 4)]);
    for (at, instance_id) in ["one", "two"].into_iter().enumerate() {
        room.add(member(Assignor::Range, Some(instance_id), at as u64));
        room.happen(at, topics(&["t"]));
    }
    room.wait_until(60_000, |room| room.is_settled(&[0, 1]));
    let generation = room.clients[1].member.generation();
    room.happen(1, Event::Close { commit_timeout_ms: None });
    assert!(room.clients[1].member.is_closed());
    assert!(!room.clients[1].sent.iter().any(|request| matches!(request, Request::LeaveGroup { .. })));
    let back = room.add(member(Assignor::Range, Some("two"), 7));
    room.happen(back, topics(&["t"]));
    room.wait_until(60_000, |room| room.is_settled(&[0, back]));
    assert_eq!(room.clients[back].member.generation(), generation);
}

#[test]
fn the_older_of_two_with_one_instance_id_stops_and_says_why() {
    let mut room = Household::new(&[("t", 4)]);
    for at in 0..2 {
        room.add(member(Assignor::Range, Some("one"), at as u64));
        room.happen(at, topics(&["t"]));
        room.wait_until(60_000, |room| room.is_settled(&[at]));
    }
    room.wait_until(60_000, |room| !failures(room, 0).is_empty());
    let fenced = Failure::Answer { api: "Heartbeat", error: ErrorCode::FencedInstanceId };
    assert_eq!(failures(&room, 0), [fenced]);
    assert!(failures(&room, 1).is_empty());
}

#[test]
fn an_application_that_works_for_too_long_is_out_and_comes_back() {
    let mut room = group(Assignor::Range, 4, 2);
    room.happen(0, Event::Busy);
    room.wait_until(400_000, |room| room.is_settled(&[1]));
    assert_eq!(room.clients[0].member.state(), State::Unjoined);
    assert_eq!(room.clients[0].holds.len(), 2, "it has no answer yet: it does not read");
    room.happen(0, Event::Poll);
    assert_eq!(count(&room, 0, |notice| matches!(notice, Notice::Lose { .. })), 1);
    room.wait_until(60_000, |room| room.is_settled(&[0, 1]));
}

#[test]
fn what_was_read_is_committed_before_it_is_given_up() {
    let mut room = group(Assignor::Range, 2, 1);
    let partition = Partition::new("t", 1);
    room.happen(0, Event::Position { partition: partition.clone(), offset: Offset::at(42) });
    let next = room.add(member(Assignor::Range, None, 3));
    room.happen(next, topics(&["t"]));
    room.wait_until(60_000, |room| room.is_settled(&[0, 1]));
    room.happen(next, Event::Fetch { fetch: CommitId(1), partitions: vec![partition.clone()] });
    let found = Notice::Fetched { fetch: CommitId(1), result: Ok(vec![(partition, Some(Offset::at(42)))]) };
    assert!(room.clients[next].notices.contains(&found), "{:?}", room.clients[next].notices);
}

#[test]
fn the_clock_commits_what_was_read_and_a_close_the_rest() {
    let mut room = group(Assignor::Range, 1, 1);
    let partition = Partition::new("t", 0);
    room.happen(0, Event::Position { partition: partition.clone(), offset: Offset::at(5) });
    let is_commit = |request: &&Request| matches!(request, Request::OffsetCommit { .. });
    room.pass(5_000);
    assert_eq!(room.clients[0].sent.iter().filter(is_commit).count(), 1);
    room.pass(20_000);
    assert_eq!(room.clients[0].sent.iter().filter(is_commit).count(), 1, "nothing new, nothing to commit");
    room.happen(0, Event::Position { partition, offset: Offset::at(6) });
    room.happen(0, Event::Close { commit_timeout_ms: None });
    assert_eq!(room.clients[0].sent.iter().filter(is_commit).count(), 2);
    assert!(room.clients[0].member.is_closed());
}

#[test]
fn a_commit_out_of_the_group_fails_without_asking() {
    let mut room = group(Assignor::Range, 1, 2);
    room.happen(0, Event::Busy);
    room.wait_until(400_000, |room| room.is_settled(&[1]));
    let asked = room.clients[0].sent.len();
    let offsets = vec![(Partition::new("t", 0), Offset::at(1))];
    room.happen(0, Event::Commit { commit: CommitId(1), offsets });
    let failed = Notice::Committed { commit: CommitId(1), result: Err(Failure::CommitFailed) };
    assert!(room.clients[0].notices.contains(&failed));
    assert_eq!(room.clients[0].sent.len(), asked);
}

#[test]
fn a_leader_notices_that_a_topic_grew() {
    let mut room = group(Assignor::Range, 2, 2);
    room.topics.insert("t".into(), of(6));
    room.wait_until(400_000, |room| room.is_settled(&[0, 1]));
}

#[test]
fn a_topic_that_comes_into_being_after_the_join_is_noticed_soon() {
    let mut room = Household::new(&[]);
    room.add(member(Assignor::Range, None, 0));
    room.happen(0, topics(&["t"]));
    room.wait_until(60_000, |room| room.clients[0].member.state() == State::Stable);
    room.topics.insert("t".into(), of(3));
    room.wait_until(5_000, |room| room.is_settled(&[0]));
}

#[test]
fn a_pattern_follows_the_topics_that_match_its_whole() {
    let mut room = Household::new(&[("orders", 2), ("reorders-old", 3)]);
    room.add(member(Assignor::Range, None, 0));
    room.happen(0, Event::Subscribe(Subscription::pattern("orders.*").expect("a pattern")));
    room.wait_until(60_000, |room| room.clients[0].holds.len() == 2);
    room.topics.insert("orders-eu".into(), of(3));
    room.wait_until(400_000, |room| room.clients[0].holds.len() == 5);
}

#[test]
fn a_subscription_that_shrinks_gives_up_what_it_does_not_want_and_unsubscribing_gives_up_all() {
    let mut room = Household::new(&[("a", 2), ("b", 2)]);
    room.add(member(Assignor::CooperativeSticky, None, 0));
    room.happen(0, topics(&["a", "b"]));
    room.wait_until(60_000, |room| room.is_settled(&[0]));
    room.happen(0, topics(&["a"]));
    room.wait_until(60_000, |room| room.clients[0].holds.len() == 2);
    assert_eq!(count(&room, 0, |notice| matches!(notice, Notice::Revoke { partitions } if partitions.len() == 2)), 1);
    room.happen(0, Event::Subscribe(Subscription::None));
    assert!(room.clients[0].holds.is_empty());
    assert!(room.core.member_ids().next().is_none(), "the group has the error");
}

/// What one error in answer to a heartbeat does.
#[test]
fn errors_of_heartbeats_do_what_the_table_says() {
    let cases = [
        (ErrorCode::UnknownMemberId, 2, 0),
        (ErrorCode::IllegalGeneration, 2, 0),
        (ErrorCode::RebalanceInProgress, 2, 0),
        (ErrorCode::NotCoordinator, 1, 0),
        (ErrorCode::CoordinatorNotAvailable, 1, 0),
        (ErrorCode::CoordinatorLoadInProgress, 1, 0),
        (ErrorCode::UnknownServerError, 1, 0),
        (ErrorCode::FencedInstanceId, 1, 1),
    ];
    for (error, rounds, raised) in cases {
        let mut room = group(Assignor::Range, 2, 1);
        let joins = |room: &Household| {
            let sent = room.clients[0].sent.iter();
            sent.filter(|request| matches!(request, Request::SyncGroup { .. })).count()
        };
        let finds = |room: &Household| {
            let sent = room.clients[0].sent.iter();
            sent.filter(|request| matches!(request, Request::FindCoordinator { .. })).count()
        };
        assert_eq!((joins(&room), finds(&room)), (1, 1));
        room.injected.push_back(beat(error));
        // Long enough for the session of a member that is forgotten to end.
        room.pass(60_000);
        assert!(room.injected.is_empty());
        assert_eq!(joins(&room), rounds, "{error:?}");
        assert_eq!(failures(&room, 0).len(), raised, "{error:?}");
        let looked = matches!(error, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable);
        assert_eq!(finds(&room), 1 + usize::from(looked), "{error:?}");
    }
}

#[test]
fn a_coordinator_that_says_nothing_is_given_up_within_the_request_timeout() {
    let mut room = group(Assignor::Range, 2, 1);
    room.clients[0].is_deaf = true;
    let deadline = room.now_ms + 3_000 + 30_000;
    room.wait_until(60_000, |room| room.clients[0].member.coordinator().is_none());
    assert!(room.now_ms <= deadline);
}

#[test]
fn an_answer_of_another_kind_is_not_believed() {
    let mut room = group(Assignor::Range, 2, 1);
    let is_beat: fn(&Request) -> bool = |request| matches!(request, Request::Heartbeat { .. });
    room.injected.push_back((is_beat, Answer::LeaveGroup(ErrorCode::None)));
    room.pass(3_000);
    assert!(room.injected.is_empty());
    room.wait_until(10_000, |room| room.clients[0].member.coordinator().is_some());
    room.pass(60_000);
    assert!(room.is_settled(&[0]), "it found its coordinator again, and stayed");
}

#[test]
fn a_plan_for_a_generation_that_is_over_is_not_handed_in() {
    let own = Strategy::Own { name: "mine".to_owned(), cooperative: false };
    let config = Config { strategies: vec![own], ..Config::new("readers") };
    let mut room = Household::new(&[("t", 2)]);
    room.add(Member::new(config).expect("a good configuration"));
    room.happen(0, topics(&["t"]));
    room.wait_until(10_000, |room| count(room, 0, |notice| matches!(notice, Notice::Plan { .. })) == 1);
    room.injected.push_back(beat(ErrorCode::UnknownMemberId));
    room.wait_until(60_000, |room| count(room, 0, |notice| matches!(notice, Notice::Plan { .. })) == 2);
    let syncs =
        |room: &Household| room.clients[0].sent.iter().filter(|one| matches!(one, Request::SyncGroup { .. })).count();
    room.happen(0, Event::Planned { generation: 1, plan: Ok(Vec::new()) });
    assert_eq!(syncs(&room), 0);
    room.happen(0, Event::Planned { generation: 2, plan: Ok(Vec::new()) });
    assert_eq!(syncs(&room), 1);
    assert_eq!(room.clients[0].member.state(), State::Stable);
}
