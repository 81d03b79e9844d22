//! Requests that change groups.

use rota_core::{
    Request,
    request::{CommitPartition, CommitTopic, OffsetCommit},
};

use rota_bench::stage::Stage;

use crate::measured;

const MEMBERS: usize = 1_000;
const COMMITS: u64 = 5_000;
const PARTITIONS: u64 = 100;

/// One group of a thousand, cold.
pub fn join() -> u64 {
    let mut stage = Stage::new();
    let seats = measured(|| stage.join("group", MEMBERS)).expect("they join");
    stage.all_good().expect("all joins are good");
    seats.len() as u64
}

/// The leader's plan, and what it means for each.
pub fn sync() -> u64 {
    let mut stage = Stage::new();
    let seats = stage.join("group", MEMBERS).expect("they join");
    measured(|| stage.sync(&seats));
    stage.all_good().expect("all syncs are good");
    seats.len() as u64
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
