//! `ListPartitionReassignments`: a partition has one replica, so there are none.

use kafka_protocol::{
    messages::{
        ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
        list_partition_reassignments_request::ListPartitionReassignmentsTopics,
        list_partition_reassignments_response::{OngoingPartitionReassignment, OngoingTopicReassignment},
    },
    protocol::StrBytes,
};
use rota_security::acl::Operation;

use super::{
    acls::NOT_ALLOWED,
    context::{Context, Outcome},
};

/// Answers that no partition moves between replicas.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let asked: ListPartitionReassignmentsRequest = context.decode()?;
    let answer = ListPartitionReassignmentsResponse::default();
    let answer = if context.access().allows_on_cluster(Operation::Describe) {
        answer.with_error_message(None)
    } else {
        let (code, message) = NOT_ALLOWED;
        // As Kafka has it, with the partitions of the request.
        answer
            .with_error_code(code)
            .with_error_message(Some(StrBytes::from_static_str(message)))
            .with_topics(asked.topics.iter().flatten().map(without_replicas).collect())
    };
    Ok(context.answer(&answer))
}

fn without_replicas(asked: &ListPartitionReassignmentsTopics) -> OngoingTopicReassignment {
    let partition = |index: &i32| OngoingPartitionReassignment::default().with_partition_index(*index);
    OngoingTopicReassignment::default()
        .with_name(asked.name.clone())
        .with_partitions(asked.partition_indexes.iter().map(partition).collect())
}
