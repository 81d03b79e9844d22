//! Heartbeat (docs/protocol.md §7.1), and the identity check that it shares with other requests (§9.1).

use crate::{
    coordinator::{Coordinator, Phase, Step},
    error::ErrorCode,
    group::MemberHandle,
    request::{Heartbeat, Now, Ticket},
    response::Answer,
    states::State,
};

impl Coordinator {
    pub(crate) fn heartbeat(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &Heartbeat<'_>) {
        let error = self
            .identify(request.group_id.unwrap_or(""), request.member_id, request.instance_id)
            .map_or_else(|error| error, |member| self.beat(step.now, member, request.generation));
        step.sink.answer(ticket, Answer::Heartbeat(error));
    }

    /// Heartbeats by handle, for callers that keep members in arrays: `codes[i]` becomes the error code of the
    /// heartbeat of `members[i]` in `generations[i]`. The three have one length. A handle is this coordinator's own: it
    /// means nothing to another incarnation.
    pub fn heartbeats(&mut self, now: Now, members: &[u64], generations: &[i32], codes: &mut [i16]) {
        let now = self.observe(now);
        assert!(members.len() == generations.len() && members.len() == codes.len(), "arrays of one length");
        let gate = match self.phase {
            Phase::Active => None,
            Phase::Loading => Some(ErrorCode::None),
            Phase::Failed | Phase::Unloaded => Some(ErrorCode::NotCoordinator),
        };
        if let Some(error) = gate {
            codes.fill(error.code());
            return;
        }
        for ((member, generation), code) in members.iter().zip(generations).zip(codes) {
            let handle = MemberHandle::from_bits(*member);
            let error = match self.members.get(handle) {
                Some(_) => self.beat(now, handle, *generation),
                None => ErrorCode::UnknownMemberId,
            };
            *code = error.code();
        }
        self.debug_check(None);
    }

    /// A heartbeat of a known member.
    fn beat(&mut self, now: Now, member: MemberHandle, generation: i32) -> ErrorCode {
        let group = &self.groups[self.members[member].group];
        if generation != group.generation {
            return ErrorCode::IllegalGeneration;
        }
        let error = match group.state {
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            _ => ErrorCode::None,
        };
        self.refresh_session(now, member);
        error
    }

    /// The member that a request is from: instance unmapped, instance mapped elsewhere, not a member, in this order.
    pub(crate) fn identify(
        &self,
        group_id: &str,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<MemberHandle, ErrorCode> {
        if let Some(instance_id) = instance_id {
            let group = self.find_group(group_id).ok_or(ErrorCode::UnknownMemberId)?;
            let owner = self.groups[group].instances.get(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
            if *self.members[*owner].id != *member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        self.find_member(group_id, member_id).ok_or(ErrorCode::UnknownMemberId)
    }
}
