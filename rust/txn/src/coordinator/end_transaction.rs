//! `EndTxn` by both protocols (§3.3).

use super::{Decision, entry::Entry};
use crate::{
    error::Error,
    marker::TransactionVersion,
    messages::Answer,
    state::State,
    transaction::{EPOCH_MAX, NO_PRODUCER_ID, Producer, Transaction},
};

/// By the first protocol. The producer is compared first.
pub(super) fn first(entry: Option<&Entry>, producer: Producer, is_commit: bool, now_ms: i64) -> Decision {
    let Some((entry, current)) = entry.and_then(|entry| Some((entry, entry.current.as_ref()?))) else {
        return Error::UnknownMapping.into();
    };
    if producer.id != current.producer.id {
        return Error::UnknownMapping.into();
    }
    if producer.epoch != current.producer.epoch {
        return Error::Fenced.into();
    }
    if entry.change.is_some() || current.state.is_prepare() {
        return Error::Concurrent.into();
    }
    match current.state {
        State::Ongoing => {
            let decided = current.decided(is_commit, TransactionVersion::V1, NO_PRODUCER_ID, now_ms);
            Decision::Change(Box::new(decided), Answer::Done)
        }
        state if state.is_commit() == Some(is_commit) => Decision::Answer(Answer::Done),
        _ => Error::InvalidState.into(),
    }
}

/// By the second protocol. An unfinished change comes first: the producer may be one that it brings.
pub(super) fn second(
    entry: Option<&Entry>,
    producer: Producer,
    is_commit: bool,
    spare_producer_id: i64,
    now_ms: i64,
) -> Decision {
    let Some(entry) = entry else { return Error::UnknownMapping.into() };
    let Some(current) = entry.settled().filter(|current| !current.state.is_prepare()) else {
        return Error::Concurrent.into();
    };
    if is_repetition(current, producer) {
        return match current.state.is_commit() {
            Some(outcome) if outcome == is_commit => Decision::Answer(Answer::Producer(current.producer)),
            _ => Error::InvalidState.into(),
        };
    }
    if producer.id != current.producer.id {
        return Error::UnknownMapping.into();
    }
    if producer.epoch != current.producer.epoch {
        return Error::Fenced.into();
    }
    if is_commit && current.state != State::Ongoing {
        return Error::InvalidState.into();
    }
    let decided = current.decided(is_commit, TransactionVersion::V2, spare_producer_id, now_ms);
    let answer = Answer::Producer(decided.next_producer());
    Decision::Change(Box::new(decided), answer)
}

/// Whether the request is one that was carried out, and whose answer may be lost.
fn is_repetition(current: &Transaction, producer: Producer) -> bool {
    if current.state.is_commit().is_none() {
        return false;
    }
    // An abort by the coordinator may have used the last epoch, which no producer gets.
    let is_raised = producer.id == current.producer.id
        && producer.epoch.checked_add(1) == Some(current.producer.epoch)
        && current.producer.epoch <= EPOCH_MAX;
    let is_overflowed = producer == Producer { id: current.previous_producer_id, epoch: EPOCH_MAX }
        && producer.id != current.producer.id
        && current.producer.epoch == 0;
    is_raised || is_overflowed
}
