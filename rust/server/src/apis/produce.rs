//! `Produce`.

use kafka_protocol::messages::{ProduceRequest, TransactionalId, produce_response::TopicProduceResponse};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{Participant, Producer};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::{
    faults,
    node::{
        Node,
        admissions::{Admission, Admitted},
    },
    topics::{ProduceOutcome, SECOND_PROTOCOL_SINCE, Served},
};

/// Stores record batches. With acks 0 there is no answer, and an error closes the connection.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: ProduceRequest = context.decode()?;
    if let Some(error) = context.node.injected("") {
        return Ok(match request.acks {
            0 => Handled::Close,
            _ => context.answer(&faults::produce_error(&request, error)),
        });
    }
    let refused = refuse_forbidden(context, &mut request);
    let produce = Produce { version: context.version(), request, refused };
    match produce.admission(context.node) {
        // Without an answer nothing can wait: the partitions are refused.
        Some(admission) if produce.request.acks != 0 => {
            let reply_to = context.reply_to();
            context.client().park();
            let then = move |node: &mut Node, admitted| {
                let outcome = produce.store(node, &admitted);
                if outcome.waiting.is_empty() {
                    reply_to.encode_or_close(&outcome.response);
                } else {
                    node.answer_when_durable(reply_to, outcome);
                }
            };
            if admission.adds {
                context.node.admit_with_retries(admission, Box::new(then));
            } else {
                context.node.admit(admission, Box::new(then));
            }
            Ok(context.handled())
        }
        _ => {
            let acks = produce.request.acks;
            let outcome = produce.store(context.node, &Admitted::default());
            match acks {
                0 if outcome.has_error => Ok(Handled::Close),
                0 if outcome.waiting.is_empty() => Ok(Handled::Answered),
                // A client that sends faster than the disk writes is slowed down, as by Kafka.
                0 => {
                    let reply_to = context.reply_to();
                    context.node.go_on_when_durable(&reply_to.client, outcome);
                    Ok(Handled::Parked)
                }
                _ if outcome.waiting.is_empty() => Ok(context.answer(&outcome.response)),
                _ => {
                    context.node.answer_when_durable(context.reply_to(), outcome);
                    Ok(Handled::Parked)
                }
            }
        }
    }
}

/// A Produce whose rights were checked.
struct Produce {
    version: i16,
    request: ProduceRequest,
    refused: Vec<TopicProduceResponse>,
}

impl Produce {
    /// Returns what the coordinator of the transaction must be asked before the batches are stored (docs/transactions.md
    /// §3.2, §6); `None`: nothing.
    fn admission(&self, node: &Node) -> Option<Admission> {
        let transactional_id = self.request.transactional_id.as_ref()?.to_string();
        let (producer, participants) = with_served(node, &Admitted::default(), |node, served| {
            served.and_then(|served| node.topics().unadmitted(&self.request, self.version, served))
        })?;
        let adds = self.version >= SECOND_PROTOCOL_SINCE;
        Some(Admission { transactional_id, producer, participants, adds })
    }

    /// Stores the batches.
    fn store(self, node: &mut Node, admitted: &Admitted) -> ProduceOutcome {
        let now_ms = node.clock().now().wall_ms;
        let mut outcome = with_served(node, admitted, |node, served| {
            node.topics_mut().0.produce_verified(&self.request, self.version, served, now_ms)
        });
        outcome.has_error |= !self.refused.is_empty();
        outcome.response.responses.extend(self.refused);
        outcome
    }
}

/// Passes on how transactions are served; `None`: they are not.
fn with_served<N: std::borrow::Borrow<Node>, R>(
    node: N,
    admitted: &Admitted,
    act: impl FnOnce(N, Option<Served<'_>>) -> R,
) -> R {
    if !node.borrow().serves_transactions() {
        return act(node, None);
    }
    let all = node.borrow().all_transactions();
    let verify = |id: &str, producer_id: i64, epoch: i16, topic: &str, partition: i32| {
        let participant = Participant::new(topic, partition);
        admitted.verdict(&participant, || all.verify(id, Producer { id: producer_id, epoch }, &participant))
    };
    let has_second_protocol = all.config().has_second_protocol();
    let (asks_others, not_added) = (node.borrow().cluster().is_some(), admitted.not_added);
    act(node, Some(Served { verify: &verify, has_second_protocol, asks_others, not_added }))
}

/// Takes the topics that the client may not write, or that its ids do not name, out of the request, and returns their
/// answers.
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
    let (mut allowed, mut refused, mut unknown) = (Vec::with_capacity(asked.len()), Vec::new(), Vec::new());
    for topic in asked {
        let name = if topic.topic_id.is_nil() { Some(topic.name.as_str()) } else { topics.topic_name(topic.topic_id) };
        let count = topic.partition_data.len();
        match name {
            // As in Kafka it stays unknown: the rights for a topic that comes meanwhile would not be checked.
            None => unknown.push(topic),
            Some(name) if access.allows_counted(Operation::Write, ResourceType::Topic, name, count) => {
                allowed.push(topic);
            }
            Some(_) => refused.push(topic),
        }
    }
    request.topic_data = allowed;
    let mut answers = Vec::new();
    for (topics, error) in [(refused, ErrorCode::TopicAuthorizationFailed), (unknown, ErrorCode::UnknownTopicId)] {
        let refused = ProduceRequest::default().with_topic_data(topics);
        answers.extend(faults::produce_error(&refused, error).responses);
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use rota_wire::{RequestHeader, versions};
    use uuid::Uuid;

    use super::*;
    use crate::{base::owners::FIRST_NODE, client::tests::nowhere, node::shared_state::tests::in_memory};

    #[test]
    fn an_id_of_no_topic_stays_unknown_when_its_topic_comes_while_the_request_waits() {
        let shared = Arc::new(in_memory());
        let (mut node, client) = (Node::new(&shared, FIRST_NODE), nowhere());
        let api = versions::find(versions::PRODUCE).unwrap();
        let header = RequestHeader { api, version: 13, correlation_id: 7, client_id: "" };
        let topic = TopicProduceData::default()
            .with_topic_id(Uuid::from_u128(9))
            .with_partition_data(vec![PartitionProduceData::default().with_index(3)]);
        let mut request = ProduceRequest::default().with_topic_data(vec![topic]);
        let refused = refuse_forbidden(&mut Context::new(&mut node, &client, &header, &[]), &mut request);
        assert_eq!((request.topic_data.len(), refused.len()), (0, 1));
        let answer = &refused[0].partition_responses[0];
        assert_eq!((refused[0].topic_id, answer.index, answer.error_code), (Uuid::from_u128(9), 3, 100));
    }
}
