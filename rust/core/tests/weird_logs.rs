//! Logs that no coordinator wrote: whatever a log says, loading it gives a group that keeps its invariants, that takes
//! requests, and whose every request is answered.

#[expect(dead_code, reason = "tests of appends in flight use the rest of the scene")]
mod scene;

use std::{collections::BTreeSet, sync::Arc};

use proptest::{prelude::*, sample::select};
use rota_core::{
    Config, Coordinator, LogEntry, Record, Request, Ticket,
    records::{GroupValue, MemberValue, OffsetValue},
    request::{Heartbeat, LeaveGroup, LeaveIdentity},
};
use scene::{Joining, Scene, config, joining};

const GROUPS: [&str; 2] = ["g", "h"];
const MEMBERS: [&str; 4] = ["", "m0", "m1", "m2-00000000"];
const INSTANCES: [Option<&str>; 3] = [None, Some("i0"), Some("")];
const TIMEOUTS_MS: [i32; 5] = [-1, 0, 1_000, i32::MAX, i32::MIN];

fn text(from: &'static [&'static str]) -> impl Strategy<Value = Arc<str>> {
    select(from).prop_map(Arc::from)
}

fn maybe_text(from: &'static [Option<&'static str>]) -> impl Strategy<Value = Option<Arc<str>>> {
    select(from).prop_map(|text| text.map(Arc::from))
}

fn bytes(from: &'static [&'static [u8]]) -> impl Strategy<Value = Arc<[u8]>> {
    select(from).prop_map(Arc::from)
}

fn member() -> impl Strategy<Value = MemberValue> {
    (
        (text(&MEMBERS), maybe_text(&INSTANCES)),
        (select(&TIMEOUTS_MS), select(&TIMEOUTS_MS)),
        (bytes(&[b"", b"\0\0"]), bytes(&[b"", b"x"])),
    )
        .prop_map(
            |((member_id, instance_id), (rebalance_timeout_ms, session_timeout_ms), (subscription, assignment))| {
                MemberValue {
                    member_id,
                    instance_id,
                    client_id: "".into(),
                    client_host: "".into(),
                    rebalance_timeout_ms,
                    session_timeout_ms,
                    subscription,
                    assignment,
                }
            },
        )
}

fn group() -> impl Strategy<Value = GroupValue> {
    (
        (text(&["", "consumer"]), select(&[0, 5, -1, i32::MAX, i32::MIN][..])),
        (maybe_text(&[None, Some("a"), Some("")]), maybe_text(&[None, Some("m0"), Some("zz")])),
        prop::collection::vec(member(), 0..6),
    )
        .prop_map(|((protocol_type, generation), (protocol_name, leader), members)| GroupValue {
            protocol_type,
            generation,
            protocol_name,
            leader,
            state_timestamp_ms: -1,
            members,
        })
}

fn record() -> impl Strategy<Value = Record> {
    let offset = OffsetValue {
        offset: 1,
        leader_epoch: -1,
        metadata: "".into(),
        commit_timestamp_ms: 0,
        expire_timestamp_ms: None,
        topic_id: 0,
    };
    prop_oneof![
        3 => (text(&GROUPS), prop::option::weighted(0.75, group()))
            .prop_map(|(group_id, value)| Record::Group { group_id, value }),
        1 => (text(&GROUPS), 0..2, any::<bool>()).prop_map(move |(group_id, partition, lives)| Record::Offset {
            group_id,
            topic: "t".into(),
            partition,
            value: lives.then(|| offset.clone()),
        }),
    ]
}

fn fold(coordinator: &mut Coordinator, log: &[Record]) {
    for (offset, record) in log.iter().enumerate() {
        let entry = LogEntry { offset: offset as u64, timestamp_ms: 0, record: record.clone() };
        coordinator.replay(&entry);
        coordinator.check_invariants().expect("the invariants hold while it loads");
    }
}

/// Something that happens to a loaded coordinator: a kind of event, whose it is, and what it offers.
type Event = (usize, usize, usize, usize);

fn happen(scene: &mut Scene, (kind, who, instance, offer): Event, sent: &mut BTreeSet<Ticket>) {
    let member_id = [MEMBERS[0], MEMBERS[1], MEMBERS[2], MEMBERS[3], "c-00000000"][who];
    let instance_id = INSTANCES[instance];
    let generation = scene.coordinator.project("g").map_or(0, |group| group.generation);
    let ticket = match kind {
        0 | 1 => scene.join(&Joining {
            member_id,
            instance: instance_id,
            host: "/127.0.0.1",
            session_ms: 1_000,
            rebalance_ms: [0, 1_000][kind],
            offers: [&["a"][..], &["", "b"][..], &["b"][..]][offer],
        }),
        2 => scene.sync(member_id, generation, &[]),
        3 => scene.send(Request::Heartbeat(Heartbeat { group_id: Some("g"), generation, member_id, instance_id })),
        4 => {
            let members = [LeaveIdentity { member_id, instance_id, reason: None }];
            scene.send(Request::LeaveGroup(LeaveGroup { version: 3, group_id: Some("g"), members: &members }))
        }
        5 => {
            scene.coordinator = Coordinator::restore(&scene.coordinator.snapshot()).expect("its own snapshot");
            return;
        }
        6 => return scene.until(scene.now().mono_ms + 500),
        _ => {
            for (append_id, _) in std::mem::take(&mut scene.effects.appends) {
                scene.end(append_id, Ok(0));
            }
            return;
        }
    };
    sent.insert(ticket);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_log_loads_to_a_group_that_takes_requests(
        log in prop::collection::vec(record(), 0..12),
        group_max_size in select(&[1, 3, 6][..]),
        events in prop::collection::vec((0..8usize, 0..5usize, 0..3usize, 0..3usize), 0..60),
    ) {
        let mut coordinator = Coordinator::new(Config { group_max_size, ..config() }, 0, 0);
        fold(&mut coordinator, &log);
        let mut scene = Scene::around(coordinator);
        let now = scene.now();
        scene.coordinator.loaded(now, &mut scene.effects);
        let mut sent = BTreeSet::new();
        for event in events {
            happen(&mut scene, event, &mut sent);
        }
        let now = scene.now();
        scene.coordinator.unload(now, &mut scene.effects);
        for ticket in sent {
            scene.reply(ticket);
        }
    }

    /// S22: folding a log twice changes nothing.
    #[test]
    fn a_log_that_is_read_twice_says_the_same(log in prop::collection::vec(record(), 0..12)) {
        let [mut once, mut twice] = [(); 2].map(|()| Coordinator::new(config(), 0, 0));
        fold(&mut once, &log);
        fold(&mut twice, &log);
        fold(&mut twice, &log);
        for group in GROUPS {
            prop_assert_eq!(once.project(group), twice.project(group));
        }
    }
}

#[test]
fn a_group_loaded_from_an_odd_record_takes_a_newcomer() {
    let odd = MemberValue {
        member_id: "".into(),
        instance_id: Some("".into()),
        client_id: "".into(),
        client_host: "".into(),
        rebalance_timeout_ms: i32::MIN,
        session_timeout_ms: i32::MIN,
        subscription: b"".as_slice().into(),
        assignment: b"".as_slice().into(),
    };
    let value = GroupValue {
        protocol_type: "consumer".into(),
        generation: i32::MAX,
        protocol_name: Some("a".into()),
        leader: Some("nobody".into()),
        state_timestamp_ms: -1,
        members: vec![odd],
    };
    let mut coordinator = Coordinator::new(config(), 0, 0);
    fold(&mut coordinator, &[Record::Group { group_id: "g".into(), value: Some(value) }]);
    let mut scene = Scene::around(coordinator);
    let now = scene.now();
    scene.coordinator.loaded(now, &mut scene.effects);
    scene.until(1);
    let ticket = scene.join(&Joining { offers: &["a"], ..joining("i0") });
    scene.until(100_000);
    assert_eq!(scene.reply(ticket).error, rota_core::ErrorCode::None);
    assert!((1..10).contains(&scene.reply(ticket).generation), "after the last comes 1: {:?}", scene.reply(ticket));
}
