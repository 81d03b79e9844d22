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
        let result = match answer {
            Answer::OffsetCommit(commit) => commit.topics.iter().flat_map(|topic| &topic.partitions).next(),
            _ => None,
        };
        // A node that does not own the partition names none.
        match result.map_or(ErrorCode::NotCoordinator, |(_, error)| *error) {
            ErrorCode::None => (self.0)(Ok(())),
            error => (self.0)(Err(error)),
        }
    }
}
