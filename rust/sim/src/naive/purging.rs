//! `DeleteGroups`, `OffsetDelete`, retention and deleted topics (§12.3, §12.4, §13).

use std::{collections::BTreeSet, sync::Arc};

use rota_core::{
    Entropy, ErrorCode, Now, Phase, Record, Request, Sink, State, Ticket,
    records::OffsetValue,
    request::{DeleteGroup, JoinGroup, OffsetDelete},
    response::{Answer, OffsetDeleteAnswer, OffsetDeletedTopic},
};
use rota_journal::owned;

use super::{Deferred, Group, Key, Naive, Purpose, Text, answer_delete, appends::key_of};

const MINUTE_MS: i64 = 60_000;

fn tombstone(id: &Text, (topic, partition): &(Text, i32)) -> Record {
    Record::Offset { group_id: Arc::clone(id), topic: Arc::clone(topic), partition: *partition, value: None }
}

impl Naive {
    /// Parks a request to a group whose end is on its way (§12.3).
    pub(super) fn waits_for_deletion(&mut self, ticket: Ticket, entropy: Entropy, request: &Request<'_>) -> bool {
        let (Request::JoinGroup(JoinGroup { group_id, .. })
        | Request::OffsetDelete(OffsetDelete { group_id, .. })
        | Request::DeleteGroup(DeleteGroup { group_id, .. })) = request
        else {
            return false;
        };
        let Some(awaits) = group_id.and_then(|id| self.groups.get(id)?.deleting) else { return false };
        let request = owned::Request::from(request);
        let deadline = self.alarm(u64::from(self.config.offsets_commit_timeout_ms));
        self.after_deletion.insert(ticket, Deferred { awaits, entropy, request, deadline });
        true
    }

    /// The tombstones of a group are durable.
    pub(super) fn end_group(&mut self, append_id: u64, id: &Text) {
        if self.groups.get(id).is_some_and(|group| group.deleting == Some(append_id)) {
            self.forget_group(id);
        }
    }

    /// They are not: the group stays, unless it was only kept for this, its own record having failed.
    pub(super) fn deletion_failed(&mut self, append_id: u64, id: &Text) {
        let Some(group) = self.groups.get_mut(id).filter(|group| group.deleting == Some(append_id)) else { return };
        group.deleting = None;
        if !group.is_durable && group.creating.is_none() {
            self.forget_group(id);
        }
    }

    /// The partitions that an append in flight will store an offset for, or deletes.
    fn spoken_of(&self, id: &Text) -> BTreeSet<(Text, i32)> {
        let records = self.appends.values().flat_map(|append| &append.records);
        records
            .filter_map(|record| match record {
                Record::Offset { group_id, topic, partition, .. } if group_id == id => {
                    Some((Arc::clone(topic), *partition))
                }
                _ => None,
            })
            .collect()
    }

    pub(super) fn delete_group(&mut self, ticket: Ticket, delete: &DeleteGroup<'_>, sink: &mut dyn Sink) {
        let id = self.shared(delete.group_id);
        let Some(group) = self.groups.get(&id) else {
            answer_delete(ticket, &id, ErrorCode::GroupIdNotFound, sink);
            return;
        };
        if group.state != State::Empty {
            answer_delete(ticket, &id, ErrorCode::NonEmptyGroup, sink);
            return;
        }
        let mut records = self.tombstones_of(&id);
        records.push(Record::Group { group_id: Arc::clone(&id), value: None });
        let append_id = self.append(&id, records, Purpose::Delete { ticket }, sink);
        self.group_mut(&id).deleting = Some(append_id);
    }

    fn tombstones_of(&self, id: &Text) -> Vec<Record> {
        let mut places = self.spoken_of(id);
        places.extend(self.groups[id].offsets.keys().cloned());
        places.extend(self.unsaved_places(id));
        places.iter().map(|place| tombstone(id, place)).collect()
    }

    /// Offsets and tombstones of a group that could not be stored.
    fn unsaved_places(&self, id: &Text) -> impl Iterator<Item = (Text, i32)> {
        self.unsaved.keys().filter_map(move |key| match key {
            Key::Offset(group, place) if group == id => Some(place.clone()),
            _ => None,
        })
    }

    /// §12.4
    pub(super) fn delete_offsets(&mut self, ticket: Ticket, delete: &OffsetDelete<'_>, sink: &mut dyn Sink) {
        let id = self.shared(delete.group_id);
        let top = match self.groups.get(&id) {
            None => Some(ErrorCode::GroupIdNotFound),
            Some(group) if group.state == State::Empty => None,
            Some(group) if group.protocol_type.as_deref() != Some("consumer") => Some(ErrorCode::NonEmptyGroup),
            Some(_) => None,
        };
        if let Some(error) = top {
            sink.answer(ticket, Answer::OffsetDelete(OffsetDeleteAnswer { error, topics: &[] }));
            return;
        }
        let group = &self.groups[&id];
        let mut places = self.spoken_of(&id);
        places.extend(self.unsaved_places(&id));
        places.extend(group.offsets.keys().cloned());
        let mut records = Vec::new();
        let mut topics = Vec::new();
        for topic in delete.topics {
            let is_read = group.state != State::Empty && reads(group, topic.name);
            let error = if is_read { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
            let name: Text = topic.name.into();
            for index in topic.partitions {
                if !is_read && places.remove(&(Arc::clone(&name), *index)) {
                    records.push(tombstone(&id, &(Arc::clone(&name), *index)));
                }
            }
            let partitions = topic.partitions.iter().map(|index| (*index, error)).collect();
            topics.push(OffsetDeletedTopic { name: topic.name.into(), partitions });
        }
        if records.is_empty() {
            let answer = OffsetDeleteAnswer { error: ErrorCode::None, topics: &topics };
            sink.answer(ticket, Answer::OffsetDelete(answer));
        } else {
            self.append(&id, records, Purpose::OffsetDelete { ticket, topics }, sink);
        }
    }

    /// One run of the cleaner (§13). A state of more than 1 000 groups and offsets is beyond the naive coordinator,
    /// which does not split its runs.
    pub(super) fn clean(&mut self, sink: &mut dyn Sink) {
        let mut records = Vec::new();
        let mut ends = Vec::new();
        for (id, group) in &self.groups {
            if group.deleting.is_some() {
                continue;
            }
            let spoken_of = |place: &(Text, i32)| self.is_in_flight(&Key::Offset(Arc::clone(id), place.clone()));
            let expired: Vec<&(Text, i32)> = group
                .offsets
                .iter()
                .filter(|(place, value)| !spoken_of(place) && self.is_expired(group, &place.0, value))
                .map(|(place, _)| place)
                .collect();
            let all_go = expired.len() == group.offsets.len();
            let mut gone: Vec<(Text, i32)> = expired.into_iter().cloned().collect();
            let is_busy = self.appends.values().flat_map(|append| &append.records).any(
                |record| matches!(key_of(record), Some(Key::Group(group) | Key::Offset(group, _)) if group == *id),
            );
            let ends_now = group.state == State::Empty && all_go && !is_busy;
            if ends_now {
                gone.extend(self.unsaved_places(id));
            }
            records.extend(gone.iter().map(|place| tombstone(id, place)));
            if ends_now {
                records.push(Record::Group { group_id: Arc::clone(id), value: None });
                ends.push(Arc::clone(id));
            }
        }
        if !records.is_empty() {
            let append_id = self.append(&Text::from(""), records, Purpose::Retention { ends: ends.clone() }, sink);
            for id in ends {
                self.group_mut(&id).deleting = Some(append_id);
            }
        }
        self.cleaner = Some(self.alarm(self.config.offsets_retention_check_interval_ms));
    }

    /// §13.1
    fn is_expired(&self, group: &Group, topic: &str, value: &OffsetValue) -> bool {
        let Now { wall_ms, .. } = self.clock;
        let from_ms = if group.protocol_type.is_none() {
            value.commit_timestamp_ms
        } else if group.state == State::Empty {
            group.state_timestamp_ms.unwrap_or(value.commit_timestamp_ms)
        } else if group.protocol_type.as_deref() == Some("consumer")
            && group.state == State::Stable
            && group.subscribed_topics.is_some()
            && !reads(group, topic)
        {
            value.commit_timestamp_ms
        } else {
            return false;
        };
        let retention_ms = i64::from(self.config.offsets_retention_minutes) * MINUTE_MS;
        match value.expire_timestamp_ms {
            Some(expires_ms) => wall_ms >= expires_ms,
            None => wall_ms.saturating_sub(from_ms) >= retention_ms,
        }
    }

    /// These topics are gone (§13.3).
    pub fn topics_deleted(&mut self, topics: &[&str], now: Now, sink: &mut dyn Sink) {
        self.observe(now);
        if self.phase != Phase::Active {
            return;
        }
        let mut places: BTreeSet<(Text, (Text, i32))> = BTreeSet::new();
        for (id, group) in &mut self.groups {
            let gone = group.offsets.keys().filter(|(topic, _)| topics.contains(&&**topic));
            places.extend(gone.map(|place| (Arc::clone(id), place.clone())));
            group.offsets.retain(|(topic, _), _| !topics.contains(&&**topic));
        }
        for record in self.appends.values().flat_map(|append| &append.records) {
            if let Record::Offset { group_id, topic, partition, value: Some(_) } = record
                && topics.contains(&&**topic)
            {
                places.insert((Arc::clone(group_id), (Arc::clone(topic), *partition)));
            }
        }
        let records: Vec<Record> = places.iter().map(|(id, place)| tombstone(id, place)).collect();
        if !records.is_empty() {
            self.append(&Text::from(""), records, Purpose::Nobody, sink);
        }
    }

    /// Ownership is lost (§15.2).
    pub fn unload(&mut self, now: Now, sink: &mut dyn Sink) {
        self.observe(now);
        self.phase = Phase::Unloaded;
        self.cleaner = None;
        for group in std::mem::take(&mut self.groups).into_values() {
            for member in group.members.values() {
                if let Some(parked) = &member.join {
                    super::answer_join_error(parked.ticket, ErrorCode::NotCoordinator, &member.id, sink);
                }
                if let Some(parked) = &member.sync {
                    super::answer_sync_error(parked.ticket, ErrorCode::NotCoordinator, sink);
                }
            }
        }
        for (append_id, append) in std::mem::take(&mut self.appends) {
            if !matches!(append.purpose, Purpose::Creation | Purpose::Plan { .. } | Purpose::Replacement(_)) {
                self.tell_failure(u64::MAX, &append, ErrorCode::NotLeaderOrFollower, sink);
            }
            self.refuse_waiting_for(append_id, sink);
        }
        self.early_ends.clear();
        self.unsaved.clear();
    }
}

/// §12.4: an unknown subscription may be to anything.
fn reads(group: &Group, topic: &str) -> bool {
    group.subscribed_topics.as_ref().is_none_or(|topics| topics.contains(topic))
}
