//! `ListOffsets`: the ends of a partition, and offsets by time.

use std::collections::HashMap;

use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
};
use rota_core::error::ErrorCode;
use rota_log::TimestampedOffset;
use uuid::Uuid;

use super::{
    Partition, Topic, Topics,
    fetch::{READ_COMMITTED, check_leader_epoch},
    settings::LOOKUP_BYTES_MAX,
};

/// The meaning of a negative timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Latest,
    Earliest,
    MaxTimestamp,
    EarliestLocal,
    LatestTiered,
}

/// Timestamp, its meaning, and the first version that has it.
const SPECIALS: &[(i64, Special, i16)] = &[
    (-1, Special::Latest, 1),
    (-2, Special::Earliest, 1),
    (-3, Special::MaxTimestamp, 7),
    (-4, Special::EarliestLocal, 8),
    (-5, Special::LatestTiered, 9),
];

/// The first version whose answer has a leader epoch.
const EPOCH_SINCE: i16 = 4;

/// The answer without a matching record: offset, timestamp and epoch.
const NOWHERE: TimestampedOffset = TimestampedOffset { offset: -1, timestamp_ms: -1, leader_epoch: -1 };

impl Topics {
    /// Handles versions 1–10. A reader of committed records sees nothing at or above the last stable offset. There is no
    /// tiered storage: the earliest local offset is the earliest one, and the latest tiered offset is -1.
    pub fn list_offsets(&self, request: &ListOffsetsRequest, version: i16) -> ListOffsetsResponse {
        let mut response = ListOffsetsResponse::default();
        let mut bytes_left = LOOKUP_BYTES_MAX;
        for asked in &request.topics {
            let found = self.asked(false, &asked.name, Uuid::nil()).map(|(_, topic)| topic);
            let mut counts: HashMap<i32, u32> = HashMap::new();
            for partition in &asked.partitions {
                *counts.entry(partition.partition_index).or_default() += 1;
            }
            let mut answer = ListOffsetsTopicResponse::default().with_name(asked.name.clone());
            for partition in &asked.partitions {
                let looked_up = match counts.get_mut(&partition.partition_index).map(std::mem::take) {
                    // Already answered: a repeated partition is refused once.
                    None | Some(0) => continue,
                    Some(1) => found.and_then(|topic| {
                        self.look_up(topic, partition, version, request.isolation_level, &mut bytes_left)
                    }),
                    Some(_) => Err(ErrorCode::InvalidRequest),
                };
                answer.partitions.push(partition_answer(partition.partition_index, looked_up, version));
            }
            response.topics.push(answer);
        }
        response
    }

    fn look_up(
        &self,
        topic: &Topic,
        asked: &ListOffsetsPartition,
        version: i16,
        isolation_level: i8,
        bytes_left: &mut usize,
    ) -> Result<TimestampedOffset, ErrorCode> {
        let (partition, epoch) = self.partition(topic, asked.partition_index)?;
        check_leader_epoch(asked.current_leader_epoch, epoch)?;
        let is_committed = isolation_level == READ_COMMITTED;
        if is_committed && !partition.log.is_followed() {
            // Clients ask again, and each time more is known.
            return Err(ErrorCode::LeaderNotAvailable);
        }
        let end = if is_committed { partition.last_stable_offset() } else { partition.log.next_offset() };
        if asked.timestamp >= 0 {
            let found = partition.log.offset_for_timestamp(asked.timestamp, bytes_left)?;
            return Ok(found.filter(|found| found.offset < end).unwrap_or(NOWHERE));
        }
        let special = SPECIALS.iter().find(|(timestamp, _, since)| *timestamp == asked.timestamp && version >= *since);
        let found = special.map(|(_, special, _)| special_offset(partition, *special, epoch, end, bytes_left));
        found.unwrap_or(Err(ErrorCode::UnsupportedVersion))
    }
}

/// Returns the answer for a topic that the client may not describe.
pub fn refused(topic: &ListOffsetsTopic) -> ListOffsetsTopicResponse {
    let partition = |asked: &ListOffsetsPartition| {
        partition_answer(asked.partition_index, Err(ErrorCode::TopicAuthorizationFailed), EPOCH_SINCE)
    };
    ListOffsetsTopicResponse::default()
        .with_name(topic.name.clone())
        .with_partitions(topic.partitions.iter().map(partition).collect())
}

fn special_offset(
    partition: &Partition,
    special: Special,
    leader_epoch: i32,
    end: i64,
    bytes_left: &mut usize,
) -> Result<TimestampedOffset, ErrorCode> {
    let log = &partition.log;
    let at = |offset, leader_epoch| TimestampedOffset { offset, timestamp_ms: -1, leader_epoch };
    Ok(match special {
        Special::Latest => at(end, leader_epoch),
        Special::Earliest | Special::EarliestLocal => {
            let first_offset = log.first_offset();
            let begun = log.epochs(leader_epoch).into_iter().flatten().rev().find(|(_, start)| *start <= first_offset);
            at(first_offset, begun.map_or(leader_epoch, |(epoch, _)| *epoch))
        }
        Special::MaxTimestamp => {
            let found = log.offset_of_max_timestamp(bytes_left)?;
            found.filter(|found| found.offset < end).unwrap_or(NOWHERE)
        }
        Special::LatestTiered => NOWHERE,
    })
}

fn partition_answer(
    index: i32,
    looked_up: Result<TimestampedOffset, ErrorCode>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let code = looked_up.err().unwrap_or(ErrorCode::None);
    let found = looked_up.unwrap_or(NOWHERE);
    ListOffsetsPartitionResponse::default()
        .with_partition_index(index)
        .with_error_code(code as i16)
        .with_timestamp(found.timestamp_ms)
        .with_offset(found.offset)
        .with_leader_epoch(if version >= EPOCH_SINCE { found.leader_epoch } else { -1 })
}
