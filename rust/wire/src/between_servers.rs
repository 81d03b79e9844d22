//! The requests that the servers of a cluster send each other, and their answers: `WriteTxnMarkers` v2,
//! `AddPartitionsToTxn` v5, and before them `SaslHandshake` v1 and `SaslAuthenticate` v1.

use bytes::BytesMut;

use crate::{
    read::{Reader, WireError},
    sasl::Authenticated,
    versions::{ADD_PARTITIONS_TO_TXN, SASL_AUTHENTICATE, SASL_HANDSHAKE, WRITE_TXN_MARKERS},
    write::Writer,
};

/// The client id of servers.
const CLIENT_ID: &str = "rota";
/// Markers and admissions use the compact layout.
const FLEXIBLE: bool = true;
/// The requests of SASL do not.
const SASL_FLEXIBLE: bool = false;

/// A marker for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentMarker<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch from now on.
    pub producer_epoch: i16,
    /// The epoch of the transaction coordinator.
    pub coordinator_epoch: i32,
    /// Whether the transaction is committed.
    pub is_commit: bool,
    /// The protocol of the transaction.
    pub transaction_version: i8,
}

/// Asks the coordinator of a transactional id about partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAdmission<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// Whether the partitions are only looked for, and not added.
    pub is_verify_only: bool,
    /// Topic and partition.
    pub partitions: Vec<(&'a str, i32)>,
}

/// Writes a frame with several markers.
pub fn markers(correlation_id: i32, markers: &[SentMarker<'_>]) -> BytesMut {
    frame(WRITE_TXN_MARKERS, 2, FLEXIBLE, correlation_id, |out| {
        out.count(markers.len());
        for marker in markers {
            out.i64(marker.producer_id);
            out.i16(marker.producer_epoch);
            out.bool(marker.is_commit);
            out.count(1);
            topic(out, marker.topic, &[marker.partition]);
            out.i32(marker.coordinator_epoch);
            out.i8(marker.transaction_version);
            out.no_tags();
        }
    })
}

/// Writes a frame with several admissions.
pub fn admissions(correlation_id: i32, admissions: &[SentAdmission<'_>]) -> BytesMut {
    frame(ADD_PARTITIONS_TO_TXN, 5, FLEXIBLE, correlation_id, |out| {
        out.count(admissions.len());
        for admission in admissions {
            out.str(admission.transactional_id);
            out.i64(admission.producer_id);
            out.i16(admission.producer_epoch);
            out.bool(admission.is_verify_only);
            out.count(admission.partitions.len());
            for (name, partition) in &admission.partitions {
                topic(out, name, &[*partition]);
            }
            out.no_tags();
        }
    })
}

fn topic(out: &mut Writer<'_>, name: &str, partitions: &[i32]) {
    out.str(name);
    out.count(partitions.len());
    for partition in partitions {
        out.i32(*partition);
    }
    out.no_tags();
}

/// Writes a frame that chooses a mechanism.
pub fn sasl_handshake(correlation_id: i32, mechanism: &str) -> BytesMut {
    frame(SASL_HANDSHAKE, 1, SASL_FLEXIBLE, correlation_id, |out| out.str(mechanism))
}

/// Writes a frame with a message of the mechanism.
pub fn sasl_authenticate(correlation_id: i32, message: &[u8]) -> BytesMut {
    frame(SASL_AUTHENTICATE, 1, SASL_FLEXIBLE, correlation_id, |out| out.bytes(message))
}

fn frame(key: i16, version: i16, flexible: bool, correlation_id: i32, body: impl FnOnce(&mut Writer<'_>)) -> BytesMut {
    let mut bytes = BytesMut::from(&[0; 4][..]);
    // The client id of the header is never compact.
    let mut header = Writer::new(&mut bytes, false);
    header.i16(key);
    header.i16(version);
    header.i32(correlation_id);
    header.str(CLIENT_ID);
    let mut out = Writer::new(&mut bytes, flexible);
    out.no_tags();
    body(&mut out);
    out.no_tags();
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Reads the error codes of markers, in the order of the request. The answer begins after its length.
pub fn marker_codes(answer: &[u8], correlation_id: i32) -> Result<Vec<i16>, WireError> {
    let mut reader = body(answer, FLEXIBLE, correlation_id)?;
    let mut codes = Vec::new();
    for _ in 0..reader.count("markers")? {
        reader.i64("producer_id")?;
        read_topics(&mut reader, &mut codes)?;
        reader.skip_tags()?;
    }
    reader.skip_tags()?;
    Ok(codes)
}

/// Reads the error codes of the partitions of all admissions, in the order of the request. `Err` in `Ok`: the error of the
/// whole request.
pub fn admission_codes(answer: &[u8], correlation_id: i32) -> Result<Result<Vec<i16>, i16>, WireError> {
    let mut reader = body(answer, FLEXIBLE, correlation_id)?;
    let mut codes = Vec::new();
    reader.i32("throttle_time_ms")?;
    let error = reader.i16("error_code")?;
    if error != 0 {
        return Ok(Err(error));
    }
    for _ in 0..reader.count("results_by_transaction")? {
        reader.str("transactional_id")?;
        read_topics(&mut reader, &mut codes)?;
        reader.skip_tags()?;
    }
    Ok(Ok(codes))
}

/// Reads the error of a handshake, and the mechanisms of the other server.
pub fn handshake_answer(answer: &[u8], correlation_id: i32) -> Result<(i16, Vec<&str>), WireError> {
    let mut reader = body(answer, SASL_FLEXIBLE, correlation_id)?;
    let error = reader.i16("error_code")?;
    let mechanisms = (0..reader.count("mechanisms")?).map(|_| reader.str("mechanism")).collect::<Result<_, _>>()?;
    Ok((error, mechanisms))
}

/// Reads an answer of the mechanism. The lifetime of the session is not read: its end closes the connection.
pub fn authenticate_answer(answer: &[u8], correlation_id: i32) -> Result<Authenticated<'_>, WireError> {
    let mut reader = body(answer, SASL_FLEXIBLE, correlation_id)?;
    let error = reader.i16("error_code")?;
    let message = reader.nullable_str("error_message")?.unwrap_or_default();
    Ok(Authenticated { error, message, bytes: reader.bytes("auth_bytes")?, lifetime_ms: 0 })
}

fn body(answer: &[u8], flexible: bool, correlation_id: i32) -> Result<Reader<'_>, WireError> {
    let mut reader = Reader::new(answer, flexible);
    let found = reader.i32("correlation_id")?;
    reader.skip_tags()?;
    if found == correlation_id { Ok(reader) } else { Err(WireError::Undecodable) }
}

fn read_topics(reader: &mut Reader<'_>, codes: &mut Vec<i16>) -> Result<(), WireError> {
    for _ in 0..reader.count("topics")? {
        reader.str("name")?;
        for _ in 0..reader.count("partitions")? {
            reader.i32("partition_index")?;
            codes.push(reader.i16("error_code")?);
            reader.skip_tags()?;
        }
        reader.skip_tags()?;
    }
    Ok(())
}
