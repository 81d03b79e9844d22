//! `InitProducerId`, for idempotent producers.

use kafka_protocol::messages::InitProducerIdRequest;

use super::context::{Context, Outcome};

/// Assigns a unique producer id.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: InitProducerIdRequest = context.decode()?;
    let version = context.version();
    let response = context.node.topics_mut().0.init_producer_id(&request, version);
    Ok(context.answer(&response))
}
