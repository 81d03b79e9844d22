//! Appends in flight: what each is for, and the effect of its completion, failure or delay (docs/protocol.md §6.4,
//! §10.3).

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    coordinator::{Coordinator, Phase},
    deletes::{answer_delete, answer_offset_delete, answer_offset_delete_error, refuse_deferred},
    effects::{AppendId, Step},
    error::ErrorCode,
    group::{GroupHandle, Member, Parked},
    in_flight::{Append, Purpose, RecordKey, Replacement},
    join::JoinRefusal,
    operations::{Operation, WatchKey},
    records::Record,
    request::Now,
    response::Answer,
    states::State,
};

/// Size limit of appends without a waiting request, in bytes. Every log that accepts ordinary appends accepts these.
pub const UNATTENDED_BYTES_MAX: usize = 256 * 1024;

/// Upper estimate of a record's size without its strings, in bytes.
const RECORD_OVERHEAD_BYTES: usize = 128;

/// Returns the approximate size of an offset, a tombstone or a group without members, in bytes.
pub fn record_bytes(record: &Record) -> usize {
    let metadata_bytes = match record {
        Record::Offset { value: Some(value), .. } => value.metadata.len(),
        _ => 0,
    };
    record.key_bytes().len() + metadata_bytes + RECORD_OVERHEAD_BYTES
}

impl Coordinator {
    /// Appends records as one batch, after the records that an earlier append failed to store.
    pub(crate) fn append(
        &mut self,
        step: &mut Step<'_>,
        group_id: Arc<str>,
        purpose: Purpose,
        records: Vec<Record>,
    ) -> AppendId {
        let unsaved = self.take_unsaved(&records);
        self.append_unattended(step, unsaved);
        self.append_batch(step, group_id, purpose, records)
    }

    /// Appends records without a waiting request, in batches of a bounded size. Each batch succeeds or fails alone.
    pub(crate) fn append_unattended(&mut self, step: &mut Step<'_>, records: Vec<Record>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for record in records {
            let record_bytes = record_bytes(&record);
            if bytes + record_bytes > UNATTENDED_BYTES_MAX && !batch.is_empty() {
                self.append_batch(step, "".into(), Purpose::Unattended, std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += record_bytes;
            batch.push(record);
        }
        if !batch.is_empty() {
            self.append_batch(step, "".into(), Purpose::Unattended, batch);
        }
    }

    fn append_batch(
        &mut self,
        step: &mut Step<'_>,
        group_id: Arc<str>,
        purpose: Purpose,
        records: Vec<Record>,
    ) -> AppendId {
        let append_id = self.next_append;
        self.next_append = AppendId(append_id.0 + 1);
        let deadline = purpose.is_awaited().then(|| {
            let deadline = step.now.after(u64::from(self.config.offsets_commit_timeout_ms));
            self.purgatory.watch(deadline, &[], Operation::Append(append_id))
        });
        match purpose.transaction() {
            None => step.sink.append(append_id, &records),
            Some(batch) => step.sink.append_in_transaction(append_id, batch, &records),
        }
        self.appends.insert(append_id, Append { group_id, purpose, records, deadline });
        append_id
    }

    /// Applies the result of an append. INVARIANT: S31, completions apply in append order.
    pub(crate) fn complete_append(&mut self, step: &mut Step<'_>, append_id: AppendId, error: Option<ErrorCode>) {
        if !self.appends.contains_key(&append_id) {
            return;
        }
        self.early_completions.insert(append_id, error);
        while let Some(oldest) = self.appends.keys().next().copied()
            && let Some(error) = self.early_completions.remove(&oldest)
            && let Some(append) = self.appends.remove(&oldest)
        {
            self.end_append(step, oldest, append, error);
        }
    }

    fn end_append(&mut self, step: &mut Step<'_>, append_id: AppendId, append: Append, error: Option<ErrorCode>) {
        if let Some(deadline) = append.deadline {
            self.purgatory.complete(deadline);
        }
        match error {
            Some(_) => self.keep_unsaved(&append),
            // Their marker decides about them.
            None if matches!(append.purpose, Purpose::Transactional(_)) => {}
            None => {
                for handle in self.apply_offsets(step.now, &append.records) {
                    self.complete_join(step, handle);
                }
            }
        }
        match append.purpose {
            Purpose::NewGroup(group) => self.group_created(step, append_id, group, &append.group_id, error),
            Purpose::Assignment(group) if self.is_assigning(group, append_id) => self.plan_stored(step, group, error),
            Purpose::Assignment(_) | Purpose::Unattended => {}
            Purpose::Replacement(replacement) => self.replacement_stored(step, append_id, *replacement, error),
            Purpose::Abandoned(group) => self.abandoned_replacement_ended(step, group, error),
            Purpose::Commit(ticket, topics) => {
                if let Some(ticket) = ticket {
                    Self::answer_commit(step, ticket, topics, error.map(ErrorCode::for_offset_append));
                }
            }
            Purpose::Transactional(commit) => {
                if error.is_none() {
                    self.add_pending(step, commit.producer, append.records);
                }
                if let Some(ticket) = commit.ticket {
                    Self::answer_commit(step, ticket, commit.topics, error.map(ErrorCode::for_offset_append));
                }
            }
            Purpose::Marker(ticket, end) => {
                if error.is_none() {
                    self.transaction_ended(step.now, end.producer_id, end.is_commit);
                }
                if let Some(ticket) = ticket {
                    let error = error.map_or(ErrorCode::None, ErrorCode::for_offset_append);
                    step.sink.answer(ticket, Answer::WriteTxnMarker(error));
                }
            }
            Purpose::Consumer => self.consumer_write_ended(step, append_id, &append.group_id, error),
            Purpose::Delete(group, ticket) => {
                self.deletion_ended(append_id, group, error);
                if let Some(ticket) = ticket {
                    let error = error.map_or(ErrorCode::None, ErrorCode::for_offset_append);
                    answer_delete(step, ticket, &append.group_id, error);
                }
            }
            Purpose::OffsetDelete(ticket, topics) => {
                if let Some(ticket) = ticket {
                    match error {
                        None => answer_offset_delete(step, ticket, &topics),
                        Some(error) => answer_offset_delete_error(step, ticket, error.for_offset_append()),
                    }
                }
            }
            Purpose::Retention(groups) => {
                for group in groups {
                    self.deletion_ended(append_id, group, error);
                }
            }
        }
        self.end_waits(step, append_id, error);
    }

    /// Times out an append: every waiting request gets an error. The append may still become durable and then applies
    /// (§10.3).
    pub(crate) fn append_deadline_passed(&mut self, step: &mut Step<'_>, append_id: AppendId) {
        let append = self.appends.get_mut(&append_id).expect("an append in flight has the deadline");
        append.deadline = None;
        let error = Some(ErrorCode::RequestTimedOut);
        match &mut append.purpose {
            Purpose::NewGroup(group) => {
                let group = *group;
                let group_id = Arc::clone(&append.group_id);
                self.group_created(step, append_id, group, &group_id, error);
            }
            Purpose::Assignment(group) => {
                let group = *group;
                if self.is_assigning(group, append_id) {
                    self.plan_stored(step, group, error);
                }
            }
            Purpose::Replacement(replacement) => {
                let replacement = Replacement::clone(replacement);
                append.purpose = Purpose::Abandoned(replacement.predecessor.group);
                self.replacement_stored(step, append_id, replacement, error);
            }
            Purpose::Consumer => {
                let group_id = Arc::clone(&append.group_id);
                self.consumer_write_late(step, append_id, &group_id);
            }
            Purpose::Commit(ticket, topics) => {
                if let Some(ticket) = ticket.take() {
                    let topics = topics.clone();
                    Self::answer_commit(step, ticket, topics, error.map(ErrorCode::for_offset_append));
                }
            }
            Purpose::Transactional(commit) => {
                if let Some(ticket) = commit.ticket.take() {
                    let topics = commit.topics.clone();
                    Self::answer_commit(step, ticket, topics, error.map(ErrorCode::for_offset_append));
                }
            }
            Purpose::Marker(ticket, _) => {
                if let Some(ticket) = ticket.take() {
                    let error = ErrorCode::RequestTimedOut.for_offset_append();
                    step.sink.answer(ticket, Answer::WriteTxnMarker(error));
                }
            }
            Purpose::Delete(_, ticket) => {
                if let Some(ticket) = ticket.take() {
                    answer_delete(step, ticket, &append.group_id, ErrorCode::RequestTimedOut.for_offset_append());
                }
            }
            Purpose::OffsetDelete(ticket, _) => {
                if let Some(ticket) = ticket.take() {
                    answer_offset_delete_error(step, ticket, ErrorCode::RequestTimedOut.for_offset_append());
                }
            }
            Purpose::Abandoned(_) | Purpose::Unattended | Purpose::Retention(_) => {}
        }
    }

    /// Takes the records that earlier appends failed to store. Records that an append in flight supersedes, or that `next`
    /// is about to delete, stay: written after that append, they would undo it.
    pub(crate) fn take_unsaved(&mut self, next: &[Record]) -> Vec<Record> {
        if self.unsaved.is_empty() {
            return Vec::new();
        }
        let in_flight = self.appends.values().flat_map(|append| &append.records);
        let deleted = next.iter().filter(|record| record.is_tombstone());
        let newer: BTreeSet<RecordKey> = in_flight.chain(deleted).map(RecordKey::of).collect();
        let ready = self.unsaved.extract_if(.., |key, _| !newer.contains(key));
        ready.map(|(_, record)| record).collect()
    }

    /// Keeps for the next append what the log may lack after this one failed. An error does not prove that the log
    /// stored nothing: it may have each tombstone, while memory still has what the tombstone deletes.
    fn keep_unsaved(&mut self, append: &Append) {
        if matches!(append.purpose, Purpose::Unattended) {
            self.unsaved.extend(append.records.iter().map(|record| (RecordKey::of(record), record.clone())));
            return;
        }
        let behind: Vec<Record> = append.records.iter().filter_map(|record| self.record_behind(record)).collect();
        for record in behind {
            self.unsaved.entry(RecordKey::of(&record)).or_insert(record);
        }
    }

    /// Returns what memory has under the key of a tombstone whose append failed.
    fn record_behind(&self, tombstone: &Record) -> Option<Record> {
        match tombstone {
            Record::Offset { group_id, topic, partition, value: None } => {
                let group = &self.groups[self.find_group(group_id)?];
                let value = group.offsets.get(topic, *partition)?.to_value();
                let (group_id, topic) = (Arc::clone(group_id), Arc::clone(topic));
                Some(Record::Offset { group_id, topic, partition: *partition, value: Some(value) })
            }
            Record::Group { group_id, value: None } => {
                let group = &self.groups[self.find_group(group_id)?];
                let is_settled = group.durable && group.state == State::Empty;
                is_settled.then(|| Record::Group { group_id: Arc::clone(group_id), value: Some(group.empty_record()) })
            }
            _ => None,
        }
    }

    /// Applies durable offsets and tombstones, and drops unsaved records that they supersede. Returns the groups whose
    /// join phase waited for their first durable record.
    fn apply_offsets(&mut self, now: Now, records: &[Record]) -> Vec<GroupHandle> {
        let mut released = Vec::new();
        for record in records {
            if !self.unsaved.is_empty() {
                self.unsaved.remove(&RecordKey::of(record));
            }
            if let Record::Offset { group_id, topic, partition, value } = record {
                self.set_offset(now, group_id, topic, *partition, value.clone());
                let held = |handle: &GroupHandle| self.groups[*handle].join_held && self.groups[*handle].durable;
                released.extend(self.find_group(group_id).filter(held).filter(|handle| !released.contains(handle)));
            }
        }
        released
    }

    fn is_assigning(&self, group: GroupHandle, append_id: AppendId) -> bool {
        let group = self.groups.get(group);
        group.and_then(|group| group.assigning.as_ref()).is_some_and(|assigning| assigning.append_id == append_id)
    }

    /// Applies the result of the record of a new group (§4.10).
    fn group_created(
        &mut self,
        step: &mut Step<'_>,
        append_id: AppendId,
        handle: GroupHandle,
        group_id: &Arc<str>,
        error: Option<ErrorCode>,
    ) {
        let Some(group) = self.groups.get_mut(handle).filter(|group| group.creating == Some(append_id)) else {
            if error.is_none() && (self.find_group(group_id).is_some() || !self.is_ending(group_id)) {
                // The record of a group whose creation timed out became durable: the group exists without members. If
                // it was created again meanwhile, it is durable now (S22).
                let handle = self.find_or_insert_simple(step.now, group_id);
                self.groups[handle].durable = true;
                if self.groups[handle].join_held {
                    self.complete_join(step, handle);
                }
            }
            return;
        };
        group.creating = None;
        match error {
            // The deletion in flight decides about the group.
            Some(_) if group.deleting.is_some() => {}
            Some(error) if !group.durable => self.dissolve(step, handle, error.for_group_append(), false),
            _ => {
                group.durable = true;
                if group.join_held {
                    self.complete_join(step, handle);
                }
            }
        }
    }

    /// Whether an append in flight deletes a classic group, as that of a conversion does.
    fn is_ending(&self, group_id: &Arc<str>) -> bool {
        let ends = |record: &Record| matches!(record, Record::Group { group_id: id, value: None } if id == group_id);
        self.appends.values().flat_map(|append| &append.records).any(ends)
    }

    /// Removes a group from memory and answers its parked requests with `error`. A sender that is to retry gets its own
    /// id back.
    fn dissolve(&mut self, step: &mut Step<'_>, handle: GroupHandle, error: ErrorCode, echo: bool) {
        for member in self.remove_group(handle) {
            match member.parked {
                Some(Parked::Join { ticket, .. }) => {
                    let member_id = if echo { &*member.id } else { "" };
                    JoinRefusal { error, member_id }.answer(step, ticket);
                }
                Some(Parked::Sync { ticket }) => Self::answer_sync_error(step, ticket, error),
                None => {}
            }
        }
    }

    /// Removes a group with its members, pending ids and deadlines. Returns its members in joining order, with their
    /// parked requests.
    pub(crate) fn remove_group(&mut self, handle: GroupHandle) -> Vec<Member> {
        self.end_join_deadline(handle);
        let pending: Vec<Arc<str>> = self.groups[handle].pending.keys().cloned().collect();
        for member_id in pending {
            self.remove_pending(handle, &member_id);
        }
        let members: Vec<_> = self.groups[handle].joined.values().copied().collect();
        let removed = members.into_iter().map(|member| self.remove_member(member)).collect();
        let group = self.groups.release(handle).expect("the caller found this group");
        self.group_ids.remove(&group.id);
        removed
    }

    /// Resumes the requests that waited for this append: fetches (§11.3) and requests that met a deletion (§12.3).
    fn end_waits(&mut self, step: &mut Step<'_>, append_id: AppendId, error: Option<ErrorCode>) {
        for operation in self.purgatory.check(&WatchKey::Append(append_id)) {
            match (self.purgatory.complete(operation), error) {
                (Some(Operation::StableFetch(fetch)), None) => self.answer_fetch(step, &fetch, true),
                (Some(Operation::StableFetch(fetch)), Some(error)) => {
                    Self::answer_fetch_error(step, fetch.ticket, &fetch.group_id, error.for_stable_fetch());
                }
                (Some(Operation::AfterDeletion(deferred)), _) => self.resume(step, &deferred),
                _ => {}
            }
        }
    }

    /// Refuses the requests that waited for this append, when ownership is lost.
    fn refuse_waits(&mut self, step: &mut Step<'_>, append_id: AppendId) {
        let error = ErrorCode::NotCoordinator;
        for operation in self.purgatory.check(&WatchKey::Append(append_id)) {
            match self.purgatory.complete(operation) {
                Some(Operation::StableFetch(fetch)) => {
                    Self::answer_fetch_error(step, fetch.ticket, &fetch.group_id, error);
                }
                Some(Operation::AfterDeletion(deferred)) => refuse_deferred(step, &deferred, error),
                _ => {}
            }
        }
    }

    /// Answers every waiting request with `NOT_COORDINATOR` (§15.2).
    pub(crate) fn unload_all(&mut self, step: &mut Step<'_>) {
        let error = ErrorCode::NotCoordinator;
        self.unload_consumer_groups(step);
        let handles: Vec<GroupHandle> = self.group_ids.values().copied().collect();
        for handle in handles {
            self.dissolve(step, handle, error, true);
        }
        for (append_id, append) in std::mem::take(&mut self.appends) {
            match append.purpose {
                Purpose::Commit(Some(ticket), topics) => Self::answer_commit(step, ticket, topics, Some(error)),
                Purpose::Transactional(commit) => {
                    if let Some(ticket) = commit.ticket {
                        Self::answer_commit(step, ticket, commit.topics, Some(error));
                    }
                }
                Purpose::Marker(Some(ticket), _) => step.sink.answer(ticket, Answer::WriteTxnMarker(error)),
                Purpose::Delete(_, Some(ticket)) => answer_delete(step, ticket, &append.group_id, error),
                Purpose::OffsetDelete(Some(ticket), _) => answer_offset_delete_error(step, ticket, error),
                _ => {}
            }
            self.refuse_waits(step, append_id);
        }
        *self = Coordinator { phase: Phase::Unloaded, ..self.without_state() };
    }
}
