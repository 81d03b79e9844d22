//! Controls for tests: end a session or begin a rebalance without waiting for time or a member.

use std::{fmt, sync::Arc};

use crate::{
    coordinator::{Coordinator, Phase},
    effects::{Sink, Step},
    error::ErrorCode,
    gate,
    history::Cause,
    operations::Operation,
    purgatory::OpId,
    request::{Now, Request, Ticket},
    response::{Answer, LeaveAnswer, LeftMember},
    states::State,
};

/// Why a coordinator refused a control. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// The coordinator is loading or has lost its partition.
    NotActive,
    /// The group does not exist.
    NoGroup,
    /// The group has no such member.
    NoMember,
    /// The member has a parked request, and therefore no session that could expire (§7.2).
    Waits,
    /// The group has no members to rebalance.
    NoMembers,
}

impl fmt::Display for NotDone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotDone::NotActive => "its coordinator is loading, or has moved",
            NotDone::NoGroup => "there is no such group",
            NotDone::NoMember => "the group has no such member",
            NotDone::Waits => {
                "it waits for the answer to its JoinGroup or SyncGroup, and such a member has no session that could \
                 lapse; wait until the group is Stable"
            }
            NotDone::NoMembers => "the group has no members",
        })
    }
}

/// Errors that belong to one leaver, from version 3 on (§8.1).
const OF_ONE_LEAVER: [ErrorCode; 2] = [ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId];

const FIRST_VERSION_WITH_LEAVERS: i16 = 3;

impl Coordinator {
    /// Expires the session of a member now, as its deadline would (§7.3).
    pub fn lapse(&mut self, group_id: &str, member_id: &str, now: Now, sink: &mut dyn Sink) -> Result<(), NotDone> {
        let step = &mut Step { now: self.observe(now), sink };
        if self.phase != Phase::Active {
            return Err(NotDone::NotActive);
        }
        if let Some(group) = self.find_consumer_group(group_id) {
            let (id, member) = group.member_entry(member_id).ok_or(NotDone::NoMember)?;
            let (group_id, id, session) = (Arc::clone(&group.id), Arc::clone(id), member.session);
            self.purgatory.complete(session.ok_or(NotDone::Waits)?);
            self.consumer_session_expired(step, &group_id, &id);
            self.debug_check(None);
            return Ok(());
        }
        if self.find_group(group_id).is_none() {
            return Err(NotDone::NoGroup);
        }
        let handle = self.find_member(group_id, member_id).ok_or(NotDone::NoMember)?;
        let session = self.members[handle].session.take().ok_or(NotDone::Waits)?;
        match self.purgatory.complete(session) {
            Some(Operation::NewMember(_)) => self.new_member_expired(step, handle),
            _ => self.session_expired(step, handle),
        }
        self.debug_check(Some(group_id));
        Ok(())
    }

    /// Fires one deadline now, for tools that try every order of deadlines. `false`: it is not armed.
    pub fn fire_now(&mut self, deadline: OpId, now: Now, sink: &mut dyn Sink) -> bool {
        let step = &mut Step { now: self.observe(now), sink };
        let Some(operation) = self.purgatory.complete(deadline) else { return false };
        self.fire(step, operation);
        self.debug_check(None);
        true
    }

    /// Begins a rebalance (§5.1), as the expiry of a member does, without removing a member. Changes nothing while a
    /// join phase runs, or while an append of a consumer group is in flight.
    pub fn rebalance(&mut self, group_id: &str, now: Now, sink: &mut dyn Sink) -> Result<(), NotDone> {
        let step = &mut Step { now: self.observe(now), sink };
        if self.phase != Phase::Active {
            return Err(NotDone::NotActive);
        }
        if self.find_consumer_group(group_id).is_some() {
            return if self.request_epoch(step, group_id) { Ok(()) } else { Err(NotDone::NoMembers) };
        }
        let group = self.find_group(group_id).ok_or(NotDone::NoGroup)?;
        match self.groups[group].state {
            State::Stable | State::CompletingRebalance => {
                self.begin_rebalance(step, group, Cause::Requested, &"".into(), "");
            }
            State::PreparingRebalance => {}
            State::Empty | State::Dead => return Err(NotDone::NoMembers),
        }
        self.debug_check(Some(group_id));
        Ok(())
    }
}

/// Answers a request with `error`, at the position that the answer of its API has for that error. No coordinator is
/// asked.
pub fn answer_error(now: Now, ticket: Ticket, request: &Request<'_>, error: ErrorCode, sink: &mut dyn Sink) {
    match request {
        Request::LeaveGroup(leave) if leave.version >= FIRST_VERSION_WITH_LEAVERS && OF_ONE_LEAVER.contains(&error) => {
            let left = leave.members.iter();
            let members: Vec<LeftMember<'_>> = left
                .map(|member| LeftMember { member_id: member.member_id, instance_id: member.instance_id, error })
                .collect();
            sink.answer(ticket, Answer::LeaveGroup(LeaveAnswer { error: ErrorCode::None, members: &members }));
        }
        _ => gate::answer(&mut Step { now, sink }, ticket, request, error),
    }
}
