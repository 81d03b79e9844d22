//! `InitProducerId`, for idempotent producers.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};

use super::context::{Context, Outcome};

/// Assigns a unique producer id.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: InitProducerIdRequest = context.decode()?;
    let version = context.version();
    let access = context.access();
    let may_write = access.may_somewhere(Operation::Write, ResourceType::Topic);
    if request.transactional_id.is_none() && !may_write && !access.allows_on_cluster(Operation::IdempotentWrite) {
        let refused = InitProducerIdResponse::default()
            .with_error_code(ErrorCode::ClusterAuthorizationFailed.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        return Ok(context.answer(&refused));
    }
    let response = context.node.topics_mut().0.init_producer_id(&request, version);
    Ok(context.answer(&response))
}
