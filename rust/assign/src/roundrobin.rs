//! Kafka's `roundrobin`: all partitions in order, dealt to the members in a ring.

use crate::problem::{NOBODY, Problem, Scratch};

/// Deals the partitions in order. Each goes to the next member in the ring that subscribes to its topic. The ring
/// continues from topic to topic.
///
/// Computes exactly Kafka's plan if members are in canonical order and topics in Java's order of names. Overwrites
/// `owners`. O(partitions + subscriptions + topics log members), even with few subscribers.
pub fn roundrobin(problem: &Problem<'_>, scratch: &mut Scratch, owners: &mut Vec<u32>) {
    owners.clear();
    owners.resize(problem.partitions() as usize, NOBODY);
    scratch.subscribers.fill(problem);
    let mut pointer = 0;
    for topic in 0..problem.topics() {
        let members = scratch.subscribers.of(topic);
        let partitions = problem.partitions_of(topic);
        if members.is_empty() || partitions.is_empty() {
            continue;
        }
        let mut next = members.partition_point(|&member| member < pointer);
        for owner in &mut owners[partitions.start as usize..partitions.end as usize] {
            if next == members.len() {
                next = 0;
            }
            *owner = members[next];
            next += 1;
        }
        pointer = members[next - 1] + 1;
    }
}
