//! `DescribeClientQuotas`: there are none. Kafka's `kafka-configs` asks for them when it describes users.

use kafka_protocol::{
    messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse},
    protocol::StrBytes,
};
use rota_security::acl::Operation;

use super::{
    acls::NOT_ALLOWED,
    context::{Context, Outcome},
};

/// Answers that no quota is set.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let _asked: DescribeClientQuotasRequest = context.decode()?;
    let answer = DescribeClientQuotasResponse::default();
    let answer = if context.access().allows_on_cluster(Operation::DescribeConfigs) {
        answer.with_error_message(Some(StrBytes::default())).with_entries(Some(Vec::new()))
    } else {
        // As Kafka has it, without a message.
        answer.with_error_code(NOT_ALLOWED.0).with_error_message(None).with_entries(None)
    };
    Ok(context.answer(&answer))
}
