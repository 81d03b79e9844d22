//! `OffsetForLeaderEpoch`.

use kafka_protocol::messages::OffsetForLeaderEpochRequest;

use super::context::{Context, Outcome};

/// Answers from the topics of this node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: OffsetForLeaderEpochRequest = context.decode()?;
    let response = context.node.topics().offset_for_leader_epoch(&request);
    Ok(context.answer(&response))
}
