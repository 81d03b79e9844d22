//! A hierarchical timing wheel: entries are armed with deadlines, and an advance returns those that are due
//! (`docs/protocol.md` §16).
//!
//! One tick is 1 ms. Each level is a ring of slots that goes round the wheel's time: of level 0 a slot spans 1 ms, of each
//! level as much as all slots of the level below. Ten levels cover every `u64` and no deadline is ever clamped. An entry
//! is placed at the first level whose ring reaches its deadline. Every occupied slot *starts later* than the wheel's
//! time, and time that reaches a slot's start empties it: its entries are due, or find a lower level. Each slot has one
//! bit of occupancy, so a jump of any length costs the entries it touches and next to nothing for the time it skips.
//!
//! Level 1 is wide: 1,024 slots of 64 ms, longer than most sessions. So the entries of 64 ms come due at once, not
//! those of a slot of seconds, which would be most of all sessions.
//!
//! Re-arming is lazy. A deadline that is not before the start of the entry's slot is only written into the entry, which
//! finds its new slot when the old one comes due. So a heartbeat costs two stores. An earlier deadline relinks the
//! entry.
//!
//! The wheel has no clock, hash order or callbacks. The caller passes the time to [`Wheel::advance`], and due entries
//! are sorted by (deadline, arming number).
mod due;

use std::hint::black_box;

pub use due::Due;
use due::{Found, Pending};
use serde::{Deserialize, Serialize};

/// Number of levels: every deadline has a slot.
pub const LEVELS: u32 = 10;
/// The level with more slots than others.
const WIDE: u32 = 1;
/// Bits of a deadline that select the slot within the wide level, and within any other.
const WIDE_BITS: u32 = 10;
const LEVEL_BITS: u32 = 6;
/// Slots per word of occupancy: all of a level, except for the wide one.
const WORD: u32 = u64::BITS;
/// Words of occupancy.
const WORDS: u32 = place_of(LEVELS, 0) as u32 / WORD;
/// The place of entries armed for a time that has passed.
const OVERDUE: u16 = place_of(LEVELS, 0);
/// The place of entries that an advance found due and that are not taken yet. It is no list: taking one touches no
/// other.
const FOUND: u16 = OVERDUE + 1;
/// The place of unused cells.
const VACANT: u16 = FOUND + 1;
/// All lists: one for each slot, and the overdue one.
const LISTS: usize = OVERDUE as usize + 1;
/// Lists that an advance processes at once: about as many as a core has loads in flight.
const ABREAST: usize = 8;
/// The memory of an entry is loaded while so many others are taken before it.
const AHEAD: usize = 8;
/// The end of a list, not an index of an entry.
const NIL: u32 = u32::MAX;

/// Slots of one level.
pub const fn slots(level: u32) -> u32 {
    1 << if level == WIDE { WIDE_BITS } else { LEVEL_BITS }
}

/// A slot of this level spans two to that many milliseconds.
const fn shift(level: u32) -> u32 {
    match level {
        0 | WIDE => level * LEVEL_BITS,
        _ => (level - 1) * LEVEL_BITS + WIDE_BITS,
    }
}

/// The slot of level `level` that holds the instant `time_ms`.
pub const fn slot_of(time_ms: u64, level: u32) -> u32 {
    (time_ms >> shift(level)) as u32 & (slots(level) - 1)
}

/// Returns the level for a deadline later than `now_ms`: the first with a slot for it after the current one.
pub const fn level_of(now_ms: u64, deadline_ms: u64) -> u32 {
    let highest = u64::BITS - 1 - (deadline_ms.wrapping_sub(now_ms) | 1).leading_zeros();
    if highest < shift(WIDE) {
        0
    } else if highest < shift(2) {
        WIDE
    } else {
        2 + (highest - shift(2)) / LEVEL_BITS
    }
}

/// The first instant of slot `slot` of level `level` that is later than `now_ms`.
pub const fn slot_start(now_ms: u64, level: u32, slot: u32) -> u64 {
    let here = now_ms >> shift(level);
    // The current slot comes again after a full round of the level.
    let before = (slot as u64).wrapping_sub(here).wrapping_sub(1) & (slots(level) as u64 - 1);
    here.wrapping_add(1).wrapping_add(before) << shift(level)
}

/// Returns when the next slot of a level starts, or 0 if none starts any more. No slot of this or a coarser level
/// starts earlier.
pub const fn next_start(now_ms: u64, level: u32) -> u64 {
    (now_ms >> shift(level)).wrapping_add(1) << shift(level)
}

/// Returns, as bits, the slots of word `word` of `level` whose start is reached when time moves from `from_ms` to the
/// later `to_ms`.
pub const fn slots_reached(from_ms: u64, to_ms: u64, level: u32, word: u32) -> u64 {
    let count = (to_ms >> shift(level)) - (from_ms >> shift(level));
    if count == 0 {
        return 0;
    }
    if count >= slots(level) as u64 {
        return u64::MAX;
    }
    let (first, last) = ((slot_of(from_ms, level) + 1) & (slots(level) - 1), slot_of(to_ms, level));
    let (from_first, to_last) = (slots_from(first, word), !slots_from(last + 1, word));
    if first <= last { from_first & to_last } else { from_first | to_last }
}

/// Returns, as bits, the slots of a word from `slot` on.
const fn slots_from(slot: u32, word: u32) -> u64 {
    match slot.saturating_sub(word * WORD) {
        bit @ 0..WORD => u64::MAX << bit,
        _ => 0,
    }
}

/// Identifies one armed entry. The id is stale after the entry fired or was cancelled, even if its memory is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

impl TimerId {
    /// Returns the id as a number, never zero; small for the first entries of a wheel.
    pub const fn number(self) -> u64 {
        ((self.generation as u64) << 32) | (self.index as u64 + 1)
    }

    /// Returns the id with this [`number`](Self::number); `None` if no id has it.
    pub const fn from_number(number: u64) -> Option<Self> {
        match (number as u32).checked_sub(1) {
            Some(index) => Some(Self { index, generation: (number >> 32) as u32 }),
            None => None,
        }
    }
}

/// The deadline and place of an entry: all that re-arming touches, in at most half a cache line. The payload is stored
/// apart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(align(32))]
struct Timer {
    deadline_ms: u64,
    arming: u64,
    generation: u32,
    /// A slot of a level ([`place_of`]), [`OVERDUE`], [`FOUND`] or [`VACANT`].
    place: u16,
    #[serde(skip)]
    next: u32,
    #[serde(skip)]
    previous: u32,
}

impl Timer {
    /// Whether this is the entry of `id`.
    fn is(&self, id: TimerId) -> bool {
        self.generation == id.generation && self.place != VACANT
    }
}

/// A timing wheel whose entries carry a payload `T`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored<T>")]
pub struct Wheel<T> {
    now_ms: u64,
    /// The last arming number given.
    armings: u64,
    /// Lower bound of the deadlines of overdue and found entries; `u64::MAX` without any.
    overdue_from_ms: u64,
    timers: Vec<Timer>,
    /// Payloads by index; `None` in a vacant cell.
    payloads: Vec<Option<T>>,
    /// Vacant cells; the last is used next.
    free: Vec<u32>,
    #[serde(skip)]
    armed: usize,
    #[serde(skip)]
    occupied: [u64; WORDS as usize],
    /// The first entry of each list.
    #[serde(skip)]
    heads: Vec<u32>,
    /// A buffer for the lists that an advance reaches.
    #[serde(skip)]
    reached: Vec<u32>,
    /// The entries that the last advance found due, taken or not.
    #[serde(skip)]
    found: Vec<u32>,
    /// A buffer for the next `found`.
    #[serde(skip)]
    found_before: Vec<u32>,
    /// Number of overdue and found entries.
    #[serde(skip)]
    overdue: usize,
}

impl<T> Wheel<T> {
    /// Creates an empty wheel at time `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self {
            now_ms,
            armings: 0,
            overdue_from_ms: u64::MAX,
            timers: Vec::new(),
            payloads: Vec::new(),
            free: Vec::new(),
            armed: 0,
            occupied: [0; WORDS as usize],
            heads: vec![NIL; LISTS],
            reached: Vec::with_capacity(LISTS),
            found: Vec::new(),
            found_before: Vec::new(),
            overdue: 0,
        }
    }

    /// Returns the time of the last advance in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Counts the armed entries, with due ones that are not taken yet.
    pub fn len(&self) -> usize {
        self.armed
    }

    /// Whether no entry is armed.
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Arms `payload` for `deadline_ms` with the next arming number. A deadline in the past fires at the next advance.
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

    /// Sets a new deadline and the next arming number, in O(1) and without allocation. Returns false if the id is
    /// stale.
    pub fn rearm(&mut self, id: TimerId, deadline_ms: u64) -> bool {
        let now_ms = self.now_ms;
        let arming = self.armings + 1;
        let Some(timer) = self.timers.get_mut(id.index as usize).filter(|timer| timer.is(id)) else { return false };
        let place = timer.place;
        // The entry's slot starts no later than its deadline, so only an earlier deadline may need another slot.
        let is_earlier = deadline_ms < timer.deadline_ms;
        timer.deadline_ms = deadline_ms;
        timer.arming = arming;
        self.armings = arming;
        if place >= OVERDUE {
            self.overdue_from_ms = self.overdue_from_ms.min(deadline_ms);
        } else if is_earlier && deadline_ms < place_start(now_ms, place) {
            self.relink(id.index);
        }
        true
    }

    /// Links an entry into another slot. It is rare, and apart from what each heartbeat does.
    #[cold]
    fn relink(&mut self, index: u32) {
        self.unlink(index);
        self.link(index);
    }

    /// Cancels an entry and returns its payload; `None` if the id is stale.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        self.timer(id)?;
        self.unlink(id.index);
        self.vacate(id.index);
        self.payloads[id.index as usize].take()
    }

    /// Returns the entry's deadline in milliseconds; `None` if the id is stale.
    pub fn deadline(&self, id: TimerId) -> Option<u64> {
        self.timer(id).map(|timer| timer.deadline_ms)
    }

    /// Returns the entry's payload; `None` if the id is stale.
    pub fn get(&self, id: TimerId) -> Option<&T> {
        self.timer(id)?;
        self.payloads[id.index as usize].as_ref()
    }

    /// Returns the entry's payload mutably; `None` if the id is stale.
    pub fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        self.timer(id)?;
        self.payloads[id.index as usize].as_mut()
    }

    /// Iterates over every armed entry with its deadline, in an arbitrary but deterministic order.
    pub fn iter(&self) -> impl Iterator<Item = (TimerId, u64, &T)> {
        self.timers.iter().zip(&self.payloads).enumerate().filter_map(|(index, (timer, payload))| {
            let id = TimerId { index: index as u32, generation: timer.generation };
            payload.as_ref().map(|payload| (id, timer.deadline_ms, payload))
        })
    }

    /// Returns every armed entry with its deadline, by (deadline, arming number).
    pub fn in_firing_order(&self) -> Vec<(u64, &T)> {
        let armed = self.timers.iter().zip(&self.payloads);
        let armed = armed.filter_map(|(timer, payload)| Some((timer.deadline_ms, timer.arming, payload.as_ref()?)));
        let mut armed: Vec<(u64, u64, &T)> = armed.collect();
        armed.sort_unstable_by_key(|(deadline_ms, arming, _)| (*deadline_ms, *arming));
        armed.into_iter().map(|(deadline_ms, _, payload)| (deadline_ms, payload)).collect()
    }

    /// Advances to `now_ms` and collects every entry that is due, by (deadline, arming number).
    ///
    /// A `now_ms` before the wheel's time counts as the wheel's time. The entries stay armed until they are taken; the
    /// next advance collects the others again.
    pub fn advance(&mut self, now_ms: u64) -> Due {
        let now_ms = now_ms.max(self.now_ms);
        // All reached lists are removed before any entry is placed again, so that no entry is touched twice.
        let mut lists = std::mem::take(&mut self.reached);
        lists.push(std::mem::replace(&mut self.heads[OVERDUE as usize], NIL));
        // If a level does not move, no coarser level moves.
        let moves = |level: &u32| now_ms >> shift(*level) != self.now_ms >> shift(*level);
        for level in (0..LEVELS).take_while(moves) {
            let first = u32::from(place_of(level, 0)) / WORD;
            for word in 0..slots(level) / WORD {
                let occupied = &mut self.occupied[(first + word) as usize];
                if *occupied == 0 {
                    continue;
                }
                let mut reached = *occupied & slots_reached(self.now_ms, now_ms, level, word);
                *occupied &= !reached;
                while reached != 0 {
                    let place = (first + word) * WORD + reached.trailing_zeros();
                    lists.push(std::mem::replace(&mut self.heads[place as usize], NIL));
                    reached &= reached - 1;
                }
            }
        }
        self.now_ms = now_ms;
        let mut due = Vec::new();
        (self.overdue, self.overdue_from_ms) = (0, u64::MAX);
        // Entries that are still due are found again, into the other of two buffers.
        let mut found = std::mem::replace(&mut self.found, std::mem::take(&mut self.found_before));
        for index in found.drain(..) {
            if self.timers[index as usize].place == FOUND {
                self.settle(index, &mut due);
            }
        }
        self.found_before = found;
        // The position of the next entry of a list is known only after the previous one is loaded.
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
        Due::sorted(due)
    }

    /// Takes the next due entry: its id (stale from now on), its deadline in milliseconds and its payload.
    ///
    /// Skips entries that were cancelled or rearmed since the advance. A rearmed entry waits for the next advance, even
    /// with a deadline that has passed.
    pub fn take_due(&mut self, due: &mut Due) -> Option<(TimerId, u64, T)> {
        while let Some(Pending { arming, index, generation }) = due.pop() {
            if let Some(next) = due.after(AHEAD) {
                black_box(self.payloads.get(next.index as usize).is_some_and(Option::is_some));
                black_box(self.timers.get(next.index as usize).map(|timer| timer.generation));
            }
            let id = TimerId { index, generation };
            let Some(timer) = self.timers.get_mut(id.index as usize) else { continue };
            if timer.place != FOUND || timer.generation != id.generation || timer.arming != arming {
                continue;
            }
            let deadline_ms = timer.deadline_ms;
            self.overdue -= 1;
            self.vacate(id.index);
            if self.overdue == 0 {
                self.overdue_from_ms = u64::MAX;
                self.found.clear();
            }
            return self.payloads[id.index as usize].take().map(|payload| (id, deadline_ms, payload));
        }
        None
    }

    /// Returns when to advance next, in milliseconds: at or before every deadline. `None` if nothing is armed.
    ///
    /// It reads the occupancy only and may be early. Advancing then moves entries nearer to their deadlines.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.overdue > 0 {
            return Some(self.overdue_from_ms);
        }
        let mut first_ms = None;
        for level in 0..LEVELS {
            if first_ms.is_some_and(|start_ms| start_ms <= next_start(self.now_ms, level)) {
                break;
            }
            let start_ms = self.first_occupied(level).map(|slot| slot_start(self.now_ms, level, slot));
            first_ms = first_ms.into_iter().chain(start_ms).min();
        }
        first_ms
    }

    /// Returns the occupied slot of a level that starts first.
    fn first_occupied(&self, level: u32) -> Option<u32> {
        let words = &self.occupied[word_and_bit(place_of(level, 0)).0..][..(slots(level) / WORD) as usize];
        let next = (slot_of(self.now_ms, level) + 1) & (slots(level) - 1);
        if let [word] = words {
            return (*word != 0).then(|| (next + word.rotate_right(next).trailing_zeros()) % WORD);
        }
        let first_of = |word: u32, bits: u64| (bits != 0).then(|| word * WORD + bits.trailing_zeros());
        // From the next slot to the last, then from the first.
        let (begin, count) = (next / WORD, words.len() as u32);
        let after = slots_from(next, begin);
        let on = (begin + 1..begin + count).map(|word| word % count);
        first_of(begin, words[begin as usize] & after)
            .or_else(|| on.into_iter().find_map(|word| first_of(word, words[word as usize])))
            .or_else(|| first_of(begin, words[begin as usize] & !after))
    }

    fn timer(&self, id: TimerId) -> Option<&Timer> {
        self.timers.get(id.index as usize).filter(|timer| timer.is(id))
    }

    /// Makes the cell of an unlinked entry free.
    fn vacate(&mut self, index: u32) {
        self.armed -= 1;
        let timer = &mut self.timers[index as usize];
        timer.place = VACANT;
        // A cell whose generations are used up is not reused, so that no id is given twice.
        if let Some(generation) = timer.generation.checked_add(1) {
            timer.generation = generation;
            self.free.push(index);
        }
    }

    /// Places an entry again after its slot was reached.
    fn settle(&mut self, index: u32, due: &mut Vec<Found>) {
        let timer = &self.timers[index as usize];
        if timer.deadline_ms > self.now_ms {
            return self.link(index);
        }
        let Timer { deadline_ms, arming, generation, .. } = *timer;
        due.push(Found { deadline_ms, arming, index, generation });
        self.link_at(index, FOUND);
    }

    /// Links an unlinked entry into the slot of its deadline.
    fn link(&mut self, index: u32) {
        let deadline_ms = self.timers[index as usize].deadline_ms;
        let place = if deadline_ms <= self.now_ms {
            OVERDUE
        } else {
            // Most sessions are on level 1, where all but the deadline is known at compile time.
            match level_of(self.now_ms, deadline_ms) {
                WIDE => place_of(WIDE, slot_of(deadline_ms, WIDE)),
                level => place_of(level, slot_of(deadline_ms, level)),
            }
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
            let (word, bit) = word_and_bit(place);
            self.occupied[word] |= bit;
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
            let (word, bit) = word_and_bit(place);
            self.occupied[word] &= !bit;
        }
    }
}

/// Returns the place of a level's slot; the slots of all levels are numbered consecutively.
const fn place_of(level: u32, slot: u32) -> u16 {
    let first = match level {
        0 => 0,
        WIDE => slots(0),
        _ => slots(0) + slots(WIDE) + (level - 2) * slots(2),
    };
    (first + slot) as u16
}

/// Returns the word and bit of occupancy of a place.
const fn word_and_bit(place: u16) -> (usize, u64) {
    (place as usize / WORD as usize, 1 << (place as u32 % WORD))
}

const fn level_and_slot(place: u16) -> (u32, u32) {
    let (place, wide, above) = (place as u32, slots(0), slots(0) + slots(WIDE));
    if place < wide {
        (0, place)
    } else if place < above {
        (WIDE, place - wide)
    } else {
        (2 + (place - above) / slots(2), place % slots(2))
    }
}

const fn place_start(now_ms: u64, place: u16) -> u64 {
    let (level, slot) = level_and_slot(place);
    slot_start(now_ms, level, slot)
}

/// The serialized form: without lists, which are rebuilt from each entry's place.
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
    /// Whether an entry with this deadline may be at `place` now: the slot starts after now and not after the deadline.
    fn belongs(&self, place: u16, deadline_ms: u64) -> bool {
        if place == OVERDUE || place == FOUND {
            return true;
        }
        let (level, slot) = level_and_slot(place);
        if level >= LEVELS {
            return false;
        }
        // The coarsest level ends with the range of time: some of its slots never start again.
        let start_ms = slot_start(self.now_ms, level, slot);
        self.now_ms < start_ms && start_ms <= deadline_ms
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{FOUND, LEVELS, TimerId, Wheel, level_and_slot, place_of, slots};

    #[test]
    fn a_place_names_its_level_and_slot() {
        for (level, slot) in (0..LEVELS).flat_map(|level| (0..slots(level)).map(move |slot| (level, slot))) {
            assert_eq!(level_and_slot(place_of(level, slot)), (level, slot));
        }
    }

    /// Heartbeats arrive every three seconds, 0.02 % of them in each millisecond.
    #[test]
    fn no_millisecond_has_to_place_more_than_the_sessions_of_64() {
        const TURN_MS: u64 = 3_000;
        for session_ms in [6_000, 10_000, 45_000, 60_000] {
            let mut wheel = Wheel::new(0);
            let ids: Vec<TimerId> = (0..TURN_MS).map(|at| wheel.arm(at + session_ms, at)).collect();
            for now_ms in 1..2 * session_ms {
                assert!(wheel.advance(now_ms).is_empty(), "all are re-armed in time");
                assert!(wheel.rearm(ids[(now_ms % TURN_MS) as usize], now_ms + session_ms));
                if now_ms % 100 == 0 {
                    let mut placed = BTreeMap::<u16, usize>::new();
                    wheel.timers.iter().for_each(|timer| *placed.entry(timer.place).or_default() += 1);
                    assert!(placed.values().all(|entries| *entries <= 64), "{session_ms} ms, at {now_ms}: {placed:?}");
                }
            }
        }
    }

    /// Stores the wheel, tampers with it and restores it.
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
