//! Checks any plan in O(partitions + subscriptions + members log members).

use std::fmt;

use crate::{
    classes::Subscribers,
    problem::{CONTESTED, NOBODY, Problem},
};

/// The rule that a plan must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All partitions were revoked: each partition of a subscribed topic has an owner.
    Eager,
    /// Members keep their partitions until they are revoked: a partition that another member holds or claims has no
    /// owner in this round; every other one has.
    Cooperative,
}

/// Why a plan is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The plan does not have one owner per partition.
    Length {
        /// Number of owners.
        found: usize,
        /// Number of partitions.
        expected: usize,
    },
    /// A partition has two owners, or one owner twice.
    Twice {
        /// The partition.
        partition: u32,
        /// The first owner.
        first: u32,
        /// The second owner.
        second: u32,
    },
    /// The partition does not exist.
    NoPartition {
        /// The partition.
        partition: u32,
        /// The owner.
        member: u32,
    },
    /// The owner is not a member.
    NoMember {
        /// The partition.
        partition: u32,
        /// The owner.
        member: u32,
    },
    /// The owner does not subscribe to the partition's topic.
    Unsubscribed {
        /// The partition.
        partition: u32,
        /// The owner.
        member: u32,
    },
    /// A partition of a subscribed topic has no owner, although no member had to revoke it first.
    Missing {
        /// The partition.
        partition: u32,
    },
    /// A partition has an owner while another member still holds it.
    HandOver {
        /// The partition.
        partition: u32,
        /// The holder; [`CONTESTED`]: several members claim it.
        from: u32,
        /// The owner.
        to: u32,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Length { found, expected } => write!(f, "the plan has {found} owners for {expected} partitions"),
            Violation::Twice { partition, first, second } => {
                write!(f, "partition {partition} went to member {first} and to member {second}")
            }
            Violation::NoPartition { partition, member } => {
                write!(f, "member {member} got partition {partition}, which does not exist")
            }
            Violation::NoMember { partition, member } => {
                write!(f, "partition {partition} went to {member}, which is no member")
            }
            Violation::Unsubscribed { partition, member } => {
                write!(f, "member {member} got partition {partition}, to whose topic it does not subscribe")
            }
            Violation::Missing { partition } => write!(f, "no member got partition {partition}"),
            Violation::HandOver { partition, from, to } => {
                write!(f, "member {to} got partition {partition}, which member {from} still holds")
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Measurements of a correct plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Number of partitions by member.
    pub loads: Vec<u32>,
    /// The smallest load of a member with a subscription; 0 if there is none.
    pub min_load: u32,
    /// The largest load of a member with a subscription; 0 if there is none.
    pub max_load: u32,
    /// Sum of the load differences of all pairs of members: 0 is perfectly even. Kafka compares plans by it.
    pub imbalance: u64,
    /// Partitions that stay with their previous owner.
    pub kept: u32,
    /// Partitions that move between members.
    pub moved: u32,
    /// Assigned partitions that had no owner, or several.
    pub fresh: u32,
    /// Partitions that wait until another member revokes them (only under [`Rule::Cooperative`]).
    pub withheld: u32,
    /// Partitions whose owner's rack has no replica; 0 without racks.
    pub away: u32,
    /// Whether no single move of a partition to another subscriber would make two loads more even.
    pub locally_balanced: bool,
    /// Whether no other plan has more even loads: no chain of moves would help either.
    pub best_balance: bool,
}

/// Merges the members' lists of partitions into one owner per partition.
pub fn merge(
    problem: &Problem<'_>,
    starts: &[u32],
    partitions: &[u32],
    owners: &mut Vec<u32>,
) -> Result<(), Violation> {
    owners.clear();
    owners.resize(problem.partitions() as usize, NOBODY);
    for (member, span) in (0_u32..).zip(starts.windows(2)) {
        for &partition in partitions.get(span[0] as usize..span[1] as usize).unwrap_or_default() {
            let Some(owner) = owners.get_mut(partition as usize) else {
                return Err(Violation::NoPartition { partition, member });
            };
            if *owner != NOBODY {
                return Err(Violation::Twice { partition, first: *owner, second: member });
            }
            *owner = member;
        }
    }
    Ok(())
}

/// Checks a plan of one owner per partition, and compares it with the previous owners (one per partition, [`NOBODY`] or
/// [`CONTESTED`]). Returns the violation of the lowest partition.
///
/// # Panics If `previous` does not have one element per partition.
pub fn certify(problem: &Problem<'_>, previous: &[u32], owners: &[u32], rule: Rule) -> Result<Certificate, Violation> {
    let expected = problem.partitions() as usize;
    assert_eq!(previous.len(), expected, "one previous owner for each partition");
    if owners.len() != expected {
        return Err(Violation::Length { found: owners.len(), expected });
    }
    let mut subscribers = Subscribers::default();
    subscribers.fill(problem);
    let mut certificate = Certificate { loads: vec![0; problem.members() as usize], ..Certificate::default() };
    // By member: the last topic that has it as a subscriber, plus one.
    let mut last_topic = vec![0_u32; problem.members() as usize];
    for topic in 0..problem.topics() {
        let members = subscribers.of(topic);
        for &member in members {
            last_topic[member as usize] = topic + 1;
        }
        for partition in problem.partitions_of(topic) {
            let (owner, had) = (owners[partition as usize], previous[partition as usize]);
            if owner == NOBODY {
                if members.is_empty() {
                    continue;
                }
                if rule == Rule::Eager || had == NOBODY {
                    return Err(Violation::Missing { partition });
                }
                certificate.withheld += 1;
                continue;
            }
            match last_topic.get(owner as usize) {
                None => return Err(Violation::NoMember { partition, member: owner }),
                Some(&seen) if seen != topic + 1 => {
                    return Err(Violation::Unsubscribed { partition, member: owner });
                }
                Some(_) => {}
            }
            if rule == Rule::Cooperative && had != NOBODY && had != owner {
                return Err(Violation::HandOver { partition, from: had, to: owner });
            }
            certificate.count(problem, partition, had, owner);
        }
    }
    certificate.measure(problem, owners);
    Ok(certificate)
}

impl Certificate {
    fn count(&mut self, problem: &Problem<'_>, partition: u32, had: u32, owner: u32) {
        self.loads[owner as usize] += 1;
        let figure = match had {
            NOBODY | CONTESTED => &mut self.fresh,
            had if had == owner => &mut self.kept,
            _ => &mut self.moved,
        };
        *figure += 1;
        self.away += u32::from(problem.racks().is_some_and(|racks| !racks.matches(owner, partition)));
    }

    fn measure(&mut self, problem: &Problem<'_>, owners: &[u32]) {
        let subscribed = (0..problem.members()).filter(|&member| !problem.topics_of(member).is_empty());
        let mut order: Vec<u32> = subscribed.collect();
        order.sort_by_key(|&member| self.loads[member as usize]);
        let load = |member: &u32| self.loads[*member as usize];
        (self.min_load, self.max_load) = (order.first().map_or(0, load), order.last().map_or(0, load));
        let mut sum = 0_u64;
        for (rank, &member) in (0_u64..).zip(&order) {
            let load = u64::from(self.loads[member as usize]);
            self.imbalance += rank * load - sum;
            sum += load;
        }
        if self.max_load - self.min_load <= 1 {
            (self.locally_balanced, self.best_balance) = (true, true);
            return;
        }
        self.locally_balanced = self.is_locally_balanced(problem, owners);
        self.best_balance = self.locally_balanced && self.is_best(problem, owners, &order);
    }

    fn is_locally_balanced(&self, problem: &Problem<'_>, owners: &[u32]) -> bool {
        let mut least = vec![u32::MAX; problem.topics() as usize];
        for member in 0..problem.members() {
            for &topic in problem.topics_of(member) {
                least[topic as usize] = least[topic as usize].min(self.loads[member as usize]);
            }
        }
        (0..problem.topics()).all(|topic| {
            let partitions = problem.partitions_of(topic);
            let owners = &owners[partitions.start as usize..partitions.end as usize];
            owners.iter().all(|&owner| owner == NOBODY || self.loads[owner as usize] <= least[topic as usize] + 1)
        })
    }

    /// Whether no chain of moves leads from a member to one with at least two partitions less. Members are sorted by
    /// load, so the first member reachable from a member's partitions has the smallest load.
    fn is_best(&self, problem: &Problem<'_>, owners: &[u32], order: &[u32]) -> bool {
        let mut seen_topic = vec![false; problem.topics() as usize];
        let mut seen_member = vec![false; problem.members() as usize];
        let mut stack = Vec::new();
        for &end in order {
            let most = self.loads[end as usize] + 1;
            stack.push(end);
            while let Some(member) = stack.pop() {
                for &topic in problem.topics_of(member) {
                    if std::mem::replace(&mut seen_topic[topic as usize], true) {
                        continue;
                    }
                    let partitions = problem.partitions_of(topic);
                    for &owner in &owners[partitions.start as usize..partitions.end as usize] {
                        if owner == NOBODY || std::mem::replace(&mut seen_member[owner as usize], true) {
                            continue;
                        }
                        if self.loads[owner as usize] > most {
                            return false;
                        }
                        stack.push(owner);
                    }
                }
            }
        }
        true
    }
}
