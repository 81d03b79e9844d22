//! Members that go: they leave, or their session or rebalance deadline passes (docs/consumer-protocol.md §8, §10).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    checks::{LEAVE_STATIC, Refusal},
    writes::Draft,
};
use crate::{
    consumer_group::{
        group::{AWAY, ConsumerGroup, Current, MemberState},
        partitions::Granted,
        topics::Topics,
        waiting::{Later, Owed, Reply},
    },
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    history::{Cause, Trigger},
    records::{ConsumerRecord, EpochValue, TargetEpochValue},
    request::{ConsumerGroupHeartbeat, Ticket},
};

impl Coordinator {
    /// The member leaves: for good, or a static one for a while.
    pub(crate) fn consumer_leave(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> Result<(), Refusal> {
        let group_id = request.group_id;
        if self.find_consumer_group(group_id).is_none() {
            let is_classic = self.find_group(group_id).is_some();
            let what = if is_classic { "is not a consumer group" } else { "not found" };
            return Err(Refusal::new(ErrorCode::GroupIdNotFound, format!("Group {group_id} {what}.")));
        }
        let group = self.consumer_groups.get_mut(group_id).expect("it was found");
        let (id, member_id) = (Arc::clone(&group.id), group.leaver(request)?);
        let epoch = request.member_epoch;
        let gone = BTreeSet::from([Arc::clone(&member_id)]);
        let left = Trigger::new(Cause::MemberLeft, &member_id);
        let reply = Reply { ticket, member_id, epoch, heartbeat_interval_ms: 0, assignment: None };
        let answer = Some(Owed::Heartbeat(Box::new(reply)));
        if epoch == LEAVE_STATIC {
            let mut draft = Draft::default();
            for member_id in &gone {
                put_away(group, &mut draft, member_id);
            }
            self.write(step, &id, draft, Vec::new(), answer);
        } else {
            self.remove_from_consumer_group(step, &id, &gone, left, answer);
        }
        Ok(())
    }

    /// A member was not heard for its whole session.
    pub(crate) fn consumer_session_expired(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>) {
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        if let Some(member) = group.member_mut(member_id) {
            member.session = None;
        }
        if group.write.is_some() {
            return self.wait_for_write(step.now, group_id, Later::SessionEnded(Arc::clone(member_id)));
        }
        self.consumer_session_ended(step, group_id, member_id);
    }

    /// The same when no append is in flight. A member that was heard meanwhile has a session again.
    pub(crate) fn consumer_session_ended(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>) {
        let member = self.consumer_groups.get(group_id).and_then(|group| group.member(member_id));
        if member.is_some_and(|member| member.session.is_none()) {
            self.expel(step, group_id, member_id, Cause::SessionExpired);
        }
    }

    /// A member has not given its partitions up in time.
    pub(crate) fn consumer_rebalance_expired(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        member_id: &Arc<str>,
        epoch: i32,
    ) {
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        if let Some(member) = group.member_mut(member_id) {
            member.rebalance = None;
        }
        if group.write.is_some() {
            return self.wait_for_write(step.now, group_id, Later::RebalanceEnded(Arc::clone(member_id), epoch));
        }
        self.consumer_rebalance_ended(step, group_id, member_id, epoch);
    }

    /// The same when no append is in flight. A member that has given them up meanwhile stays, and so does one that is away:
    /// after a load it has this deadline, too, but nothing to give up.
    pub(crate) fn consumer_rebalance_ended(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        member_id: &Arc<str>,
        epoch: i32,
    ) {
        let member = self.consumer_groups.get(group_id).and_then(|group| group.member(member_id));
        let owes =
            |current: &Current| current.state == MemberState::Unrevoked && current.epoch == epoch && epoch != AWAY;
        if member.is_some_and(|member| member.rebalance.is_none() && member.current.as_ref().is_some_and(owes)) {
            self.expel(step, group_id, member_id, Cause::RevocationExpired);
        }
    }

    /// Raises the group epoch, as a test asks. Returns whether the group has members.
    pub(crate) fn request_epoch(&mut self, step: &mut Step<'_>, group_id: &str) -> bool {
        let Some(group) = self.consumer_groups.get_mut(group_id).filter(|group| group.write.is_none()) else {
            return true;
        };
        if group.is_empty() {
            return false;
        }
        let id = Arc::clone(&group.id);
        let mut draft = Draft::caused_by(Trigger::new(Cause::Requested, &"".into()));
        let value = EpochValue { epoch: group.epoch() + 1, metadata_hash: group.subscribed_hash(&self.topics) };
        draft.put(group, ConsumerRecord::Epoch(Some(value)));
        self.write(step, &id, draft, Vec::new(), None);
        true
    }

    fn expel(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>, cause: Cause) {
        let gone = BTreeSet::from([Arc::clone(member_id)]);
        self.remove_from_consumer_group(step, group_id, &gone, Trigger::new(cause, member_id), None);
    }

    /// A classic member has not joined again in time.
    pub(crate) fn consumer_join_expired(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>) {
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        if let Some(member) = group.member_mut(member_id) {
            member.join = None;
        }
        if group.write.is_some() {
            return self.wait_for_write(step.now, group_id, Later::JoinEnded(Arc::clone(member_id)));
        }
        self.consumer_join_ended(step, group_id, member_id);
    }

    /// The same when no append is in flight. A member that is not expected any more stays.
    pub(crate) fn consumer_join_ended(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>) {
        let group = self.consumer_groups.get(group_id);
        let member = group.and_then(|group| group.member(member_id));
        // One that has joined meanwhile has to send SyncGroup next.
        if member.is_some_and(|member| member.join.is_none() && member.sync.is_none() && member.is_classic()) {
            self.expel(step, group_id, member_id, Cause::RejoinExpired);
        }
    }

    /// A classic member has not sent SyncGroup in time.
    pub(crate) fn consumer_sync_expired(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>) {
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        if let Some(member) = group.member_mut(member_id) {
            member.sync = None;
        }
        if group.write.is_some() {
            return self.wait_for_write(step.now, group_id, Later::SyncEnded(Arc::clone(member_id)));
        }
        self.consumer_sync_ended(step, group_id, member_id);
    }

    /// The same when no append is in flight. A member that has joined again meanwhile stays.
    pub(crate) fn consumer_sync_ended(&mut self, step: &mut Step<'_>, group_id: &Arc<str>, member_id: &Arc<str>) {
        let member = self.consumer_groups.get(group_id).and_then(|group| group.member(member_id));
        if member.is_some_and(|member| member.sync.is_none() && member.is_classic()) {
            self.expel(step, group_id, member_id, Cause::SyncExpired);
        }
    }
}

/// Ends memberships, and asks for a new target of those who stay. The last member leaves an empty target behind.
pub fn remove(group: &mut ConsumerGroup, draft: &mut Draft, topics: &Topics, gone: &BTreeSet<Arc<str>>) {
    for member_id in gone {
        draft.put_tombstones(group, member_id);
    }
    draft.put_pattern_tombstones(group);
    let value = EpochValue { epoch: group.epoch() + 1, metadata_hash: group.subscribed_hash(topics) };
    draft.put(group, ConsumerRecord::Epoch(Some(value)));
    if group.is_empty() {
        let target = TargetEpochValue { epoch: value.epoch, timestamp_ms: 0 };
        draft.put(group, ConsumerRecord::TargetEpoch(Some(target)));
    }
}

/// A static member is away: it keeps what it owns, and what it was to give up is free. Its session goes on.
fn put_away(group: &mut ConsumerGroup, draft: &mut Draft, member_id: &Arc<str>) {
    let Some(member) = group.member_mut(member_id) else { return };
    draft.ended.extend(member.rebalance.take());
    let current = member.current.clone().unwrap_or_else(Current::joining);
    let assigned: Granted = current.assigned.keys().map(|partition| (*partition, 0)).collect();
    let away = Current { epoch: AWAY, assigned, pending: Granted::new(), ..current };
    draft.put(group, ConsumerRecord::Current(Arc::clone(member_id), Some(Box::new(away.value()))));
}
