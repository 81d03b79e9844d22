//! A slab with generation-checked handles.
//!
//! A slot can be *reserved* before it is filled: an id that is handed out with `MEMBER_ID_REQUIRED` carries the number
//! of the slot that its member will have (docs/protocol.md §4.5).

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::pages::Pages;

/// Identifies one use of a slot. A stale handle finds nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handle<T> {
    index: u32,
    generation: u32,
    #[serde(skip)]
    kind: PhantomData<fn() -> T>,
}

// Derives would require `T: Clone` and others, which a handle does not need.
impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}
impl<T> Eq for Handle<T> {}
impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.index, self.generation).cmp(&(other.index, other.generation))
    }
}

impl<T> Handle<T> {
    /// Returns the slot's number, which member ids carry as a hint.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the handle as a number, for callers that keep handles in arrays.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The inverse of `to_bits`. Any number gives a handle, possibly a stale one.
    pub const fn from_bits(bits: u64) -> Self {
        Handle { index: bits as u32, generation: (bits >> 32) as u32, kind: PhantomData }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Slot<T> {
    Free,
    Reserved,
    Full(T),
}

/// Starts in the middle of a cache line at the latest, so that the first fields of a value are on this line or the
/// next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C, align(32))]
struct Entry<T> {
    generation: u32,
    /// See [`Slots::place`]. It takes no memory: alignment leaves it free.
    #[serde(skip)]
    place: u32,
    slot: Slot<T>,
}

/// A slab of `T`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slots<T> {
    entries: Pages<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { entries: Pages::default(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Reserves a slot, for `fill` later.
    pub fn reserve(&mut self) -> Handle<T> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, place: 0, slot: Slot::Free });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.slot = Slot::Reserved;
        Handle { index, generation: entry.generation, kind: PhantomData }
    }

    /// Fills a reserved slot.
    pub fn fill(&mut self, handle: Handle<T>, value: T) {
        let entry = &mut self.entries[handle.index as usize];
        assert!(
            entry.generation == handle.generation && matches!(entry.slot, Slot::Reserved),
            "only a reserved slot can be filled"
        );
        entry.slot = Slot::Full(value);
    }

    /// Reserves and fills a slot.
    pub fn insert(&mut self, value: T) -> Handle<T> {
        let handle = self.reserve();
        self.fill(handle, value);
        handle
    }

    /// Frees a full or reserved slot. Every handle to it becomes stale.
    pub fn release(&mut self, handle: Handle<T>) -> Option<T> {
        let entry = self.entries.get_mut(handle.index as usize)?;
        if entry.generation != handle.generation || matches!(entry.slot, Slot::Free) {
            return None;
        }
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(handle.index);
        match std::mem::replace(&mut entry.slot, Slot::Free) {
            Slot::Full(value) => Some(value),
            Slot::Free | Slot::Reserved => None,
        }
    }

    /// Returns the value; `None` for a stale handle.
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        match self.entries.get(handle.index as usize) {
            Some(Entry { generation, slot: Slot::Full(value), .. }) if *generation == handle.generation => Some(value),
            _ => None,
        }
    }

    /// Returns the value mutably; `None` for a stale handle.
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        match self.entries.get_mut(handle.index as usize) {
            Some(Entry { generation, slot: Slot::Full(value), .. }) if *generation == handle.generation => Some(value),
            _ => None,
        }
    }

    /// Whether the handle's slot is reserved and not filled.
    pub fn is_reserved(&self, handle: Handle<T>) -> bool {
        let entry = self.entries.get(handle.index as usize);
        entry.is_some_and(|entry| entry.generation == handle.generation && matches!(entry.slot, Slot::Reserved))
    }

    /// Returns the place of the slot's value in a list of the owner, which the owner set; also after a release. `None` for
    /// a slot that does not exist.
    pub fn place(&self, handle: Handle<T>) -> Option<u32> {
        self.entries.get(handle.index as usize).map(|entry| entry.place)
    }

    /// Sets the place of the slot's value. It is not part of a snapshot.
    pub fn set_place(&mut self, handle: Handle<T>, place: u32) {
        if let Some(entry) = self.entries.get_mut(handle.index as usize) {
            entry.place = place;
        }
    }

    /// Counts all slots, full or free.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    /// Counts the full slots.
    pub fn full(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.slot, Slot::Full(_))).count()
    }

    /// Whether the list of free slots has exactly the free slots.
    pub fn is_sound(&self) -> bool {
        let free: std::collections::BTreeSet<u32> = self.free.iter().copied().collect();
        let is_free = |index: usize| matches!(self.entries[index].slot, Slot::Free);
        free.len() == self.free.len()
            && free.last().is_none_or(|last| (*last as usize) < self.entries.len())
            && (0..self.entries.len()).all(|index| free.contains(&(index as u32)) == is_free(index))
    }

    /// Returns the value in a slot with its current handle.
    pub fn at(&self, index: u32) -> Option<(Handle<T>, &T)> {
        match self.entries.get(index as usize) {
            Some(Entry { generation, slot: Slot::Full(value), .. }) => {
                Some((Handle { index, generation: *generation, kind: PhantomData }, value))
            }
            _ => None,
        }
    }
}

impl<T> std::ops::Index<Handle<T>> for Slots<T> {
    type Output = T;

    fn index(&self, handle: Handle<T>) -> &T {
        self.get(handle).expect("a handle that the state holds is live")
    }
}

impl<T> std::ops::IndexMut<Handle<T>> for Slots<T> {
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        self.get_mut(handle).expect("a handle that the state holds is live")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing_after_its_slot_was_taken_again() {
        let mut slots = Slots::default();
        let first = slots.insert("first");
        assert_eq!(slots.release(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(second.index(), first.index());
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&"second")));
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.release(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert!(first < second && first.partial_cmp(&second).is_some_and(std::cmp::Ordering::is_lt));
    }

    #[test]
    fn a_reserved_slot_keeps_its_number_until_it_is_filled_or_released() {
        let mut slots = Slots::default();
        let reserved = slots.reserve();
        let other = slots.insert(1);
        assert_ne!(reserved.index(), other.index());
        assert_eq!(slots.get(reserved), None);
        slots.fill(reserved, 2);
        assert_eq!(slots.at(reserved.index()), Some((reserved, &2)));
        assert_eq!(Handle::from_bits(reserved.to_bits()), reserved);
    }

    #[test]
    fn slots_are_counted_whatever_is_in_them_and_a_free_one_has_to_be_one() {
        let mut slots = Slots::default();
        let handles = [0, 1, 2].map(|value| slots.insert(value));
        slots.release(handles[1]);
        assert_eq!((slots.places(), slots.full(), slots.is_sound()), (3, 2, true));
        slots.free.push(3);
        assert!(!slots.is_sound(), "there is no fourth");
        slots.free = vec![1, 1];
        assert!(!slots.is_sound(), "once is enough");
        slots.free = vec![0];
        assert!(!slots.is_sound(), "that one is full");
    }
}
