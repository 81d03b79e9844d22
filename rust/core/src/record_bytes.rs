//! Encodes and decodes records: writes the versions of Kafka 4.4, and reads every version that it reads
//! (docs/protocol.md §14).

use std::sync::Arc;

use crate::records::{ConsumerRecord, GroupValue, MemberValue, OffsetValue, Record, RecordError};

/// Key types. 0 is an old alias of 1.
const KEY_OFFSET_OLD: i16 = 0;
const KEY_OFFSET: i16 = 1;
const KEY_GROUP: i16 = 2;

/// Versions written: offsets in version 4, or 1 with an expiry; groups in version 3.
const OFFSET_VERSION: i16 = 4;
const OFFSET_VERSION_WITH_EXPIRY: i16 = 1;
const GROUP_VERSION: i16 = 3;

/// An offset record that borrows its names from the record's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRecord<'a> {
    /// The group id.
    pub group_id: &'a str,
    /// The topic name.
    pub topic: &'a str,
    /// The partition index.
    pub partition: i32,
    /// The offset; `None` is a tombstone.
    pub value: Option<OffsetValue>,
}

impl<'a> OffsetRecord<'a> {
    /// Decodes an offset record. Returns `Ok(None)` for a record of another type.
    pub fn read(key: &'a [u8], value: Option<&[u8]>) -> Result<Option<OffsetRecord<'a>>, RecordError> {
        let mut reader = Reader { bytes: key };
        if !matches!(reader.i16("key type")?, KEY_OFFSET_OLD | KEY_OFFSET) {
            return Ok(None);
        }
        let (group_id, topic) = (reader.text("group")?, reader.text("topic")?);
        let partition = reader.i32("partition")?;
        Ok(Some(OffsetRecord { group_id, topic, partition, value: value.map(decode_offset).transpose()? }))
    }
}

/// The tag of the topic id in version 4 of an offset value.
const TAG_TOPIC_ID: u32 = 0;

impl Record {
    /// Returns whether the record deletes an offset or a group.
    pub fn is_tombstone(&self) -> bool {
        matches!(self, Record::Offset { value: None, .. } | Record::Group { value: None, .. })
    }

    /// Encodes the key. Ids and names are at most 32,767 bytes long, as on the wire.
    pub fn key_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Record::Offset { group_id, topic, partition, .. } => {
                put_i16(&mut bytes, KEY_OFFSET);
                put_string(&mut bytes, group_id);
                put_string(&mut bytes, topic);
                put_i32(&mut bytes, *partition);
            }
            Record::Group { group_id, .. } => {
                put_i16(&mut bytes, KEY_GROUP);
                put_string(&mut bytes, group_id);
            }
            Record::Consumer { group_id, about } => about.write_key(&mut bytes, group_id),
            Record::Unknown { key, .. } => bytes.extend_from_slice(key),
        }
        bytes
    }

    /// Encodes the value; `None` is a tombstone.
    pub fn value_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Record::Offset { value, .. } => value.as_ref().map(offset_bytes),
            Record::Group { value, .. } => value.as_ref().map(group_bytes),
            Record::Consumer { about, .. } => about.value_bytes(),
            Record::Unknown { value, .. } => value.as_ref().map(|value| value.to_vec()),
        }
    }

    /// Decodes a record. An unknown key type becomes `Record::Unknown`; an unknown value version is an error.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Record, RecordError> {
        if let Some(OffsetRecord { group_id, topic, partition, value }) = OffsetRecord::read(key, value)? {
            return Ok(Record::Offset { group_id: group_id.into(), topic: topic.into(), partition, value });
        }
        let mut reader = Reader { bytes: key };
        match reader.i16("key type")? {
            KEY_GROUP => {
                Ok(Record::Group { group_id: reader.string("group")?, value: value.map(decode_group).transpose()? })
            }
            key_type => match ConsumerRecord::read(key_type, &mut reader, value)? {
                Some((group_id, about)) => Ok(Record::Consumer { group_id, about }),
                None => Ok(Record::Unknown { key: key.into(), value: value.map(Box::from) }),
            },
        }
    }
}

fn offset_bytes(value: &OffsetValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(expire_timestamp_ms) = value.expire_timestamp_ms {
        put_i16(&mut bytes, OFFSET_VERSION_WITH_EXPIRY);
        put_i64(&mut bytes, value.offset);
        put_string(&mut bytes, &value.metadata);
        put_i64(&mut bytes, value.commit_timestamp_ms);
        put_i64(&mut bytes, expire_timestamp_ms);
        return bytes;
    }
    put_i16(&mut bytes, OFFSET_VERSION);
    put_i64(&mut bytes, value.offset);
    put_i32(&mut bytes, value.leader_epoch);
    put_varint(&mut bytes, value.metadata.len() as u32 + 1);
    bytes.extend_from_slice(value.metadata.as_bytes());
    put_i64(&mut bytes, value.commit_timestamp_ms);
    if value.topic_id == 0 {
        put_varint(&mut bytes, 0);
    } else {
        let topic_id = value.topic_id.to_be_bytes();
        put_varint(&mut bytes, 1);
        put_varint(&mut bytes, TAG_TOPIC_ID);
        put_varint(&mut bytes, topic_id.len() as u32);
        bytes.extend_from_slice(&topic_id);
    }
    bytes
}

fn group_bytes(value: &GroupValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_i16(&mut bytes, GROUP_VERSION);
    put_string(&mut bytes, &value.protocol_type);
    put_i32(&mut bytes, value.generation);
    put_nullable_string(&mut bytes, value.protocol_name.as_deref());
    put_nullable_string(&mut bytes, value.leader.as_deref());
    put_i64(&mut bytes, value.state_timestamp_ms);
    put_i32(&mut bytes, value.members.len() as i32);
    for member in &value.members {
        put_string(&mut bytes, &member.member_id);
        put_nullable_string(&mut bytes, member.instance_id.as_deref());
        put_string(&mut bytes, &member.client_id);
        put_string(&mut bytes, &member.client_host);
        put_i32(&mut bytes, member.rebalance_timeout_ms);
        put_i32(&mut bytes, member.session_timeout_ms);
        put_bytes(&mut bytes, &member.subscription);
        put_bytes(&mut bytes, &member.assignment);
    }
    bytes
}

fn decode_offset(bytes: &[u8]) -> Result<OffsetValue, RecordError> {
    let mut reader = Reader { bytes };
    let version = reader.i16("offset value version")?;
    if !(0..=OFFSET_VERSION).contains(&version) {
        return Err(RecordError::UnsupportedVersion { record: "offset", version });
    }
    let flexible = version >= 4;
    let offset = reader.i64("offset")?;
    let leader_epoch = if version >= 3 { reader.i32("leader epoch")? } else { -1 };
    let metadata = if flexible { reader.compact_string("metadata")? } else { reader.string("metadata")? };
    let commit_timestamp_ms = reader.i64("commit timestamp")?;
    let expire_timestamp_ms = if version == 1 { Some(reader.i64("expire timestamp")?) } else { None };
    let topic_id = if flexible { reader.topic_id_tag()? } else { 0 };
    let expire_timestamp_ms = expire_timestamp_ms.filter(|timestamp_ms| *timestamp_ms != -1);
    Ok(OffsetValue { offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id })
}

fn decode_group(bytes: &[u8]) -> Result<GroupValue, RecordError> {
    let mut reader = Reader { bytes };
    let version = reader.i16("group value version")?;
    if !(0..=4).contains(&version) {
        return Err(RecordError::UnsupportedVersion { record: "group", version });
    }
    let flexible = version >= 4;
    let protocol_type = reader.either_string(flexible, "protocol type")?;
    let generation = reader.i32("generation")?;
    let protocol_name = reader.either_nullable_string(flexible, "protocol")?;
    let leader = reader.either_nullable_string(flexible, "leader")?;
    let state_timestamp_ms = if version >= 2 { reader.i64("state timestamp")? } else { -1 };
    let count = if flexible { i64::from(reader.varint("members")?) - 1 } else { i64::from(reader.i32("members")?) };
    if count < 0 {
        return Err(RecordError::Malformed { field: "members" });
    }
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(decode_member(&mut reader, version, flexible)?);
    }
    Ok(GroupValue { protocol_type, generation, protocol_name, leader, state_timestamp_ms, members })
}

fn decode_member(reader: &mut Reader<'_>, version: i16, flexible: bool) -> Result<MemberValue, RecordError> {
    let member_id = reader.either_string(flexible, "member id")?;
    let instance_id = if version >= 3 { reader.either_nullable_string(flexible, "instance id")? } else { None };
    let client_id = reader.either_string(flexible, "client id")?;
    let client_host = reader.either_string(flexible, "client host")?;
    let rebalance_timeout_ms = if version >= 1 { reader.i32("rebalance timeout")? } else { -1 };
    let session_timeout_ms = reader.i32("session timeout")?;
    let subscription = reader.either_bytes(flexible, "subscription")?;
    let assignment = reader.either_bytes(flexible, "assignment")?;
    if flexible {
        reader.skip_tags()?;
    }
    Ok(MemberValue {
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    })
}

pub(crate) fn put_i16(bytes: &mut Vec<u8>, value: i16) {
    bytes.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_i32(bytes: &mut Vec<u8>, value: i32) {
    bytes.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_i64(bytes: &mut Vec<u8>, value: i64) {
    bytes.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_string(bytes: &mut Vec<u8>, text: &str) {
    put_i16(bytes, text.len() as i16);
    bytes.extend_from_slice(text.as_bytes());
}

fn put_nullable_string(bytes: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_string(bytes, text),
        None => put_i16(bytes, -1),
    }
}

fn put_bytes(bytes: &mut Vec<u8>, data: &[u8]) {
    put_i32(bytes, data.len() as i32);
    bytes.extend_from_slice(data);
}

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads fields from the front. Every length is checked against the remaining bytes before anything is allocated.
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(RecordError::Truncated { field })?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(RecordError::Truncated { field })?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, RecordError> {
        self.array(field).map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, RecordError> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, RecordError> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub(crate) fn varint(&mut self, field: &'static str) -> Result<u32, RecordError> {
        let mut value: u32 = 0;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array(field)?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0xf {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RecordError::Malformed { field })
    }

    /// Reads data of a length; returns `None` for length -1, which is null.
    fn data(&mut self, length: i64, field: &'static str) -> Result<Option<&'a [u8]>, RecordError> {
        match length {
            -1 => Ok(None),
            0.. => {
                let length = usize::try_from(length).map_err(|_| RecordError::Malformed { field })?;
                self.take(length, field).map(Some)
            }
            _ => Err(RecordError::Malformed { field }),
        }
    }

    fn nullable_text(&mut self, flexible: bool, field: &'static str) -> Result<Option<&'a str>, RecordError> {
        let length = if flexible { i64::from(self.varint(field)?) - 1 } else { i64::from(self.i16(field)?) };
        let data = self.data(length, field)?;
        data.map(|data| std::str::from_utf8(data).map_err(|_| RecordError::Malformed { field })).transpose()
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        self.nullable_text(false, field)?.ok_or(RecordError::Malformed { field })
    }

    /// An empty string takes no memory.
    pub(crate) fn either_nullable_string(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<Arc<str>>, RecordError> {
        let text = self.nullable_text(flexible, field)?;
        Ok(text.map(|text| if text.is_empty() { Arc::default() } else { text.into() }))
    }

    pub(crate) fn either_string(&mut self, flexible: bool, field: &'static str) -> Result<Arc<str>, RecordError> {
        self.either_nullable_string(flexible, field)?.ok_or(RecordError::Malformed { field })
    }

    pub(crate) fn string(&mut self, field: &'static str) -> Result<Arc<str>, RecordError> {
        self.either_string(false, field)
    }

    fn compact_string(&mut self, field: &'static str) -> Result<Arc<str>, RecordError> {
        self.either_string(true, field)
    }

    pub(crate) fn either_bytes(&mut self, flexible: bool, field: &'static str) -> Result<Arc<[u8]>, RecordError> {
        let length = if flexible { i64::from(self.varint(field)?) - 1 } else { i64::from(self.i32(field)?) };
        self.data(length, field)?.map(Arc::from).ok_or(RecordError::Malformed { field })
    }

    /// Reads the tag section of an offset value: returns the topic id if present, and skips unknown tags.
    fn topic_id_tag(&mut self) -> Result<u128, RecordError> {
        let mut topic_id = 0;
        self.each_tag(|tag, data| {
            if tag == TAG_TOPIC_ID {
                let id = data.try_into().map_err(|_| RecordError::Malformed { field: "topic id" })?;
                topic_id = u128::from_be_bytes(id);
            }
            Ok(())
        })?;
        Ok(topic_id)
    }

    pub(crate) fn skip_tags(&mut self) -> Result<(), RecordError> {
        self.each_tag(|_, _| Ok(()))
    }

    pub(crate) fn each_tag(
        &mut self,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        for _ in 0..self.varint("tags")? {
            let tag = self.varint("tag")?;
            let length = self.varint("tag length")? as usize;
            visit(tag, self.take(length, "tag data")?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    fn offset(value: OffsetValue) -> Record {
        Record::Offset { group_id: "g".into(), topic: "t".into(), partition: 0, value: Some(value) }
    }

    fn plain() -> OffsetValue {
        OffsetValue {
            offset: 100,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 1_700_000_000_000,
            expire_timestamp_ms: None,
            topic_id: 0,
        }
    }

    fn group(protocol_type: &str, generation: i32, members: Vec<MemberValue>) -> Record {
        let named = !members.is_empty();
        Record::Group {
            group_id: "g".into(),
            value: Some(GroupValue {
                protocol_type: protocol_type.into(),
                generation,
                protocol_name: named.then(|| "range".into()),
                leader: named.then(|| "m-1".into()),
                state_timestamp_ms: 1_700_000_000_000,
                members,
            }),
        }
    }

    fn member() -> MemberValue {
        MemberValue {
            member_id: "m-1".into(),
            instance_id: None,
            client_id: "c".into(),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout_ms: 300_000,
            session_timeout_ms: 45_000,
            subscription: Arc::new([0, 0]),
            assignment: Arc::new([]),
        }
    }

    /// Key and value bytes that a Kafka 4.4 broker wrote for these records.
    fn written_by_kafka() -> Vec<(Record, &'static str, &'static str)> {
        let topic_id = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
        let offset_key = "000100016700017400000000";
        let group_key = "0002000167";
        vec![
            (
                offset(OffsetValue { topic_id, ..plain() }),
                offset_key,
                "00040000000000000064ffffffff010000018bcfe5680001001000112233445566778899aabbccddeeff",
            ),
            (offset(plain()), offset_key, "00040000000000000064ffffffff010000018bcfe5680000"),
            (
                offset(OffsetValue { offset: 5, leader_epoch: 7, metadata: "m".into(), topic_id, ..plain() }),
                offset_key,
                "0004000000000000000500000007026d0000018bcfe5680001001000112233445566778899aabbccddeeff",
            ),
            (
                offset(OffsetValue { expire_timestamp_ms: Some(1_700_000_001_234), ..plain() }),
                offset_key,
                "0001000000000000006400000000018bcfe568000000018bcfe56cd2",
            ),
            (group("", 0, vec![]), group_key, "0003000000000000ffffffff0000018bcfe5680000000000"),
            (
                group("consumer", 1, vec![member()]),
                group_key,
                concat!(
                    "00030008636f6e73756d657200000001000572616e676500036d2d310000018bcfe568000000000100036d2d31ffff",
                    "000163000a2f3132372e302e302e31000493e00000afc800000002000000000000"
                ),
            ),
        ]
    }

    #[test]
    fn records_have_the_bytes_that_kafka_writes_and_reads() {
        for (record, key, value) in written_by_kafka() {
            assert_eq!(record.key_bytes(), hex(key));
            assert_eq!(record.value_bytes(), Some(hex(value)));
            assert_eq!(Record::decode(&hex(key), Some(&hex(value))), Ok(record));
        }
    }

    /// The length and one more is a varint: of one byte up to 126, of three from 16,383 on.
    #[test]
    fn metadata_of_any_length_is_read_back() {
        for (length, size) in [(126, 1), (127, 2), (128, 2), (16_382, 2), (16_383, 3), (32_767, 3)] {
            let record = offset(OffsetValue { metadata: "m".repeat(length).into(), ..plain() });
            let bytes = record.value_bytes().expect("no tombstone");
            assert_eq!(bytes.len(), 23 + size + length);
            assert_eq!(Record::decode(&record.key_bytes(), Some(&bytes)), Ok(record), "{length}");
        }
    }

    #[test]
    fn old_offset_values_are_readable() {
        let key = hex("000000016700017400000000");
        for (value, epoch) in [
            ("0000000000000000006400000000018bcfe56800", -1),
            ("0002000000000000006400000000018bcfe56800", -1),
            ("000300000000000000640000000900000000018bcfe56800", 9),
        ] {
            let expected = offset(OffsetValue { leader_epoch: epoch, ..plain() });
            assert_eq!(Record::decode(&key, Some(&hex(value))), Ok(expected), "{value}");
        }
    }

    #[test]
    fn tags_of_later_versions_are_skipped() {
        let with_tag_9 = "00040000000000000064ffffffff010000018bcfe56800010902abcd";
        assert_eq!(Record::decode(&hex("000100016700017400000000"), Some(&hex(with_tag_9))), Ok(offset(plain())));
    }

    /// Version 2 has no instance ids, 1 no state timestamp either, 0 no rebalance timeout either; 4 is 3, flexible.
    #[test]
    fn every_version_of_a_group_value_is_readable() {
        let head = "0008636f6e73756d657200000001000572616e676500036d2d31";
        let since = "0000018bcfe56800";
        let who = "00000001 00036d2d31 000163 000a2f3132372e302e302e31";
        let (rebalance, rest) = ("000493e0", "0000afc8 00000002 0000 00000000");
        let flexible = concat!(
            "0004 09636f6e73756d6572 00000001 0672616e6765 046d2d31 0000018bcfe56800 02 046d2d31 00 0263",
            "0b2f3132372e302e302e31 000493e0 0000afc8 03 0000 01 00 00"
        );
        let old = MemberValue { rebalance_timeout_ms: -1, ..member() };
        for (value, timestamp, expected) in [
            (format!("0000 {head} {who} {rest}"), -1, old),
            (format!("0001 {head} {who} {rebalance} {rest}"), -1, member()),
            (format!("0002 {head} {since} {who} {rebalance} {rest}"), 1_700_000_000_000, member()),
            (flexible.to_owned(), 1_700_000_000_000, member()),
        ] {
            let read = Record::decode(&hex("0002000167"), Some(&hex(&value.replace(' ', ""))));
            let Ok(Record::Group { value: Some(read), .. }) = read else { panic!("{value}: {read:?}") };
            assert_eq!((read.state_timestamp_ms, read.members), (timestamp, vec![expected]), "{value}");
        }
    }

    /// Members are written one behind the other: whatever a later version adds to one is passed over.
    #[test]
    fn a_tag_that_is_not_known_is_passed_over_in_a_member_too() {
        let member =
            |tags: &str| format!("046d2d31 00 0263 0b2f3132372e302e302e31 000493e0 0000afc8 03 0000 01 {tags}");
        let head = "0004 09636f6e73756d6572 00000001 0672616e6765 046d2d31 0000018bcfe56800 03";
        let members = |tags: &str| {
            let value = format!("{head} {} {} 00", member(tags), member("00"));
            let read = Record::decode(&hex("0002000167"), Some(&hex(&value.replace(' ', ""))));
            let Ok(Record::Group { value: Some(read), .. }) = read else { panic!("{value}: {read:?}") };
            read.members
        };
        assert_eq!(members("01 09 02 abcd"), members("00"));
    }

    #[test]
    fn a_varint_has_at_most_32_bits() {
        let read = |text: &str| Reader { bytes: &hex(text) }.varint("length");
        assert_eq!((read("7f"), read("8001"), read("ffffffff0f")), (Ok(127), Ok(128), Ok(u32::MAX)));
        for more in ["ffffffff1f", "ffffffff70", "ffffffff8f01"] {
            assert_eq!(read(more), Err(RecordError::Malformed { field: "length" }), "{more}");
        }
    }

    /// Version 1 has an expire timestamp, and -1 in it is none.
    #[test]
    fn an_expire_timestamp_of_minus_1_is_none() {
        let read = |expires: &str| {
            let value = format!("0001 0000000000000064 0000 0000018bcfe56800 {expires}").replace(' ', "");
            Record::decode(&hex("000100016700017400000000"), Some(&hex(&value)))
        };
        assert_eq!(read("ffffffffffffffff"), Ok(offset(plain())));
        for (text, expires) in [("0000000000000001", 1), ("fffffffffffffffe", -2)] {
            assert_eq!(read(text), Ok(offset(OffsetValue { expire_timestamp_ms: Some(expires), ..plain() })), "{text}");
        }
    }

    #[test]
    fn a_tombstone_has_a_key_and_no_value() {
        let tombstone = Record::Group { group_id: "g".into(), value: None };
        assert_eq!((tombstone.key_bytes(), tombstone.value_bytes()), (hex("0002000167"), None));
        assert_eq!(Record::decode(&hex("0002000167"), None), Ok(tombstone));
    }

    #[test]
    fn an_unknown_key_type_is_kept_and_an_unknown_value_version_is_an_error() {
        let unknown = Record::decode(&hex("0009abcd"), Some(&[1])).unwrap();
        assert_eq!((unknown.key_bytes(), unknown.value_bytes()), (hex("0009abcd"), Some(vec![1])));
        let error = RecordError::UnsupportedVersion { record: "group", version: 5 };
        assert_eq!(error.to_string(), "group value version 5 is not known");
        assert_eq!(Record::decode(&hex("0002000167"), Some(&hex("0005"))), Err(error));
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_an_error_or_a_record() {
        for (_, key, value) in written_by_kafka() {
            let (key, value) = (hex(key), hex(value));
            for end in 0..value.len() {
                assert!(Record::decode(&key, Some(&value[..end])).is_err(), "truncated at {end}");
            }
            for at in 0..value.len() {
                for byte in 0..=u8::MAX {
                    let mut damaged = value.clone();
                    damaged[at] = byte;
                    drop(Record::decode(&key, Some(&damaged)));
                }
            }
        }
    }
}
