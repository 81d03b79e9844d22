//! A group in a few figures says what its projection and its explanation say.

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use rota_core::{
    ErrorCode, Request, State,
    explain::Waiting,
    request::Heartbeat,
    summary::{Slack, Summary},
};
use scene::{Joining, Scene, config, joining};

fn summary(scene: &Scene, waits_max: usize) -> Summary {
    scene.coordinator.summarize("g", scene.now().mono_ms, waits_max).expect("the group is there")
}

/// So many members in these tenths, none in the others.
fn slack(counts: &[(usize, u32)]) -> Slack {
    let mut slack = Slack::default();
    for (part, count) in counts {
        slack[*part] = *count;
    }
    slack
}

#[test]
fn slack_is_counted_by_tenths_of_the_session_that_are_left() {
    let mut scene = Scene::new(config());
    let (leader, _) = scene.two_stable(&joining("i0"), &joining("i1"));
    assert_eq!(summary(&scene, 9).slack, slack(&[(9, 2)]));
    scene.until(6_500);
    let beat = Heartbeat { group_id: Some("g"), generation: 1, member_id: &leader, instance_id: None };
    let ticket = scene.send(Request::Heartbeat(beat));
    assert_eq!(scene.reply(ticket).error, ErrorCode::None);
    assert_eq!(summary(&scene, 9).slack, slack(&[(3, 1), (9, 1)]), "3.5 s of 10 s are left, and all of them");
    scene.until(9_999);
    assert_eq!(summary(&scene, 9).slack, slack(&[(0, 1), (6, 1)]));
}

#[test]
fn members_that_are_parked_are_counted_as_such_and_have_no_slack() {
    let mut scene = Scene::new(config());
    let (leader, follower) = scene.two_stable(&joining("i0"), &joining("i1"));
    let now = scene.now();
    scene.coordinator.rebalance("g", now, &mut scene.effects).unwrap();
    scene.join(&Joining { member_id: &follower, ..joining("i1") });
    let told = summary(&scene, 9);
    assert_eq!((told.members, told.awaiting_join, told.awaiting_sync, told.pending), (2, 1, 0, 0));
    assert_eq!(told.slack, slack(&[(9, 1)]));
    assert_eq!(told.explanation, scene.coordinator.explain("g", now.mono_ms).unwrap());
    scene.join(&Joining { member_id: &leader, ..joining("i0") });
    scene.sync(&follower, 2, &[]);
    let told = summary(&scene, 9);
    assert_eq!((told.awaiting_join, told.awaiting_sync), (0, 1));
    assert_eq!(told.explanation.state, State::CompletingRebalance.name());
}

#[test]
fn waits_beyond_those_that_are_asked_for_are_counted() {
    let mut scene = Scene::new(config());
    let (leader, _) = scene.two_stable(&joining("i0"), &joining("i1"));
    let now = scene.now();
    scene.coordinator.rebalance("g", now, &mut scene.effects).unwrap();
    let told = summary(&scene, 1);
    assert_eq!(told.waits, 2);
    let waiting: Vec<&Waiting> = told.explanation.waiting.iter().map(|wait| &wait.what).collect();
    assert_eq!(waiting, [&Waiting::Rejoin(leader.as_str().into())]);
}

#[test]
fn clients_are_in_joining_order_and_nobody_summarizes_what_is_not_there() {
    let mut scene = Scene::new(config());
    scene.two_stable(&joining("i0"), &joining("i1"));
    let clients = scene.coordinator.clients("g").unwrap();
    assert_eq!(clients.len(), scene.member_ids().len());
    assert!(clients.iter().all(|client| client.host.starts_with('/')), "{clients:?}");
    assert!(scene.coordinator.clients("other").is_none());
    assert!(scene.coordinator.summarize("other", 0, 1).is_none());
}

#[test]
fn an_outline_changes_with_the_group_and_with_the_member_that_it_is_about() {
    let mut scene = Scene::new(config());
    let (leader, follower) = scene.two_stable(&joining("i0"), &joining("i1"));
    let outlines = |scene: &Scene| [&leader, &follower].map(|member| scene.coordinator.outline_digest("g", member));
    let [of_leader, of_follower] = outlines(&scene);
    assert_ne!(of_leader, of_follower);
    scene.until(1_000);
    scene.send(Request::Heartbeat(Heartbeat {
        group_id: Some("g"),
        generation: 1,
        member_id: &leader,
        instance_id: None,
    }));
    let [of_leader_later, of_follower_later] = outlines(&scene);
    assert_ne!(of_leader_later, of_leader, "its session ends later");
    assert_eq!(of_follower_later, of_follower, "nothing happened to it, nor to the group");
    assert_eq!(scene.coordinator.outline_digest("h", &leader), 0, "no such group");
}

#[test]
fn an_outline_is_what_journals_of_earlier_versions_have() {
    let mut scene = Scene::new(config());
    let (leader, _) = scene.two_stable(&joining("i0"), &joining("i1"));
    // Another value here means that journals of this version and of earlier ones cannot be replayed by each other.
    assert_eq!(scene.coordinator.outline_digest("g", &leader), 467_677_651_904_837_950);
}

#[test]
fn all_groups_are_counted_by_state_by_slack_and_by_offsets() {
    let mut scene = Scene::new(config());
    scene.two_stable(&joining("i0"), &joining("i1"));
    scene.commit("h", "t", 3);
    let commit = scene.newest();
    assert_eq!(scene.coordinator.append_group(commit), Some("h"));
    assert_eq!((scene.coordinator.offset_count(), scene.coordinator.offsets().count()), (0, 0), "it is in flight");
    scene.store();
    assert_eq!(scene.coordinator.append_group(commit), None);
    assert_eq!(scene.coordinator.offset_count(), 3);
    let offsets = scene.coordinator.offsets().map(|(group, topic, index, offset)| (&**group, &**topic, index, offset));
    assert_eq!(offsets.collect::<Vec<_>>(), [("h", "t", 0, 5), ("h", "t", 1, 5), ("h", "t", 2, 5)]);
    let counts = scene.coordinator.state_counts();
    let of = |state: State| counts[State::ALL.iter().position(|other| *other == state).expect("one of all")];
    assert_eq!((of(State::Stable), of(State::Empty), counts.iter().sum()), (1, 1, 2));
    assert_eq!(scene.coordinator.slack_of_all(scene.now().mono_ms), slack(&[(9, 2)]));
}
