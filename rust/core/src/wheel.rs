//! A hierarchical timing wheel: deadlines in, due entries out (`docs/protocol.md` §16).
//!
//! One tick is 1 ms. A level has 64 slots and a slot of level `n` spans `64^n` ms, so eleven levels cover every `u64`
//! and no deadline is ever clamped. An entry is placed at the highest level at which its deadline and the wheel's time
//! fall into different slots. Every occupied slot therefore *starts later* than the wheel's time, and time that reaches
//! a slot's start empties it: its entries are due, or find a lower level. Each level has one `u64` of occupancy, so a
//! jump of any length costs the entries it touches and nothing for the time it skips.
//!
//! Re-arming is lazy. A deadline that is not before the start of the entry's slot is only written into the entry, and
//! the entry finds its new slot when the old one comes due: a heartbeat costs two stores. An earlier deadline relinks.
//!
//! The wheel has no clock, no hash order and no callback: [`Wheel::advance`] is told the time, and what is due is
//! sorted by (deadline, arming number).
use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

/// Levels of the wheel: `6 * 11 >= 64`, so that every deadline has a slot.
pub const LEVELS: u32 = 11;
/// Slots of one level, as many as an occupancy word has bits.
pub const SLOTS: u32 = 64;
/// Bits of a deadline that choose the slot within one level.
const LEVEL_BITS: u32 = SLOTS.trailing_zeros();
/// The place of entries that were armed for a time that has passed.
const OVERDUE: u16 = (LEVELS * SLOTS) as u16;
/// The place of entries that an advance has found due and that nobody has taken. It is no list: to take one touches no
/// other.
const FOUND: u16 = OVERDUE + 1;
/// The place of cells that are not in use.
const VACANT: u16 = FOUND + 1;
/// All lists: one for each slot, and the overdue one.
const LISTS: usize = OVERDUE as usize + 1;
/// Lists that an advance goes through side by side: about as many as a core has loads in flight.
const ABREAST: usize = 8;
/// The end of a list. No entry has this index.
const NIL: u32 = u32::MAX;

/// The slot of level `level` that holds the instant `time_ms`.
pub const fn slot_of(time_ms: u64, level: u32) -> u32 {
    ((time_ms >> (level * LEVEL_BITS)) & (SLOTS as u64 - 1)) as u32
}

/// The level for a deadline later than `now_ms`: where the highest bit in which the two differ lies.
pub const fn level_of(now_ms: u64, deadline_ms: u64) -> u32 {
    let differing = (now_ms ^ deadline_ms) | 1;
    (u64::BITS - 1 - differing.leading_zeros()) / LEVEL_BITS
}

/// The first instant of slot `slot` of level `level` in the turn of that level that holds `now_ms`.
pub const fn slot_start(now_ms: u64, level: u32, slot: u32) -> u64 {
    let turn = match u64::MAX.checked_shl((level + 1) * LEVEL_BITS) {
        Some(above) => now_ms & above,
        None => 0,
    };
    turn | ((slot as u64) << (level * LEVEL_BITS))
}

/// The slots of `level` whose start is passed or reached when time moves from `from_ms` to the later `to_ms`, as bits.
///
/// Bits of slots that cannot be occupied at `from_ms` may be set as well.
pub const fn slots_reached(from_ms: u64, to_ms: u64, level: u32) -> u64 {
    if from_ms == to_ms {
        return 0;
    }
    let highest = level_of(from_ms, to_ms);
    if level < highest {
        u64::MAX
    } else if level == highest {
        u64::MAX >> (SLOTS - 1 - slot_of(to_ms, level))
    } else {
        0
    }
}

/// Names one armed entry; dead once the entry fired or was cancelled, even when its memory is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

impl TimerId {
    /// The id as one number, never zero; small for the first entries of a wheel.
    pub const fn number(self) -> u64 {
        ((self.generation as u64) << 32) | (self.index as u64 + 1)
    }

    /// The id with that [`number`](Self::number); `None` for a number that no id has.
    pub const fn from_number(number: u64) -> Option<Self> {
        match (number as u32).checked_sub(1) {
            Some(index) => Some(Self { index, generation: (number >> 32) as u32 }),
            None => None,
        }
    }
}

/// When an entry is due and where it lies: all that a re-arming touches, and no more than half a cache line. What the
/// entry carries lies elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(align(32))]
struct Timer {
    deadline_ms: u64,
    arming: u64,
    generation: u32,
    /// `level * 64 + slot`, [`OVERDUE`], [`FOUND`] or [`VACANT`].
    place: u16,
    #[serde(skip)]
    next: u32,
    #[serde(skip)]
    previous: u32,
}

impl Timer {
    /// Whether this is the entry that `id` names.
    fn is(&self, id: TimerId) -> bool {
        self.generation == id.generation && self.place != VACANT
    }
}

/// What one [`Wheel::advance`] found due, earliest first; taken with [`Wheel::take_due`].
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// (deadline, arming number, id), latest first, so that the next is popped from the end.
    pending: Vec<(u64, u64, TimerId)>,
}

impl Due {
    /// How many may still be taken: some may have been cancelled or re-armed since.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether nothing is left to take.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

/// The timing wheel; `T` is what an entry carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored<T>")]
pub struct Wheel<T> {
    now_ms: u64,
    /// Armings so far: the last arming number given.
    armings: u64,
    /// No entry that is overdue or found due has a deadline before this; `u64::MAX` when there is none.
    overdue_from_ms: u64,
    timers: Vec<Timer>,
    /// What each carries; `None` where the cell is vacant.
    payloads: Vec<Option<T>>,
    /// Vacant cells, the next to be used last.
    free: Vec<u32>,
    #[serde(skip)]
    armed: usize,
    #[serde(skip)]
    occupied: [u64; LEVELS as usize],
    /// The first entry of each list.
    #[serde(skip)]
    heads: Vec<u32>,
    /// Room for the lists that an advance reaches.
    #[serde(skip)]
    reached: Vec<u32>,
    /// The entries that the last advance has found due, whatever has become of them.
    #[serde(skip)]
    found: Vec<u32>,
    /// Room for the next.
    #[serde(skip)]
    found_before: Vec<u32>,
    /// How many are overdue or found due.
    #[serde(skip)]
    overdue: usize,
}

impl<T> Wheel<T> {
    /// An empty wheel whose time is `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self {
            now_ms,
            armings: 0,
            overdue_from_ms: u64::MAX,
            timers: Vec::new(),
            payloads: Vec::new(),
            free: Vec::new(),
            armed: 0,
            occupied: [0; LEVELS as usize],
            heads: vec![NIL; LISTS],
            reached: Vec::with_capacity(LISTS),
            found: Vec::new(),
            found_before: Vec::new(),
            overdue: 0,
        }
    }

    /// The time of the last advance that moved it, in ms.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Entries armed, including those due and not taken.
    pub fn len(&self) -> usize {
        self.armed
    }

    /// Whether nothing is armed.
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Arms `payload` for `deadline_ms` with the next arming number; a deadline in the past fires at the next advance.
    ///
    /// # Panics
    /// With more than 2^32 - 2 entries.
    pub fn arm(&mut self, deadline_ms: u64, payload: T) -> TimerId {
        self.armings += 1;
        let arming = self.armings;
        let index = if let Some(index) = self.free.pop() {
            let timer = &mut self.timers[index as usize];
            (timer.deadline_ms, timer.arming) = (deadline_ms, arming);
            self.payloads[index as usize] = Some(payload);
            index
        } else {
            let index = self.timers.len() as u32;
            assert!(index < NIL - 1, "a wheel holds at most 2^32 - 2 entries");
            let place = VACANT;
            self.timers.push(Timer { deadline_ms, arming, generation: 0, place, next: NIL, previous: NIL });
            self.payloads.push(Some(payload));
            index
        };
        self.armed += 1;
        self.link(index);
        TimerId { index, generation: self.timers[index as usize].generation }
    }

    /// Gives an entry a new deadline and the next arming number, in O(1) and without allocation; false if it is dead.
    pub fn rearm(&mut self, id: TimerId, deadline_ms: u64) -> bool {
        let now_ms = self.now_ms;
        let arming = self.armings + 1;
        let Some(timer) = self.timers.get_mut(id.index as usize).filter(|timer| timer.is(id)) else { return false };
        let place = timer.place;
        timer.deadline_ms = deadline_ms;
        timer.arming = arming;
        self.armings = arming;
        if place >= OVERDUE {
            self.overdue_from_ms = self.overdue_from_ms.min(deadline_ms);
        } else if deadline_ms < place_start(now_ms, place) {
            self.unlink(id.index);
            self.link(id.index);
        }
        true
    }

    /// Disarms an entry and returns what it carried; `None` if it is dead.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        self.timer(id)?;
        self.unlink(id.index);
        self.armed -= 1;
        let timer = &mut self.timers[id.index as usize];
        timer.place = VACANT;
        // A cell whose generations are used up is never used again, so that no id is given twice.
        if let Some(generation) = timer.generation.checked_add(1) {
            timer.generation = generation;
            self.free.push(id.index);
        }
        self.payloads[id.index as usize].take()
    }

    /// The deadline of the entry's last arming, in ms; `None` if it is dead.
    pub fn deadline(&self, id: TimerId) -> Option<u64> {
        self.timer(id).map(|timer| timer.deadline_ms)
    }

    /// What the entry carries; `None` if it is dead.
    pub fn get(&self, id: TimerId) -> Option<&T> {
        self.timer(id)?;
        self.payloads[id.index as usize].as_ref()
    }

    /// What the entry carries, to be changed; `None` if it is dead.
    pub fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        self.timer(id)?;
        self.payloads[id.index as usize].as_mut()
    }

    /// Every armed entry with its deadline, in no meaningful but in a deterministic order.
    pub fn iter(&self) -> impl Iterator<Item = (TimerId, u64, &T)> {
        self.timers.iter().zip(&self.payloads).enumerate().filter_map(|(index, (timer, payload))| {
            let id = TimerId { index: index as u32, generation: timer.generation };
            payload.as_ref().map(|payload| (id, timer.deadline_ms, payload))
        })
    }

    /// Every armed entry with its deadline, by (deadline, arming number).
    pub fn in_firing_order(&self) -> Vec<(u64, &T)> {
        let armed = self.timers.iter().zip(&self.payloads);
        let armed = armed.filter_map(|(timer, payload)| Some((timer.deadline_ms, timer.arming, payload.as_ref()?)));
        let mut armed: Vec<(u64, u64, &T)> = armed.collect();
        armed.sort_unstable_by_key(|(deadline_ms, arming, _)| (*deadline_ms, *arming));
        armed.into_iter().map(|(deadline_ms, _, payload)| (deadline_ms, payload)).collect()
    }

    /// Moves time to `now_ms` and collects every entry whose deadline it reached, by (deadline, arming number).
    ///
    /// A `now_ms` before the wheel's time counts as the wheel's time. The entries stay armed until they are taken; what
    /// is not taken is collected again by the next advance.
    pub fn advance(&mut self, now_ms: u64) -> Due {
        let now_ms = now_ms.max(self.now_ms);
        // All reached lists are taken off before any entry is placed again: no entry is touched twice.
        let mut lists = std::mem::take(&mut self.reached);
        lists.push(std::mem::replace(&mut self.heads[OVERDUE as usize], NIL));
        for level in 0..LEVELS {
            let mut reached = self.occupied[level as usize] & slots_reached(self.now_ms, now_ms, level);
            self.occupied[level as usize] &= !reached;
            while reached != 0 {
                let place = place_of(level, reached.trailing_zeros());
                lists.push(std::mem::replace(&mut self.heads[place as usize], NIL));
                reached &= reached - 1;
            }
        }
        self.now_ms = now_ms;
        let mut due = Due::default();
        (self.overdue, self.overdue_from_ms) = (0, u64::MAX);
        // What is still due is found again, into the other of two memories that take turns.
        let mut found = std::mem::replace(&mut self.found, std::mem::take(&mut self.found_before));
        for index in found.drain(..) {
            if self.timers[index as usize].place == FOUND {
                self.settle(index, &mut due);
            }
        }
        self.found_before = found;
        // Where the next entry of a list lies is not known before the one before it has been loaded.
        for abreast in lists.chunks_mut(ABREAST) {
            while abreast.iter().any(|head| *head != NIL) {
                for head in abreast.iter_mut().filter(|head| **head != NIL) {
                    let index = *head;
                    *head = self.timers[index as usize].next;
                    self.settle(index, &mut due);
                }
            }
        }
        lists.clear();
        self.reached = lists;
        due.pending.sort_unstable_by_key(|(deadline_ms, arming, _)| Reverse(order(*deadline_ms, *arming)));
        due
    }

    /// Takes the next due entry off the wheel: its id (now dead), its deadline in ms and what it carried.
    ///
    /// Entries cancelled or re-armed since the advance are skipped. One that was re-armed waits for the next advance,
    /// even with a deadline that has passed.
    pub fn take_due(&mut self, due: &mut Due) -> Option<(TimerId, u64, T)> {
        while let Some((deadline_ms, arming, id)) = due.pending.pop() {
            if self.timer(id).is_some_and(|timer| timer.arming == arming) {
                return self.cancel(id).map(|payload| (id, deadline_ms, payload));
            }
        }
        None
    }

    /// When to advance next, in ms: at or before every deadline; `None` when nothing is armed.
    ///
    /// It reads the occupancy only, so it may be early: advancing to it then moves entries nearer to their deadlines.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.overdue > 0 {
            return Some(self.overdue_from_ms);
        }
        let level = (0..LEVELS).find(|&level| self.occupied[level as usize] != 0)?;
        Some(slot_start(self.now_ms, level, self.occupied[level as usize].trailing_zeros()))
    }

    fn timer(&self, id: TimerId) -> Option<&Timer> {
        self.timers.get(id.index as usize).filter(|timer| timer.is(id))
    }

    /// Places an entry anew that time has reached.
    fn settle(&mut self, index: u32, due: &mut Due) {
        let timer = &self.timers[index as usize];
        if timer.deadline_ms > self.now_ms {
            return self.link(index);
        }
        due.pending.push((timer.deadline_ms, timer.arming, TimerId { index, generation: timer.generation }));
        self.link_at(index, FOUND);
    }

    /// Puts an unlinked entry where its deadline belongs.
    fn link(&mut self, index: u32) {
        let deadline_ms = self.timers[index as usize].deadline_ms;
        let place = if deadline_ms <= self.now_ms {
            OVERDUE
        } else {
            let level = level_of(self.now_ms, deadline_ms);
            place_of(level, slot_of(deadline_ms, level))
        };
        self.link_at(index, place);
    }

    fn link_at(&mut self, index: u32, place: u16) {
        let timer = &mut self.timers[index as usize];
        timer.place = place;
        if place >= OVERDUE {
            self.overdue += 1;
            self.overdue_from_ms = self.overdue_from_ms.min(timer.deadline_ms);
        } else {
            let (level, slot) = level_and_slot(place);
            self.occupied[level as usize] |= 1 << slot;
        }
        if place == FOUND {
            return self.found.push(index);
        }
        let next = std::mem::replace(&mut self.heads[place as usize], index);
        (timer.next, timer.previous) = (next, NIL);
        if next != NIL {
            self.timers[next as usize].previous = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let timer = &self.timers[index as usize];
        let (place, next, previous) = (timer.place, timer.next, timer.previous);
        if place >= OVERDUE {
            self.overdue -= 1;
            if self.overdue == 0 {
                self.overdue_from_ms = u64::MAX;
            }
        }
        if place == FOUND {
            return;
        }
        if next != NIL {
            self.timers[next as usize].previous = previous;
        }
        if previous != NIL {
            self.timers[previous as usize].next = next;
            return;
        }
        self.heads[place as usize] = next;
        if next == NIL && place != OVERDUE {
            let (level, slot) = level_and_slot(place);
            self.occupied[level as usize] &= !(1 << slot);
        }
    }
}

/// What is due comes by its deadline, then by its arming; one number, so that sorting need not branch.
fn order(deadline_ms: u64, arming: u64) -> u128 {
    u128::from(deadline_ms) << u64::BITS | u128::from(arming)
}

const fn place_of(level: u32, slot: u32) -> u16 {
    (level * SLOTS + slot) as u16
}

const fn level_and_slot(place: u16) -> (u32, u32) {
    (place as u32 / SLOTS, place as u32 % SLOTS)
}

const fn place_start(now_ms: u64, place: u16) -> u64 {
    let (level, slot) = level_and_slot(place);
    slot_start(now_ms, level, slot)
}

/// A wheel as it is stored: the lists are left out, and made again from each entry's place.
#[derive(Deserialize)]
struct Stored<T> {
    now_ms: u64,
    armings: u64,
    overdue_from_ms: u64,
    timers: Vec<Timer>,
    payloads: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> TryFrom<Stored<T>> for Wheel<T> {
    type Error = &'static str;

    fn try_from(stored: Stored<T>) -> Result<Self, Self::Error> {
        let mut wheel = Self::new(stored.now_ms);
        if stored.armings > u64::MAX / 2 {
            return Err("the wheel's arming number is out of range");
        }
        if stored.timers.len() >= NIL as usize || stored.timers.len() != stored.payloads.len() {
            return Err("the wheel has too many entries, or not as many as they carry something");
        }
        (wheel.armings, wheel.overdue_from_ms) = (stored.armings, stored.overdue_from_ms);
        (wheel.timers, wheel.payloads, wheel.free) = (stored.timers, stored.payloads, stored.free);
        let mut vacant: Vec<bool> = wheel.payloads.iter().map(Option::is_none).collect();
        for &index in &wheel.free {
            match vacant.get_mut(index as usize) {
                Some(cell) if *cell => *cell = false,
                _ => return Err("a free cell of the wheel is in use, listed twice or beyond its end"),
            }
        }
        for index in 0..wheel.timers.len() {
            let timer = &wheel.timers[index];
            let place = timer.place;
            if (place == VACANT) != wheel.payloads[index].is_none() {
                return Err("a cell of the wheel is vacant and carries something, or neither");
            }
            if place == VACANT {
                continue;
            }
            if timer.arming > wheel.armings {
                return Err("an entry of the wheel was armed after the last arming");
            }
            if !wheel.belongs(place, timer.deadline_ms) {
                return Err("an entry of the wheel is in a place where its deadline cannot be");
            }
            wheel.armed += 1;
            wheel.link_at(index as u32, place);
        }
        if wheel.overdue == 0 {
            wheel.overdue_from_ms = u64::MAX;
        }
        Ok(wheel)
    }
}

impl<T> Wheel<T> {
    /// Whether an entry with that deadline may lie at `place` now: it starts after now and not after the deadline.
    fn belongs(&self, place: u16, deadline_ms: u64) -> bool {
        let (level, slot) = level_and_slot(place);
        place == OVERDUE
            || place == FOUND
            || level < LEVELS
                && slot_of(slot_start(self.now_ms, level, slot), level) == slot
                && slot > slot_of(self.now_ms, level)
                && slot_start(self.now_ms, level, slot) <= deadline_ms
    }
}

#[cfg(test)]
mod tests {
    use super::{FOUND, Wheel};

    /// The wheel stored and restored, after it has been tampered with.
    fn restored(tamper: impl Fn(&mut Wheel<u32>)) -> Option<Wheel<u32>> {
        let mut wheel = Wheel::new(70);
        wheel.arm(5_000, 7);
        tamper(&mut wheel);
        postcard::from_bytes(&postcard::to_allocvec(&wheel).expect("it serialises")).ok()
    }

    #[test]
    fn numbers_and_free_cells_that_cannot_be_are_refused() {
        assert!(restored(|_| {}).is_some());
        assert!(restored(|wheel| wheel.armings = u64::MAX / 2).is_some());
        for armings in [0, u64::MAX / 2 + 1, u64::MAX] {
            assert!(restored(|wheel| wheel.armings = armings).is_none(), "{armings}");
        }
        assert!(restored(|wheel| wheel.free = vec![0]).is_none(), "that cell is in use");
        assert!(restored(|wheel| wheel.free = vec![1]).is_none(), "there is no such cell");
    }

    #[test]
    fn a_place_that_would_make_an_entry_late_is_refused() {
        let mut places = 0;
        for place in 0..=FOUND + 1 {
            let Some(mut wheel) = restored(|wheel| wheel.timers[0].place = place) else { continue };
            places += 1;
            assert!(wheel.next_deadline().is_some_and(|next_ms| next_ms <= 5_000), "place {place}");
            assert_eq!(wheel.advance(5_000).len(), 1, "place {place}");
        }
        assert!(places > 1, "it may wait early or in its own place");
    }
}
