//! `CreatePartitions`.

use kafka_protocol::messages::{CreatePartitionsRequest, create_partitions_response::CreatePartitionsTopicResult};
use rota_core::error::ErrorCode;
use rota_security::acl::Operation;

use super::context::{Context, Outcome};

/// Adds partitions in the topic table of all nodes, if the client may alter the topics.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: CreatePartitionsRequest = context.decode()?;
    let asked = std::mem::take(&mut request.topics);
    let (allowed, refused) = context.access().split_single_topics(Operation::Alter, asked, |topic| topic.name.as_str());
    request.topics = allowed;
    let mut response = context.node.topics_mut().0.create_partitions(&request);
    response.results.extend(refused.into_iter().map(|topic| {
        CreatePartitionsTopicResult::default()
            .with_name(topic.name)
            .with_error_code(ErrorCode::TopicAuthorizationFailed.code())
            .with_error_message(None)
    }));
    Ok(context.answer(&response))
}
