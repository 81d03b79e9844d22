//! Batches of transactions in Produce: whether the coordinator of the transaction lets them in (docs/transactions.md §6),
//! and which partitions it must add first.

use kafka_protocol::messages::ProduceRequest;
use rota_core::error::ErrorCode;
use rota_log::{Batch, BatchHeader};
use rota_txn::{Error, Participant, Producer, Verdict};

use super::{
    Topics,
    refusal::{BY_ID_SINCE, Refusal, refuse},
};

/// The error for transactional requests while transactions are not served: clients do not retry after this error.
pub const TRANSACTIONS_REFUSED: ErrorCode = ErrorCode::TransactionalIdAuthorizationFailed;

/// The first version whose clients know `TRANSACTION_ABORTABLE`.
const ABORTABLE_SINCE: i16 = 11;
/// The first version of the second protocol of transactions, in which the leader adds the partition.
pub const SECOND_PROTOCOL_SINCE: i16 = 12;

/// Asks the coordinator of transactions about a partition: transactional id, producer id and epoch, topic, partition.
pub type Verify<'v> = dyn Fn(&str, i64, i16, &str, i32) -> Verdict + 'v;

/// How a server serves transactions.
#[derive(Clone, Copy)]
pub struct Served<'v> {
    /// Asks the coordinators.
    pub verify: &'v Verify<'v>,
    /// Whether it serves the second protocol, too.
    pub has_second_protocol: bool,
    /// Whether the coordinator may be another server, which must be asked before: `verify` says `NotCoordinator` then.
    pub asks_others: bool,
    /// Why the coordinator did not add the partitions of the request; `None`: it did, or was not asked.
    pub not_added: Option<Error>,
}

/// The transaction of a Produce.
#[derive(Clone, Copy)]
pub(super) struct Transaction<'r> {
    pub version: i16,
    pub transactional_id: Option<&'r str>,
    /// `None`: transactions are not served.
    pub served: Option<Served<'r>>,
}

/// Whether the coordinator of a transaction must be asked about a partition, after a verdict of the coordinators of this
/// process. `adds`: it adds the partition, by the second protocol, and may have ended the transaction before when it is asked.
/// `asks_others`: it may be another server.
pub fn must_ask(verdict: Verdict, adds: bool, asks_others: bool) -> bool {
    adds && (is_of_addition(verdict) || verdict == Verdict::Concurrent)
        || asks_others && verdict == Verdict::NotCoordinator
}

/// Returns the error of a verdict. `not_added`: why the coordinator did not add the participant. `None`: it was verified,
/// or was not to be added and is not there.
pub fn error_of_verdict(verdict: Verdict, not_added: Option<Error>) -> Option<Error> {
    not_added.filter(|_| is_of_addition(verdict)).or_else(|| verdict.error())
}

/// Whether the coordinator is asked to add the participant after this verdict. It refuses that with other errors while it
/// ends the transaction.
fn is_of_addition(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NotAdded | Verdict::UnknownMapping | Verdict::WrongEpoch)
}

impl Topics {
    /// Returns the producer of a Produce, and the partitions about which the coordinator of its transaction must be asked
    /// before their batches are stored; `None`: none. By the second protocol, it adds them.
    pub fn unadmitted(
        &self,
        request: &ProduceRequest,
        version: i16,
        served: Served<'_>,
    ) -> Option<(Producer, Vec<Participant>)> {
        let id = request.transactional_id.as_ref()?;
        let adds = version >= SECOND_PROTOCOL_SINCE;
        if adds && !served.has_second_protocol {
            return None;
        }
        let mut found: Option<(Producer, Vec<Participant>)> = None;
        for asked in &request.topic_data {
            let Ok((name, topic)) = self.asked(version >= BY_ID_SINCE, &asked.name, asked.topic_id) else { continue };
            for data in asked.partition_data.iter().filter(|_| !topic.internal) {
                let Ok((batch, _)) = Batch::split(data.records.as_deref().unwrap_or_default()) else { continue };
                let (header, index) = (batch.header(), data.index);
                let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
                let Ok((partition, _)) = self.partition(topic, index) else { continue };
                if !header.is_transactional()
                    || partition.producers.has_open(producer.id, producer.epoch)
                    || !must_ask(
                        (served.verify)(id, producer.id, producer.epoch, name, index),
                        adds,
                        served.asks_others,
                    )
                {
                    continue;
                }
                let (of, participants) = found.get_or_insert((producer, Vec::new()));
                // A request has one producer. A batch of another one is refused when it is stored.
                if *of == producer {
                    participants.push(Participant::new(name, index));
                }
            }
        }
        found
    }
}

impl Transaction<'_> {
    /// Whether the batches are of the second protocol.
    pub(super) fn is_second_protocol(self) -> bool {
        self.version >= SECOND_PROTOCOL_SINCE
    }

    /// Whether the server serves the protocol of the request.
    pub(super) fn is_served(self) -> bool {
        self.served.is_some_and(|served| served.has_second_protocol || !self.is_second_protocol())
    }

    /// Asks whether the partition takes part in the producer's open transaction.
    pub(super) fn verify(self, header: &BatchHeader, topic: &str, partition: i32) -> Result<(), Refusal> {
        let (Some(id), Some(served)) = (self.transactional_id, self.served) else {
            return refuse(TRANSACTIONS_REFUSED, "a batch of a transaction needs a transactional id");
        };
        let verdict = (served.verify)(id, header.producer_id, header.producer_epoch, topic, partition);
        if verdict == Verdict::Verified {
            return Ok(());
        }
        let Some(error) = error_of_verdict(verdict, served.not_added) else {
            let is_known = self.version >= ABORTABLE_SINCE;
            let code = if is_known { ErrorCode::TransactionAbortable } else { ErrorCode::InvalidTxnState };
            return refuse(code, "Partition was not added to the transaction");
        };
        self.refuse(header, id, error)
    }

    fn refuse(self, header: &BatchHeader, id: &str, error: Error) -> Result<(), Refusal> {
        let (producer, epoch) = (header.producer_id, header.producer_epoch);
        let unable = |error: ErrorCode| {
            let message = "Unable to verify the partition has been added to the transaction. Underlying error";
            refuse(ErrorCode::NotEnoughReplicas, format!("{message}: {}", error.name()))
        };
        match error {
            Error::UnknownMapping => refuse(
                ErrorCode::InvalidProducerIdMapping,
                format!("transactional id `{id}` does not belong to producer {producer}"),
            ),
            Error::Fenced => refuse(
                ErrorCode::InvalidProducerEpoch,
                format!("epoch {epoch} of producer {producer} is not the current one of transactional id `{id}`"),
            ),
            Error::Concurrent if self.is_second_protocol() => {
                refuse(ErrorCode::ConcurrentTransactions, format!("a transaction of `{id}` is being ended: try again"))
            }
            // All clients try again after this error.
            Error::Concurrent => unable(ErrorCode::ConcurrentTransactions),
            Error::NotCoordinator => unable(ErrorCode::NotCoordinator),
            Error::Loading => unable(ErrorCode::CoordinatorLoadInProgress),
            _ => unable(ErrorCode::CoordinatorNotAvailable),
        }
    }
}
