//! Puts injected errors into answers that no coordinator gives.

use kafka_protocol::messages::{
    FetchRequest, FetchResponse, MetadataResponse, ProduceRequest, ProduceResponse,
    fetch_response::{FetchableTopicResponse, PartitionData},
    produce_response::{PartitionProduceResponse, TopicProduceResponse},
};
use rota_core::error::ErrorCode;

/// Errors of the fetch session, at the top of a Fetch answer.
const OF_THE_SESSION: [ErrorCode; 2] = [ErrorCode::FetchSessionIdNotFound, ErrorCode::InvalidFetchSessionEpoch];

/// Sets the error on every topic of a Metadata answer, and removes their partitions.
pub fn metadata_error(response: &mut MetadataResponse, error: ErrorCode) {
    for topic in &mut response.topics {
        topic.error_code = error.code();
        topic.partitions.clear();
    }
}

/// Creates a Produce answer with the error on every partition. Nothing is stored.
pub fn produce_error(request: &ProduceRequest, error: ErrorCode) -> ProduceResponse {
    let mut response = ProduceResponse::default();
    response.responses = request
        .topic_data
        .iter()
        .map(|topic| {
            let mut refused = TopicProduceResponse::default().with_name(topic.name.clone());
            refused.topic_id = topic.topic_id;
            refused.partition_responses = topic
                .partition_data
                .iter()
                .map(|partition| {
                    PartitionProduceResponse::default()
                        .with_index(partition.index)
                        .with_error_code(error.code())
                        .with_base_offset(-1)
                        .with_log_append_time_ms(-1)
                        .with_log_start_offset(-1)
                })
                .collect();
            refused
        })
        .collect();
    response
}

/// Creates a Fetch answer with the error on every partition, or of the fetch session.
pub fn fetch_error(request: &FetchRequest, error: ErrorCode) -> FetchResponse {
    let mut response = FetchResponse::default();
    if OF_THE_SESSION.contains(&error) {
        return response.with_error_code(error.code());
    }
    response.responses = request
        .topics
        .iter()
        .map(|topic| {
            let mut refused = FetchableTopicResponse::default().with_topic(topic.topic.clone());
            refused.topic_id = topic.topic_id;
            refused.partitions = topic
                .partitions
                .iter()
                .map(|partition| {
                    PartitionData::default()
                        .with_partition_index(partition.partition)
                        .with_error_code(error.code())
                        .with_high_watermark(-1)
                        .with_last_stable_offset(-1)
                        .with_log_start_offset(-1)
                        .with_preferred_read_replica((-1).into())
                        .with_records(Some(bytes::Bytes::new()))
                })
                .collect();
            refused
        })
        .collect();
    response
}
