//! Appends in flight: what each is for, and what its end, failure or delay means (docs/protocol.md §6.4, §10.3).

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
};

/// Appends that nobody waits for stay below this size, so that they fit any log that takes ordinary ones.
pub const UNATTENDED_BYTES_MAX: usize = 256 * 1024;

/// What a record is besides its strings, generously.
const RECORD_OVERHEAD_BYTES: usize = 128;

/// About how much a tombstone takes.
pub fn record_bytes(record: &Record) -> usize {
    record.key_bytes().len() + RECORD_OVERHEAD_BYTES
}

impl Coordinator {
    /// Sends records to the log as one batch, behind those that an earlier append failed to store.
    pub(crate) fn append(
        &mut self,
        step: &mut Step<'_>,
        group_id: Arc<str>,
        purpose: Purpose,
        records: Vec<Record>,
    ) -> AppendId {
        let unsaved = self.take_unsaved();
        self.append_unattended(step, unsaved);
        self.append_batch(step, group_id, purpose, records)
    }

    /// Sends records that nobody waits for, in batches of a bounded size: each stands or fails for itself.
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
        step.sink.append(append_id, &records);
        self.appends.insert(append_id, Append { group_id, purpose, records, deadline });
        append_id
    }

    /// The log has spoken. INVARIANT: S31, ends count in the order of the appends, whatever order they come in.
    pub(crate) fn append_ended(&mut self, step: &mut Step<'_>, append_id: AppendId, error: Option<ErrorCode>) {
        if !self.appends.contains_key(&append_id) {
            return;
        }
        self.early_ends.insert(append_id, error);
        while let Some(oldest) = self.appends.keys().next().copied()
            && let Some(error) = self.early_ends.remove(&oldest)
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

    /// It takes too long: whoever waits is told so. It may still become durable, and then counts (§10.3).
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

    /// What earlier appends failed to store, but for what an append in flight speaks of: written after that, it would
    /// undo it.
    pub(crate) fn take_unsaved(&mut self) -> Vec<Record> {
        if self.unsaved.is_empty() {
            return Vec::new();
        }
        let in_flight: BTreeSet<RecordKey> =
            self.appends.values().flat_map(|append| &append.records).map(RecordKey::of).collect();
        let ready = self.unsaved.extract_if(.., |key, _| !in_flight.contains(key));
        ready.map(|(_, record)| record).collect()
    }

    /// Keeps what nobody waits for and the log refused, for the next append.
    fn keep_unsaved(&mut self, append: &Append) {
        if matches!(append.purpose, Purpose::Unattended) {
            self.unsaved.extend(append.records.iter().map(|record| (RecordKey::of(record), record.clone())));
        }
    }

    /// Durable offsets and tombstones are seen from now on; what they speak of need not be written again. Returns the
    /// groups whose join phase waited for just this: that the log has anything of them.
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

    /// The record of a new group is in the log, or is not (§4.10).
    fn group_created(
        &mut self,
        step: &mut Step<'_>,
        append_id: AppendId,
        handle: GroupHandle,
        group_id: &Arc<str>,
        error: Option<ErrorCode>,
    ) {
        let Some(group) = self.groups.get_mut(handle).filter(|group| group.creating == Some(append_id)) else {
            if error.is_none() {
                // A group whose creation took too long is in the log after all: it exists, without members, and if it was
                // made again meanwhile, the log has something of it (S22).
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
            // Its deletion, on the way, decides what becomes of it.
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

    /// Takes a group out of memory; whoever is parked in it gets `error`, with its own id if it is to come back.
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

    /// Removes a group with its members, pending ids and deadlines, and returns its members in joining order, with what
    /// they had parked.
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

    /// Goes on with what waited for the end of this append: fetches (§11.3), and what met a deletion (§12.3).
    fn end_waits(&mut self, step: &mut Step<'_>, append_id: AppendId, error: Option<ErrorCode>) {
        for operation in self.purgatory.check(&WatchKey::Append(append_id)) {
            match (self.purgatory.complete(operation), error) {
                (Some(Operation::StableFetch(fetch)), None) => self.answer_fetch(step, &fetch),
                (Some(Operation::StableFetch(fetch)), Some(error)) => {
                    Self::answer_fetch_error(step, fetch.ticket, &fetch.group_id, error.for_stable_fetch());
                }
                (Some(Operation::AfterDeletion(deferred)), _) => self.resume(step, &deferred),
                _ => {}
            }
        }
    }

    /// The same when ownership is lost.
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

    /// Everybody who waits for anything is told that this is not the coordinator any more (§15.2).
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
                Purpose::Delete(_, Some(ticket)) => answer_delete(step, ticket, &append.group_id, error),
                Purpose::OffsetDelete(Some(ticket), _) => answer_offset_delete_error(step, ticket, error),
                _ => {}
            }
            self.refuse_waits(step, append_id);
        }
        *self = Coordinator { phase: Phase::Unloaded, ..self.without_state() };
    }
}
