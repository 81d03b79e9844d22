//! The events of a coordinator and their handlers (docs/protocol.md §3, §16).

use crate::{
    coordinator::{Coordinator, Phase},
    deletes::refuse_deferred,
    effects::{AppendId, Sink, Step},
    error::ErrorCode,
    gate,
    operations::Operation,
    request::{Entropy, Now, Request, Ticket},
};

impl Coordinator {
    /// Handles one request. Its ticket is answered exactly once, now or later (S18).
    pub fn submit(&mut self, now: Now, ticket: Ticket, entropy: Entropy, request: Request<'_>, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        if gate::refuse(self, step, ticket, &request) {
            return;
        }
        match request {
            Request::JoinGroup(request) => self.join_group(step, ticket, entropy, &request),
            Request::SyncGroup(request) => self.sync_group(step, ticket, &request),
            // Heartbeats check invariants themselves.
            Request::Heartbeat(request) => return self.heartbeat_request(step, ticket, &request),
            Request::LeaveGroup(request) => self.leave_group(step, ticket, &request),
            Request::OffsetCommit(request) => self.offset_commit(step, ticket, &request),
            Request::OffsetFetch(request) => self.offset_fetch(step, ticket, &request),
            Request::DescribeGroup(request) => self.describe_group(step, ticket, &request),
            Request::ListGroups(request) => self.list_groups(step, ticket, &request),
            Request::DeleteGroup(request) => self.delete_group(step, ticket, &request),
            Request::OffsetDelete(request) => self.offset_delete(step, ticket, &request),
            Request::ConsumerGroupHeartbeat(request) => {
                self.consumer_group_heartbeat(step, ticket, entropy, &request);
            }
            Request::ConsumerGroupDescribe(request) => self.consumer_group_describe(step, ticket, request.group_id),
            Request::ConsumerOffsetFetch(request) => self.consumer_offset_fetch(step, ticket, &request),
            Request::TxnOffsetCommit(request) => self.txn_offset_commit(step, ticket, &request),
            Request::WriteTxnMarker(request) => self.write_txn_marker(step, ticket, &request),
        }
        self.debug_check(request.group_id());
    }

    /// Fires every deadline <= `now` that was armed before this call, by (deadline, arming order). Emits nothing if
    /// none is due. Deadlines armed during the call wait for the next one.
    pub fn advance(&mut self, now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        let mut due = self.purgatory.advance(step.now.mono_ms);
        let mut fired = false;
        while let Some((_, _, operation)) = self.purgatory.take_expired(&mut due) {
            fired = true;
            self.fire(step, operation);
        }
        if fired {
            self.debug_check(None);
        }
    }

    /// What happens when a deadline has passed.
    pub(crate) fn fire(&mut self, step: &mut Step<'_>, operation: Operation) {
        step.sink.firing(operation.name(), self.subject(&operation));
        match operation {
            Operation::Session(member) => self.session_expired(step, member),
            Operation::NewMember(member) => self.new_member_expired(step, member),
            Operation::Pending(pending) => self.pending_expired(step, pending.0, &pending.1),
            Operation::InitialDelay(group) => self.initial_delay_over(step, group),
            Operation::Join(group) => self.join_deadline_passed(step, group),
            Operation::Sync(group) => self.sync_deadline_passed(step, group),
            Operation::Append(append_id) => self.append_deadline_passed(step, append_id),
            Operation::StableFetch(fetch) => {
                Self::answer_fetch_error(step, fetch.ticket, &fetch.group_id, ErrorCode::NotCoordinator);
            }
            Operation::AfterDeletion(deferred) => {
                refuse_deferred(step, &deferred, ErrorCode::CoordinatorNotAvailable);
            }
            Operation::Cleaner => self.clean(step),
            Operation::ConsumerSession(name) => self.consumer_session_expired(step, &name.0, &name.1),
            Operation::ConsumerRebalance(name) => {
                self.consumer_rebalance_expired(step, &name.0, &name.1, name.2);
            }
            Operation::ConsumerJoin(name) => self.consumer_join_expired(step, &name.0, &name.1),
            Operation::ConsumerSync(name) => self.consumer_sync_expired(step, &name.0, &name.1),
            Operation::ConsumerPatterns(group_id) => self.resolution_due(step, &group_id),
            Operation::ConsumerWait(wait) => self.consumer_wait_over(step, &wait.0, wait.1),
        }
    }

    /// Returns the group of a deadline.
    fn subject<'a>(&'a self, operation: &'a Operation) -> Option<&'a str> {
        let group = match operation {
            Operation::Session(member) | Operation::NewMember(member) => self.members.get(*member)?.group,
            Operation::Pending(pending) => pending.0,
            Operation::InitialDelay(group) | Operation::Join(group) | Operation::Sync(group) => *group,
            Operation::Append(append_id) => return self.append_group(*append_id),
            Operation::StableFetch(fetch) => return Some(&fetch.group_id),
            Operation::AfterDeletion(_) | Operation::Cleaner => return None,
            Operation::ConsumerSession(name) | Operation::ConsumerJoin(name) | Operation::ConsumerSync(name) => {
                return Some(&name.0);
            }
            Operation::ConsumerRebalance(name) => return Some(&name.0),
            Operation::ConsumerPatterns(group_id) => return Some(group_id),
            Operation::ConsumerWait(wait) => return Some(&wait.0),
        };
        self.groups.get(group).map(|group| &*group.id)
    }

    /// Reports the result of an append: the offset of its first record, or the error (§6.4, §10.3). Results apply in
    /// append order: a result waits for those of earlier appends in flight.
    pub fn appended(&mut self, append_id: AppendId, result: Result<u64, ErrorCode>, now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        self.complete_append(step, append_id, result.err());
        self.debug_check(None);
    }

    /// Removes the offsets of deleted topics from every group, in any state. A loading coordinator has no offsets yet,
    /// so the caller repeats this after `loaded`.
    pub fn topics_deleted(&mut self, topics: &[&str], now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        if self.phase == Phase::Active {
            self.forget_topics(step, topics);
        }
        self.forget_topic_metadata(topics);
        self.debug_check(None);
    }

    /// Gives up ownership: answers every waiting request with `NOT_COORDINATOR` and drops the state (§15.2).
    pub fn unload(&mut self, now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        self.unload_all(step);
    }
}
