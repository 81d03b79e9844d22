//! Requests to the coordinator. Borrowed from the caller's buffers: a heartbeat costs no allocation. Their fields are
//! described in [`messages`](crate::messages).
//!
//! `version` is the wire version of the request where a rule depends on it; everything else about versions is the
//! codec's affair (docs/protocol.md §17.3).

use serde::{Deserialize, Serialize};

use crate::messages::borrowed_struct;

/// One reading of both clocks. Deadlines live on the monotonic one; wall time is only for records and retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic milliseconds since any fixed instant; never goes back.
    pub mono_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: i64,
}

impl Now {
    /// The monotonic instant `wait_ms` from now; the end of time is the latest there is.
    pub fn after(self, wait_ms: u64) -> u64 {
        self.mono_ms.saturating_add(wait_ms)
    }

    /// The same for a timeout as the protocol has it: a negative one has passed already.
    pub fn after_timeout(self, timeout_ms: i32) -> u64 {
        self.after(u64::try_from(timeout_ms).unwrap_or(0))
    }
}

/// The caller's name for one request. Each ticket is answered exactly once (S18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// 128 random bits that come in with a request; member ids are minted from them.
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

            /// The request's name, such as `JoinGroup`.
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
pub struct Beat<'a> {
    /// The member that sends it.
    pub sender: Sender<'a>,
    /// The generation that the member believes in.
    pub generation: i32,
}

/// How a [`Beat`] names its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender<'a> {
    /// A number from [`Coordinator::member_handle`](crate::Coordinator::member_handle).
    Handle(u64),
    /// The ids of a request, as bytes: ids that are not UTF-8 are those of an unknown member.
    Ids {
        /// The group.
        group_id: &'a [u8],
        /// The member.
        member_id: &'a [u8],
        /// `group.instance.id` of a static member.
        instance_id: Option<&'a str>,
    },
}

impl<'a> From<&Heartbeat<'a>> for Beat<'a> {
    fn from(request: &Heartbeat<'a>) -> Beat<'a> {
        let sender = Sender::Ids {
            group_id: request.group_id.unwrap_or("").as_bytes(),
            member_id: request.member_id.as_bytes(),
            instance_id: request.instance_id,
        };
        Beat { sender, generation: request.generation }
    }
}

impl ListGroups<'_> {
    /// Asks for all groups.
    pub const ALL: ListGroups<'static> = ListGroups { states: &[], types: &[] };

    /// Whether a group of this type and state is asked for.
    pub fn takes(&self, group_type: &str, state: &str) -> bool {
        let among = |words: &[&str], name: &str| {
            words.is_empty() || words.iter().any(|word| word.trim().eq_ignore_ascii_case(name))
        };
        among(self.states, state) && among(self.types, group_type)
    }
}
