//! `InitProducerId` (§3.1).

use super::{Coordinator, Decision, entry::Entry};
use crate::{
    error::Error,
    messages::Answer,
    state::State,
    transaction::{EPOCH_MAX, NO_EPOCH, NO_PRODUCER_ID, Producer, Transaction},
};

impl Coordinator {
    pub(super) fn init_producer_id(
        &self,
        entry: Option<&Entry>,
        timeout_ms: i32,
        own: Producer,
        spare_producer_id: i64,
        now_ms: i64,
    ) -> Decision {
        let Some(entry) = entry else {
            if self.ids.len() >= self.config.ids_max {
                return Error::NotAvailable.into();
            }
            let producer = Producer { id: spare_producer_id, epoch: 0 };
            let created = Transaction::new(spare_producer_id).initialized(producer, NO_EPOCH, timeout_ms, now_ms);
            return Decision::Change(Box::new(created), Answer::Producer(producer));
        };
        let Some(current) = entry.settled().filter(|current| !current.state.is_prepare()) else {
            return Error::Concurrent.into();
        };
        if !may_name(current, own, self.config.first_producer_id) {
            return Error::Fenced.into();
        }
        if current.state == State::Ongoing {
            let aborted = current.fenced(self.config.has_second_protocol(), now_ms);
            return Decision::Change(Box::new(aborted), Answer::Refused(Error::Concurrent));
        }
        let is_of_lost_history = current.producer.id < self.config.first_producer_id;
        let spare = Producer { id: spare_producer_id, epoch: 0 };
        match next_producer(current, own, spare, is_of_lost_history) {
            Err(error) => error.into(),
            Ok((producer, last_epoch)) => {
                let next = current.initialized(producer, last_epoch, timeout_ms, now_ms);
                Decision::Change(Box::new(next), Answer::Producer(producer))
            }
        }
    }
}

/// Whether a producer may name this producer id: none, the current one, or the one before an overflow or of a lost
/// history if the answer with the current one was lost.
fn may_name(current: &Transaction, own: Producer, first_producer_id: i64) -> bool {
    own.id == NO_PRODUCER_ID
        || own.id == current.producer.id
        || (own.id == current.previous_producer_id
            && (own.epoch >= EPOCH_MAX || own.id < first_producer_id && own.epoch == current.last_epoch))
}

/// Returns the producer from now on, and the predecessor of its epoch.
fn next_producer(
    current: &Transaction,
    own: Producer,
    spare: Producer,
    is_of_lost_history: bool,
) -> Result<(Producer, i16), Error> {
    let is_repeated = own.epoch != NO_EPOCH && own.epoch == current.last_epoch;
    let is_current = own.id == current.producer.id && own.epoch == current.producer.epoch;
    let last_epoch = if own.id == NO_PRODUCER_ID { NO_EPOCH } else { own.epoch };
    if own.id != NO_PRODUCER_ID && !is_repeated && !is_current {
        return Err(Error::Fenced);
    }
    // An epoch that fenced its predecessor may be beyond the last one that a producer gets.
    let is_too_late = current.producer.epoch > EPOCH_MAX;
    if is_repeated && !is_too_late && !is_of_lost_history {
        return Ok((current.producer, current.last_epoch));
    }
    let producer = if current.is_exhausted() || is_of_lost_history {
        spare
    } else {
        Producer { id: current.producer.id, epoch: current.producer.epoch + 1 }
    };
    Ok((producer, last_epoch))
}
