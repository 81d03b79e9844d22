//! What an explanation says of members that hold a rebalance up, and of members that go while it runs.

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use rota_core::{
    Coordinator, Request, State, Ticket,
    explain::{Departed, Departure, Wait, Waiting},
    request::{Heartbeat, LeaveGroup, LeaveIdentity},
};
use scene::{Joining, Scene, config, joining};

const SESSION_MS: u64 = 10_000;
const REBALANCE_MS: u64 = 60_000;

fn dynamic() -> Joining<'static> {
    Joining { instance: None, ..joining("") }
}

/// A join to its end, or to where it is parked: a dynamic member first asks for its id.
fn enter(scene: &mut Scene, of: &Joining<'_>) -> (String, Ticket) {
    let ticket = scene.join(of);
    if of.instance.is_some() {
        return (scene.member_ids().pop().expect("it joined"), ticket);
    }
    let member_id = scene.reply(ticket).member_id.clone();
    let ticket = scene.join(&Joining { member_id: &member_id, ..of.clone() });
    (member_id, ticket)
}

/// Two members whose first join phase is complete.
fn two_joined(scene: &mut Scene, of: [&Joining<'_>; 2]) -> (String, String) {
    let (leader, _) = enter(scene, of[0]);
    scene.store();
    let (follower, _) = enter(scene, of[1]);
    scene.until(0);
    (leader, follower)
}

fn two_stable(scene: &mut Scene, of: [&Joining<'_>; 2]) -> (String, String) {
    let (leader, follower) = two_joined(scene, of);
    scene.sync(&leader, 1, &[(&leader, b"A"), (&follower, b"B")]);
    scene.sync(&follower, 1, &[]);
    scene.store();
    assert_eq!(scene.group().state, State::Stable);
    (leader, follower)
}

/// Two dynamic members, `busy` and `ready`, in a stable group; then a rebalance begins that only `ready` rejoins.
fn stalled(of: [&Joining<'_>; 2]) -> (Scene, String, String) {
    let mut scene = Scene::new(config());
    let (busy, ready) = two_stable(&mut scene, of);
    let now = scene.now();
    scene.coordinator.rebalance("g", now, &mut scene.effects).unwrap();
    scene.join(&Joining { member_id: &ready, ..of[1].clone() });
    (scene, busy, ready)
}

fn beat(scene: &mut Scene, member_id: &str, generation: i32) {
    scene.send(Request::Heartbeat(Heartbeat { group_id: Some("g"), generation, member_id, instance_id: None }));
}

fn waits(scene: &Scene) -> Vec<Wait> {
    scene.coordinator.explain("g", scene.now().mono_ms).expect("the group is there").waiting
}

fn departures(scene: &Scene) -> Vec<Departure> {
    let explanation = scene.coordinator.explain("g", scene.now().mono_ms).expect("the group is there");
    explanation.rebalances.last().expect("there was one").departures.clone()
}

#[test]
fn a_silent_member_is_waited_for_until_its_session_ends() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    scene.until(1_000);
    let silent =
        Wait { what: Waiting::Rejoin(busy.as_str().into()), until_ms: SESSION_MS, heartbeats: false, is_static: false };
    assert_eq!(waits(&scene), [silent]);
}

#[test]
fn a_member_that_heartbeats_is_waited_for_until_the_rebalance_timeout() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    for at_ms in (3_000..REBALANCE_MS - 3_000).step_by(3_000) {
        scene.until(at_ms);
        beat(&mut scene, &busy, 1);
        let beating = Wait {
            what: Waiting::Rejoin(busy.as_str().into()),
            until_ms: REBALANCE_MS,
            heartbeats: true,
            is_static: false,
        };
        assert_eq!(waits(&scene), [beating], "at {at_ms} ms");
    }
}

#[test]
fn a_member_that_stops_its_heartbeats_is_silent_after_half_of_its_session() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    scene.until(3_000);
    beat(&mut scene, &busy, 1);
    scene.until(3_000 + SESSION_MS / 2);
    assert!(waits(&scene)[0].heartbeats);
    scene.until(3_001 + SESSION_MS / 2);
    let wait = &waits(&scene)[0];
    assert_eq!((wait.heartbeats, wait.until_ms), (false, 3_000 + SESSION_MS));
}

#[test]
fn the_time_of_the_question_counts_not_that_of_the_last_event() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    scene.until(3_000);
    beat(&mut scene, &busy, 1);
    let later = scene.coordinator.explain("g", 9_000).unwrap();
    assert!(!later.waiting[0].heartbeats, "nothing was heard for 6 s of a session of 10 s");
}

#[test]
fn a_static_member_that_heartbeats_is_said_to_be_static() {
    let (mut scene, busy, _) = stalled([&joining("i0"), &joining("i1")]);
    scene.until(3_000);
    beat(&mut scene, &busy, 1);
    let wait = &waits(&scene)[0];
    assert_eq!((wait.heartbeats, wait.is_static, wait.until_ms), (true, true, REBALANCE_MS));
}

#[test]
fn a_leader_that_heartbeats_and_sends_no_plan_is_waited_for_until_the_rebalance_timeout() {
    let mut scene = Scene::new(config());
    let (leader, follower) = two_joined(&mut scene, [&dynamic(), &dynamic()]);
    scene.sync(&follower, 1, &[]);
    assert!(!waits(&scene)[0].heartbeats);
    let joined_ms = scene.now().mono_ms;
    scene.until(joined_ms + 3_000);
    beat(&mut scene, &leader, 1);
    let wait = &waits(&scene)[0];
    assert_eq!(wait.what, Waiting::LeaderSync(leader.as_str().into()));
    assert_eq!((wait.heartbeats, wait.until_ms), (true, joined_ms + REBALANCE_MS));
}

#[test]
fn a_removal_during_a_rebalance_is_in_its_history_with_the_reason() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    scene.until(2_000);
    let leaver = LeaveIdentity { member_id: &busy, instance_id: None, reason: Some("stuck since noon") };
    scene.send(Request::LeaveGroup(LeaveGroup { version: 5, group_id: Some("g"), members: &[leaver] }));
    let removed = Departure {
        member_id: busy.as_str().into(),
        how: Departed::Left,
        reason: "stuck since noon".into(),
        at_ms: 2_000,
    };
    assert_eq!(departures(&scene), [removed]);
}

#[test]
fn a_member_that_did_not_rejoin_in_time_is_in_the_history() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    for at_ms in (3_000..=REBALANCE_MS).step_by(3_000) {
        scene.until(at_ms);
        if at_ms < REBALANCE_MS {
            beat(&mut scene, &busy, 1);
        }
    }
    let told: Vec<_> = departures(&scene).into_iter().map(|gone| (gone.member_id, gone.how, gone.at_ms)).collect();
    assert_eq!(told, [(busy.as_str().into(), Departed::RejoinExpired, REBALANCE_MS)]);
}

#[test]
fn a_session_that_ends_during_a_rebalance_is_in_its_history() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    scene.until(SESSION_MS);
    let told: Vec<_> = departures(&scene).into_iter().map(|gone| (gone.member_id, gone.how)).collect();
    assert_eq!(told, [(busy.as_str().into(), Departed::SessionExpired)]);
}

#[test]
fn members_that_leave_together_are_all_in_the_history() {
    let mut scene = Scene::new(config());
    let (first, second) = two_stable(&mut scene, [&dynamic(), &dynamic()]);
    scene.leave(&[&first, &second]);
    let told: Vec<_> = departures(&scene).into_iter().map(|gone| (gone.member_id, gone.how)).collect();
    assert_eq!(told, [(second.as_str().into(), Departed::Left)], "the first is the cause");
}

#[test]
fn a_history_keeps_the_last_departures_only() {
    let mut settings = config();
    settings.rebalance_history = 2;
    let mut scene = Scene::new(settings);
    let (first, _) = two_stable(&mut scene, [&dynamic(), &dynamic()]);
    let now = scene.now();
    scene.coordinator.rebalance("g", now, &mut scene.effects).unwrap();
    let gone: Vec<String> = (0..3)
        .map(|_| {
            let (newcomer, _) = enter(&mut scene, &dynamic());
            scene.leave(&[&newcomer]);
            newcomer
        })
        .collect();
    assert!(scene.member_ids().contains(&first));
    let told: Vec<String> = departures(&scene).iter().map(|departure| departure.member_id.to_string()).collect();
    assert_eq!(told, gone[1..]);
}

#[test]
fn departures_are_not_part_of_a_snapshot() {
    let (mut scene, busy, _) = stalled([&dynamic(), &dynamic()]);
    scene.until(2_000);
    scene.leave(&[&busy]);
    assert_eq!(departures(&scene).len(), 1);
    let bytes = scene.coordinator.snapshot();
    let restored = Coordinator::restore(&bytes).unwrap();
    assert_eq!(restored.snapshot(), bytes);
    assert!(restored.explain("g", 2_000).unwrap().rebalances.last().unwrap().departures.is_empty());
}
