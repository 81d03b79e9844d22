//! `OffsetCommit` and `OffsetFetch` (§10, §11).

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    ErrorCode, Record, Sink, State, Ticket,
    records::OffsetValue,
    request::{OffsetCommit, OffsetFetch},
    response::{Answer, CommitAnswer, CommittedTopic, FetchAnswer, FetchedOffset, FetchedTopic},
};

use super::{Append, Fetch, Group, Naive, Purpose, Text};

/// From this version on a commit to a missing group has an error of its own.
const FIRST_VERSION_WITH_NOT_FOUND: i16 = 9;

impl Naive {
    pub(super) fn commit(&mut self, ticket: Ticket, commit: &OffsetCommit<'_>, sink: &mut dyn Sink) {
        let id = self.shared(commit.group_id);
        let refused = self.may_commit(&id, commit).err();
        let (now, limit) = (self.clock.wall_ms, self.config.offset_metadata_max_bytes as usize);
        let mut records = Vec::new();
        let mut topics = Vec::new();
        for topic in commit.topics {
            let name: Text = topic.name.into();
            let mut partitions = Vec::new();
            for partition in topic.partitions {
                let metadata = partition.metadata.unwrap_or("");
                let too_long = metadata.encode_utf16().count() > limit;
                let long = too_long.then_some(ErrorCode::OffsetMetadataTooLarge);
                let error = refused.or(long);
                partitions.push((partition.index, error.unwrap_or(ErrorCode::None)));
                if error.is_some() {
                    continue;
                }
                // A record with a retention time has no place for either (§10.2).
                let retention_ms = commit.retention_time_ms.filter(|retention_ms| *retention_ms != -1);
                let has_room = retention_ms.is_none();
                let value = OffsetValue {
                    offset: partition.offset,
                    leader_epoch: if has_room { partition.leader_epoch } else { -1 },
                    metadata: metadata.into(),
                    commit_timestamp_ms: now,
                    expire_timestamp_ms: retention_ms.map(|retention_ms| now.saturating_add(retention_ms)),
                    topic_id: if has_room { topic.topic_id } else { 0 },
                };
                records.push(Record::Offset {
                    group_id: Arc::clone(&id),
                    topic: Arc::clone(&name),
                    partition: partition.index,
                    value: Some(value),
                });
            }
            topics.push(CommittedTopic { name: topic.name.into(), topic_id: topic.topic_id, partitions });
        }
        if records.is_empty() {
            sink.answer(ticket, Answer::OffsetCommit(CommitAnswer { topics: &topics }));
        } else {
            self.append(&id, records, Purpose::Commit { ticket, topics }, sink);
        }
    }

    /// §10.1; refreshes the session of a member that may.
    fn may_commit(&mut self, id: &Text, commit: &OffsetCommit<'_>) -> Result<(), ErrorCode> {
        let is_member = commit.generation >= 0;
        let Some(group) = self.groups.get(id) else {
            return match (is_member, commit.version >= FIRST_VERSION_WITH_NOT_FOUND) {
                (false, _) => Ok(()),
                (true, true) => Err(ErrorCode::GroupIdNotFound),
                (true, false) => Err(ErrorCode::IllegalGeneration),
            };
        };
        if !is_member && group.state == State::Empty {
            return Ok(());
        }
        if !is_member && commit.member_id.is_empty() && commit.instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        let (generation, state) = (group.generation, group.state);
        let place = self.validate(id, commit.member_id, commit.instance_id)?;
        if generation != commit.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        self.arm_session(id, place);
        Ok(())
    }

    /// A durable offset, or its tombstone, takes effect.
    pub(super) fn store_offset(&mut self, id: &Text, topic: &Text, partition: i32, value: Option<&OffsetValue>) {
        let place = (Arc::clone(topic), partition);
        let now = self.clock;
        match value {
            Some(value) => {
                let group = self.groups.entry(Arc::clone(id)).or_insert_with(|| Group::new(now.mono_ms, now.wall_ms));
                group.is_durable = true;
                group.offsets.insert(place, value.clone());
            }
            None => {
                if let Some(group) = self.groups.get_mut(id) {
                    group.offsets.remove(&place);
                }
            }
        }
    }

    pub(super) fn fetch(&mut self, ticket: Ticket, fetch: &OffsetFetch<'_>, sink: &mut dyn Sink) {
        let id = self.shared(fetch.group_id);
        let topics: Option<Vec<(String, u128, Vec<i32>)>> = fetch.topics.map(|topics| {
            topics.iter().map(|topic| (topic.name.to_owned(), topic.topic_id, topic.partitions.to_vec())).collect()
        });
        let changes = |append: &Append| {
            let asked = matches!(
                append.purpose,
                Purpose::Commit { .. } | Purpose::Delete { .. } | Purpose::OffsetDelete { .. }
            );
            asked && append.group_id == id
        };
        let awaits: std::collections::BTreeSet<u64> = self
            .appends
            .iter()
            .filter(|(_, append)| fetch.require_stable && changes(append))
            .map(|(append_id, _)| *append_id)
            .collect();
        if awaits.is_empty() {
            self.answer_fetch(ticket, &id, topics.as_deref(), sink);
        } else {
            let deadline = self.alarm(u64::from(self.config.offsets_commit_timeout_ms));
            self.fetches.insert(ticket, Fetch { group_id: id, topics, awaits, deadline });
        }
    }

    /// §11.2
    pub(super) fn answer_fetch(
        &self,
        ticket: Ticket,
        id: &Text,
        topics: Option<&[(String, u128, Vec<i32>)]>,
        sink: &mut dyn Sink,
    ) {
        let none = BTreeMap::new();
        let offsets = self.groups.get(id).map_or(&none, |group| &group.offsets);
        let mut answered: Vec<FetchedTopic<'_>> = Vec::new();
        if let Some(topics) = topics {
            for (name, topic_id, partitions) in topics {
                let fetched = partitions.iter().map(|index| {
                    let stored = offsets.get(&(Text::from(name.as_str()), *index));
                    let fits =
                        |value: &&OffsetValue| *topic_id == 0 || value.topic_id == 0 || value.topic_id == *topic_id;
                    shown(*index, stored.filter(fits))
                });
                answered.push(FetchedTopic { name, partitions: fetched.collect() });
            }
        } else {
            for ((topic, index), value) in offsets {
                if answered.last().is_none_or(|last| *last.name != **topic) {
                    answered.push(FetchedTopic { name: topic, partitions: Vec::new() });
                }
                answered.last_mut().expect("just pushed").partitions.push(shown(*index, Some(value)));
            }
        }
        let answer = FetchAnswer { error: ErrorCode::None, group_id: id, topics: &answered };
        sink.answer(ticket, Answer::OffsetFetch(answer));
    }
}

fn shown(index: i32, value: Option<&OffsetValue>) -> FetchedOffset<'_> {
    match value {
        Some(value) => FetchedOffset {
            index,
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: &value.metadata,
            topic_id: value.topic_id,
            error: ErrorCode::None,
        },
        None => {
            FetchedOffset { index, offset: -1, leader_epoch: -1, metadata: "", topic_id: 0, error: ErrorCode::None }
        }
    }
}
