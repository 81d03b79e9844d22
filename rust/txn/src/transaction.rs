//! One transactional id: what a record of `__transaction_state` says about it, and the changes of it.

use std::collections::BTreeSet;

use crate::{
    marker::{Marker, Participant, TransactionVersion},
    state::State,
};

/// No producer id.
pub const NO_PRODUCER_ID: i64 = -1;
/// No epoch.
pub const NO_EPOCH: i16 = -1;
/// No time.
pub const NO_TIME: i64 = -1;
/// The greatest epoch that a producer gets. A marker may carry the next one.
pub const EPOCH_MAX: i16 = i16::MAX - 1;

/// A producer: its id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Producer {
    /// The producer id.
    pub id: i64,
    /// The epoch.
    pub epoch: i16,
}

/// The current or last transaction of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// The state.
    pub state: State,
    /// The producer that holds the id.
    pub producer: Producer,
    /// The producer id before the last change.
    pub previous_producer_id: i64,
    /// The producer id after the Complete state, while an overflow of the epoch is prepared.
    pub next_producer_id: i64,
    /// The predecessor of the epoch, if a repeated request may name it (§3.1). Not in the record.
    pub last_epoch: i16,
    /// The protocol of the last request of a transaction.
    pub version: TransactionVersion,
    /// The transaction's timeout.
    pub timeout_ms: i32,
    /// The participants; none in Empty and Complete states.
    pub participants: BTreeSet<Participant>,
    /// Start of the transaction in wall milliseconds.
    pub start_ms: i64,
    /// Time of the last change in wall milliseconds; in a Complete state, of its Prepare state.
    pub updated_ms: i64,
}

impl Transaction {
    /// Creates a new id, before its first record.
    pub fn new(producer_id: i64) -> Transaction {
        Transaction {
            state: State::Empty,
            producer: Producer { id: producer_id, epoch: NO_EPOCH },
            previous_producer_id: NO_PRODUCER_ID,
            next_producer_id: NO_PRODUCER_ID,
            last_epoch: NO_EPOCH,
            version: TransactionVersion::V1,
            timeout_ms: 0,
            participants: BTreeSet::new(),
            start_ms: NO_TIME,
            updated_ms: NO_TIME,
        }
    }

    /// Whether the producer cannot get a greater epoch.
    pub fn is_exhausted(&self) -> bool {
        self.producer.epoch >= EPOCH_MAX
    }

    fn changed(&self, state: State, now_ms: i64) -> Transaction {
        Transaction { state, previous_producer_id: self.producer.id, updated_ms: now_ms, ..self.clone() }
    }

    /// Returns the state after `InitProducerId` with the producer that it returns.
    #[must_use]
    pub fn initialized(&self, producer: Producer, last_epoch: i16, timeout_ms: i32, now_ms: i64) -> Transaction {
        let participants = BTreeSet::new();
        let changed = self.changed(State::Empty, now_ms);
        Transaction { producer, last_epoch, timeout_ms, participants, start_ms: NO_TIME, ..changed }
    }

    /// Returns the open transaction with more participants. It starts now unless it is open already.
    #[must_use]
    pub fn with_participants(&self, more: &[Participant], version: TransactionVersion, now_ms: i64) -> Transaction {
        let mut next = Transaction { version, ..self.changed(State::Ongoing, now_ms) };
        if self.state != State::Ongoing {
            next.start_ms = now_ms;
            next.participants.clear();
        }
        next.participants.extend(more.iter().cloned());
        next
    }

    /// Returns the decided transaction. By the second protocol the epoch rises; if no producer may have the next one,
    /// `spare_producer_id` is the next producer.
    #[must_use]
    pub fn decided(
        &self,
        is_commit: bool,
        version: TransactionVersion,
        spare_producer_id: i64,
        now_ms: i64,
    ) -> Transaction {
        let mut next = Transaction { version, ..self.changed(State::prepare(is_commit), now_ms) };
        if self.state != State::Ongoing {
            next.start_ms = now_ms;
            next.participants.clear();
        }
        if version == TransactionVersion::V2 {
            next.raise_epoch();
            next.last_epoch = self.producer.epoch;
            next.next_producer_id = if self.is_exhausted() { spare_producer_id } else { NO_PRODUCER_ID };
        }
        next
    }

    /// Returns the transaction as the coordinator aborts it (§3.4). `keeps_last`: its producer may still learn that.
    #[must_use]
    pub fn fenced(&self, keeps_last: bool, now_ms: i64) -> Transaction {
        let version = if keeps_last { TransactionVersion::V2 } else { TransactionVersion::V1 };
        let mut next = Transaction { version, ..self.changed(State::PrepareAbort, now_ms) };
        next.raise_epoch();
        next.last_epoch = if keeps_last { self.producer.epoch } else { NO_EPOCH };
        next
    }

    fn raise_epoch(&mut self) {
        self.producer.epoch = self.producer.epoch.saturating_add(1);
    }

    /// Returns the Complete state after this Prepare state.
    #[must_use]
    pub fn completed(&self) -> Transaction {
        let is_commit = self.state.is_commit() == Some(true);
        let state = if is_commit { State::CompleteCommit } else { State::CompleteAbort };
        let participants = BTreeSet::new();
        Transaction {
            producer: self.next_producer(),
            next_producer_id: NO_PRODUCER_ID,
            participants,
            ..self.changed(state, self.updated_ms)
        }
    }

    /// Returns the producer after the end of the transaction.
    pub fn next_producer(&self) -> Producer {
        match self.next_producer_id {
            NO_PRODUCER_ID => self.producer,
            id => Producer { id, epoch: 0 },
        }
    }

    /// Returns the marker of a Prepare state (§5).
    pub fn marker(&self, coordinator_epoch: i32) -> Marker {
        Marker {
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            coordinator_epoch,
            is_commit: self.state.is_commit() == Some(true),
            transaction_version: self.version,
        }
    }
}
