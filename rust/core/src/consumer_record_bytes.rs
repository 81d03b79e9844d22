//! The bytes of the records of consumer groups, as Kafka 4.4 writes them (docs/protocol.md §14).

use std::sync::Arc;

use crate::{
    record_bytes::{Reader, put_i16, put_i32, put_i64, put_string, put_varint},
    records::{
        ClassicMemberValue, ConsumerRecord, CurrentValue, EpochValue, EpochedIndexes, PatternValue, RecordError,
        SubscriptionValue, TargetEpochValue, TopicIndexes,
    },
};

/// Key types.
const EPOCH: i16 = 3;
const METADATA: i16 = 4;
const MEMBER: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;
const PATTERN: i16 = 16;

/// The only version of the values.
const VERSION: i16 = 0;
/// The only tag that any of the values or their elements has.
const TAG: u32 = 0;

impl ConsumerRecord {
    /// The key type, and the second part of the key if there is one.
    pub fn key(&self) -> (i16, Option<&Arc<str>>) {
        match self {
            ConsumerRecord::Epoch(_) => (EPOCH, None),
            ConsumerRecord::Metadata(_) => (METADATA, None),
            ConsumerRecord::Member(id, _) => (MEMBER, Some(id)),
            ConsumerRecord::TargetEpoch(_) => (TARGET_EPOCH, None),
            ConsumerRecord::Target(id, _) => (TARGET, Some(id)),
            ConsumerRecord::Current(id, _) => (CURRENT, Some(id)),
            ConsumerRecord::Pattern(pattern, _) => (PATTERN, Some(pattern)),
        }
    }

    /// The bytes of the key.
    pub(crate) fn write_key(&self, bytes: &mut Vec<u8>, group_id: &str) {
        let (key_type, second) = self.key();
        put_i16(bytes, key_type);
        put_string(bytes, group_id);
        if let Some(second) = second {
            put_string(bytes, second);
        }
    }

    /// The bytes of the value; `None` is a tombstone.
    pub(crate) fn value_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            ConsumerRecord::Metadata(value) => return value.as_deref().map(Into::into),
            ConsumerRecord::Epoch(value) => write_epoch(&mut bytes, value.as_ref()?),
            ConsumerRecord::Member(_, value) => write_subscription(&mut bytes, value.as_deref()?),
            ConsumerRecord::TargetEpoch(value) => write_target_epoch(&mut bytes, value.as_ref()?),
            ConsumerRecord::Target(_, value) => write_target(&mut bytes, value.as_ref()?),
            ConsumerRecord::Current(_, value) => write_current(&mut bytes, value.as_deref()?),
            ConsumerRecord::Pattern(_, value) => write_pattern(&mut bytes, value.as_deref()?),
        }
        Some(bytes)
    }

    /// The record behind a key type, and its group. `None`: the key type is that of another record.
    pub(crate) fn read(
        key_type: i16,
        key: &mut Reader<'_>,
        value: Option<&[u8]>,
    ) -> Result<Option<(Arc<str>, ConsumerRecord)>, RecordError> {
        if !matches!(key_type, EPOCH..=CURRENT | PATTERN) {
            return Ok(None);
        }
        let group_id = key.string("group")?;
        let mut second = || key.string(if key_type == PATTERN { "pattern" } else { "member id" });
        let mut reader = value.map(|bytes| Reader { bytes });
        let reader = &mut reader;
        let record = match key_type {
            EPOCH => ConsumerRecord::Epoch(read_value(reader, "group epoch", read_epoch)?),
            METADATA => ConsumerRecord::Metadata(value.map(Box::from)),
            MEMBER => {
                let value = read_value(reader, "group member", read_subscription)?;
                ConsumerRecord::Member(second()?, value.map(Box::new))
            }
            TARGET_EPOCH => ConsumerRecord::TargetEpoch(read_value(reader, "target epoch", read_target_epoch)?),
            TARGET => ConsumerRecord::Target(second()?, read_value(reader, "target assignment", read_target)?),
            CURRENT => {
                let value = read_value(reader, "current assignment", read_current)?;
                ConsumerRecord::Current(second()?, value.map(Box::new))
            }
            _ => {
                let value = read_value(reader, "topic pattern", read_pattern)?;
                ConsumerRecord::Pattern(second()?, value.map(Box::new))
            }
        };
        Ok(Some((group_id, record)))
    }
}

fn put_id(bytes: &mut Vec<u8>, id: u128) {
    bytes.extend_from_slice(&id.to_be_bytes());
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    put_varint(bytes, length as u32 + 1);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_length(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn put_text_or_null(bytes: &mut Vec<u8>, text: Option<&Arc<str>>) {
    match text {
        Some(text) => put_text(bytes, text),
        None => put_varint(bytes, 0),
    }
}

fn put_tag(bytes: &mut Vec<u8>, data: &[u8]) {
    put_varint(bytes, 1);
    put_varint(bytes, TAG);
    put_varint(bytes, data.len() as u32);
    bytes.extend_from_slice(data);
}

fn put_i64_tag(bytes: &mut Vec<u8>, value: i64) {
    if value == 0 {
        put_varint(bytes, 0);
    } else {
        put_tag(bytes, &value.to_be_bytes());
    }
}

fn put_indexes(bytes: &mut Vec<u8>, indexes: &[i32]) {
    put_length(bytes, indexes.len());
    for index in indexes {
        put_i32(bytes, *index);
    }
}

fn write_epoch(bytes: &mut Vec<u8>, value: &EpochValue) {
    put_i16(bytes, VERSION);
    put_i32(bytes, value.epoch);
    put_i64_tag(bytes, value.metadata_hash);
}

fn write_target_epoch(bytes: &mut Vec<u8>, value: &TargetEpochValue) {
    put_i16(bytes, VERSION);
    put_i32(bytes, value.epoch);
    put_i64_tag(bytes, value.timestamp_ms);
}

fn write_subscription(bytes: &mut Vec<u8>, value: &SubscriptionValue) {
    put_i16(bytes, VERSION);
    put_text_or_null(bytes, value.instance_id.as_ref());
    put_text_or_null(bytes, value.rack_id.as_ref());
    put_text(bytes, &value.client_id);
    put_text(bytes, &value.client_host);
    put_length(bytes, value.topic_names.len());
    for name in &value.topic_names {
        put_text(bytes, name);
    }
    put_text_or_null(bytes, value.topic_regex.as_ref());
    put_i32(bytes, value.rebalance_timeout_ms);
    put_text_or_null(bytes, value.server_assignor.as_ref());
    // A byte says whether the struct is there; Kafka writes the tag in either case.
    let mut classic = vec![u8::from(value.classic.is_some())];
    if let Some(value) = &value.classic {
        put_i32(&mut classic, value.session_timeout_ms);
        put_length(&mut classic, value.protocols.len());
        for (name, metadata) in &value.protocols {
            put_text(&mut classic, name);
            put_length(&mut classic, metadata.len());
            classic.extend_from_slice(metadata);
            put_varint(&mut classic, 0);
        }
        put_varint(&mut classic, 0);
    }
    put_tag(bytes, &classic);
}

fn write_target(bytes: &mut Vec<u8>, topics: &[TopicIndexes]) {
    put_i16(bytes, VERSION);
    put_length(bytes, topics.len());
    for topic in topics {
        put_id(bytes, topic.topic_id);
        put_indexes(bytes, &topic.partitions);
        put_varint(bytes, 0);
    }
    put_varint(bytes, 0);
}

fn write_current(bytes: &mut Vec<u8>, value: &CurrentValue) {
    put_i16(bytes, VERSION);
    put_i32(bytes, value.epoch);
    put_i32(bytes, value.previous_epoch);
    bytes.push(value.state as u8);
    for topics in [&value.assigned, &value.pending_revocation] {
        put_length(bytes, topics.len());
        for topic in topics {
            put_id(bytes, topic.topic_id);
            put_indexes(bytes, &topic.partitions);
            if topic.epochs.is_empty() {
                put_varint(bytes, 0);
            } else {
                let mut epochs = Vec::new();
                put_indexes(&mut epochs, &topic.epochs);
                put_tag(bytes, &epochs);
            }
        }
    }
    put_varint(bytes, 0);
}

fn write_pattern(bytes: &mut Vec<u8>, value: &PatternValue) {
    put_i16(bytes, VERSION);
    put_length(bytes, value.topics.len());
    for topic in &value.topics {
        put_text(bytes, topic);
    }
    put_i64(bytes, value.version);
    put_i64(bytes, value.timestamp_ms);
    put_varint(bytes, 0);
}

/// Reads a value behind its version; `None` is a tombstone.
fn read_value<T>(
    reader: &mut Option<Reader<'_>>,
    record: &'static str,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, RecordError>,
) -> Result<Option<T>, RecordError> {
    let Some(reader) = reader else { return Ok(None) };
    match reader.i16("version")? {
        VERSION => read(reader).map(Some),
        version => Err(RecordError::UnsupportedVersion { record, version }),
    }
}

fn read_id(reader: &mut Reader<'_>) -> Result<u128, RecordError> {
    reader.array("topic id").map(u128::from_be_bytes)
}

/// The length of an array, none of whose elements is smaller than a byte.
fn read_length(reader: &mut Reader<'_>, field: &'static str) -> Result<usize, RecordError> {
    let length = reader.varint(field)?.checked_sub(1).ok_or(RecordError::Malformed { field })? as usize;
    if length > reader.bytes.len() { Err(RecordError::Truncated { field }) } else { Ok(length) }
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    field: &'static str,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let length = read_length(reader, field)?;
    (0..length).map(|_| read(reader)).collect()
}

fn read_i64_tag(reader: &mut Reader<'_>, field: &'static str) -> Result<i64, RecordError> {
    let mut value = 0;
    reader.each_tag(|tag, data| {
        if tag == TAG {
            value = i64::from_be_bytes(data.try_into().map_err(|_| RecordError::Malformed { field })?);
        }
        Ok(())
    })?;
    Ok(value)
}

fn read_indexes(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<i32>, RecordError> {
    read_list(reader, field, |reader| reader.i32(field))
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<EpochValue, RecordError> {
    Ok(EpochValue { epoch: reader.i32("group epoch")?, metadata_hash: read_i64_tag(reader, "metadata hash")? })
}

fn read_target_epoch(reader: &mut Reader<'_>) -> Result<TargetEpochValue, RecordError> {
    let epoch = reader.i32("target epoch")?;
    Ok(TargetEpochValue { epoch, timestamp_ms: read_i64_tag(reader, "target timestamp")? })
}

fn read_subscription(reader: &mut Reader<'_>) -> Result<SubscriptionValue, RecordError> {
    let instance_id = reader.either_nullable_string(true, "instance id")?;
    let rack_id = reader.either_nullable_string(true, "rack id")?;
    let client_id = reader.either_string(true, "client id")?;
    let client_host = reader.either_string(true, "client host")?;
    let mut topic_names: Vec<Arc<str>> =
        read_list(reader, "topic names", |reader| reader.either_string(true, "topic name"))?;
    // They are looked up by search. Kafka writes them in this order, too.
    topic_names.sort_unstable();
    topic_names.dedup();
    let topic_regex = reader.either_nullable_string(true, "topic pattern")?;
    let rebalance_timeout_ms = reader.i32("rebalance timeout")?;
    let server_assignor = reader.either_nullable_string(true, "server assignor")?;
    let mut classic = None;
    reader.each_tag(|tag, data| {
        if tag == TAG {
            classic = read_classic(&mut Reader { bytes: data })?;
        }
        Ok(())
    })?;
    Ok(SubscriptionValue {
        instance_id,
        rack_id,
        client_id,
        client_host,
        topic_names,
        topic_regex,
        rebalance_timeout_ms,
        server_assignor,
        classic,
    })
}

fn read_classic(reader: &mut Reader<'_>) -> Result<Option<ClassicMemberValue>, RecordError> {
    match reader.array("classic member")? {
        [0] => return Ok(None),
        [1] => {}
        _ => return Err(RecordError::Malformed { field: "classic member" }),
    }
    let session_timeout_ms = reader.i32("session timeout")?;
    let protocols = read_list(reader, "protocols", |reader| {
        let protocol = (reader.either_string(true, "protocol")?, reader.either_bytes(true, "metadata")?);
        reader.skip_tags()?;
        Ok(protocol)
    })?;
    reader.skip_tags()?;
    Ok(Some(ClassicMemberValue { session_timeout_ms, protocols }))
}

fn read_target(reader: &mut Reader<'_>) -> Result<Vec<TopicIndexes>, RecordError> {
    let topics = read_list(reader, "topics", |reader| {
        let topic = TopicIndexes { topic_id: read_id(reader)?, partitions: read_indexes(reader, "partitions")? };
        reader.skip_tags()?;
        Ok(topic)
    })?;
    reader.skip_tags()?;
    Ok(topics)
}

fn read_current(reader: &mut Reader<'_>) -> Result<CurrentValue, RecordError> {
    let (epoch, previous_epoch) = (reader.i32("member epoch")?, reader.i32("previous epoch")?);
    let [state] = reader.array("member state")?;
    let assigned = read_list(reader, "assigned partitions", read_epoched)?;
    let pending_revocation = read_list(reader, "partitions to revoke", read_epoched)?;
    reader.skip_tags()?;
    Ok(CurrentValue { epoch, previous_epoch, state: state as i8, assigned, pending_revocation })
}

fn read_pattern(reader: &mut Reader<'_>) -> Result<PatternValue, RecordError> {
    let mut topics = read_list(reader, "topic names", |reader| reader.either_string(true, "topic name"))?;
    topics.sort_unstable();
    let version = reader.i64("metadata version")?;
    let timestamp_ms = reader.i64("resolution timestamp")?;
    reader.skip_tags()?;
    Ok(PatternValue { topics, version, timestamp_ms })
}

fn read_epoched(reader: &mut Reader<'_>) -> Result<EpochedIndexes, RecordError> {
    let (topic_id, partitions) = (read_id(reader)?, read_indexes(reader, "partitions")?);
    let mut epochs = Vec::new();
    reader.each_tag(|tag, data| {
        if tag == TAG {
            epochs = read_indexes(&mut Reader { bytes: data }, "assignment epochs")?;
        }
        Ok(())
    })?;
    if !epochs.is_empty() && epochs.len() != partitions.len() {
        return Err(RecordError::Malformed { field: "assignment epochs" });
    }
    Ok(EpochedIndexes { topic_id, partitions, epochs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Record;

    const ONE: u128 = 0x4562_01a8_f0cb_4641_b126_eec8_1ce0_02d7;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    fn subscription(classic: Option<ClassicMemberValue>) -> SubscriptionValue {
        SubscriptionValue {
            instance_id: None,
            rack_id: None,
            client_id: if classic.is_some() { "A" } else { "c" }.into(),
            client_host: "/127.0.0.1".into(),
            topic_names: vec!["one".into()],
            topic_regex: Some("".into()),
            rebalance_timeout_ms: 60_000,
            server_assignor: None,
            classic,
        }
    }

    fn current(partitions: &[i32]) -> CurrentValue {
        let assigned = if partitions.is_empty() {
            Vec::new()
        } else {
            vec![EpochedIndexes { topic_id: ONE, partitions: partitions.to_vec(), epochs: vec![2; partitions.len()] }]
        };
        CurrentValue { epoch: 2, previous_epoch: 0, state: 0, assigned, pending_revocation: Vec::new() }
    }

    fn pattern() -> PatternValue {
        PatternValue { topics: vec!["one".into()], version: 0x8ab, timestamp_ms: 0x01a2_0441_c5ec }
    }

    /// Written by Kafka 4.4.0.
    #[test]
    fn records_are_the_bytes_that_kafka_writes() {
        let metadata = hex("000100000001\
                            00036f6e65ffffffff00000000");
        let classic =
            ClassicMemberValue { session_timeout_ms: 30_000, protocols: vec![("range".into(), metadata[..].into())] };
        let m: Arc<str> = "m".into();
        let cases = [
            (
                ConsumerRecord::Member(Arc::clone(&m), Some(Box::new(subscription(None)))),
                "0005000367343100016d",
                "0000000002630b2f3132372e302e302e3102046f6e65010000ea600001000100",
            ),
            (
                ConsumerRecord::Member(Arc::clone(&m), Some(Box::new(subscription(Some(classic))))),
                "0005000367343100016d",
                "0000000002410b2f3132372e302e302e3102046f6e65010000ea60000100220100007530020672616e67651400010000000100036f6e\
                 65ffffffff000000000000",
            ),
            (
                ConsumerRecord::Epoch(Some(EpochValue { epoch: 2, metadata_hash: 0xcd67_8b47_627e_f587_u64 as i64 })),
                "00030003673431",
                "000000000002010008cd678b47627ef587",
            ),
            (
                ConsumerRecord::Epoch(Some(EpochValue { epoch: 2, metadata_hash: 0 })),
                "00030003673431",
                "00000000000200",
            ),
            (
                ConsumerRecord::Target(Arc::clone(&m), Some(vec![TopicIndexes { topic_id: ONE, partitions: vec![0] }])),
                "0007000367343100016d",
                "000002456201a8f0cb4641b126eec81ce002d702000000000000",
            ),
            (
                ConsumerRecord::TargetEpoch(Some(TargetEpochValue { epoch: 2, timestamp_ms: 0x01a2_0441_c588 })),
                "00060003673431",
                "000000000002010008000001a20441c588",
            ),
            (
                ConsumerRecord::Current(Arc::clone(&m), Some(Box::new(current(&[0])))),
                "0008000367343100016d",
                "000000000002000000000002456201a8f0cb4641b126eec81ce002d7020000000001000502000000020100",
            ),
            (
                ConsumerRecord::Current(Arc::clone(&m), Some(Box::new(current(&[])))),
                "0008000367343100016d",
                "0000000000020000000000010100",
            ),
            (
                ConsumerRecord::Pattern("on.".into(), Some(Box::new(pattern()))),
                "0010000367343100036f6e2e",
                "000002046f6e6500000000000008ab000001a20441c5ec00",
            ),
            (ConsumerRecord::Metadata(None), "00040003673431", ""),
        ];
        for (about, key, value) in cases {
            let record = Record::Consumer { group_id: "g41".into(), about };
            let (key, value) = (hex(key), hex(&value.replace(' ', "")));
            let value = (!value.is_empty()).then_some(value);
            assert_eq!(record.key_bytes(), key);
            assert_eq!(record.value_bytes(), value);
            assert_eq!(Record::decode(&key, value.as_deref()), Ok(record));
        }
    }

    #[test]
    fn a_record_without_assignment_epochs_is_read() {
        let value = hex("000000000002000000000002456201a8f0cb4641b126eec81ce002d70200000000000100");
        let record = Record::decode(&hex("0008000367343100016d"), Some(&value)).unwrap();
        let Record::Consumer { about: ConsumerRecord::Current(_, Some(current)), .. } = record else { panic!() };
        assert_eq!(current.assigned, [EpochedIndexes { topic_id: ONE, partitions: vec![0], epochs: vec![] }]);
    }

    #[test]
    fn a_key_that_is_cut_says_what_is_missing() {
        for (key_type, field) in
            [("0005", "member id"), ("0007", "member id"), ("0008", "member id"), ("0010", "pattern")]
        {
            let cut = Record::decode(&hex(&format!("{key_type}0003673431")), None);
            assert_eq!(cut, Err(RecordError::Truncated { field }), "{key_type}");
        }
    }

    /// A list may be the last of its bytes, as the assignment epochs are.
    #[test]
    fn a_topic_without_partitions_is_read_with_its_epochs() {
        let value = hex("000000000002000000000002456201a8f0cb4641b126eec81ce002d701010001010100");
        let record = Record::decode(&hex("0008000367343100016d"), Some(&value)).unwrap();
        let Record::Consumer { about: ConsumerRecord::Current(_, Some(current)), .. } = record else { panic!() };
        assert_eq!(current.assigned, [EpochedIndexes { topic_id: ONE, partitions: vec![], epochs: vec![] }]);
    }

    #[test]
    fn every_cut_of_a_value_is_an_error_and_not_a_panic() {
        let record = Record::Consumer {
            group_id: "g".into(),
            about: ConsumerRecord::Current("m".into(), Some(Box::new(current(&[0, 1])))),
        };
        let (key, value) = (record.key_bytes(), record.value_bytes().unwrap());
        for length in 0..value.len() {
            assert!(Record::decode(&key, Some(&value[..length])).is_err(), "{length}");
        }
    }
}
