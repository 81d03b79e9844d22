//! Groups by name: the canonical order, and the mapping between names and numbers.
//!
//! Static members come first, by instance id, then dynamic members by member id; topics by name; all in Java's string
//! order. So a new member id of a static member, or another order of the same members, changes nothing.

use std::{cmp::Ordering, fmt};

use crate::{
    balance,
    certify::Violation,
    claims::Claims,
    problem::{NOBODY, Problem, ProblemError, Racks, Scratch},
    range, roundrobin,
    user_data::{Remembered, decode_cooperative_sticky, decode_sticky},
};

/// The assignors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Range of Kafka's clients: ranges per topic.
    Range,
    /// Round-robin of Kafka's clients: dealt in a ring.
    RoundRobin,
    /// Sticky of Kafka's clients, eager: the most even loads with the fewest moves.
    Sticky,
    /// Cooperative-sticky of Kafka's clients: like sticky, handed over in two rounds.
    CooperativeSticky,
    /// Uniform of Kafka's servers: the most even loads with the fewest moves, without racks.
    Uniform,
    /// Range of Kafka's servers, without racks.
    ServerRange,
}

impl Assignor {
    /// All assignors.
    pub const ALL: [Assignor; 6] = [
        Assignor::Range,
        Assignor::RoundRobin,
        Assignor::Sticky,
        Assignor::CooperativeSticky,
        Assignor::Uniform,
        Assignor::ServerRange,
    ];

    /// Returns rota's name, which is unique, unlike the protocol's.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::RoundRobin => "roundrobin",
            Assignor::Sticky => "sticky",
            Assignor::CooperativeSticky => "cooperative-sticky",
            Assignor::Uniform => "uniform",
            Assignor::ServerRange => "server-range",
        }
    }

    /// Returns the protocol's name.
    pub fn wire_name(self) -> &'static str {
        if self == Assignor::ServerRange { "range" } else { self.name() }
    }

    /// Returns the assignor of this name, with hyphens or underscores.
    pub fn named(name: &str) -> Option<Assignor> {
        let name = name.replace('_', "-");
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Whether the assignor runs in servers. A server refuses topics that do not exist; clients ignore them.
    pub fn is_servers(self) -> bool {
        matches!(self, Assignor::Uniform | Assignor::ServerRange)
    }
}

/// A member by name.
#[derive(Clone, Debug, Default)]
pub struct Member<'a> {
    /// The member id.
    pub id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<&'a str>,
    /// Subscribed topics; repetitions do not count.
    pub topics: Vec<&'a str>,
    /// Owned partitions (topic, index), as the member claims.
    pub owned: Vec<(&'a str, i32)>,
    /// The generation of the claims; -1: unknown.
    pub generation: i32,
    /// `client.rack`; an empty string counts as none.
    pub rack: Option<&'a str>,
    /// User data of the assignor. That of `sticky` replaces `owned` and `generation`; that of `cooperative-sticky` is
    /// the default for the generation.
    pub user_data: Option<&'a [u8]>,
}

/// A topic by name.
#[derive(Clone, Debug, Default)]
pub struct Topic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Number of partitions.
    pub partitions: i64,
    /// Racks of each partition's replicas; empty if unknown.
    pub racks: Vec<Vec<&'a str>>,
}

/// Why input is invalid, with the names concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum InputError {
    /// Two members have the same id.
    DuplicateMember { member: String },
    /// Two members have the same instance id.
    DuplicateInstance { member: String, other: String, instance_id: String },
    /// A topic is listed twice.
    DuplicateTopic { topic: String },
    /// The number of partitions is negative or above 2^31 - 1.
    PartitionCount { topic: String, partitions: i64 },
    /// The number of rack lists differs from the number of partitions.
    RackCount { topic: String, found: usize, partitions: i64 },
    /// A member subscribes to a topic that the server does not know.
    UnknownTopic { member: String, topic: String },
    /// There are more partitions than a plan by name may have.
    TooManyPartitions { partitions: u64 },
    /// More than 2^32 - 3 members or subscriptions.
    TooLarge,
}

/// Maximum partitions of a group by name, checked before memory is allocated for them. Arrays may have more.
pub const PARTITIONS_MAX: u32 = 1 << 24;

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputError::DuplicateMember { member } => write!(f, "member `{member}` is there twice"),
            InputError::DuplicateInstance { member, other, instance_id } => {
                write!(f, "member `{member}` and member `{other}` have the same instance id `{instance_id}`")
            }
            InputError::DuplicateTopic { topic } => write!(f, "topic `{topic}` is there twice"),
            InputError::PartitionCount { topic, partitions } => {
                write!(f, "topic `{topic}` has {partitions} partitions: give 0 to 2147483647")
            }
            InputError::RackCount { topic, found, partitions } => {
                write!(f, "topic `{topic}` has racks for {found} partitions but {partitions} partitions")
            }
            InputError::UnknownTopic { member, topic } => {
                write!(f, "member `{member}` subscribes to topic `{topic}`, which does not exist")
            }
            InputError::TooManyPartitions { partitions } => {
                write!(f, "the topics have {partitions} partitions together: by name there may be {PARTITIONS_MAX}")
            }
            InputError::TooLarge => f.write_str("more than 2^32 - 3 members or subscriptions"),
        }
    }
}

impl std::error::Error for InputError {}

/// Compares strings in Java's order: by UTF-16 code units.
fn java_order(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() { one.cmp(other) } else { one.encode_utf16().cmp(other.encode_utf16()) }
}

/// Compares members in the canonical order.
fn member_order(one: &Member<'_>, other: &Member<'_>) -> Ordering {
    match (one.instance_id, other.instance_id) {
        (Some(one), Some(other)) => java_order(one, other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => java_order(one.id, other.id),
    }
}

/// A group as numbers, with the mapping to its names.
#[derive(Debug)]
pub struct Group {
    /// Position in the input by canonical index of the member.
    pub members: Vec<usize>,
    /// Position in the input by canonical index of the topic.
    pub topics: Vec<usize>,
    topic_starts: Vec<u32>,
    member_starts: Vec<u32>,
    subscriptions: Vec<u32>,
    member_racks: Vec<u32>,
    rack_starts: Vec<u32>,
    rack_replicas: Vec<u32>,
    claim_starts: Vec<u32>,
    claims: Vec<u32>,
    generations: Vec<i32>,
}

/// A member's claims, from the place where its assignor stores them.
enum Claim<'a> {
    Reported(&'a [(&'a str, i32)], i32),
    Remembered(Remembered),
}

impl Group {
    /// Sorts and numbers members and topics. Claims are decoded as the assignor does; claims of partitions that do not
    /// exist are ignored.
    pub fn new(members: &[Member<'_>], topics: &[Topic<'_>], assignor: Assignor) -> Result<Group, InputError> {
        let order_of_topics = ordered_topics(topics)?;
        let partitions = topics.iter().map(|topic| topic.partitions.unsigned_abs()).sum();
        if partitions > u64::from(PARTITIONS_MAX) {
            return Err(InputError::TooManyPartitions { partitions });
        }
        let order_of_members = ordered_members(members)?;
        let mut group = Group {
            members: order_of_members,
            topics: order_of_topics,
            topic_starts: vec![0],
            member_starts: vec![0],
            subscriptions: Vec::new(),
            member_racks: Vec::new(),
            rack_starts: Vec::new(),
            rack_replicas: Vec::new(),
            claim_starts: vec![0],
            claims: Vec::new(),
            generations: Vec::new(),
        };
        let mut end = 0_u32;
        for &place in &group.topics {
            end += topics[place].partitions as u32;
            group.topic_starts.push(end);
        }
        group.intern_racks(members, topics);
        let find = |group: &Group, name: &str| -> Option<u32> {
            let found = group.topics.binary_search_by(|&place| java_order(topics[place].name, name));
            found.ok().map(|topic| topic as u32)
        };
        let is_named = |group: &Group, topic: u32, name: &str| -> bool {
            group.topics.get(topic as usize).is_some_and(|place| topics[*place].name == name)
        };
        for at in 0..group.members.len() {
            let member = &members[group.members[at]];
            let before = at.checked_sub(1).map(|before| (&members[group.members[before]], group.member_starts[before]));
            if let Some((_, from)) = before.filter(|(before, _)| before.topics == member.topics) {
                group.subscriptions.extend_from_within(from as usize..);
            } else {
                group.subscribe(member, assignor, find)?;
            }
            let kept = group.subscriptions.len();
            group.member_starts.push(u32::try_from(kept).map_err(|_| InputError::TooLarge)?);
            group.claim(&claim_of(member, assignor), find, is_named)?;
        }
        Ok(group)
    }

    /// Adds the numbers of a member's topics, ascending and without repetition.
    fn subscribe(
        &mut self,
        member: &Member<'_>,
        assignor: Assignor,
        find: impl Fn(&Group, &str) -> Option<u32>,
    ) -> Result<(), InputError> {
        let start = self.subscriptions.len();
        for name in &member.topics {
            match find(self, name) {
                Some(topic) => self.subscriptions.push(topic),
                None if assignor.is_servers() => {
                    return Err(InputError::UnknownTopic { member: member.id.into(), topic: (*name).into() });
                }
                None => {}
            }
        }
        self.subscriptions[start..].sort_unstable();
        let mut kept = start;
        for at in start..self.subscriptions.len() {
            if at == start || self.subscriptions[at] != self.subscriptions[kept - 1] {
                self.subscriptions[kept] = self.subscriptions[at];
                kept += 1;
            }
        }
        self.subscriptions.truncate(kept);
        Ok(())
    }

    fn claim(
        &mut self,
        claim: &Claim<'_>,
        find: impl Fn(&Group, &str) -> Option<u32>,
        is_named: impl Fn(&Group, u32, &str) -> bool,
    ) -> Result<(), InputError> {
        let add = |group: &mut Group, topic: u32, partition: i32| {
            let partitions = group.topic_starts[topic as usize]..group.topic_starts[topic as usize + 1];
            let claimed = u32::try_from(partition).ok().and_then(|index| partitions.start.checked_add(index));
            group.claims.extend(claimed.filter(|claimed| partitions.contains(claimed)));
        };
        match claim {
            Claim::Reported(owned, generation) => {
                self.generations.push(*generation);
                let mut last: Option<(&str, Option<u32>)> = None;
                for &(name, partition) in *owned {
                    let known = last.filter(|(last, _)| *last == name);
                    // Claims are often in the order of the topics.
                    let next = last.map_or(Some(0), |(_, topic)| topic.map(|topic| topic + 1));
                    let next = next.filter(|next| is_named(self, *next, name));
                    let (_, topic) = *last.insert(known.unwrap_or_else(|| (name, next.or_else(|| find(self, name)))));
                    if let Some(topic) = topic {
                        add(self, topic, partition);
                    }
                }
            }
            Claim::Remembered(remembered) => {
                self.generations.push(remembered.generation);
                for one in &remembered.partitions {
                    if let Some(topic) = find(self, &one.topic) {
                        one.partitions.iter().for_each(|&partition| add(self, topic, partition));
                    }
                }
            }
        }
        self.claim_starts.push(u32::try_from(self.claims.len()).map_err(|_| InputError::TooLarge)?);
        Ok(())
    }

    /// Numbers the racks in the order of their names.
    fn intern_racks(&mut self, members: &[Member<'_>], topics: &[Topic<'_>]) {
        let rack_of = |place: &usize| members[*place].rack.filter(|rack| !rack.is_empty());
        let mut names: Vec<&str> = self.members.iter().filter_map(rack_of).collect();
        if names.is_empty() {
            return;
        }
        names.extend(topics.iter().flat_map(|topic| topic.racks.iter().flatten().copied()));
        names.sort_unstable();
        names.dedup();
        let number = |name: &str| names.binary_search(&name).map_or(NOBODY, |at| at as u32);
        self.member_racks = self.members.iter().map(|place| rack_of(place).map_or(NOBODY, number)).collect();
        self.rack_starts.push(0);
        for &place in &self.topics {
            let topic = &topics[place];
            for index in 0..topic.partitions as usize {
                if let Some(racks) = topic.racks.get(index) {
                    let mut racks: Vec<u32> = racks.iter().map(|name| number(name)).collect();
                    racks.sort_unstable();
                    racks.dedup();
                    self.rack_replicas.extend_from_slice(&racks);
                }
                self.rack_starts.push(self.rack_replicas.len() as u32);
            }
        }
    }

    /// Returns the group as numbers.
    pub fn problem(&self) -> Result<Problem<'_>, ProblemError> {
        let racks = (!self.member_racks.is_empty()).then_some(Racks {
            members: &self.member_racks,
            starts: &self.rack_starts,
            replicas: &self.rack_replicas,
        });
        Problem::new(&self.topic_starts, &self.member_starts, &self.subscriptions, racks)
    }

    /// Returns the previous owners, from the claims.
    pub fn previous(&self, problem: &Problem<'_>) -> Result<Vec<u32>, ProblemError> {
        let mut previous = Vec::new();
        let claims = Claims { starts: &self.claim_starts, partitions: &self.claims, generations: &self.generations };
        claims.resolve(problem, &mut previous)?;
        Ok(previous)
    }

    /// Computes the plan of one owner per partition.
    pub fn assign(&self, assignor: Assignor, scratch: &mut Scratch) -> Result<Vec<u32>, ProblemError> {
        let problem = self.problem()?;
        let mut owners = Vec::new();
        let previous = self.previous(&problem)?;
        plan(assignor, &problem, &previous, scratch, &mut owners);
        Ok(owners)
    }

    /// Describes a violation with the group's names.
    pub fn explain(&self, violation: &Violation, members: &[Member<'_>], topics: &[Topic<'_>]) -> String {
        let member = |member: &u32| match self.members.get(*member as usize) {
            Some(&place) => format!("member `{}`", members[place].id),
            None => "several members".to_owned(),
        };
        let one = |partition: &u32| {
            let (topic, index) = self.locate(*partition);
            format!("partition {index} of topic `{}`", topics[self.topics[topic]].name)
        };
        match violation {
            Violation::Twice { partition, first, second } if first == second => {
                format!("{} got {} twice", member(first), one(partition))
            }
            Violation::Twice { partition, first, second } => {
                format!("{} went to {} and to {}", one(partition), member(first), member(second))
            }
            Violation::Unsubscribed { partition, member: to } => {
                format!("{} got {}, to which it does not subscribe", member(to), one(partition))
            }
            Violation::Missing { partition } => format!("no member got {}", one(partition)),
            Violation::HandOver { partition, from, to } => {
                format!("{} got {}, which {} still claims", member(to), one(partition), member(from))
            }
            Violation::Length { .. } | Violation::NoPartition { .. } | Violation::NoMember { .. } => {
                violation.to_string()
            }
        }
    }

    /// Returns the topic (canonical index) and index of a partition.
    pub fn locate(&self, partition: u32) -> (usize, u32) {
        let topic = self.topic_starts.partition_point(|&start| start <= partition) - 1;
        (topic, partition - self.topic_starts[topic])
    }

    /// Returns the number of a partition, if it exists. `topics` are those of the group.
    pub fn number(&self, topics: &[Topic<'_>], topic: &str, index: i64) -> Option<u32> {
        let topic = self.topics.binary_search_by(|&place| java_order(topics[place].name, topic)).ok()?;
        let (start, end) = (self.topic_starts[topic], self.topic_starts[topic + 1]);
        u32::try_from(index).ok().filter(|&index| index < end - start).map(|index| start + index)
    }
}

/// Runs one assignor on numbers. `previous` has one owner per partition.
pub fn plan(assignor: Assignor, problem: &Problem<'_>, previous: &[u32], scratch: &mut Scratch, owners: &mut Vec<u32>) {
    match assignor {
        Assignor::Range => range::range(problem, scratch, owners),
        Assignor::ServerRange => range::server_range(problem, scratch, owners),
        Assignor::RoundRobin => roundrobin::roundrobin(problem, scratch, owners),
        Assignor::Sticky => balance::sticky(problem, previous, scratch, owners),
        Assignor::Uniform => balance::uniform(problem, previous, scratch, owners),
        Assignor::CooperativeSticky => {
            balance::sticky(problem, previous, scratch, owners);
            balance::withhold(previous, owners);
        }
    }
}

fn claim_of<'a>(member: &'a Member<'a>, assignor: Assignor) -> Claim<'a> {
    match (assignor, member.user_data) {
        (Assignor::Sticky, Some(bytes)) => Claim::Remembered(decode_sticky(bytes)),
        (Assignor::CooperativeSticky, Some(bytes)) if member.generation < 0 => {
            Claim::Reported(&member.owned, decode_cooperative_sticky(bytes))
        }
        _ => Claim::Reported(&member.owned, member.generation),
    }
}

fn ordered_topics(topics: &[Topic<'_>]) -> Result<Vec<usize>, InputError> {
    let mut order: Vec<usize> = (0..topics.len()).collect();
    order.sort_by(|&one, &other| java_order(topics[one].name, topics[other].name));
    if let Some(pair) = order.windows(2).find(|pair| topics[pair[0]].name == topics[pair[1]].name) {
        return Err(InputError::DuplicateTopic { topic: topics[pair[0]].name.into() });
    }
    for Topic { name, partitions, racks } in topics {
        if i32::try_from(*partitions).is_err() || *partitions < 0 {
            return Err(InputError::PartitionCount { topic: (*name).into(), partitions: *partitions });
        }
        if !racks.is_empty() && racks.len() as i64 != *partitions {
            let (topic, found) = ((*name).into(), racks.len());
            return Err(InputError::RackCount { topic, found, partitions: *partitions });
        }
    }
    Ok(order)
}

fn ordered_members(members: &[Member<'_>]) -> Result<Vec<usize>, InputError> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|&one, &other| java_order(members[one].id, members[other].id));
    if let Some(pair) = order.windows(2).find(|pair| members[pair[0]].id == members[pair[1]].id) {
        return Err(InputError::DuplicateMember { member: members[pair[0]].id.into() });
    }
    order.sort_by(|&one, &other| member_order(&members[one], &members[other]));
    let same = |pair: &&[usize]| {
        let [one, other] = [pair[0], pair[1]].map(|place| members[place].instance_id);
        one.is_some() && one == other
    };
    if let Some(pair) = order.windows(2).find(same) {
        let [other, member] = [pair[0], pair[1]].map(|place| &members[place]);
        return Err(InputError::DuplicateInstance {
            member: member.id.into(),
            other: other.id.into(),
            instance_id: member.instance_id.unwrap_or_default().into(),
        });
    }
    Ok(order)
}
