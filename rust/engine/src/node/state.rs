//! What a node knows.

use std::collections::BTreeMap;

use super::{Config, Stop};
use crate::{
    entry::{Chunk, Prev, SnapshotHead},
    ids::{CallId, HistoryId, Incarnation, NodeId, Nonce, PartitionId, Revision, Ticket},
    requests::{Append, Claim, Request},
    view::{Beat, Token, View},
};

/// Everything that a node knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Of the engine when the process began.
    pub history: HistoryId,
    /// The highest revision that an answer or a view has shown.
    pub known: Revision,
    /// The number of the next attempt.
    pub next_call: u64,
    /// Attempts whose end is awaited.
    pub calls: BTreeMap<CallId, Call>,
    /// Of the last beat.
    pub counter: u64,
    /// The highest counter of an own beat that an answer or a view has shown, and a revision that has it. Images and
    /// engines from there on have it, too, or a later one (§8).
    pub shown: Option<(Revision, u64)>,
    /// A beat is due at this time.
    pub beat_due_ms: u64,
    /// Reads are answered before this time; `None` before the first beat is answered.
    pub valid_until_ms: Option<u64>,
    /// When the last beat was answered.
    pub answered_ms: u64,
    /// The small keys as they were seen last.
    pub view: View,
    /// For each process that owns something: how long it has been silent.
    pub silent: BTreeMap<(NodeId, Incarnation), Silent>,
    /// Partitions that are claimed, owned or released.
    pub partitions: BTreeMap<PartitionId, Phase>,
    /// Reads that wait for a time.
    pub taken: Vec<(Ticket, PartitionId)>,
    /// Set once.
    pub stopped: Option<Stop>,
}

/// The silence of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Silent {
    /// Its last beat.
    pub beat: Option<Beat>,
    /// Since when it has been seen.
    pub since_ms: u64,
    /// Whether the count has begun anew since that beat. It does so once: otherwise a node whose beats are late would
    /// never claim anything.
    pub is_anew: bool,
}

/// An attempt to send a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What it is for.
    pub purpose: Purpose,
    /// The revision that was known before it was sent: an answer of an earlier one comes from an engine that went back.
    pub floor: Revision,
    /// What was sent, to be sent again.
    pub request: Request,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A beat, with the time at which it was sent.
    Beat(u64),
    /// A step of a partition.
    Of(PartitionId, Step),
}

/// The steps of a partition. Each has at most one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// To own it.
    Claim,
    /// To know its content.
    Load,
    /// To add to it.
    Append,
    /// To replace its tail.
    Snapshot,
    /// To give it up.
    Release,
}

/// What a node does with a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It tries to become the owner.
    Claiming(Claim),
    /// It is the owner and reads the content.
    Loading(Token),
    /// It is the owner and answers.
    Serving(Box<Serving>),
    /// It was the owner and gives the partition up.
    Releasing(Token),
}

/// What an owner knows of a partition that it serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Serving {
    /// Of this ownership.
    pub token: Token,
    /// Where the next entry goes.
    pub next_offset: i64,
    /// What the next entry follows.
    pub prev: Prev,
    /// The append that is under way, and the tickets of its records.
    pub outstanding: Option<(Append, Vec<Ticket>)>,
    /// Records that wait for it.
    pub waiting: Vec<Record>,
    /// The snapshot that counts.
    pub head: Option<SnapshotHead>,
    /// The snapshot that is being written.
    pub snapshot: Option<Snapshot>,
}

/// A snapshot that is being written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// What will name it.
    pub head: SnapshotHead,
    /// The newest entry when it began.
    pub prev: Prev,
    /// All chunks.
    pub chunks: Vec<Chunk>,
    /// The chunk that is written next.
    pub next: u32,
}

/// Records that wait to be appended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Of the answer.
    pub ticket: Ticket,
    /// Unique.
    pub nonce: Nonce,
    /// Offsets that the records take.
    pub count: i64,
    /// The records as a batch.
    pub bytes: Vec<u8>,
}

impl State {
    pub(super) fn new(config: &Config, view: View, now_ms: u64) -> State {
        let own = own_beat(config, &view);
        let mut state = State {
            history: view.meta.history,
            known: view.revision,
            next_call: 0,
            calls: BTreeMap::new(),
            counter: own.map_or(0, |beat| beat.counter),
            shown: own.map(|beat| (view.revision, beat.counter)),
            beat_due_ms: now_ms,
            valid_until_ms: None,
            answered_ms: now_ms,
            view: View { parts: BTreeMap::new(), ..view.clone() },
            silent: BTreeMap::new(),
            partitions: BTreeMap::new(),
            taken: Vec::new(),
            stopped: None,
        };
        state.listen(now_ms, view);
        state
    }

    /// Keeps a view, and since when each owner has been silent.
    pub(super) fn listen(&mut self, now_ms: u64, view: View) {
        let mut silent = BTreeMap::new();
        for part in view.parts.values() {
            let owner = (part.node, part.incarnation);
            // A beat of another process of the node is no sign of life of this one.
            let beat = view.beats.get(&part.node).filter(|beat| beat.incarnation == part.incarnation).copied();
            let known = self.silent.get(&owner).filter(|known| known.beat == beat || beat.is_none());
            silent.insert(owner, known.copied().unwrap_or(Silent { beat, since_ms: now_ms, is_anew: false }));
        }
        self.silent = silent;
        self.view = view;
    }
}

/// The beat of this process in a view.
pub(super) fn own_beat(config: &Config, view: &View) -> Option<Beat> {
    view.beats.get(&config.node).filter(|beat| beat.incarnation == config.incarnation).copied()
}

impl Phase {
    /// Of a partition that the node owns.
    pub fn token(&self) -> Option<&Token> {
        match self {
            Phase::Claiming(_) => None,
            Phase::Loading(token) | Phase::Releasing(token) => Some(token),
            Phase::Serving(serving) => Some(&serving.token),
        }
    }
}
