//! `ConsumerGroupHeartbeat` of a member that joins or stays (docs/consumer-protocol.md §4.3).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    checks::{self, JOIN, LEAVE, LEAVE_STATIC, Refusal},
    identity::{self, Identity},
    writes::{Draft, answer_heartbeat, refuse_heartbeat},
};
use crate::{
    consumer_group::{
        group::{AWAY, ConsumerGroup, ConsumerMember, Current, MemberState},
        partitions::{PartitionSet, by_topic},
        patterns::Pattern,
        reconcile::Reconciliation,
        topics::Topics,
        waiting::{OnEnd, Owed, Reply},
    },
    coordinator::{Coordinator, Phase},
    effects::Step,
    error::ErrorCode,
    group::GroupHandle,
    history::{Cause, Trigger},
    operations::{Operation, WatchKey},
    purgatory::{OpId, Purgatory},
    records::{ClassicMemberValue, ConsumerRecord, EpochValue, Record, SubscriptionValue, TopicIndexes},
    request::{ConsumerGroupHeartbeat, Entropy, Now, Ticket},
    response::{Answer, ConsumerHeartbeatAnswer},
    states::State,
};

/// How long a metadata hash needs no check if nothing is heard of its topics.
pub(super) const METADATA_REFRESH_MS: u64 = i32::MAX as u64;

/// A timeout that the request does not change.
const UNCHANGED: i32 = -1;

/// What a step says to its member.
struct Outcome {
    epoch: i32,
    assigned: Option<Vec<TopicIndexes>>,
    /// Whether the current assignment has changed. That ends the member's rebalance deadline, or begins it anew.
    is_reassigned: bool,
    /// Whether a classic member has taken the place of a consumer member.
    replaced_consumer: bool,
    /// Whether the group's patterns are to be resolved.
    resolves: bool,
}

/// What a step changes of its member's current assignment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reassigned {
    No,
    /// Not what the member owns: its epoch, its state or what it has to give up.
    Otherwise,
    Owned,
}

/// What a request changes of its member's subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// A pattern whose resolution will raise the group epoch.
    UnresolvedPattern,
    Subscription,
}

/// Who joins or stays, and how.
pub(super) struct Joining {
    /// The member id of the request, or a new one.
    pub member_id: Arc<str>,
    /// Of a JoinGroup, which comes here as a heartbeat.
    pub classic: Option<ClassicMemberValue>,
    /// Whether the request has a member id.
    pub has_id: bool,
    /// The ticket of the request.
    pub ticket: Ticket,
}

/// A step of a member, whose records are not yet written.
pub(super) struct Stepped {
    pub group_id: Arc<str>,
    /// The member's epoch now.
    pub epoch: i32,
    /// What it owns, if the answer says so.
    pub assigned: Option<Vec<TopicIndexes>>,
    pub draft: Draft,
    /// Records before those of the draft.
    pub before: Vec<Record>,
}

/// The group that a request finds.
enum Room {
    /// It is there, or there is none yet.
    Own,
    /// A classic group without members: it ends.
    Empty(GroupHandle),
    /// A classic group with members: it is converted.
    Classic(GroupHandle),
}

/// A heartbeat in its context.
struct Beat<'a> {
    request: &'a ConsumerGroupHeartbeat<'a>,
    member_id: &'a Arc<str>,
    joining: &'a Joining,
    topics: &'a Topics,
    max_size: u32,
    interval_ms: i32,
    now: Now,
    /// Whether the group was a classic one that rebalanced until now, or had to.
    is_interrupted: bool,
}

impl Coordinator {
    /// The gate of this request (docs/consumer-protocol.md §4.3): its own checks come before those of the partition.
    pub(crate) fn refuse_consumer_heartbeat(&self, request: &ConsumerGroupHeartbeat<'_>) -> Option<Refusal> {
        if let Err(refusal) = checks::check(&self.consumer, request) {
            return Some(refusal);
        }
        match self.phase {
            Phase::Active => None,
            Phase::Loading => Some(ErrorCode::CoordinatorLoadInProgress.into()),
            Phase::Failed | Phase::Unloaded => Some(ErrorCode::NotCoordinator.into()),
        }
    }

    /// Handles a request that has passed the gate.
    pub(crate) fn consumer_group_heartbeat(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        entropy: Entropy,
        request: &ConsumerGroupHeartbeat<'_>,
    ) {
        if self.keep_alive(step, ticket, request) {
            return;
        }
        if request.version == ConsumerGroupHeartbeat::KEEPS_SESSION {
            return self.keep_session(step, ticket, request);
        }
        if self.is_writing(request.group_id) {
            return self.defer_heartbeat(step.now, ticket, entropy, request);
        }
        let done = match request.member_epoch {
            LEAVE | LEAVE_STATIC => self.consumer_leave(step, ticket, request),
            _ => self.consumer_beat(step, ticket, entropy, request),
        };
        if let Err(refusal) = done {
            refuse_heartbeat(step, ticket, &refusal);
        }
    }

    /// Answers a heartbeat that changes nothing and says nothing new; `false`: it is another. Nothing is allocated. A new
    /// target that is not due yet changes nothing either.
    fn keep_alive(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &ConsumerGroupHeartbeat<'_>) -> bool {
        let Some(group) = self.consumer_groups.get(request.group_id) else { return false };
        let timing = self.consumer.of_group(self.group_settings.get(request.group_id));
        let settled = group.write.is_none()
            && (group.epoch() == group.target_epoch() || !group.is_target_due(step.now, timing.assignment_interval_ms))
            && group.metadata_until_ms > step.now.mono_ms
            && !(group.has_patterns() && group.patterns_are_due(group.resolved_ms(), step.now.wall_ms));
        let Some((id, member)) = group.member_entry(request.member_id).filter(|_| settled) else { return false };
        let (Some(session), Some(subscription)) = (member.session, &member.subscription) else { return false };
        let quiet = !checks::is_full(request)
            && request.member_epoch == group.target_epoch()
            && member.is_reconciled(group.target_epoch())
            && request.subscribed_topic_names.is_none()
            && subscription.classic.is_none()
            && says_nothing_new(subscription, request);
        if !quiet {
            return false;
        }
        self.purgatory.rearm(session, step.now.after_timeout(timing.session_timeout_ms));
        if let Some(receipt) = self.receipt(group, session, timing.session_timeout_ms) {
            step.sink.receipt(ticket, receipt);
        }
        let answer = ConsumerHeartbeatAnswer {
            error: ErrorCode::None,
            error_message: None,
            member_id: Some(id),
            member_epoch: member.epoch(),
            heartbeat_interval_ms: timing.heartbeat_interval_ms,
            assignment: None,
        };
        step.sink.answer(ticket, Answer::ConsumerGroupHeartbeat(answer));
        true
    }

    /// Renews the session of a member that is not away. The member's next heartbeat gets what is new. Waits for no
    /// append, because the group does not change.
    fn keep_session(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &ConsumerGroupHeartbeat<'_>) {
        let timing = self.timing_of(request.group_id);
        let group = self.consumer_groups.get_mut(request.group_id);
        let Some((group_id, id, member)) = group.and_then(|group| {
            let (id, _) = group.member_entry(request.member_id).filter(|(_, member)| member.epoch() != AWAY)?;
            let (group_id, id) = (Arc::clone(&group.id), Arc::clone(id));
            let member = group.member_mut(&id)?;
            Some((group_id, id, member))
        }) else {
            return refuse_heartbeat(step, ticket, &ErrorCode::UnknownMemberId.into());
        };
        let classic = member.subscription.as_ref().and_then(|value| value.classic.as_ref());
        let session_ms = classic.map_or(timing.session_timeout_ms, |classic| classic.session_timeout_ms);
        renew_session(&mut self.purgatory, &group_id, &id, member, step.now.after_timeout(session_ms));
        let (member_id, epoch) = (id, member.epoch());
        let heartbeat_interval_ms = timing.heartbeat_interval_ms;
        answer_heartbeat(step, &Reply { ticket, member_id, epoch, heartbeat_interval_ms, assignment: None });
    }

    fn consumer_beat(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        entropy: Entropy,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> Result<(), Refusal> {
        let member_id: Arc<str> = match request.member_id {
            "" => uuid_text(entropy).into(),
            member_id => member_id.into(),
        };
        let joining = Joining { member_id: Arc::clone(&member_id), classic: None, has_id: true, ticket };
        let Stepped { group_id, epoch, assigned, draft, before } = self.step_member(step, request, &joining)?;
        let reply = Reply {
            ticket,
            member_id,
            epoch,
            heartbeat_interval_ms: self.timing_of(&group_id).heartbeat_interval_ms,
            assignment: assigned,
        };
        self.finish(step, &group_id, draft, before, Owed::Heartbeat(Box::new(reply)));
        Ok(())
    }

    /// The steps of docs/consumer-protocol.md §4.3 for a member that joins or stays, up to what is written.
    pub(super) fn step_member(
        &mut self,
        step: &mut Step<'_>,
        request: &ConsumerGroupHeartbeat<'_>,
        joining: &Joining,
    ) -> Result<Stepped, Refusal> {
        let room = self.make_room(request)?;
        // Taken out of the table, so that the coordinator's timers can be changed beside it.
        let removed = self.consumer_groups.remove_entry(request.group_id);
        let (group_id, mut group) = removed.unwrap_or_else(|| {
            let id: Arc<str> = request.group_id.into();
            let mut group = ConsumerGroup::new(Arc::clone(&id));
            group.begin_history(step.now.mono_ms);
            (id, group)
        });
        let mut draft = Draft::default();
        let upgraded = match room {
            Room::Classic(handle) => self.upgrade(handle, &mut group, &mut draft),
            Room::Own | Room::Empty(_) => Ok(()),
        };
        let timing = self.timing_of(&group_id);
        let beat = Beat {
            request,
            member_id: &joining.member_id,
            joining,
            topics: &self.topics,
            max_size: self.consumer.max_size,
            interval_ms: timing.assignment_interval_ms,
            now: step.now,
            is_interrupted: self.is_interrupted(&room, &group),
        };
        let outcome = upgraded.and_then(|()| beat.run(&mut group, &mut draft));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refusal) => {
                self.discard(step.now, &mut group, draft);
                if !group.is_gone() {
                    self.consumer_groups.insert(group_id, group);
                }
                if let Room::Classic(handle) = room {
                    self.refuse_parked(step, handle);
                }
                return Err(refusal);
            }
        };
        if let Room::Classic(_) = room {
            draft.trigger = Some(Trigger::new(Cause::Upgraded, &joining.member_id));
        }
        let before = self.leave_classic(step, &room, &mut group, &mut draft);
        draft.ended.extend(self.arm(step.now, &mut group, &joining.member_id, outcome.is_reassigned));
        if outcome.resolves {
            self.arm_resolution(step, &mut group, joining.ticket);
        }
        if outcome.replaced_consumer
            && let Some(image) = self.downgrade_replaced(&group)
        {
            draft.after = group.tombstones_and(&image, step.now.wall_ms);
            draft.end = OnEnd::Downgraded(Box::new(image), None);
        }
        self.consumer_groups.insert(Arc::clone(&group_id), group);
        Ok(Stepped { group_id, epoch: outcome.epoch, assigned: outcome.assigned, draft, before })
    }

    /// Whether a classic group is in the midst of a rebalance, or needs one: no member was assigned some partition of a topic
    /// that members subscribe to. What a member still has to give up is not enough: no other would get it.
    fn is_interrupted(&self, room: &Room, upgraded: &ConsumerGroup) -> bool {
        let Room::Classic(handle) = *room else { return false };
        let names = upgraded.topic_names();
        let topics = names.iter().filter_map(|name| self.topics.get(name));
        let mut all = topics.flat_map(|topic| (0..topic.partitions).map(|index| (topic.topic_id, index)));
        let targets = upgraded.members().filter_map(|(_, member, _)| member.target.as_ref());
        let assigned: BTreeSet<_> = targets.flatten().collect();
        self.groups[handle].is_rebalancing() || all.any(|partition| !assigned.contains(&partition))
    }

    /// What the step does to the classic group of the same id; returns the record that ends that one.
    fn leave_classic(
        &mut self,
        step: &mut Step<'_>,
        room: &Room,
        group: &mut ConsumerGroup,
        draft: &mut Draft,
    ) -> Vec<Record> {
        let (Room::Empty(handle) | Room::Classic(handle)) = *room else { return Vec::new() };
        let before = vec![self.classic_tombstone(handle)];
        draft.end = match room {
            Room::Classic(_) => {
                let image = self.take_classic(step, handle);
                group.continue_history(&image);
                OnEnd::Upgraded(Box::new(image))
            }
            Room::Own | Room::Empty(_) => OnEnd::EndsClassic,
        };
        let ids: Vec<Arc<str>> = group.members().map(|(id, ..)| Arc::clone(id)).collect();
        for id in ids {
            draft.ended.extend(self.arm(step.now, group, &id, false));
        }
        before
    }

    /// Whether the group is there, or may come into being, in place of a classic group or not.
    fn make_room(&self, request: &ConsumerGroupHeartbeat<'_>) -> Result<Room, Refusal> {
        let group_id = request.group_id;
        if self.find_consumer_group(group_id).is_some() {
            return Ok(Room::Own);
        }
        let joins = request.member_epoch == JOIN;
        let not_found = |message: String| Err(Refusal::new(ErrorCode::GroupIdNotFound, message));
        let Some(handle) = self.find_group(group_id) else {
            return if joins { Ok(Room::Own) } else { not_found(format!("Consumer group {group_id} not found.")) };
        };
        if !joins {
            return not_found(format!("Group {group_id} is not a consumer group."));
        }
        let classic = &self.groups[handle];
        if classic.state == State::Empty {
            return Ok(Room::Empty(handle));
        }
        self.check_upgrade(handle)?;
        Ok(Room::Classic(handle))
    }

    /// A whole session from now on, and a rebalance deadline for a member that has partitions to give up. Returns the
    /// deadlines of a member that was classic before.
    fn arm(&mut self, now: Now, group: &mut ConsumerGroup, member_id: &Arc<str>, is_reassigned: bool) -> Vec<OpId> {
        let group_id = Arc::clone(&group.id);
        let of_group_ms = self.timing_of(&group_id).session_timeout_ms;
        let is_owing = |current: &Current| current.state == MemberState::Unrevoked;
        let lacks_deadline =
            |member: &ConsumerMember| member.rebalance.is_none() && member.current.as_ref().is_some_and(is_owing);
        // A deadline that has passed while an append was in flight stands.
        let has_expired = !is_reassigned
            && group.member(member_id).is_some_and(lacks_deadline)
            && group.is_revocation_over(member_id);
        let Some(member) = group.member_mut(member_id) else { return Vec::new() };
        let classic = member.subscription.as_ref().and_then(|value| value.classic.as_ref());
        let is_classic = classic.is_some();
        let session_ends = now.after_timeout(classic.map_or(of_group_ms, |classic| classic.session_timeout_ms));
        renew_session(&mut self.purgatory, &group_id, member_id, member, session_ends);
        let classic_deadlines = if is_classic { [None, None] } else { [member.join.take(), member.sync.take()] };
        if is_reassigned || is_classic {
            member.rebalance.take().map(|before| self.purgatory.complete(before));
        }
        let owed = member.current.as_ref().filter(|current| is_owing(current));
        if let (false, None, Some(current), Some(value)) =
            (is_classic || has_expired, member.rebalance, owed, member.subscription.as_ref())
        {
            let what = Operation::ConsumerRebalance(Box::new((group_id, Arc::clone(member_id), current.epoch)));
            let ends = now.after_timeout(value.rebalance_timeout_ms);
            member.rebalance = Some(self.purgatory.watch(ends, &[], what));
        }
        classic_deadlines.into_iter().flatten().collect()
    }
}

/// The session of a member ends at `ends_ms`, whether or not one runs.
pub(super) fn renew_session(
    purgatory: &mut Purgatory<WatchKey, Operation>,
    group_id: &Arc<str>,
    member_id: &Arc<str>,
    member: &mut ConsumerMember,
    ends_ms: u64,
) {
    if let Some(session) = member.session {
        purgatory.rearm(session, ends_ms);
    } else {
        let what = Operation::ConsumerSession(Box::new((Arc::clone(group_id), Arc::clone(member_id))));
        member.session = Some(purgatory.watch(ends_ms, &[], what));
    }
}

impl Beat<'_> {
    fn run(&self, group: &mut ConsumerGroup, draft: &mut Draft) -> Result<Outcome, Refusal> {
        let request = self.request;
        self.check_size(group)?;
        let identity = if self.joining.classic.is_some() {
            group.identify_classic(request.member_id, request.instance_id, self.joining.has_id)?
        } else {
            group.identify(request, self.member_id)?
        };
        let owned = identity::owned(request);
        if let (Identity::Known, Some(member)) = (&identity, group.member(self.member_id)) {
            let joining = Current::joining();
            let current = member.current.as_ref().unwrap_or(&joining);
            identity::check_epoch(current, request.member_epoch, owned.as_ref())?;
        }
        self.check_pattern(group)?;
        // Of other requests the votes for assignors are those before.
        let votes = request.server_assignor.is_some() || matches!(identity, Identity::Replaces(_));
        let (assignor, resolved_ms) = (votes.then(|| group.preferred_assignor()), group.resolved_ms());
        let mut replaced_consumer = false;
        if let Identity::Replaces(predecessor) = &identity {
            let was_consumer = group.member(predecessor).is_some_and(|member| !member.is_classic());
            replaced_consumer = was_consumer && self.joining.classic.is_some();
            self.replace(group, draft, predecessor);
        }
        let change = self.subscribe(group, draft);
        let resubscribed = change != Change::Nothing;
        // What a classic group was rebalancing for, or had to, is done by the next target (departure D25).
        let has_new_assignor = assignor.is_some_and(|assignor| group.preferred_assignor() != assignor);
        let bump = change == Change::Subscription || has_new_assignor || self.is_interrupted;
        let resolves = group.patterns_are_due(resolved_ms, self.now.wall_ms);
        let epoch = group.epoch();
        self.bump(group, draft, bump);
        if group.epoch() > epoch {
            let cause = match identity {
                Identity::New if bump => Cause::MemberJoined,
                Identity::Replaces(_) if bump => Cause::StaticReplaced,
                Identity::Known if bump => Cause::SubscriptionChanged,
                Identity::New | Identity::Known | Identity::Replaces(_) => Cause::TopicsChanged,
            };
            let by_member = cause != Cause::TopicsChanged;
            let member_id = if by_member { Arc::clone(self.member_id) } else { "".into() };
            draft.trigger = Some(Trigger::new(cause, &member_id));
        }
        self.retarget(group, draft)?;
        let reassigned = self.reconcile(group, draft, owned.as_ref(), resubscribed)?;
        let member = group.member(self.member_id).and_then(|member| member.current.as_ref());
        let owns = || member.into_iter().flat_map(|current| current.assigned.keys().copied());
        // Nothing else changes what a known member owns, and one that joins sends a full request.
        let is_same = reassigned != Reassigned::Owned;
        let assigned = (checks::is_full(request) || !is_same).then(|| by_topic(owns()));
        let epoch = member.map_or(0, |current| current.epoch);
        let is_reassigned = reassigned != Reassigned::No;
        Ok(Outcome { epoch, assigned, is_reassigned, replaced_consumer, resolves })
    }

    /// A known member, and one whose instance is known, may be in a full group.
    fn check_size(&self, group: &ConsumerGroup) -> Result<(), Refusal> {
        let known = group.member(self.member_id).is_some()
            || self.request.instance_id.is_some_and(|instance_id| group.instance(instance_id).is_some());
        // Members are counted only where the number of ids does not answer the question.
        if known || group.ids() < self.max_size as usize || group.size() < self.max_size as usize {
            return Ok(());
        }
        let message = format!("The consumer group has reached its maximum capacity of {} members.", self.max_size);
        Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message))
    }

    /// A pattern that no member has yet has to be valid.
    fn check_pattern(&self, group: &ConsumerGroup) -> Result<(), Refusal> {
        let new = self.request.subscribed_topic_regex.filter(|new| !new.is_empty() && !group.has_pattern(new));
        let Some(Err(reason)) = new.map(Pattern::new) else { return Ok(()) };
        let pattern = new.unwrap_or_default();
        let message = format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.");
        Err(Refusal::new(ErrorCode::InvalidRegularExpression, message))
    }

    /// A static member comes back: it takes over all that its predecessor had, at epoch 0.
    fn replace(&self, group: &mut ConsumerGroup, draft: &mut Draft, predecessor: &Arc<str>) {
        let Some(member) = group.member(predecessor) else { return };
        let (subscription, target) = (member.subscription.clone(), member.target.clone().unwrap_or_default());
        let current = member.current.clone().unwrap_or_else(Current::joining);
        let current = Current { epoch: 0, previous_epoch: 0, ..current };
        draft.put_tombstones(group, predecessor);
        let id = || Arc::clone(self.member_id);
        draft.put(group, ConsumerRecord::Member(id(), subscription));
        draft.put(group, ConsumerRecord::Target(id(), Some(by_topic(target.into_iter()))));
        draft.put(group, ConsumerRecord::Current(id(), Some(Box::new(current.value()))));
    }

    /// Takes over what the request says of its member.
    fn subscribe(&self, group: &mut ConsumerGroup, draft: &mut Draft) -> Change {
        let stored = group.member(self.member_id).and_then(|member| member.subscription.as_deref());
        let next = self.subscription(stored);
        let names = stored.map_or(&[][..], |stored| &stored.topic_names);
        let pattern = ConsumerGroup::pattern_of(&next);
        let has_new_pattern = stored.and_then(ConsumerGroup::pattern_of) != pattern;
        // Without a pattern, or with one whose topics are known, the new subscription is complete.
        let is_complete = pattern.is_none_or(|pattern| group.is_resolved(pattern));
        let change = match (*names != *next.topic_names, has_new_pattern) {
            (true, _) => Change::Subscription,
            (false, true) if is_complete => Change::Subscription,
            (false, true) => Change::UnresolvedPattern,
            (false, false) => Change::Nothing,
        };
        if stored != Some(&next) {
            draft.put(group, ConsumerRecord::Member(Arc::clone(self.member_id), Some(Box::new(next))));
        }
        draft.put_pattern_tombstones(group);
        change
    }

    fn subscription(&self, stored: Option<&SubscriptionValue>) -> SubscriptionValue {
        let request = self.request;
        let newer = |text: Option<&str>, stored: Option<&Arc<str>>| text.map(Arc::from).or_else(|| stored.cloned());
        let names = request.subscribed_topic_names.map(|names| {
            let names: BTreeSet<&str> = names.iter().copied().collect();
            names.into_iter().map(|name| self.topics.shared(name)).collect()
        });
        let topic_names = names.or_else(|| stored.map(|stored| stored.topic_names.clone())).unwrap_or_default();
        let topic_regex = newer(request.subscribed_topic_regex, stored.and_then(|stored| stored.topic_regex.as_ref()));
        SubscriptionValue {
            instance_id: newer(request.instance_id, stored.and_then(|stored| stored.instance_id.as_ref())),
            rack_id: newer(request.rack_id, stored.and_then(|stored| stored.rack_id.as_ref())),
            client_id: request.client_id.into(),
            client_host: request.client_host.into(),
            topic_names,
            // Kafka writes a pattern that is not used as "".
            topic_regex: Some(topic_regex.unwrap_or_default()),
            rebalance_timeout_ms: match request.rebalance_timeout_ms {
                UNCHANGED => stored.map_or(UNCHANGED, |stored| stored.rebalance_timeout_ms),
                timeout_ms => timeout_ms,
            },
            server_assignor: newer(request.server_assignor, stored.and_then(|stored| stored.server_assignor.as_ref())),
            classic: self.joining.classic.clone(),
        }
    }

    /// The next group epoch, if something asks for one, or the metadata of the subscribed topics has changed.
    fn bump(&self, group: &mut ConsumerGroup, draft: &mut Draft, bump: bool) {
        if !bump && group.metadata_until_ms > self.now.mono_ms {
            return;
        }
        let metadata_hash = group.subscribed_hash(self.topics);
        if bump || metadata_hash != group.metadata_hash() {
            let value = EpochValue { epoch: group.epoch() + 1, metadata_hash };
            draft.put(group, ConsumerRecord::Epoch(Some(value)));
        }
        group.metadata_until_ms = self.now.after(METADATA_REFRESH_MS);
    }

    /// A new target, if there is reason for one and the last one is old enough.
    fn retarget(&self, group: &mut ConsumerGroup, draft: &mut Draft) -> Result<(), Refusal> {
        if !group.is_target_due(self.now, self.interval_ms) {
            return Ok(());
        }
        for record in group.compute_target(self.topics, self.now.wall_ms)? {
            draft.put(group, record);
        }
        Ok(())
    }

    /// Takes the member towards its target.
    fn reconcile(
        &self,
        group: &mut ConsumerGroup,
        draft: &mut Draft,
        owned: Option<&PartitionSet>,
        resubscribed: bool,
    ) -> Result<Reassigned, Refusal> {
        let Some(member) = group.member(self.member_id) else { return Ok(Reassigned::No) };
        let value = member.subscription.as_deref();
        let is_subscribed = |name: &Arc<str>| value.is_some_and(|value| group.is_subscribed(value, name));
        let (joining, nothing) = (Current::joining(), PartitionSet::new());
        let current = member.current.as_ref().unwrap_or(&joining);
        let reconciliation = Reconciliation {
            target_epoch: group.target_epoch(),
            target: member.target.as_ref().unwrap_or(&nothing),
            owned,
            resubscribed,
            subscribes: &|topic_id| self.topics.name_of(topic_id).is_some_and(is_subscribed),
            is_free: &|partition| group.is_free_for(partition, self.member_id),
        };
        let next = reconciliation.next(current).map_err(|_| {
            let message = format!("Member {} is in a state that this coordinator does not know.", self.member_id);
            Refusal::new(ErrorCode::FencedMemberEpoch, message)
        })?;
        let Some(next) = next else { return Ok(Reassigned::No) };
        let is_same = next.assigned.keys().eq(current.assigned.keys());
        draft.put(group, ConsumerRecord::Current(Arc::clone(self.member_id), Some(Box::new(next.value()))));
        Ok(if is_same { Reassigned::Otherwise } else { Reassigned::Owned })
    }
}

/// Whether the request repeats what is stored, as far as it says anything.
fn says_nothing_new(stored: &SubscriptionValue, request: &ConsumerGroupHeartbeat<'_>) -> bool {
    let same = |said: Option<&str>, stored: Option<&Arc<str>>| said.is_none() || said == stored.map(|text| &**text);
    same(request.instance_id, stored.instance_id.as_ref())
        && same(request.rack_id, stored.rack_id.as_ref())
        && same(request.subscribed_topic_regex, stored.topic_regex.as_ref())
        && same(request.server_assignor, stored.server_assignor.as_ref())
        && *request.client_id == *stored.client_id
        && *request.client_host == *stored.client_host
        && [UNCHANGED, stored.rebalance_timeout_ms].contains(&request.rebalance_timeout_ms)
}

/// A member id as Kafka makes it: 128 random bits in base 64.
pub(super) fn uuid_text(entropy: Entropy) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 22 digits have room for 132 bits: the last four are 0.
    let digit = |at: u32| match at {
        0..=20 => DIGITS[(entropy.0 >> (122 - 6 * at)) as usize % 64],
        _ => DIGITS[(entropy.0 << 4) as usize % 64],
    };
    (0..22).map(|at| char::from(digit(at))).collect()
}
