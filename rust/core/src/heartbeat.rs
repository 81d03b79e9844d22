//! Heartbeat (docs/protocol.md §7.1), and the identity check that it shares with other requests (§9.1).
//!
//! There is a short way and a long way to the same answer. Who has a *seat* (`members.rs`) goes the short one: one load
//! that depends on the request, then two that depend on that one. Several are faster one behind the other if those
//! loads are begun for all of them first: [`Coordinator::foresee`].

use std::{hint::black_box, sync::Arc};

use crate::{
    coordinator::{Coordinator, Phase, SelfCheck, Step},
    error::ErrorCode,
    group::{Group, GroupHandle, MemberHandle},
    ids,
    members::Seat,
    purgatory::OpId,
    request::{Beat, Heartbeat, Now, Ticket},
    response::Answer,
    states::State,
};

/// Heartbeats of which the memory is looked at before they are handled: about as many as a core has loads in flight.
const AHEAD: usize = 16;
/// With so many members at most, their seats stay in a core's own cache.
const CROWD: usize = 4_096;

/// Where a heartbeat will lead, as far as that can be told before it is handled.
#[derive(Clone, Copy, Debug)]
pub struct Foreseen {
    group: GroupHandle,
    session: OpId,
    session_timeout_ms: i32,
}

impl Foreseen {
    fn of(seat: &Seat) -> Foreseen {
        let Seat { group, session, session_timeout_ms, .. } = *seat;
        Foreseen { group, session, session_timeout_ms }
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
        let seated = request.instance_id.is_none().then(|| self.seat_for(&beat).map(Foreseen::of)).flatten();
        let error = match seated {
            Some(seated) => self.beat_seated(step.now, seated, beat.generation),
            None => self
                .identify(group_id, request.member_id, request.instance_id)
                .map_or_else(|error| error, |member| self.beat(step.now, member, beat.generation)),
        };
        step.sink.answer(ticket, Answer::Heartbeat(error));
    }

    /// A heartbeat whose ids are still bytes of its request, of a member that named no instance. `None`: it has not
    /// been looked at, and has to be submitted. What comes of it is what would come of that.
    pub fn beat_by_seat(&mut self, now: Now, beat: &Beat<'_>) -> Option<ErrorCode> {
        if self.phase != Phase::Active {
            return None;
        }
        let seated = self.seat_for(beat).map(Foreseen::of)?;
        let now = self.observe(now);
        let error = self.beat_seated(now, seated, beat.generation);
        if self.self_check != SelfCheck::Never {
            let group_id = Arc::clone(&self.groups[seated.group].id);
            self.debug_check(Some(&group_id));
        }
        Some(error)
    }

    /// Begins to load what a heartbeat of this member will need, if its id says where that is. Then `touch`.
    pub fn foresee(&self, beat: &Beat<'_>) -> Option<Foreseen> {
        self.members.seat_at(ids::hinted_slot(beat.member_id)?).map(Foreseen::of)
    }

    /// Loads the rest of it. The number means nothing, but whoever drops it may find that nothing was loaded.
    pub fn touch(&self, foreseen: Foreseen) -> u64 {
        let generation = self.groups.get(foreseen.group).map_or(0, |group| group.generation);
        self.purgatory.deadline(foreseen.session).unwrap_or(0) ^ u64::from(generation.cast_unsigned())
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

    /// Whether there are so many members that a look ahead is worth it: their seats are not near anyway.
    pub fn is_crowded(&self) -> bool {
        self.members.places() > CROWD
    }

    /// Loads what heartbeats of these members will need, all of it side by side.
    fn look_ahead(&self, members: &[u64]) {
        let mut foreseen = [None; AHEAD];
        for (member, foreseen) in members.iter().zip(&mut foreseen) {
            *foreseen = self.members.seat_of(MemberHandle::from_bits(*member)).map(Foreseen::of);
        }
        black_box(foreseen.iter().flatten().fold(0, |sum, foreseen| sum ^ self.touch(*foreseen)));
    }

    fn beat_by_handle(&mut self, now: Now, member: MemberHandle, generation: i32) -> ErrorCode {
        match self.members.seat_of(member).map(Foreseen::of) {
            Some(seated) => self.beat_seated(now, seated, generation),
            None if self.members.get(member).is_some() => self.beat(now, member, generation),
            None => ErrorCode::UnknownMemberId,
        }
    }

    /// A heartbeat of a known member.
    fn beat(&mut self, now: Now, member: MemberHandle, generation: i32) -> ErrorCode {
        let handle = self.members[member].group;
        let error = self.groups[handle].welcome(generation);
        if error != ErrorCode::IllegalGeneration {
            self.refresh_session(now, member);
            self.members.seat(member, &self.groups[handle].id);
        }
        error
    }

    /// A heartbeat of a member who has a seat.
    fn beat_seated(&mut self, now: Now, seated: Foreseen, generation: i32) -> ErrorCode {
        let error = self.groups[seated.group].welcome(generation);
        if error != ErrorCode::IllegalGeneration {
            let is_armed = self.purgatory.rearm(seated.session, now.after_timeout(seated.session_timeout_ms));
            // INVARIANT: S19. A seat is taken away with the session that it names.
            debug_assert!(is_armed, "a seat without a session");
        }
        error
    }

    /// The seat of just this member, where its id says that it is.
    fn seat_for(&self, beat: &Beat<'_>) -> Option<&Seat> {
        let seat = self.members.seat_at(ids::hinted_slot(beat.member_id)?)?;
        seat.is_of(beat.group_id, beat.member_id).then_some(seat)
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
