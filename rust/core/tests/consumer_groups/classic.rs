//! Classic members of the group "g", by short calls.

use rota_core::{
    Config, Record, Request,
    consumer_group::config::{ConsumerConfig, Migration},
    embedded::{self, Assignment, Subscription, TopicPartitions},
    records::{GroupValue, MemberValue},
    request::{Heartbeat, JoinGroup, LeaveGroup, LeaveIdentity, Protocol, SyncGroup},
};

use crate::scene::{Scene, beat, join, settings};

pub const FOO: &[&str] = &["foo"];
pub const RANGE: &str = "range";

fn partitions(digits: &str) -> Vec<TopicPartitions> {
    let partitions: Vec<i32> = digits.chars().map(|digit| digit.to_digit(10).unwrap() as i32).collect();
    if partitions.is_empty() { Vec::new() } else { vec![TopicPartitions { topic: "foo".to_owned(), partitions }] }
}

pub fn metadata(owned: &str) -> Vec<u8> {
    let subscription = Subscription {
        version: 1,
        topics: vec!["foo".to_owned()],
        user_data: None,
        owned_partitions: partitions(owned),
        generation: -1,
        rack: None,
    };
    embedded::encode_subscription(&subscription).unwrap()
}

/// A classic member in the log: its id, its instance id, what it has of `foo`.
pub type Loaded<'a> = (&'a str, Option<&'a str>, &'a str);

/// The record of a stable classic group of generation 2.
pub fn classic_group(members: &[Loaded<'_>]) -> Record {
    let member = |(id, instance_id, owned): &Loaded<'_>| MemberValue {
        member_id: (*id).into(),
        instance_id: instance_id.map(Into::into),
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 30_000,
        subscription: metadata("").into(),
        assignment: embedded::encode_assignment(&Assignment {
            version: 1,
            partitions: partitions(owned),
            user_data: None,
        })
        .unwrap()
        .into(),
    };
    let value = GroupValue {
        protocol_type: "consumer".into(),
        generation: 2,
        protocol_name: Some(RANGE.into()),
        leader: Some("A".into()),
        state_timestamp_ms: 0,
        members: members.iter().map(member).collect(),
    };
    Record::Group { group_id: "g".into(), value: Some(value) }
}

pub fn scene(config: ConsumerConfig, members: &[Loaded<'_>]) -> Scene {
    let classic = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
    Scene::with_classic(classic, config, &[classic_group(members)])
}

pub const PAIR: &[Loaded<'_>] = &[("A", None, "012"), ("B", None, "345")];
pub const STATIC_PAIR: &[Loaded<'_>] = &[("A", Some("ia"), "012"), ("B", Some("ib"), "345")];

pub fn policy(migration: Migration) -> ConsumerConfig {
    ConsumerConfig { migration, ..settings(0) }
}

pub fn with_join<R>(member_id: &str, instance_id: Option<&str>, owned: &str, send: impl FnOnce(Request<'_>) -> R) -> R {
    send(Request::JoinGroup(JoinGroup {
        version: 9,
        group_id: Some("g"),
        member_id,
        instance_id,
        client_id: "c",
        client_host: "/127.0.0.1",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: &[Protocol { name: RANGE, metadata: &metadata(owned) }],
        reason: None,
    }))
}

pub fn rejoin(g: &mut Scene, member_id: &str, instance_id: Option<&str>, owned: &str) -> String {
    with_join(member_id, instance_id, owned, |request| g.ask(request))
}

pub fn sync(g: &mut Scene, member_id: &str, instance_id: Option<&str>, generation: i32) -> String {
    g.ask(Request::SyncGroup(SyncGroup {
        version: 5,
        group_id: Some("g"),
        generation,
        member_id,
        instance_id,
        protocol_type: Some("consumer"),
        protocol_name: Some(RANGE),
        assignments: &[],
    }))
}

pub fn heartbeat_of<'a>(member_id: &'a str, instance_id: Option<&'a str>, generation: i32) -> Request<'a> {
    Request::Heartbeat(Heartbeat { group_id: Some("g"), generation, member_id, instance_id })
}

pub fn heartbeat(g: &mut Scene, member_id: &str, instance_id: Option<&str>, generation: i32) -> String {
    g.ask(heartbeat_of(member_id, instance_id, generation))
}

pub fn leave(g: &mut Scene, members: &[(&str, Option<&str>)]) -> String {
    let members: Vec<LeaveIdentity<'_>> = members
        .iter()
        .map(|(member_id, instance_id)| LeaveIdentity { member_id, instance_id: *instance_id, reason: None })
        .collect();
    g.ask(Request::LeaveGroup(LeaveGroup { version: 5, group_id: Some("g"), members: &members }))
}

/// A classic member A of an upgraded group of generation 2, and the consumer member m1, at epoch 3.
pub fn mixed(config: ConsumerConfig) -> Scene {
    let mut g = scene(config, &[("A", None, "012345")]);
    assert_eq!(g.send(&join("m1", FOO)), "3 []");
    assert_eq!(rejoin(&mut g, "A", None, ""), "3 leader= of 0");
    assert_eq!(sync(&mut g, "A", None, 3), "[foo:012]");
    assert_eq!(g.send(&beat("m1", 3)), "3 [foo:345]");
    assert_eq!(g.state(), "Stable G3 T3");
    g.records();
    g
}

/// A consumer group at epoch 4 whose only member is the classic member A, because no group may become a classic one.
pub fn classic_only() -> Scene {
    let mut g = mixed(policy(Migration::Upgrade));
    g.send(&beat("m1", -1));
    assert_eq!(rejoin(&mut g, "A", None, "012"), "4 leader= of 0");
    assert_eq!(sync(&mut g, "A", None, 4), "[foo:012345]");
    g
}

/// The same group as `mixed` with m2, which A has not joined again for 45 of its 60 seconds.
pub fn awaiting_a_join() -> Scene {
    let mut g = mixed(settings(0));
    g.send(&join("m2", FOO));
    assert_eq!(heartbeat(&mut g, "A", None, 3), "27", "it has to join within a minute");
    g.send(&beat("m1", 3));
    assert_eq!(g.send(&beat("m1", 3).owns("foo:34")), "4 -");
    for _ in 0..3 {
        g.pass(15_000);
        heartbeat(&mut g, "A", None, 3);
        g.send(&beat("m1", 4));
        g.send(&beat("m2", 4));
    }
    g
}

/// Time passes while A and m1 send heartbeats.
pub fn beats(g: &mut Scene, ms: u64) {
    let end = g.now_ms + ms;
    while g.now_ms < end {
        g.pass(1_000);
        g.submit(heartbeat_of("A", None, 3));
        g.send(&beat("m1", 3));
    }
}

/// A consumer group of m1 and the classic member A, which has joined and has to send SyncGroup.
pub fn joined_without_sync() -> Scene {
    let mut g = mixed(settings(0));
    assert!(rejoin(&mut g, "A", None, "012").starts_with("3 "));
    g
}
