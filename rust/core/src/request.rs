//! Requests to the coordinator. They borrow from the caller's buffers, so a heartbeat allocates nothing.
//! [`messages`](crate::messages) describes their fields.
//!
//! `version` is the wire version of the request where a rule depends on it. The codec handles all other differences
//! between versions (docs/protocol.md §17.3).

use serde::{Deserialize, Serialize};

use crate::messages::borrowed_struct;

/// One reading of both clocks. Deadlines use the monotonic one; records and retention use wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic milliseconds since any fixed instant. Never decreases.
    pub mono_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: i64,
}

impl Now {
    /// Returns the monotonic time `wait_ms` from now, saturating.
    pub fn after(self, wait_ms: u64) -> u64 {
        self.mono_ms.saturating_add(wait_ms)
    }

    /// Like [`Now::after`] for a timeout of the protocol. A negative timeout has passed already.
    pub fn after_timeout(self, timeout_ms: i32) -> u64 {
        self.after(u64::try_from(timeout_ms).unwrap_or(0))
    }
}

/// Identifies one request of the caller. Each ticket is answered exactly once (S18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// 128 random bits that accompany a request. Member ids are minted from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entropy(pub u128);

macro_rules! borrowed_requests {
    (
        requests { $($(#[$doc:meta])* $api:ident $fields:tt)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        /// A request about one group (or, for `ListGroups`, about one coordinator partition).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Request<'a> {
            $($(#[$doc])* $api($api<'a>),)+
        }

        impl Request<'_> {
            /// The names of all requests, in the order of the variants.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($api)),+];

            /// Returns the request's name, such as `JoinGroup`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Request::$api(_) => stringify!($api),)+
                }
            }
        }

        $(borrowed_struct! { $(#[$doc])* $api $fields })+
        $(borrowed_struct! { $(#[$element_doc])* $element $element_fields })+
    };
}
crate::requests!(borrowed_requests);

/// One heartbeat of a batch ([`Coordinator::heartbeats`](crate::Coordinator::heartbeats)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedHeartbeat<'a> {
    /// The sender.
    pub sender: Sender<'a>,
    /// The generation that the client knows.
    pub generation: i32,
}

/// How a [`BatchedHeartbeat`] identifies its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender<'a> {
    /// A number from [`Coordinator::member_handle`](crate::Coordinator::member_handle).
    Handle(u64),
    /// The ids of a request, as bytes. Ids that are not UTF-8 belong to no member.
    Ids {
        /// The group id.
        group_id: &'a [u8],
        /// The member id.
        member_id: &'a [u8],
        /// `group.instance.id` of a static member.
        instance_id: Option<&'a str>,
    },
}

impl<'a> From<&Heartbeat<'a>> for BatchedHeartbeat<'a> {
    fn from(request: &Heartbeat<'a>) -> BatchedHeartbeat<'a> {
        let sender = Sender::Ids {
            group_id: request.group_id.unwrap_or("").as_bytes(),
            member_id: request.member_id.as_bytes(),
            instance_id: request.instance_id,
        };
        BatchedHeartbeat { sender, generation: request.generation }
    }
}

impl<'a> ConsumerGroupHeartbeat<'a> {
    /// A version that no client sends. The request renews its member's session and does nothing else: a clock that skips
    /// time sends it for members that are connected.
    pub const KEEPS_SESSION: i16 = -1;

    /// Renews the session of a member of a consumer group, of either protocol.
    pub fn keeping(group_id: &'a str, member_id: &'a str) -> ConsumerGroupHeartbeat<'a> {
        ConsumerGroupHeartbeat {
            version: Self::KEEPS_SESSION,
            group_id,
            member_id,
            member_epoch: 1,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: None,
            client_id: "",
            client_host: "",
        }
    }
}

impl ListGroups<'_> {
    /// Lists all groups.
    pub const ALL: ListGroups<'static> = ListGroups { states: &[], types: &[] };

    /// Whether the request selects a group of this type and state.
    pub fn takes(&self, group_type: &str, state: &str) -> bool {
        let among = |words: &[&str], name: &str| {
            words.is_empty() || words.iter().any(|word| word.trim().eq_ignore_ascii_case(name))
        };
        among(self.states, state) && among(self.types, group_type)
    }
}
