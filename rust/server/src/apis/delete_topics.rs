//! `DeleteTopics`.

use kafka_protocol::{
    messages::{
        DeleteTopicsRequest, TopicName, delete_topics_request::DeleteTopicState,
        delete_topics_response::DeletableTopicResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};

use super::context::{Context, Outcome};

/// Kafka's message for a topic that the client may not delete.
const REFUSED: &str = "Topic authorization failed.";

/// Deletes topics with their committed offsets, if the client may delete them.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: DeleteTopicsRequest = context.decode()?;
    let version = context.version();
    let refused = refuse_forbidden(context, &mut request);
    let mut response = context.node.delete_topics(&request, version);
    response.responses.extend(refused);
    Ok(context.answer(&response))
}

/// Takes the topics that the client may not delete out of the request, and returns their answers.
fn refuse_forbidden(context: &mut Context<'_>, request: &mut DeleteTopicsRequest) -> Vec<DeletableTopicResult> {
    let access = context.access();
    if access.is_open() {
        return Vec::new();
    }
    let refusal = |name: Option<TopicName>| {
        DeletableTopicResult::default()
            .with_name(name)
            .with_error_code(ErrorCode::TopicAuthorizationFailed.code())
            .with_error_message(Some(StrBytes::from_static_str(REFUSED)))
    };
    let topics = context.node.topics();
    let allows = |name: &str| access.allows(Operation::Delete, ResourceType::Topic, name);
    let by_name = std::mem::take(&mut request.topic_names);
    let (allowed, refused): (Vec<TopicName>, Vec<TopicName>) = by_name.into_iter().partition(|name| allows(name));
    request.topic_names = allowed;
    let of_names = refused.into_iter().map(|name| refusal(Some(name)));
    let name_of = |topic: &DeleteTopicState| match &topic.name {
        Some(name) => Some(name.0.to_string()),
        // An id of no topic is unknown to everyone.
        None => topics.topic_name(topic.topic_id).map(str::to_owned),
    };
    let states = std::mem::take(&mut request.topics);
    let (allowed, refused) = states.into_iter().partition(|topic| name_of(topic).is_none_or(|name| allows(&name)));
    request.topics = allowed;
    let refused: Vec<DeleteTopicState> = refused;
    let of_states = refused.into_iter().map(|topic| {
        // Only clients that may describe the topic see the name of an id.
        let sees = |name: &String| access.may(Operation::Describe, ResourceType::Topic, name);
        let known = name_of(&topic).filter(sees).map(|name| TopicName(StrBytes::from_string(name)));
        refusal(topic.name.or(known)).with_topic_id(topic.topic_id)
    });
    of_names.chain(of_states).collect()
}
