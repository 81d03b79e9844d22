//! Classic members in a consumer group: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup (docs/consumer-protocol.md
//! §18). They join as a member does by a heartbeat; the answers show the member epoch as the generation.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    checks::JOIN,
    heartbeat::{Joining, METADATA_REFRESH_MS, renew_session, uuid_text},
    removal::remove,
    writes::{Draft, answer_leave},
};
use crate::{
    consumer_group::{
        classic::{CONSUMER, identified, named, sorted},
        config::Migration,
        group::{ConsumerGroup, ConsumerMember, MemberState},
        partitions::by_topic,
        waiting::{DeferredLeave, DeferredSync, JoinReply, Later, LeaveReply, Owed},
    },
    coordinator::Coordinator,
    effects::Step,
    embedded::Subscription,
    error::ErrorCode,
    group::distinct,
    history::{Cause, Trigger, kept_reason},
    operations::{DeferredJoin, Operation},
    records::{ClassicMemberValue, SubscriptionValue},
    request::{
        ConsumerGroupHeartbeat, Entropy, JoinGroup, LeaveGroup, LeaveIdentity, Now, SyncGroup, Ticket, TopicPartitions,
    },
    response::{Answer, SyncAnswer},
};

/// From this version on a dynamic member without an id has to join again with the one that it is given.
const FIRST_VERSION_WITH_MEMBER_ID_REQUIRED: i16 = 4;

/// A refused JoinGroup: the error, and the member id of the answer. Only `MEMBER_ID_REQUIRED` has one.
type Refused = (ErrorCode, Arc<str>);

impl Coordinator {
    /// JoinGroup for a consumer group, docs/consumer-protocol.md §18.2.
    pub(crate) fn join_consumer_group(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        entropy: Entropy,
        group_id: &str,
        request: &JoinGroup<'_>,
    ) -> Result<(), Refused> {
        let without_id = |error: ErrorCode| -> Refused { (error, "".into()) };
        let Some(group) = self.consumer_groups.get(group_id) else {
            return Err(without_id(ErrorCode::UnknownServerError));
        };
        if group.write.is_some() || group.is_empty() {
            let later = Later::Join(ticket, Box::new(DeferredJoin::new(entropy, request)));
            let (id, is_next) = (Arc::clone(&group.id), group.write.is_none());
            if is_next {
                self.end_consumer_group(step, &id, None, false);
            }
            self.wait_for_write(step.now, group_id, later);
            if is_next && let Some(group) = self.consumer_groups.get_mut(&id) {
                // What else waits has come later.
                group.waiting.rotate_right(1);
            }
            return Ok(());
        }
        let classic = self.check_classic_join(group, request).map_err(without_id)?;
        let has_id = !request.member_id.is_empty();
        let member_id: Arc<str> = if has_id { request.member_id.into() } else { uuid_text(entropy).into() };
        if !has_id && request.instance_id.is_none() && request.version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED {
            return Err((ErrorCode::MemberIdRequired, member_id));
        }
        let identity = group.identify_classic(&member_id, request.instance_id, has_id);
        identity.map_err(|refusal| without_id(refusal.error))?;
        let subscription = classic.subscription().map_err(|_| without_id(ErrorCode::InconsistentGroupProtocol))?;
        let joining = Joining { member_id, classic: Some(classic), has_id, ticket };
        self.join_as_heartbeat(step, ticket, request, &subscription, &joining).map_err(without_id)
    }

    fn check_classic_join(
        &self,
        group: &ConsumerGroup,
        request: &JoinGroup<'_>,
    ) -> Result<ClassicMemberValue, ErrorCode> {
        if self.consumer.migration == Migration::Disabled {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let is_known = group.member(request.member_id).is_some()
            || request.instance_id.is_some_and(|instance_id| group.instance(instance_id).is_some());
        if !is_known && group.size() >= self.consumer.max_size as usize {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let offers = distinct(request.protocols);
        let others = || group.members().filter_map(|(_, _, value)| value.classic.as_ref());
        // How many have each protocol: requests and members may have many.
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for other in others() {
            let names: BTreeSet<&str> = other.protocols.iter().map(|(name, _)| &**name).collect();
            for name in names {
                *counts.entry(name).or_default() += 1;
            }
        }
        let count = others().count();
        let is_common = |name: &str| counts.get(name).copied().unwrap_or_default() == count;
        if request.protocol_type != CONSUMER || !offers.iter().any(|offer| is_common(offer.name)) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let protocols = offers.iter().map(|offer| (offer.name.into(), offer.metadata.into())).collect();
        Ok(ClassicMemberValue { session_timeout_ms: request.session_timeout_ms, protocols })
    }

    /// The steps of docs/consumer-protocol.md §4.3 with what the metadata says.
    fn join_as_heartbeat(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        request: &JoinGroup<'_>,
        subscription: &Subscription,
        joining: &Joining,
    ) -> Result<(), ErrorCode> {
        let names = sorted(&subscription.topics);
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let owned = by_topic(identified(&subscription.owned_partitions, &self.topics).into_iter());
        let owned: Vec<TopicPartitions<'_>> = owned
            .iter()
            .map(|topic| TopicPartitions { topic_id: topic.topic_id, partitions: &topic.partitions })
            .collect();
        let member_id = Arc::clone(&joining.member_id);
        let rebalance_timeout_ms =
            if request.version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
        let protocol_name: Arc<str> = joining.classic.as_ref().map_or("", ClassicMemberValue::protocol_name).into();
        let heartbeat = ConsumerGroupHeartbeat {
            version: 1,
            group_id: request.group_id.unwrap_or(""),
            member_id: &member_id,
            member_epoch: JOIN,
            instance_id: request.instance_id,
            rack_id: subscription.rack.as_deref(),
            rebalance_timeout_ms,
            subscribed_topic_names: Some(&names),
            subscribed_topic_regex: Some(""),
            server_assignor: None,
            topic_partitions: Some(&owned),
            client_id: request.client_id,
            client_host: request.client_host,
        };
        let stepped = self.step_member(step, &heartbeat, joining).map_err(|refusal| refusal.error)?;
        let (generation, group_id) = (stepped.epoch, stepped.group_id);
        let reply = JoinReply { ticket, member_id, generation, protocol_name };
        self.finish(step, &group_id, stepped.draft, stepped.before, Owed::Join(Box::new(reply)));
        Ok(())
    }

    /// A JoinGroup is durable: its member has a whole session, and its rebalance timeout to send SyncGroup.
    pub(crate) fn classic_joined(&mut self, now: Now, group_id: &Arc<str>, member_id: &Arc<str>) {
        let Some(member) = self.consumer_groups.get_mut(group_id).and_then(|group| group.member_mut(member_id)) else {
            return;
        };
        let Some(value) = member.subscription.as_deref().filter(|value| value.classic.is_some()) else { return };
        let (session_ms, rebalance_ms) = (session_timeout_ms(value), value.rebalance_timeout_ms);
        for deadline in [member.join.take(), member.sync.take()].into_iter().flatten() {
            self.purgatory.complete(deadline);
        }
        renew_session(&mut self.purgatory, group_id, member_id, member, now.after_timeout(session_ms));
        let what = Operation::ConsumerSync(Box::new((Arc::clone(group_id), Arc::clone(member_id))));
        member.sync = Some(self.purgatory.watch(now.after_timeout(rebalance_ms), &[], what));
    }

    /// SyncGroup for a consumer group, docs/consumer-protocol.md §18.3.
    pub(crate) fn sync_consumer_group(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &SyncGroup<'_>) {
        let group_id = request.group_id.unwrap_or("");
        if self.is_writing(group_id) {
            let later = Later::Sync(ticket, Box::new(DeferredSync::new(request)));
            return self.wait_for_write(step.now, group_id, later);
        }
        if let Err(error) = self.serve_sync(step, ticket, request) {
            Self::answer_sync_error(step, ticket, error);
        }
    }

    fn serve_sync(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &SyncGroup<'_>) -> Result<(), ErrorCode> {
        let group_id = request.group_id.unwrap_or("");
        let group = self.consumer_groups.get_mut(group_id).ok_or(ErrorCode::UnknownMemberId)?;
        let target_epoch = group.target_epoch();
        let id = group.classic_member(request.member_id, request.instance_id)?;
        let group_id = Arc::clone(&group.id);
        let member = group.member_mut(&id).ok_or(ErrorCode::UnknownMemberId)?;
        let Some((classic, value)) = classic_of(member) else { return Err(ErrorCode::UnknownMemberId) };
        if request.generation != member.epoch() {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |sent: Option<&str>, own: &str| sent.is_some_and(|sent| sent != own);
        if differs(request.protocol_type, CONSUMER) || differs(request.protocol_name, classic.protocol_name()) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let is_unrevoked = member.current.as_ref().is_some_and(|current| current.state == MemberState::Unrevoked);
        if target_epoch > member.epoch() && !is_unrevoked {
            self.ask_to_rejoin(step.now, &group_id, &id);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let assigned = member.current.iter().flat_map(|current| current.assigned.keys().copied());
        let assignment = classic.encode(named(assigned, &self.topics)).map_err(|_| ErrorCode::UnknownServerError)?;
        let answer = SyncAnswer {
            error: ErrorCode::None,
            protocol_type: Some(CONSUMER),
            protocol_name: Some(classic.protocol_name()),
            assignment: &assignment,
        };
        step.sink.answer(ticket, Answer::SyncGroup(answer));
        let session_ms = session_timeout_ms(value);
        if let Some(sync) = member.sync.take() {
            self.purgatory.complete(sync);
        }
        group.waiting.retain(|waiting| !matches!(&waiting.what, Later::SyncEnded(expired) if *expired == id));
        self.renew_session(step.now, &group_id, &id, session_ms);
        Ok(())
    }

    /// A Heartbeat to a consumer group (docs/consumer-protocol.md §18.4); `None`: there is no such group. It waits for no
    /// append, because it says nothing that can be lost with one.
    pub(crate) fn heartbeat_in_consumer_group(
        &mut self,
        now: Now,
        ids: (&str, &str, Option<&str>),
        generation: i32,
    ) -> Option<ErrorCode> {
        let (group_id, member_id, instance_id) = ids;
        let group = self.consumer_groups.get(group_id)?;
        if group.is_gone() && group.write.is_none() {
            return None;
        }
        let named = instance_id.and_then(|id| group.instance(id)).map_or(member_id, |owner| owner);
        if group.is_leaving(named) {
            return Some(ErrorCode::UnknownMemberId);
        }
        let id = match group.classic_member(member_id, instance_id) {
            Ok(id) => id,
            Err(error) => return Some(error),
        };
        let member = group.member(&id)?;
        if generation != member.epoch() {
            return Some(ErrorCode::IllegalGeneration);
        }
        let rejoins = group.must_rejoin(&id, member);
        let session_ms = member.subscription.as_deref().map_or(0, session_timeout_ms);
        let group_id = Arc::clone(&group.id);
        let rejoins = rejoins || self.is_only_a_join_due(&group_id, now);
        self.renew_session(now, &group_id, &id, session_ms);
        if !rejoins {
            return Some(ErrorCode::None);
        }
        self.ask_to_rejoin(now, &group_id, &id);
        Some(ErrorCode::RebalanceInProgress)
    }

    /// Whether a new target is due that only a JoinGroup computes, or topics have changed that only a JoinGroup looks at: no
    /// consumer member is left to send a heartbeat.
    fn is_only_a_join_due(&mut self, group_id: &str, now: Now) -> bool {
        let interval_ms = self.timing_of(group_id).assignment_interval_ms;
        let Some(group) = self.consumer_groups.get(group_id) else { return false };
        let is_target_due = group.is_target_due(now, interval_ms);
        let is_known = group.metadata_until_ms > now.mono_ms;
        if is_known && !is_target_due || !group.is_classic_without(&BTreeSet::new()) {
            return false;
        }
        let is_same = is_known || group.subscribed_hash(&self.topics) == group.metadata_hash();
        if is_same
            && !is_known
            && let Some(group) = self.consumer_groups.get_mut(group_id)
        {
            group.metadata_until_ms = now.after(METADATA_REFRESH_MS);
        }
        is_target_due || !is_same
    }

    /// A member that is heard has a whole session, also if the last one has ended while a batch was in flight.
    fn renew_session(&mut self, now: Now, group_id: &Arc<str>, member_id: &Arc<str>, session_ms: i32) {
        let group = self.consumer_groups.get_mut(group_id);
        let Some(member) = group.and_then(|group| group.member_mut(member_id)) else { return };
        renew_session(&mut self.purgatory, group_id, member_id, member, now.after_timeout(session_ms));
    }

    /// The member has its rebalance timeout to join again.
    fn ask_to_rejoin(&mut self, now: Now, group_id: &Arc<str>, member_id: &Arc<str>) {
        let group = self.consumer_groups.get_mut(group_id);
        let Some(member) = group.and_then(|group| group.member_mut(member_id)) else { return };
        if member.join.is_none() {
            let timeout_ms = member.subscription.as_ref().map_or(0, |value| value.rebalance_timeout_ms);
            let what = Operation::ConsumerJoin(Box::new((Arc::clone(group_id), Arc::clone(member_id))));
            member.join = Some(self.purgatory.watch(now.after_timeout(timeout_ms), &[], what));
        }
    }

    /// LeaveGroup of members of a consumer group, of either protocol, docs/consumer-protocol.md §18.5.
    pub(crate) fn leave_consumer_group(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &LeaveGroup<'_>) {
        let group_id = request.group_id.unwrap_or("");
        if self.is_writing(group_id) {
            let later = Later::Leave(ticket, Box::new(DeferredLeave::new(request)));
            return self.wait_for_write(step.now, group_id, later);
        }
        let Some(group) = self.consumer_groups.get(group_id) else { return };
        let mut gone = BTreeSet::new();
        let mut trigger = None;
        let left = |identity: &LeaveIdentity<'_>| {
            let left = group.leaver_by_identity(identity);
            let error = left.as_ref().err().copied().unwrap_or(ErrorCode::None);
            if let Ok(member_id) = left {
                let reason = kept_reason(identity.reason.unwrap_or_default());
                trigger.get_or_insert_with(|| Trigger { reason, ..Trigger::new(Cause::MemberLeft, &member_id) });
                gone.insert(member_id);
            }
            (Arc::from(identity.member_id), identity.instance_id.map(Arc::from), error)
        };
        let members: Vec<_> = request.members.iter().map(left).collect();
        let group_id = Arc::clone(&group.id);
        let reply = LeaveReply { ticket, version: request.version, members };
        let Some(trigger) = trigger else { return answer_leave(step, &reply, None) };
        self.remove_from_consumer_group(step, &group_id, &gone, trigger, Some(Owed::Leave(Box::new(reply))));
    }

    /// Removes members, and with the last consumer member the group's protocol (docs/consumer-protocol.md §8.2).
    pub(crate) fn remove_from_consumer_group(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        gone: &BTreeSet<Arc<str>>,
        trigger: Trigger,
        answer: Option<Owed>,
    ) {
        let Some(group) = self.consumer_groups.get(group_id) else { return };
        if let Some(image) = self.downgrade_without(group, gone) {
            return self.write_downgrade(step, group_id, image, trigger, answer);
        }
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        let mut draft = Draft::caused_by(trigger);
        remove(group, &mut draft, &self.topics, gone);
        self.write(step, group_id, draft, Vec::new(), answer);
    }
}

impl ConsumerGroup {
    /// The classic member that a request is from.
    fn classic_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<Arc<str>, ErrorCode> {
        if let Some(instance_id) = instance_id {
            let owner = self.instance(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
            if **owner != *member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        let (id, member) = self.member_entry(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        classic_of(member).map(|_| Arc::clone(id)).ok_or(ErrorCode::UnknownMemberId)
    }

    /// Whether a classic member has to join again: for a newer target, to give partitions up, or to get what is free now.
    fn must_rejoin(&self, id: &str, member: &ConsumerMember) -> bool {
        let Some(current) = &member.current else { return false };
        let waits =
            |partition: &(u128, i32)| !current.assigned.contains_key(partition) && !self.is_free_for(*partition, id);
        self.target_epoch() > current.epoch
            || current.state == MemberState::Unrevoked
            || current.state == MemberState::Unreleased && !member.target.iter().flatten().any(waits)
    }

    /// The member that leaves, of either protocol; an administrator names it by its instance id alone.
    fn leaver_by_identity(&self, identity: &LeaveIdentity<'_>) -> Result<Arc<str>, ErrorCode> {
        let Some(instance_id) = identity.instance_id else {
            let (id, _) = self.member_entry(identity.member_id).ok_or(ErrorCode::UnknownMemberId)?;
            return Ok(Arc::clone(id));
        };
        let owner = self.instance(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
        match identity.member_id {
            "" => Ok(Arc::clone(owner)),
            member_id if **owner == *member_id => Ok(Arc::clone(owner)),
            _ => Err(ErrorCode::FencedInstanceId),
        }
    }
}

fn classic_of(member: &ConsumerMember) -> Option<(&ClassicMemberValue, &SubscriptionValue)> {
    let value = member.subscription.as_deref()?;
    Some((value.classic.as_ref()?, value))
}

/// The session timeout that a classic member has asked for.
fn session_timeout_ms(value: &SubscriptionValue) -> i32 {
    value.classic.as_ref().map_or(0, |classic| classic.session_timeout_ms)
}
