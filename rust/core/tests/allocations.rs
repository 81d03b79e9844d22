//! What must not allocate does not: a counting allocator measures the paths that every heartbeat takes.
//!
//! `allocation_counter::measure` counts the allocations of its own thread only, so these tests may run side by side.
use rota_core::embedded::decode_subscription;
use rota_core::purgatory::Purgatory;
use rota_core::wheel::Wheel;

/// Deadlines that reach every kind of re-arming: lazy, relinked to any level, overdue, the end of time.
fn deadlines_ms(now_ms: u64) -> impl Iterator<Item = u64> {
    let powers = (0..64).map(|bit| 1_u64 << bit);
    powers.clone().chain(powers.rev()).chain([0, u64::MAX, 1]).map(move |span_ms| now_ms.saturating_add(span_ms))
}

/// Runs `steps` and returns how often they allocated.
fn allocations(steps: impl FnOnce()) -> u64 {
    allocation_counter::measure(steps).count_total
}

#[test]
fn the_counter_sees_an_allocation() {
    assert_ne!(allocations(|| drop(std::hint::black_box(Box::new(1_u8)))), 0);
    let mut wheel = Wheel::new(0);
    let counted = allocations(|| {
        let id = wheel.arm(10, ());
        assert_eq!(wheel.deadline(id), Some(10));
    });
    assert_ne!(counted, 0, "a first arming makes room");
}

#[test]
fn rearming_an_entry_of_the_wheel_allocates_nothing() {
    let now_ms = 1_000_000;
    let mut wheel = Wheel::new(now_ms);
    let ids: Vec<_> = (0..1_000).map(|n| wheel.arm(now_ms + 45_000 + n, n)).collect();
    let counted = allocations(|| {
        for deadline_ms in deadlines_ms(now_ms) {
            for &id in &ids {
                assert!(wheel.rearm(id, deadline_ms));
            }
        }
        for &id in &ids {
            assert!(wheel.rearm(id, 0));
        }
    });
    assert_eq!(counted, 0);
}

#[test]
fn rearming_a_watched_operation_allocates_nothing() {
    let mut purgatory = Purgatory::new(0);
    let id = purgatory.watch(45_000, &["group".to_owned(), "member".to_owned()], "session".to_owned());
    let counted = allocations(|| {
        for deadline_ms in deadlines_ms(0) {
            assert!(purgatory.rearm(id, deadline_ms));
        }
        assert_eq!(purgatory.deadline(id), Some(1));
    });
    assert_eq!(counted, 0);
}

#[test]
fn an_advance_that_finds_nothing_due_allocates_nothing() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<_> = (0..1_000).map(|n| wheel.arm(1_000 + n, n)).collect();
    let counted = allocations(|| {
        for &id in &ids {
            wheel.rearm(id, 100_000);
        }
        assert!(wheel.advance(50_000).is_empty(), "every entry finds a new slot, none is due");
        assert!(wheel.next_deadline().is_some_and(|next_ms| next_ms > 50_000));
    });
    assert_eq!(counted, 0);
}

/// Discards all answers.
struct Nowhere;

impl rota_core::Sink for Nowhere {
    fn answer(&mut self, _: rota_core::Ticket, answer: rota_core::Answer<'_>) {
        std::hint::black_box(&answer);
    }

    fn append(&mut self, _: rota_core::AppendId, _: &[rota_core::Record]) {}
}

/// A Stable group of one member, and the member's id.
fn stable_group() -> (rota_core::Coordinator, String) {
    use rota_core::request::{JoinGroup, Protocol, SyncGroup};
    use rota_core::{AppendId, Config, Coordinator, Entropy, Now, Request, Ticket};

    let now = |mono_ms| Now { mono_ms, wall_ms: 0 };
    let mut coordinator = Coordinator::new(Config::default(), 0, 0);
    coordinator.loaded(now(0), &mut Nowhere);
    let protocols = [Protocol { name: "range", metadata: &[] }];
    let join = JoinGroup {
        version: 3,
        group_id: Some("g"),
        member_id: "",
        instance_id: None,
        client_id: "c",
        client_host: "/127.0.0.1",
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: &protocols,
        reason: None,
    };
    coordinator.submit(now(0), Ticket(0), Entropy(0), Request::JoinGroup(join), &mut Nowhere);
    coordinator.appended(AppendId(0), Ok(0), now(0), &mut Nowhere);
    coordinator.advance(now(3_000), &mut Nowhere);
    let group = coordinator.project("g").expect("the group exists");
    let member_id = group.members[0].member_id.to_string();
    let sync = SyncGroup {
        version: 3,
        group_id: Some("g"),
        generation: 1,
        member_id: &member_id,
        instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: &[],
    };
    coordinator.submit(now(3_000), Ticket(1), Entropy(1), Request::SyncGroup(sync), &mut Nowhere);
    coordinator.appended(AppendId(1), Ok(1), now(3_000), &mut Nowhere);
    assert_eq!(coordinator.project("g").expect("the group exists").state, rota_core::State::Stable);
    (coordinator, member_id)
}

#[test]
fn a_heartbeat_through_the_coordinator_allocates_nothing() {
    use rota_core::request::{BatchedHeartbeat, Heartbeat, Sender};
    use rota_core::{Entropy, Now, Request, Ticket};

    let (mut coordinator, member_id) = stable_group();
    // The invariants are checked elsewhere; checking them allocates.
    coordinator.check_itself(rota_core::SelfCheck::Never);
    let handle = coordinator.member_handle("g", &member_id).expect("the member exists");
    let mut codes = [-1; 64];
    let sender = Sender::Ids { group_id: b"g", member_id: member_id.as_bytes(), instance_id: None };
    let by_ids = BatchedHeartbeat { sender, generation: 1 };
    let counted = allocations(|| {
        for beat in 0..1_000 {
            let now = Now { mono_ms: 3_000 + beat, wall_ms: 0 };
            let request = Heartbeat { group_id: Some("g"), generation: 1, member_id: &member_id, instance_id: None };
            coordinator.submit(now, Ticket(2 + beat), Entropy(0), Request::Heartbeat(request), &mut Nowhere);
            assert_eq!(coordinator.heartbeat(now, by_ids), rota_core::ErrorCode::None);
            coordinator.heartbeats_by_handle(now, &[handle; 64], &[1; 64], &mut codes);
        }
    });
    assert_eq!((counted, codes), (0, [0; 64]));
}

/// Counts appends, and keeps the epoch of the last answer.
#[derive(Default)]
struct Epoch {
    appends: Vec<rota_core::AppendId>,
    epoch: i32,
}

impl rota_core::Sink for Epoch {
    fn answer(&mut self, _: rota_core::Ticket, answer: rota_core::Answer<'_>) {
        if let rota_core::Answer::ConsumerGroupHeartbeat(answer) = answer {
            assert_eq!(answer.error, rota_core::ErrorCode::None);
            self.epoch = answer.member_epoch;
        }
    }

    fn append(&mut self, id: rota_core::AppendId, _: &[rota_core::Record]) {
        self.appends.push(id);
    }
}

#[test]
fn a_heartbeat_of_a_consumer_group_that_changes_nothing_allocates_and_appends_nothing() {
    use rota_core::consumer_group::{config::ConsumerConfig, topics::TopicMetadata};
    use rota_core::request::{ConsumerGroupHeartbeat, TopicPartitions};
    use rota_core::{Config, Coordinator, Entropy, Now, Request, SelfCheck, Ticket};

    let now = |mono_ms: u64| Now { mono_ms, wall_ms: 1 + mono_ms as i64 };
    let mut coordinator = Coordinator::new(Config::default(), 0, 0);
    coordinator.check_itself(SelfCheck::Never);
    let config = ConsumerConfig { enabled: true, assignment_interval_ms: 10_000, ..ConsumerConfig::default() };
    coordinator.configure_consumer_groups(config);
    let topic = TopicMetadata { name: "orders".into(), topic_id: 1, partitions: 3, racks: Vec::new() };
    coordinator.topics_changed(&[topic], now(0));
    let mut sink = Epoch::default();
    coordinator.loaded(now(0), &mut sink);
    let delta = ConsumerGroupHeartbeat {
        version: 1,
        group_id: "g",
        member_id: "m",
        member_epoch: 0,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: -1,
        subscribed_topic_names: None,
        subscribed_topic_regex: None,
        server_assignor: None,
        topic_partitions: None,
        client_id: "c",
        client_host: "/127.0.0.1",
    };
    let names = Some(&["orders"][..]);
    let join = ConsumerGroupHeartbeat {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: names,
        topic_partitions: Some(&[]),
        ..delta
    };
    coordinator.submit(now(0), Ticket(0), Entropy(0), Request::ConsumerGroupHeartbeat(join), &mut sink);
    coordinator.appended(sink.appends[0], Ok(0), now(0), &mut sink);
    let owned = [TopicPartitions { topic_id: 1, partitions: &[0, 1, 2] }];
    let (current, full) = (
        ConsumerGroupHeartbeat { member_epoch: sink.epoch, ..delta },
        ConsumerGroupHeartbeat {
            member_epoch: sink.epoch,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: names,
            topic_partitions: Some(&owned),
            ..delta
        },
    );
    let beats = |coordinator: &mut Coordinator, sink: &mut Epoch, beats: std::ops::Range<u64>| {
        let counted = allocations(|| {
            for beat in beats {
                let asked = Request::ConsumerGroupHeartbeat(current);
                coordinator.submit(now(beat), Ticket(beat), Entropy(0), asked, sink);
            }
        });
        assert_eq!(counted, 0);
    };
    beats(&mut coordinator, &mut sink, 1..1_000);
    coordinator.submit(now(1_000), Ticket(1_000), Entropy(0), Request::ConsumerGroupHeartbeat(full), &mut sink);
    assert_eq!(sink.appends.len(), 1);
    // The target of the second member is not due before the assignment interval is over.
    let joins = Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat { member_id: "n", ..join });
    coordinator.submit(now(1_001), Ticket(1_001), Entropy(0), joins, &mut sink);
    coordinator.appended(sink.appends[1], Ok(1), now(1_001), &mut sink);
    beats(&mut coordinator, &mut sink, 1_002..2_000);
    assert_eq!(sink.appends.len(), 2);
}

#[test]
fn a_list_with_no_room_for_its_length_is_refused_before_anything_is_allocated() {
    // 600 names, each of two bytes at least, in 1,000 bytes; 500 would fit.
    let list = |names: i32| [&[0, 0][..], &names.to_be_bytes(), &[0; 1_000]].concat();
    let (too_long, fits) = (list(600), list(500));
    assert_eq!(allocations(|| assert!(decode_subscription(&too_long).is_err())), 0);
    assert_ne!(allocations(|| assert!(decode_subscription(&fits).is_err(), "nothing is left for the rest")), 0);
}
