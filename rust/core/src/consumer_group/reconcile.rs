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

    /// Whether the member subscribes to the topic of a partition. The partitions that are asked for ascend, so that each
    /// topic is looked up once.
    fn subscribed(&self) -> impl FnMut(Partition) -> bool {
        let mut last = None;
        move |(topic_id, _)| match last {
            Some((known, answer)) if known == topic_id => answer,
            _ => {
                let answer = (self.subscribes)(topic_id);
                last = Some((topic_id, answer));
                answer
            }
        }
    }

    fn cut(&self, current: &Current) -> Current {
        let mut subscribed = self.subscribed();
        let (kept, lost): (Vec<_>, Vec<_>) = granted(current).partition(|(partition, _)| subscribed(*partition));
        if lost.is_empty() {
            return current.clone();
        }
        let kept = Granted::from_iter(kept);
        let mut pending = current.pending.clone();
        pending.extend(lost);
        let previous_epoch = current.epoch;
        if self.acknowledges(&pending) {
            return Current { previous_epoch, assigned: kept, pending: Granted::new(), ..*current };
        }
        Current { previous_epoch, state: MemberState::Unrevoked, assigned: kept, pending, ..*current }
    }

    fn compute(&self, current: &Current, epoch: i32) -> Current {
        let mut subscribed = self.subscribed();
        // The wanted part of the target and the assignment ascend: one pass through both compares them.
        let wanted: Vec<Partition> = self.target.iter().copied().filter(|partition| subscribed(*partition)).collect();
        let mut ahead = wanted.iter().peekable();
        let (kept, revoked): (Vec<_>, Vec<_>) = granted(current).partition(|(partition, _)| {
            while ahead.next_if(|wanted| *wanted < partition).is_some() {}
            ahead.next_if_eq(&partition).is_some()
        });
        let (revoked, previous_epoch) = (Granted::from_iter(revoked), current.epoch);
        if !revoked.is_empty() && !self.acknowledges(&revoked) {
            let assigned = Granted::from_iter(kept);
            return Current { epoch, previous_epoch, state: MemberState::Unrevoked, assigned, pending: revoked };
        }
        let mut state = MemberState::Stable;
        let mut kept = kept.into_iter().peekable();
        let assigned = wanted.iter().filter_map(|partition| {
            // What is owned already keeps the epoch at which it was granted.
            let owned = kept.next_if(|(kept, _)| kept == partition);
            if owned.is_none() && (self.is_free)(*partition) {
                return Some((*partition, self.target_epoch));
            }
            if owned.is_none() {
                state = MemberState::Unreleased;
            }
            owned
        });
        let assigned = assigned.collect();
        Current { epoch: self.target_epoch, previous_epoch, state, assigned, pending: Granted::new() }
    }
}

/// What a member owns, ascending, with the epochs at which it was granted.
fn granted(current: &Current) -> impl Iterator<Item = (Partition, i32)> {
    current.assigned.iter().map(|(partition, epoch)| (*partition, *epoch))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_owned_already_keeps_its_epoch_and_each_topic_is_looked_up_once() {
        let target = PartitionSet::from([(1, 1), (1, 2), (2, 0), (3, 0), (3, 1), (4, 0)]);
        let (kept, gone) = (Granted::from([((1, 1), 2), ((4, 0), 3)]), Granted::from([((1, 0), 2), ((2, 0), 2)]));
        let assigned: Granted = kept.iter().chain(&gone).map(|(partition, epoch)| (*partition, *epoch)).collect();
        let current =
            Current { epoch: 3, previous_epoch: 2, state: MemberState::Stable, assigned, pending: Granted::new() };
        let lookups = Cell::new(0);
        let next = |owned: Option<&PartitionSet>| {
            lookups.set(0);
            let reconciliation = Reconciliation {
                target_epoch: 5,
                target: &target,
                owned,
                resubscribed: false,
                subscribes: &|topic_id| {
                    lookups.set(lookups.get() + 1);
                    topic_id != 2
                },
                is_free: &|partition| partition != (3, 1),
            };
            let next = reconciliation.next(&current).unwrap().unwrap();
            assert_eq!(lookups.get(), 4);
            (next.epoch, next.previous_epoch, next.state, next.assigned, next.pending)
        };
        assert_eq!(next(None), (3, 3, MemberState::Unrevoked, kept.clone(), gone));
        let granted = Granted::from([((1, 1), 2), ((1, 2), 5), ((3, 0), 5), ((4, 0), 3)]);
        let owned: PartitionSet = kept.into_keys().collect();
        assert_eq!(next(Some(&owned)), (5, 3, MemberState::Unreleased, granted, Granted::new()));
    }

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
