//! `AddOffsetsToTxn` (docs/transactions.md §3.2).

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{CONSUMER_OFFSETS, Participant, Producer, Request, TransactionVersion};

use super::context::{Context, Outcome};
use crate::node::transaction_replies::{Form, TransactionReply};

/// Adds the group's partition of `__consumer_offsets` to the transaction. The group need not exist.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: AddOffsetsToTxnRequest = context.decode()?;
    let access = context.access();
    let refused = if !access.allows(Operation::Write, ResourceType::TransactionalId, &request.transactional_id) {
        Some(ErrorCode::TransactionalIdAuthorizationFailed)
    } else if !access.allows(Operation::Read, ResourceType::Group, &request.group_id) {
        Some(ErrorCode::GroupAuthorizationFailed)
    } else {
        None
    };
    if let Some(error) = refused {
        return Ok(context.answer(&AddOffsetsToTxnResponse::default().with_error_code(error.code())));
    }
    let partition = context.node.partition_of(&request.group_id);
    let added = Request::AddParticipants {
        transactional_id: request.transactional_id.to_string(),
        producer: Producer { id: request.producer_id.0, epoch: request.producer_epoch },
        participants: vec![Participant::new(CONSUMER_OFFSETS, partition as i32)],
        version: TransactionVersion::V1,
    };
    let reply = TransactionReply { reply_to: context.reply_to(), form: Form::AddOffsets };
    context.client().park();
    context.node.submit_transaction(added, reply);
    Ok(context.handled())
}
