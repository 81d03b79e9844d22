//! Kafka's `range`, of its clients (with racks) and of its servers (without): consecutive partitions per topic.

use std::collections::{BTreeMap, VecDeque};

use crate::problem::{NOBODY, Problem, Scratch};

/// Gives each topic's subscribers, in order, ranges of its partitions; the first ones get one more if they do not
/// divide evenly. If racks matter for some topic, members first get partitions in their own rack: topics with the same
/// subscribers and the same number of partitions together, index by index, and other topics range by range.
///
/// Computes exactly Kafka's plan if members are in canonical order and topics in Java's order of names. Overwrites
/// `owners`. O(partitions + subscriptions) without racks.
pub fn range(problem: &Problem<'_>, scratch: &mut Scratch, owners: &mut Vec<u32>) {
    owners.clear();
    owners.resize(problem.partitions() as usize, NOBODY);
    scratch.subscribers.fill(problem);
    let in_racks = (0..problem.topics()).any(|topic| gate(problem, scratch.subscribers.of(topic), topic));
    if in_racks {
        scratch.subscribers.alike(&mut scratch.alike);
        match_racks(problem, scratch, owners);
    }
    for topic in 0..problem.topics() {
        let members = scratch.subscribers.of(topic);
        let partitions = problem.partitions_of(topic);
        let owners = &mut owners[partitions.start as usize..partitions.end as usize];
        if in_racks {
            sweep(members, owners, &mut scratch.counts, |_| NOBODY, |_, _| true);
        } else {
            split(members, owners);
        }
    }
}

/// Computes the range of a server, without racks.
pub fn server_range(problem: &Problem<'_>, scratch: &mut Scratch, owners: &mut Vec<u32>) {
    range(&problem.without_racks(), scratch, owners);
}

/// Splits one topic without racks.
fn split(members: &[u32], mut owners: &mut [u32]) {
    let Some(each) = owners.len().checked_div(members.len()) else { return };
    let longer = owners.len() % members.len();
    if each == 0 {
        owners.copy_from_slice(&members[..longer]);
        return;
    }
    for (position, &member) in members.iter().enumerate() {
        let (own, rest) = owners.split_at_mut(each + usize::from(position < longer));
        own.fill(member);
        owners = rest;
    }
}

/// Whether racks make a difference for these members and a topic's partitions: some member's rack is among the
/// partitions' racks, and not every partition is in all of them.
fn gate(problem: &Problem<'_>, members: &[u32], topic: u32) -> bool {
    let Some(racks) = problem.racks() else { return false };
    let wanted = members.iter().map(|&member| racks.members[member as usize]).filter(|&rack| rack != NOBODY);
    rack_gate(wanted, problem.partitions_of(topic).map(|partition| racks.of(partition)))
}

/// The same condition for any racks of members and partitions.
pub(crate) fn rack_gate<'a>(
    members: impl Iterator<Item = u32>,
    partitions: impl Iterator<Item = &'a [u32]> + Clone,
) -> bool {
    let mut wanted: Vec<u32> = members.collect();
    if wanted.is_empty() {
        return false;
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut all: Vec<u32> = Vec::new();
    for racks in partitions.clone() {
        for rack in racks {
            if let Err(place) = all.binary_search(rack) {
                all.insert(place, *rack);
            }
        }
    }
    wanted.iter().any(|rack| all.binary_search(rack).is_ok()) && partitions.into_iter().any(|racks| racks != all)
}

/// Remaining partitions of a topic for a member: the common number, plus one while extra ones remain.
struct Quota {
    each: u32,
    extra: u32,
}

impl Quota {
    fn of(partitions: u32, members: usize) -> Quota {
        Quota { each: partitions / members as u32, extra: partitions % members as u32 }
    }

    fn room(&self, has: u32) -> u32 {
        (self.each + u32::from(self.extra > 0)).saturating_sub(has)
    }

    fn give(&mut self, has: &mut u32, count: u32) {
        *has += count;
        if *has > self.each {
            self.extra -= 1;
        }
    }
}

/// Every member in order takes the first unowned partitions that it may have, which depends on its rack alone. `owners`
/// are those of one topic. O(members log racks + partitions * racks).
fn sweep(
    members: &[u32],
    owners: &mut [u32],
    has: &mut Vec<u32>,
    rack: impl Fn(u32) -> u32,
    may: impl Fn(u32, usize) -> bool,
) {
    if members.is_empty() {
        return;
    }
    let mut quota = Quota::of(owners.len() as u32, members.len());
    let highest = members[members.len() - 1] as usize;
    if has.len() <= highest {
        has.resize(highest + 1, 0);
    }
    for &member in members {
        has[member as usize] = 0;
    }
    for &owner in owners.iter().filter(|&&owner| owner != NOBODY) {
        quota.give(&mut has[owner as usize], 1);
    }
    // By rack: earlier partitions have an owner, or no member of the rack may have them.
    let mut next: BTreeMap<u32, usize> = BTreeMap::new();
    for &member in members {
        let (mut room, mut got) = (quota.room(has[member as usize]), 0);
        let index = next.entry(rack(member)).or_default();
        while room > 0 && *index < owners.len() {
            if owners[*index] == NOBODY && may(member, *index) {
                owners[*index] = member;
                (room, got) = (room - 1, got + 1);
            }
            *index += 1;
        }
        if got > 0 {
            quota.give(&mut has[member as usize], got);
        }
    }
}

/// The first pass of `range` if racks matter.
fn match_racks(problem: &Problem<'_>, scratch: &mut Scratch, owners: &mut [u32]) {
    let Some(racks) = problem.racks() else { return };
    // Topics of one class are adjacent: the same subscribers, and the same number of partitions with known racks.
    let mut order: Vec<(u32, u32, u32)> = Vec::new();
    for topic in 0..problem.topics() {
        let members = scratch.subscribers.of(topic);
        let partitions = problem.partitions_of(topic);
        if !members.is_empty() && !partitions.is_empty() {
            let racked = members.iter().any(|&member| racks.members[member as usize] != NOBODY);
            let entries = if racked { partitions.len() as u32 } else { 0 };
            order.push((scratch.alike[topic as usize], entries, topic));
        }
    }
    order.sort_unstable();
    for class in order.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
        let members = scratch.subscribers.of(class[0].2);
        if let [(_, _, topic)] = class {
            if gate(problem, members, *topic) {
                let partitions = problem.partitions_of(*topic);
                let base = partitions.start;
                let of_topic = &mut owners[partitions.start as usize..partitions.end as usize];
                let may = |member, index| racks.matches(member, base + index as u32);
                let rack = |member: u32| racks.members[member as usize];
                sweep(members, of_topic, &mut scratch.counts, rack, may);
            }
        } else {
            let starts: Vec<u32> = class.iter().map(|&(_, _, topic)| problem.partitions_of(topic).start).collect();
            together(problem, members, class[0].1, &starts, owners);
        }
    }
}

/// Assigns topics of one class, index by index, to the first member that is in the racks of all its partitions and has
/// room in all topics. O(members log racks + partitions * racks).
fn together(problem: &Problem<'_>, members: &[u32], entries: u32, starts: &[u32], owners: &mut [u32]) {
    let Some(racks) = problem.racks() else { return };
    // All topics of the class have the same number of partitions and get the same indices, so one count serves for all.
    let mut quota = Quota::of(entries, members.len());
    // By rack: its members with room, and their counts. A member without room never gets any again.
    let mut open: BTreeMap<u32, VecDeque<(u32, u32)>> = BTreeMap::new();
    for &member in members {
        open.entry(racks.members[member as usize]).or_default().push_back((member, 0));
    }
    for index in 0..entries {
        let mut first: Option<&mut (u32, u32)> = None;
        for queue in open.values_mut() {
            while queue.front().is_some_and(|&(_, has)| quota.room(has) == 0) {
                queue.pop_front();
            }
            let Some(candidate) = queue.front_mut() else { continue };
            let fits = starts.iter().all(|start| racks.matches(candidate.0, start + index));
            if fits && first.as_ref().is_none_or(|first| candidate.0 < first.0) {
                first = Some(candidate);
            }
        }
        let Some((member, has)) = first else { continue };
        for start in starts {
            owners[(start + index) as usize] = *member;
        }
        quota.give(has, 1);
    }
}
