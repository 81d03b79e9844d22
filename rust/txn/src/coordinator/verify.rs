//! The verdict on data of a transaction before a participant appends it (§6).

use super::{Coordinator, Phase};
use crate::{marker::Participant, state::State, transaction::Producer, verdict::Verdict};

impl Coordinator {
    /// Returns whether the participant may append data of this producer's transaction.
    pub fn verify(&self, transactional_id: &str, producer: Producer, participant: &Participant) -> Verdict {
        match self.phase {
            Phase::Loading => return Verdict::Loading,
            Phase::GivenUp => return Verdict::NotCoordinator,
            Phase::Serving => {}
        }
        let Some(current) = self.transaction(transactional_id) else { return Verdict::UnknownMapping };
        if producer.id != current.producer.id {
            return Verdict::UnknownMapping;
        }
        if producer.epoch != current.producer.epoch {
            return Verdict::WrongEpoch;
        }
        match current.state {
            State::PrepareCommit | State::PrepareAbort => Verdict::Concurrent,
            State::Ongoing if current.participants.contains(participant) => Verdict::Verified,
            _ => Verdict::NotAdded,
        }
    }
}
