//! The members' slots, and beside each the *seat* of its member: what a heartbeat needs, in two cache lines.
//!
//! A seat is a copy, and whoever may change a member takes it away: a seat that is there is right. The next heartbeat
//! that comes the long way gives the member a new one. A snapshot has no seats.

use std::ops::{Deref, Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    group::{GroupHandle, Member, MemberHandle},
    pages::Pages,
    purgatory::OpId,
    slots::Slots,
};

/// Room for a group's id and a member's together; longer ones have no seat.
const NAMES_BYTES: usize = 98;

/// Where a vacant seat has its session: never looked at.
const NOBODYS: OpId = OpId::from_number(1).expect("1 is an id's number");

/// What a heartbeat needs of a member whose session runs.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(crate) struct Seat {
    /// Who sits here.
    member: MemberHandle,
    /// Its group.
    pub group: GroupHandle,
    /// Its session.
    pub session: OpId,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// Bytes of the group's id; 0: nobody sits here.
    group_bytes: u8,
    member_bytes: u8,
    /// The group's id and, behind it, the member's.
    names: [u8; NAMES_BYTES],
}

impl Seat {
    fn vacant() -> Seat {
        Seat {
            member: MemberHandle::from_bits(0),
            group: GroupHandle::from_bits(0),
            session: NOBODYS,
            session_timeout_ms: 0,
            group_bytes: 0,
            member_bytes: 0,
            names: [0; NAMES_BYTES],
        }
    }

    /// For a member whose session runs and who is not parked, if the names find room.
    fn of(handle: MemberHandle, member: &Member, group_id: &str) -> Option<Seat> {
        let session = member.session.filter(|_| !member.is_parked())?;
        let mut seat = Seat { member: handle, group: member.group, session, ..Seat::vacant() };
        let (group, id) = (group_id.as_bytes(), member.id.as_bytes());
        seat.names.get_mut(..group.len())?.copy_from_slice(group);
        seat.names.get_mut(group.len()..group.len() + id.len())?.copy_from_slice(id);
        (seat.group_bytes, seat.member_bytes) = (group.len() as u8, id.len() as u8);
        seat.session_timeout_ms = member.session_timeout_ms;
        Some(seat)
    }

    /// Whether whoever sits here has just these names.
    pub fn is_of(&self, group_id: &[u8], member_id: &[u8]) -> bool {
        let (group, member) = (usize::from(self.group_bytes), usize::from(self.member_bytes));
        group == group_id.len()
            && member == member_id.len()
            && self.names[..group] == *group_id
            && self.names[group..group + member] == *member_id
    }

    fn is_vacant(&self) -> bool {
        self.group_bytes == 0
    }
}

/// The members of all groups, by handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    slots: Slots<Member>,
    /// One for each slot that was ever filled, so that a heartbeat does not make room.
    seats: Pages<Seat>,
}

impl Members {
    /// Takes a slot that `fill` will use later.
    pub fn reserve(&mut self) -> MemberHandle {
        self.slots.reserve()
    }

    /// Puts a member into a reserved slot. Its seat is vacant, as whoever was there has been released.
    pub fn fill(&mut self, handle: MemberHandle, member: Member) {
        self.slots.fill(handle, member);
        self.make_room();
    }

    /// Takes a slot and fills it.
    pub fn insert(&mut self, member: Member) -> MemberHandle {
        let handle = self.slots.insert(member);
        self.make_room();
        handle
    }

    /// Frees a slot, full or reserved; every handle to it becomes stale.
    pub fn release(&mut self, handle: MemberHandle) -> Option<Member> {
        self.vacate(handle.index());
        self.slots.release(handle)
    }

    /// Gives a member a seat, if it can have one and has none.
    pub fn seat(&mut self, handle: MemberHandle, group_id: &str) {
        let Some(place) = self.seats.get_mut(handle.index() as usize).filter(|place| place.is_vacant()) else { return };
        if let Some(seat) = self.slots.get(handle).and_then(|member| Seat::of(handle, member, group_id)) {
            *place = seat;
        }
    }

    fn make_room(&mut self) {
        while self.seats.len() < self.slots.places() {
            self.seats.push(Seat::vacant());
        }
    }

    /// The seat beside this slot, if somebody sits there.
    pub fn seat_at(&self, slot: u32) -> Option<&Seat> {
        self.seats.get(slot as usize).filter(|seat| !seat.is_vacant())
    }

    /// The seat of this member, if it has one.
    pub fn seat_of(&self, handle: MemberHandle) -> Option<&Seat> {
        self.seat_at(handle.index()).filter(|seat| seat.member == handle)
    }

    fn vacate(&mut self, slot: u32) {
        if let Some(seat) = self.seats.get_mut(slot as usize) {
            seat.group_bytes = 0;
        }
    }
}

/// Looking changes nothing.
impl Deref for Members {
    type Target = Slots<Member>;

    fn deref(&self) -> &Slots<Member> {
        &self.slots
    }
}

impl Index<MemberHandle> for Members {
    type Output = Member;

    fn index(&self, handle: MemberHandle) -> &Member {
        &self.slots[handle]
    }
}

/// INVARIANT: whoever may change a member takes its seat away.
impl IndexMut<MemberHandle> for Members {
    fn index_mut(&mut self, handle: MemberHandle) -> &mut Member {
        self.vacate(handle.index());
        &mut self.slots[handle]
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.slots.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        let mut members = Members { slots: Slots::deserialize(deserializer)?, seats: Pages::default() };
        members.make_room();
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::group::Client;

    fn member(id: &str) -> Member {
        Member {
            id: id.into(),
            group: GroupHandle::from_bits(3),
            order: 0,
            instance_id: None,
            client: Client::like(None, "c", "/127.0.0.1"),
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 60_000,
            protocols: Arc::default(),
            assignment: Arc::default(),
            join: None,
            sync: None,
            owes_sync: false,
            is_new: false,
            session: OpId::from_number(1),
        }
    }

    #[test]
    fn a_seat_is_two_cache_lines() {
        assert_eq!((size_of::<Seat>(), align_of::<Seat>()), (128, 128));
    }

    /// What docs/benchmarks.md says that an idle member takes.
    #[test]
    fn a_member_and_what_its_timer_carries_stay_as_small_as_they_are() {
        assert_eq!((size_of::<Member>(), size_of::<crate::operations::Operation>()), (152, 16));
    }

    #[test]
    fn a_seat_is_only_for_just_the_names_of_its_member() {
        let mut members = Members::default();
        let handle = members.insert(member("m-1"));
        members.seat(handle, "g");
        let seat = members.seat_at(handle.index()).unwrap();
        assert!(seat.is_of(b"g", b"m-1"));
        for (group_id, member_id) in
            [("g", "m-2"), ("h", "m-1"), ("gm", "-1"), ("", "gm-1"), ("g", "m-"), ("g", "m-11")]
        {
            assert!(!seat.is_of(group_id.as_bytes(), member_id.as_bytes()), "{group_id} {member_id}");
        }
    }

    #[test]
    fn whoever_may_change_a_member_takes_its_seat_away() {
        let mut members = Members::default();
        let handle = members.insert(member("m-1"));
        members.seat(handle, "g");
        assert!(members.seat_of(handle).is_some());
        members[handle].owes_sync = true;
        assert!(members.seat_of(handle).is_none() && members.seat_at(handle.index()).is_none());
        members.seat(handle, "g");
        assert!(members.release(handle).is_some());
        let newcomer = members.insert(member("m-2"));
        assert_eq!(newcomer.index(), handle.index());
        assert!(members.seat_at(handle.index()).is_none());
        members.seat(newcomer, "g");
        assert!(members.seat_of(handle).is_none() && members.seat_of(newcomer).is_some());
    }

    #[test]
    fn who_waits_or_has_no_session_or_too_long_a_name_has_no_seat() {
        let long = "m".repeat(NAMES_BYTES);
        for refused in [
            Member { sync: Some(crate::Ticket(1)), ..member("m") },
            Member { session: None, ..member("m") },
            member(&long),
        ] {
            let mut members = Members::default();
            let handle = members.insert(refused);
            members.seat(handle, "g");
            assert!(members.seat_of(handle).is_none());
        }
        let mut members = Members::default();
        let handle = members.insert(member(&long[1..]));
        members.seat(handle, "g");
        assert!(members.seat_of(handle).is_some_and(|seat| seat.is_of(b"g", &long.as_bytes()[1..])));
    }
}
