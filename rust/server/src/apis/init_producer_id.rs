//! `InitProducerId`, for idempotent and transactional producers.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{Producer, Request};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::node::transaction_replies::{Form, TransactionReply};

/// Assigns a unique producer id, or the producer of a transactional id (docs/transactions.md §3.1).
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: InitProducerIdRequest = context.decode()?;
    if request.transactional_id.is_some() && context.node.serves_transactions() {
        return Ok(initialize_transactional(context, &request));
    }
    let access = context.access();
    let may_write = access.may_somewhere(Operation::Write, ResourceType::Topic);
    if request.transactional_id.is_none() && !may_write && !access.allows_on_cluster(Operation::IdempotentWrite) {
        return Ok(refuse(context, ErrorCode::ClusterAuthorizationFailed));
    }
    let response = context.node.topics_mut().0.init_producer_id(&request);
    Ok(context.answer(&response))
}

fn refuse(context: &Context<'_>, error: ErrorCode) -> Handled {
    let refused = InitProducerIdResponse::default().with_error_code(error.code());
    context.answer(&refused.with_producer_id(ProducerId(-1)).with_producer_epoch(-1))
}

fn initialize_transactional(context: &mut Context<'_>, request: &InitProducerIdRequest) -> Handled {
    let transactional_id = request.transactional_id.as_ref().map(|id| id.to_string()).unwrap_or_default();
    if !context.access().allows(Operation::Write, ResourceType::TransactionalId, &transactional_id) {
        return refuse(context, ErrorCode::TransactionalIdAuthorizationFailed);
    }
    let Some(spare_producer_id) = context.node.topics().new_producer_id() else {
        return refuse(context, ErrorCode::CoordinatorLoadInProgress);
    };
    let initialized = Request::InitProducerId {
        transactional_id,
        timeout_ms: request.transaction_timeout_ms,
        own: Producer { id: request.producer_id.0, epoch: request.producer_epoch },
        spare_producer_id,
    };
    let reply = TransactionReply { reply_to: context.reply_to(), form: Form::InitProducerId };
    context.client().park();
    context.node.submit_transaction(initialized, reply);
    context.handled()
}
