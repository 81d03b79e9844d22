//! What members receive, and heartbeats by handle: docs/protocol.md §4.9, §7.1.

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use rota_core::{
    Coordinator, ErrorCode, Record,
    effects::Moment,
    request::{BatchedHeartbeat, Sender},
};
use scene::{Joining, Scene, config, joining};

#[test]
fn the_leader_alone_is_told_who_is_there_and_what_each_offers() {
    let mut scene = Scene::new(config());
    let first = scene.join(&joining("i0"));
    scene.store();
    let second = scene.join(&joining("i1"));
    scene.until(0);
    let everybody: Vec<(String, Vec<u8>)> =
        scene.member_ids().into_iter().map(|member_id| (member_id, b"\0\0".to_vec())).collect();
    assert_eq!(everybody.len(), 2);
    assert_eq!(scene.reply(first).listed, everybody);
    assert_eq!(scene.reply(second).listed, []);
}

#[test]
fn everybody_is_named_in_joining_order() {
    let mut scene = Scene::new(config());
    let (leader, follower) = scene.two_stable(&joining("i0"), &joining("i1"));
    assert_eq!(scene.coordinator.member_ids().collect::<Vec<_>>(), [leader, follower]);
}

/// The codes of heartbeats by handle: of i0, of i0 in the next generation, and of an unknown member.
fn codes(scene: &mut Scene, handle: u64) -> [i16; 3] {
    let (now, mut codes) = (scene.now(), [-1; 3]);
    scene.coordinator.heartbeats_by_handle(now, &[handle, handle, u64::MAX], &[1, 2, 1], &mut codes);
    codes
}

#[test]
fn heartbeats_by_handle_are_answered_as_any_other() {
    let mut scene = Scene::new(config());
    let (leader, _) = scene.two_stable(&joining("i0"), &joining("i1"));
    let handle = scene.coordinator.member_handle("g", &leader).expect("it is there");
    scene.step(4_000);
    let [none, refused, unknown] =
        [ErrorCode::None, ErrorCode::IllegalGeneration, ErrorCode::UnknownMemberId].map(ErrorCode::code);
    assert_eq!(codes(&mut scene, handle), [none, refused, unknown]);
    let deadlines: Vec<Option<u64>> = scene.group().members.iter().map(|member| member.deadline_ms).collect();
    assert_eq!(deadlines, [Some(14_000), Some(10_000)], "only the one that was heard of lives on");
    let now = scene.now();
    scene.coordinator.unload(now, &mut scene.effects);
    assert_eq!(codes(&mut scene, handle), [ErrorCode::NotCoordinator.code(); 3]);
    let mut loading = Scene::around(Coordinator::new(config(), 0, 0));
    assert_eq!(codes(&mut loading, handle), [none; 3]);
}

#[test]
fn a_heartbeat_by_ids_finds_the_member_only_if_both_ids_are_its_own() {
    let mut scene = Scene::new(config());
    let (leader, _) = scene.two_stable(&joining("i0"), &joining("i1"));
    let (mut forged, mut longer) = (leader.clone().into_bytes(), leader.clone().into_bytes());
    forged[0] ^= 1;
    longer.insert(0, 0xff);
    let ids = |group_id, member_id, instance_id| BatchedHeartbeat {
        sender: Sender::Ids { group_id, member_id, instance_id },
        generation: 1,
    };
    let leader = leader.as_bytes();
    let beats = [
        (ids(b"g", leader, None), ErrorCode::None),
        (ids(b"g", leader, Some("i0")), ErrorCode::None),
        (ids(b"g", leader, Some("i1")), ErrorCode::FencedInstanceId),
        (ids(b"g", leader, Some("i2")), ErrorCode::UnknownMemberId),
        (ids(b"h", leader, None), ErrorCode::UnknownMemberId),
        (ids(b"\xff", leader, None), ErrorCode::UnknownMemberId),
        (ids(b"g", &forged, None), ErrorCode::UnknownMemberId),
        (ids(b"g", &longer, None), ErrorCode::UnknownMemberId),
        (ids(b"g", b"i0", None), ErrorCode::UnknownMemberId),
    ];
    let now = scene.now();
    for (beat, expected) in beats {
        assert_eq!(scene.coordinator.heartbeat(now, beat), expected, "{beat:?}");
    }
    let mut answered = Vec::new();
    scene.coordinator.heartbeats(now, beats.into_iter(), |expected, error| answered.push((expected, error)));
    assert_eq!(answered, beats.map(|(_, expected)| (expected, expected)));
}

#[test]
fn a_member_that_joins_anew_while_its_sync_waits_is_told_to_rejoin_and_then_waits_for_the_join_phase() {
    let mut scene = Scene::new(config());
    let (leader, follower) = scene.two_joined(&joining("i0"), &joining("i1"));
    let waiting = scene.sync(&follower, 1, &[]);
    assert!(scene.is_open(waiting));
    let both = &["range", "sticky"];
    let rejoined = scene.join(&Joining { member_id: &follower, offers: both, ..joining("i1") });
    assert_eq!(scene.reply(waiting).error, ErrorCode::RebalanceInProgress);
    let parked = |scene: &Scene| {
        scene.group().members.iter().map(|member| (member.awaits_join, member.awaits_sync)).collect::<Vec<_>>()
    };
    assert_eq!((parked(&scene), scene.is_open(rejoined)), (vec![(false, false), (true, false)], true));
    let led = scene.join(&Joining { member_id: &leader, ..joining("i0") });
    assert_eq!([scene.reply(led).generation, scene.reply(rejoined).generation], [2, 2]);
    assert_eq!(parked(&scene), [(false, false), (false, false)]);
}

/// The hosts of the members in the newest record.
fn recorded_hosts(scene: &Scene) -> Vec<String> {
    let records = scene.records(scene.newest());
    let [Record::Group { value: Some(group), .. }] = records else { panic!("{records:?}") };
    group.members.iter().map(|member| member.client_host.to_string()).collect()
}

#[test]
fn members_of_one_client_on_two_hosts_keep_each_its_own() {
    let mut scene = Scene::new(config());
    let dynamic = |member_id| Joining { member_id, instance: None, ..joining("") };
    let [near, far] = [(); 2].map(|()| {
        let asked = scene.join(&dynamic(""));
        scene.reply(asked).member_id.clone()
    });
    scene.two_stable(&dynamic(&near), &Joining { host: "/10.0.0.7", ..dynamic(&far) });
    assert_eq!(recorded_hosts(&scene), ["/127.0.0.1", "/10.0.0.7"]);
}

#[test]
fn who_replaces_a_static_member_is_known_by_the_host_of_the_one_before() {
    let mut scene = Scene::new(config());
    let (_, follower) = scene.two_stable(&joining("i0"), &joining("i1"));
    scene.join(&Joining { host: "/10.0.0.7", ..joining("i1") });
    assert!(!scene.member_ids().contains(&follower), "it is replaced");
    assert_eq!(recorded_hosts(&scene), ["/127.0.0.1", "/127.0.0.1"]);
}

#[test]
fn the_moments_of_a_rebalance_are_told_as_they_come() {
    let mut scene = Scene::new(config());
    scene.two_stable(&joining("i0"), &joining("i1"));
    let now = scene.now();
    scene.coordinator.rebalance("g", now, &mut scene.effects).expect("it has members");
    let (began, joined, settled) = (Moment::Began, Moment::Joined, Moment::Settled);
    let generation = Some(1);
    assert_eq!(scene.effects.moments, [(began, None), (joined, generation), (settled, generation), (began, None)],);
}

/// A change of this number is a change of what a coordinator keeps: give snapshots another form (snapshot.rs).
#[test]
fn what_a_coordinator_keeps_has_the_form_that_its_snapshots_say() {
    let mut scene = Scene::new(config());
    scene.two_stable(&joining("i0"), &joining("i1"));
    let snapshot = scene.coordinator.snapshot();
    let digest = snapshot.iter().fold(0_u32, |digest, byte| digest.wrapping_mul(31).wrapping_add(u32::from(*byte)));
    assert_eq!((snapshot[0], snapshot.len(), digest), (4, 430, 2_351_928_572));
}
