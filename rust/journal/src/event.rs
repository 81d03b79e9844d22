//! What a coordinator can be told.

use std::borrow::Cow;

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Record, Request, Sink, Ticket,
    consumer_group::{config::ConsumerConfig, topics::TopicMetadata},
    controls::NotDone,
    records::serialized_bytes,
};
use serde::{Deserialize, Serialize};

use crate::owned;

/// What happened to a coordinator. The order of the variants and of their fields is the journal's format.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Event<'a> {
    /// A new incarnation began, and loads.
    Began {
        /// Its settings.
        config: &'a Config,
        /// Of `__consumer_offsets`.
        partition: u32,
        /// Of its ownership.
        epoch: u32,
    },
    /// A request came.
    Submitted {
        /// The request's name.
        ticket: Ticket,
        /// Came in with it.
        entropy: u128,
        /// What was asked.
        request: Request<'a>,
    },
    /// Time passed: all of it when a coordinator is told, one firing in each entry of a journal.
    Advanced(Firing<'a>),
    /// An append ended.
    Appended {
        /// Which.
        append_id: AppendId,
        /// Its offset, or why it failed.
        result: Result<u64, ErrorCode>,
    },
    /// Topics are gone.
    TopicsDeleted {
        /// Their names.
        topics: &'a [&'a str],
    },
    /// Loading ended.
    Loaded {
        /// What the coordinator was then; a coordinator that is told does without.
        #[serde(serialize_with = "serialized_bytes")]
        state: &'a [u8],
    },
    /// Loading failed.
    LoadFailed,
    /// Ownership was lost.
    Unloaded,
    /// A test ended a session.
    Lapsed {
        /// The member's group.
        group_id: &'a str,
        /// The member.
        member_id: &'a str,
    },
    /// A test began a rebalance.
    Rebalanced {
        /// Of this group.
        group_id: &'a str,
    },
    /// What the coordinator was after the entry before. Nothing happened.
    Snapshot {
        /// As `Coordinator::snapshot` gives it.
        #[serde(serialize_with = "serialized_bytes")]
        state: &'a [u8],
    },
    /// Entries are missing here: there was no room for them, or the disk failed. Nothing happened.
    Gap {
        /// How many.
        entries: u64,
    },
    /// The settings of consumer groups.
    Configured {
        /// All of them.
        config: &'a ConsumerConfig,
    },
    /// Topics are new, or have changed.
    TopicsChanged {
        /// What they are now.
        topics: &'a [TopicMetadata],
    },
}

/// One of the deadlines that an advance fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing<'a> {
    /// Its place among the firings of the advance.
    pub index: u32,
    /// How many those were. 0: nothing was fired, and this is the only entry.
    pub count: u32,
    /// A name in `Operation::NAMES`.
    pub timer: &'a str,
    /// "": none, or several.
    pub group_id: &'a str,
}

/// What an event is about.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// "": no group, or several.
    pub group_id: Cow<'a, str>,
    /// "": no member.
    pub member_id: &'a str,
}

impl<'a> Event<'a> {
    /// Tells a coordinator. Errors: what a test asked for was not done.
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
            Event::Began { .. } | Event::Snapshot { .. } | Event::Gap { .. } => {}
        }
        Ok(())
    }

    /// What it is about: to be asked before the coordinator is told, which forgets an append that has ended.
    pub fn subject(&self, coordinator: &Coordinator) -> Subject<'a> {
        let (group_id, member_id) = match *self {
            Event::Submitted { request, .. } => (request.group_id().unwrap_or_default(), member_of(&request)),
            Event::Advanced(firing) => (firing.group_id, ""),
            Event::Appended { append_id, .. } => {
                let group_id = coordinator.append_group(append_id).unwrap_or_default().to_owned();
                return Subject { group_id: Cow::Owned(group_id), member_id: "" };
            }
            Event::Lapsed { group_id, member_id } => (group_id, member_id),
            Event::Rebalanced { group_id } => (group_id, ""),
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
        Request::ConsumerGroupHeartbeat(heartbeat) => heartbeat.member_id,
        _ => "",
    }
}

/// An event as it is read, which owns its lists.
///
/// INVARIANT: the same variants and fields in the same order as in [`Event`]; the tests write each of those and read it
/// here.
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
}

/// A state is for machines: a person reads how large it is.
fn size_for_people<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.collect_str(&format_args!("{} bytes", bytes.len()))
    } else {
        serialized_bytes(bytes, serializer)
    }
}

impl OwnedEvent<'_> {
    /// Lends itself as the event that a coordinator takes.
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
        }
    }
}

/// One effect of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OwnedEffect<'a> {
    /// A request was answered.
    Answer {
        /// Which.
        ticket: Ticket,
        /// The answer.
        #[serde(borrow)]
        answer: owned::Answer<'a>,
    },
    /// Records were given to the log, as one batch.
    Append {
        /// The append's name.
        append_id: AppendId,
        /// What is written.
        records: Vec<Record>,
    },
}
