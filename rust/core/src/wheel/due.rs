//! The entries that an advance found due, in the order in which they fire.
use std::cmp::Reverse;

/// So many entries are sorted by their deadlines with a table of all deadlines between the first and the last.
const MANY: usize = 1 << 10;

/// An entry that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub deadline_ms: u64,
    pub arming: u64,
    pub index: u32,
    pub generation: u32,
}

/// An entry that is due, in its place among the others: its deadline is not needed any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// An entry with another arming number has been re-armed since.
    pub arming: u64,
    pub index: u32,
    pub generation: u32,
}

/// The entries that one [`Wheel::advance`](super::Wheel::advance) found due, earliest first.
/// [`Wheel::take_due`](super::Wheel::take_due) takes them.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// By (deadline, arming number), latest first, so that the next is popped from the end.
    pending: Vec<Pending>,
}

impl Due {
    /// Sorts what was found by (deadline, arming number).
    pub(super) fn sorted(mut found: Vec<Found>) -> Self {
        let deadlines = found.iter().map(|entry| entry.deadline_ms);
        let (first_ms, last_ms) = deadlines.fold((u64::MAX, 0), |(first, last), ms| (first.min(ms), last.max(ms)));
        if found.len() >= MANY && last_ms - first_ms < found.len() as u64 {
            return Self { pending: by_table(&found, first_ms, last_ms) };
        }
        found.sort_unstable_by_key(|entry| Reverse(order(entry.deadline_ms, entry.arming)));
        Self { pending: found.into_iter().map(Pending::from).collect() }
    }

    /// Returns an upper bound of the entries left: some may have been cancelled or rearmed since.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether no entry is left.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Pending> {
        self.pending.pop()
    }

    /// Returns the entry that is popped after `later` others.
    pub(super) fn after(&self, later: usize) -> Option<Pending> {
        self.pending.get(self.pending.len().wrapping_sub(later + 1)).copied()
    }
}

impl From<Found> for Pending {
    fn from(Found { arming, index, generation, .. }: Found) -> Self {
        Self { arming, index, generation }
    }
}

/// Returns the entries, latest first. The table has the place of the next entry of each millisecond, so time grows with
/// the entries and milliseconds, not with comparisons. Lists have their entries in arming order mostly, which is kept.
fn by_table(found: &[Found], first_ms: u64, last_ms: u64) -> Vec<Pending> {
    let row = |deadline_ms: u64| (last_ms - deadline_ms) as usize;
    let mut places = vec![0_usize; row(first_ms) + 1];
    for entry in found {
        places[row(entry.deadline_ms)] += 1;
    }
    let mut begin = 0;
    for place in &mut places {
        begin += std::mem::replace(place, begin);
    }
    let mut pending = vec![Pending { arming: 0, index: 0, generation: 0 }; found.len()];
    for entry in found {
        let place = &mut places[row(entry.deadline_ms)];
        pending[*place] = Pending::from(*entry);
        *place += 1;
    }
    // Each place has moved to the end of its millisecond.
    let mut begin = 0;
    for end in places {
        let same = &mut pending[begin..end];
        if !same.is_sorted_by(|one, next| one.arming > next.arming) {
            same.sort_unstable_by_key(|entry| Reverse(entry.arming));
        }
        begin = end;
    }
    pending
}

/// Returns the sort key of a due entry: deadline, then arming number, as one number to sort without branches.
fn order(deadline_ms: u64, arming: u64) -> u128 {
    u128::from(deadline_ms) << u64::BITS | u128::from(arming)
}

#[cfg(test)]
mod tests {
    use super::{Due, Found, MANY, order};

    /// Entries with these deadlines and arming numbers are sorted as comparisons sort them.
    fn check(of: impl Fn(u64) -> (u64, u64)) {
        for count in [0, 1, 2, MANY - 1, MANY, 3 * MANY] {
            let found: Vec<Found> = (0..count as u32)
                .map(|index| (of(u64::from(index)), index))
                .map(|((deadline_ms, arming), index)| Found { deadline_ms, arming, index, generation: 0 })
                .collect();
            let mut expected: Vec<(u128, u32)> =
                found.iter().map(|entry| (order(entry.deadline_ms, entry.arming), entry.index)).collect();
            expected.sort_unstable();
            let mut due = Due::sorted(found);
            let sorted: Vec<u32> = std::iter::from_fn(|| due.pop()).map(|entry| entry.index).collect();
            assert_eq!(sorted, expected.into_iter().map(|(_, index)| index).collect::<Vec<_>>(), "{count} entries");
        }
    }

    #[test]
    fn many_entries_are_sorted_as_few_are() {
        let shuffled = |index: u64| index * 7_919 % 4_093;
        check(|index| (u64::MAX - index % 50, u64::MAX - index));
        check(|index| (index % 50, index));
        check(|index| (shuffled(index) % 50, shuffled(index)));
        check(|index| (9, shuffled(index)));
        check(|index| (shuffled(index), index));
        check(|index| (if index == 0 { u64::MAX } else { 0 }, index));
    }
}
