//! The best plan: `sticky`, `cooperative_sticky` and `uniform`.
//!
//! Among all plans that give every partition of a subscribed topic to one subscriber, these have
//! 1. the most even loads: the sorted list of loads, highest first, is the smallest possible. This list has the
//!    smallest maximum, the largest minimum and the smallest sum of differences;
//! 2. where racks matter (as in Kafka: some member's rack is among the partitions' racks, and not every partition is
//!    in all of them), the fewest partitions with a member whose rack has no replica;
//! 3. the most partitions with their previous owner.
//!
//! A plan that is already the best one does not change, so a second call moves nothing.

use crate::{
    equal::{self, Dealer},
    levels, moves,
    network::NONE,
    problem::{CONTESTED, NOBODY, Problem, Scratch},
    range::rack_gate,
};

/// How unassigned partitions are dealt to members with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One by one in a ring, as the sticky assignors do.
    Ring,
    /// One member after the other, as `uniform` does.
    Runs,
}

/// Computes the best plan, with new partitions dealt in a ring. `previous` has one owner per partition, [`NOBODY`] or
/// [`CONTESTED`]. Overwrites `owners`.
pub fn sticky(problem: &Problem<'_>, previous: &[u32], scratch: &mut Scratch, owners: &mut Vec<u32>) {
    balance(problem, previous, Fill::Ring, scratch, owners);
}

/// Computes the best plan of a server: without racks, and with new partitions dealt in runs.
pub fn uniform(problem: &Problem<'_>, previous: &[u32], scratch: &mut Scratch, owners: &mut Vec<u32>) {
    balance(&problem.without_racks(), previous, Fill::Runs, scratch, owners);
}

/// Withholds partitions that another member still holds: a partition that changes its owner, or that several members
/// claim, has no owner in this round. Returns their number. The next round, in which no member claims them, gives them
/// to their new owners and moves nothing else.
pub fn withhold(previous: &[u32], owners: &mut [u32]) -> u32 {
    let mut withheld = 0;
    for (owner, &had) in owners.iter_mut().zip(previous) {
        if had != NOBODY && had != *owner && *owner != NOBODY {
            *owner = NOBODY;
            withheld += 1;
        }
    }
    withheld
}

/// Computes the best plan into `owners`.
///
/// O(partitions + subscriptions) with equal subscriptions and no racks. Otherwise a flow problem of the size of the
/// subscriptions: topics with the same subscribers count once, or once per set of racks if racks matter; partitions
/// only count when they are read and dealt. Even loads take two maximum flows per level. The fewest moves take one flow
/// per length of a path; after 2^30 visited edges the search stops, with the same loads and rules but possibly more
/// moves.
///
/// # Panics If `previous` does not have one element per partition.
pub fn balance(problem: &Problem<'_>, previous: &[u32], fill: Fill, scratch: &mut Scratch, owners: &mut Vec<u32>) {
    assert_eq!(previous.len(), problem.partitions() as usize, "one previous owner for each partition");
    owners.clear();
    owners.resize(previous.len(), NOBODY);
    scratch.subscribers.fill(problem);
    let racked = racks_matter(problem, scratch);
    if scratch.subscribers.all_equal().is_some() && !racked {
        equal::equal(problem, previous, fill, scratch, owners);
        return;
    }
    let Scratch { subscribers, alike, network, .. } = scratch;
    subscribers.alike(alike);
    network.build(problem, subscribers, alike, if racked { problem.racks() } else { None });
    network.hold(problem, previous);
    levels::settle(network);
    if racked || network.holds_any() {
        moves::minimise(network, moves::VISITS_MAX);
    }
    deal(problem, previous, fill, scratch, owners);
}

/// Kafka's condition for the use of racks, for the whole group.
fn racks_matter(problem: &Problem<'_>, scratch: &Scratch) -> bool {
    let Some(racks) = problem.racks() else { return false };
    let subscribed = |topic: &u32| !scratch.subscribers.of(*topic).is_empty();
    let wanted = racks.members.iter().copied().filter(|&rack| rack != NOBODY);
    let topics = (0..problem.topics()).filter(subscribed);
    rack_gate(wanted, topics.flat_map(|topic| problem.partitions_of(topic)).map(|partition| racks.of(partition)))
}

/// Turns the flow into owners: per class, first kept partitions, then new ones.
fn deal(problem: &Problem<'_>, previous: &[u32], fill: Fill, scratch: &mut Scratch, owners: &mut [u32]) {
    let Scratch { network, rooms, counts, open, .. } = scratch;
    // By member: its edge of the current class.
    counts.clear();
    counts.resize(problem.members() as usize, NONE);
    rooms.clear();
    rooms.resize(problem.members() as usize, 0);
    for class in 0..network.classes() {
        let edges = network.edges_of(class);
        open.clear();
        for edge in edges.clone() {
            let member = network.member_of(edge);
            let (gets, had) = (network.flow(edge), network.held(edge));
            counts[member as usize] = gets.min(had);
            rooms[member as usize] = gets - gets.min(had);
            if gets > had {
                open.push(member);
            }
        }
        network.each_partition(problem, class, |partition| {
            let had = previous[partition as usize];
            if had < CONTESTED && counts[had as usize] != NONE && counts[had as usize] > 0 {
                counts[had as usize] -= 1;
                owners[partition as usize] = had;
            }
        });
        let mut dealer = Dealer { open, rooms, at: 0, fill };
        network.each_partition(problem, class, |partition| {
            let owner = &mut owners[partition as usize];
            if *owner == NOBODY {
                *owner = dealer.next();
            }
        });
        for edge in edges {
            counts[network.member_of(edge) as usize] = NONE;
        }
    }
}
