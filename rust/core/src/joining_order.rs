//! The members of a group in joining order: a deque, since new members come last. The slot of a member has its place, so
//! a removal or replacement does not search. A removal in the middle leaves a gap; gaps are closed before they outnumber
//! the members, so that a removal moves one other member on average.

use std::collections::{VecDeque, vec_deque};

use serde::{Deserialize, Serialize};

use crate::slots::{Handle, Slots};

/// Gaps that a small group may have.
const GAPS_MIN: usize = 16;
/// A full list closes its gaps instead of growing if there is one for so many members.
const MEMBERS_PER_GAP: usize = 8;

/// Members in joining order, each by its handle.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<Handle<T>>", into = "Vec<Handle<T>>", bound(serialize = "T: Clone"))]
pub struct JoiningOrder<T> {
    /// Members, and gaps between them.
    listed: VecDeque<Handle<T>>,
    /// The place of the first in `listed`. Places wrap around.
    first: u32,
    /// Number of gaps.
    gaps: u32,
}

// A derive would require `T: Default`.
impl<T> Default for JoiningOrder<T> {
    fn default() -> Self {
        JoiningOrder { listed: VecDeque::new(), first: 0, gaps: 0 }
    }
}

impl<T> JoiningOrder<T> {
    /// What `listed` has in place of a member that is gone. No slot has this number.
    const GAP: Handle<T> = Handle::from_bits(u64::MAX);

    /// Adds a member at the end.
    pub fn push(&mut self, member: Handle<T>, slots: &mut Slots<T>) {
        if self.listed.len() == self.listed.capacity() && self.gaps as usize * MEMBERS_PER_GAP > self.len() {
            self.close_gaps(slots);
        }
        slots.set_place(member, self.place(self.listed.len()));
        self.listed.push_back(member);
    }

    /// Replaces a member; the successor gets its position.
    pub fn replace(&mut self, member: Handle<T>, successor: Handle<T>, slots: &mut Slots<T>) {
        if let Some(at) = self.find(member, slots) {
            slots.set_place(successor, self.place(at));
            self.listed[at] = successor;
        }
    }

    /// Removes a member. Its slot may be free already.
    pub fn remove(&mut self, member: Handle<T>, slots: &mut Slots<T>) {
        let Some(at) = self.find(member, slots) else { return };
        self.listed[at] = Self::GAP;
        self.gaps += 1;
        while self.listed.back() == Some(&Self::GAP) {
            self.listed.pop_back();
            self.gaps -= 1;
        }
        while self.listed.front() == Some(&Self::GAP) {
            self.listed.pop_front();
            self.gaps -= 1;
            self.first = self.first.wrapping_add(1);
        }
        if self.gaps as usize > self.len() + GAPS_MIN {
            self.close_gaps(slots);
        }
    }

    /// Counts the members.
    pub fn len(&self) -> usize {
        self.listed.len() - self.gaps as usize
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates in joining order.
    pub fn values(&self) -> Values<'_, T> {
        Values { listed: self.listed.iter(), left: self.len() }
    }

    /// Whether every member is at its place, so that none is listed twice.
    pub fn is_sound(&self, slots: &Slots<T>) -> bool {
        let is_found =
            |(at, member): (usize, &Handle<T>)| *member == Self::GAP || self.find(*member, slots) == Some(at);
        self.values().count() == self.len() && self.listed.iter().enumerate().all(is_found)
    }

    /// Closes the gaps, and writes the places of all members.
    pub fn close_gaps(&mut self, slots: &mut Slots<T>) {
        self.listed.retain(|member| *member != Self::GAP);
        self.gaps = 0;
        for (at, member) in self.listed.iter().enumerate() {
            slots.set_place(*member, self.place(at));
        }
    }

    fn place(&self, at: usize) -> u32 {
        self.first.wrapping_add(at as u32)
    }

    fn find(&self, member: Handle<T>, slots: &Slots<T>) -> Option<usize> {
        let at = slots.place(member)?.wrapping_sub(self.first) as usize;
        (self.listed.get(at) == Some(&member)).then_some(at)
    }
}

/// Iterates over members, and knows how many are left.
#[derive(Debug)]
pub struct Values<'a, T> {
    listed: vec_deque::Iter<'a, Handle<T>>,
    left: usize,
}

// A derive would require `T: Clone`.
impl<T> Clone for Values<'_, T> {
    fn clone(&self) -> Self {
        Values { listed: self.listed.clone(), left: self.left }
    }
}

impl<'a, T> Iterator for Values<'a, T> {
    type Item = &'a Handle<T>;

    fn next(&mut self) -> Option<&'a Handle<T>> {
        let next = self.listed.find(|member| **member != JoiningOrder::GAP)?;
        self.left = self.left.saturating_sub(1);
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> DoubleEndedIterator for Values<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let last = self.listed.rfind(|member| **member != JoiningOrder::GAP)?;
        self.left = self.left.saturating_sub(1);
        Some(last)
    }
}

impl<T> ExactSizeIterator for Values<'_, T> {}

/// A restored list has no places until [`JoiningOrder::close_gaps`] writes them.
impl<T> From<Vec<Handle<T>>> for JoiningOrder<T> {
    fn from(members: Vec<Handle<T>>) -> JoiningOrder<T> {
        JoiningOrder { listed: members.into(), ..JoiningOrder::default() }
    }
}

impl<T> From<JoiningOrder<T>> for Vec<Handle<T>> {
    fn from(order: JoiningOrder<T>) -> Vec<Handle<T>> {
        order.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group of numbers.
    #[derive(Default)]
    struct Numbers {
        order: JoiningOrder<u32>,
        slots: Slots<u32>,
    }

    impl Numbers {
        fn joined(count: u32) -> (Numbers, Vec<Handle<u32>>) {
            let mut numbers = Numbers::default();
            let handles = (0..count).map(|number| numbers.join(number)).collect();
            (numbers, handles)
        }

        fn join(&mut self, number: u32) -> Handle<u32> {
            let handle = self.slots.insert(number);
            self.order.push(handle, &mut self.slots);
            handle
        }

        fn leave(&mut self, handle: Handle<u32>) {
            self.slots.release(handle);
            self.order.remove(handle, &mut self.slots);
        }

        fn replace(&mut self, handle: Handle<u32>, number: u32) -> Handle<u32> {
            let successor = self.slots.insert(number);
            self.slots.release(handle);
            self.order.replace(handle, successor, &mut self.slots);
            successor
        }

        fn numbers(&self) -> Vec<u32> {
            assert!(self.order.is_sound(&self.slots));
            self.order.values().map(|handle| self.slots[*handle]).collect()
        }
    }

    #[test]
    fn members_stay_in_the_order_in_which_they_came_whoever_goes_or_is_replaced() {
        let (mut group, handles) = Numbers::joined(5);
        let replaced = group.replace(handles[1], 70);
        group.replace(handles[4], 80);
        group.replace(handles[1], 60);
        assert_eq!(group.numbers(), [0, 70, 2, 3, 80]);
        let last = group.join(4);
        for handle in [handles[3], handles[1], replaced, last] {
            group.leave(handle);
        }
        assert_eq!(group.numbers(), [0, 2, 80]);
        assert_eq!((group.order.len(), group.order.is_empty()), (3, false));
        assert!(Numbers::default().order.is_empty());
    }

    /// Joins, leaves and replacements in a fixed sequence that reaches every part, each compared with a plain list.
    #[test]
    fn it_is_a_plain_list_to_whoever_looks() {
        let (mut group, mut plain) = (Numbers::default(), Vec::<(u32, Handle<u32>)>::new());
        let mut drawn = 1_u32;
        for step in 0..20_000_u32 {
            drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (drawn >> 8) as usize % plain.len().max(1);
            // The group grows for a thousand steps, and shrinks for a thousand.
            let joins = if step / 1_000 % 2 == 0 { 6 } else { 2 };
            match (drawn >> 4) % 8 {
                kind if plain.is_empty() || kind < joins => plain.push((step, group.join(step))),
                7 => plain[at] = (step, group.replace(plain[at].1, step)),
                _ => group.leave(plain.remove(at).1),
            }
            assert_eq!(group.order.len(), plain.len());
            assert!(group.order.listed.len() <= 2 * plain.len() + GAPS_MIN);
            let ends = |values: Vec<Handle<u32>>| (values.first().copied(), values.last().copied());
            let [first, last] = [group.order.values().next(), group.order.values().next_back()];
            assert_eq!((first.copied(), last.copied()), ends(plain.iter().map(|(_, handle)| *handle).collect()));
            if step % 64 == 0 {
                assert!(group.numbers().into_iter().eq(plain.iter().map(|(number, _)| *number)));
            }
        }
    }

    #[test]
    fn a_group_whose_members_come_and_go_does_not_grow() {
        let (mut group, mut handles) = Numbers::joined(100);
        let capacity = group.order.listed.capacity();
        for step in 100..10_000 {
            let at = step as usize * 37 % handles.len();
            group.leave(handles.remove(at));
            handles.push(group.join(step));
        }
        assert_eq!(group.order.listed.capacity(), capacity);
    }

    #[test]
    fn it_is_stored_as_a_list_and_finds_all_again() {
        let (mut group, handles) = Numbers::joined(9);
        handles[2..6].iter().for_each(|handle| group.leave(*handle));
        let bytes = postcard::to_allocvec(&group.order).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&group.order.values().copied().collect::<Vec<_>>()).unwrap());
        group.order = postcard::from_bytes(&bytes).unwrap();
        assert!(!group.order.is_sound(&group.slots), "the places are still those with gaps");
        group.order.close_gaps(&mut group.slots);
        assert_eq!(group.numbers(), [0, 1, 6, 7, 8]);
    }

    #[test]
    fn a_member_that_is_there_twice_or_at_another_place_is_seen() {
        let (mut group, handles) = Numbers::joined(3);
        group.order.listed[2] = handles[0];
        assert!(!group.order.is_sound(&group.slots));
        group.order.close_gaps(&mut group.slots);
        assert!(!group.order.is_sound(&group.slots));
        let (mut group, handles) = Numbers::joined(3);
        group.slots.set_place(handles[1], 2);
        assert!(!group.order.is_sound(&group.slots));
        let (mut group, _) = Numbers::joined(3);
        group.order.listed[1] = JoiningOrder::GAP;
        assert!(!group.order.is_sound(&group.slots), "a gap is counted");
    }
}
