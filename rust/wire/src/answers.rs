//! The answers to group requests, written straight into the connection's buffer.
//!
//! Which field a version carries is the only knowledge here; what is in it, the core decides (docs/protocol.md §4.9).

use std::collections::HashMap;

use rota_core::{
    error::ErrorCode,
    response::{
        CommittedTopic, DescribeAnswer, FetchAnswer, FetchedTopic, JoinAnswer, LeaveAnswer, ListedGroup, SyncAnswer,
    },
};

use crate::write::Writer;

/// Nothing is ever throttled.
const THROTTLE_TIME_MS: i32 = 0;

/// `authorized_operations` when the client did not ask.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// `JoinGroup`, v0–9. The protocol's name is "" on an error up to v6, and null from v7 on.
pub fn join_group(out: &mut Writer<'_>, version: i16, answer: &JoinAnswer<'_>) {
    if version >= 2 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(answer.error.code());
    out.i32(answer.generation);
    if version >= 7 {
        out.nullable_str(answer.protocol_type);
        out.nullable_str(answer.protocol_name);
    } else {
        out.str(answer.protocol_name.unwrap_or(""));
    }
    out.str(answer.leader);
    if version >= 9 {
        out.bool(answer.skip_assignment);
    }
    out.str(answer.member_id);
    out.count(answer.members.len());
    for member in answer.members {
        out.str(member.member_id);
        if version >= 5 {
            out.nullable_str(member.instance_id);
        }
        out.bytes(member.metadata);
        out.no_tags();
    }
    out.no_tags();
}

/// `SyncGroup`, v0–5.
pub fn sync_group(out: &mut Writer<'_>, version: i16, answer: &SyncAnswer<'_>) {
    if version >= 1 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(answer.error.code());
    if version >= 5 {
        out.nullable_str(answer.protocol_type);
        out.nullable_str(answer.protocol_name);
    }
    out.bytes(answer.assignment);
    out.no_tags();
}

/// `Heartbeat`, v0–4.
pub fn heartbeat(out: &mut Writer<'_>, version: i16, error: ErrorCode) {
    if version >= 1 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(error.code());
    out.no_tags();
}

/// `LeaveGroup`, v0–5. Up to v2 the core has put the single member's error at the top.
pub fn leave_group(out: &mut Writer<'_>, version: i16, answer: &LeaveAnswer<'_>) {
    if version >= 1 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(answer.error.code());
    if version >= 3 {
        out.count(answer.members.len());
        for member in answer.members {
            out.str(member.member_id);
            out.nullable_str(member.instance_id);
            out.i16(member.error.code());
            out.no_tags();
        }
    }
    out.no_tags();
}

/// What the front-end refused of one topic of an `OffsetCommit`: (partition, code) under the topic's name.
pub type RefusedTopic = (Box<str>, Vec<(i32, ErrorCode)>);

/// `OffsetCommit`, v2–9: what the front-end refused comes first, the coordinator's results after it; a topic with
/// both kinds is one entry.
pub fn offset_commit(out: &mut Writer<'_>, version: i16, refused: &[RefusedTopic], answered: &[CommittedTopic]) {
    let mut topics: Vec<(&str, Vec<(i32, ErrorCode)>)> =
        refused.iter().map(|(name, results)| (&**name, results.clone())).collect();
    let refused_at: HashMap<&str, usize> = topics.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    for topic in answered {
        match refused_at.get(&*topic.name) {
            Some(at) => topics[*at].1.extend_from_slice(&topic.partitions),
            None => topics.push((&topic.name, topic.partitions.clone())),
        }
    }
    if version >= 3 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.count(topics.len());
    for (name, results) in &topics {
        out.str(name);
        out.count(results.len());
        for (partition, error) in results {
            out.i32(*partition);
            out.i16(error.code());
            out.no_tags();
        }
        out.no_tags();
    }
    out.no_tags();
}

/// What an `OffsetFetch` asked of one topic: partitions under the topic's name.
pub type AskedTopic = (Box<str>, Vec<i32>);

/// `OffsetFetch`, v1–7, which is about one group. v1 has no error at the top: it is repeated on every partition of
/// `asked`, what the request named.
pub fn offset_fetch_single(out: &mut Writer<'_>, version: i16, answer: &FetchAnswer<'_>, asked: &[AskedTopic]) {
    if version >= 3 {
        out.i32(THROTTLE_TIME_MS);
    }
    if version == 1 && answer.error != ErrorCode::None {
        fetched_nothing(out, asked, answer.error);
    } else {
        fetched_topics(out, version, answer.topics);
    }
    if version >= 2 {
        out.i16(answer.error.code());
    }
    out.no_tags();
}

fn fetched_nothing(out: &mut Writer<'_>, asked: &[AskedTopic], error: ErrorCode) {
    out.count(asked.len());
    for (name, partitions) in asked {
        out.str(name);
        out.count(partitions.len());
        for partition in partitions {
            out.i32(*partition);
            out.i64(-1);
            out.str("");
            out.i16(error.code());
        }
    }
}

fn fetched_topics(out: &mut Writer<'_>, version: i16, topics: &[FetchedTopic<'_>]) {
    out.count(topics.len());
    for topic in topics {
        out.str(topic.name);
        out.count(topic.partitions.len());
        for fetched in &topic.partitions {
            out.i32(fetched.index);
            out.i64(fetched.offset);
            if version >= 5 {
                out.i32(fetched.leader_epoch);
            }
            out.str(fetched.metadata);
            out.i16(fetched.error.code());
            out.no_tags();
        }
        out.no_tags();
    }
}

/// One group of an `OffsetFetch`, v8–9. The whole answer is [`multi`] of these.
pub fn offset_fetch_group(out: &mut Writer<'_>, version: i16, answer: &FetchAnswer<'_>) {
    out.str(answer.group_id);
    fetched_topics(out, version, answer.topics);
    out.i16(answer.error.code());
    out.no_tags();
}

/// One group of a `DescribeGroups`, v0–6. The whole answer is [`multi`] of these.
pub fn described_group(out: &mut Writer<'_>, version: i16, answer: &DescribeAnswer<'_>, authorized_operations: i32) {
    out.i16(answer.error.code());
    if version >= 6 {
        out.nullable_str(answer.error_message);
    }
    out.str(answer.group_id);
    out.str(answer.state);
    out.str(answer.protocol_type);
    out.str(answer.protocol_name);
    out.count(answer.members.len());
    for member in answer.members {
        out.str(member.member_id);
        if version >= 4 {
            out.nullable_str(member.instance_id);
        }
        out.str(member.client_id);
        out.str(member.client_host);
        out.bytes(member.metadata);
        out.bytes(member.assignment);
        out.no_tags();
    }
    if version >= 3 {
        out.i32(authorized_operations);
    }
    out.no_tags();
}

/// An answer that is an array of entries, each encoded already, in order: `OffsetFetch` v8+ and `DescribeGroups`.
pub fn multi<'e>(out: &mut Writer<'_>, throttled: bool, entries: impl ExactSizeIterator<Item = &'e [u8]>) {
    if throttled {
        out.i32(THROTTLE_TIME_MS);
    }
    out.count(entries.len());
    for entry in entries {
        out.raw(entry);
    }
    out.no_tags();
}

/// One line of a `ListGroups`, v0–5.
pub fn listed_group(out: &mut Writer<'_>, version: i16, group: &ListedGroup<'_>) {
    out.str(group.group_id);
    out.str(group.protocol_type);
    if version >= 4 {
        out.str(group.state);
    }
    if version >= 5 {
        out.str("classic");
    }
    out.no_tags();
}

/// `ListGroups`, v0–5, of `count` lines that are encoded already.
pub fn list_groups(out: &mut Writer<'_>, version: i16, error: ErrorCode, count: usize, lines: &[u8]) {
    if version >= 1 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(error.code());
    out.count(count);
    out.raw(lines);
    out.no_tags();
}
