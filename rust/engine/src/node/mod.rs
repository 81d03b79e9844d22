//! The node's side of the protocol, one event at a time.
//!
//! [`Node::step`] takes an event with the time on the node's own clock and adds commands to a list. A host carries the
//! commands out in order. A read of a client goes to [`Node::take`] without a time, and is answered by the next step,
//! whose time was read later: a read is answered as of a moment inside the client's call (§5.2).

mod acquire;
mod append;
mod beats;
mod calls;
mod load;
mod reads;
mod release;
mod snapshot;
pub mod state;
mod unload;
mod watch;

use crate::{
    entry::{Chunk, Entry},
    ids::{CallId, Epoch, HistoryId, Incarnation, NodeId, Nonce, PartitionId, Revision, Ticket},
    requests::{Outcome, Request, read::Damage},
    view::{Part, View},
};
pub use state::{Phase, State};

/// Settings of a node. All nodes of a cluster have the same `ttl_ms` and `margin_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// This process, which the engine has registered.
    pub incarnation: Incarnation,
    /// So long a node is silent before another one claims what it owns.
    pub ttl_ms: u64,
    /// So much earlier a node stops answering reads: it covers the difference of two clocks' rates within a TTL.
    pub margin_ms: u64,
    /// A node beats so often.
    pub beat_interval_ms: u64,
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A turn begins, or time has passed. Sends a beat if one is due; a host whose threads are stuck leaves it out.
    Turn,
    /// The watch shows a new image of the small keys.
    View(View),
    /// An attempt to send a request has ended.
    Ended(CallId, Outcome),
    /// The plan names this node as owner. Does nothing if the node may not claim yet; the host says it again.
    Acquire(PartitionId),
    /// The plan names another node, or the node stops.
    Release(PartitionId),
    /// Records for the log.
    Append {
        /// The partition.
        partition: PartitionId,
        /// Of the answer.
        ticket: Ticket,
        /// Unique.
        nonce: Nonce,
        /// Offsets that the records take.
        count: i64,
        /// The records as a batch.
        bytes: Vec<u8>,
    },
    /// The host has compacted everything below `upto`. Ignored unless [`Node::may_snapshot`].
    Snapshot {
        /// The partition.
        partition: PartitionId,
        /// The snapshot has everything below this offset.
        upto: i64,
        /// The snapshot.
        chunks: Vec<Chunk>,
    },
}

/// What a host has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send a request, and report how the attempt ended.
    Send(CallId, Request),
    /// Fold a snapshot and the entries after it, then serve the partition.
    Loaded {
        /// The partition.
        partition: PartitionId,
        /// Of this ownership.
        epoch: Epoch,
        /// The snapshot has everything below this offset.
        upto: i64,
        /// The snapshot, in order.
        chunks: Vec<Chunk>,
        /// By base offset. The first one may begin below `upto`.
        entries: Vec<(i64, Entry)>,
    },
    /// Tell the operator: the partition's content is damaged. The node releases it.
    Damaged(PartitionId, Damage),
    /// Records are in the log: acknowledge them.
    Applied {
        /// The partition.
        partition: PartitionId,
        /// Of the first record.
        base_offset: i64,
        /// In the order of the records.
        tickets: Vec<Ticket>,
    },
    /// Records were not appended, or their outcome is not known.
    Refused(Ticket, Refusal),
    /// Answer a read that was taken, or refuse it.
    Read(Ticket, Result<(), Refusal>),
    /// Forget the partition's state: answer nothing from it.
    Unload(PartitionId, Reason),
    /// A snapshot is complete.
    SnapshotDone(PartitionId, i64),
    /// The partition is released.
    Released(PartitionId),
    /// Tell the operator why the node stops, which follows.
    Lost(Lost),
    /// Tell the operator. The node does nothing any more.
    Stopped(Stop),
}

/// Why records were not acknowledged, or a read not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The node does not own the partition. The records never come into the log.
    NotCoordinator,
    /// The node is loading the partition. The records never come into the log.
    Loading,
    /// The records may be in the log, or come into it.
    Uncertain,
}

/// Why a partition is unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It has another owner.
    Fenced,
    /// No beat was answered in time.
    Expired,
    /// It is being released.
    Leaving,
    /// The node stops.
    Stopping,
}

/// Why a node stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The engine lost something that it had confirmed.
    WentBack,
    /// An operator began another history.
    OtherHistory(HistoryId),
    /// Another process runs under the node's id.
    Replaced,
}

/// What the engine had confirmed and does not have any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lost {
    /// What was written at `known`: an answer to a later request is of an earlier revision.
    Revision {
        /// Known before the request was sent.
        known: Revision,
        /// Of the answer.
        answered: Revision,
    },
    /// The beat of this process with this counter.
    Beat(u64),
    /// That the node owns a partition.
    Ownership {
        /// The partition.
        partition: PartitionId,
        /// What the node has.
        mine: Part,
        /// What the engine has.
        shown: Option<Part>,
    },
    /// The entry or the head behind which the node appends.
    End(PartitionId),
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    config: Config,
    state: State,
}

impl Node {
    /// A process whose registration the engine has answered with `view`, at a time of its own clock.
    pub fn new(config: Config, view: View, now_ms: u64) -> Node {
        let state = State::new(&config, view, now_ms);
        Node { config, state }
    }

    /// A node that knows what another one knew, for tests.
    pub fn with_state(config: Config, state: State) -> Node {
        Node { config, state }
    }

    /// Everything that a node knows, for tests.
    pub fn inspect(&self) -> &State {
        &self.state
    }

    /// Something happens. `now_ms` is read after everything that the event carries, and never falls.
    pub fn step(&mut self, now_ms: u64, event: Event, commands: &mut Vec<Command>) {
        self.expire(now_ms, commands);
        self.answer_taken(commands);
        if self.state.stopped.is_some() {
            if let Event::Append { ticket, .. } = event {
                commands.push(Command::Refused(ticket, Refusal::NotCoordinator));
            }
            return;
        }
        match event {
            Event::Turn => self.beat_if_due(now_ms, commands),
            Event::View(view) => self.see(now_ms, view, commands),
            Event::Ended(call, outcome) => self.ended(now_ms, call, outcome, commands),
            Event::Acquire(partition) => self.acquire(now_ms, partition, commands),
            Event::Release(partition) => self.release(partition, commands),
            Event::Append { partition, ticket, nonce, count, bytes } => {
                self.append(partition, state::Record { ticket, nonce, count, bytes }, commands);
            }
            Event::Snapshot { partition, upto, chunks } => self.snapshot(partition, upto, chunks, commands),
        }
    }
}
