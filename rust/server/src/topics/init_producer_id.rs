//! `InitProducerId`, for idempotent producers.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use rota_core::error::ErrorCode;

use super::{TRANSACTIONS_REFUSED, Topics};

impl Topics {
    /// Returns a producer id that no other producer has; `None`: the engine of the cluster has not given more yet.
    pub fn new_producer_id(&self) -> Option<i64> {
        self.owner.new_producer_id()
    }

    /// Handles versions 0–5. Returns a new id with epoch 0; refuses transactional ids with [`TRANSACTIONS_REFUSED`].
    pub fn init_producer_id(&mut self, request: &InitProducerIdRequest) -> InitProducerIdResponse {
        let half_known = (request.producer_id.0 == -1) != (request.producer_epoch == -1);
        let refused = match &request.transactional_id {
            Some(id) if id.is_empty() => Some(ErrorCode::InvalidRequest),
            _ if half_known => Some(ErrorCode::InvalidRequest),
            Some(_) => Some(TRANSACTIONS_REFUSED),
            None => None,
        };
        // Clients try again after this error.
        let exhausted = ErrorCode::CoordinatorLoadInProgress;
        let producer_id = refused.map_or_else(|| self.owner.new_producer_id().ok_or(exhausted), Err);
        match producer_id {
            Ok(id) => InitProducerIdResponse::default().with_producer_id(ProducerId(id)).with_producer_epoch(0),
            Err(error) => InitProducerIdResponse::default()
                .with_error_code(error as i16)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1),
        }
    }
}
