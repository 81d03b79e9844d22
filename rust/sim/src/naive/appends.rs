//! What is in flight, and what its end brings about (§4.10, §6.4, §6.6, §10.3).

use std::sync::Arc;

use rota_core::{
    AppendId, ErrorCode, Record, Sink, State, Ticket,
    response::{Answer, CommitAnswer, CommittedTopic, OffsetDeleteAnswer},
};

use super::{
    Append, Deferred, Group, Key, Naive, Purpose, Text, answer_delete, answer_fetch_error, answer_join_error,
    refuse_waiting,
};

/// §6.6, the column of group records.
fn group_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::NotEnoughReplicas | ErrorCode::RequestTimedOut => {
            ErrorCode::CoordinatorNotAvailable
        }
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        other => other,
    }
}

/// §6.6, the column of every other write.
fn write_error(error: ErrorCode) -> ErrorCode {
    if error == ErrorCode::NetworkException { ErrorCode::CoordinatorLoadInProgress } else { group_error(error) }
}

/// What a record speaks of. Records of other types have no place in the naive coordinator.
pub(super) fn key_of(record: &Record) -> Option<Key> {
    match record {
        Record::Offset { group_id, topic, partition, .. } => {
            Some(Key::Offset(Arc::clone(group_id), (Arc::clone(topic), *partition)))
        }
        Record::Group { group_id, .. } => Some(Key::Group(Arc::clone(group_id))),
        Record::Unknown { .. } => None,
    }
}

fn speaks_of(record: &Record, key: &Key) -> bool {
    match (record, key) {
        (Record::Group { group_id, .. }, Key::Group(id)) => group_id == id,
        (Record::Offset { group_id, topic, partition, .. }, Key::Offset(id, (own_topic, own_partition))) => {
            (group_id, topic, partition) == (id, own_topic, own_partition)
        }
        _ => false,
    }
}

impl Naive {
    /// Hands a batch to the log, behind what could not be stored before.
    pub(super) fn append(&mut self, id: &Text, records: Vec<Record>, purpose: Purpose, sink: &mut dyn Sink) -> u64 {
        self.save_unsaved(sink);
        self.append_now(id, records, purpose, sink)
    }

    fn append_now(&mut self, id: &Text, records: Vec<Record>, purpose: Purpose, sink: &mut dyn Sink) -> u64 {
        let append_id = self.next_append;
        self.next_append += 1;
        sink.append(AppendId(append_id), &records);
        let is_awaited = !matches!(purpose, Purpose::Nobody | Purpose::Retention { .. });
        let wait_ms = u64::from(self.config.offsets_commit_timeout_ms);
        let deadline = is_awaited.then(|| self.alarm(wait_ms));
        let append = Append { group_id: Arc::clone(id), records, purpose, deadline, is_late: false };
        self.appends.insert(append_id, append);
        append_id
    }

    pub(super) fn is_in_flight(&self, key: &Key) -> bool {
        let mut records = self.appends.values().flat_map(|append| &append.records);
        records.any(|record| speaks_of(record, key))
    }

    fn save_unsaved(&mut self, sink: &mut dyn Sink) {
        let keys: Vec<Key> = self.unsaved.keys().filter(|key| !self.is_in_flight(key)).cloned().collect();
        let records: Vec<Record> = keys.iter().filter_map(|key| self.unsaved.remove(key)).collect();
        if !records.is_empty() {
            self.append_now(&Text::from(""), records, Purpose::Nobody, sink);
        }
    }

    /// Ends count in the order of the appends.
    pub(super) fn append_ended(&mut self, append_id: u64, error: Option<ErrorCode>, sink: &mut dyn Sink) {
        if !self.appends.contains_key(&append_id) {
            return;
        }
        self.early_ends.entry(append_id).or_insert(error);
        while let Some((oldest, _)) = self.appends.first_key_value() {
            let oldest = *oldest;
            let Some(error) = self.early_ends.remove(&oldest) else { break };
            let append = self.appends.remove(&oldest).expect("it is in flight");
            if let Some(error) = error {
                self.failed(oldest, &append, error, sink);
            } else {
                self.durable(oldest, &append, sink);
            }
            self.wake(oldest, error, sink);
        }
    }

    fn durable(&mut self, append_id: u64, append: &Append, sink: &mut dyn Sink) {
        for record in &append.records {
            if let Some(key) = key_of(record) {
                self.unsaved.remove(&key);
            }
            match record {
                Record::Offset { group_id, topic, partition, value } => {
                    self.store_offset(group_id, topic, *partition, value.as_ref());
                }
                Record::Group { group_id, value: Some(_) } => {
                    if let Some(group) = self.groups.get_mut(group_id) {
                        group.is_durable = true;
                    }
                }
                _ => {}
            }
        }
        // Nothing is held back any more where something is durable (§4.10).
        let held = self.groups.iter().filter(|(_, group)| group.is_held && group.is_durable);
        for id in held.map(|(id, _)| Arc::clone(id)).collect::<Vec<_>>() {
            self.complete_join(&id, sink);
        }
        let id = &append.group_id;
        match &append.purpose {
            Purpose::Creation => self.creation_durable(append_id, id, sink),
            Purpose::Plan { generation, assignments } => {
                if !self.is_awaited_plan(id, append_id, *generation) {
                    return;
                }
                let now = self.clock;
                let group = self.group_mut(id);
                group.assigning = None;
                for member in group.members.values_mut() {
                    member.assignment = assignments.get(&member.id).cloned().unwrap_or_else(|| Arc::from([]));
                }
                group.enter_stable(now);
                self.answer_syncs(id, ErrorCode::None, sink);
            }
            Purpose::Replacement(replaced) => self.replacement_durable(id, replaced, sink),
            Purpose::Commit { ticket, topics } if !append.is_late => {
                sink.answer(*ticket, Answer::OffsetCommit(CommitAnswer { topics }));
            }
            Purpose::OffsetDelete { ticket, topics } if !append.is_late => {
                sink.answer(*ticket, Answer::OffsetDelete(OffsetDeleteAnswer { error: ErrorCode::None, topics }));
            }
            Purpose::Delete { ticket } => {
                if !append.is_late {
                    answer_delete(*ticket, id, ErrorCode::None, sink);
                }
                self.end_group(append_id, id);
            }
            Purpose::Retention { ends } => {
                for id in ends {
                    self.end_group(append_id, id);
                }
            }
            Purpose::Commit { .. } | Purpose::OffsetDelete { .. } | Purpose::Nobody => {}
        }
    }

    fn is_awaited_plan(&self, id: &Text, append_id: u64, generation: i32) -> bool {
        self.groups.get(id).is_some_and(|group| {
            group.state == State::CompletingRebalance
                && group.generation == generation
                && group.assigning == Some(append_id)
        })
    }

    fn creation_durable(&mut self, append_id: u64, id: &Text, sink: &mut dyn Sink) {
        let now = self.clock;
        let group = self.groups.entry(Arc::clone(id)).or_insert_with(|| Group::new(now.mono_ms, now.wall_ms));
        group.is_durable = true;
        if group.creating == Some(append_id) {
            group.creating = None;
        }
        if group.is_held {
            self.complete_join(id, sink);
        }
    }

    fn failed(&mut self, append_id: u64, append: &Append, error: ErrorCode, sink: &mut dyn Sink) {
        match &append.purpose {
            Purpose::Nobody => {
                for record in &append.records {
                    if let Some(key) = key_of(record) {
                        self.unsaved.insert(key, record.clone());
                    }
                }
            }
            Purpose::Retention { ends } => {
                for id in ends {
                    self.deletion_failed(append_id, id);
                }
            }
            Purpose::Delete { .. } => {
                self.tell_failure(append_id, append, error, sink);
                self.deletion_failed(append_id, &append.group_id);
            }
            _ => self.tell_failure(append_id, append, error, sink),
        }
    }

    /// Whoever waits for the append, if anybody does still, hears of its bad end.
    pub(super) fn tell_failure(&mut self, append_id: u64, append: &Append, error: ErrorCode, sink: &mut dyn Sink) {
        if append.is_late {
            return;
        }
        let id = &append.group_id;
        match &append.purpose {
            Purpose::Creation => self.creation_failed(id, error, sink),
            Purpose::Plan { generation, .. } => {
                if self.is_awaited_plan(id, append_id, *generation) {
                    self.plan_failed(id, error, sink);
                }
            }
            Purpose::Replacement(replaced) => {
                self.undo_replacement(id, (append_id, replaced), group_error(error), sink);
            }
            Purpose::Commit { ticket, topics } => {
                let error = write_error(error);
                let told = |topic: &CommittedTopic| CommittedTopic {
                    name: topic.name.clone(),
                    topic_id: topic.topic_id,
                    partitions: topic.partitions.iter().map(|(index, _)| (*index, error)).collect(),
                };
                let topics: Vec<CommittedTopic> = topics.iter().map(told).collect();
                sink.answer(*ticket, Answer::OffsetCommit(CommitAnswer { topics: &topics }));
            }
            Purpose::Delete { ticket } => answer_delete(*ticket, id, write_error(error), sink),
            Purpose::OffsetDelete { ticket, .. } => {
                let answer = OffsetDeleteAnswer { error: write_error(error), topics: &[] };
                sink.answer(*ticket, Answer::OffsetDelete(answer));
            }
            Purpose::Retention { .. } | Purpose::Nobody => {}
        }
    }

    fn creation_failed(&mut self, id: &Text, error: ErrorCode, sink: &mut dyn Sink) {
        let Some(group) = self.groups.get_mut(id) else { return };
        group.creating = None;
        if group.deleting.is_some() {
            return;
        }
        if group.is_durable {
            if group.is_held {
                self.complete_join(id, sink);
            }
            return;
        }
        let group = self.forget_group(id);
        for member in group.members.into_values() {
            if let Some(parked) = member.join {
                answer_join_error(parked.ticket, group_error(error), "", sink);
            }
        }
    }

    /// A group and all its deadlines are gone.
    pub(super) fn forget_group(&mut self, id: &Text) -> Group {
        self.groups.remove(id).expect("a group to forget")
    }

    fn plan_failed(&mut self, id: &Text, error: ErrorCode, sink: &mut dyn Sink) {
        for member in self.group_mut(id).members.values_mut() {
            member.assignment = Arc::from([]);
        }
        self.answer_syncs(id, group_error(error), sink);
        self.begin_rebalance(id, sink);
    }

    /// The deadline of an append that somebody waits for; the records may still arrive.
    pub(super) fn append_deadline_passed(&mut self, append_id: u64, sink: &mut dyn Sink) {
        let append = self.appends[&append_id].clone();
        let is_over = match &append.purpose {
            Purpose::Creation => {
                self.groups.get(&append.group_id).is_none_or(|group| group.creating != Some(append_id))
            }
            _ => false,
        };
        let late = self.appends.get_mut(&append_id).expect("it is in flight");
        late.is_late = true;
        late.deadline = None;
        if !is_over {
            self.tell_failure(append_id, &append, ErrorCode::RequestTimedOut, sink);
        }
        if let Some(Append { purpose: Purpose::Replacement(replaced), .. }) = self.appends.get_mut(&append_id)
            && !replaced.stands
        {
            replaced.is_undone = true;
        }
    }

    /// What waited for the append goes on, in the order in which it came (§11.3, §12.3).
    fn wake(&mut self, append_id: u64, error: Option<ErrorCode>, sink: &mut dyn Sink) {
        let fetches = self.fetches.iter().filter(|(_, fetch)| fetch.awaits.contains(&append_id));
        let deferred = self.after_deletion.iter().filter(|(_, deferred)| deferred.awaits == append_id);
        let mut waiting: Vec<Ticket> =
            fetches.map(|(ticket, _)| *ticket).chain(deferred.map(|(ticket, _)| *ticket)).collect();
        waiting.sort();
        for ticket in waiting {
            if let Some(Deferred { entropy, request, .. }) = self.after_deletion.remove(&ticket) {
                request.with(|request| self.handle(ticket, entropy, request, sink));
                continue;
            }
            let fetch = self.fetches.get_mut(&ticket).expect("it waits");
            fetch.awaits.remove(&append_id);
            if fetch.awaits.is_empty() {
                self.end_fetch(ticket, error, sink);
            }
        }
    }

    /// Ownership is lost: what waits for this append hears of it, a fetch with the newest that it waits for.
    pub(super) fn refuse_waiting_for(&mut self, append_id: u64, sink: &mut dyn Sink) {
        let fetches = self.fetches.iter().filter(|(_, fetch)| fetch.awaits.last() == Some(&append_id));
        let deferred = self.after_deletion.iter().filter(|(_, deferred)| deferred.awaits == append_id);
        let mut waiting: Vec<Ticket> =
            fetches.map(|(ticket, _)| *ticket).chain(deferred.map(|(ticket, _)| *ticket)).collect();
        waiting.sort();
        for ticket in waiting {
            if let Some(deferred) = self.after_deletion.remove(&ticket) {
                refuse_waiting(ticket, &deferred.request, ErrorCode::NotCoordinator, sink);
            } else if let Some(fetch) = self.fetches.remove(&ticket) {
                answer_fetch_error(ticket, &fetch.group_id, ErrorCode::NotCoordinator, sink);
            }
        }
    }

    fn end_fetch(&mut self, ticket: Ticket, error: Option<ErrorCode>, sink: &mut dyn Sink) {
        let fetch = self.fetches.remove(&ticket).expect("it waits");
        match error.map(write_error) {
            Some(ErrorCode::CoordinatorNotAvailable) => {
                answer_fetch_error(ticket, &fetch.group_id, ErrorCode::NotCoordinator, sink);
            }
            Some(error) => answer_fetch_error(ticket, &fetch.group_id, error, sink),
            None => self.answer_fetch(ticket, &fetch.group_id, fetch.topics.as_deref(), sink),
        }
    }
}
