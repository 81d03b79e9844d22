//! `Produce`.

use kafka_protocol::messages::ProduceRequest;

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::faults;

/// Stores record batches. With acks 0 there is no answer, and an error closes the connection.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: ProduceRequest = context.decode()?;
    if let Some(error) = context.node.injected("") {
        return Ok(match request.acks {
            0 => Handled::Close,
            _ => context.answer(&faults::produce_error(&request, error)),
        });
    }
    let (version, now_ms) = (context.version(), context.node.clock().now().wall_ms);
    let outcome = context.node.topics_mut().0.produce(&request, version, now_ms);
    if !outcome.waiting.is_empty() && request.acks != 0 {
        context.node.answer_when_durable(context.reply_to(), outcome);
        return Ok(Handled::Parked);
    }
    match request.acks {
        0 if outcome.has_error => Ok(Handled::Close),
        0 => Ok(Handled::Answered),
        _ => Ok(context.answer(&outcome.response)),
    }
}
