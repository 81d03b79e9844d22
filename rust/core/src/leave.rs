//! LeaveGroup (docs/protocol.md §8).

use std::sync::Arc;

use crate::{
    coordinator::{Coordinator, Step},
    error::ErrorCode,
    explain::Cause,
    group::GroupHandle,
    request::{LeaveGroup, LeaveIdentity, Ticket},
    response::{Answer, LeaveAnswer, LeftMember},
    states::State,
};

/// Up to this version the single leaver's error is the top-level one.
const LAST_VERSION_WITH_ONE_LEAVER: i16 = 2;

/// Who left, and how.
struct Departure {
    member_id: Arc<str>,
    cause: Cause,
}

impl Coordinator {
    pub(crate) fn leave_group(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &LeaveGroup<'_>) {
        let group = self.find_group(request.group_id.unwrap_or(""));
        let mut first: Option<(Departure, &str)> = None;
        let mut members = Vec::with_capacity(request.members.len());
        for identity in request.members {
            let outcome = match group {
                Some(group) => self.leave(step, group, identity),
                None => Err(ErrorCode::UnknownMemberId),
            };
            let error = outcome.as_ref().err().copied().unwrap_or(ErrorCode::None);
            if let Ok(departure) = outcome {
                first.get_or_insert((departure, identity.reason.unwrap_or("")));
            }
            members.push(LeftMember { member_id: identity.member_id, instance_id: identity.instance_id, error });
        }
        if let (Some(group), Some((departure, reason))) = (group, first) {
            self.after_departures(step, group, &departure, reason);
        }
        let error = match members.first() {
            Some(member) if request.version <= LAST_VERSION_WITH_ONE_LEAVER => member.error,
            _ => ErrorCode::None,
        };
        step.sink.answer(ticket, Answer::LeaveGroup(LeaveAnswer { error, members: &members }));
    }

    /// One identity (§8.1).
    fn leave(
        &mut self,
        step: &mut Step<'_>,
        handle: GroupHandle,
        identity: &LeaveIdentity<'_>,
    ) -> Result<Departure, ErrorCode> {
        let group = &self.groups[handle];
        let member = if identity.member_id.is_empty() {
            // An administrator removes a static member by its instance id alone.
            let instance_id = identity.instance_id.ok_or(ErrorCode::UnknownMemberId)?;
            *group.instances.get(instance_id).ok_or(ErrorCode::UnknownMemberId)?
        } else if group.pending.contains_key(identity.member_id) {
            self.remove_pending(handle, identity.member_id);
            return Ok(Departure { member_id: identity.member_id.into(), cause: Cause::PendingLeft });
        } else {
            let group_id = Arc::clone(&group.id);
            self.identify(&group_id, identity.member_id, identity.instance_id)?
        };
        let removed = self.expel_member(step, member);
        Ok(Departure { member_id: removed.id.shared(), cause: Cause::MemberLeft })
    }

    /// Once per request, after all of its identities (§8.2).
    fn after_departures(&mut self, step: &mut Step<'_>, group: GroupHandle, departure: &Departure, reason: &str) {
        match self.groups[group].state {
            State::Stable | State::CompletingRebalance => {
                self.begin_rebalance(step, group, departure.cause, &departure.member_id, reason);
            }
            State::PreparingRebalance => self.complete_join_unless_initial(step, group),
            State::Empty | State::Dead => {}
        }
    }
}
