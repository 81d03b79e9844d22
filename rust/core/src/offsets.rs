//! `OffsetCommit` and `OffsetFetch` (docs/protocol.md §10, §11).

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    coordinator::{Coordinator, Phase},
    effects::{AppendId, Step},
    error::ErrorCode,
    group::{Group, GroupHandle, MemberHandle},
    in_flight::Purpose,
    operations::{Operation, WaitingFetch, WantedTopic, WatchKey},
    records::{OffsetValue, Record},
    request::{CommitPartition, CommitTopic, ConsumerOffsetFetch, FetchTopic, Now, OffsetCommit, OffsetFetch, Ticket},
    response::{Answer, CommitAnswer, CommittedTopic, FetchAnswer, FetchedOffset, FetchedTopic},
    states::State,
    stored_offsets::StoredOffset,
};

/// The first version that answers a commit to a missing group with `GROUP_ID_NOT_FOUND`.
const FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: i16 = 9;

const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;
const NO_RETENTION: i64 = -1;

impl Coordinator {
    pub(crate) fn offset_commit(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &OffsetCommit<'_>) {
        match self.may_commit(request) {
            Ok(Some(member)) => self.refresh_session(step.now, member),
            Ok(None) => {}
            Err(error) => return Self::answer_commit_error(step, ticket, request.topics, error),
        }
        let group_id: Arc<str> = request.group_id.unwrap_or("").into();
        let (records, results) = self.commit_records(step.now, &group_id, request);
        if records.is_empty() {
            Self::answer_commit(step, ticket, results, None);
        } else {
            self.append(step, group_id, Purpose::Commit(Some(ticket), results), records);
        }
    }

    /// Returns the records of a commit, and its results: of each partition, whether it has a record.
    pub(crate) fn commit_records(
        &self,
        now: Now,
        group_id: &Arc<str>,
        request: &OffsetCommit<'_>,
    ) -> (Vec<Record>, Vec<CommittedTopic>) {
        let mut records = Vec::new();
        let mut results = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let name: Arc<str> = topic.name.into();
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in topic.partitions {
                let error = self.check_metadata(partition);
                partitions.push((partition.index, error));
                if error == ErrorCode::None {
                    records.push(Record::Offset {
                        group_id: Arc::clone(group_id),
                        topic: Arc::clone(&name),
                        partition: partition.index,
                        value: Some(offset_value(now, request, topic, partition)),
                    });
                }
            }
            results.push(CommittedTopic { name: topic.name.into(), topic_id: topic.topic_id, partitions });
        }
        (records, results)
    }

    /// Checks whether the sender may commit in this state (§10.1). Returns the member whose session the commit extends.
    /// INVARIANT: S15.
    fn may_commit(&self, request: &OffsetCommit<'_>) -> Result<Option<MemberHandle>, ErrorCode> {
        let group_id = request.group_id.unwrap_or("");
        if let Some(checked) = self.check_consumer_commit(request) {
            return checked.map(|()| None);
        }
        let anonymous = request.generation < 0;
        let Some(group) = self.find_group(group_id).map(|group| &self.groups[group]) else {
            return match (anonymous, request.version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND) {
                (true, _) => Ok(None),
                (false, true) => Err(ErrorCode::GroupIdNotFound),
                (false, false) => Err(ErrorCode::IllegalGeneration),
            };
        };
        if anonymous && group.state == State::Empty {
            return Ok(None);
        }
        if anonymous && request.member_id.is_empty() && request.instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        let member = self.identify(group_id, request.member_id, request.instance_id)?;
        if request.generation != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if group.state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(Some(member))
    }

    /// Checks the size of commit metadata in UTF-16 code units, as Java does.
    fn check_metadata(&self, partition: &CommitPartition<'_>) -> ErrorCode {
        let units = partition.metadata.map_or(0, |metadata| metadata.encode_utf16().count());
        if units > self.config.offset_metadata_max_bytes as usize {
            ErrorCode::OffsetMetadataTooLarge
        } else {
            ErrorCode::None
        }
    }

    /// Sets or removes one offset, as a durable record of no transaction says. Pending offsets are from earlier records.
    pub(crate) fn set_offset(
        &mut self,
        now: Now,
        group_id: &str,
        topic: &str,
        partition: i32,
        value: Option<OffsetValue>,
    ) {
        if !self.pending_offsets.is_empty() {
            self.pending_offsets.overwrite(group_id, topic, partition, value.is_some());
        }
        self.store_offset(now, group_id, topic, partition, value);
    }

    /// Stores or removes one offset. The first offset of a missing group creates it.
    // A start stores millions: a call of its own would copy each value once more.
    #[inline]
    pub(crate) fn store_offset(
        &mut self,
        now: Now,
        group_id: &str,
        topic: &str,
        partition: i32,
        value: Option<OffsetValue>,
    ) {
        let is_last = |last: &GroupHandle| self.groups.get(*last).is_some_and(|group| *group.id == *group_id);
        let last = self.last_set.filter(is_last);
        if let Some(value) = value {
            let handle = last.unwrap_or_else(|| self.find_or_insert_simple(now, group_id));
            self.groups[handle].put_offset(topic, partition, value);
            self.last_set = Some(handle);
        } else if let Some(handle) = last.or_else(|| self.find_group(group_id)) {
            self.groups[handle].offsets.remove(topic, partition);
        }
    }

    /// Finds a group, or creates one that only stores offsets.
    pub(crate) fn find_or_insert_simple(&mut self, now: Now, group_id: &str) -> GroupHandle {
        if let Some(handle) = self.find_group(group_id) {
            return handle;
        }
        let group_id: Arc<str> = group_id.into();
        let handle = self.groups.insert(self.simple_group(now, &group_id));
        self.group_ids.insert(group_id, handle);
        handle
    }

    /// Returns a group that has only offsets. While the log is replayed, it has no state timestamp yet (§15.1).
    pub(crate) fn simple_group(&self, now: Now, group_id: &Arc<str>) -> Group {
        let state_timestamp_ms = (self.phase != Phase::Loading).then_some(now.wall_ms);
        Group { durable: true, state_timestamp_ms, ..Group::new(Arc::clone(group_id), now) }
    }

    /// Removes the offsets of deleted topics in any state, with tombstones. Commits in flight get tombstones that
    /// follow them in the log.
    pub(crate) fn forget_topics(&mut self, step: &mut Step<'_>, topics: &[&str]) {
        let gone = |topic: &Arc<str>| topics.contains(&&**topic);
        let mut keys = BTreeSet::new();
        for (group_id, handle) in &self.group_ids {
            let removed = self.groups[*handle].offsets.remove_topics(gone);
            keys.extend(removed.map(|(topic, at)| (Arc::clone(group_id), topic, at)));
        }
        let pending = self.pending_offsets.all().filter(|(_, (topic, _), _)| gone(topic));
        keys.extend(pending.map(|(group_id, (topic, at), _)| (Arc::clone(group_id), Arc::clone(topic), *at)));
        for record in self.appends.values().flat_map(|append| &append.records) {
            if let Record::Offset { group_id, topic, partition, value: Some(_) } = record
                && gone(topic)
            {
                keys.insert((Arc::clone(group_id), Arc::clone(topic), *partition));
            }
        }
        let tombstone = |(group_id, topic, partition)| Record::Offset { group_id, topic, partition, value: None };
        if keys.is_empty() {
            return;
        }
        let tombstones: Vec<Record> = keys.into_iter().map(tombstone).collect();
        let unsaved = self.take_unsaved(&tombstones);
        self.append_unattended(step, unsaved);
        self.append_unattended(step, tombstones);
    }

    /// Answers every partition with the same error.
    pub(crate) fn answer_commit_error(
        step: &mut Step<'_>,
        ticket: Ticket,
        topics: &[CommitTopic<'_>],
        error: ErrorCode,
    ) {
        let topics: Vec<CommittedTopic> = topics
            .iter()
            .map(|topic| CommittedTopic {
                name: topic.name.into(),
                topic_id: topic.topic_id,
                partitions: topic.partitions.iter().map(|partition| (partition.index, error)).collect(),
            })
            .collect();
        step.sink.answer(ticket, Answer::OffsetCommit(CommitAnswer { topics: &topics }));
    }

    /// Answers with the results. A failed append fails every partition of its request.
    pub(crate) fn answer_commit(
        step: &mut Step<'_>,
        ticket: Ticket,
        mut topics: Vec<CommittedTopic>,
        error: Option<ErrorCode>,
    ) {
        if let Some(error) = error {
            for (_, code) in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                *code = error;
            }
        }
        step.sink.answer(ticket, Answer::OffsetCommit(CommitAnswer { topics: &topics }));
    }

    pub(crate) fn offset_fetch(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &OffsetFetch<'_>) {
        let topics = request.topics.map(|topics| topics.iter().map(wanted).collect());
        let fetch = WaitingFetch { ticket, group_id: request.group_id.unwrap_or("").into(), topics };
        let is_stable = request.require_stable;
        match self.newest_write_in_flight(&fetch.group_id) {
            Some(append_id) if is_stable => {
                let deadline = step.now.after(u64::from(self.config.offsets_commit_timeout_ms));
                let operation = Operation::StableFetch(Box::new(fetch));
                self.purgatory.watch(deadline, &[WatchKey::Append(append_id)], operation);
            }
            _ => self.answer_fetch(step, &fetch, is_stable),
        }
    }

    /// Handles `OffsetFetch` of version 9 and later, which identifies its sender (docs/consumer-protocol.md §12).
    pub(crate) fn consumer_offset_fetch(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        request: &ConsumerOffsetFetch<'_>,
    ) {
        let ConsumerOffsetFetch { group_id, require_stable, topics, .. } = *request;
        let group = group_id.and_then(|group_id| self.find_consumer_group(group_id));
        match group.map_or(Ok(()), |group| group.check_fetch(request)) {
            Ok(()) => self.offset_fetch(step, ticket, &OffsetFetch { group_id, require_stable, topics }),
            Err(error) => Self::answer_fetch_error(step, ticket, group_id.unwrap_or(""), error),
        }
    }

    /// Returns the newest requested append in flight that changes offsets of the group.
    fn newest_write_in_flight(&self, group_id: &str) -> Option<AppendId> {
        let writes = |purpose: &Purpose| {
            matches!(
                purpose,
                Purpose::Commit(..) | Purpose::Transactional(_) | Purpose::Delete(..) | Purpose::OffsetDelete(..)
            )
        };
        let mut appends = self.appends.iter().rev();
        let of_group = appends.find(|(_, append)| writes(&append.purpose) && *append.group_id == *group_id);
        of_group.map(|(append_id, _)| *append_id)
    }

    /// Answers with durable offsets. INVARIANT: S25. With `require_stable`, a partition with an offset of an open
    /// transaction has none.
    pub(crate) fn answer_fetch(&self, step: &mut Step<'_>, fetch: &WaitingFetch, require_stable: bool) {
        let waits = require_stable && self.pending_offsets.has_group(&fetch.group_id);
        let is_unstable =
            |topic: &str, index: i32| waits && self.pending_offsets.is_unstable(&fetch.group_id, topic, index);
        let offsets = self.find_group(&fetch.group_id).map(|group| &self.groups[group].offsets);
        let topics: Vec<FetchedTopic<'_>> = match (&fetch.topics, offsets) {
            (Some(topics), offsets) => topics
                .iter()
                .map(|(name, topic_id, partitions)| {
                    let stored = offsets.and_then(|offsets| offsets.topic(name));
                    let is_of_topic = |value: &StoredOffset<'_>| is_same_topic(*topic_id, value.topic_id);
                    let lookup = |index: &i32| {
                        if is_unstable(name, *index) {
                            return unstable(*index);
                        }
                        fetched(*index, stored.and_then(|stored| stored.get(*index)).filter(is_of_topic))
                    };
                    FetchedTopic { name, partitions: partitions.iter().map(lookup).collect() }
                })
                .collect(),
            (None, Some(offsets)) => offsets
                .topics()
                .map(|(name, stored)| {
                    let mut partitions: Vec<FetchedOffset<'_>> =
                        stored.iter().map(|(index, value)| fetched(index, Some(value))).collect();
                    for partition in partitions.iter_mut().filter(|partition| is_unstable(name, partition.index)) {
                        *partition = unstable(partition.index);
                    }
                    FetchedTopic { name, partitions }
                })
                .collect(),
            (None, None) => Vec::new(),
        };
        let answer = FetchAnswer { error: ErrorCode::None, group_id: &fetch.group_id, topics: &topics };
        step.sink.answer(fetch.ticket, Answer::OffsetFetch(answer));
    }

    pub(crate) fn answer_fetch_error(step: &mut Step<'_>, ticket: Ticket, group_id: &str, error: ErrorCode) {
        step.sink.answer(ticket, Answer::OffsetFetch(FetchAnswer { error, group_id, topics: &[] }));
    }
}

fn wanted(topic: &FetchTopic<'_>) -> WantedTopic {
    (topic.name.into(), topic.topic_id, topic.partitions.to_vec())
}

/// Whether the topic id of a request matches the id stored with an offset; 0 is unknown and matches (§11.1).
fn is_same_topic(asked: u128, stored: u128) -> bool {
    asked == 0 || stored == 0 || asked == stored
}

fn offset_value(
    now: Now,
    request: &OffsetCommit<'_>,
    topic: &CommitTopic<'_>,
    partition: &CommitPartition<'_>,
) -> OffsetValue {
    let retention_ms = request.retention_time_ms.filter(|retention_ms| *retention_ms != NO_RETENTION);
    let has_room = retention_ms.is_none();
    OffsetValue {
        offset: partition.offset,
        // A record with an expire timestamp cannot store these two (§14). They would be lost on load, so they are
        // dropped now.
        leader_epoch: if has_room { partition.leader_epoch } else { NO_EPOCH },
        topic_id: if has_room { topic.topic_id } else { 0 },
        metadata: partition.metadata.unwrap_or("").into(),
        commit_timestamp_ms: now.wall_ms,
        expire_timestamp_ms: retention_ms.map(|retention_ms| now.wall_ms.saturating_add(retention_ms)),
    }
}

/// The answer about a partition with an offset of an open transaction.
fn unstable<'a>(index: i32) -> FetchedOffset<'a> {
    FetchedOffset { error: ErrorCode::UnstableOffsetCommit, ..fetched(index, None) }
}

fn fetched(index: i32, value: Option<StoredOffset<'_>>) -> FetchedOffset<'_> {
    FetchedOffset {
        index,
        offset: value.map_or(NO_OFFSET, |value| value.offset),
        leader_epoch: value.map_or(NO_EPOCH, |value| value.leader_epoch),
        metadata: value.map_or("", |value| value.metadata()),
        topic_id: value.map_or(0, |value| value.topic_id),
        error: ErrorCode::None,
    }
}
