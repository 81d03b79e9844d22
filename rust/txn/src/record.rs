//! The records of `__transaction_state`: Kafka's `TransactionLogKey` v0, and `TransactionLogValue` v0 and v1 (§8).

use std::collections::BTreeSet;

use crate::{
    marker::{Participant, TransactionVersion},
    reader::{Reader, put_compact_text, put_text, put_varint},
    record_error::RecordError,
    state::State,
    transaction::{NO_EPOCH, NO_PRODUCER_ID, Producer, Transaction},
};

const KEY_VERSION: i16 = 0;
const TAG_PREVIOUS_PRODUCER_ID: u32 = 0;
const TAG_NEXT_PRODUCER_ID: u32 = 1;
const TAG_CLIENT_VERSION: u32 = 2;
const SECOND_PROTOCOL: i16 = 2;

/// The version of values to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueVersion {
    /// Without tagged fields: at level 0.
    V0,
    /// With tagged fields: at level 1 and 2.
    V1,
}

/// Encodes the key of an id, which is at most 32,767 bytes long, as on the wire.
pub fn key(transactional_id: &str) -> Vec<u8> {
    let mut bytes = KEY_VERSION.to_be_bytes().to_vec();
    put_text(&mut bytes, transactional_id);
    bytes
}

/// Decodes a key. Returns `None` for a key of another version, which a newer Kafka may have written.
pub fn read_key(bytes: &[u8]) -> Result<Option<&str>, RecordError> {
    let mut reader = Reader::new(bytes);
    if reader.i16("key version")? != KEY_VERSION {
        return Ok(None);
    }
    let id = reader.text("transactional id")?;
    reader.end("key")?;
    Ok(Some(id))
}

/// Encodes a value.
pub fn value(transaction: &Transaction, version: ValueVersion) -> Vec<u8> {
    let mut bytes = (version as i16).to_be_bytes().to_vec();
    bytes.extend(transaction.producer.id.to_be_bytes());
    bytes.extend(transaction.producer.epoch.to_be_bytes());
    bytes.extend(transaction.timeout_ms.to_be_bytes());
    bytes.extend(transaction.state.id().to_be_bytes());
    put_participants(&mut bytes, transaction, version);
    bytes.extend(transaction.updated_ms.to_be_bytes());
    bytes.extend(transaction.start_ms.to_be_bytes());
    if version == ValueVersion::V1 {
        put_tags(&mut bytes, transaction);
    }
    bytes
}

fn put_tags(bytes: &mut Vec<u8>, transaction: &Transaction) {
    let ids = [
        (TAG_PREVIOUS_PRODUCER_ID, transaction.previous_producer_id),
        (TAG_NEXT_PRODUCER_ID, transaction.next_producer_id),
    ];
    let mut tags: Vec<(u32, Vec<u8>)> = ids
        .into_iter()
        .filter(|(_, id)| *id != NO_PRODUCER_ID)
        .map(|(tag, id)| (tag, id.to_be_bytes().to_vec()))
        .collect();
    if transaction.version == TransactionVersion::V2 {
        tags.push((TAG_CLIENT_VERSION, SECOND_PROTOCOL.to_be_bytes().to_vec()));
    }
    put_varint(bytes, tags.len() as u32);
    for (tag, content) in tags {
        put_varint(bytes, tag);
        put_varint(bytes, content.len() as u32);
        bytes.extend(content);
    }
}

fn put_participants(bytes: &mut Vec<u8>, transaction: &Transaction, version: ValueVersion) {
    // The set is sorted, so that a topic's partitions are side by side.
    let participants: Vec<&Participant> = transaction.participants.iter().collect();
    let topics: Vec<&[&Participant]> = participants.chunk_by(|a, b| a.topic == b.topic).collect();
    let is_null = transaction.state == State::Empty;
    match version {
        ValueVersion::V0 if is_null => bytes.extend((-1_i32).to_be_bytes()),
        ValueVersion::V0 => bytes.extend((topics.len() as i32).to_be_bytes()),
        ValueVersion::V1 if is_null => put_varint(bytes, 0),
        ValueVersion::V1 => put_varint(bytes, topics.len() as u32 + 1),
    }
    for topic in topics {
        match version {
            ValueVersion::V0 => {
                put_text(bytes, &topic[0].topic);
                bytes.extend((topic.len() as i32).to_be_bytes());
            }
            ValueVersion::V1 => {
                put_compact_text(bytes, &topic[0].topic);
                put_varint(bytes, topic.len() as u32 + 1);
            }
        }
        bytes.extend(topic.iter().flat_map(|participant| participant.partition.to_be_bytes()));
        if version == ValueVersion::V1 {
            put_varint(bytes, 0);
        }
    }
}

/// Decodes a value of version 0 or 1.
pub fn read_value(bytes: &[u8]) -> Result<Transaction, RecordError> {
    let mut reader = Reader::new(bytes);
    let version = match reader.i16("value version")? {
        0 => ValueVersion::V0,
        1 => ValueVersion::V1,
        _ => return Err(RecordError { field: "value version", problem: "is neither 0 nor 1" }),
    };
    let producer = Producer { id: reader.i64("producer id")?, epoch: reader.i16("producer epoch")? };
    let timeout_ms = reader.i32("timeout")?;
    let state = State::from_id(reader.i8("status")?).filter(|state| *state != State::Dead);
    let state = state.ok_or(RecordError { field: "status", problem: "is no state" })?;
    let participants = read_participants(&mut reader, version)?;
    let (updated_ms, start_ms) = (reader.i64("last update")?, reader.i64("start")?);
    let mut transaction = Transaction {
        state,
        producer,
        previous_producer_id: NO_PRODUCER_ID,
        next_producer_id: NO_PRODUCER_ID,
        last_epoch: NO_EPOCH,
        version: TransactionVersion::V1,
        timeout_ms,
        participants,
        start_ms,
        updated_ms,
    };
    if version == ValueVersion::V1 {
        read_tags(&mut reader, &mut transaction)?;
    }
    reader.end("value")?;
    Ok(transaction)
}

fn read_participants(reader: &mut Reader<'_>, version: ValueVersion) -> Result<BTreeSet<Participant>, RecordError> {
    let mut participants = BTreeSet::new();
    let is_compact = version == ValueVersion::V1;
    let count = |reader: &mut Reader<'_>, field| {
        if is_compact { reader.compact_count(field) } else { reader.count(field) }
    };
    for _ in 0..count(reader, "partitions")? {
        let topic = if is_compact { reader.compact_text("topic")? } else { reader.text("topic")? };
        for _ in 0..count(reader, "partition ids")? {
            participants.insert(Participant::new(topic, reader.i32("partition id")?));
        }
        if is_compact {
            reader.skip_tags()?;
        }
    }
    Ok(participants)
}

fn read_tags(reader: &mut Reader<'_>, transaction: &mut Transaction) -> Result<(), RecordError> {
    for _ in 0..reader.varint("tagged fields")? {
        let (tag, content) = reader.tag()?;
        let mut content = Reader::new(content);
        match tag {
            TAG_PREVIOUS_PRODUCER_ID => transaction.previous_producer_id = content.i64("previous producer id")?,
            TAG_NEXT_PRODUCER_ID => transaction.next_producer_id = content.i64("next producer id")?,
            TAG_CLIENT_VERSION if content.i16("client version")? >= SECOND_PROTOCOL => {
                transaction.version = TransactionVersion::V2;
            }
            _ => {}
        }
    }
    Ok(())
}
