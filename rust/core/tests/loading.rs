//! What a log leaves behind: groups that are loaded, or are not (docs/protocol.md §15.1).

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use rota_core::{
    Config, Coordinator, ErrorCode, LogEntry, OffsetRecord, Record, Request, State,
    records::{GroupValue, MemberValue, OffsetValue},
    request::{BatchedHeartbeat, Heartbeat, Sender},
};
use scene::{Joining, Scene, config, joining};

fn member(instance_id: &str) -> MemberValue {
    MemberValue {
        member_id: format!("{instance_id}-id").into(),
        instance_id: Some(instance_id.into()),
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        subscription: b"\0\0".as_slice().into(),
        assignment: b"A".as_slice().into(),
    }
}

/// A Stable group of static members, as an old version wrote it: without the time of its last change.
fn stable(instances: &[&str]) -> Record {
    let members: Vec<MemberValue> = instances.iter().map(|instance_id| member(instance_id)).collect();
    let value = GroupValue {
        protocol_type: "consumer".into(),
        generation: 3,
        protocol_name: Some("range".into()),
        leader: Some(members[0].member_id.clone()),
        state_timestamp_ms: -1,
        members,
    };
    Record::Group { group_id: "g".into(), value: Some(value) }
}

fn loaded(config: Config, record: Record) -> Scene {
    let mut coordinator = Coordinator::new(config, 0, 0);
    coordinator.replay(&LogEntry { offset: 0, timestamp_ms: 0, record });
    let mut scene = Scene::around(coordinator);
    let now = scene.now();
    scene.coordinator.loaded(now, &mut scene.effects);
    scene
}

#[test]
fn a_group_that_is_just_full_is_loaded_as_it_is_and_one_that_is_over_rebalances() {
    let full = |group_max_size| loaded(Config { group_max_size, ..config() }, stable(&["i0", "i1"])).group().state;
    assert_eq!((full(2), full(1)), (State::Stable, State::PreparingRebalance));
}

#[test]
fn an_offset_that_is_read_where_it_lies_is_the_one_that_its_record_says() {
    let value = OffsetValue {
        offset: 5,
        leader_epoch: 2,
        metadata: "m".into(),
        commit_timestamp_ms: 7,
        expire_timestamp_ms: None,
        topic_id: 0,
    };
    let [mut by_record, mut where_it_lies] = [(); 2].map(|()| Coordinator::new(config(), 0, 0));
    for value in [Some(value), None] {
        let left = value.is_some();
        where_it_lies.replay_offset(OffsetRecord { group_id: "g", topic: "t", partition: 1, value: value.clone() });
        let record = Record::Offset { group_id: "g".into(), topic: "t".into(), partition: 1, value };
        by_record.replay(&LogEntry { offset: 0, timestamp_ms: 0, record });
        assert_eq!(where_it_lies.project("g"), by_record.project("g"));
        assert_eq!(where_it_lies.project("g").is_some_and(|group| !group.offsets.is_empty()), left);
    }
}

#[test]
fn a_coordinator_whose_log_could_not_be_read_knows_nobody() {
    let mut coordinator = Coordinator::new(config(), 0, 0);
    coordinator.replay(&LogEntry { offset: 0, timestamp_ms: 0, record: stable(&["i0"]) });
    coordinator.load_failed();
    let mut scene = Scene::around(coordinator);
    let beat = Heartbeat { group_id: Some("g"), generation: 3, member_id: "i0-id", instance_id: None };
    let ticket = scene.send(Request::Heartbeat(beat));
    assert_eq!(scene.reply(ticket).error, ErrorCode::NotCoordinator);
    assert!(scene.coordinator.group_ids().is_empty());
}

/// A replacement that keeps the protocol is written as the group was, and no time of a change is made up.
#[test]
fn a_replacement_in_a_group_of_unknown_age_leaves_its_age_unknown() {
    let mut scene = loaded(config(), stable(&["i0", "i1"]));
    scene.join(&Joining { session_ms: 10_000, ..joining("i1") });
    let records = scene.records(scene.newest());
    let [Record::Group { value: Some(group), .. }] = records else { panic!("{records:?}") };
    assert_eq!((group.generation, group.members.len(), group.state_timestamp_ms), (3, 2, -1));
}

#[test]
fn a_member_whose_id_names_no_slot_is_found_by_its_ids() {
    let mut scene = loaded(config(), stable(&["i0"]));
    let sender = Sender::Ids { group_id: b"g", member_id: b"i0-id", instance_id: None };
    let now = scene.now();
    let codes = [3, 2].map(|generation| scene.coordinator.heartbeat(now, BatchedHeartbeat { sender, generation }));
    assert_eq!(codes, [ErrorCode::None, ErrorCode::IllegalGeneration]);
}
