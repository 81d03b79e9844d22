//! The destination of the result of a transaction's marker.

use rota_core::error::ErrorCode;

/// Receives the result of a marker, on the thread of the partition's leader. It must not block.
pub type MarkerDone = Box<dyn FnOnce(Result<(), ErrorCode>) + Send>;
