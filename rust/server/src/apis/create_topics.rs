//! `CreateTopics`.

use kafka_protocol::messages::CreateTopicsRequest;

use super::context::{Context, Outcome};

/// Creates topics in the topic table of all nodes.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: CreateTopicsRequest = context.decode()?;
    let version = context.version();
    let (topics, random) = context.node.topics_mut();
    let response = topics.create_topics(&request, version, random);
    Ok(context.answer(&response))
}
