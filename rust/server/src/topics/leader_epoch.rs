//! `OffsetForLeaderEpoch`: where the records of a leader epoch end. Every partition has had one leader only, in epoch 0.

use kafka_protocol::messages::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
};
use rota_core::error::ErrorCode;

use super::{LEADER_EPOCH, Topics};

/// As an epoch: not known, or not said. As an offset: none.
const NONE: i32 = -1;

impl Topics {
    /// Versions 2–4. Topics and partitions in the order of the request, as often as they were asked about.
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
        let Some(partition) = self.topic(topic).and_then(|topic| topic.partition(asked.partition)) else {
            return answer.with_error_code(ErrorCode::UnknownTopicOrPartition.code());
        };
        let refused = match asked.current_leader_epoch {
            NONE | LEADER_EPOCH => None,
            LEADER_EPOCH.. => Some(ErrorCode::UnknownLeaderEpoch),
            _ => Some(ErrorCode::FencedLeaderEpoch),
        };
        match (refused, asked.leader_epoch) {
            (Some(error), _) => answer.with_error_code(error.code()),
            (None, LEADER_EPOCH) => answer.with_leader_epoch(LEADER_EPOCH).with_end_offset(partition.log.next_offset()),
            // Nobody led before the first leader did: its records begin where the log does.
            (None, before) if before < NONE => {
                answer.with_leader_epoch(before).with_end_offset(partition.log.first_offset())
            }
            (None, _) => answer,
        }
    }
}
