//! What a test may make a coordinator do that otherwise only time, or its own judgement, brings about.

use std::fmt;

use crate::{
    coordinator::{Coordinator, Phase},
    effects::{Sink, Step},
    error::ErrorCode,
    gate,
    history::Cause,
    operations::Operation,
    request::{Now, Request, Ticket},
    response::{Answer, LeaveAnswer, LeftMember},
    states::State,
};

/// Why a coordinator did not do what a test asked for. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// It is loading, or has lost its partition.
    NotActive,
    /// It has no such group.
    NoGroup,
    /// The group has no such member.
    NoMember,
    /// The member waits for an answer, and a member that waits has no session that could lapse (§7.2).
    Waits,
    /// A group without members has nobody to rebalance.
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

/// The errors of one leaver, which from version 3 on have a place of their own (§8.1).
const OF_ONE_LEAVER: [ErrorCode; 2] = [ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId];

const FIRST_VERSION_WITH_LEAVERS: i16 = 3;

impl Coordinator {
    /// The session of a member ends now, with all that its deadline would have brought about (§7.3).
    pub fn lapse(&mut self, group_id: &str, member_id: &str, now: Now, sink: &mut dyn Sink) -> Result<(), NotDone> {
        let step = &mut Step { now: self.observe(now), sink };
        if self.phase != Phase::Active {
            return Err(NotDone::NotActive);
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

    /// A rebalance begins (§5.1), as one does when a member expires, though nobody has. While a join phase runs
    /// already, nothing changes.
    pub fn rebalance(&mut self, group_id: &str, now: Now, sink: &mut dyn Sink) -> Result<(), NotDone> {
        let step = &mut Step { now: self.observe(now), sink };
        if self.phase != Phase::Active {
            return Err(NotDone::NotActive);
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

/// Answers a request with `error`, in its place in the answer of that API, without asking any coordinator.
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
