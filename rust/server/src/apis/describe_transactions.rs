//! `DescribeTransactions` (docs/transactions.md §3.5).

use std::collections::HashSet;

use kafka_protocol::{
    messages::{
        DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId, TransactionalId,
        describe_transactions_response::{TopicData, TransactionState},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{Api, coordinator::Description};

use super::context::{Context, Outcome};
use crate::client::access::Access;

/// Describes transactional ids that this node coordinates, each once.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DescribeTransactionsRequest = context.decode()?;
    let access = context.access();
    let node = &*context.node;
    let mut seen = HashSet::new();
    let ids = request.transactional_ids.into_iter().filter(|id| seen.insert(id.clone()));
    let states = ids.map(|id| {
        if !access.allows(Operation::Describe, ResourceType::TransactionalId, &id) {
            return refused(id, ErrorCode::TransactionalIdAuthorizationFailed.code());
        }
        match node.describe_transaction(&id) {
            Ok(description) => described(id, &description, &access),
            Err(error) => refused(id, error.code(Api::DescribeTransactions, 0)),
        }
    });
    let response = DescribeTransactionsResponse::default().with_transaction_states(states.collect());
    Ok(context.answer(&response))
}

fn refused(id: TransactionalId, error: i16) -> TransactionState {
    TransactionState::default().with_transactional_id(id).with_error_code(error)
}

/// Topics that the client may not see are left out.
fn described(id: TransactionalId, description: &Description, access: &Access) -> TransactionState {
    let topics = description.participants.chunk_by(|a, b| a.topic == b.topic);
    let visible = topics.filter(|of| access.may(Operation::Describe, ResourceType::Topic, &of[0].topic));
    let topic = |of: &[rota_txn::Participant]| {
        TopicData::default()
            .with_topic(StrBytes::from_string(of[0].topic.clone()).into())
            .with_partitions(of.iter().map(|participant| participant.partition).collect())
    };
    TransactionState::default()
        .with_transactional_id(id)
        .with_transaction_state(StrBytes::from_static_str(description.state.name()))
        .with_transaction_timeout_ms(description.timeout_ms)
        .with_transaction_start_time_ms(description.start_ms)
        .with_producer_id(ProducerId(description.producer.id))
        .with_producer_epoch(description.producer.epoch)
        .with_topics(visible.map(topic).collect())
}
