//! `TxnOffsetCommit`, and the markers that decide about its offsets (docs/protocol.md §10.4).

use std::sync::Arc;

use crate::{
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    in_flight::{Purpose, TransactionalCommit},
    pending_offsets::Decided,
    record_bytes::OffsetRecord,
    records::{EndTransaction, Record},
    request::{Now, OffsetCommit, Ticket, TxnOffsetCommit, WriteTxnMarker},
    response::Answer,
    states::State,
};

/// The first version that answers a commit to a missing group with `GROUP_ID_NOT_FOUND`.
const FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: i16 = 6;

impl Coordinator {
    /// Iterates over the partitions of a group that have offsets of open transactions: topic and partition, producer id.
    pub fn pending_of(&self, group_id: &str) -> impl Iterator<Item = (&(Arc<str>, i32), i64)> {
        self.pending_offsets.of_group(group_id)
    }

    /// Returns the epoch of a producer's open transaction with offsets in this partition; `None`: it has none. Offsets in
    /// flight count: a late marker of the transaction before would come after them in the log, and end theirs.
    pub fn pending_epoch(&self, producer_id: i64) -> Option<i16> {
        let durable = self.pending_offsets.open().get(&producer_id).map(|open| open.producer_epoch);
        let in_flight = self.appends.values().filter_map(|append| match &append.purpose {
            Purpose::Transactional(commit) if commit.producer.0 == producer_id => Some(commit.producer.1),
            _ => None,
        });
        in_flight.chain(durable).max()
    }

    /// Stores offsets that the transaction of their producer decides about.
    pub(crate) fn txn_offset_commit(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &TxnOffsetCommit<'_>) {
        if let Err(error) = self.may_commit_in_transaction(request) {
            return Self::answer_commit_error(step, ticket, request.topics, error);
        }
        let commit = OffsetCommit {
            version: request.version,
            group_id: request.group_id,
            generation: request.generation,
            member_id: request.member_id,
            instance_id: request.instance_id,
            retention_time_ms: None,
            topics: request.topics,
        };
        let group_id: Arc<str> = request.group_id.unwrap_or("").into();
        let (records, results) = self.commit_records(step.now, &group_id, &commit);
        if records.is_empty() {
            return Self::answer_commit(step, ticket, results, None);
        }
        let producer = (request.producer_id, request.producer_epoch);
        let purpose = TransactionalCommit { ticket: Some(ticket), topics: results, producer };
        self.append(step, group_id, Purpose::Transactional(Box::new(purpose)), records);
    }

    /// Checks whether the sender may commit in a transaction: in every state, with or without members. The request does
    /// not extend the session.
    fn may_commit_in_transaction(&self, request: &TxnOffsetCommit<'_>) -> Result<(), ErrorCode> {
        if self.pending_epoch(request.producer_id).is_some_and(|open| request.producer_epoch < open) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        let group_id = request.group_id.unwrap_or("");
        let anonymous = request.generation < 0;
        if anonymous && request.member_id.is_empty() && request.instance_id.is_none() {
            return Ok(());
        }
        if let Some(group) = self.find_consumer_group(group_id) {
            let topic_id = |topic: &str| self.topics.get(topic).map(|topic| topic.topic_id);
            return group.check_transactional_commit(request, topic_id);
        }
        let Some(group) = self.find_group(group_id).map(|group| &self.groups[group]) else {
            return match (anonymous, request.version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND) {
                (true, _) => Ok(()),
                (false, true) => Err(ErrorCode::GroupIdNotFound),
                (false, false) => Err(ErrorCode::IllegalGeneration),
            };
        };
        if anonymous && group.state == State::Empty {
            return Ok(());
        }
        let _member = self.identify(group_id, request.member_id, request.instance_id)?;
        if request.generation == group.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }

    /// Ends a transaction in this partition of `__consumer_offsets`: writes its marker into the log. It decides when it is
    /// durable. A marker of a producer without offsets here, and a repeated one, are written, too.
    pub(crate) fn write_txn_marker(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &WriteTxnMarker<'_>) {
        let WriteTxnMarker { producer_id, producer_epoch, coordinator_epoch, is_commit, .. } = *request;
        if self.pending_epoch(producer_id).is_some_and(|open| producer_epoch < open) {
            return step.sink.answer(ticket, Answer::WriteTxnMarker(ErrorCode::InvalidProducerEpoch));
        }
        let end = EndTransaction { producer_id, producer_epoch, coordinator_epoch, is_commit };
        self.append(step, "".into(), Purpose::Marker(Some(ticket), end), Vec::new());
    }

    /// Adds durable offsets of a transaction. The first offset of a missing group creates it.
    pub(crate) fn add_pending(&mut self, step: &Step<'_>, producer: (i64, i16), records: Vec<Record>) {
        for record in records {
            if let Record::Offset { group_id, topic, partition, value: Some(value) } = record {
                let handle = self.find_or_insert_simple(step.now, &group_id);
                self.groups[handle].durable = true;
                self.pending_offsets.add(producer, &group_id, (topic, partition), value);
            }
        }
    }

    /// Applies a durable marker: its transaction's offsets become visible, unless the group has an offset from a later
    /// record, or are dropped. INVARIANT: T4, offsets of an aborted transaction never become visible.
    pub(crate) fn transaction_ended(&mut self, now: Now, producer_id: i64, is_commit: bool) {
        for Decided { group_id, place: (topic, partition), offset } in self.pending_offsets.end(producer_id) {
            if is_commit && !offset.is_superseded {
                self.pending_offsets.supersede(&group_id, &topic, partition, offset.order);
                self.store_offset(now, &group_id, &topic, partition, Some(offset.value));
            }
        }
    }

    /// Like [`Coordinator::replay_offset`] for a record of a transaction. A tombstone in a transaction, which no writer
    /// produces, has no effect.
    pub fn replay_pending(&mut self, producer: (i64, i16), record: OffsetRecord<'_>) {
        self.check_loading();
        let OffsetRecord { group_id, topic, partition, value: Some(value) } = record else { return };
        let handle = self.find_or_insert_simple(self.clock, group_id);
        self.groups[handle].durable = true;
        let group_id = Arc::clone(&self.groups[handle].id);
        self.pending_offsets.add(producer, &group_id, (topic.into(), partition), value);
    }

    /// Applies the marker of a transaction. Allowed before `loaded` only.
    pub fn replay_marker(&mut self, producer_id: i64, is_commit: bool) {
        self.check_loading();
        self.transaction_ended(self.clock, producer_id, is_commit);
    }
}
