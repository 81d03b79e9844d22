//! LeaveGroup (docs/protocol.md §8).

use std::sync::Arc;

use crate::{
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    group::GroupHandle,
    history::{Cause, Departed},
    request::{LeaveGroup, LeaveIdentity, Ticket},
    response::{Answer, LeaveAnswer, LeftMember},
    states::State,
};

/// The last version whose answer has the single leaver's error at the top level.
const LAST_VERSION_WITH_ONE_LEAVER: i16 = 2;

/// A member that left, how, and the reason in the request.
struct Leaver<'a> {
    member_id: Arc<str>,
    how: Departed,
    reason: &'a str,
}

impl Coordinator {
    pub(crate) fn leave_group(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &LeaveGroup<'_>) {
        if request.group_id.is_some_and(|group_id| self.consumer_groups.contains_key(group_id)) {
            return self.leave_consumer_group(step, ticket, request);
        }
        let group = self.find_group(request.group_id.unwrap_or(""));
        let mut gone: Vec<Leaver<'_>> = Vec::new();
        let mut members = Vec::with_capacity(request.members.len());
        for identity in request.members {
            let outcome = match group {
                Some(group) => self.leave(step, group, identity),
                None => Err(ErrorCode::UnknownMemberId),
            };
            let error = outcome.as_ref().err().copied().unwrap_or(ErrorCode::None);
            gone.extend(outcome);
            members.push(LeftMember { member_id: identity.member_id, instance_id: identity.instance_id, error });
        }
        if let Some(group) = group
            && !gone.is_empty()
        {
            self.after_departures(step, group, &gone);
        }
        let error = match members.first() {
            Some(member) if request.version <= LAST_VERSION_WITH_ONE_LEAVER => member.error,
            _ => ErrorCode::None,
        };
        step.sink.answer(ticket, Answer::LeaveGroup(LeaveAnswer { error, members: &members }));
    }

    /// Removes one identity (§8.1).
    fn leave<'a>(
        &mut self,
        step: &mut Step<'_>,
        handle: GroupHandle,
        identity: &LeaveIdentity<'a>,
    ) -> Result<Leaver<'a>, ErrorCode> {
        let reason = identity.reason.unwrap_or("");
        let group = &self.groups[handle];
        let member = if identity.member_id.is_empty() {
            // An administrator removes a static member by its instance id alone.
            let instance_id = identity.instance_id.ok_or(ErrorCode::UnknownMemberId)?;
            *group.instances.get(instance_id).ok_or(ErrorCode::UnknownMemberId)?
        } else if group.pending.contains_key(identity.member_id) {
            self.remove_pending(handle, identity.member_id);
            return Ok(Leaver { member_id: identity.member_id.into(), how: Departed::PendingLeft, reason });
        } else {
            let group_id = Arc::clone(&group.id);
            self.identify(&group_id, identity.member_id, identity.instance_id)?
        };
        let removed = self.expel_member(step, member);
        Ok(Leaver { member_id: removed.id.shared(), how: Departed::Left, reason })
    }

    /// Completes the request after all of its identities (§8.2). The first member that left is the cause of a rebalance
    /// that begins here.
    fn after_departures(&mut self, step: &mut Step<'_>, group: GroupHandle, gone: &[Leaver<'_>]) {
        match self.groups[group].state {
            State::Stable | State::CompletingRebalance => {
                let first = &gone[0];
                let cause = if first.how == Departed::Left { Cause::MemberLeft } else { Cause::PendingLeft };
                self.begin_rebalance(step, group, cause, &first.member_id, first.reason);
                self.note_leavers(step, group, &gone[1..]);
            }
            State::PreparingRebalance => {
                self.note_leavers(step, group, gone);
                self.complete_join_unless_initial(step, group);
            }
            State::Empty | State::Dead => {}
        }
    }

    fn note_leavers(&mut self, step: &Step<'_>, group: GroupHandle, gone: &[Leaver<'_>]) {
        let kept = self.config.rebalance_history;
        for leaver in gone {
            let member_id = Arc::clone(&leaver.member_id);
            self.groups[group].note_departure(step.now, kept, member_id, leaver.how, leaver.reason);
        }
    }
}
