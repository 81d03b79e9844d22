//! Reconciliation: how a member gets from its assignment to its target (docs/consumer-protocol.md §6).
//!
//! | state | condition | next |
//! |---|---|---|
//! | Stable | epoch = T, same subscription | unchanged |
//! | Stable | epoch = T, other subscription | cut |
//! | Stable | epoch ≠ T | compute |
//! | Unrevoked | not acknowledged, same subscription | unchanged |
//! | Unrevoked | not acknowledged, other subscription | cut |
//! | Unrevoked | acknowledged | compute |
//! | Unreleased | | compute |
//! | Unknown | reports no partitions | compute, from T |
//! | Unknown | otherwise | `FENCED_MEMBER_EPOCH` |
//!
//! A report acknowledges a set if it names no partition of it; a request without a report acknowledges nothing.
//!
//! *Cut* takes what the member does not subscribe to any more out of its assignment. *Compute* keeps what assignment
//! and target share. The rest of the assignment is to be revoked; once that is acknowledged, the free part of the
//! target is granted. INVARIANTS: C5, nothing is granted while something is to be revoked; C6, only a report ends that.

use super::{
    group::{Current, MemberState},
    partitions::{Granted, Partition, PartitionSet},
};

/// What a reconciliation depends on.
pub struct Reconciliation<'a> {
    /// The epoch of the target.
    pub target_epoch: i32,
    /// The member's part of the target.
    pub target: &'a PartitionSet,
    /// What the request reports as owned.
    pub owned: Option<&'a PartitionSet>,
    /// Whether this request changed the member's subscription.
    pub resubscribed: bool,
    /// Whether the member subscribes to a topic.
    pub subscribes: &'a dyn Fn(u128) -> bool,
    /// Whether no other member holds a partition.
    pub is_free: &'a dyn Fn(Partition) -> bool,
}

/// The member is in a state that only a later version knows, and has not reported that it owns nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct Fenced;

impl Reconciliation<'_> {
    /// The next assignment of a member; `None`: it does not change.
    pub fn next(&self, current: &Current) -> Result<Option<Current>, Fenced> {
        let next = match current.state {
            MemberState::Stable if current.epoch != self.target_epoch => self.compute(current, current.epoch),
            MemberState::Unrevoked if self.acknowledges(&current.pending) => self.compute(current, current.epoch),
            MemberState::Stable | MemberState::Unrevoked if self.resubscribed => self.cut(current),
            MemberState::Stable | MemberState::Unrevoked => return Ok(None),
            MemberState::Unreleased => self.compute(current, current.epoch),
            MemberState::Unknown(_) if self.owned.is_some_and(PartitionSet::is_empty) => {
                self.compute(current, self.target_epoch)
            }
            MemberState::Unknown(_) => return Err(Fenced),
        };
        Ok(Some(next).filter(|next| next != current))
    }

    fn acknowledges(&self, revoked: &Granted) -> bool {
        self.owned.is_some_and(|owned| revoked.keys().all(|partition| !owned.contains(partition)))
    }

    fn cut(&self, current: &Current) -> Current {
        let subscribed = |(partition, _): &(&Partition, &i32)| (self.subscribes)(partition.0);
        let (kept, lost): (Granted, Granted) =
            current.assigned.iter().map(|(at, epoch)| (*at, *epoch)).partition(|(at, epoch)| subscribed(&(at, epoch)));
        if lost.is_empty() {
            return current.clone();
        }
        let mut pending = current.pending.clone();
        pending.extend(lost);
        let previous_epoch = current.epoch;
        if self.acknowledges(&pending) {
            return Current { previous_epoch, assigned: kept, pending: Granted::new(), ..*current };
        }
        Current { previous_epoch, state: MemberState::Unrevoked, assigned: kept, pending, ..*current }
    }

    fn compute(&self, current: &Current, epoch: i32) -> Current {
        let wants = |partition: &Partition| self.target.contains(partition) && (self.subscribes)(partition.0);
        let (mut assigned, revoked): (Granted, Granted) =
            current.assigned.iter().map(|(at, epoch)| (*at, *epoch)).partition(|(partition, _)| wants(partition));
        let previous_epoch = current.epoch;
        if !revoked.is_empty() && !self.acknowledges(&revoked) {
            return Current { epoch, previous_epoch, state: MemberState::Unrevoked, assigned, pending: revoked };
        }
        let mut state = MemberState::Stable;
        for partition in self.target.iter().filter(|partition| wants(partition)) {
            if assigned.contains_key(partition) {
                continue;
            }
            if (self.is_free)(*partition) {
                assigned.insert(*partition, self.target_epoch);
            } else {
                state = MemberState::Unreleased;
            }
        }
        Current { epoch: self.target_epoch, previous_epoch, state, assigned, pending: Granted::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_in_the_state_of_a_later_version_has_to_give_up_everything_first() {
        let (kept, free): (Partition, Partition) = ((1, 0), (1, 1));
        let target = PartitionSet::from([free]);
        let current = Current {
            epoch: 3,
            previous_epoch: 2,
            state: MemberState::Unknown(127),
            assigned: Granted::from([(kept, 3)]),
            pending: Granted::new(),
        };
        let next = |owned: Option<&PartitionSet>| {
            let reconciliation = Reconciliation {
                target_epoch: 5,
                target: &target,
                owned,
                resubscribed: false,
                subscribes: &|_| true,
                is_free: &|_| true,
            };
            reconciliation.next(&current)
        };
        assert_eq!(next(None), Err(Fenced));
        assert_eq!(next(Some(&PartitionSet::from([kept]))), Err(Fenced));
        let expected = Current {
            epoch: 5,
            previous_epoch: 3,
            state: MemberState::Stable,
            assigned: Granted::from([(free, 5)]),
            pending: Granted::new(),
        };
        assert_eq!(next(Some(&PartitionSet::new())), Ok(Some(expected)));
    }
}
