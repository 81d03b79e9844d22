//! `OffsetForLeaderEpoch`: the end offset of a leader epoch. Partitions with records have had one leader only, in epoch
//! 0.

use kafka_protocol::messages::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
};
use rota_core::error::ErrorCode;

use super::{LEADER_EPOCH, Topics, fetch::check_leader_epoch};

/// Unknown epoch, or no offset.
const NONE: i32 = -1;

/// Returns the answer for a topic that the client may not describe.
pub fn refused(topic: &OffsetForLeaderTopic) -> OffsetForLeaderTopicResult {
    let partition = |asked: &OffsetForLeaderPartition| {
        EpochEndOffset::default()
            .with_partition(asked.partition)
            .with_leader_epoch(NONE)
            .with_end_offset(i64::from(NONE))
            .with_error_code(ErrorCode::TopicAuthorizationFailed.code())
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions)
}

impl Topics {
    /// Handles versions 2–4. Topics and partitions are in request order, with repetitions.
    pub fn offset_for_leader_epoch(&self, request: &OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
        let topic = |asked: &OffsetForLeaderTopic| {
            let answers = asked.partitions.iter().map(|partition| self.epoch_end(asked.topic.as_str(), partition));
            OffsetForLeaderTopicResult::default().with_topic(asked.topic.clone()).with_partitions(answers.collect())
        };
        OffsetForLeaderEpochResponse::default().with_topics(request.topics.iter().map(topic).collect())
    }

    fn epoch_end(&self, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
        let answer = EpochEndOffset::default()
            .with_partition(asked.partition)
            .with_leader_epoch(NONE)
            .with_end_offset(i64::from(NONE));
        let found = self.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition);
        let found = found.and_then(|topic| self.partition(topic, asked.partition));
        let partition = match found.and_then(|(partition, epoch)| {
            check_leader_epoch(asked.current_leader_epoch, epoch)?;
            Ok(partition)
        }) {
            Ok(partition) => partition,
            Err(error) => return answer.with_error_code(error.code()),
        };
        match asked.leader_epoch {
            LEADER_EPOCH => answer.with_leader_epoch(LEADER_EPOCH).with_end_offset(partition.log.next_offset()),
            // No leader existed before the first one, whose records begin at the start of the log.
            before if before < NONE => answer.with_leader_epoch(before).with_end_offset(partition.log.first_offset()),
            _ => answer,
        }
    }
}
