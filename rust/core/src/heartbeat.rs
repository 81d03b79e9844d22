//! Heartbeat (docs/protocol.md §7.1), and the identity check that it shares with other requests (§9.1).
//!
//! [`Coordinator::heartbeats`] is the one operation. A request and a heartbeat of the server's fast path are batches of
//! one.
//!
//! A member's id or handle leads to its slot. All that a heartbeat reads besides is one load away: the group and the
//! session's deadline. [`prefetch`] starts these loads for a whole batch before the first heartbeat is handled.

use std::{cell::Cell, hint::black_box, iter};

use crate::{
    coordinator::{Coordinator, Phase, SelfCheck},
    effects::Step,
    error::ErrorCode,
    group::{Group, GroupHandle, Member, MemberHandle},
    ids,
    purgatory::OpId,
    request::{BatchedHeartbeat, Heartbeat, Now, Sender, Ticket},
    response::Answer,
    states::State,
};

/// Heartbeats per prefetch: about as many as a processor core has loads in flight.
pub const PREFETCHED: usize = 16;

/// Up to this number, members stay in the caches of a processor core, and prefetching costs more than it saves.
const CACHED_MEMBERS: usize = 4_096;

/// The fields that a heartbeat reads of its member, in the member's two cache lines.
#[derive(Clone, Copy)]
struct Located {
    member: MemberHandle,
    group: GroupHandle,
    /// The deadline that a heartbeat extends. INVARIANT: S19, a parked member has none unless it is new.
    session: Option<OpId>,
    session_timeout_ms: i32,
}

/// Loads what these heartbeats read, at most [`PREFETCHED`] of them. Each comes with the coordinator that will handle
/// it.
///
/// The loops only load, all members before the first group and deadline. A core that decodes the next request in
/// between would not reach the next load while it waits for this one.
pub fn prefetch<'c, 'b>(beats: impl Iterator<Item = (&'c Coordinator, BatchedHeartbeat<'b>)>) {
    let mut found = [None; PREFETCHED];
    for (found, (coordinator, beat)) in found.iter_mut().zip(beats) {
        if coordinator.is_crowded() {
            let by_ids = matches!(beat.sender, Sender::Ids { .. });
            *found = coordinator.slot_of(beat.sender).map(|slot| (coordinator, Located::of(slot), by_ids));
        }
    }
    let sum = found.iter().flatten().fold(0, |sum, (coordinator, located, by_ids)| {
        sum ^ coordinator.load(*located) ^ if *by_ids { coordinator.load_group_id(*located) } else { 0 }
    });
    // Without a use of the sum the compiler would remove the loads.
    black_box(sum);
}

impl Coordinator {
    /// Handles a `Heartbeat` request.
    pub(crate) fn heartbeat_request(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &Heartbeat<'_>) {
        let error = self.heartbeat(step.now, BatchedHeartbeat::from(request));
        step.sink.answer(ticket, Answer::Heartbeat(error));
    }

    /// Handles one heartbeat, and returns its error code.
    #[inline]
    pub fn heartbeat(&mut self, now: Now, beat: BatchedHeartbeat<'_>) -> ErrorCode {
        let mut error = ErrorCode::None;
        self.heartbeats(now, iter::once((beat, ())), |(), code| error = code);
        error
    }

    /// Handles heartbeats by handle, for callers that keep members in arrays. `codes[i]` becomes the error code of the
    /// heartbeat of `handles[i]` in `generations[i]`. The three slices have the same length.
    pub fn heartbeats_by_handle(&mut self, now: Now, handles: &[u64], generations: &[i32], codes: &mut [i16]) {
        assert!(handles.len() == generations.len() && handles.len() == codes.len(), "arrays of one length");
        let beats = handles.iter().zip(generations);
        let beats = beats
            .map(|(handle, generation)| BatchedHeartbeat { sender: Sender::Handle(*handle), generation: *generation });
        let codes = Cell::from_mut(codes).as_slice_of_cells();
        self.heartbeats(now, beats.zip(codes), |code, error| code.set(error.code()));
    }

    /// Handles heartbeats in order, and passes the error code of each to `answer`, with the value given beside it.
    ///
    /// Equivalent to one request each, except for the checks of ids: the gate refuses an empty group id, and the codec
    /// an id that is not UTF-8. Here such a member is unknown.
    #[inline]
    pub fn heartbeats<'a, T>(
        &mut self,
        now: Now,
        beats: impl ExactSizeIterator<Item = (BatchedHeartbeat<'a>, T)> + Clone,
        mut answer: impl FnMut(T, ErrorCode),
    ) {
        let now = self.observe(now);
        if let Some(error) = self.refuse_heartbeats() {
            return beats.for_each(|(_, beside)| answer(beside, error));
        }
        let mut rest = beats.clone();
        while self.gains_by_prefetch(rest.len()) {
            prefetch(rest.clone().map(|(beat, _)| (&*self, beat)));
            rest.by_ref().take(PREFETCHED).for_each(|(beat, beside)| answer(beside, self.handle_one(now, beat)));
        }
        rest.for_each(|(beat, beside)| answer(beside, self.handle_one(now, beat)));
        if self.self_check != SelfCheck::Never {
            self.check_after(beats.map(|(beat, _)| beat));
        }
    }

    /// Returns the answer of a coordinator that is not active (§3). Members of a loading group get `NONE`.
    #[inline]
    fn refuse_heartbeats(&self) -> Option<ErrorCode> {
        match self.phase {
            Phase::Active => None,
            Phase::Loading => Some(ErrorCode::None),
            Phase::Failed | Phase::Unloaded => Some(ErrorCode::NotCoordinator),
        }
    }

    /// Checks the invariants of the group of a single heartbeat by ids, or of all groups.
    fn check_after<'a>(&mut self, mut beats: impl Iterator<Item = BatchedHeartbeat<'a>>) {
        match (beats.next(), beats.next()) {
            (Some(BatchedHeartbeat { sender: Sender::Ids { group_id, .. }, .. }), None) => {
                if let Ok(group_id) = str::from_utf8(group_id) {
                    self.debug_check(Some(group_id));
                }
            }
            _ => self.debug_check(None),
        }
    }

    #[expect(clippy::inline_always, reason = "called, it takes half as many instructions again")]
    #[inline(always)]
    fn handle_one(&mut self, now: Now, beat: BatchedHeartbeat<'_>) -> ErrorCode {
        let Some((located, group)) = self.recognize(beat.sender) else {
            return match beat.sender {
                Sender::Handle(_) => ErrorCode::UnknownMemberId,
                Sender::Ids { group_id, member_id, instance_id } => {
                    self.heartbeat_by_tables(now, (group_id, member_id, instance_id), beat.generation)
                }
            };
        };
        let error = group.check_generation(beat.generation);
        self.extend_session(now, located, error);
        error
    }

    /// Handles a heartbeat whose member is not in the slot that its id names, or that carries an instance id.
    fn heartbeat_by_tables(&mut self, now: Now, ids: (&[u8], &[u8], Option<&str>), generation: i32) -> ErrorCode {
        let (group_id, member_id, instance_id) = ids;
        let (Ok(group_id), Ok(member_id)) = (str::from_utf8(group_id), str::from_utf8(member_id)) else {
            return ErrorCode::UnknownMemberId;
        };
        if !self.consumer_groups.is_empty()
            && let Some(error) = self.heartbeat_in_consumer_group(now, (group_id, member_id, instance_id), generation)
        {
            return error;
        }
        let handle = match self.identify(group_id, member_id, instance_id) {
            Ok(handle) => handle,
            Err(error) => return error,
        };
        let member = &self.members[handle];
        let error = self.groups[member.group].check_generation(generation);
        self.extend_session(now, Located::of((handle, member)), error);
        error
    }

    /// Answers a known member with `error`, and restarts its session.
    #[inline]
    fn extend_session(&mut self, now: Now, located: Located, error: ErrorCode) {
        match located.session {
            _ if error == ErrorCode::IllegalGeneration => {}
            Some(session) => {
                let is_armed = self.purgatory.rearm(session, now.after_timeout(located.session_timeout_ms));
                // INVARIANT: S19.
                debug_assert!(is_armed, "a session without a deadline");
            }
            None => self.refresh_session(now, located.member),
        }
    }

    /// Finds the sender in the slot that it names, with its group.
    #[expect(clippy::inline_always, reason = "called, it takes half as many instructions again")]
    #[inline(always)]
    fn recognize(&self, sender: Sender<'_>) -> Option<(Located, &Group)> {
        let (handle, member) = self.slot_of(sender)?;
        let group = &self.groups[member.group];
        let is_sender = match sender {
            Sender::Handle(_) => true,
            Sender::Ids { group_id, member_id, instance_id } => {
                instance_id.is_none() && member.id.as_bytes() == member_id && group.id.as_bytes() == group_id
            }
        };
        is_sender.then(|| (Located::of((handle, member)), group))
    }

    /// Returns the member in the slot that a handle or an id names, whichever member that is.
    #[expect(clippy::inline_always, reason = "called, it takes half as many instructions again")]
    #[inline(always)]
    fn slot_of(&self, sender: Sender<'_>) -> Option<(MemberHandle, &Member)> {
        match sender {
            Sender::Handle(bits) => {
                let handle = MemberHandle::from_bits(bits);
                Some((handle, self.members.get(handle)?))
            }
            Sender::Ids { member_id, .. } => self.members.at(ids::hinted_slot(member_id)?),
        }
    }

    #[inline]
    fn gains_by_prefetch(&self, beats: usize) -> bool {
        beats > 1 && self.is_crowded()
    }

    /// Whether there are too many members for the caches of a processor core.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.members.places() > CACHED_MEMBERS
    }

    /// Loads the group and the deadline into the cache.
    #[inline]
    fn load(&self, located: Located) -> u64 {
        let generation = self.groups.get(located.group).map_or(0, |group| group.generation);
        let deadline = located.session.and_then(|session| self.purgatory.deadline(session));
        deadline.unwrap_or(0) ^ u64::from(generation.cast_unsigned())
    }

    /// Loads the group's id, which is stored apart.
    #[inline]
    fn load_group_id(&self, located: Located) -> u64 {
        self.groups.get(located.group).and_then(|group| group.id.as_bytes().first()).map_or(0, |byte| u64::from(*byte))
    }

    /// Identifies the sender of a request. Checks in this order: instance id unknown, instance id of another member,
    /// member id unknown.
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

impl Located {
    #[inline]
    fn of((handle, member): (MemberHandle, &Member)) -> Located {
        let Member { group, session, session_timeout_ms, .. } = *member;
        Located { member: handle, group, session, session_timeout_ms }
    }
}

impl Group {
    /// Compares the generation of a heartbeat with the group's.
    #[inline]
    fn check_generation(&self, generation: i32) -> ErrorCode {
        if generation != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        match self.state {
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            _ => ErrorCode::None,
        }
    }
}
