//! The fast path of heartbeats: reads one from its frame and writes its answer (docs/protocol.md §7).
//!
//! [`RequestHeader`](crate::RequestHeader) and [`read_heartbeat`](crate::requests::read_heartbeat) read the same
//! heartbeat from the same frame. This reader checks less: ids stay bytes, because ids that equal a member's are text.
//! It leaves uncommon and malformed frames to those two.

use bytes::{BufMut, BytesMut};
use rota_core::{
    error::ErrorCode,
    request::{BatchedHeartbeat, Sender},
};

use crate::{limits::ID_PREFIX_BYTES_MAX, versions};

/// The last version, the only one in the compact layout.
const FLEXIBLE: i16 = 4;
/// The first version with an instance id.
const WITH_INSTANCE_ID: i16 = 3;
/// The longest string of the compact layout with a length of one byte.
const SHORT: u8 = 0x7f;

/// A decoded heartbeat frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatFrame<'a> {
    /// The request version.
    pub version: i16,
    /// The id that the answer repeats.
    pub correlation_id: i32,
    /// The group id; any bytes.
    pub group_id: &'a [u8],
    /// The generation that the client knows.
    pub generation: i32,
    /// The member id; any bytes.
    pub member_id: &'a [u8],
}

impl<'a> HeartbeatFrame<'a> {
    /// Decodes the heartbeat in `frame`, without the length field. Returns `None` for another request, or one that
    /// needs the general reader.
    pub fn read(frame: &'a [u8]) -> Option<HeartbeatFrame<'a>> {
        let (&[key0, key1, version0, version1, c0, c1, c2, c3], rest) = frame.split_first_chunk()?;
        let version = i16::from_be_bytes([version0, version1]);
        if i16::from_be_bytes([key0, key1]) != versions::HEARTBEAT || !(0..=FLEXIBLE).contains(&version) {
            return None;
        }
        let (client_id, rest) = string(rest)?;
        if client_id.len() > ID_PREFIX_BYTES_MAX || !client_id.is_ascii() {
            return None;
        }
        let (ids, rest) = if version < FLEXIBLE { ids(rest, string) } else { ids(nothing(rest)?, short_string) }?;
        let ends_well = match version {
            ..WITH_INSTANCE_ID => true,
            // A null instance id.
            WITH_INSTANCE_ID => rest.starts_with(&[0xff, 0xff]),
            // A null instance id and no tagged fields.
            _ => rest.starts_with(&[0, 0]),
        };
        let Ids { group_id, generation, member_id } = ids;
        let correlation_id = i32::from_be_bytes([c0, c1, c2, c3]);
        ends_well.then_some(HeartbeatFrame { version, correlation_id, group_id, generation, member_id })
    }

    /// Converts to the coordinator's type.
    pub fn heartbeat(&self) -> BatchedHeartbeat<'a> {
        let sender = Sender::Ids { group_id: self.group_id, member_id: self.member_id, instance_id: None };
        BatchedHeartbeat { sender, generation: self.generation }
    }

    /// Writes the whole answer, with length and header.
    pub fn answer(&self, out: &mut BytesMut, error: ErrorCode) {
        let id = self.correlation_id.to_be_bytes();
        let [high, low] = error.code().to_be_bytes();
        match self.version {
            0 => out.put_slice(&[0, 0, 0, 6, id[0], id[1], id[2], id[3], high, low]),
            // With four bytes of throttle time.
            ..FLEXIBLE => out.put_slice(&[0, 0, 0, 10, id[0], id[1], id[2], id[3], 0, 0, 0, 0, high, low]),
            // Also with empty tagged fields in the header and at the end.
            _ => out.put_slice(&[0, 0, 0, 12, id[0], id[1], id[2], id[3], 0, 0, 0, 0, 0, high, low, 0]),
        }
    }
}

/// A field's bytes, and the bytes after it.
type Cut<'a> = (&'a [u8], &'a [u8]);

/// Reads a string of the old layout that is not null.
fn string(bytes: &[u8]) -> Option<Cut<'_>> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(i16::from_be_bytes(*length)).ok()?)
}

/// Reads a short string of the compact layout that is not null.
fn short_string(bytes: &[u8]) -> Option<Cut<'_>> {
    let (&above, rest) = bytes.split_first()?;
    if above > SHORT {
        return None;
    }
    rest.split_at_checked(usize::from(above).checked_sub(1)?)
}

/// Reads an empty section of tagged fields.
fn nothing(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split_first().filter(|(count, _)| **count == 0).map(|(_, rest)| rest)
}

/// The three fields that every version has.
struct Ids<'a> {
    group_id: &'a [u8],
    generation: i32,
    member_id: &'a [u8],
}

/// Reads these fields, and returns the bytes after them.
fn ids<'a>(bytes: &'a [u8], string: impl Fn(&'a [u8]) -> Option<Cut<'a>>) -> Option<(Ids<'a>, &'a [u8])> {
    let (group_id, rest) = string(bytes)?;
    let (generation, rest) = rest.split_first_chunk()?;
    let (member_id, rest) = string(rest)?;
    Some((Ids { group_id, generation: i32::from_be_bytes(*generation), member_id }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestHeader, Writer, answers, requests::read_heartbeat, write};

    /// A frame of each version that both readers accept.
    fn frames() -> impl Iterator<Item = (i16, Vec<u8>)> {
        (0..=FLEXIBLE).map(|version| {
            let mut frame = BytesMut::new();
            frame.put_i16(versions::HEARTBEAT);
            frame.put_i16(version);
            frame.put_i32(0x0102_0304);
            Writer::new(&mut frame, false).str("client");
            let mut body = Writer::new(&mut frame, version >= FLEXIBLE);
            body.no_tags();
            body.str("group");
            body.i32(7);
            body.str("client-member");
            if version >= WITH_INSTANCE_ID {
                body.nullable_str(None);
            }
            body.no_tags();
            (version, frame.to_vec())
        })
    }

    /// Decodes with the general reader; `None` also if there is an instance id.
    fn general_reader(frame: &[u8]) -> Option<HeartbeatFrame<'_>> {
        let (header, body) = RequestHeader::read(frame).ok()?;
        let (version, correlation_id) = (header.version, header.correlation_id);
        if header.api.key != versions::HEARTBEAT {
            return None;
        }
        let request = read_heartbeat(version, body).ok().filter(|request| request.instance_id.is_none())?;
        let (group_id, member_id) = (request.group_id?.as_bytes(), request.member_id.as_bytes());
        Some(HeartbeatFrame { version, correlation_id, group_id, generation: request.generation, member_id })
    }

    #[test]
    fn a_common_heartbeat_is_read_in_every_version() {
        for (version, frame) in frames() {
            let (group_id, member_id) = (&b"group"[..], &b"client-member"[..]);
            let expected = HeartbeatFrame { version, correlation_id: 0x0102_0304, group_id, generation: 7, member_id };
            let sender = Sender::Ids { group_id, member_id, instance_id: None };
            assert_eq!(expected.heartbeat(), BatchedHeartbeat { sender, generation: 7 });
            assert_eq!((HeartbeatFrame::read(&frame), general_reader(&frame)), (Some(expected), Some(expected)));
        }
    }

    #[test]
    fn the_general_reader_reads_the_same_except_that_it_refuses_ids_that_are_not_text() {
        let mut read = 0;
        for (_, frame) in frames() {
            for at in 0..frame.len() {
                assert!(HeartbeatFrame::read(&frame[..at]).is_none(), "{at} of {frame:?}");
                for byte in 0..=u8::MAX {
                    let mut changed = frame.clone();
                    changed[at] = byte;
                    let Some(short) = HeartbeatFrame::read(&changed) else { continue };
                    read += 1;
                    let is_text = [short.group_id, short.member_id].iter().all(|id| id.is_ascii());
                    if is_text {
                        assert_eq!(general_reader(&changed), Some(short), "{changed:?}");
                    }
                }
            }
        }
        assert!(read > 1_000, "{read}");
    }

    #[test]
    fn uncommon_frames_are_left_to_the_general_reader() {
        let (_, mut with_instance) = frames().nth(3).unwrap();
        with_instance.truncate(with_instance.len() - 2);
        with_instance.extend(b"\0\x01i");
        let (_, mut tagged) = frames().nth(4).unwrap();
        tagged.pop();
        tagged.extend([1, 0, 0]);
        for frame in [with_instance, tagged] {
            assert_eq!(HeartbeatFrame::read(&frame), None);
            let (header, body) = RequestHeader::read(&frame).unwrap();
            assert!(read_heartbeat(header.version, body).is_ok());
        }
    }

    #[test]
    fn the_answer_equals_that_of_the_general_writer() {
        for (version, frame) in frames() {
            for error in [ErrorCode::None, ErrorCode::RebalanceInProgress, ErrorCode::UnknownServerError] {
                let (mut short, mut long) = (BytesMut::new(), BytesMut::new());
                HeartbeatFrame::read(&frame).unwrap().answer(&mut short, error);
                let flexible = version >= FLEXIBLE;
                let start = write::begin_answer(&mut long, 0x0102_0304, flexible);
                answers::heartbeat(&mut Writer::new(&mut long, flexible), version, error);
                write::end_answer(&mut long, start);
                assert_eq!(short, long);
            }
        }
    }
}
