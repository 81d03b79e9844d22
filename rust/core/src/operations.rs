//! What has a deadline, and what is watched (docs/protocol.md §16.2).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    deletes::Deferred,
    effects::AppendId,
    group::{GroupHandle, MemberHandle},
    request::Ticket,
};

/// Every deadline that the coordinator knows (S19).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// A member's session ends (§7.3).
    Session(MemberHandle),
    /// A new member's first join must have ended (§4.7).
    NewMember(MemberHandle),
    /// An id that was handed out is dropped (§4.6).
    Pending(Box<(GroupHandle, Arc<str>)>),
    /// The initial delay, or one of its extensions, is over (§5.3).
    InitialDelay(GroupHandle),
    /// The join phase ends with whoever is there (§5.4).
    Join(GroupHandle),
    /// Who has not sent `SyncGroup` by now is removed (§6.5).
    Sync(GroupHandle),
    /// Whoever waits for this append is told that it takes too long (§10.3).
    Append(AppendId),
    /// A fetch that waits for commits in flight is given up (§11.3).
    StableFetch(Box<WaitingFetch>),
    /// A request to a group that is being deleted is given up (§12.3).
    AfterDeletion(Box<Deferred>),
    /// The cleaner begins, or goes on (§13).
    Cleaner,
}

impl Operation {
    /// The names of all of them, as the vocabulary has them.
    pub const NAMES: [&'static str; 10] = [
        "Session",
        "NewMember",
        "Pending",
        "InitialDelay",
        "Join",
        "Sync",
        "Append",
        "StableFetch",
        "AfterDeletion",
        "Cleaner",
    ];

    /// Its name.
    pub fn name(&self) -> &'static str {
        let at = match self {
            Operation::Session(_) => 0,
            Operation::NewMember(_) => 1,
            Operation::Pending(..) => 2,
            Operation::InitialDelay(_) => 3,
            Operation::Join(_) => 4,
            Operation::Sync(_) => 5,
            Operation::Append(_) => 6,
            Operation::StableFetch(_) => 7,
            Operation::AfterDeletion(_) => 8,
            Operation::Cleaner => 9,
        };
        Operation::NAMES[at]
    }
}

/// A fetch that waits for an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitingFetch {
    /// Whom to answer.
    pub ticket: Ticket,
    /// The group asked about.
    pub group_id: Arc<str>,
    /// What was asked for; `None` is everything.
    pub topics: Option<Vec<WantedTopic>>,
}

/// A topic of a fetch: its name, the id that it was asked by (0: by name), partitions.
pub type WantedTopic = (Arc<str>, u128, Vec<i32>);

/// What an operation can watch besides its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WatchKey {
    /// The end of an append.
    Append(AppendId),
}
