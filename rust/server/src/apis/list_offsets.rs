//! `ListOffsets`.

use kafka_protocol::messages::ListOffsetsRequest;

use super::context::{Context, Outcome};

/// Answers from the topics of this node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: ListOffsetsRequest = context.decode()?;
    let version = context.version();
    let response = context.node.topics().list_offsets(&request, version);
    Ok(context.answer(&response))
}
