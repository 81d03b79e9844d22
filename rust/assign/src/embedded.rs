//! The embedded consumer protocol: the bytes of consumers that the coordinator relays (docs/protocol.md §18). They are
//! decoded for explanations and for the topics of a group, never for a decision about a rebalance.
//!
//! Both messages start with a version. Newer versions may only append fields, so a version above [`NEWEST_VERSION`] is
//! decoded as that one, and further bytes are ignored. A length is checked against the remaining bytes before memory is
//! allocated for it.

use std::fmt;

/// The newest version with all its fields known here.
pub const NEWEST_VERSION: i16 = 3;

/// A consumer's metadata in `JoinGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The version in the bytes; may exceed [`NEWEST_VERSION`].
    pub version: i16,
    /// Topics in the writer's order.
    pub topics: Vec<String>,
    /// User data of the assignor.
    pub user_data: Option<Vec<u8>>,
    /// v1+: owned partitions by topic, in the writer's order.
    pub owned_partitions: Vec<TopicPartitions>,
    /// v2+: the generation of the owned partitions; -1: none.
    pub generation: i32,
    /// v3+: `client.rack`; an empty string counts as none.
    pub rack: Option<String>,
}

/// The leader's assignment for one consumer in `SyncGroup`. All versions have the same body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The version in the bytes; may exceed [`NEWEST_VERSION`].
    pub version: i16,
    /// Partitions by topic, in the writer's order.
    pub partitions: Vec<TopicPartitions>,
    /// User data of the assignor.
    pub user_data: Option<Vec<u8>>,
}

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic's name.
    pub topic: String,
    /// Partition indexes in the writer's order.
    pub partitions: Vec<i32>,
}

/// Why bytes cannot be decoded, or values cannot be encoded, as a message of the embedded protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbeddedError {
    /// The bytes end inside a field, or a length exceeds the remaining bytes.
    Truncated {
        /// Name of the field.
        field: &'static str,
    },
    /// The version is negative.
    Version(i16),
    /// A field is null that cannot be null.
    Null {
        /// Name of the field.
        field: &'static str,
    },
    /// A string is not UTF-8.
    NotUtf8 {
        /// Name of the field.
        field: &'static str,
    },
    /// A string has more than 32,767 bytes, or a list more than 2,147,483,647 elements, so its length cannot be
    /// encoded.
    TooLong {
        /// Name of the field.
        field: &'static str,
    },
}

impl fmt::Display for EmbeddedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmbeddedError::Truncated { field } => write!(f, "the bytes end inside `{field}`"),
            EmbeddedError::Version(version) => write!(f, "version {version} is negative"),
            EmbeddedError::Null { field } => write!(f, "`{field}` is null, which it may not be"),
            EmbeddedError::NotUtf8 { field } => write!(f, "`{field}` is not UTF-8"),
            EmbeddedError::TooLong { field } => write!(f, "`{field}` is too long for the message"),
        }
    }
}

impl std::error::Error for EmbeddedError {}

/// Decodes a consumer's join metadata. Fields that the version does not have get their defaults.
pub fn decode_subscription(bytes: &[u8]) -> Result<Subscription, EmbeddedError> {
    let (version, mut reader) = Reader::open(bytes)?;
    let topics = reader.array("topics", MIN_STRING_BYTES, |reader| reader.string("topics"))?;
    let user_data = reader.nullable_bytes("user_data")?;
    let owned_partitions = if version >= 1 { reader.topic_partitions("owned_partitions")? } else { Vec::new() };
    let generation = if version >= 2 { reader.int32("generation")?.max(-1) } else { -1 };
    let rack = if version >= 3 { reader.nullable_string("rack")?.filter(|rack| !rack.is_empty()) } else { None };
    Ok(Subscription {
        version,
        topics: topics.into_iter().map(str::to_owned).collect(),
        user_data,
        owned_partitions,
        generation,
        rack: rack.map(str::to_owned),
    })
}

/// Decodes a member's assignment. Empty bytes are not an assignment, so check for them before.
pub fn decode_assignment(bytes: &[u8]) -> Result<Assignment, EmbeddedError> {
    let (version, mut reader) = Reader::open(bytes)?;
    let partitions = reader.topic_partitions("partitions")?;
    let user_data = reader.nullable_bytes("user_data")?;
    Ok(Assignment { version, partitions, user_data })
}

/// Returns the topics in a member's metadata, decoded as version 0 whatever the version, even a negative one (§13.2).
/// Returns `None` if that fails.
pub fn topics(metadata: &[u8]) -> Option<Vec<&str>> {
    let mut reader = Reader { rest: metadata };
    reader.int16("version").ok()?;
    let topics = reader.array("topics", MIN_STRING_BYTES, |reader| reader.string("topics")).ok()?;
    reader.nullable_bytes("user_data").ok()?;
    Some(topics)
}

/// Encodes a subscription in its own version, with lists in the given order. Above [`NEWEST_VERSION`] the body is that
/// of [`NEWEST_VERSION`].
pub fn encode_subscription(subscription: &Subscription) -> Result<Vec<u8>, EmbeddedError> {
    let mut writer = Writer::open(subscription.version)?;
    writer.length("topics", subscription.topics.len())?;
    for topic in &subscription.topics {
        writer.string("topics", topic)?;
    }
    writer.nullable_bytes("user_data", subscription.user_data.as_deref())?;
    if subscription.version >= 1 {
        writer.topic_partitions("owned_partitions", &subscription.owned_partitions)?;
    }
    if subscription.version >= 2 {
        writer.bytes.extend_from_slice(&subscription.generation.to_be_bytes());
    }
    if subscription.version >= 3 {
        match &subscription.rack {
            Some(rack) => writer.string("rack", rack)?,
            None => writer.bytes.extend_from_slice(&(-1_i16).to_be_bytes()),
        }
    }
    Ok(writer.bytes)
}

/// Encodes an assignment in its own version, with lists in the given order.
pub fn encode_assignment(assignment: &Assignment) -> Result<Vec<u8>, EmbeddedError> {
    let mut writer = Writer::open(assignment.version)?;
    writer.topic_partitions("partitions", &assignment.partitions)?;
    writer.nullable_bytes("user_data", assignment.user_data.as_deref())?;
    Ok(writer.bytes)
}

/// Decodes a list of topics with partitions, which assignors also use in user data. Returns it with the remaining
/// bytes.
pub fn read_topic_partitions<'a>(
    bytes: &'a [u8],
    field: &'static str,
) -> Result<(Vec<TopicPartitions>, &'a [u8]), EmbeddedError> {
    let mut reader = Reader { rest: bytes };
    Ok((reader.topic_partitions(field)?, reader.rest))
}

/// Appends a list of topics with partitions, in the given order.
pub fn write_topic_partitions(
    bytes: &mut Vec<u8>,
    field: &'static str,
    topics: &[TopicPartitions],
) -> Result<(), EmbeddedError> {
    let mut writer = Writer { bytes: std::mem::take(bytes) };
    let written = writer.topic_partitions(field, topics);
    *bytes = writer.bytes;
    written
}

/// Size of a string's length.
const MIN_STRING_BYTES: usize = 2;
/// Size of a topic's empty name and empty list.
const MIN_TOPIC_PARTITIONS_BYTES: usize = MIN_STRING_BYTES + 4;

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn open(bytes: &'a [u8]) -> Result<(i16, Reader<'a>), EmbeddedError> {
        let mut reader = Reader { rest: bytes };
        let version = reader.int16("version")?;
        if version < 0 { Err(EmbeddedError::Version(version)) } else { Ok((version, reader)) }
    }

    fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], EmbeddedError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(EmbeddedError::Truncated { field })?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], EmbeddedError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(EmbeddedError::Truncated { field })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn int16(&mut self, field: &'static str) -> Result<i16, EmbeddedError> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    fn int32(&mut self, field: &'static str) -> Result<i32, EmbeddedError> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    /// Reads a string; any negative length is null, as for clients.
    fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>, EmbeddedError> {
        let Ok(length) = usize::try_from(self.int16(field)?) else { return Ok(None) };
        let bytes = self.take(length, field)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| EmbeddedError::NotUtf8 { field })
    }

    fn string(&mut self, field: &'static str) -> Result<&'a str, EmbeddedError> {
        self.nullable_string(field)?.ok_or(EmbeddedError::Null { field })
    }

    fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<Vec<u8>>, EmbeddedError> {
        let Ok(length) = usize::try_from(self.int32(field)?) else { return Ok(None) };
        self.take(length, field).map(|bytes| Some(bytes.to_vec()))
    }

    fn array<T>(
        &mut self,
        field: &'static str,
        min_element_bytes: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, EmbeddedError>,
    ) -> Result<Vec<T>, EmbeddedError> {
        let length = usize::try_from(self.int32(field)?).map_err(|_| EmbeddedError::Null { field })?;
        if length > self.rest.len() / min_element_bytes {
            return Err(EmbeddedError::Truncated { field });
        }
        (0..length).map(|_| element(self)).collect()
    }

    fn topic_partitions(&mut self, field: &'static str) -> Result<Vec<TopicPartitions>, EmbeddedError> {
        self.array(field, MIN_TOPIC_PARTITIONS_BYTES, |reader| {
            let topic = reader.string(field)?.to_owned();
            let partitions = reader.array(field, 4, |reader| reader.int32(field))?;
            Ok(TopicPartitions { topic, partitions })
        })
    }
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn open(version: i16) -> Result<Writer, EmbeddedError> {
        if version < 0 {
            return Err(EmbeddedError::Version(version));
        }
        Ok(Writer { bytes: version.to_be_bytes().to_vec() })
    }

    fn length(&mut self, field: &'static str, length: usize) -> Result<(), EmbeddedError> {
        let length = i32::try_from(length).map_err(|_| EmbeddedError::TooLong { field })?;
        self.bytes.extend_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn string(&mut self, field: &'static str, string: &str) -> Result<(), EmbeddedError> {
        let length = i16::try_from(string.len()).map_err(|_| EmbeddedError::TooLong { field })?;
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(string.as_bytes());
        Ok(())
    }

    fn nullable_bytes(&mut self, field: &'static str, bytes: Option<&[u8]>) -> Result<(), EmbeddedError> {
        if let Some(bytes) = bytes {
            self.length(field, bytes.len())?;
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        Ok(())
    }

    fn topic_partitions(&mut self, field: &'static str, topics: &[TopicPartitions]) -> Result<(), EmbeddedError> {
        self.length(field, topics.len())?;
        for TopicPartitions { topic, partitions } in topics {
            self.string(field, topic)?;
            self.length(field, partitions.len())?;
            for partition in partitions {
                self.bytes.extend_from_slice(&partition.to_be_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    fn owned() -> Vec<TopicPartitions> {
        vec![
            TopicPartitions { topic: "a".into(), partitions: vec![0, 2] },
            TopicPartitions { topic: "b".into(), partitions: vec![1] },
        ]
    }

    /// Topics a and b, owned a:{0,2} b:{1}, generation 5, rack r1, limited to the fields of `version`.
    fn subscription(version: i16) -> Subscription {
        Subscription {
            version,
            topics: vec!["a".into(), "b".into()],
            user_data: None,
            owned_partitions: if version >= 1 { owned() } else { vec![] },
            generation: if version >= 2 { 5 } else { -1 },
            rack: (version >= 3).then(|| "r1".into()),
        }
    }

    const TOPICS: &str = "00000002 0001 61 0001 62 ffffffff";
    const OWNED: &str = "00000002 0001 61 00000002 00000000 00000002 0001 62 00000001 00000001";

    fn vectors() -> [(i16, Vec<u8>); 4] {
        [
            (0, hex(&format!("0000 {TOPICS}"))),
            (1, hex(&format!("0001 {TOPICS} {OWNED}"))),
            (2, hex(&format!("0002 {TOPICS} {OWNED} 00000005"))),
            (3, hex(&format!("0003 {TOPICS} {OWNED} 00000005 0002 7231"))),
        ]
    }

    #[test]
    fn a_list_of_topics_is_read_up_to_where_it_ends() {
        let bytes = hex(&format!("{OWNED} ff"));
        assert_eq!(read_topic_partitions(&bytes, "list"), Ok((owned(), &[0xff][..])));
        let nothing = vec![TopicPartitions { topic: String::new(), partitions: vec![] }];
        assert_eq!(read_topic_partitions(&hex("00000001 0000 00000000"), "list"), Ok((nothing, &[][..])));
        let mut written = vec![1];
        assert_eq!(write_topic_partitions(&mut written, "list", &owned()), Ok(()));
        assert_eq!(written, [vec![1], hex(OWNED)].concat());
    }

    #[test]
    fn each_subscription_version_reads_and_writes_its_known_bytes() {
        for ((version, bytes), length) in vectors().into_iter().zip([16, 46, 50, 54]) {
            assert_eq!(bytes.len(), length);
            assert_eq!(decode_subscription(&bytes), Ok(subscription(version)));
            assert_eq!(encode_subscription(&subscription(version)), Ok(bytes));
        }
    }

    #[test]
    fn a_first_join_owns_nothing_and_has_no_rack() {
        let bytes = hex("0003 00000001 0001 61 ffffffff 00000000 ffffffff ffff");
        let expected = Subscription {
            version: 3,
            topics: vec!["a".into()],
            user_data: None,
            owned_partitions: vec![],
            generation: -1,
            rack: None,
        };
        assert_eq!(decode_subscription(&bytes), Ok(expected.clone()));
        assert_eq!(encode_subscription(&expected), Ok(bytes));
    }

    #[test]
    fn a_list_that_ends_too_soon_is_named() {
        let refused = decode_subscription(&hex("0003 00000002 0001 61")).unwrap_err();
        assert_eq!(refused, EmbeddedError::Truncated { field: "topics" });
        assert_eq!(refused.to_string(), "the bytes end inside `topics`");
    }

    #[test]
    fn an_empty_rack_is_no_rack() {
        let bytes = hex("0003 00000000 ffffffff 00000000 ffffffff 0000");
        assert_eq!(decode_subscription(&bytes).unwrap().rack, None);
    }

    #[test]
    fn an_assignment_reads_and_writes_its_known_bytes_in_every_version() {
        for version in 0..=3_i16 {
            let mut bytes = version.to_be_bytes().to_vec();
            bytes.extend(hex("00000001 0001 61 00000002 00000000 00000002 ffffffff"));
            assert_eq!(bytes.len(), 25);
            let expected = Assignment { version, partitions: owned()[..1].to_vec(), user_data: None };
            assert_eq!(decode_assignment(&bytes), Ok(expected.clone()));
            assert_eq!(encode_assignment(&expected), Ok(bytes));
        }
    }

    #[test]
    fn a_newer_version_is_read_as_v3_and_what_follows_is_left_alone() {
        let mut bytes = hex(&format!("0007 {TOPICS} {OWNED} 00000005 0002 7231"));
        bytes.extend(b"a field of the future");
        assert_eq!(decode_subscription(&bytes), Ok(Subscription { version: 7, ..subscription(3) }));
    }

    #[test]
    fn a_negative_version_is_an_error() {
        assert_eq!(decode_subscription(&hex("ffff 00000000 ffffffff")), Err(EmbeddedError::Version(-1)));
        assert_eq!(decode_assignment(&hex("8000 00000000 ffffffff")), Err(EmbeddedError::Version(i16::MIN)));
        assert_eq!(topics(&hex("ffff 00000000")), None);
    }

    #[test]
    fn every_prefix_of_a_message_is_truncated() {
        for (_, bytes) in vectors() {
            for length in 0..bytes.len() {
                let error = decode_subscription(&bytes[..length]).unwrap_err();
                assert!(matches!(error, EmbeddedError::Truncated { .. }), "{length}: {error}");
            }
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused_before_anything_is_allocated() {
        let topics_claimed = hex("0000 7fffffff 0001 61");
        assert_eq!(decode_subscription(&topics_claimed), Err(EmbeddedError::Truncated { field: "topics" }));
        let user_data_claimed = hex("0000 00000000 7fffffff 00");
        assert_eq!(decode_subscription(&user_data_claimed), Err(EmbeddedError::Truncated { field: "user_data" }));
        let partitions_claimed = hex("0000 00000001 0001 61 7fffffff 00000000");
        assert_eq!(decode_assignment(&partitions_claimed), Err(EmbeddedError::Truncated { field: "partitions" }));
    }

    #[test]
    fn null_lists_null_topics_and_broken_text_are_errors() {
        assert_eq!(decode_subscription(&hex("0000 ffffffff ffffffff")), Err(EmbeddedError::Null { field: "topics" }));
        let null_topic = hex("0000 00000001 ffff ffffffff");
        assert_eq!(decode_subscription(&null_topic), Err(EmbeddedError::Null { field: "topics" }));
        let broken = hex("0000 00000001 0001 ff ffffffff");
        assert_eq!(decode_subscription(&broken), Err(EmbeddedError::NotUtf8 { field: "topics" }));
    }

    #[test]
    fn what_has_no_room_in_the_message_is_not_written() {
        let long = Subscription { topics: vec!["x".repeat(32_768)], ..subscription(0) };
        assert_eq!(encode_subscription(&long), Err(EmbeddedError::TooLong { field: "topics" }));
        assert_eq!(encode_subscription(&subscription(-2)), Err(EmbeddedError::Version(-2)));
    }

    #[test]
    fn the_topics_are_read_from_every_version_whatever_follows_them() {
        for (_, bytes) in vectors() {
            assert_eq!(topics(&bytes), Some(vec!["a", "b"]));
            assert_eq!(topics(&bytes[..16]), Some(vec!["a", "b"]));
            assert_eq!(topics(&bytes[..15]), None, "the user data is part of every version");
            assert_eq!(topics(&[&[0xff, 0xff], &bytes[2..]].concat()), Some(vec!["a", "b"]));
        }
        assert_eq!(topics(b""), None);
        assert_eq!(topics(b"not the consumer protocol"), None);
    }

    fn any_topic_partitions() -> impl Strategy<Value = Vec<TopicPartitions>> {
        let one = ("[a-z.é]{0,6}", prop::collection::vec(any::<i32>(), 0..4));
        prop::collection::vec(one.prop_map(|(topic, partitions)| TopicPartitions { topic, partitions }), 0..4)
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (decode_subscription(&bytes), decode_assignment(&bytes), topics(&bytes));
        }

        #[test]
        fn what_is_written_is_read_back(
            names in prop::collection::vec("[a-z.é]{0,6}", 0..4),
            user_data in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
            owned_partitions in any_topic_partitions(),
            generation in -1..i32::MAX,
            rack in prop::option::of("[a-z]{1,4}"),
            version in 3..=i16::MAX,
        ) {
            let all = Subscription { version, topics: names, user_data, owned_partitions, generation, rack };
            prop_assert_eq!(decode_subscription(&encode_subscription(&all).unwrap()), Ok(all.clone()));
            let plan = Assignment { version, partitions: all.owned_partitions, user_data: all.user_data };
            prop_assert_eq!(decode_assignment(&encode_assignment(&plan).unwrap()), Ok(plan));
        }
    }
}
