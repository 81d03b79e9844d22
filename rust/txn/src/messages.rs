//! The requests of a coordinator, its events and its effects.

use std::sync::Arc;

use crate::{
    error::Error,
    marker::{Marker, Participant, TransactionVersion},
    transaction::Producer,
};

/// Connects a request to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Connects an append to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppendId(pub u64);

/// Connects a marker to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkerId(pub u64);

/// A request that may change an id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A producer starts, or continues after an error.
    InitProducerId {
        /// The transactional id.
        transactional_id: String,
        /// Timeout of the producer's transactions.
        timeout_ms: i32,
        /// What the producer has so far; an id or epoch of -1 is none.
        own: Producer,
        /// A producer id that no other producer has. It may stay unused.
        spare_producer_id: i64,
    },
    /// Adds participants to the transaction, and opens one if none is open.
    AddParticipants {
        /// The transactional id.
        transactional_id: String,
        /// The producer.
        producer: Producer,
        /// The participants.
        participants: Vec<Participant>,
        /// Whether a client asks, by the first protocol, or the leader of a participant, by the second.
        version: TransactionVersion,
    },
    /// Ends the transaction.
    EndTransaction {
        /// The transactional id.
        transactional_id: String,
        /// The producer.
        producer: Producer,
        /// Whether to commit.
        is_commit: bool,
        /// The protocol, which the version of the request tells.
        version: TransactionVersion,
        /// A producer id that no other producer has. It may stay unused.
        spare_producer_id: i64,
    },
}

impl Request {
    /// Returns the transactional id.
    pub fn transactional_id(&self) -> &str {
        match self {
            Request::InitProducerId { transactional_id, .. }
            | Request::AddParticipants { transactional_id, .. }
            | Request::EndTransaction { transactional_id, .. } => transactional_id,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Of `InitProducerId`, and of `EndTxn` by the second protocol: the producer from now on.
    Producer(Producer),
    /// Of `AddPartitionsToTxn`, `AddOffsetsToTxn`, and `EndTxn` by the first protocol.
    Done,
    /// The request is refused.
    Refused(Error),
}

/// Why the log did not take a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendFailure {
    /// Another epoch owns the partition.
    Fenced,
    /// Any other reason. The record may be in the log nevertheless.
    Failed,
}

/// What became of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marking {
    /// It is durable.
    Written,
    /// The participant does not exist any more.
    Gone,
    /// The participant cannot write it now.
    Failed,
    /// The participant has seen a newer coordinator of the id.
    Fenced,
}

/// What happens to a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A request.
    Requested(Ticket, Request),
    /// The result of an append.
    Appended(AppendId, Result<(), AppendFailure>),
    /// The result of a marker. One of an older sending is ignored.
    Marked {
        /// The id of the transaction.
        transactional_id: Arc<str>,
        /// The marker.
        marker: MarkerId,
        /// What became of it.
        result: Marking,
    },
    /// Time has passed.
    Advanced,
    /// The wall clock was set back.
    SetBack,
}

/// What a host has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Answer a request.
    Answer(Ticket, Answer),
    /// Append one record, and report the result.
    Append {
        /// Of the completion.
        id: AppendId,
        /// The record's key.
        key: Vec<u8>,
        /// The record's value; `None` is a tombstone.
        value: Option<Vec<u8>>,
    },
    /// Send a marker to the leader of a participant, and report the result.
    SendMarker {
        /// Of the completion.
        id: MarkerId,
        /// The id of the transaction.
        transactional_id: Arc<str>,
        /// The participant.
        participant: Participant,
        /// The marker.
        marker: Marker,
    },
    /// Give the partition up: another epoch owns it.
    GiveUp,
}
