//! `CreateTopics`.

use kafka_protocol::{
    messages::{
        CreateTopicsRequest, create_topics_request::CreatableTopic, create_topics_response::CreatableTopicResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::{CLUSTER_NAME, Operation, ResourceType};

use super::context::{Context, Outcome};

/// Kafka's message for a topic that the client may not create.
const REFUSED: &str = "Authorization failed.";

/// Creates topics in the topic table of all nodes, if the client may create them.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: CreateTopicsRequest = context.decode()?;
    let access = context.access();
    let asked = std::mem::take(&mut request.topics);
    let (allowed, refused) = if access.may(Operation::Create, ResourceType::Cluster, CLUSTER_NAME) {
        (asked, Vec::new())
    } else {
        access.split_single_topics(Operation::Create, asked, |topic| topic.name.as_str())
    };
    request.topics = allowed;
    let (topics, random) = context.node.topics_mut();
    let mut response = topics.create_topics(&request, random);
    for created in response.topics.iter_mut().filter(|created| created.error_code == 0) {
        if !access.may(Operation::DescribeConfigs, ResourceType::Topic, &created.name) {
            hide_configs(created);
        }
    }
    response.topics.extend(refused.into_iter().map(refusal));
    Ok(context.answer(&response))
}

fn refusal(asked: CreatableTopic) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(asked.name)
        .with_error_code(ErrorCode::TopicAuthorizationFailed.code())
        .with_error_message(Some(StrBytes::from_static_str(REFUSED)))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
}

/// Hides settings from a client that may not describe them.
fn hide_configs(created: &mut CreatableTopicResult) {
    created.topic_config_error_code = ErrorCode::TopicAuthorizationFailed.code();
    created.num_partitions = -1;
    created.replication_factor = -1;
    created.configs = Some(Vec::new());
}
