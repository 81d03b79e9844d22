//! The best plan there is: `sticky`, `cooperative_sticky` and `uniform`.
//!
//! Of all plans that give every partition of a subscribed topic to one subscriber, these are the ones with
//! 1. the most even loads: the sorted list of loads, highest first, is the smallest there is. That one list has the
//!    smallest maximum, the largest minimum and the smallest sum of differences at once;
//! 2. where racks matter (as in Kafka: some member's rack is among the partitions' racks, and not every partition is
//!    in all of them), the fewest partitions with a member whose rack has no replica;
//! 3. the most partitions with their previous owner.
//!
//! A plan that is the best one already is not touched, so that a second call moves nothing.

use crate::{
    equal::{self, Dealer},
    levels, moves,
    network::NONE,
    problem::{CONTESTED, NOBODY, Problem, Scratch},
    range::rack_gate,
};

/// How partitions that stay with nobody are dealt to the members that still get some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One by one in a ring: as the sticky assignors do.
    Ring,
    /// One member after the other: as `uniform` does.
    Runs,
}

/// The best plan, its new partitions dealt in a ring. `previous` has one owner for each partition, [`NOBODY`] or
/// [`CONTESTED`]; `owners` is overwritten.
pub fn sticky(problem: &Problem<'_>, previous: &[u32], scratch: &mut Scratch, owners: &mut Vec<u32>) {
    balance(problem, previous, Fill::Ring, scratch, owners);
}

/// The best plan of a server: racks play no role, new partitions are dealt in runs.
pub fn uniform(problem: &Problem<'_>, previous: &[u32], scratch: &mut Scratch, owners: &mut Vec<u32>) {
    balance(&problem.without_racks(), previous, Fill::Runs, scratch, owners);
}

/// Takes back what somebody else still holds: a partition that changes owner, or that several members claim, belongs to
/// nobody for this round. Returns how many. The next round, in which nobody claims them any more, gives them to whom
/// they were meant for, and moves nothing else: what is left of the best plan is kept best by the best plan itself.
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

/// Writes the best plan into `owners`.
///
/// O(partitions + subscriptions) with equal subscriptions and no racks. Otherwise a flow problem whose size is that of
/// the subscriptions, topics with the same subscribers counted once, and once for each set of racks where racks matter;
/// partitions only count where they are read and dealt. Level by level the even loads take two maximum flows; the
/// fewest moves take one for each number of moves on a way, and are given up after 2^30 looks at an edge, which leaves
/// the loads and the rules as they are.
///
/// # Panics
/// If `previous` has not one element for each partition.
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

/// Kafka's question for the whole group.
fn racks_matter(problem: &Problem<'_>, scratch: &Scratch) -> bool {
    let Some(racks) = problem.racks() else { return false };
    let subscribed = |topic: &u32| !scratch.subscribers.of(*topic).is_empty();
    let wanted = racks.members.iter().copied().filter(|&rack| rack != NOBODY);
    let topics = (0..problem.topics()).filter(subscribed);
    rack_gate(wanted, topics.flat_map(|topic| problem.partitions_of(topic)).map(|partition| racks.of(partition)))
}

/// Turns the numbers of the flow into owners: of each class first what stays, then what is new.
fn deal(problem: &Problem<'_>, previous: &[u32], fill: Fill, scratch: &mut Scratch, owners: &mut [u32]) {
    let Scratch { network, rooms, counts, open, .. } = scratch;
    // By member: which edge of the present class is its own.
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
