//! Heartbeat (docs/protocol.md §7.1), and the identity check that it shares with other requests (§9.1).
//!
//! A member's id leads to its slot, and all else that a heartbeat needs is one load away from there: the group, and the
//! session's deadline. Several heartbeats are faster one behind the other if those loads are begun for all of them
//! first: [`Coordinator::foresee`].

use std::{hint::black_box, sync::Arc};

use crate::{
    coordinator::{Coordinator, Phase, SelfCheck, Step},
    error::ErrorCode,
    group::{Group, GroupHandle, Member, MemberHandle},
    ids,
    purgatory::OpId,
    request::{Beat, Heartbeat, Now, Ticket},
    response::Answer,
    states::State,
};

/// Heartbeats of which the memory is looked at before they are handled: about as many as a core has loads in flight.
const AHEAD: usize = 16;
/// With so many members at most, they stay in a core's own cache.
const CROWD: usize = 4_096;

/// Where a heartbeat will lead, as far as that can be told before it is handled.
#[derive(Clone, Copy, Debug)]
pub struct Foreseen {
    member: MemberHandle,
    group: GroupHandle,
    /// Its session, which a heartbeat prolongs. INVARIANT: S19; at rest, who is parked has none, or is new.
    session: Option<OpId>,
    session_timeout_ms: i32,
}

impl Foreseen {
    fn of((handle, member): (MemberHandle, &Member)) -> Foreseen {
        let Member { group, session, session_timeout_ms, .. } = *member;
        Foreseen { member: handle, group, session, session_timeout_ms }
    }
}

impl Coordinator {
    pub(crate) fn heartbeat(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &Heartbeat<'_>) {
        let group_id = request.group_id.unwrap_or("");
        let beat = Beat {
            group_id: group_id.as_bytes(),
            generation: request.generation,
            member_id: request.member_id.as_bytes(),
        };
        let hinted = request.instance_id.is_none().then(|| self.hinted_beat(&beat)).flatten();
        let error = match hinted {
            Some((member, group)) => {
                let (foreseen, error) = (Foreseen::of(member), group.welcome(beat.generation));
                self.beat(step.now, foreseen, error)
            }
            None => match self.identify(group_id, request.member_id, request.instance_id) {
                Ok(member) => self.beat_by_handle(step.now, member, request.generation),
                Err(error) => error,
            },
        };
        step.sink.answer(ticket, Answer::Heartbeat(error));
    }

    /// A heartbeat whose ids are still bytes of its request, of a member that named no instance. `None`: it has not
    /// been looked at, and has to be submitted. What comes of it is what would come of that.
    pub fn beat_by_hint(&mut self, now: Now, beat: &Beat<'_>) -> Option<ErrorCode> {
        if !matches!(self.phase, Phase::Active) {
            return None;
        }
        let (member, group) = self.hinted_beat(beat)?;
        let (foreseen, error) = (Foreseen::of(member), group.welcome(beat.generation));
        let now = self.observe(now);
        self.beat(now, foreseen, error);
        if self.self_check != SelfCheck::Never {
            let group_id = Arc::clone(&self.groups[foreseen.group].id);
            self.debug_check(Some(&group_id));
        }
        Some(error)
    }

    /// Begins to load what a heartbeat will need whose member's id names this slot ([`hinted_slot`](crate::hinted_slot)):
    /// both lines of the member that it reads. Do so for several in a loop with nothing else in it, so that a core comes
    /// to the next load while it waits for this one; then `touch`, in another.
    #[inline]
    pub fn foresee(&self, slot: u32) -> Option<Foreseen> {
        self.members.at(slot).map(Foreseen::of)
    }

    /// Loads the rest of it. The number means nothing, but whoever drops it may find that nothing was loaded.
    #[inline]
    pub fn touch(&self, foreseen: Foreseen) -> u64 {
        // The group's id lies elsewhere, and is compared as well.
        let id = self.groups.get(foreseen.group).map_or(0, |group| group.id.as_bytes().first().copied().unwrap_or(0));
        u64::from(id) ^ self.touch_state(foreseen)
    }

    /// What there is to load when nothing is compared.
    fn touch_state(&self, foreseen: Foreseen) -> u64 {
        let generation = self.groups.get(foreseen.group).map_or(0, |group| group.generation);
        let deadline = foreseen.session.and_then(|session| self.purgatory.deadline(session));
        deadline.unwrap_or(0) ^ u64::from(generation.cast_unsigned())
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
        let batches = members.chunks(AHEAD).zip(generations.chunks(AHEAD)).zip(codes.chunks_mut(AHEAD));
        for ((members, generations), codes) in batches {
            if self.is_crowded() {
                self.look_ahead(members);
            }
            for ((member, generation), code) in members.iter().zip(generations).zip(codes) {
                *code = self.beat_by_handle(now, MemberHandle::from_bits(*member), *generation).code();
            }
        }
        self.debug_check(None);
    }

    /// Whether there are so many members that a look ahead is worth it: they are not near anyway.
    pub fn is_crowded(&self) -> bool {
        self.members.places() > CROWD
    }

    /// Loads what heartbeats of these members will need, all of it side by side.
    fn look_ahead(&self, members: &[u64]) {
        let mut foreseen = [None; AHEAD];
        for (member, foreseen) in members.iter().zip(&mut foreseen) {
            let member = MemberHandle::from_bits(*member);
            *foreseen = self.members.get(member).map(|known| Foreseen::of((member, known)));
        }
        black_box(foreseen.iter().flatten().fold(0, |sum, foreseen| sum ^ self.touch_state(*foreseen)));
    }

    fn beat_by_handle(&mut self, now: Now, member: MemberHandle, generation: i32) -> ErrorCode {
        let Some(known) = self.members.get(member) else { return ErrorCode::UnknownMemberId };
        let error = self.groups[known.group].welcome(generation);
        self.beat(now, Foreseen::of((member, known)), error)
    }

    /// Just the member that a heartbeat names, where its id says that it is, and its group.
    fn hinted_beat(&self, beat: &Beat<'_>) -> Option<((MemberHandle, &Member), &Group)> {
        let (handle, member) = self.members.at(ids::hinted_slot(beat.member_id)?)?;
        let group = &self.groups[member.group];
        let is_it = member.id.as_bytes() == beat.member_id && group.id.as_bytes() == beat.group_id;
        is_it.then_some(((handle, member), group))
    }

    /// A heartbeat of a known member who is told this.
    #[inline]
    fn beat(&mut self, now: Now, foreseen: Foreseen, error: ErrorCode) -> ErrorCode {
        let Foreseen { member, session, session_timeout_ms, .. } = foreseen;
        match session {
            _ if error == ErrorCode::IllegalGeneration => {}
            Some(session) => {
                let is_armed = self.purgatory.rearm(session, now.after_timeout(session_timeout_ms));
                // INVARIANT: S19.
                debug_assert!(is_armed, "a session without a deadline");
            }
            None => self.refresh_session(now, member),
        }
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
            if self.members[*owner].id.as_bytes() != member_id.as_bytes() {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        self.find_member(group_id, member_id).ok_or(ErrorCode::UnknownMemberId)
    }
}

impl Group {
    /// What a member is told that beats in this generation.
    fn welcome(&self, generation: i32) -> ErrorCode {
        if generation != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        match self.state {
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            _ => ErrorCode::None,
        }
    }
}
