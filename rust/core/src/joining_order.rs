//! The members of a group by their place in the joining order: whoever joins comes last, so that a sorted list is
//! enough, and takes little more than half of what a tree would. It is open at both ends: whoever goes moves those
//! towards the nearer one, so that all of them may go in their order without moving anybody.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::group::MemberHandle;

/// The members.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JoiningOrder(VecDeque<(u64, MemberHandle)>);

impl JoiningOrder {
    /// Gives a member a place, or a member's place to another.
    pub fn insert(&mut self, order: u64, member: MemberHandle) {
        match self.find(order) {
            Ok(at) => self.0[at].1 = member,
            Err(at) => self.0.insert(at, (order, member)),
        }
    }

    /// Nobody has this place any more.
    pub fn remove(&mut self, order: u64) {
        if let Ok(at) = self.find(order) {
            self.0.remove(at);
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members in their order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &MemberHandle> + Clone {
        self.0.iter().map(|(_, member)| member)
    }

    /// The members in their order, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u64, MemberHandle)> {
        self.0.iter().copied()
    }

    /// Whether places only rise: a snapshot may say otherwise.
    pub fn is_sound(&self) -> bool {
        self.0.iter().is_sorted_by(|(one, _), (next, _)| one < next)
    }

    fn find(&self, order: u64) -> Result<usize, usize> {
        // Who joins comes last, and most of all that happens here is that.
        match self.0.back() {
            Some((last, _)) if *last >= order => self.0.binary_search_by_key(&order, |(order, _)| *order),
            _ => Err(self.0.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_the_order_of_their_places_whenever_they_came() {
        let mut order = JoiningOrder::default();
        for place in [5, 7, 3, 9] {
            order.insert(place, MemberHandle::from_bits(place));
        }
        order.insert(7, MemberHandle::from_bits(70));
        order.remove(5);
        order.remove(6);
        assert!(order.iter().map(|(place, member)| (place, member.to_bits())).eq([(3, 3), (7, 70), (9, 9)]));
        assert!(order.values().rev().map(|member| member.to_bits()).eq([9, 70, 3]));
        assert_eq!((order.len(), order.is_empty(), JoiningOrder::default().is_empty()), (3, false, true));
    }

    #[test]
    fn places_that_do_not_rise_are_seen() {
        let order =
            |places: &[u64]| JoiningOrder(places.iter().map(|place| (*place, MemberHandle::from_bits(0))).collect());
        assert!(order(&[]).is_sound() && order(&[1, 2, 9]).is_sound());
        assert!(!order(&[1, 1]).is_sound() && !order(&[2, 1]).is_sound());
    }
}
