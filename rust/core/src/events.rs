//! The events: what a coordinator can be told, and who handles it (docs/protocol.md §3, §16).

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
    /// One request. It is answered exactly once, now or later (S18).
    pub fn submit(&mut self, now: Now, ticket: Ticket, entropy: Entropy, request: Request<'_>, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        if gate::refuse(self, step, ticket, &request) {
            return;
        }
        match request {
            Request::JoinGroup(request) => self.join_group(step, ticket, entropy, &request),
            Request::SyncGroup(request) => self.sync_group(step, ticket, &request),
            // It checks itself.
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
        }
        self.debug_check(request.group_id());
    }

    /// Fires every deadline <= now that was armed before this call, by (deadline, arming order); emits nothing if none
    /// is due. What is armed meanwhile waits for the next call.
    pub fn advance(&mut self, now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        let mut due = self.purgatory.advance(step.now.mono_ms);
        let mut fired = false;
        while let Some((_, _, operation)) = self.purgatory.take_expired(&mut due) {
            fired = true;
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
                Operation::ConsumerWait(wait) => self.consumer_wait_over(step, &wait.0, wait.1),
            }
        }
        if fired {
            self.debug_check(None);
        }
    }

    /// The group that a deadline is about.
    fn subject<'a>(&'a self, operation: &'a Operation) -> Option<&'a str> {
        let group = match operation {
            Operation::Session(member) | Operation::NewMember(member) => self.members.get(*member)?.group,
            Operation::Pending(pending) => pending.0,
            Operation::InitialDelay(group) | Operation::Join(group) | Operation::Sync(group) => *group,
            Operation::Append(append_id) => return self.append_group(*append_id),
            Operation::StableFetch(fetch) => return Some(&fetch.group_id),
            Operation::AfterDeletion(_) | Operation::Cleaner => return None,
            Operation::ConsumerSession(name) => return Some(&name.0),
            Operation::ConsumerRebalance(name) => return Some(&name.0),
            Operation::ConsumerWait(wait) => return Some(&wait.0),
        };
        self.groups.get(group).map(|group| &*group.id)
    }

    /// The log made an append durable, at this offset, or did not (§6.4, §10.3). The end of an append whose elders are
    /// still in flight counts when theirs have come.
    pub fn appended(&mut self, append_id: AppendId, result: Result<u64, ErrorCode>, now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        self.append_ended(step, append_id, result.err());
        self.debug_check(None);
    }

    /// These topics are gone, and so are their offsets, in every group and state. A coordinator that is loading knows
    /// no offsets yet: it has to be told once it has loaded.
    pub fn topics_deleted(&mut self, topics: &[&str], now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        if self.phase == Phase::Active {
            self.forget_topics(step, topics);
        }
        self.forget_topic_metadata(topics);
        self.debug_check(None);
    }

    /// Ownership is lost: whoever waits is answered `NOT_COORDINATOR`, and nothing is kept (§15.2).
    pub fn unload(&mut self, now: Now, sink: &mut dyn Sink) {
        let step = &mut Step { now: self.observe(now), sink };
        self.unload_all(step);
    }
}
