//! The destination of a result that no client waits for: of a transaction's marker, or of a commit by a test.

use std::fmt;

use rota_core::{
    error::ErrorCode,
    response::{Answer, CommittedTopic},
};

/// Receives the result, on the thread of the partition's leader. It must not block.
pub type Done = Box<dyn FnOnce(Result<(), ErrorCode>) + Send>;

/// Receives a coordinator's answer to a marker or a commit.
pub struct CallerReply(pub Done);

impl fmt::Debug for CallerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerReply")
    }
}

impl CallerReply {
    /// Reports the result.
    pub fn write(self, answer: &Answer<'_>) {
        (self.0)(match answer {
            Answer::WriteTxnMarker(ErrorCode::None) => Ok(()),
            Answer::WriteTxnMarker(error) => Err(*error),
            Answer::OffsetCommit(commit) => first_error(commit.topics).map_or(Ok(()), Err),
            _ => Err(ErrorCode::UnknownServerError),
        });
    }
}

fn first_error(topics: &[CommittedTopic]) -> Option<ErrorCode> {
    topics.iter().flat_map(|topic| &topic.partitions).map(|(_, error)| *error).find(|error| *error != ErrorCode::None)
}
