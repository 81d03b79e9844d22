//! Encodes answers to group requests into the connection's buffer.
//!
//! This module decides which field a version carries. The core decides its content (docs/protocol.md §4.9).

use std::collections::HashMap;

use rota_core::{
    error::ErrorCode,
    response::{
        CommittedTopic, DeleteAnswer, DescribeAnswer, FetchAnswer, FetchedOffset, FetchedTopic, JoinAnswer,
        LeaveAnswer, ListedGroup, OffsetDeleteAnswer, SyncAnswer,
    },
};

use crate::{requests::TOPIC_IDS_SINCE, write::Writer};

/// Requests are never throttled.
pub(crate) const THROTTLE_TIME_MS: i32 = 0;

/// `authorized_operations` if the client did not ask for it.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Writes a `JoinGroup` answer, v0–9. The protocol name is "" on an error up to v6, and null from v7 on.
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

/// Writes a `SyncGroup` answer, v0–5.
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

/// Writes a `Heartbeat` answer, v0–4.
pub fn heartbeat(out: &mut Writer<'_>, version: i16, error: ErrorCode) {
    if version >= 1 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(error.code());
    out.no_tags();
}

/// Writes a `LeaveGroup` answer, v0–5. Up to v2 the core has put the single member's error at the top.
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

/// Writes an `OffsetCommit` answer, v2–10: the partitions that the front-end refused, then the coordinator's results. A
/// topic with both is one entry. Version 10 names topics by id.
pub fn offset_commit(out: &mut Writer<'_>, version: i16, refused: &[CommittedTopic], answered: &[CommittedTopic]) {
    if version >= 3 {
        out.i32(THROTTLE_TIME_MS);
    }
    results_by_topic(out, version >= TOPIC_IDS_SINCE, refused, answered.iter().map(of_commit));
    out.no_tags();
}

/// Topic name, topic id, and the results of its partitions.
pub(crate) type Results<'a> = (&'a str, u128, Codes<'a>);

/// Partition indexes with their error codes.
pub(crate) type Codes<'a> = &'a [(i32, ErrorCode)];

pub(crate) fn of_commit(topic: &CommittedTopic) -> Results<'_> {
    (&topic.name, topic.topic_id, &topic.partitions)
}

/// Without refusals, writes the answers as often as the request repeated them. Otherwise writes one entry per topic:
/// the topics of `refused` first, each with its answers, then the other topics.
pub(crate) fn results_by_topic<'a>(
    out: &mut Writer<'_>,
    by_id: bool,
    refused: &'a [CommittedTopic],
    answered: impl Iterator<Item = Results<'a>>,
) {
    let mut topics: Vec<(&str, u128, Vec<Codes<'_>>)> = Vec::with_capacity(refused.len());
    let mut entries: HashMap<(&str, u128), usize> = HashMap::with_capacity(refused.len());
    for (name, id, results) in refused.iter().map(of_commit).chain(answered) {
        match entries.get(&(name, id)) {
            Some(at) if !refused.is_empty() => topics[*at].2.push(results),
            _ => {
                entries.insert((name, id), topics.len());
                topics.push((name, id, vec![results]));
            }
        }
    }
    out.count(topics.len());
    for (name, id, results) in topics {
        if by_id {
            out.uuid(id);
        } else {
            out.str(name);
        }
        out.count(results.iter().map(|results| results.len()).sum());
        for (partition, error) in results.into_iter().flatten() {
            out.i32(*partition);
            out.i16(error.code());
            out.no_tags();
        }
        out.no_tags();
    }
}

/// Writes an `OffsetDelete` answer, v0. With an error at the top there are no topics. Otherwise refusals of the
/// front-end come first, then the coordinator's results, and a repeated topic is one entry.
pub fn offset_delete(out: &mut Writer<'_>, answer: &OffsetDeleteAnswer<'_>, refused: &[CommittedTopic]) {
    out.i16(answer.error.code());
    out.i32(THROTTLE_TIME_MS);
    if answer.error == ErrorCode::None {
        let answered = answer.topics.iter().map(|topic| -> Results<'_> { (&topic.name, 0, &topic.partitions) });
        results_by_topic(out, false, refused, answered);
    } else {
        out.count(0);
    }
}

/// Writes one group of a `DeleteGroups` answer, v0–3, as an entry of [`multi`]. Classic groups never use the message of
/// v3.
pub fn deleted_group(out: &mut Writer<'_>, version: i16, answer: &DeleteAnswer<'_>) {
    out.str(answer.group_id);
    out.i16(answer.error.code());
    if version >= 3 {
        out.nullable_str(None);
    }
    out.no_tags();
}

/// The partitions that an `OffsetFetch` requests of one topic, by its name.
pub type AskedTopic = (Box<str>, Vec<i32>);

/// Writes an `OffsetFetch` answer, v1–7, for one group. v1 has no error at the top, so every partition of `asked`
/// repeats it.
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

/// The topic ids of one group of an `OffsetFetch` v10. The coordinator answers by name.
#[derive(Debug, Default)]
pub struct FetchIds {
    /// Ids of the topics of the coordinator's request, in its order; empty if it requested all topics.
    pub asked: Vec<u128>,
    /// Unknown topic ids with their partitions. They come last in the answer.
    pub refused: Vec<(u128, Vec<i32>, ErrorCode)>,
}

/// Writes one group of an `OffsetFetch` answer, v8–9, as an entry of [`multi`].
pub fn offset_fetch_group(out: &mut Writer<'_>, version: i16, answer: &FetchAnswer<'_>) {
    out.str(answer.group_id);
    fetched_topics(out, version, answer.topics);
    out.i16(answer.error.code());
    out.no_tags();
}

/// Writes one group of an `OffsetFetch` answer v10.
pub fn offset_fetch_group_by_id(out: &mut Writer<'_>, answer: &FetchAnswer<'_>, ids: &FetchIds) {
    let refused: &[(u128, Vec<i32>, ErrorCode)] = if answer.error == ErrorCode::None { &ids.refused } else { &[] };
    let asked = answer.topics.iter().zip(&ids.asked).map(|(topic, id)| (topic, *id));
    let stored = answer.topics.iter().filter_map(|topic| Some((topic, stored_id(topic)?)));
    let topics: Vec<(&FetchedTopic<'_>, u128)> = if ids.asked.is_empty() { stored.collect() } else { asked.collect() };
    out.str(answer.group_id);
    out.count(topics.len() + refused.len());
    for (topic, id) in topics {
        out.uuid(id);
        out.count(topic.partitions.len());
        for fetched in &topic.partitions {
            fetched_offset(out, fetched);
        }
        out.no_tags();
    }
    for (id, partitions, error) in refused {
        out.uuid(*id);
        out.count(partitions.len());
        for index in partitions {
            let (topic_id, error) = (*id, *error);
            let none = FetchedOffset { index: *index, offset: -1, leader_epoch: -1, metadata: "", topic_id, error };
            fetched_offset(out, &none);
        }
        out.no_tags();
    }
    out.i16(answer.error.code());
    out.no_tags();
}

/// Returns the topic id that the commits stored.
fn stored_id(topic: &FetchedTopic<'_>) -> Option<u128> {
    topic.partitions.iter().map(|fetched| fetched.topic_id).find(|id| *id != 0)
}

fn fetched_offset(out: &mut Writer<'_>, fetched: &FetchedOffset<'_>) {
    out.i32(fetched.index);
    out.i64(fetched.offset);
    out.i32(fetched.leader_epoch);
    out.str(fetched.metadata);
    out.i16(fetched.error.code());
    out.no_tags();
}

/// Writes one group of a `DescribeGroups` answer, v0–6, as an entry of [`multi`].
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

/// Writes an answer that is an array of encoded entries: `OffsetFetch` v8+, `DescribeGroups`, `DeleteGroups`.
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

/// Writes one group of a `ListGroups` answer, v0–5.
pub fn listed_group(out: &mut Writer<'_>, version: i16, group: &ListedGroup<'_>, group_type: &str) {
    out.str(group.group_id);
    out.str(group.protocol_type);
    if version >= 4 {
        out.str(group.state);
    }
    if version >= 5 {
        out.str(group_type);
    }
    out.no_tags();
}

/// Writes a `ListGroups` answer, v0–5, of `count` encoded groups.
pub fn list_groups(out: &mut Writer<'_>, version: i16, error: ErrorCode, count: usize, lines: &[u8]) {
    if version >= 1 {
        out.i32(THROTTLE_TIME_MS);
    }
    out.i16(error.code());
    out.count(count);
    out.raw(lines);
    out.no_tags();
}
