//! `AddPartitionsToTxn`, `AddOffsetsToTxn`, and the additions of participants' leaders (§3.2).

use super::{Decision, entry::Entry};
use crate::{
    error::Error,
    marker::{Participant, TransactionVersion},
    messages::Answer,
    state::State,
    transaction::Producer,
};

pub(super) fn decide(
    entry: Option<&Entry>,
    producer: Producer,
    participants: &[Participant],
    version: TransactionVersion,
    now_ms: i64,
) -> Decision {
    let Some(entry) = entry else { return Error::UnknownMapping.into() };
    // Before the producer is compared: it may be one that an unfinished change brings.
    let Some(current) = entry.settled().filter(|current| !current.state.is_prepare()) else {
        return Error::Concurrent.into();
    };
    if producer.id != current.producer.id {
        return Error::UnknownMapping.into();
    }
    if producer.epoch != current.producer.epoch {
        return Error::Fenced.into();
    }
    let is_there = |participant| current.participants.contains(participant);
    if current.state == State::Ongoing && participants.iter().all(is_there) {
        return Decision::Answer(Answer::Done);
    }
    Decision::Change(Box::new(current.with_participants(participants, version, now_ms)), Answer::Done)
}
