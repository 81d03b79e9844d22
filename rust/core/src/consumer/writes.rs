//! The append that a consumer group may have in flight, and what waits for its end (docs/consumer-protocol.md §4.4).
//!
//! A step folds its records into the group at once and keeps the records that undo them. When the append is durable,
//! the step's answer is given; when it fails, the records are undone and the answer is the error. Nothing else happens
//! to the group meanwhile: requests and expired timers wait in order of arrival.

use std::sync::Arc;

use super::checks::Refusal;
use crate::{
    consumer_group::{
        group::{ConsumerGroup, ConsumerMember, MemberState},
        waiting::{DeferredHeartbeat, Later, Owed, Reply, Waiting, Write},
    },
    coordinator::Coordinator,
    deletes::answer_delete,
    effects::{AppendId, Step},
    error::ErrorCode,
    in_flight::Purpose,
    join::JoinRefusal,
    operations::Operation,
    purgatory::OpId,
    records::{ConsumerRecord, Record},
    request::{ConsumerGroupHeartbeat, DeleteGroup, Entropy, Now, Ticket},
    response::{Answer, AssignedTopic, ConsumerDescribeAnswer, ConsumerHeartbeatAnswer},
};

/// The records of one step, which are folded into the group as they come.
#[derive(Debug, Default)]
pub struct Draft {
    /// In the order of the batch.
    pub records: Vec<ConsumerRecord>,
    undo: Vec<ConsumerRecord>,
    /// Deadlines of members that the step removes.
    pub ended: Vec<OpId>,
}

impl Draft {
    /// Adds a record.
    pub fn put(&mut self, group: &mut ConsumerGroup, record: ConsumerRecord) {
        self.undo.push(group.apply(&record));
        self.records.push(record);
    }

    /// Adds the tombstones of a member, and keeps its deadlines to be cancelled.
    pub fn put_tombstones(&mut self, group: &mut ConsumerGroup, member_id: &Arc<str>) {
        if let Some(member) = group.member_mut(member_id) {
            self.ended.extend([member.session.take(), member.rebalance.take()].into_iter().flatten());
        }
        self.put(group, ConsumerRecord::Current(Arc::clone(member_id), None));
        self.put(group, ConsumerRecord::Target(Arc::clone(member_id), None));
        self.put(group, ConsumerRecord::Member(Arc::clone(member_id), None));
    }

    /// What undoes the records, in the order in which that is to happen.
    fn into_undo(mut self) -> Vec<ConsumerRecord> {
        self.undo.reverse();
        self.undo
    }
}

impl Coordinator {
    /// The group, unless nothing is left of it.
    pub(crate) fn find_consumer_group(&self, group_id: &str) -> Option<&ConsumerGroup> {
        self.consumer_groups.get(group_id).filter(|group| !group.is_gone())
    }

    /// Whether an append of the group is in flight.
    pub(crate) fn is_writing(&self, group_id: &str) -> bool {
        self.consumer_groups.get(group_id).is_some_and(|group| group.write.is_some())
    }

    /// Keeps something until the group's append has ended.
    pub(crate) fn wait_for_write(&mut self, now: Now, group_id: &str, what: Later) {
        let Some((id, _)) = self.consumer_groups.get_key_value(group_id) else { return };
        let id = Arc::clone(id);
        let deadline = what.ticket().map(|ticket| {
            let deadline = now.after(u64::from(self.config.offsets_commit_timeout_ms));
            self.purgatory.watch(deadline, &[], Operation::ConsumerWait(Box::new((id, ticket))))
        });
        if let Some(group) = self.consumer_groups.get_mut(group_id) {
            group.waiting.push_back(Waiting { deadline, what });
        }
    }

    /// The same of a heartbeat.
    pub(crate) fn defer_heartbeat(
        &mut self,
        now: Now,
        ticket: Ticket,
        entropy: Entropy,
        request: &ConsumerGroupHeartbeat<'_>,
    ) {
        let what = Later::Heartbeat(ticket, entropy.0, Box::new(DeferredHeartbeat::new(request)));
        self.wait_for_write(now, request.group_id, what);
    }

    /// Ends a step that has succeeded: cancels the deadlines of who is gone, and appends its records. INVARIANT: C9,
    /// the answer waits for them.
    pub(crate) fn write(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        mut draft: Draft,
        before: Vec<Record>,
        answer: Option<Owed>,
    ) {
        for deadline in draft.ended.drain(..) {
            self.purgatory.complete(deadline);
        }
        let ends_classic = before.iter().any(|record| matches!(record, Record::Group { .. }));
        let mut records = before;
        let own = std::mem::take(&mut draft.records).into_iter();
        records.extend(own.map(|about| Record::Consumer { group_id: Arc::clone(group_id), about }));
        let append_id = self.append(step, Arc::clone(group_id), Purpose::Consumer, records);
        let write = Write { append_id, undo: draft.into_undo(), ends_classic, answer };
        self.consumer_groups.get_mut(group_id).expect("the caller has it").write = Some(write);
    }

    /// Undoes a step that has failed before it was written.
    pub(crate) fn discard(&mut self, now: Now, group: &mut ConsumerGroup, mut draft: Draft) {
        for deadline in draft.ended.drain(..) {
            self.purgatory.complete(deadline);
        }
        self.undo(now, group, &draft.into_undo());
    }

    /// Undoes the records of a step, and the deadlines of members that it brought.
    fn undo(&mut self, now: Now, group: &mut ConsumerGroup, undo: &[ConsumerRecord]) {
        for record in undo {
            if let ConsumerRecord::Member(id, None) = record
                && let Some(member) = group.member_mut(id)
            {
                for deadline in [member.session.take(), member.rebalance.take()].into_iter().flatten() {
                    self.purgatory.complete(deadline);
                }
            }
            group.apply(record);
        }
        self.arm_missing(now, group);
    }

    /// The append has ended: the step is done, or undone.
    pub(crate) fn consumer_write_ended(
        &mut self,
        step: &mut Step<'_>,
        append_id: AppendId,
        group_id: &Arc<str>,
        error: Option<ErrorCode>,
    ) {
        let Some(mut group) = self.consumer_groups.remove(group_id) else { return };
        let Some(write) = group.write.take_if(|write| write.append_id == append_id) else {
            self.consumer_groups.insert(Arc::clone(group_id), group);
            return;
        };
        if error.is_some() {
            self.undo(step.now, &mut group, &write.undo);
            group.metadata_until_ms = 0;
        } else if write.ends_classic {
            self.end_classic(group_id);
        }
        self.consumer_groups.insert(Arc::clone(group_id), group);
        if let Some(owed) = write.answer {
            answer_owed(step, group_id, owed, error.map(ErrorCode::for_offset_append));
        }
        self.resume_waiting(step, group_id);
    }

    /// The append takes too long: the request is answered with an error. The append may still become durable.
    pub(crate) fn consumer_write_late(&mut self, step: &mut Step<'_>, append_id: AppendId, group_id: &Arc<str>) {
        let write = self.consumer_groups.get_mut(group_id).and_then(|group| group.write.as_mut());
        if let Some(owed) = write.filter(|write| write.append_id == append_id).and_then(|write| write.answer.take()) {
            answer_owed(step, group_id, owed, Some(ErrorCode::RequestTimedOut.for_offset_append()));
        }
    }

    /// The same for a request that waits for that append.
    pub(crate) fn consumer_wait_over(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, ticket: Ticket) {
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        if let Some(at) = group.waiting.iter().position(|waiting| waiting.what.ticket() == Some(ticket))
            && let Some(waiting) = group.waiting.remove(at)
        {
            refuse_later(step, group_id, &waiting.what, ErrorCode::RequestTimedOut.for_offset_append());
        }
    }

    /// Goes on with what has waited, until something of it is written again.
    fn resume_waiting(&mut self, step: &mut Step<'_>, group_id: &Arc<str>) {
        while let Some(group) = self.consumer_groups.get_mut(group_id)
            && group.write.is_none()
        {
            if group.is_gone() {
                // Nothing is left of it: what waits finds the group as it is then.
                let waiting = std::mem::take(&mut group.waiting);
                self.consumer_groups.remove(group_id);
                self.drop_empty_shell(group_id);
                for waiting in waiting {
                    self.resume_one(step, group_id, waiting);
                }
                return;
            }
            let Some(waiting) = group.waiting.pop_front() else { return };
            self.resume_one(step, group_id, waiting);
        }
    }

    fn resume_one(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, waiting: Waiting) {
        if let Some(deadline) = waiting.deadline {
            self.purgatory.complete(deadline);
        }
        match waiting.what {
            Later::Heartbeat(ticket, entropy, deferred) => {
                deferred.with(group_id, |request| {
                    self.consumer_group_heartbeat(step, ticket, Entropy(entropy), request);
                });
            }
            Later::Describe(ticket) => self.consumer_group_describe(step, ticket, group_id),
            Later::Delete(ticket) => self.delete_group(step, ticket, &DeleteGroup { group_id: Some(group_id) }),
            Later::Join(ticket, join) => {
                let offers = join.offers();
                let request = join.request(group_id, &offers);
                self.join_group(step, ticket, Entropy(join.entropy), &request);
            }
            Later::SessionEnded(member_id) => self.consumer_session_ended(step, group_id, &member_id),
            Later::RebalanceEnded(member_id, epoch) => {
                self.consumer_rebalance_ended(step, group_id, &member_id, epoch);
            }
        }
    }

    /// Ownership is lost: who waits is answered.
    pub(crate) fn unload_consumer_groups(&mut self, step: &mut Step<'_>) {
        for (group_id, group) in std::mem::take(&mut self.consumer_groups) {
            if let Some(owed) = group.write.and_then(|write| write.answer) {
                answer_owed(step, &group_id, owed, Some(ErrorCode::NotCoordinator));
            }
            for waiting in &group.waiting {
                refuse_later(step, &group_id, &waiting.what, ErrorCode::NotCoordinator);
            }
        }
    }

    /// A member without a session deadline gets a whole session, and one that has partitions to give up a whole
    /// rebalance timeout: after a load, and where a removal was undone.
    pub(crate) fn arm_missing(&mut self, now: Now, group: &mut ConsumerGroup) {
        let group_id = Arc::clone(&group.id);
        let ids: Vec<Arc<str>> = group.members().map(|(id, ..)| Arc::clone(id)).collect();
        for id in ids {
            let session_ms = self.consumer.session_timeout_ms;
            let Some(member) = group.member_mut(&id) else { continue };
            let state = member.current.as_ref().map(|current| (current.state, current.epoch));
            let rebalance_ms = member.subscription.as_ref().map_or(0, |value| value.rebalance_timeout_ms);
            let ConsumerMember { session, rebalance, .. } = member;
            session.get_or_insert_with(|| {
                let what = Operation::ConsumerSession(Box::new((Arc::clone(&group_id), Arc::clone(&id))));
                self.purgatory.watch(now.after_timeout(session_ms), &[], what)
            });
            match state {
                Some((MemberState::Unrevoked, epoch)) => {
                    rebalance.get_or_insert_with(|| {
                        let what =
                            Operation::ConsumerRebalance(Box::new((Arc::clone(&group_id), Arc::clone(&id), epoch)));
                        self.purgatory.watch(now.after_timeout(rebalance_ms), &[], what)
                    });
                }
                _ => {
                    if let Some(deadline) = rebalance.take() {
                        self.purgatory.complete(deadline);
                    }
                }
            }
        }
    }
}

fn answer_owed(step: &mut Step<'_>, group_id: &str, owed: Owed, error: Option<ErrorCode>) {
    match (owed, error) {
        (Owed::Heartbeat(reply), None) => answer_heartbeat(step, &reply),
        (Owed::Heartbeat(reply), Some(error)) => refuse_heartbeat(step, reply.ticket, &error.into()),
        (Owed::Delete(ticket), error) => answer_delete(step, ticket, group_id, error.unwrap_or(ErrorCode::None)),
    }
}

fn refuse_later(step: &mut Step<'_>, group_id: &str, what: &Later, error: ErrorCode) {
    match what {
        Later::Heartbeat(ticket, ..) => refuse_heartbeat(step, *ticket, &error.into()),
        Later::Describe(ticket) => refuse_describe(step, *ticket, group_id, error, None),
        Later::Delete(ticket) => answer_delete(step, *ticket, group_id, error),
        Later::Join(ticket, join) => JoinRefusal { error, member_id: &join.member_id }.answer(step, *ticket),
        Later::SessionEnded(_) | Later::RebalanceEnded(..) => {}
    }
}

/// Answers a heartbeat that has succeeded.
pub(crate) fn answer_heartbeat(step: &mut Step<'_>, reply: &Reply) {
    let topics: Option<Vec<AssignedTopic<'_>>> = reply.assignment.as_ref().map(|topics| {
        topics.iter().map(|topic| AssignedTopic { topic_id: topic.topic_id, partitions: &topic.partitions }).collect()
    });
    let answer = ConsumerHeartbeatAnswer {
        error: ErrorCode::None,
        error_message: None,
        member_id: Some(&reply.member_id),
        member_epoch: reply.epoch,
        heartbeat_interval_ms: reply.heartbeat_interval_ms,
        assignment: topics.as_deref(),
    };
    step.sink.answer(reply.ticket, Answer::ConsumerGroupHeartbeat(answer));
}

/// Answers a heartbeat that was refused.
pub(crate) fn refuse_heartbeat(step: &mut Step<'_>, ticket: Ticket, refusal: &Refusal) {
    let answer = ConsumerHeartbeatAnswer {
        error: refusal.error,
        error_message: refusal.message.as_deref(),
        member_id: None,
        member_epoch: 0,
        heartbeat_interval_ms: 0,
        assignment: None,
    };
    step.sink.answer(ticket, Answer::ConsumerGroupHeartbeat(answer));
}

/// Answers a `ConsumerGroupDescribe` with an error of the whole group.
pub(crate) fn refuse_describe(
    step: &mut Step<'_>,
    ticket: Ticket,
    group_id: &str,
    error: ErrorCode,
    message: Option<&str>,
) {
    let answer = ConsumerDescribeAnswer {
        error,
        error_message: message,
        group_id,
        group_state: "",
        group_epoch: 0,
        assignment_epoch: 0,
        assignor_name: "",
        members: &[],
    };
    step.sink.answer(ticket, Answer::ConsumerGroupDescribe(answer));
}
