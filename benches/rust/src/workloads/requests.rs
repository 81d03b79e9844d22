//! Requests that change groups.

use rota_bench::{consumers::ConsumerStage, crowd::Seat, stage::Stage};
use rota_core::{
    Request,
    request::{CommitPartition, CommitTopic, JoinGroup, LeaveGroup, LeaveIdentity, OffsetCommit, Protocol},
};

use crate::{STRIDE, measured};

const MEMBERS: usize = 1_000;
/// Members of a large group, and how many of them are replaced or leave.
const MANY: usize = 10_000;
const FEW: usize = 1_000;
/// Members of a consumer group.
const CONSUMERS: usize = 500;
const COMMITS: u64 = 5_000;
const PARTITIONS: u64 = 100;

/// One group of a thousand, cold.
pub fn join() -> u64 {
    let mut stage = Stage::new();
    let seats = measured(|| stage.join("group", MEMBERS)).expect("they join");
    stage.all_good().expect("all joins are good");
    seats.len() as u64
}

/// One consumer group of five hundred, each of whose joins is durable before the next one.
pub fn join_consumer() -> u64 {
    let mut stage = ConsumerStage::new(PARTITIONS as i32);
    measured(|| stage.joined("group", CONSUMERS)).expect("they join").len() as u64
}

/// The leader's plan, and what it means for each.
pub fn sync() -> u64 {
    let mut stage = Stage::new();
    let seats = stage.join("group", MEMBERS).expect("they join");
    measured(|| stage.sync(&seats));
    stage.all_good().expect("all syncs are good");
    seats.len() as u64
}

/// Members in the middle of a large group leave, after the first one that begins a rebalance.
pub fn leaves() -> u64 {
    let (mut stage, seats) = Stage::settled(1, MANY).expect("a Stable group");
    leave(&mut stage, &seats[0]);
    measured(|| (1..=FEW).for_each(|at| leave(&mut stage, &seats[1 + at.wrapping_mul(STRIDE) % (MANY - 1)])));
    stage.all_good().expect("all are members");
    FEW as u64
}

/// Static members of a large group are replaced while the group forms.
pub fn replacements() -> u64 {
    let mut stage = Stage::new();
    (0..MANY).for_each(|at| join_static(&mut stage, at));
    stage.all_good().expect("all joins wait");
    measured(|| (1..=FEW).for_each(|at| join_static(&mut stage, at.wrapping_mul(STRIDE) % MANY)));
    assert!(stage.all_good().is_err(), "the predecessors are fenced");
    FEW as u64
}

/// A member leaves.
pub fn leave(stage: &mut Stage, seat: &Seat) {
    let members = [LeaveIdentity { member_id: &seat.member_id, instance_id: None, reason: None }];
    stage.submit(Request::LeaveGroup(LeaveGroup { version: 3, group_id: Some(&seat.group), members: &members }));
}

/// A process of the static member `instance` joins.
pub fn join_static(stage: &mut Stage, instance: usize) {
    stage.submit(Request::JoinGroup(JoinGroup {
        version: 5,
        group_id: Some("group"),
        member_id: "",
        instance_id: Some(&format!("instance-{instance}")),
        client_id: "consumer-1",
        client_host: "/127.0.0.1",
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: &[Protocol { name: "range", metadata: &[0; 24] }],
        reason: None,
    }));
}

/// One offset a request, by the members of one group.
pub fn offset_commit() -> u64 {
    let (mut stage, seats) = Stage::settled(1, 100).expect("a Stable group");
    measured(|| {
        for at in 0..COMMITS {
            let seat = &seats[at as usize % seats.len()];
            let partition = CommitPartition {
                index: (at % PARTITIONS) as i32,
                offset: at as i64,
                leader_epoch: -1,
                metadata: Some(""),
            };
            let topics = [CommitTopic { name: "orders", topic_id: 1, partitions: &[partition] }];
            let commit = OffsetCommit {
                version: 8,
                group_id: Some(&seat.group),
                generation: seat.generation,
                member_id: &seat.member_id,
                instance_id: None,
                retention_time_ms: None,
                topics: &topics,
            };
            stage.submit(Request::OffsetCommit(commit));
        }
    });
    stage.all_good().expect("all commits are good");
    COMMITS
}
