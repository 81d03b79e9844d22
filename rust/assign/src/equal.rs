//! The closed form of [`balance`](crate::balance) if all subscribers have the same topics and racks do not matter: even
//! loads with the most kept partitions in O(partitions + members).

use crate::{
    balance::Fill,
    problem::{CONTESTED, NOBODY, Problem, Scratch},
};

/// Plans a group whose members all subscribe to the same topics. Of `N` partitions, each of `n` members gets `q = N /
/// n`, and `N mod n` members get one more: first those that had more than `q`, then those that had exactly `q`, then
/// the others, each in order. So each member keeps min(had, q), and as many as possible keep one more; no even plan
/// keeps more. A member with too many partitions keeps the first ones.
pub(crate) fn equal(problem: &Problem<'_>, previous: &[u32], fill: Fill, scratch: &mut Scratch, owners: &mut [u32]) {
    let Scratch { subscribers, rooms, counts, open, .. } = scratch;
    let Some(members) = subscribers.all_equal().filter(|members| !members.is_empty()) else { return };
    let topics = problem.topics_of(members[0]);
    let total: u32 = topics.iter().map(|&topic| problem.partitions_of(topic).len() as u32).sum();
    let (each, mut extra) = (total / members.len() as u32, total % members.len() as u32);

    if previous.iter().all(|&owner| owner >= CONTESTED) {
        cold(problem, topics, members, fill, owners);
        return;
    }

    // Members without a subscription have no room. The extra slots are for partitions without an owner.
    counts.clear();
    counts.resize(problem.members() as usize + 1, 0);
    let stranger = problem.members();
    for &topic in topics {
        let partitions = problem.partitions_of(topic);
        for &owner in &previous[partitions.start as usize..partitions.end as usize] {
            counts[owner.min(stranger) as usize] += 1;
        }
    }
    rooms.clear();
    rooms.resize(problem.members() as usize + 1, 0);
    for &member in members {
        rooms[member as usize] = each;
    }
    for wanted in [|had: u32, each: u32| had > each, |had, each| had == each, |had, each| had < each] {
        for &member in members {
            if extra > 0 && wanted(counts[member as usize], each) {
                rooms[member as usize] += 1;
                extra -= 1;
            }
        }
    }

    for &topic in topics {
        let partitions = problem.partitions_of(topic);
        let span = partitions.start as usize..partitions.end as usize;
        for (owner, &had) in owners[span.clone()].iter_mut().zip(&previous[span]) {
            let room = &mut rooms[had.min(stranger) as usize];
            if *room > 0 {
                *room -= 1;
                *owner = had;
            }
        }
    }
    open.clear();
    open.extend(members.iter().filter(|&&member| rooms[member as usize] > 0));
    let mut dealer = Dealer { open, rooms, at: 0, fill };
    for &topic in topics {
        let partitions = problem.partitions_of(topic);
        for owner in &mut owners[partitions.start as usize..partitions.end as usize] {
            if *owner == NOBODY {
                *owner = dealer.next();
            }
        }
    }
}

/// Plans without previous owners: the first members get one more.
fn cold(problem: &Problem<'_>, topics: &[u32], members: &[u32], fill: Fill, owners: &mut [u32]) {
    let total: usize = topics.iter().map(|&topic| problem.partitions_of(topic).len()).sum();
    let (each, extra) = (total / members.len(), total % members.len());
    // The current member, and its remaining partitions in a run.
    let (mut at, mut room) = (0, each + usize::from(extra > 0));
    for &topic in topics {
        let partitions = problem.partitions_of(topic);
        let mut rest = &mut owners[partitions.start as usize..partitions.end as usize];
        while !rest.is_empty() {
            let now;
            if fill == Fill::Ring {
                (now, rest) = rest.split_at_mut(rest.len().min(members.len() - at));
                now.copy_from_slice(&members[at..at + now.len()]);
                at = (at + now.len()) % members.len();
            } else {
                (now, rest) = rest.split_at_mut(rest.len().min(room));
                now.fill(members[at]);
                room -= now.len();
                if room == 0 {
                    at += 1;
                    room = each + usize::from(at < extra);
                }
            }
        }
    }
}

/// Deals partitions to members with room: one by one in a ring, or one member after the other.
pub(crate) struct Dealer<'a> {
    /// Members with room, in order.
    pub open: &'a mut Vec<u32>,
    /// By member: number of partitions it still gets.
    pub rooms: &'a mut [u32],
    /// Index of the current member in `open`.
    pub at: usize,
    /// The order of dealing.
    pub fill: Fill,
}

impl Dealer<'_> {
    /// Returns the owner of the next partition; [`NOBODY`] once all members are full.
    pub fn next(&mut self) -> u32 {
        if self.at == self.open.len() {
            // After a lap of the ring, full members leave it. The lap has dealt as many partitions as it costs.
            self.at = 0;
            let rooms = &*self.rooms;
            self.open.retain(|&member| rooms[member as usize] > 0);
            if self.open.is_empty() {
                return NOBODY;
            }
        }
        let member = self.open[self.at];
        let room = &mut self.rooms[member as usize];
        *room -= 1;
        if self.fill == Fill::Ring || *room == 0 {
            self.at += 1;
        }
        member
    }
}

const _: () = assert!(NOBODY > CONTESTED, "both are beyond every member");
