//! `DescribeProducers`: the producers of a partition, with their open transactions.

use std::collections::HashSet;

use kafka_protocol::{
    messages::{
        DescribeProducersRequest, DescribeProducersResponse, ProducerId,
        describe_producers_request::TopicRequest,
        describe_producers_response::{PartitionResponse, ProducerState, TopicResponse},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;

use super::{Topics, producers::Described};

impl Topics {
    /// Handles version 0. Answers once for a partition that is named several times: each may have thousands of producers.
    pub fn describe_producers(&mut self, request: &DescribeProducersRequest) -> DescribeProducersResponse {
        let mut seen: HashSet<(&str, i32)> = HashSet::new();
        let mut response = DescribeProducersResponse::default();
        for asked in &request.topics {
            let name = asked.name.as_str();
            let partitions = asked.partition_indexes.iter().filter(|index| seen.insert((name, **index)));
            let answers = partitions.map(|index| answer(*index, self.producers_of(name, *index))).collect();
            response.topics.push(TopicResponse::default().with_name(asked.name.clone()).with_partitions(answers));
        }
        response
    }

    fn producers_of(&mut self, name: &str, index: i32) -> Result<Vec<Described>, ErrorCode> {
        let topic = self.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (_leader_epoch, place) = (self.led(topic, index)?, (topic.id, index));
        let Some(partition) = self.data.get_mut(&place) else { return Ok(Vec::new()) };
        partition.log.check_readable()?;
        partition.know_producers().map_err(|refusal| refusal.code)?;
        Ok(partition.producers.described())
    }
}

/// Returns the answer for a topic that the client may not read.
pub fn refused(asked: &TopicRequest) -> TopicResponse {
    let error = ErrorCode::TopicAuthorizationFailed;
    let partitions = asked.partition_indexes.iter().map(|index| answer(*index, Err(error))).collect();
    TopicResponse::default().with_name(asked.name.clone()).with_partitions(partitions)
}

fn answer(index: i32, producers: Result<Vec<Described>, ErrorCode>) -> PartitionResponse {
    let answer = PartitionResponse::default().with_partition_index(index);
    match producers {
        Ok(producers) => answer.with_active_producers(producers.iter().map(shown).collect()),
        Err(error) => {
            let message = StrBytes::from_static_str(error.name());
            answer.with_error_code(error.code()).with_error_message(Some(message))
        }
    }
}

fn shown(producer: &Described) -> ProducerState {
    ProducerState::default()
        .with_producer_id(ProducerId(producer.producer_id))
        .with_producer_epoch(i32::from(producer.epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.last_timestamp_ms)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.open.unwrap_or(-1))
}
