//! Steps of a world, independent of a single run. A member is named by the join that minted its id, a generation by its
//! distance from the current one, an append by its position in the queue.

use std::sync::Arc;

use rota_core::ErrorCode;
use rota_journal::owned::{
    Assignment, CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, Heartbeat, JoinGroup, LeaveGroup,
    LeaveIdentity, ListGroups, OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, Protocol, Request,
    SyncGroup, Text,
};

use crate::world::{GROUPS, World};

/// The member id of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sender {
    /// The empty id.
    Empty,
    /// The id minted for the join with this seed.
    Minted(u32),
    /// An id that was never minted.
    Unknown,
}

/// The instance ids in use.
pub const INSTANCES: [&str; 3] = ["i1", "i2", "i3"];
/// The protocol lists in use.
pub const OFFERS: [&[&str]; 6] =
    [&["range"], &["range", "sticky"], &["sticky", "range"], &["sticky"], &["range", "range", "other"], &[]];
/// Subscriptions to t, to undecodable bytes, and to u.
pub const SUBSCRIPTIONS: [&[u8]; 3] =
    [b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff", b"\0\0", b"\0\0\0\0\0\x01\0\x01u\xff\xff\xff\xff"];
/// The session timeouts in use, in milliseconds.
pub const SESSIONS_MS: [i32; 4] = [400, 3_000, 20_000, 0];
/// The rebalance timeouts in use, in milliseconds.
pub const REBALANCES_MS: [i32; 5] = [0, -1, 300, 2_000, 60_000];
/// The protocol types of a `SyncGroup`, by its protocol.
const TYPES: [Option<&str>; 4] = [None, Some("consumer"), Some("connect"), Some("consumer")];
/// The topics in use.
pub const TOPICS: [&str; 2] = ["t", "u"];
/// The retention times of commits, in milliseconds.
pub const RETENTIONS_MS: [Option<i64>; 4] = [None, Some(1_000), Some(200_000), Some(-1)];

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "fields are those of the request, or indexes into the tables above")]
pub enum Body {
    Join {
        who: Sender,
        instance: Option<u8>,
        version: i16,
        session: u8,
        rebalance: u8,
        fits: bool,
        offer: u8,
        topics: u8,
    },
    Sync {
        who: Sender,
        instance: Option<u8>,
        generation: i32,
        version: i16,
        protocol: u8,
        plan: u8,
    },
    Heartbeat {
        who: Sender,
        instance: Option<u8>,
        generation: i32,
    },
    Leave {
        version: i16,
        members: Vec<(Sender, Option<u8>)>,
    },
    /// Generation `None` is -1.
    Commit {
        who: Sender,
        instance: Option<u8>,
        generation: Option<i32>,
        version: i16,
        topic: u8,
        index: u8,
        retention: u8,
        is_long: bool,
    },
    Fetch {
        is_stable: bool,
        all: bool,
    },
    Describe {
        version: i16,
    },
    List {
        stable: bool,
    },
    DeleteGroup,
    OffsetDelete {
        topic: u8,
        from: u8,
    },
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A request arrives.
    Request {
        /// Index of the group.
        group: u8,
        /// Identifies the request, and is its entropy.
        seed: u32,
        /// Its content.
        ask: Body,
    },
    /// Milliseconds pass.
    Tick(u32),
    /// An append completes.
    End {
        /// Its position, modulo the number in flight.
        at: u8,
        /// The error; `None` for success.
        error: Option<ErrorCode>,
    },
    /// A topic was deleted.
    Forget(&'static str),
    /// The node crashes. The log keeps the appends in flight that the bits select.
    Reload {
        /// One bit per append.
        kept: u32,
    },
}

/// The request of a step, independent of the world.
pub type Asked = Request<'static>;

type Name = Text<'static>;

fn instance(instance: Option<u8>) -> Option<Name> {
    instance.map(|instance| Text::Borrowed(INSTANCES[usize::from(instance)]))
}

/// Returns the protocols of an offer.
fn protocols(offer: u8, topics: u8) -> Vec<Protocol<'static>> {
    let metadata = SUBSCRIPTIONS[usize::from(topics)];
    let offers = OFFERS[usize::from(offer)].iter();
    offers.map(|name| Protocol { name: Text::Borrowed(name), metadata: metadata.into() }).collect()
}

/// Returns a plan's bytes for a member, if any.
pub fn assignment(seed: u32, at: usize, plan: u8) -> Vec<u8> {
    format!("{at}@{seed}#{plan}").into_bytes()
}

impl Step {
    /// Returns the request, completed from the world's state.
    pub fn request(&self, world: &World) -> Option<Asked> {
        let Step::Request { group, seed, ask } = self else { return None };
        let at = usize::from(*group);
        let group_id = Some(Text::Borrowed(GROUPS[at]));
        Some(match ask {
            Body::Join { who, instance: named, version, session, rebalance, fits, offer, topics } => {
                Request::JoinGroup(JoinGroup {
                    version: *version,
                    group_id,
                    member_id: world.id_of(*who),
                    instance_id: instance(*named),
                    client_id: Text::Borrowed("c"),
                    client_host: Text::Borrowed("/127.0.0.1"),
                    session_timeout_ms: SESSIONS_MS[usize::from(*session)],
                    rebalance_timeout_ms: REBALANCES_MS[usize::from(*rebalance)],
                    protocol_type: Text::Borrowed(if *fits { "consumer" } else { "connect" }),
                    protocols: protocols(*offer, *topics),
                    reason: None,
                })
            }
            Body::Sync { who, instance: named, generation, version, protocol, plan } => Request::SyncGroup(SyncGroup {
                version: *version,
                group_id,
                generation: world.generation(at, *generation),
                member_id: world.id_of(*who),
                instance_id: instance(*named),
                protocol_type: TYPES[usize::from(*protocol)].map(Text::Borrowed),
                protocol_name: protocol_name(world, at, *protocol),
                assignments: plan_of(world, at, *seed, *plan),
            }),
            Body::Heartbeat { who, instance: named, generation } => Request::Heartbeat(Heartbeat {
                group_id,
                generation: world.generation(at, *generation),
                member_id: world.id_of(*who),
                instance_id: instance(*named),
            }),
            Body::Leave { version, members } => {
                let members = members.iter().map(|(who, named)| leaver(world, *who, *named)).collect();
                Request::LeaveGroup(LeaveGroup { version: *version, group_id, members })
            }
            Body::Commit { who, instance: named, generation, version, topic, index, retention, is_long } => {
                Request::OffsetCommit(OffsetCommit {
                    version: *version,
                    group_id,
                    generation: generation.map_or(-1, |delta| world.generation(at, delta)),
                    member_id: world.id_of(*who),
                    instance_id: instance(*named),
                    retention_time_ms: RETENTIONS_MS[usize::from(*retention)],
                    topics: vec![offset(*topic, *index, *seed, *is_long)],
                })
            }
            Body::Fetch { is_stable, all } => {
                let topics = (!all).then(|| vec![both_partitions()]);
                Request::OffsetFetch(OffsetFetch { group_id, require_stable: *is_stable, topics })
            }
            Body::Describe { version } => Request::DescribeGroup(DescribeGroup { version: *version, group_id }),
            Body::List { stable } => Request::ListGroups(ListGroups {
                states: if *stable { vec![Text::Borrowed(" Stable")] } else { Vec::new() },
                types: Vec::new(),
            }),
            Body::DeleteGroup => Request::DeleteGroup(DeleteGroup { group_id }),
            Body::OffsetDelete { topic, from } => {
                let topics = vec![deleted(*topic, *from)];
                Request::OffsetDelete(OffsetDelete { group_id, topics })
            }
        })
    }
}

fn leaver(world: &World, who: Sender, named: Option<u8>) -> LeaveIdentity<'static> {
    LeaveIdentity { member_id: world.id_of(who), instance_id: instance(named), reason: None }
}

fn both_partitions() -> FetchTopic<'static> {
    FetchTopic { name: Text::Borrowed("t"), topic_id: 0, partitions: vec![0, 1] }
}

fn deleted(topic: u8, from: u8) -> OffsetDeleteTopic<'static> {
    let partitions = [0, 1, 1, 7][usize::from(from)..].to_vec();
    OffsetDeleteTopic { name: Text::Borrowed(TOPICS[usize::from(topic)]), partitions }
}

/// Plan 0: all members; 1: all but the last, and an unknown id; 2: none.
fn plan_of(world: &World, group: usize, seed: u32, plan: u8) -> Vec<Assignment<'static>> {
    let Some(view) = world.views[group].as_ref().filter(|_| plan < 2) else { return Vec::new() };
    let members = view.members.iter().enumerate();
    let mut parts: Vec<Assignment<'_>> = members
        .map(|(at, member)| Assignment {
            member_id: Text::Shared(Arc::clone(&member.member_id)),
            assignment: assignment(seed, at, plan).into(),
        })
        .collect();
    if plan == 1 {
        parts.pop();
        parts.push(Assignment { member_id: Text::Borrowed("stranger"), assignment: b"nothing".as_slice().into() });
    }
    parts
}

/// Protocol 0 and 2: null; 3: an unknown one; 1: the group's.
fn protocol_name(world: &World, group: usize, protocol: u8) -> Option<Name> {
    match protocol {
        0 | 2 => None,
        3 => Some(Text::Borrowed("nonsense")),
        _ => world.views[group].as_ref().and_then(|view| view.protocol_name.clone().map(Text::Shared)),
    }
}

/// The seed is the offset, so that all commits differ.
fn offset(topic: u8, index: u8, seed: u32, is_long: bool) -> CommitTopic<'static> {
    let metadata = is_long.then_some(Text::Borrowed("mmmmm"));
    let partition = CommitPartition { index: i32::from(index), offset: i64::from(seed), leader_epoch: -1, metadata };
    CommitTopic { name: Text::Borrowed(TOPICS[usize::from(topic)]), topic_id: 0, partitions: vec![partition] }
}

/// Returns the index of an instance id.
pub fn index_of(name: &str) -> Option<u8> {
    INSTANCES.iter().position(|instance| *instance == name).map(|at| at as u8)
}

/// Returns the index of a protocol list.
pub fn offer_of(protocols: &[(Arc<str>, Arc<[u8]>)]) -> Option<u8> {
    let names = |offer: &&[&str]| {
        let distinct = offer.chunk_by(|one, next| one == next).map(|same| same[0]);
        distinct.eq(protocols.iter().map(|(name, _)| &**name))
    };
    OFFERS.iter().position(names).map(|offer| offer as u8)
}
