//! `DeleteGroups` and `OffsetDelete` (docs/protocol.md §12.3, §12.4): tombstones, and the requests that wait for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    coordinator::Coordinator,
    effects::{AppendId, Step},
    error::ErrorCode,
    group::GroupHandle,
    in_flight::{Purpose, RecordKey},
    join::JoinRefusal,
    operations::{Asked, Deferred, Operation, WatchKey},
    records::Record,
    request::{DeleteGroup, Entropy, OffsetDelete, OffsetDeleteTopic, Ticket},
    response::{Answer, DeleteAnswer, OffsetDeleteAnswer, OffsetDeletedTopic},
    states::State,
    stored_offsets::StoredOffsets,
};

impl Coordinator {
    pub(crate) fn delete_group(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &DeleteGroup<'_>) {
        let group_id = request.group_id.unwrap_or("");
        if self.consumer_groups.contains_key(group_id) {
            return self.delete_consumer_group(step, ticket, group_id);
        }
        let Some(handle) = self.find_group(group_id) else {
            return answer_delete(step, ticket, group_id, ErrorCode::GroupIdNotFound);
        };
        let group = &self.groups[handle];
        let group_id = Arc::clone(&group.id);
        if let Some(deletion) = group.deleting {
            let deferred = Deferred { ticket, group_id, asked: Asked::DeleteGroup };
            return self.defer(step, deletion, deferred);
        }
        if group.state != State::Empty {
            return answer_delete(step, ticket, &group_id, ErrorCode::NonEmptyGroup);
        }
        let mut records = tombstones(&group_id, self.offsets_in_log(&group_id));
        records.push(Record::Group { group_id: Arc::clone(&group_id), value: None });
        let append_id = self.append(step, group_id, Purpose::Delete(handle, Some(ticket)), records);
        self.groups[handle].deleting = Some(append_id);
    }

    pub(crate) fn offset_delete(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &OffsetDelete<'_>) {
        let consumer_group = request.group_id.and_then(|group_id| self.find_consumer_group(group_id));
        let group = self.find_group(request.group_id.unwrap_or("")).map(|handle| &self.groups[handle]);
        // While its first commit is in flight, a consumer group has no entry for offsets.
        let Some(group_id) = group.map(|group| &group.id).or(consumer_group.map(|group| &group.id)) else {
            return answer_offset_delete_error(step, ticket, ErrorCode::GroupIdNotFound);
        };
        let group_id = Arc::clone(group_id);
        if let Some(deletion) = group.and_then(|group| group.deleting) {
            let owned = |topic: &OffsetDeleteTopic<'_>| (Arc::from(topic.name), topic.partitions.to_vec());
            let asked = Asked::OffsetDelete(request.topics.iter().map(owned).collect());
            return self.defer(step, deletion, Deferred { ticket, group_id, asked });
        }
        if group.is_some_and(|group| group.state != State::Empty && !group.is_consumer()) {
            return answer_offset_delete_error(step, ticket, ErrorCode::NonEmptyGroup);
        }
        let in_log = self.offsets_in_log(&group_id);
        let is_subscribed = |topic: &str| {
            group.is_some_and(|group| group.subscribes(topic))
                || consumer_group.is_some_and(|group| group.subscribes_to(topic))
        };
        // A request may name a topic many times, and the members are looked at for each name.
        let mut known: BTreeMap<&str, bool> = BTreeMap::new();
        let mut doomed = BTreeSet::new();
        let mut results = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let subscribes = *known.entry(topic.name).or_insert_with(|| is_subscribed(topic.name));
            let error = if subscribes { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
            if error == ErrorCode::None {
                let name: Arc<str> = topic.name.into();
                let places = topic.partitions.iter().map(|partition| (Arc::clone(&name), *partition));
                doomed.extend(places.filter(|place| in_log.contains(place)));
            }
            let partitions = topic.partitions.iter().map(|partition| (*partition, error)).collect();
            results.push(OffsetDeletedTopic { name: topic.name.into(), partitions });
        }
        if doomed.is_empty() {
            return answer_offset_delete(step, ticket, &results);
        }
        let records = tombstones(&group_id, doomed);
        self.append(step, group_id, Purpose::OffsetDelete(Some(ticket), results), records);
    }

    /// Returns every offset of the group that is durable, in an append in flight, or still in the log because its
    /// tombstone was not stored. INVARIANT: S29, none of them returns after a deletion.
    pub(crate) fn offsets_in_log(&self, group_id: &Arc<str>) -> BTreeSet<(Arc<str>, i32)> {
        let stored = self.find_group(group_id).map(|handle| &self.groups[handle].offsets);
        let mut places: BTreeSet<_> = stored
            .into_iter()
            .flat_map(StoredOffsets::iter)
            .map(|(topic, partition, _)| (Arc::clone(topic), partition))
            .collect();
        for record in self.appends.values().flat_map(|append| &append.records) {
            if let Record::Offset { group_id: of, topic, partition, .. } = record
                && of == group_id
            {
                places.insert((Arc::clone(topic), *partition));
            }
        }
        places.extend(self.unsaved_offsets(group_id));
        places.extend(self.pending_offsets.places(group_id).cloned());
        places
    }

    /// Returns offsets of a group about which the log may differ from memory, because an append failed.
    pub(crate) fn unsaved_offsets(&self, group_id: &Arc<str>) -> impl Iterator<Item = (Arc<str>, i32)> {
        let first = RecordKey::Offset(Arc::clone(group_id), "".into(), i32::MIN);
        self.unsaved.range(first..).map_while(move |(key, _)| match key {
            RecordKey::Offset(of, topic, partition) if of == group_id => Some((Arc::clone(topic), *partition)),
            _ => None,
        })
    }

    /// Keeps a request until the deletion of its group completes.
    pub(crate) fn defer(&mut self, step: &Step<'_>, deletion: AppendId, deferred: Deferred) {
        let deadline = step.now.after(u64::from(self.config.offsets_commit_timeout_ms));
        let operation = Operation::AfterDeletion(Box::new(deferred));
        self.purgatory.watch(deadline, &[WatchKey::Append(deletion)], operation);
    }

    /// Handles a deferred request again after the deletion completed, as if it arrived now.
    pub(crate) fn resume(&mut self, step: &mut Step<'_>, deferred: &Deferred) {
        let group_id = &*deferred.group_id;
        match &deferred.asked {
            Asked::Join(join) => {
                let offers = join.offers();
                let request = join.request(group_id, &offers);
                self.join_group(step, deferred.ticket, Entropy(join.entropy), &request);
            }
            Asked::DeleteGroup => {
                self.delete_group(step, deferred.ticket, &DeleteGroup { group_id: Some(group_id) });
            }
            Asked::OffsetDelete(topics) => {
                let topics: Vec<OffsetDeleteTopic<'_>> =
                    topics.iter().map(|(name, partitions)| OffsetDeleteTopic { name, partitions }).collect();
                let request = OffsetDelete { group_id: Some(group_id), topics: &topics };
                self.offset_delete(step, deferred.ticket, &request);
            }
        }
    }

    /// Completes a deletion. On success the group and all offsets before the tombstones are gone; on failure nothing
    /// changes.
    pub(crate) fn deletion_ended(&mut self, append_id: AppendId, handle: GroupHandle, error: Option<ErrorCode>) {
        let Some(group) = self.groups.get_mut(handle).filter(|group| group.deleting == Some(append_id)) else {
            return;
        };
        group.deleting = None;
        // The creation of this group failed meanwhile. Only the deletion kept it in memory.
        let never_was = !group.durable && group.creating.is_none();
        if error.is_none() || never_was {
            self.remove_group(handle);
        }
    }
}

/// Returns tombstones for these offsets of a group.
pub(crate) fn tombstones(group_id: &Arc<str>, places: impl IntoIterator<Item = (Arc<str>, i32)>) -> Vec<Record> {
    let tombstone =
        |(topic, partition)| Record::Offset { group_id: Arc::clone(group_id), topic, partition, value: None };
    places.into_iter().map(tombstone).collect()
}

/// Refuses a request that waited for a deletion: it timed out, or ownership is lost.
pub(crate) fn refuse_deferred(step: &mut Step<'_>, deferred: &Deferred, error: ErrorCode) {
    match &deferred.asked {
        Asked::Join(join) => JoinRefusal { error, member_id: &join.member_id }.answer(step, deferred.ticket),
        Asked::DeleteGroup => answer_delete(step, deferred.ticket, &deferred.group_id, error),
        Asked::OffsetDelete(_) => answer_offset_delete_error(step, deferred.ticket, error),
    }
}

pub(crate) fn answer_delete(step: &mut Step<'_>, ticket: Ticket, group_id: &str, error: ErrorCode) {
    step.sink.answer(ticket, Answer::DeleteGroup(DeleteAnswer { error, group_id }));
}

pub(crate) fn answer_offset_delete(step: &mut Step<'_>, ticket: Ticket, topics: &[OffsetDeletedTopic]) {
    step.sink.answer(ticket, Answer::OffsetDelete(OffsetDeleteAnswer { error: ErrorCode::None, topics }));
}

pub(crate) fn answer_offset_delete_error(step: &mut Step<'_>, ticket: Ticket, error: ErrorCode) {
    step.sink.answer(ticket, Answer::OffsetDelete(OffsetDeleteAnswer { error, topics: &[] }));
}
