//! `ConsumerGroupHeartbeat` and `ConsumerGroupDescribe`, v0 and v1 of both (docs/consumer-protocol.md).

use std::ops::Range;

use rota_core::{
    request::{ConsumerGroupHeartbeat, TopicPartitions},
    response::{ConsumerDescribeAnswer, ConsumerHeartbeatAnswer, NamedTopic},
};

use crate::{
    read::{Reader, WireError},
    requests::{limit_groups, read_strs},
    write::Writer,
};

/// Nothing is ever throttled.
const THROTTLE_TIME_MS: i32 = 0;

/// Before and as a struct that may be null.
const NULL: i8 = -1;
const PRESENT: i8 = 1;

/// A decoded `ConsumerGroupHeartbeat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatBody<'a> {
    version: i16,
    group_id: &'a str,
    member_id: &'a str,
    member_epoch: i32,
    instance_id: Option<&'a str>,
    rack_id: Option<&'a str>,
    rebalance_timeout_ms: i32,
    names: Option<Vec<&'a str>>,
    regex: Option<&'a str>,
    server_assignor: Option<&'a str>,
    topics: Option<Vec<(u128, Range<usize>)>>,
    partitions: Vec<i32>,
}

impl<'a> HeartbeatBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<HeartbeatBody<'a>, WireError> {
        let mut reader = Reader::new(body, true);
        let (group_id, member_id) = (reader.str("group_id")?, reader.str("member_id")?);
        let member_epoch = reader.i32("member_epoch")?;
        let (instance_id, rack_id) = (reader.nullable_str("instance_id")?, reader.nullable_str("rack_id")?);
        let rebalance_timeout_ms = reader.i32("rebalance_timeout_ms")?;
        let names = match reader.nullable_count("subscribed_topic_names")? {
            Some(count) => Some(read_list(&mut reader, count, |reader| reader.str("topic_name"))?),
            None => None,
        };
        let regex = if version >= 1 { reader.nullable_str("subscribed_topic_regex")? } else { None };
        let server_assignor = reader.nullable_str("server_assignor")?;
        let mut partitions = Vec::new();
        let topics = match reader.nullable_count("topic_partitions")? {
            None => None,
            Some(count) => Some(read_list(&mut reader, count, |reader| {
                let topic_id = reader.uuid("topic_id")?;
                let start = partitions.len();
                for _ in 0..reader.count("partitions")? {
                    partitions.push(reader.i32("partition")?);
                }
                reader.skip_tags()?;
                Ok((topic_id, start..partitions.len()))
            })?),
        };
        reader.skip_tags()?;
        Ok(HeartbeatBody {
            version,
            group_id,
            member_id,
            member_epoch,
            instance_id,
            rack_id,
            rebalance_timeout_ms,
            names,
            regex,
            server_assignor,
            topics,
            partitions,
        })
    }

    /// Lends the request as the core takes it.
    pub fn with<R>(&self, client_id: &str, client_host: &str, ask: impl FnOnce(ConsumerGroupHeartbeat<'_>) -> R) -> R {
        let topics: Option<Vec<TopicPartitions<'_>>> = self.topics.as_ref().map(|topics| {
            let lend = |(topic_id, range): &(u128, Range<usize>)| TopicPartitions {
                topic_id: *topic_id,
                partitions: &self.partitions[range.clone()],
            };
            topics.iter().map(lend).collect()
        });
        ask(ConsumerGroupHeartbeat {
            version: self.version,
            group_id: self.group_id,
            member_id: self.member_id,
            member_epoch: self.member_epoch,
            instance_id: self.instance_id,
            rack_id: self.rack_id,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            subscribed_topic_names: self.names.as_deref(),
            subscribed_topic_regex: self.regex,
            server_assignor: self.server_assignor,
            topic_partitions: topics.as_deref(),
            client_id,
            client_host,
        })
    }

    /// The group.
    pub fn group_id(&self) -> &'a str {
        self.group_id
    }

    /// The names of topics that the sender subscribes to.
    pub fn names(&self) -> &[&'a str] {
        self.names.as_deref().unwrap_or_default()
    }

    /// The sender.
    pub fn member_id(&self) -> &'a str {
        self.member_id
    }
}

/// Elements that are at least a byte long each.
fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    count: usize,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    (0..count).map(|_| read(reader)).collect()
}

/// A decoded `ConsumerGroupDescribe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeBody<'a> {
    /// In the order of the request.
    pub group_ids: Vec<&'a str>,
    /// Whether the client asks what it may do.
    pub include_authorized_operations: bool,
}

impl<'a> DescribeBody<'a> {
    /// Reads the body of a request.
    pub fn read(body: &'a [u8]) -> Result<DescribeBody<'a>, WireError> {
        let mut reader = Reader::new(body, true);
        let group_ids = read_strs(&mut reader, "group_ids")?;
        limit_groups(group_ids.len(), "group_ids")?;
        let include_authorized_operations = reader.bool("include_authorized_operations")?;
        reader.skip_tags()?;
        Ok(DescribeBody { group_ids, include_authorized_operations })
    }
}

/// `ConsumerGroupHeartbeat`, v0 and v1.
pub fn heartbeat(out: &mut Writer<'_>, answer: &ConsumerHeartbeatAnswer<'_>) {
    out.i32(THROTTLE_TIME_MS);
    out.i16(answer.error.code());
    out.nullable_str(answer.error_message);
    out.nullable_str(answer.member_id);
    out.i32(answer.member_epoch);
    out.i32(answer.heartbeat_interval_ms);
    match answer.assignment {
        None => out.i8(NULL),
        Some(topics) => {
            out.i8(PRESENT);
            out.count(topics.len());
            for topic in topics {
                out.uuid(topic.topic_id);
                out.count(topic.partitions.len());
                topic.partitions.iter().for_each(|partition| out.i32(*partition));
                out.no_tags();
            }
            out.no_tags();
        }
    }
    out.no_tags();
}

/// One group of a `ConsumerGroupDescribe`, v0 and v1. The whole answer is [`multi`](crate::answers::multi) of these.
pub fn described_group(out: &mut Writer<'_>, version: i16, answer: &ConsumerDescribeAnswer<'_>, operations: i32) {
    out.i16(answer.error.code());
    out.nullable_str(answer.error_message);
    out.str(answer.group_id);
    out.str(answer.group_state);
    out.i32(answer.group_epoch);
    out.i32(answer.assignment_epoch);
    out.str(answer.assignor_name);
    out.count(answer.members.len());
    for member in answer.members {
        out.str(member.member_id);
        out.nullable_str(member.instance_id);
        out.nullable_str(member.rack_id);
        out.i32(member.member_epoch);
        out.str(member.client_id);
        out.str(member.client_host);
        out.count(member.subscribed_topic_names.len());
        member.subscribed_topic_names.iter().for_each(|name| out.str(name));
        out.nullable_str(member.subscribed_topic_regex);
        assignment(out, member.assignment);
        assignment(out, member.target_assignment);
        if version >= 1 {
            out.i8(member.member_type);
        }
        out.no_tags();
    }
    out.i32(operations);
    out.no_tags();
}

fn assignment(out: &mut Writer<'_>, topics: &[NamedTopic<'_>]) {
    out.count(topics.len());
    for topic in topics {
        out.uuid(topic.topic_id);
        out.str(topic.topic);
        out.count(topic.partitions.len());
        topic.partitions.iter().for_each(|partition| out.i32(*partition));
        out.no_tags();
    }
    out.no_tags();
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use bytes::BytesMut;
    use rota_core::{
        ErrorCode,
        response::{AssignedTopic, ConsumerMemberDescription},
    };

    use super::*;
    use crate::RequestHeader;

    const ONE: u128 = 0x4562_01a8_f0cb_4641_b126_eec8_1ce0_02d7;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    fn read(text: &str, check: impl FnOnce(ConsumerGroupHeartbeat<'_>)) {
        let frame = hex(text);
        let (header, body) = RequestHeader::read(&frame).unwrap();
        HeartbeatBody::read(header.version, body).unwrap().with("c", "/127.0.0.1", check);
    }

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = BytesMut::new();
        write(&mut Writer::new(&mut out, true));
        out.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Sent by a client of Kafka 4.4.0.
    #[test]
    fn requests_are_read_as_kafka_reads_them() {
        read("00440001000000010001630004673431026d0000000000000000ea6002046f6e6500000100", |join| {
            assert_eq!((join.group_id, join.member_id, join.member_epoch), ("g41", "m", 0));
            assert_eq!((join.rebalance_timeout_ms, join.subscribed_topic_names), (60_000, Some(&["one"][..])));
            assert_eq!((join.topic_partitions, join.subscribed_topic_regex), (Some(&[][..]), None));
        });
        let owned = "00440001000000010001630004673431026d000000020000ffffffff00000002456201a8f0cb4641b126eec81ce002d702\
                     000000000000";
        read(owned, |heartbeat| {
            let topics = heartbeat.topic_partitions.unwrap();
            assert_eq!((topics[0].topic_id, topics[0].partitions), (ONE, &[0][..]));
            assert_eq!((heartbeat.member_epoch, heartbeat.subscribed_topic_names), (2, None));
        });
        read("0044000100000001000163000467343102720000000000000000ea6000046f6e2e000100", |join| {
            assert_eq!((join.member_id, join.subscribed_topic_regex), ("r", Some("on.")));
        });
    }

    /// Written by Kafka 4.4.0, without the correlation id and the tags of the header.
    #[test]
    fn answers_are_the_bytes_that_kafka_writes() {
        let topics = [AssignedTopic { topic_id: ONE, partitions: &[0] }];
        let answer = ConsumerHeartbeatAnswer {
            error: ErrorCode::None,
            error_message: None,
            member_id: Some("m"),
            member_epoch: 2,
            heartbeat_interval_ms: 5_000,
            assignment: Some(&topics),
        };
        let expected = "00000000000000026d00000002000013880102456201a8f0cb4641b126eec81ce002d70200000000000000";
        assert_eq!(written(|out| heartbeat(out, &answer)), expected);
        let quiet = ConsumerHeartbeatAnswer { assignment: None, ..answer };
        assert_eq!(written(|out| heartbeat(out, &quiet)), "00000000000000026d0000000200001388ff00");
        let refused = ConsumerHeartbeatAnswer {
            error: ErrorCode::FencedMemberEpoch,
            member_id: None,
            member_epoch: 0,
            heartbeat_interval_ms: 0,
            ..quiet
        };
        assert_eq!(written(|out| heartbeat(out, &refused)), "00000000006e00000000000000000000ff00");
        let assigned = [NamedTopic { topic_id: ONE, topic: "one", partitions: &[0] }];
        let members = [ConsumerMemberDescription {
            member_id: "m",
            instance_id: None,
            rack_id: None,
            member_epoch: 2,
            client_id: "c",
            client_host: "/127.0.0.1",
            subscribed_topic_names: &["one"],
            subscribed_topic_regex: Some(""),
            assignment: &assigned,
            target_assignment: &assigned,
            member_type: 1,
        }];
        let group = ConsumerDescribeAnswer {
            error: ErrorCode::None,
            error_message: None,
            group_id: "g41",
            group_state: "Stable",
            group_epoch: 2,
            assignment_epoch: 2,
            assignor_name: "uniform",
            members: &members,
        };
        let expected = "0000000467343107537461626c65000000020000000208756e69666f726d02026d00000000000202630b2f3132372e302e302e\
                        3102046f6e650102456201a8f0cb4641b126eec81ce002d7046f6e650200000000000002456201a8f0cb4641b126eec81ce002\
                        d7046f6e65020000000000000100800000000000"
            .replace(' ', "");
        // The last two tag sections are those of the list and the answer.
        let shown = written(|out| described_group(out, 1, &group, i32::MIN));
        assert_eq!(format!("{shown}00"), expected);
    }
}
