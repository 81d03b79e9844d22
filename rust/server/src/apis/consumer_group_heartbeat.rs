//! `ConsumerGroupHeartbeat`.

use kafka_protocol::{
    messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse},
    protocol::StrBytes,
};

use super::context::{Context, Outcome};

const UNSUPPORTED_VERSION: i16 = 35;

const NO_CONSUMER_PROTOCOL: &str = "this server has the classic group protocol only: set group.protocol=classic";

/// A Kafka whose newer consumer protocol is switched off answers the same.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let _refused: ConsumerGroupHeartbeatRequest = context.decode()?;
    let response = ConsumerGroupHeartbeatResponse::default()
        .with_error_code(UNSUPPORTED_VERSION)
        .with_error_message(Some(StrBytes::from_static_str(NO_CONSUMER_PROTOCOL)));
    Ok(context.answer(&response))
}
