//! What a test may make a coordinator do: end a session, begin a rebalance, answer with an error of its choice.

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use rota_core::{
    Answer, Config, Coordinator, ErrorCode, Now, Request, Sink, State, Ticket,
    controls::{NotDone, answer_error},
    explain::Cause,
    request::{
        CommitPartition, CommitTopic, DescribeGroup, Heartbeat, JoinGroup, LeaveGroup, LeaveIdentity, ListGroups,
        OffsetCommit, OffsetFetch, SyncGroup,
    },
};
use scene::{Scene, config, joining};

fn two_stable() -> (Scene, String, String) {
    let mut scene = Scene::new(config());
    let (leader, follower) = scene.two_stable(&joining("i0"), &joining("i1"));
    (scene, leader, follower)
}

fn lapse(scene: &mut Scene, member_id: &str) -> Result<(), NotDone> {
    let now = scene.now();
    scene.coordinator.lapse("g", member_id, now, &mut scene.effects)
}

fn rebalance(scene: &mut Scene) -> Result<(), NotDone> {
    let now = scene.now();
    scene.coordinator.rebalance("g", now, &mut scene.effects)
}

fn beat(scene: &mut Scene, member_id: &str) -> ErrorCode {
    let ticket =
        scene.send(Request::Heartbeat(Heartbeat { group_id: Some("g"), generation: 1, member_id, instance_id: None }));
    scene.reply(ticket).error
}

fn last_cause(coordinator: &Coordinator) -> (Cause, String) {
    let explanation = coordinator.explain("g", coordinator.now().mono_ms).expect("the group is there");
    let last = explanation.rebalances.last().expect("it has rebalanced");
    (last.cause, last.member_id.to_string())
}

#[test]
fn a_member_that_is_made_to_lapse_is_gone_as_if_its_session_had_ended() {
    let (mut by_time, leader, follower) = two_stable();
    by_time.until(9_000);
    assert_eq!(beat(&mut by_time, &leader), ErrorCode::None);
    by_time.until(10_000);

    let (mut by_hand, leader_by_hand, follower_by_hand) = two_stable();
    assert_eq!((&leader_by_hand, &follower_by_hand), (&leader, &follower));
    lapse(&mut by_hand, &follower).unwrap();

    for scene in [&mut by_time, &mut by_hand] {
        assert_eq!(scene.group().state, State::PreparingRebalance);
        assert_eq!(scene.member_ids(), [leader.as_str()]);
        assert_eq!(last_cause(&scene.coordinator), (Cause::SessionExpired, follower.clone()));
        assert_eq!(beat(scene, &follower), ErrorCode::UnknownMemberId);
        assert_eq!(beat(scene, &leader), ErrorCode::RebalanceInProgress);
    }
}

#[test]
fn a_member_that_waits_for_an_answer_has_no_session_that_could_lapse() {
    let (mut scene, leader, follower) = two_stable();
    lapse(&mut scene, &follower).unwrap();
    let rejoin = scene.join(&scene::Joining { member_id: &leader, ..joining("i0") });
    let parked = scene.sync(&leader, 2, &[]);
    assert_eq!(scene.reply(rejoin).error, ErrorCode::None);
    assert!(scene.is_open(parked));
    assert_eq!(lapse(&mut scene, &leader), Err(NotDone::Waits));
    assert!(scene.is_open(parked));
}

#[test]
fn a_new_member_that_is_made_to_lapse_is_gone_as_if_its_first_join_had_taken_too_long() {
    let mut scene = Scene::new(Config { group_initial_rebalance_delay_ms: 3_000, ..config() });
    let [first, second] = ["i0", "i1"].map(|instance| scene.join(&joining(instance)));
    scene.store();
    let lapsing = scene.member_ids()[0].clone();
    lapse(&mut scene, &lapsing).unwrap();
    let told = [first, second].map(|join| scene.reply(join).error);
    assert_eq!(told, [ErrorCode::UnknownMemberId, ErrorCode::None], "the member that was waited for is gone");
    assert!(scene.member_ids().len() == 1 && !scene.member_ids().contains(&lapsing));
}

#[test]
fn a_coordinator_that_is_unloaded_knows_how_late_it_is_and_what_it_owned() {
    let mut scene = Scene::around(Coordinator::new(config(), 7, 3));
    scene.until(5_000);
    let now = scene.now();
    scene.coordinator.unload(now, &mut scene.effects);
    assert_eq!((scene.coordinator.now(), scene.coordinator.partition(), scene.coordinator.epoch()), (now, 7, 3));
}

#[test]
fn what_is_not_there_cannot_lapse_or_rebalance() {
    let (mut scene, leader, follower) = two_stable();
    assert_eq!(lapse(&mut scene, "nobody"), Err(NotDone::NoMember));
    let now = scene.now();
    assert_eq!(scene.coordinator.lapse("other", &leader, now, &mut scene.effects), Err(NotDone::NoGroup));
    assert_eq!(scene.coordinator.rebalance("other", now, &mut scene.effects), Err(NotDone::NoGroup));
    scene.leave(&[&leader, &follower]);
    scene.until(0);
    assert_eq!(scene.group().state, State::Empty);
    assert_eq!(rebalance(&mut scene), Err(NotDone::NoMembers));
    scene.coordinator.unload(now, &mut scene.effects);
    assert_eq!(rebalance(&mut scene), Err(NotDone::NotActive));
    assert_eq!(lapse(&mut scene, &leader), Err(NotDone::NotActive));
}

#[test]
fn a_rebalance_that_is_asked_for_sends_every_member_back_to_join() {
    let (mut scene, leader, follower) = two_stable();
    rebalance(&mut scene).unwrap();
    assert_eq!(scene.group().state, State::PreparingRebalance);
    assert_eq!(last_cause(&scene.coordinator), (Cause::Requested, String::new()));
    for member_id in [&leader, &follower] {
        assert_eq!(beat(&mut scene, member_id), ErrorCode::RebalanceInProgress);
    }
    let before = scene.coordinator.explain("g", scene.now().mono_ms).unwrap().rebalances.len();
    rebalance(&mut scene).expect("a join phase that runs is rebalance enough");
    assert_eq!(scene.coordinator.explain("g", scene.now().mono_ms).unwrap().rebalances.len(), before);
    let first = scene.join(&scene::Joining { member_id: &leader, ..joining("i0") });
    let second = scene.join(&scene::Joining { member_id: &follower, ..joining("i1") });
    for ticket in [first, second] {
        assert_eq!((scene.reply(ticket).error, scene.reply(ticket).generation), (ErrorCode::None, 2));
    }
}

#[test]
fn a_rebalance_that_is_asked_for_while_members_sync_answers_those_that_wait() {
    let mut scene = Scene::new(config());
    let (_, follower) = scene.two_joined(&joining("i0"), &joining("i1"));
    let parked = scene.sync(&follower, 1, &[]);
    rebalance(&mut scene).unwrap();
    assert_eq!(scene.reply(parked).error, ErrorCode::RebalanceInProgress);
}

/// Where an answer carries an error: at the top, and in its parts.
#[derive(Debug, Default, PartialEq)]
struct Errors(Vec<ErrorCode>, Vec<ErrorCode>);

#[derive(Default)]
struct Sent(Vec<Errors>);

impl Sink for Sent {
    fn answer(&mut self, _ticket: Ticket, answer: Answer<'_>) {
        self.0.push(match answer {
            Answer::JoinGroup(join) => Errors(vec![join.error], vec![]),
            Answer::SyncGroup(sync) => Errors(vec![sync.error], vec![]),
            Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => Errors(vec![error], vec![]),
            Answer::LeaveGroup(leave) => {
                Errors(vec![leave.error], leave.members.iter().map(|left| left.error).collect())
            }
            Answer::OffsetCommit(commit) => {
                Errors(vec![], commit.topics.iter().flat_map(|topic| &topic.partitions).map(|(_, e)| *e).collect())
            }
            Answer::OffsetFetch(fetch) => Errors(vec![fetch.error], vec![]),
            Answer::DescribeGroup(describe) => Errors(vec![describe.error], vec![]),
            Answer::ConsumerGroupHeartbeat(heartbeat) => Errors(vec![heartbeat.error], vec![]),
            Answer::ConsumerGroupDescribe(describe) => Errors(vec![describe.error], vec![]),
            Answer::ListGroups(list) => Errors(vec![list.error], vec![]),
            Answer::DeleteGroup(delete) => Errors(vec![delete.error], vec![]),
            Answer::OffsetDelete(delete) => Errors(vec![delete.error], vec![]),
        });
    }

    fn append(&mut self, _append_id: rota_core::AppendId, _records: &[rota_core::Record]) {
        panic!("no append was sent");
    }
}

fn told(request: &Request<'_>, error: ErrorCode) -> Errors {
    let mut told = Sent::default();
    answer_error(Now { mono_ms: 0, wall_ms: 0 }, Ticket(1), request, error, &mut told);
    assert_eq!(told.0.len(), 1);
    told.0.remove(0)
}

#[test]
fn an_error_of_choice_is_where_the_answer_of_each_api_has_it() {
    let group_id = Some("g");
    let error = ErrorCode::NotCoordinator;
    let top = || Errors(vec![error], vec![]);
    let partition = |index| CommitPartition { index, offset: 1, leader_epoch: -1, metadata: None };
    let partitions = [partition(0), partition(1)];
    let topics = [CommitTopic { name: "t", topic_id: 0, partitions: &partitions }];
    let join = JoinGroup {
        version: 5,
        group_id,
        member_id: "",
        instance_id: None,
        client_id: "c",
        client_host: "/127.0.0.1",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer",
        protocols: &[],
        reason: None,
    };
    let sync = SyncGroup {
        version: 3,
        group_id,
        generation: 1,
        member_id: "m",
        instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: &[],
    };
    let commit = OffsetCommit {
        version: 5,
        group_id,
        generation: 1,
        member_id: "m",
        instance_id: None,
        retention_time_ms: None,
        topics: &topics,
    };
    let heartbeat = Heartbeat { group_id, generation: 1, member_id: "m", instance_id: None };
    assert_eq!(told(&Request::JoinGroup(join), error), top());
    assert_eq!(told(&Request::SyncGroup(sync), error), top());
    assert_eq!(told(&Request::Heartbeat(heartbeat), error), top());
    assert_eq!(told(&Request::OffsetCommit(commit), error), Errors(vec![], vec![error, error]));
    let fetch = OffsetFetch { group_id, require_stable: false, topics: None };
    assert_eq!(told(&Request::OffsetFetch(fetch), error), top());
    assert_eq!(told(&Request::DescribeGroup(DescribeGroup { version: 5, group_id }), error), top());
    assert_eq!(told(&Request::ListGroups(ListGroups { states: &[], types: &[] }), error), top());
}

#[test]
fn a_heartbeat_can_be_told_that_its_group_is_loading_though_the_gate_never_says_so() {
    let heartbeat = Heartbeat { group_id: Some("g"), generation: 1, member_id: "m", instance_id: None };
    let error = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(told(&Request::Heartbeat(heartbeat), error), Errors(vec![error], vec![]));
}

#[test]
fn what_is_wrong_with_one_leaver_is_said_of_each_from_version_3_on() {
    let leaver = |member_id| LeaveIdentity { member_id, instance_id: None, reason: None };
    let members = [leaver("a"), leaver("b")];
    let leave = |version, members| Request::LeaveGroup(LeaveGroup { version, group_id: Some("g"), members });
    let fenced = ErrorCode::FencedInstanceId;
    assert_eq!(told(&leave(3, &members), fenced), Errors(vec![ErrorCode::None], vec![fenced, fenced]));
    assert_eq!(told(&leave(2, &members[..1]), fenced), Errors(vec![fenced], vec![]));
    let moved = ErrorCode::NotCoordinator;
    assert_eq!(told(&leave(3, &members), moved), Errors(vec![moved], vec![]));
}

#[test]
fn what_is_not_done_says_why() {
    let why = rebalance(&mut Scene::new(config())).expect_err("no member has joined");
    assert_eq!((why, &*why.to_string()), (NotDone::NoGroup, "there is no such group"));
}
