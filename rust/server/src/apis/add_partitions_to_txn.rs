//! `AddPartitionsToTxn` (docs/transactions.md §3.2).

use std::collections::HashMap;

use kafka_protocol::messages::{AddPartitionsToTxnRequest, TopicName};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{CONSUMER_OFFSETS, Participant, Producer, Request, TransactionVersion};

use super::{
    admit_partitions::{self, OPERATION_NOT_ATTEMPTED},
    context::{Context, Outcome},
};
use crate::node::transaction_replies::{Form, TransactionReply, partitions_answer};

/// The first version that servers send each other.
const BETWEEN_SERVERS_SINCE: i16 = 4;

/// Adds all partitions of a client's transaction or none.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: AddPartitionsToTxnRequest = context.decode()?;
    if context.version() >= BETWEEN_SERVERS_SINCE {
        return Ok(admit_partitions::handle(context, request));
    }
    let topics: Vec<(TopicName, Vec<i32>)> =
        request.v3_and_below_topics.into_iter().map(|topic| (topic.name, topic.partitions)).collect();
    let transactional_id = request.v3_and_below_transactional_id.to_string();
    let access = context.access();
    if !access.allows(Operation::Write, ResourceType::TransactionalId, &transactional_id) {
        let refused = |_: &TopicName, _| ErrorCode::TransactionalIdAuthorizationFailed.code();
        return Ok(context.answer(&partitions_answer(topics, refused)));
    }
    let bad = bad_partitions(context, &topics);
    if !bad.is_empty() {
        let code =
            |name: &TopicName, index| bad.get(&(name.clone(), index)).copied().unwrap_or(OPERATION_NOT_ATTEMPTED);
        return Ok(context.answer(&partitions_answer(topics, code)));
    }
    let participants = topics.iter().flat_map(|(name, partitions)| {
        partitions.iter().map(|partition| Participant::new(name.to_string(), *partition))
    });
    let request = Request::AddParticipants {
        transactional_id,
        producer: Producer { id: request.v3_and_below_producer_id.0, epoch: request.v3_and_below_producer_epoch },
        participants: participants.collect(),
        version: TransactionVersion::V1,
    };
    let reply = TransactionReply { reply_to: context.reply_to(), form: Form::AddPartitions(topics) };
    context.client().park();
    context.node.submit_transaction(request, reply);
    Ok(context.handled())
}

/// The partitions that cannot be added, with their errors.
fn bad_partitions(context: &mut Context<'_>, topics: &[(TopicName, Vec<i32>)]) -> HashMap<(TopicName, i32), i16> {
    let access = context.access();
    let known = context.node.topics();
    let mut bad = HashMap::new();
    for (name, partitions) in topics {
        let is_allowed = name.as_str() != CONSUMER_OFFSETS
            && access.allows_counted(Operation::Write, ResourceType::Topic, name, partitions.len());
        let count = known.partition_count(name).unwrap_or(0);
        for index in partitions {
            if !is_allowed {
                bad.insert((name.clone(), *index), ErrorCode::TopicAuthorizationFailed.code());
            } else if !(0..count).contains(index) {
                bad.insert((name.clone(), *index), ErrorCode::UnknownTopicOrPartition.code());
            }
        }
    }
    bad
}
