//! The destination of the result of a transaction's marker.

use std::fmt;

use rota_core::{error::ErrorCode, response::Answer};

/// Receives the result of a marker, on the thread of the partition's leader. It must not block.
pub type MarkerDone = Box<dyn FnOnce(Result<(), ErrorCode>) + Send>;

/// Receives a coordinator's answer to a marker.
pub struct MarkerReply(pub MarkerDone);

impl fmt::Debug for MarkerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkerReply")
    }
}

impl MarkerReply {
    /// Reports the result.
    pub fn write(self, answer: &Answer<'_>) {
        (self.0)(match answer {
            Answer::WriteTxnMarker(ErrorCode::None) => Ok(()),
            Answer::WriteTxnMarker(error) => Err(*error),
            _ => Err(ErrorCode::UnknownServerError),
        });
    }
}
