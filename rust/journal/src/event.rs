//! The events of a coordinator.

use std::borrow::Cow;

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Record, Request, Sink, Ticket,
    consumer_group::{
        config::{ConsumerConfig, GroupSettings},
        topics::TopicMetadata,
    },
    controls::NotDone,
    records::{TransactionBatch, serialized_bytes},
};
use serde::{Deserialize, Serialize};

use crate::owned;

/// The number of [`Event::Began`] in a journal.
pub(crate) const BEGAN: u32 = 0;
/// The number of [`Event::Snapshot`] in a journal.
pub(crate) const SNAPSHOT: u32 = 10;

/// An event of a coordinator. The order of the variants and of their fields is part of the journal's format.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Event<'a> {
    /// A new incarnation begins to load.
    Began {
        /// Its settings.
        config: &'a Config,
        /// The partition of `__consumer_offsets`.
        partition: u32,
        /// The epoch of its ownership.
        epoch: u32,
    },
    /// A request arrived.
    Submitted {
        /// The request's ticket.
        ticket: Ticket,
        /// The request's entropy.
        entropy: u128,
        /// The request.
        request: Request<'a>,
    },
    /// Time passed. A journal has one entry per fired deadline.
    Advanced(Firing<'a>),
    /// An append completed.
    Appended {
        /// The append.
        append_id: AppendId,
        /// The offset of its first record, or the error.
        result: Result<u64, ErrorCode>,
    },
    /// Topics were deleted.
    TopicsDeleted {
        /// The topic names.
        topics: &'a [&'a str],
    },
    /// Loading completed.
    Loaded {
        /// The coordinator's state; ignored when the event is applied.
        #[serde(serialize_with = "serialized_bytes")]
        state: &'a [u8],
    },
    /// Loading failed.
    LoadFailed,
    /// Ownership was lost.
    Unloaded,
    /// A test expired a session.
    Lapsed {
        /// The member's group.
        group_id: &'a str,
        /// The member.
        member_id: &'a str,
    },
    /// A test began a rebalance.
    Rebalanced {
        /// The group.
        group_id: &'a str,
    },
    /// The coordinator's state after the previous entry. Not an event.
    Snapshot {
        /// The state, from `Coordinator::snapshot`.
        #[serde(serialize_with = "serialized_bytes")]
        state: &'a [u8],
    },
    /// Entries are missing, because the queue or the disk was full. Not an event.
    Gap {
        /// Number of missing entries.
        entries: u64,
    },
    /// Settings of consumer groups changed.
    Configured {
        /// All settings.
        config: &'a ConsumerConfig,
    },
    /// Topics are new or changed.
    TopicsChanged {
        /// Their current state.
        topics: &'a [TopicMetadata],
    },
    /// Settings of a single group changed.
    GroupConfigured {
        /// The group, which need not exist.
        group_id: &'a str,
        /// All settings of the group.
        settings: GroupSettings,
    },
    /// The patterns of a group match these topics only.
    PatternsLimited {
        /// The group.
        group_id: &'a str,
        /// The topics that the client may see that has them resolved.
        topics: &'a [&'a str],
    },
}

/// One deadline that an advance fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing<'a> {
    /// Its position among the fired deadlines.
    pub index: u32,
    /// Number of fired deadlines; 0: none, and this is the only entry.
    pub count: u32,
    /// A name in `Operation::NAMES`.
    pub timer: &'a str,
    /// The group; "" for none or several.
    pub group_id: &'a str,
}

/// The subject of an event.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The group; "" for none or several.
    pub group_id: Cow<'a, str>,
    /// The member; "" for none.
    pub member_id: &'a str,
}

impl<'a> Event<'a> {
    /// Applies the event to a coordinator. Errors: a control was refused.
    pub fn apply(&self, coordinator: &mut Coordinator, now: Now, sink: &mut dyn Sink) -> Result<(), NotDone> {
        match *self {
            Event::Submitted { ticket, entropy, request } => {
                coordinator.submit(now, ticket, Entropy(entropy), request, sink);
            }
            Event::Advanced(_) => coordinator.advance(now, sink),
            Event::Appended { append_id, result } => coordinator.appended(append_id, result, now, sink),
            Event::TopicsDeleted { topics } => coordinator.topics_deleted(topics, now, sink),
            Event::Loaded { .. } => coordinator.loaded(now, sink),
            Event::LoadFailed => coordinator.load_failed(),
            Event::Unloaded => coordinator.unload(now, sink),
            Event::Lapsed { group_id, member_id } => return coordinator.lapse(group_id, member_id, now, sink),
            Event::Rebalanced { group_id } => return coordinator.rebalance(group_id, now, sink),
            Event::Configured { config } => coordinator.configure_consumer_groups(config.clone()),
            Event::TopicsChanged { topics } => coordinator.topics_changed(topics, now),
            Event::GroupConfigured { group_id, settings } => coordinator.configure_group(group_id, settings),
            Event::PatternsLimited { group_id, topics } => coordinator.limit_patterns(group_id, topics, now),
            Event::Began { .. } | Event::Snapshot { .. } | Event::Gap { .. } => {}
        }
        Ok(())
    }

    /// Returns the subject. To be called before `apply`, because the coordinator forgets an append that has completed.
    pub fn subject(&self, coordinator: &Coordinator) -> Subject<'a> {
        let (group_id, member_id) = match *self {
            Event::Submitted { request, .. } => (request.group_id().unwrap_or_default(), member_of(&request)),
            Event::Advanced(firing) => (firing.group_id, ""),
            Event::Appended { append_id, .. } => {
                let group_id = coordinator.append_group(append_id).unwrap_or_default().to_owned();
                return Subject { group_id: Cow::Owned(group_id), member_id: "" };
            }
            Event::Lapsed { group_id, member_id } => (group_id, member_id),
            Event::Rebalanced { group_id }
            | Event::GroupConfigured { group_id, .. }
            | Event::PatternsLimited { group_id, .. } => (group_id, ""),
            _ => ("", ""),
        };
        Subject { group_id: Cow::Borrowed(group_id), member_id }
    }
}

fn member_of<'a>(request: &Request<'a>) -> &'a str {
    match request {
        Request::JoinGroup(join) => join.member_id,
        Request::SyncGroup(sync) => sync.member_id,
        Request::Heartbeat(heartbeat) => heartbeat.member_id,
        Request::OffsetCommit(commit) => commit.member_id,
        Request::TxnOffsetCommit(commit) => commit.member_id,
        Request::ConsumerGroupHeartbeat(heartbeat) => heartbeat.member_id,
        _ => "",
    }
}

/// A decoded event, which owns its lists.
///
/// INVARIANT: the same variants and fields in the same order as in [`Event`]; the tests encode each of those and decode
/// it here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Event's")]
#[expect(clippy::large_enum_variant, reason = "entries are read and folded one at a time")]
pub enum OwnedEvent<'a> {
    Began {
        config: Config,
        partition: u32,
        epoch: u32,
    },
    Submitted {
        ticket: Ticket,
        entropy: u128,
        #[serde(borrow)]
        request: owned::Request<'a>,
    },
    Advanced(#[serde(borrow)] Firing<'a>),
    Appended {
        append_id: AppendId,
        result: Result<u64, ErrorCode>,
    },
    TopicsDeleted {
        #[serde(borrow)]
        topics: Vec<&'a str>,
    },
    Loaded {
        #[serde(serialize_with = "size_for_people")]
        state: &'a [u8],
    },
    LoadFailed,
    Unloaded,
    Lapsed {
        group_id: &'a str,
        member_id: &'a str,
    },
    Rebalanced {
        group_id: &'a str,
    },
    Snapshot {
        #[serde(serialize_with = "size_for_people")]
        state: &'a [u8],
    },
    Gap {
        entries: u64,
    },
    Configured {
        config: ConsumerConfig,
    },
    TopicsChanged {
        topics: Vec<TopicMetadata>,
    },
    GroupConfigured {
        group_id: &'a str,
        settings: GroupSettings,
    },
    PatternsLimited {
        group_id: &'a str,
        #[serde(borrow)]
        topics: Vec<&'a str>,
    },
}

/// Serializes a state as its size in human-readable formats.
fn size_for_people<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.collect_str(&format_args!("{} bytes", bytes.len()))
    } else {
        serialized_bytes(bytes, serializer)
    }
}

impl OwnedEvent<'_> {
    /// Borrows itself as an [`Event`].
    pub fn with<R>(&self, tell: impl FnOnce(Event<'_>) -> R) -> R {
        match self {
            OwnedEvent::Began { config, partition, epoch } => {
                tell(Event::Began { config, partition: *partition, epoch: *epoch })
            }
            OwnedEvent::Submitted { ticket, entropy, request } => {
                request.with(|request| tell(Event::Submitted { ticket: *ticket, entropy: *entropy, request }))
            }
            OwnedEvent::Advanced(firing) => tell(Event::Advanced(*firing)),
            OwnedEvent::Appended { append_id, result } => {
                tell(Event::Appended { append_id: *append_id, result: *result })
            }
            OwnedEvent::TopicsDeleted { topics } => tell(Event::TopicsDeleted { topics }),
            OwnedEvent::Loaded { state } => tell(Event::Loaded { state }),
            OwnedEvent::LoadFailed => tell(Event::LoadFailed),
            OwnedEvent::Unloaded => tell(Event::Unloaded),
            OwnedEvent::Lapsed { group_id, member_id } => tell(Event::Lapsed { group_id, member_id }),
            OwnedEvent::Rebalanced { group_id } => tell(Event::Rebalanced { group_id }),
            OwnedEvent::Snapshot { state } => tell(Event::Snapshot { state }),
            OwnedEvent::Gap { entries } => tell(Event::Gap { entries: *entries }),
            OwnedEvent::Configured { config } => tell(Event::Configured { config }),
            OwnedEvent::TopicsChanged { topics } => tell(Event::TopicsChanged { topics }),
            OwnedEvent::GroupConfigured { group_id, settings } => {
                tell(Event::GroupConfigured { group_id, settings: *settings })
            }
            OwnedEvent::PatternsLimited { group_id, topics } => tell(Event::PatternsLimited { group_id, topics }),
        }
    }
}

/// One effect of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OwnedEffect<'a> {
    /// An answer to a request.
    Answer {
        /// The ticket of the request.
        ticket: Ticket,
        /// The answer.
        #[serde(borrow)]
        answer: owned::Answer<'a>,
    },
    /// One batch of records for the log.
    Append {
        /// The append's id.
        append_id: AppendId,
        /// The records.
        records: Vec<Record>,
    },
    /// One batch of a transaction, or the marker that ends it, for the log.
    AppendInTransaction {
        /// The append's id.
        append_id: AppendId,
        /// What the batch is to the transaction.
        batch: TransactionBatch,
        /// The records; none in a marker.
        records: Vec<Record>,
    },
}
