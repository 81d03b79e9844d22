//! The error table of the member's side (docs/protocol.md §22.4), a row a line: what one such answer to a settled
//! member, or to one that is about to settle, leads to.

mod household;

use std::sync::Arc;

use household::Household;
use rota_assign::Assignor;
use rota_core::ErrorCode::{
    self, CoordinatorLoadInProgress, CoordinatorNotAvailable, FencedInstanceId, GroupAuthorizationFailed,
    GroupMaxSizeReached, IllegalGeneration, InconsistentGroupProtocol, InvalidCommitOffsetSize, InvalidGroupId,
    InvalidSessionTimeout, NotCoordinator, OffsetMetadataTooLarge, RebalanceInProgress, RequestTimedOut,
    TopicAuthorizationFailed, UnknownMemberId, UnknownServerError, UnknownTopicOrPartition, UnstableOffsetCommit,
    UnsupportedVersion,
};
use rota_member::{
    Answer, CommitId, Config, Event, Failure, Member, Notice, Offset, Partition, Request, Strategy, Subscription,
};

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It asks the same again, after a back-off, of the same coordinator, as the same member.
    Again,
    /// It looks for the coordinator first.
    Find,
    /// It joins again, as the same member.
    Rejoin,
    /// It joins again, without a member id.
    Anew,
    /// It tells the application, and does nothing.
    Raised,
    /// A commit only: the application gets the error, and a new round begins.
    Fails,
}

fn one() -> Household {
    let config = Config { strategies: vec![Strategy::BuiltIn(Assignor::Range)], ..Config::new("readers") };
    let mut room = Household::new(&[("t", 2)]);
    room.add(Member::new(config).expect("a good configuration"));
    room
}

fn subscribe(room: &mut Household) {
    room.happen(0, Event::Subscribe(Subscription::Topics(vec![Arc::from("t")])));
}

fn is_join(request: &Request) -> bool {
    matches!(request, Request::JoinGroup { .. })
}

fn is_sync(request: &Request) -> bool {
    matches!(request, Request::SyncGroup { .. })
}

fn is_commit(request: &Request) -> bool {
    matches!(request, Request::OffsetCommit { .. })
}

fn count(room: &Household, wanted: fn(&Request) -> bool) -> usize {
    room.clients[0].sent.iter().filter(|request| wanted(request)).count()
}

fn raised(room: &Household) -> Vec<ErrorCode> {
    let code = |notice: &Notice| match notice {
        Notice::Failed(Failure::Answer { error, .. }) => Some(*error),
        _ => None,
    };
    room.clients[0].notices.iter().filter_map(code).collect()
}

/// The member ids of all joins, in order.
fn joined_as(room: &Household) -> Vec<String> {
    let id = |request: &Request| match request {
        Request::JoinGroup { member_id, .. } => Some(member_id.clone()),
        _ => None,
    };
    room.clients[0].sent.iter().filter_map(id).collect()
}

/// Long enough for every back-off, and for the session of a member that was forgotten.
const A_WHILE_MS: u64 = 60_000;

fn join_answer(error: ErrorCode) -> Answer {
    Answer::JoinGroup {
        error,
        generation: -1,
        protocol_name: String::new(),
        leader: String::new(),
        member_id: String::new(),
        skip_assignment: false,
        members: Vec::new(),
    }
}

#[test]
fn errors_of_joins() {
    let table = [
        (CoordinatorLoadInProgress, Then::Again),
        (CoordinatorNotAvailable, Then::Find),
        (NotCoordinator, Then::Find),
        (UnknownMemberId, Then::Rejoin),
        (RebalanceInProgress, Then::Rejoin),
        (IllegalGeneration, Then::Raised),
        (FencedInstanceId, Then::Raised),
        (InconsistentGroupProtocol, Then::Raised),
        (InvalidGroupId, Then::Raised),
        (InvalidSessionTimeout, Then::Raised),
        (GroupMaxSizeReached, Then::Raised),
        (UnsupportedVersion, Then::Raised),
        (GroupAuthorizationFailed, Then::Raised),
        (UnknownServerError, Then::Raised),
    ];
    for (error, then) in table {
        let mut room = one();
        room.injected.push_back((is_join, join_answer(error)));
        subscribe(&mut room);
        assert!(room.injected.is_empty());
        let at_once = count(&room, is_join) > 1;
        assert_eq!(at_once, then == Then::Rejoin, "{error:?}: at once");
        if then == Then::Raised {
            room.pass(A_WHILE_MS);
            assert_eq!(raised(&room), [error]);
            assert_eq!(count(&room, is_join), 1, "{error:?}: nothing is tried until the application asks");
            room.happen(0, Event::Poll);
        }
        room.wait_until(A_WHILE_MS, |room| room.is_settled(&[0]));
        let finds = count(&room, |request| matches!(request, Request::FindCoordinator { .. }));
        assert_eq!(finds, 1 + usize::from(then == Then::Find), "{error:?}");
    }
}

#[test]
fn a_member_id_that_is_handed_out_is_used_at_once() {
    // The real coordinator does so to every first join.
    let mut room = one();
    subscribe(&mut room);
    let ids = joined_as(&room);
    assert_eq!(ids.len(), 2);
    assert!(ids[0].is_empty() && ids[1].starts_with("client-0-"), "{ids:?}");
}

#[test]
fn errors_of_syncs() {
    let table = [
        (CoordinatorNotAvailable, Then::Find),
        (NotCoordinator, Then::Find),
        (UnknownMemberId, Then::Anew),
        (IllegalGeneration, Then::Rejoin),
        (RebalanceInProgress, Then::Rejoin),
        (CoordinatorLoadInProgress, Then::Raised),
        (FencedInstanceId, Then::Raised),
        (InconsistentGroupProtocol, Then::Raised),
        (GroupAuthorizationFailed, Then::Raised),
        (UnknownServerError, Then::Raised),
    ];
    for (error, then) in table {
        let mut room = one();
        let answer = Answer::SyncGroup { error, protocol_name: None, assignment: Vec::new() };
        room.injected.push_back((is_sync, answer));
        subscribe(&mut room);
        room.wait_until(A_WHILE_MS, |room| room.injected.is_empty());
        let id = room.clients[0].member.member_id().to_owned();
        match then {
            Then::Raised => {
                room.pass(1_000);
                assert_eq!(raised(&room), [error]);
                room.happen(0, Event::Poll);
            }
            Then::Anew => {
                let ids = joined_as(&room);
                assert_eq!(ids.iter().filter(|id| id.is_empty()).count(), 2, "{error:?}: {ids:?}");
            }
            Then::Rejoin => assert_eq!(joined_as(&room).last(), Some(&id), "{error:?}: at once, as itself"),
            _ => assert_eq!(count(&room, is_join), 2, "{error:?}: not at once"),
        }
        room.wait_until(A_WHILE_MS, |room| room.is_settled(&[0]));
        let finds = count(&room, |request| matches!(request, Request::FindCoordinator { .. }));
        assert_eq!(finds, 1 + usize::from(then == Then::Find), "{error:?}");
        assert_eq!(raised(&room).len(), usize::from(then == Then::Raised), "{error:?}");
    }
}

#[test]
fn another_protocol_at_sync_than_at_join_is_raised() {
    let mut room = one();
    let answer = Answer::SyncGroup {
        error: ErrorCode::None,
        protocol_name: Some("roundrobin".to_owned()),
        assignment: Vec::new(),
    };
    room.injected.push_back((is_sync, answer));
    subscribe(&mut room);
    room.wait_until(A_WHILE_MS, |room| room.injected.is_empty());
    let inconsistent =
        Notice::Failed(Failure::InconsistentProtocol { joined: "range".to_owned(), synced: "roundrobin".to_owned() });
    assert!(room.clients[0].notices.contains(&inconsistent));
}

#[test]
fn errors_of_commits() {
    let table = [
        (CoordinatorLoadInProgress, Then::Again),
        (UnknownTopicOrPartition, Then::Again),
        (CoordinatorNotAvailable, Then::Find),
        (NotCoordinator, Then::Find),
        (RequestTimedOut, Then::Find),
        (UnknownMemberId, Then::Fails),
        (IllegalGeneration, Then::Fails),
        (RebalanceInProgress, Then::Fails),
        (FencedInstanceId, Then::Raised),
        (OffsetMetadataTooLarge, Then::Raised),
        (InvalidCommitOffsetSize, Then::Raised),
        (GroupAuthorizationFailed, Then::Raised),
        (TopicAuthorizationFailed, Then::Raised),
        (UnknownServerError, Then::Raised),
    ];
    for (error, then) in table {
        let mut room = one();
        subscribe(&mut room);
        room.wait_until(A_WHILE_MS, |room| room.is_settled(&[0]));
        let partition = Partition::new("t", 0);
        room.injected.push_back((is_commit, Answer::OffsetCommit(vec![(partition.clone(), error)])));
        room.happen(0, Event::Commit { commit: CommitId(1), offsets: vec![(partition.clone(), Offset::at(3))] });
        assert!(room.injected.is_empty());
        room.wait_until(A_WHILE_MS, |room| outcome(room).is_some());
        let expected = match (then, error) {
            (Then::Again | Then::Find, _) => Ok(()),
            (_, RebalanceInProgress) => Err(Failure::RebalanceInProgress),
            (Then::Fails, _) => Err(Failure::CommitFailed),
            (_, TopicAuthorizationFailed) => Err(Failure::Topics { error, topics: vec![Arc::from("t")] }),
            _ => Err(Failure::Answer { api: "OffsetCommit", error }),
        };
        assert_eq!(outcome(&room), Some(expected), "{error:?}");
        let finds = count(&room, |request| matches!(request, Request::FindCoordinator { .. }));
        assert_eq!(finds, 1 + usize::from(then == Then::Find), "{error:?}");
        let rounds = count(&room, is_join) > 2;
        assert_eq!(rounds, then == Then::Fails, "{error:?}: whether a new round began");
        let raised = Notice::Failed(Failure::Answer { api: "OffsetCommit", error });
        let is_fenced = error == FencedInstanceId;
        assert_eq!(room.clients[0].notices.contains(&raised), is_fenced, "{error:?}: whether the member is out");
        room.happen(0, Event::Poll);
        room.wait_until(A_WHILE_MS, |room| room.is_settled(&[0]));
    }
}

fn outcome(room: &Household) -> Option<Result<(), Failure>> {
    room.clients[0].notices.iter().find_map(|notice| match notice {
        Notice::Committed { result, .. } => Some(result.clone()),
        _ => None,
    })
}

#[test]
fn a_commit_that_is_never_taken_ends_with_the_last_error() {
    let mut room = one();
    subscribe(&mut room);
    room.wait_until(A_WHILE_MS, |room| room.is_settled(&[0]));
    let partition = Partition::new("t", 0);
    for _ in 0..2_000 {
        let answer = Answer::OffsetCommit(vec![(partition.clone(), CoordinatorLoadInProgress)]);
        room.injected.push_back((is_commit, answer));
    }
    let from = room.now_ms;
    room.happen(0, Event::Commit { commit: CommitId(1), offsets: vec![(partition, Offset::at(3))] });
    room.wait_until(A_WHILE_MS, |room| outcome(room).is_some());
    assert_eq!(room.now_ms - from, 60_000, "default.api.timeout.ms");
    let failure = Failure::TimedOut { api: "OffsetCommit", last: Some(CoordinatorLoadInProgress) };
    assert_eq!(outcome(&room), Some(Err(failure)));
}

#[test]
fn errors_of_fetches() {
    let table = [
        (CoordinatorLoadInProgress, true),
        (UnstableOffsetCommit, true),
        (NotCoordinator, true),
        (UnknownTopicOrPartition, false),
        (GroupAuthorizationFailed, false),
    ];
    for (error, passes) in table {
        let mut room = one();
        subscribe(&mut room);
        room.wait_until(A_WHILE_MS, |room| room.is_settled(&[0]));
        let partition = Partition::new("t", 0);
        let answer = Answer::OffsetFetch { error: ErrorCode::None, offsets: vec![(partition.clone(), Err(error))] };
        room.injected.push_back((|request| matches!(request, Request::OffsetFetch { .. }), answer));
        room.happen(0, Event::Fetch { fetch: CommitId(1), partitions: vec![partition] });
        let fetched = |room: &Household| {
            room.clients[0].notices.iter().find_map(|notice| match notice {
                Notice::Fetched { result, .. } => Some(result.is_ok()),
                _ => None,
            })
        };
        room.wait_until(A_WHILE_MS, |room| fetched(room).is_some());
        assert_eq!(fetched(&room), Some(passes), "{error:?}");
    }
}
