//! The requests of the load, in versions that every current broker serves (docs/protocol.md §17.3), and the decoding of
//! their answers.

use crate::BenchError;

const JOIN_GROUP: i16 = 11;
const HEARTBEAT: i16 = 12;
const LEAVE_GROUP: i16 = 13;
const SYNC_GROUP: i16 = 14;
const FIND_COORDINATOR: i16 = 10;
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
const CLIENT_ID: &str = "rota-bench";
const REBALANCE_TIMEOUT_MS: i32 = 60_000;
/// Position of the correlation id in a frame.
pub const CORRELATION_AT: usize = 8;

fn text(out: &mut Vec<u8>, value: &str) {
    out.extend((value.len() as i16).to_be_bytes());
    out.extend(value.as_bytes());
}

/// Writes a text of at most 126 bytes.
fn compact_text(out: &mut Vec<u8>, value: &str) {
    out.push(value.len() as u8 + 1);
    out.extend(value.as_bytes());
}

fn frame(api: i16, version: i16, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(api.to_be_bytes());
    out.extend(version.to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    text(&mut out, CLIENT_ID);
    body(&mut out);
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Returns a `FindCoordinator` v1 of a group.
pub fn find_coordinator(group: &str) -> Vec<u8> {
    frame(FIND_COORDINATOR, 1, |out| {
        text(out, group);
        out.push(0);
    })
}

/// Returns a `JoinGroup` v3, the last version without the round for a member id.
pub fn join(group: &str, session_timeout_ms: i32, member: &str) -> Vec<u8> {
    frame(JOIN_GROUP, 3, |out| {
        text(out, group);
        out.extend(session_timeout_ms.to_be_bytes());
        out.extend(REBALANCE_TIMEOUT_MS.to_be_bytes());
        text(out, member);
        text(out, "consumer");
        out.extend(1_i32.to_be_bytes());
        text(out, "range");
        // An empty subscription: 0 topics, null user data.
        let subscription = [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        out.extend((subscription.len() as i32).to_be_bytes());
        out.extend(subscription);
    })
}

/// Returns a `SyncGroup` v2 without assignments, which is allowed for a leader, too.
pub fn sync(group: &str, generation: i32, member: &str) -> Vec<u8> {
    frame(SYNC_GROUP, 2, |out| {
        text(out, group);
        out.extend(generation.to_be_bytes());
        text(out, member);
        out.extend(0_i32.to_be_bytes());
    })
}

/// Returns a `Heartbeat` v2.
pub fn heartbeat(group: &str, generation: i32, member: &str) -> Vec<u8> {
    frame(HEARTBEAT, 2, |out| {
        text(out, group);
        out.extend(generation.to_be_bytes());
        text(out, member);
    })
}

/// Returns a `ConsumerGroupHeartbeat` v1 with a member epoch and nothing else.
pub fn consumer_heartbeat(group: &str, member: &str, epoch: i32) -> Vec<u8> {
    frame(CONSUMER_GROUP_HEARTBEAT, 1, |out| {
        // The header has no tagged fields.
        out.push(0);
        compact_text(out, group);
        compact_text(out, member);
        out.extend(epoch.to_be_bytes());
        // No instance id, no rack.
        out.extend([0, 0]);
        out.extend((-1_i32).to_be_bytes());
        // No names, pattern, assignor, partitions; no tagged fields.
        out.extend([0, 0, 0, 0, 0]);
    })
}

/// Returns a `LeaveGroup` v2.
pub fn leave(group: &str, member: &str) -> Vec<u8> {
    frame(LEAVE_GROUP, 2, |out| {
        text(out, group);
        text(out, member);
    })
}

/// An answer without its length and correlation id.
pub struct Answer<'a>(pub &'a [u8]);

impl<'a> Answer<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BenchError> {
        let (head, tail) =
            self.0.split_at_checked(count).ok_or_else(|| BenchError("an answer is too short".to_owned()))?;
        self.0 = tail;
        Ok(head)
    }

    /// Reads an INT32.
    pub fn i32(&mut self) -> Result<i32, BenchError> {
        Ok(self.take(4)?.iter().fold(0, |value, byte| value << 8 | i32::from(*byte)))
    }

    /// Reads an INT16.
    pub fn i16(&mut self) -> Result<i16, BenchError> {
        Ok(self.take(2)?.iter().fold(0, |value, byte| value << 8 | i16::from(*byte)))
    }

    /// Reads a string; null is empty.
    pub fn text(&mut self) -> Result<String, BenchError> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| BenchError("an answer is not UTF-8".to_owned()))
    }
}
