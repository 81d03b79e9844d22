//! The append that a consumer group may have in flight, and what waits for its end (docs/consumer-protocol.md §4.4).
//!
//! A step folds its records into the group at once and keeps the records that undo them. When the append is durable,
//! the step's answer is given; when it fails, the records are undone and the answer is the error. Nothing else happens
//! to the group meanwhile: requests and expired timers wait in order of arrival.

use std::{collections::VecDeque, sync::Arc};

use super::checks::Refusal;
use crate::{
    consumer_group::{
        classic::{CONSUMER, ClassicImage},
        group::{ConsumerGroup, ConsumerMember, MemberState},
        waiting::{DeferredHeartbeat, JoinReply, Later, LeaveReply, OnEnd, Owed, Reply, Waiting, Write},
    },
    coordinator::Coordinator,
    deletes::answer_delete,
    effects::{AppendId, Step},
    error::ErrorCode,
    history::{Cause, Trigger},
    in_flight::{Purpose, RecordKey},
    join::JoinRefusal,
    operations::Operation,
    purgatory::OpId,
    records::{ConsumerRecord, Record},
    request::{ConsumerGroupHeartbeat, DeleteGroup, Entropy, LeaveGroup, Now, Ticket},
    response::{
        Answer, AssignedTopic, ConsumerDescribeAnswer, ConsumerHeartbeatAnswer, JoinAnswer, LeaveAnswer, LeftMember,
    },
};

/// Up to this version the error of the single leaver is that of the answer.
const LAST_VERSION_WITH_ONE_LEAVER: i16 = 2;

/// The records of one step, which are folded into the group as they come.
#[derive(Debug, Default)]
pub struct Draft {
    /// In the order of the batch.
    pub records: Vec<ConsumerRecord>,
    undo: Vec<ConsumerRecord>,
    /// Deadlines of members that the step removes.
    pub ended: Vec<OpId>,
    /// Records at the end of the batch. They do not change the group until they are durable.
    pub after: Vec<Record>,
    /// What else happens when the append completes.
    pub end: OnEnd,
    /// What a new group epoch is for.
    pub trigger: Option<Trigger>,
}

impl Draft {
    /// A draft whose records do not change the group until they are durable.
    pub fn of(after: Vec<Record>, end: OnEnd) -> Draft {
        Draft { after, end, ..Draft::default() }
    }

    /// A draft whose new group epoch is for `trigger`.
    pub fn caused_by(trigger: Trigger) -> Draft {
        Draft { trigger: Some(trigger), ..Draft::default() }
    }

    /// Adds a record.
    pub fn put(&mut self, group: &mut ConsumerGroup, record: ConsumerRecord) {
        self.undo.push(group.apply(&record));
        self.records.push(record);
    }

    /// Adds the tombstones of a member, and keeps its deadlines to be cancelled.
    pub fn put_tombstones(&mut self, group: &mut ConsumerGroup, member_id: &Arc<str>) {
        if let Some(member) = group.member_mut(member_id) {
            self.ended.extend(member.take_deadlines());
        }
        self.put(group, ConsumerRecord::Current(Arc::clone(member_id), None));
        self.put(group, ConsumerRecord::Target(Arc::clone(member_id), None));
        self.put(group, ConsumerRecord::Member(Arc::clone(member_id), None));
    }

    /// Adds the tombstones of patterns that no member has any more.
    pub fn put_pattern_tombstones(&mut self, group: &mut ConsumerGroup) {
        for pattern in group.unused_patterns() {
            self.put(group, ConsumerRecord::Pattern(pattern, None));
        }
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
        let cancelled = self.cancel_ended(&mut draft);
        let mut records = before;
        let own = std::mem::take(&mut draft.records).into_iter();
        records.extend(own.map(|about| Record::Consumer { group_id: Arc::clone(group_id), about }));
        records.append(&mut draft.after);
        let end = std::mem::take(&mut draft.end);
        let append_id = self.append(step, Arc::clone(group_id), Purpose::Consumer, records);
        let trigger = draft.trigger.take();
        let write = Write { append_id, undo: draft.into_undo(), end, answer, trigger, cancelled };
        self.consumer_groups.get_mut(group_id).expect("the caller has it").write = Some(write);
    }

    /// Undoes a step that has failed before it was written. A step without records has changed no deadline: a member
    /// whose expired session waits for an append gets no new one.
    pub(crate) fn discard(&mut self, now: Now, group: &mut ConsumerGroup, mut draft: Draft) {
        if draft.records.is_empty() {
            return;
        }
        group.metadata_until_ms = 0;
        let cancelled = self.cancel_ended(&mut draft);
        self.undo(now, group, &draft.into_undo(), cancelled);
    }

    /// Cancels the deadlines of members that a step removes or changes; returns those that run again if it is undone.
    fn cancel_ended(&mut self, draft: &mut Draft) -> Vec<Operation> {
        let ended = draft.ended.drain(..).filter_map(|deadline| self.purgatory.complete(deadline));
        ended.filter(|ended| matches!(ended, Operation::ConsumerJoin(_) | Operation::ConsumerSync(_))).collect()
    }

    /// Undoes the records of a step, and the deadlines of members that it brought. A classic member whose deadline to
    /// join or sync was cancelled has a whole rebalance timeout again.
    fn undo(&mut self, now: Now, group: &mut ConsumerGroup, undo: &[ConsumerRecord], cancelled: Vec<Operation>) {
        for (at, record) in undo.iter().enumerate() {
            if let ConsumerRecord::Member(id, None) = record
                && let Some(member) = group.member_mut(id)
            {
                // A static member that took its own place was never gone.
                if undo[at + 1..]
                    .iter()
                    .any(|later| matches!(later, ConsumerRecord::Member(other, Some(_)) if other == id))
                {
                    continue;
                }
                for deadline in member.take_deadlines() {
                    self.purgatory.complete(deadline);
                }
            }
            group.apply(record);
        }
        self.arm_missing(now, group, false);
        for operation in cancelled {
            self.resume_deadline(now, group, operation);
        }
    }

    fn resume_deadline(&mut self, now: Now, group: &mut ConsumerGroup, operation: Operation) {
        let (Operation::ConsumerJoin(name) | Operation::ConsumerSync(name)) = &operation else { return };
        let Some(member) = group.member_mut(&name.1).filter(|member| member.is_classic()) else { return };
        let timeout_ms = member.subscription.as_ref().map_or(0, |value| value.rebalance_timeout_ms);
        let deadline =
            if matches!(operation, Operation::ConsumerJoin(_)) { &mut member.join } else { &mut member.sync };
        if deadline.is_none() {
            *deadline = Some(self.purgatory.watch(now.after_timeout(timeout_ms), &[], operation));
        }
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
        let is_too_large = matches!(error, Some(ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge));
        let error = error.map(ErrorCode::for_offset_append);
        if let Some(error) = error {
            let mut cancelled = write.cancelled;
            cancelled.extend(removal_deadline(&group.id, write.end.trigger().or(write.trigger.as_ref())));
            self.undo(step.now, &mut group, &write.undo, cancelled);
            group.metadata_until_ms = 0;
            group.topics_are_new = true;
            if write.answer.is_none() && !group.is_gone() && group.is_empty() {
                self.refuse_joins(step, &mut group, error);
            }
        }
        if error.is_none() {
            group.note_progress(step, write.trigger.as_ref(), self.config.rebalance_history);
        }
        match (write.end, error) {
            (OnEnd::EndsClassic, None) => self.end_classic(group_id),
            (OnEnd::Upgraded(image), Some(_)) => {
                self.take_upgrade_back(step, group_id, *image, write.trigger.as_ref());
            }
            (OnEnd::Downgraded(image, trigger), None) => {
                let waiting = std::mem::take(&mut group.waiting);
                self.downgraded(step, &mut group, *image, trigger.as_ref());
                self.answer_owed(step, group_id, write.answer, None);
                return self.resume_after_end(step, group_id, waiting);
            }
            (OnEnd::Downgraded(image, trigger), Some(_)) if is_too_large => {
                group.too_many_to_downgrade = Some(image.members.len());
                let gone = group.members_without(&image);
                if let Some(trigger) = trigger.filter(|_| !gone.is_empty()) {
                    // The members go nevertheless, and the group keeps its protocol.
                    self.consumer_groups.insert(Arc::clone(group_id), group);
                    return self.remove_from_consumer_group(step, group_id, &gone, trigger, write.answer);
                }
            }
            _ => {}
        }
        self.consumer_groups.insert(Arc::clone(group_id), group);
        self.answer_owed(step, group_id, write.answer, error);
        self.resume_waiting(step, group_id, error.is_some());
    }

    /// The classic group returns. The append may have stored its tombstone nevertheless, so its record is written again
    /// with the next append; the rebalance of a group that was not Stable writes one anyway.
    fn take_upgrade_back(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        image: ClassicImage,
        trigger: Option<&Trigger>,
    ) {
        let value = image.is_stable.then(|| image.value(step.now.wall_ms));
        let record = Record::Group { group_id: Arc::clone(group_id), value };
        let key = RecordKey::of(&record);
        if image.is_stable {
            self.unsaved.insert(key, record);
        } else {
            self.unsaved.remove(&key);
        }
        let joined = trigger.map_or_else(|| "".into(), |trigger| Arc::clone(&trigger.member_id));
        self.put_classic(step, group_id, image, &Trigger::new(Cause::UpgradeFailed, &joined));
    }

    /// Answers the JoinGroup requests that waited for the end of an empty group, which failed: each would end it again.
    fn refuse_joins(&mut self, step: &mut Step<'_>, group: &mut ConsumerGroup, error: ErrorCode) {
        let waiting = std::mem::take(&mut group.waiting);
        for one in waiting {
            if matches!(one.what, Later::Join(..)) {
                if let Some(deadline) = one.deadline {
                    self.purgatory.complete(deadline);
                }
                refuse_later(step, &group.id, &one.what, error);
            } else {
                group.waiting.push_back(one);
            }
        }
    }

    /// The append takes too long: the request is answered with an error. The append may still become durable.
    pub(crate) fn consumer_write_late(&mut self, step: &mut Step<'_>, append_id: AppendId, group_id: &Arc<str>) {
        let write = self.consumer_groups.get_mut(group_id).and_then(|group| group.write.as_mut());
        let owed = write.filter(|write| write.append_id == append_id).and_then(|write| write.answer.take());
        self.answer_owed(step, group_id, owed, Some(ErrorCode::RequestTimedOut.for_offset_append()));
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

    /// Goes on with what has waited, until something of it is written again. If the append `failed`, a classic group
    /// without members that it was to end stays.
    fn resume_waiting(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, failed: bool) {
        while let Some(group) = self.consumer_groups.get_mut(group_id)
            && group.write.is_none()
        {
            if group.is_gone() {
                let waiting = std::mem::take(&mut group.waiting);
                if let Some(deadline) = group.resolution.take() {
                    self.purgatory.complete(deadline);
                }
                self.consumer_groups.remove(group_id);
                if !failed {
                    self.drop_empty_shell(group_id);
                }
                return self.resume_after_end(step, group_id, waiting);
            }
            let Some(waiting) = group.waiting.pop_front() else { return };
            self.resume_one(step, group_id, waiting);
        }
    }

    /// Goes on with what has waited for a group that is gone. Its expired timers are void. A request finds the group of
    /// the same id as it is then, and waits on while that appends.
    fn resume_after_end(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, waiting: VecDeque<Waiting>) {
        for waiting in waiting.into_iter().filter(|waiting| waiting.what.ticket().is_some()) {
            match self.consumer_groups.get_mut(group_id).filter(|group| group.write.is_some()) {
                Some(group) => group.waiting.push_back(waiting),
                None => self.resume_one(step, group_id, waiting),
            }
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
            Later::Sync(ticket, sync) => self.sync_group(step, ticket, &sync.request(group_id)),
            Later::Leave(ticket, leave) => {
                let members = leave.identities();
                let request = LeaveGroup { version: leave.version, group_id: Some(group_id), members: &members };
                self.leave_group(step, ticket, &request);
            }
            Later::ResolutionDue => self.resolve_patterns(step, group_id),
            Later::JoinEnded(member_id) => self.consumer_join_ended(step, group_id, &member_id),
            Later::SyncEnded(member_id) => self.consumer_sync_ended(step, group_id, &member_id),
            Later::SessionEnded(member_id) => self.consumer_session_ended(step, group_id, &member_id),
            Later::RebalanceEnded(member_id, epoch) => {
                self.consumer_rebalance_ended(step, group_id, &member_id, epoch);
            }
        }
    }

    /// Gives the answer that has waited for an append, or the error of the append.
    fn answer_owed(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, owed: Option<Owed>, error: Option<ErrorCode>) {
        match (owed, error) {
            (None, _) => {}
            (Some(Owed::Heartbeat(reply)), None) => answer_heartbeat(step, &reply),
            (Some(Owed::Heartbeat(reply)), Some(error)) => refuse_heartbeat(step, reply.ticket, &error.into()),
            (Some(Owed::Delete(ticket)), error) => {
                answer_delete(step, ticket, group_id, error.unwrap_or(ErrorCode::None));
            }
            (Some(Owed::Join(reply)), None) => {
                self.classic_joined(step.now, group_id, &reply.member_id);
                answer_join(step, &reply);
            }
            (Some(Owed::Join(reply)), Some(error)) => {
                JoinRefusal { error, member_id: "" }.answer(step, reply.ticket);
            }
            (Some(Owed::Leave(reply)), error) => answer_leave(step, &reply, error),
        }
    }

    /// Ends a step: appends its records, or answers at once if it has none.
    pub(crate) fn finish(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        draft: Draft,
        before: Vec<Record>,
        answer: Owed,
    ) {
        if draft.records.is_empty() {
            self.answer_owed(step, group_id, Some(answer), None);
        } else {
            self.write(step, group_id, draft, before, Some(answer));
        }
    }

    /// Ownership is lost: who waits is answered.
    pub(crate) fn unload_consumer_groups(&mut self, step: &mut Step<'_>) {
        for (group_id, group) in self.consumer_groups.take() {
            let owed = group.write.and_then(|write| write.answer);
            self.answer_owed(step, &group_id, owed, Some(ErrorCode::NotCoordinator));
            for waiting in &group.waiting {
                refuse_later(step, &group_id, &waiting.what, ErrorCode::NotCoordinator);
            }
        }
    }

    /// A member without a session deadline gets a whole session, and one in `UNREVOKED_PARTITIONS` a whole rebalance
    /// timeout: after a load, and where a removal was undone. `of_away`: also a static member that is away and therefore
    /// has nothing to give up, as Kafka's load does.
    pub(crate) fn arm_missing(&mut self, now: Now, group: &mut ConsumerGroup, of_away: bool) {
        let group_id = Arc::clone(&group.id);
        let ids: Vec<Arc<str>> = group.members().map(|(id, ..)| Arc::clone(id)).collect();
        let session_ms = self.timing_of(&group_id).session_timeout_ms;
        for id in ids {
            let Some(member) = group.member_mut(&id) else { continue };
            let owes = member.current.as_ref().filter(|current| current.state == MemberState::Unrevoked);
            let owes = owes.map(|current| (current.epoch, of_away || !current.pending.is_empty()));
            let classic = member.subscription.as_ref().and_then(|value| value.classic.as_ref());
            let session_ms = classic.map_or(session_ms, |classic| classic.session_timeout_ms);
            let is_classic = classic.is_some();
            let rebalance_ms = member.subscription.as_ref().map_or(0, |value| value.rebalance_timeout_ms);
            let ConsumerMember { session, rebalance, .. } = member;
            session.get_or_insert_with(|| {
                let what = Operation::ConsumerSession(Box::new((Arc::clone(&group_id), Arc::clone(&id))));
                self.purgatory.watch(now.after_timeout(session_ms), &[], what)
            });
            match owes {
                Some((_, false)) if !is_classic => {}
                Some((epoch, true)) if !is_classic => {
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

/// The deadline that removed a classic member, if it was one.
fn removal_deadline(group_id: &Arc<str>, trigger: Option<&Trigger>) -> Option<Operation> {
    let trigger = trigger?;
    let name = || Box::new((Arc::clone(group_id), Arc::clone(&trigger.member_id)));
    match trigger.cause {
        Cause::RejoinExpired => Some(Operation::ConsumerJoin(name())),
        Cause::SyncExpired => Some(Operation::ConsumerSync(name())),
        _ => None,
    }
}

/// Answers a classic member's `JoinGroup` that has succeeded. A consumer group has no leader.
fn answer_join(step: &mut Step<'_>, reply: &JoinReply) {
    let answer = JoinAnswer {
        error: ErrorCode::None,
        generation: reply.generation,
        protocol_type: Some(CONSUMER),
        protocol_name: Some(&reply.protocol_name),
        leader: "",
        skip_assignment: false,
        member_id: &reply.member_id,
        members: &[],
    };
    step.sink.answer(reply.ticket, Answer::JoinGroup(answer));
}

fn refuse_later(step: &mut Step<'_>, group_id: &str, what: &Later, error: ErrorCode) {
    match what {
        Later::Heartbeat(ticket, ..) => refuse_heartbeat(step, *ticket, &error.into()),
        Later::Describe(ticket) => refuse_describe(step, *ticket, group_id, error, None),
        Later::Delete(ticket) => answer_delete(step, *ticket, group_id, error),
        Later::Join(ticket, join) => JoinRefusal { error, member_id: &join.member_id }.answer(step, *ticket),
        Later::Sync(ticket, _) => Coordinator::answer_sync_error(step, *ticket, error),
        Later::Leave(ticket, _) => {
            step.sink.answer(*ticket, Answer::LeaveGroup(LeaveAnswer { error, members: &[] }));
        }
        Later::SessionEnded(_)
        | Later::RebalanceEnded(..)
        | Later::JoinEnded(_)
        | Later::SyncEnded(_)
        | Later::ResolutionDue => {}
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

/// Answers a LeaveGroup; `failed` is what became of its append.
pub(crate) fn answer_leave(step: &mut Step<'_>, reply: &LeaveReply, failed: Option<ErrorCode>) {
    let members: Vec<LeftMember<'_>> = (reply.members.iter())
        .map(|(member_id, instance_id, error)| LeftMember {
            member_id,
            instance_id: instance_id.as_deref(),
            error: *error,
        })
        .collect();
    let error = match (failed, members.first()) {
        (Some(error), _) => error,
        (None, Some(member)) if reply.version <= LAST_VERSION_WITH_ONE_LEAVER => member.error,
        _ => ErrorCode::None,
    };
    let members = if failed.is_some() { &[][..] } else { &members };
    step.sink.answer(reply.ticket, Answer::LeaveGroup(LeaveAnswer { error, members }));
}
