//! `CreatePartitions`.

use kafka_protocol::messages::CreatePartitionsRequest;

use super::context::{Context, Outcome};

/// Adds partitions in the topic table of all nodes.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: CreatePartitionsRequest = context.decode()?;
    let version = context.version();
    let response = context.node.topics_mut().0.create_partitions(&request, version);
    Ok(context.answer(&response))
}
