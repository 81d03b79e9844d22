//! A group as numbers, and the scratch memory of assignors.

use std::fmt;

use crate::{classes::Subscribers, network::Network};

/// In a plan: the partition has no owner. In previous owners: no member claimed it. As a rack: none.
pub const NOBODY: u32 = u32::MAX;
/// In previous owners: several members claimed the partition in the same generation, so it has no owner.
pub const CONTESTED: u32 = u32::MAX - 1;

/// The subscriptions of a group as flat arrays. Lists are compressed: list `i` is `values[starts[i]..starts[i + 1]]`.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    topic_starts: &'a [u32],
    member_starts: &'a [u32],
    subscriptions: &'a [u32],
    racks: Option<Racks<'a>>,
}

/// Racks of members and replicas, as small numbers.
#[derive(Clone, Copy, Debug)]
pub struct Racks<'a> {
    /// Rack by member; [`NOBODY`]: none.
    pub members: &'a [u32],
    /// By partition, plus one element: start of its list in `replicas`.
    pub starts: &'a [u32],
    /// Racks of each partition's replicas, ascending and without repetition.
    pub replicas: &'a [u32],
}

impl Racks<'_> {
    /// Returns the racks of one partition's replicas.
    pub fn of(&self, partition: u32) -> &[u32] {
        &self.replicas[self.starts[partition as usize] as usize..self.starts[partition as usize + 1] as usize]
    }

    /// Whether a member's rack has a replica of a partition. True for a member without a rack.
    pub fn matches(&self, member: u32, partition: u32) -> bool {
        let rack = self.members[member as usize];
        rack == NOBODY || self.of(partition).contains(&rack)
    }
}

/// Why arrays are not a valid problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemError {
    /// A list of starts is empty, does not begin with 0, decreases, or does not end where its values do.
    Starts {
        /// Name of the array.
        array: &'static str,
        /// Index in the array.
        at: usize,
    },
    /// An array has the wrong length.
    Length {
        /// Name of the array.
        array: &'static str,
        /// Its length.
        found: usize,
        /// The expected length.
        expected: usize,
    },
    /// A member's topics are not ascending, repeat, or do not exist.
    Subscription {
        /// The member.
        member: u32,
        /// The topic.
        topic: u32,
    },
    /// A partition's racks are not ascending, or repeat.
    Replicas {
        /// The partition.
        partition: u32,
    },
    /// A partition's owner is not a member.
    Owner {
        /// The partition.
        partition: u32,
        /// The owner.
        owner: u32,
    },
    /// More than 2^32 - 3 members, partitions or subscriptions.
    TooLarge,
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemError::Starts { array, at } => {
                write!(f, "`{array}` must rise from 0 to the length of its values; element {at} does not fit")
            }
            ProblemError::Length { array, found, expected } => {
                write!(f, "`{array}` has {found} elements, expected {expected}")
            }
            ProblemError::Subscription { member, topic } => {
                write!(f, "member {member} subscribes to topic {topic}: its topics must exist, ascend and not repeat")
            }
            ProblemError::Replicas { partition } => {
                write!(f, "the racks of partition {partition} must ascend and not repeat")
            }
            ProblemError::Owner { partition, owner } => {
                write!(f, "partition {partition} has owner {owner}, which is no member")
            }
            ProblemError::TooLarge => f.write_str("more than 2^32 - 3 members, partitions or subscriptions"),
        }
    }
}

impl std::error::Error for ProblemError {}

/// Checks compressed starts against the number of values, if known.
fn check_starts(array: &'static str, starts: &[u32], values: Option<usize>) -> Result<(), ProblemError> {
    if starts.first() != Some(&0) {
        return Err(ProblemError::Starts { array, at: 0 });
    }
    if let Some(at) = starts.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(ProblemError::Starts { array, at: at + 1 });
    }
    let end = starts[starts.len() - 1] as usize;
    if values.is_some_and(|values| values != end) {
        return Err(ProblemError::Starts { array, at: starts.len() - 1 });
    }
    Ok(())
}

fn check_length(array: &'static str, found: usize, expected: usize) -> Result<(), ProblemError> {
    if found == expected { Ok(()) } else { Err(ProblemError::Length { array, found, expected }) }
}

fn ascends(values: &[u32]) -> bool {
    values.windows(2).all(|pair| pair[0] < pair[1])
}

impl<'a> Problem<'a> {
    /// Creates a problem. `topic_starts` has the start of each topic's partitions and the number of all partitions;
    /// `member_starts` the start of each member's list in `subscriptions`. Every list ascends.
    pub fn new(
        topic_starts: &'a [u32],
        member_starts: &'a [u32],
        subscriptions: &'a [u32],
        racks: Option<Racks<'a>>,
    ) -> Result<Problem<'a>, ProblemError> {
        if member_starts.len() > CONTESTED as usize || topic_starts.last().is_some_and(|&end| end >= CONTESTED) {
            return Err(ProblemError::TooLarge);
        }
        check_starts("topic_starts", topic_starts, None)?;
        check_starts("member_starts", member_starts, Some(subscriptions.len()))?;
        let problem = Problem { topic_starts, member_starts, subscriptions, racks };
        let mut checked: &[u32] = &[];
        for member in 0..problem.members() {
            let topics = problem.topics_of(member);
            if topics == checked {
                continue; // members of one group mostly subscribe to the same
            }
            checked = topics;
            let beyond = topics.last().filter(|&&topic| topic >= problem.topics());
            let falling = topics.windows(2).find(|pair| pair[0] >= pair[1]).map(|pair| &pair[1]);
            if let Some(&topic) = falling.or(beyond) {
                return Err(ProblemError::Subscription { member, topic });
            }
        }
        if let Some(racks) = &racks {
            check_length("racks.members", racks.members.len(), problem.members() as usize)?;
            check_length("racks.starts", racks.starts.len(), problem.partitions() as usize + 1)?;
            check_starts("racks.starts", racks.starts, Some(racks.replicas.len()))?;
            if let Some(partition) = (0..problem.partitions()).find(|&partition| !ascends(racks.of(partition))) {
                return Err(ProblemError::Replicas { partition });
            }
        }
        Ok(problem)
    }

    /// Returns the number of members.
    pub fn members(&self) -> u32 {
        self.member_starts.len() as u32 - 1
    }

    /// Returns the number of topics.
    pub fn topics(&self) -> u32 {
        self.topic_starts.len() as u32 - 1
    }

    /// Returns the number of partitions of all topics.
    pub fn partitions(&self) -> u32 {
        self.topic_starts[self.topic_starts.len() - 1]
    }

    /// Returns the partitions of one topic.
    pub fn partitions_of(&self, topic: u32) -> std::ops::Range<u32> {
        self.topic_starts[topic as usize]..self.topic_starts[topic as usize + 1]
    }

    /// Returns the topics of one member, ascending.
    pub fn topics_of(&self, member: u32) -> &'a [u32] {
        let (start, end) = (self.member_starts[member as usize], self.member_starts[member as usize + 1]);
        &self.subscriptions[start as usize..end as usize]
    }

    /// Returns all subscriptions, member by member.
    pub fn subscriptions(&self) -> &'a [u32] {
        self.subscriptions
    }

    /// Returns the racks, if any are known.
    pub fn racks(&self) -> Option<Racks<'a>> {
        self.racks
    }

    /// Returns the same group without racks.
    #[must_use]
    pub fn without_racks(self) -> Problem<'a> {
        Problem { racks: None, ..self }
    }

    /// Checks that `owners` has one element per partition, each a member, [`NOBODY`] or [`CONTESTED`].
    pub fn check_owners(&self, array: &'static str, owners: &[u32]) -> Result<(), ProblemError> {
        check_length(array, owners.len(), self.partitions() as usize)?;
        let stranger = |&owner: &u32| owner >= self.members() && owner < CONTESTED;
        match owners.iter().position(stranger) {
            Some(at) => Err(ProblemError::Owner { partition: at as u32, owner: owners[at] }),
            None => Ok(()),
        }
    }
}

/// Memory that calls reuse. Each thread needs its own.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) subscribers: Subscribers,
    /// By topic: the first topic with the same subscribers.
    pub(crate) alike: Vec<u32>,
    /// Counters by member.
    pub(crate) counts: Vec<u32>,
    /// Remaining partitions by member.
    pub(crate) rooms: Vec<u32>,
    pub(crate) open: Vec<u32>,
    pub(crate) network: Network,
}
