//! The last heartbeat of a client that left a receipt.

use rota_core::Receipt;
use rota_wire::repeated::RepeatedRequest;

/// A heartbeat of a consumer group that changed nothing, with its answer.
#[derive(Debug)]
pub struct Repeat {
    /// The request and its answer.
    pub request: RepeatedRequest,
    /// What the coordinator needs to handle it again.
    pub receipt: Receipt,
    /// The partition of its group.
    pub partition: u32,
    /// Its group.
    pub group_id: String,
}
