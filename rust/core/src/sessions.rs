//! Expiry: session, new-member and pending deadlines (docs/protocol.md §7.2, §7.3).

use std::sync::Arc;

use crate::{
    config::NEW_MEMBER_JOIN_TIMEOUT_MS,
    coordinator::Coordinator,
    effects::Step,
    group::{GroupHandle, MemberHandle},
    history::{Cause, Departed},
    operations::Operation,
    request::Now,
    states::State,
};

impl Coordinator {
    /// Starts a full session for a member, unless it is parked. A new member that sends a heartbeat while parked gets
    /// its session timeout instead of the five minutes.
    pub(crate) fn refresh_session(&mut self, now: Now, handle: MemberHandle) {
        let member = &mut self.members[handle];
        let deadline = now.after_timeout(member.session_timeout_ms);
        match member.session {
            // Parked members have no session, unless they are new.
            Some(operation) => {
                self.purgatory.rearm(operation, deadline);
            }
            None if member.is_parked() => {}
            None => member.session = Some(self.purgatory.watch(deadline, &[], Operation::Session(handle))),
        }
    }

    /// Starts the five minutes that a new member has for its first join, whatever its session timeout (§4.7).
    pub(crate) fn begin_new_member(&mut self, now: Now, handle: MemberHandle) {
        let deadline = now.after(NEW_MEMBER_JOIN_TIMEOUT_MS);
        self.members[handle].session = Some(self.purgatory.watch(deadline, &[], Operation::NewMember(handle)));
    }

    /// Removes the session's deadline, until the next `refresh_session`.
    pub(crate) fn end_session(&mut self, handle: MemberHandle) {
        if let Some(operation) = self.members[handle].session.take() {
            self.purgatory.complete(operation);
        }
    }

    pub(crate) fn session_expired(&mut self, step: &mut Step<'_>, handle: MemberHandle) {
        self.members[handle].session = None;
        self.expire_member(step, handle, Cause::SessionExpired, Departed::SessionExpired);
    }

    pub(crate) fn new_member_expired(&mut self, step: &mut Step<'_>, handle: MemberHandle) {
        self.members[handle].session = None;
        self.expire_member(step, handle, Cause::NewMemberExpired, Departed::NewMemberExpired);
    }

    fn expire_member(&mut self, step: &mut Step<'_>, handle: MemberHandle, cause: Cause, how: Departed) {
        let group = self.members[handle].group;
        let removed = self.expel_member(step, handle);
        match self.groups[group].state {
            State::Stable | State::CompletingRebalance => {
                self.begin_rebalance(step, group, cause, &removed.id.shared(), "");
            }
            State::PreparingRebalance => {
                let kept = self.config.rebalance_history;
                self.groups[group].note_departure(step.now, kept, removed.id.shared(), how, "");
                self.complete_join_if_all_joined(step, group);
            }
            State::Empty | State::Dead => {}
        }
    }

    pub(crate) fn pending_expired(&mut self, step: &mut Step<'_>, group: GroupHandle, member_id: &Arc<str>) {
        self.remove_pending(group, member_id);
        if self.groups[group].state == State::PreparingRebalance {
            let (id, kept) = (Arc::clone(member_id), self.config.rebalance_history);
            self.groups[group].note_departure(step.now, kept, id, Departed::PendingExpired, "");
            self.complete_join_if_all_joined(step, group);
        }
    }

    /// Removes a pending member id. Returns whether it existed.
    pub(crate) fn remove_pending(&mut self, group: GroupHandle, member_id: &str) -> bool {
        let Some(pending) = self.groups[group].pending.remove(member_id) else { return false };
        self.purgatory.complete(pending.expiry);
        self.members.release(pending.slot);
        true
    }
}
