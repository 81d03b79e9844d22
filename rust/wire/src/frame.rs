//! Frames: a 32-bit length followed by that many bytes (docs/protocol.md §17.2).

use std::fmt;

/// Size of the length field in bytes.
pub const LENGTH_BYTES: usize = 4;

/// An illegal frame length. The server closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The length in the frame.
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

/// Returns the length of the frame at the start of `buffered`, without its length field; `None` with fewer than four
/// bytes. A frame of exactly `max_bytes` is legal.
pub fn frame_length(buffered: &[u8], max_bytes: usize) -> Result<Option<usize>, FrameError> {
    let Some(head) = buffered.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let announced = i32::from_be_bytes(*head);
    match usize::try_from(announced) {
        Ok(length) if length > 0 && length <= max_bytes => Ok(Some(length)),
        _ => Err(FrameError { length: announced, max_bytes }),
    }
}
