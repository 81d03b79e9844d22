//! `Produce`.

use kafka_protocol::messages::{ProduceRequest, TransactionalId, produce_response::TopicProduceResponse};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{Participant, Producer, Verdict};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::{faults, topics::Verify};

/// Stores record batches. With acks 0 there is no answer, and an error closes the connection.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: ProduceRequest = context.decode()?;
    if let Some(error) = context.node.injected("") {
        return Ok(match request.acks {
            0 => Handled::Close,
            _ => context.answer(&faults::produce_error(&request, error)),
        });
    }
    let (version, now_ms) = (context.version(), context.node.clock().now().wall_ms);
    let refused = refuse_forbidden(context, &mut request);
    let transactions = context.node.serves_transactions().then(|| context.node.all_transactions());
    let verify = |id: &str, producer_id: i64, epoch: i16, topic: &str, partition: i32| {
        let (producer, participant) = (Producer { id: producer_id, epoch }, Participant::new(topic, partition));
        transactions.as_ref().map_or(Verdict::NotCoordinator, |all| all.verify(id, producer, &participant))
    };
    let verify: Option<&Verify<'_>> = if transactions.is_some() { Some(&verify) } else { None };
    let mut outcome = context.node.topics_mut().0.produce_verified(&request, version, verify, now_ms);
    outcome.has_error |= !refused.is_empty();
    outcome.response.responses.extend(refused);
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

/// Takes the topics that the client may not write out of the request, and returns their answers.
fn refuse_forbidden(context: &mut Context<'_>, request: &mut ProduceRequest) -> Vec<TopicProduceResponse> {
    // Without transactions, every partition of one is refused for another reason.
    if request.transactional_id.is_some() && !context.node.serves_transactions() {
        return Vec::new();
    }
    let access = context.access();
    let asked = std::mem::take(&mut request.topic_data);
    let may_use = |id: &TransactionalId| access.allows(Operation::Write, ResourceType::TransactionalId, id);
    if !request.transactional_id.as_ref().is_none_or(may_use) {
        let refused = ProduceRequest::default().with_topic_data(asked);
        return faults::produce_error(&refused, ErrorCode::TransactionalIdAuthorizationFailed).responses;
    }
    let topics = context.node.topics();
    let (mut allowed, mut refused) = (Vec::with_capacity(asked.len()), Vec::new());
    for topic in asked {
        let name = if topic.topic_id.is_nil() { Some(topic.name.as_str()) } else { topics.topic_name(topic.topic_id) };
        let count = topic.partition_data.len();
        let allows = |name: &str| access.allows_counted(Operation::Write, ResourceType::Topic, name, count);
        // An id of no topic is unknown to everyone.
        if name.is_none_or(allows) { allowed.push(topic) } else { refused.push(topic) }
    }
    let refused = ProduceRequest::default().with_topic_data(refused);
    request.topic_data = allowed;
    faults::produce_error(&refused, ErrorCode::TopicAuthorizationFailed).responses
}
