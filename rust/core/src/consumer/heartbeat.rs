//! `ConsumerGroupHeartbeat` of a member that joins or stays (docs/consumer-protocol.md §4.3).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    checks::{self, JOIN, LEAVE, LEAVE_STATIC, Refusal},
    identity::{self, Identity},
    writes::{Draft, answer_heartbeat, refuse_heartbeat},
};
use crate::{
    consumer_group::{
        group::{ConsumerGroup, Current, MemberState},
        partitions::{PartitionSet, by_topic},
        reconcile::Reconciliation,
        topics::Topics,
        waiting::{Owed, Reply},
    },
    coordinator::{Coordinator, Phase},
    effects::Step,
    error::ErrorCode,
    operations::Operation,
    records::{ConsumerRecord, EpochValue, Record, SubscriptionValue},
    request::{ConsumerGroupHeartbeat, Entropy, Now, Ticket},
    response::{Answer, ConsumerHeartbeatAnswer},
    states::State,
};

/// How long a metadata hash needs no check if nothing is heard of its topics.
const METADATA_REFRESH_MS: u64 = i32::MAX as u64;

/// A timeout that the request does not change.
const UNCHANGED: i32 = -1;

/// What a step says to its member.
struct Outcome {
    epoch: i32,
    assigned: Option<PartitionSet>,
    /// The member's rebalance deadline: `None` leaves it.
    rebalance: Option<Deadline>,
}

enum Deadline {
    Begins { epoch: i32, timeout_ms: i32 },
    Ends,
}

/// A heartbeat in its context.
struct Beat<'a> {
    request: &'a ConsumerGroupHeartbeat<'a>,
    member_id: &'a Arc<str>,
    topics: &'a Topics,
    max_size: u32,
    interval_ms: i32,
    now: Now,
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
        if self.is_writing(request.group_id) {
            return self.defer_heartbeat(step.now, ticket, entropy, request);
        }
        if self.keep_alive(step, ticket, request) {
            return;
        }
        let done = match request.member_epoch {
            LEAVE | LEAVE_STATIC => self.consumer_leave(step, ticket, request),
            _ => self.consumer_beat(step, ticket, entropy, request),
        };
        if let Err(refusal) = done {
            refuse_heartbeat(step, ticket, &refusal);
        }
    }

    /// Answers a heartbeat that changes nothing and says nothing new; `false`: it is another. Nothing is allocated.
    fn keep_alive(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &ConsumerGroupHeartbeat<'_>) -> bool {
        let Some(group) = self.consumer_groups.get_mut(request.group_id) else { return false };
        let settled = group.epoch() == group.target_epoch() && group.metadata_until_ms > step.now.mono_ms;
        let Some((id, member)) = group.member_entry(request.member_id).filter(|_| settled) else { return false };
        let (Some(session), Some(subscription)) = (member.session, &member.subscription) else { return false };
        let quiet = request.member_epoch > JOIN
            && request.member_epoch == group.target_epoch()
            && member.is_reconciled(group.target_epoch())
            && request.subscribed_topic_names.is_none()
            && says_nothing_new(subscription, request);
        if !quiet {
            return false;
        }
        self.purgatory.rearm(session, step.now.after_timeout(self.consumer.session_timeout_ms));
        let answer = ConsumerHeartbeatAnswer {
            error: ErrorCode::None,
            error_message: None,
            member_id: Some(id),
            member_epoch: member.epoch(),
            heartbeat_interval_ms: self.consumer.heartbeat_interval_ms,
            assignment: None,
        };
        step.sink.answer(ticket, Answer::ConsumerGroupHeartbeat(answer));
        true
    }

    fn consumer_beat(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        entropy: Entropy,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> Result<(), Refusal> {
        let before = self.make_room(request)?;
        let member_id: Arc<str> = match request.member_id {
            "" => uuid_text(entropy).into(),
            member_id => member_id.into(),
        };
        // Taken out of the table, so that the coordinator's timers can be changed beside it.
        let removed = self.consumer_groups.remove_entry(request.group_id);
        let (group_id, mut group) = removed.unwrap_or_else(|| {
            let id: Arc<str> = request.group_id.into();
            (Arc::clone(&id), ConsumerGroup::new(id))
        });
        let mut draft = Draft::default();
        let beat = Beat {
            request,
            member_id: &member_id,
            topics: &self.topics,
            max_size: self.consumer.max_size,
            interval_ms: self.consumer.assignment_interval_ms,
            now: step.now,
        };
        let outcome = beat.run(&mut group, &mut draft);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refusal) => {
                self.discard(step.now, &mut group, draft);
                if !group.is_gone() {
                    self.consumer_groups.insert(group_id, group);
                }
                return Err(refusal);
            }
        };
        self.arm(step.now, &mut group, &member_id, outcome.rebalance.as_ref());
        self.consumer_groups.insert(Arc::clone(&group_id), group);
        let reply = Reply {
            ticket,
            member_id,
            epoch: outcome.epoch,
            heartbeat_interval_ms: self.consumer.heartbeat_interval_ms,
            assignment: outcome.assigned.map(|assigned| by_topic(assigned.into_iter())),
        };
        if draft.records.is_empty() {
            answer_heartbeat(step, &reply);
        } else {
            self.write(step, &group_id, draft, before, Some(Owed::Heartbeat(Box::new(reply))));
        }
        Ok(())
    }

    /// Whether the group is there, or may come into being: in place of a classic group that has no members. Returns the
    /// record that ends that one.
    fn make_room(&self, request: &ConsumerGroupHeartbeat<'_>) -> Result<Vec<Record>, Refusal> {
        let group_id = request.group_id;
        if self.find_consumer_group(group_id).is_some() {
            return Ok(Vec::new());
        }
        let joins = request.member_epoch == JOIN;
        let not_found = |message: String| Err(Refusal::new(ErrorCode::GroupIdNotFound, message));
        let Some(handle) = self.find_group(group_id) else {
            return if joins { Ok(Vec::new()) } else { not_found(format!("Consumer group {group_id} not found.")) };
        };
        let classic = &self.groups[handle];
        if !joins {
            return not_found(format!("Group {group_id} is not a consumer group."));
        }
        if classic.state != State::Empty || classic.creating.is_some() || classic.deleting.is_some() {
            return not_found(format!(
                "Cannot upgrade classic group {group_id} to consumer group because online upgrade is disabled."
            ));
        }
        Ok(vec![Record::Group { group_id: Arc::clone(&classic.id), value: None }])
    }

    /// A whole session from now on, and the rebalance deadline that the step asks for.
    fn arm(&mut self, now: Now, group: &mut ConsumerGroup, member_id: &Arc<str>, rebalance: Option<&Deadline>) {
        let group_id = Arc::clone(&group.id);
        let Some(member) = group.member_mut(member_id) else { return };
        let session_ends = now.after_timeout(self.consumer.session_timeout_ms);
        if let Some(session) = member.session {
            self.purgatory.rearm(session, session_ends);
        } else {
            let what = Operation::ConsumerSession(Box::new((Arc::clone(&group_id), Arc::clone(member_id))));
            member.session = Some(self.purgatory.watch(session_ends, &[], what));
        }
        let Some(change) = rebalance else { return };
        if let Some(before) = member.rebalance.take() {
            self.purgatory.complete(before);
        }
        if let Deadline::Begins { epoch, timeout_ms } = change {
            let what = Operation::ConsumerRebalance(Box::new((group_id, Arc::clone(member_id), *epoch)));
            member.rebalance = Some(self.purgatory.watch(now.after_timeout(*timeout_ms), &[], what));
        }
    }
}

impl Beat<'_> {
    fn run(&self, group: &mut ConsumerGroup, draft: &mut Draft) -> Result<Outcome, Refusal> {
        let request = self.request;
        self.check_size(group)?;
        let identity = group.identify(request, self.member_id)?;
        let owned = identity::owned(request);
        let held = group.member(self.member_id).and_then(|member| member.current.clone());
        if let (Identity::Known, Some(current)) = (&identity, &held) {
            identity::check_epoch(current, request.member_epoch, owned.as_ref())?;
        }
        let assignor = group.preferred_assignor(None);
        if let Identity::Replaces(predecessor) = &identity {
            self.replace(group, draft, predecessor);
        }
        let resubscribed = self.subscribe(group, draft);
        let bump = resubscribed || group.preferred_assignor(None) != assignor;
        self.bump(group, draft, bump);
        self.retarget(group, draft)?;
        let rebalance = self.reconcile(group, draft, owned.as_ref(), resubscribed)?;
        let member = group.member(self.member_id).and_then(|member| member.current.as_ref());
        let (epoch, assigned) = member
            .map_or((0, PartitionSet::new()), |current| (current.epoch, current.assigned.keys().copied().collect()));
        let is_same = held.is_some_and(|held| held.assigned.keys().eq(assigned.iter()));
        let assigned = (checks::is_full(request) || !is_same).then_some(assigned);
        Ok(Outcome { epoch, assigned, rebalance })
    }

    /// A known member, and one whose instance is known, may be in a full group.
    fn check_size(&self, group: &ConsumerGroup) -> Result<(), Refusal> {
        let known = group.member(self.member_id).is_some()
            || self.request.instance_id.is_some_and(|instance_id| group.instance(instance_id).is_some());
        if known || group.size() < self.max_size as usize {
            return Ok(());
        }
        let message = format!("The consumer group has reached its maximum capacity of {} members.", self.max_size);
        Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message))
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

    /// Takes over what the request says of its member; whether the subscription has changed.
    fn subscribe(&self, group: &mut ConsumerGroup, draft: &mut Draft) -> bool {
        let stored = group.member(self.member_id).and_then(|member| member.subscription.as_deref());
        let next = self.subscription(stored);
        let no_names = Vec::new();
        let (names, regex) =
            stored.map_or((&no_names, None), |stored| (&stored.topic_names, stored.topic_regex.as_deref()));
        let pattern = |regex: Option<&str>| regex.unwrap_or("").to_owned();
        let resubscribed = *names != next.topic_names || pattern(regex) != pattern(next.topic_regex.as_deref());
        if stored != Some(&next) {
            draft.put(group, ConsumerRecord::Member(Arc::clone(self.member_id), Some(Box::new(next))));
        }
        resubscribed
    }

    fn subscription(&self, stored: Option<&SubscriptionValue>) -> SubscriptionValue {
        let request = self.request;
        let newer = |text: Option<&str>, stored: Option<&Arc<str>>| text.map(Arc::from).or_else(|| stored.cloned());
        let names = request.subscribed_topic_names.map(|names| {
            let names: BTreeSet<&str> = names.iter().copied().collect();
            names.into_iter().map(Arc::from).collect()
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
            classic: None,
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
        let age_ms = self.now.wall_ms.saturating_sub(group.target_timestamp_ms());
        let is_due = group.target_timestamp_ms() == 0 || age_ms >= i64::from(self.interval_ms);
        if group.target_epoch() >= group.epoch() || !is_due {
            return Ok(());
        }
        for record in group.compute_target(self.topics, self.now.wall_ms)? {
            draft.put(group, record);
        }
        Ok(())
    }

    /// Takes the member towards its target; what becomes of its rebalance deadline.
    fn reconcile(
        &self,
        group: &mut ConsumerGroup,
        draft: &mut Draft,
        owned: Option<&PartitionSet>,
        resubscribed: bool,
    ) -> Result<Option<Deadline>, Refusal> {
        let Some(member) = group.member(self.member_id) else { return Ok(None) };
        let names = member.subscription.as_ref().map_or(&[][..], |subscription| &subscription.topic_names);
        let timeout_ms = member.subscription.as_ref().map_or(0, |subscription| subscription.rebalance_timeout_ms);
        let current = member.current.clone().unwrap_or_else(Current::joining);
        let nothing = PartitionSet::new();
        let reconciliation = Reconciliation {
            target_epoch: group.target_epoch(),
            target: member.target.as_ref().unwrap_or(&nothing),
            owned,
            resubscribed,
            subscribes: &|topic_id| self.topics.name_of(topic_id).is_some_and(|name| names.contains(name)),
            is_free: &|partition| group.is_free_for(partition, self.member_id),
        };
        let next = reconciliation.next(&current).map_err(|_| {
            let message = format!("Member {} is in a state that this coordinator does not know.", self.member_id);
            Refusal::new(ErrorCode::FencedMemberEpoch, message)
        })?;
        let Some(next) = next else { return Ok(None) };
        let change = match next.state {
            MemberState::Unrevoked => Deadline::Begins { epoch: next.epoch, timeout_ms },
            _ => Deadline::Ends,
        };
        draft.put(group, ConsumerRecord::Current(Arc::clone(self.member_id), Some(Box::new(next.value()))));
        Ok(Some(change))
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
fn uuid_text(entropy: Entropy) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 22 digits have room for 132 bits: the last four are 0.
    let digit = |at: u32| match at {
        0..=20 => DIGITS[(entropy.0 >> (122 - 6 * at)) as usize % 64],
        _ => DIGITS[(entropy.0 << 4) as usize % 64],
    };
    (0..22).map(|at| char::from(digit(at))).collect()
}
