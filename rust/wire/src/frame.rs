//! Frames: a 32-bit length and that many bytes (docs/protocol.md §17.2).

use std::fmt;

/// Bytes in front of a frame that hold its length.
pub const LENGTH_BYTES: usize = 4;

/// A length that no frame may have. The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// As announced.
    pub length: i32,
    /// `socket.request.max.bytes`.
    pub max_bytes: usize,
}

impl fmt::Display for FrameError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a frame of {} bytes, expected 1 to {}", self.length, self.max_bytes)
    }
}

impl std::error::Error for FrameError {}

/// The length of the frame that `buffered` begins with, without its length field; `None` while fewer than four
/// bytes are there. A frame of exactly `max_bytes` is legal.
pub fn frame_length(buffered: &[u8], max_bytes: usize) -> Result<Option<usize>, FrameError> {
    let Some(head) = buffered.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let announced = i32::from_be_bytes(*head);
    match usize::try_from(announced) {
        Ok(length) if length > 0 && length <= max_bytes => Ok(Some(length)),
        _ => Err(FrameError { length: announced, max_bytes }),
    }
}
