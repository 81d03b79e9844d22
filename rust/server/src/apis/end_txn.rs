//! `EndTxn` (docs/transactions.md §3.3).

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{Producer, Request, TransactionVersion};

use super::context::{Context, Outcome};
use crate::node::transaction_replies::{Form, TransactionReply};

/// The first version of the second protocol, whose answer has the producer's next epoch.
const SECOND_PROTOCOL_SINCE: i16 = 5;

/// Commits or aborts the transaction.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: EndTxnRequest = context.decode()?;
    let is_second_protocol = context.version() >= SECOND_PROTOCOL_SINCE;
    if !context.access().allows(Operation::Write, ResourceType::TransactionalId, &request.transactional_id) {
        let error = ErrorCode::TransactionalIdAuthorizationFailed.code();
        return Ok(context.answer(&EndTxnResponse::default().with_error_code(error)));
    }
    let Some(spare_producer_id) = context.node.topics().new_producer_id() else {
        let error = ErrorCode::CoordinatorLoadInProgress.code();
        return Ok(context.answer(&EndTxnResponse::default().with_error_code(error)));
    };
    let ended = Request::EndTransaction {
        transactional_id: request.transactional_id.to_string(),
        producer: Producer { id: request.producer_id.0, epoch: request.producer_epoch },
        is_commit: request.committed,
        version: if is_second_protocol { TransactionVersion::V2 } else { TransactionVersion::V1 },
        spare_producer_id,
    };
    let reply = TransactionReply { reply_to: context.reply_to(), form: Form::EndTxn };
    context.client().park();
    context.node.submit_transaction(ended, reply);
    Ok(context.handled())
}
