//! The coordinator of transactions without a server: `rota.transactions`.

use pyo3::{exceptions::PyValueError, prelude::*};
use rota_txn::{
    Answer, AppendFailure, AppendId, Config, Coordinator, Effect, Error, Event, Marking, Participant, Producer,
    Request, State, Ticket, Transaction as CoreTransaction, TransactionVersion, Verdict, coordinator::Filter,
};

use crate::{
    errors::RecordError,
    plain::plain,
    values::{Octets, Tuple},
};

/// Longest transactional id in bytes, as on the wire.
const ID_BYTES_MAX: usize = i16::MAX as usize;

plain! {
    /// The durable state of a transactional id.
    "rota.transactions" Transaction {
        /// `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit` or `CompleteAbort`.
        state: String,
        /// The producer that holds the id.
        producer_id: i64,
        /// The epoch of the producer.
        producer_epoch: i16,
        /// The transaction's timeout.
        timeout_ms: i32,
        /// The participants (topic, partition), sorted.
        participants: Tuple<(String, i32)>,
        /// Start of the transaction in wall milliseconds; -1 in Empty.
        start_ms: i64,
        /// Wall time of the last change; in a Complete state, of its Prepare state.
        updated_ms: i64,
        /// The producer id before the last change, or -1.
        previous_producer_id: i64,
        /// The producer id after the Complete state while an overflow of the epoch is prepared, or -1.
        next_producer_id: i64,
        /// The epoch's predecessor if a repeated request may name it, or -1.
        last_epoch: i16,
        /// The protocol of its last request: 1 or 2.
        protocol: i8,
    }
}

plain! {
    /// The answer to a request.
    "rota.transactions" TransactionAnswer {
        /// The ticket of the request.
        ticket: u64,
        /// The error code in the newest version of the request; 0: none.
        error: i16,
        /// After a start, and after an end by the second protocol, the producer from now on; else -1.
        producer_id: i64 = -1,
        /// The epoch of that producer, or -1.
        producer_epoch: i16 = -1,
    }
    shown "(ticket, error, producer_id=-1, producer_epoch=-1)"
}

plain! {
    /// A record to append to `__transaction_state`.
    "rota.transactions" TransactionAppend {
        /// The number that `appended` takes.
        append_id: u64,
        /// The record's key.
        key: Octets,
        /// The record's value; `None` is a tombstone.
        value: Option<Octets>,
    }
}

plain! {
    /// A marker to write in a participant.
    "rota.transactions" TransactionMarker {
        /// The number that `marked` takes.
        marker_id: u64,
        /// The transactional id.
        transactional_id: String,
        /// The participant (topic, partition).
        participant: (String, i32),
        /// The producer id.
        producer_id: i64,
        /// The epoch from which the participant accepts data.
        producer_epoch: i16,
        /// The number of the ownership.
        coordinator_epoch: i32,
        /// Whether the transaction is committed.
        is_commit: bool,
        /// The protocol that ended it: 1 or 2.
        protocol: i8,
    }
}

/// Another owner has the partition: the coordinator serves no more.
#[pyclass(frozen, eq, hash, from_py_object, module = "rota.transactions")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GivenUp;

#[pymethods]
impl GivenUp {
    #[new]
    fn new() -> GivenUp {
        GivenUp
    }

    #[expect(clippy::unused_self, reason = "PyO3 gives it")]
    fn __repr__(&self) -> &'static str {
        "GivenUp()"
    }
}

/// What the caller has to do.
#[derive(IntoPyObject)]
enum PyEffect {
    Answer(TransactionAnswer),
    Append(TransactionAppend),
    Marker(TransactionMarker),
    GivenUp(GivenUp),
}

impl From<Effect> for PyEffect {
    fn from(effect: Effect) -> PyEffect {
        match effect {
            Effect::Answer(ticket, answer) => PyEffect::Answer(answered(ticket, answer)),
            Effect::Append { id, key, value } => PyEffect::Append(TransactionAppend {
                append_id: id.0,
                key: Octets(key.into()),
                value: value.map(|value| Octets(value.into())),
            }),
            Effect::SendMarker { id, transactional_id, participant, marker } => PyEffect::Marker(TransactionMarker {
                marker_id: id.0,
                transactional_id: transactional_id.to_string(),
                participant: (participant.topic, participant.partition),
                producer_id: marker.producer_id,
                producer_epoch: marker.producer_epoch,
                coordinator_epoch: marker.coordinator_epoch,
                is_commit: marker.is_commit,
                protocol: marker.transaction_version.code(),
            }),
            Effect::GiveUp => PyEffect::GivenUp(GivenUp),
        }
    }
}

fn answered(Ticket(ticket): Ticket, answer: Answer) -> TransactionAnswer {
    let none = Producer { id: -1, epoch: -1 };
    let (error, producer) = match answer {
        Answer::Producer(producer) => (0, producer),
        Answer::Done => (0, none),
        Answer::Refused(error) => (newest(error), none),
    };
    TransactionAnswer { ticket, error, producer_id: producer.id, producer_epoch: producer.epoch }
}

/// Returns the code in the newest version of every request.
fn newest(error: Error) -> i16 {
    error.code(rota_txn::Api::EndTxn, i16::MAX)
}

/// Converts a transaction.
pub fn to_python(transaction: &CoreTransaction) -> Transaction {
    Transaction {
        state: transaction.state.name().to_owned(),
        producer_id: transaction.producer.id,
        producer_epoch: transaction.producer.epoch,
        timeout_ms: transaction.timeout_ms,
        participants: pairs(transaction.participants.iter()),
        start_ms: transaction.start_ms,
        updated_ms: transaction.updated_ms,
        previous_producer_id: transaction.previous_producer_id,
        next_producer_id: transaction.next_producer_id,
        last_epoch: transaction.last_epoch,
        protocol: transaction.version.code(),
    }
}

fn pairs<'p>(participants: impl Iterator<Item = &'p Participant>) -> Tuple<(String, i32)> {
    participants.map(|each| (each.topic.clone(), each.partition)).collect()
}

/// Returns the value of a word, or an error that lists the words.
fn one_of<T: Copy>(name: &str, word: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    found.ok_or_else(|| PyValueError::new_err(format!("{name} is `{word}`: give one of {}", words.join(", "))))
}

fn checked(transactional_id: String) -> PyResult<String> {
    match transactional_id.len() {
        length if length > ID_BYTES_MAX => {
            Err(PyValueError::new_err(format!("transactional_id has {length} bytes: give at most {ID_BYTES_MAX}")))
        }
        _ => Ok(transactional_id),
    }
}

fn version(protocol: u8) -> PyResult<TransactionVersion> {
    match protocol {
        1 => Ok(TransactionVersion::V1),
        2 => Ok(TransactionVersion::V2),
        other => Err(PyValueError::new_err(format!("protocol is {other}: give 1 or 2"))),
    }
}

/// The coordinator of transactions of one partition of `__transaction_state`.
#[pyclass(module = "rota.transactions")]
pub struct TransactionCoordinator {
    inner: Coordinator,
}

impl TransactionCoordinator {
    fn step(&mut self, wall_ms: i64, event: Event) -> Vec<PyEffect> {
        self.carried(|inner, effects| inner.step(wall_ms, event, effects))
    }

    fn carried(&mut self, happens: impl FnOnce(&mut Coordinator, &mut Vec<Effect>)) -> Vec<PyEffect> {
        let mut effects = Vec::new();
        happens(&mut self.inner, &mut effects);
        effects.into_iter().map(PyEffect::from).collect()
    }
}

#[pymethods]
impl TransactionCoordinator {
    #[new]
    #[pyo3(signature = (
        *, level = 2, epoch = 0, timeout_max_ms = 900_000, expiration_ms = 604_800_000, retry_ms = 100,
        ids_max = 100_000
    ))]
    fn new(
        level: i16,
        epoch: i32,
        timeout_max_ms: i32,
        expiration_ms: i64,
        retry_ms: i64,
        ids_max: usize,
    ) -> PyResult<TransactionCoordinator> {
        if !(0..=2).contains(&level) {
            return Err(PyValueError::new_err(format!("level is {level}: give 0, 1 or 2")));
        }
        let config = Config { level, timeout_max_ms, expiration_ms, retry_ms, ids_max, ..Config::default() };
        Ok(TransactionCoordinator { inner: Coordinator::new(config, epoch) })
    }

    /// Reads one record of the log; `None` is a tombstone.
    fn load(&mut self, key: Octets, value: Option<Octets>) -> PyResult<()> {
        let value = value.as_ref().map(|value| &*value.0);
        self.inner.load(&key.0, value).map_err(|error| RecordError::new_err(error.to_string()))
    }

    /// The log is read.
    fn loaded(&mut self, wall_ms: i64) -> Vec<PyEffect> {
        self.carried(|inner, effects| inner.loaded(wall_ms, effects))
    }

    /// Ends the ownership.
    fn unload(&mut self) -> Vec<PyEffect> {
        self.carried(Coordinator::unload)
    }

    #[pyo3(
        signature = (wall_ms, ticket, transactional_id, *, timeout_ms, spare_producer_id, producer = (-1, -1)),
        text_signature = "($self, wall_ms, ticket, transactional_id, *, timeout_ms, spare_producer_id, producer=(-1, -1))"
    )]
    fn init_producer_id(
        &mut self,
        wall_ms: i64,
        ticket: u64,
        transactional_id: String,
        timeout_ms: i32,
        spare_producer_id: i64,
        producer: (i64, i16),
    ) -> PyResult<Vec<PyEffect>> {
        let transactional_id = checked(transactional_id)?;
        let own = Producer { id: producer.0, epoch: producer.1 };
        let request = Request::InitProducerId { transactional_id, timeout_ms, own, spare_producer_id };
        Ok(self.step(wall_ms, Event::Requested(Ticket(ticket), request)))
    }

    #[pyo3(signature = (wall_ms, ticket, transactional_id, producer, participants, *, protocol = 1))]
    fn add_participants(
        &mut self,
        wall_ms: i64,
        ticket: u64,
        transactional_id: String,
        producer: (i64, i16),
        participants: Vec<(String, i32)>,
        protocol: u8,
    ) -> PyResult<Vec<PyEffect>> {
        let request = Request::AddParticipants {
            transactional_id: checked(transactional_id)?,
            producer: Producer { id: producer.0, epoch: producer.1 },
            participants: participants.into_iter().map(|(topic, at)| Participant::new(topic, at)).collect(),
            version: version(protocol)?,
        };
        Ok(self.step(wall_ms, Event::Requested(Ticket(ticket), request)))
    }

    #[pyo3(signature = (wall_ms, ticket, transactional_id, producer, is_commit, *, spare_producer_id, protocol = 1))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the request")]
    fn end_transaction(
        &mut self,
        wall_ms: i64,
        ticket: u64,
        transactional_id: String,
        producer: (i64, i16),
        is_commit: bool,
        spare_producer_id: i64,
        protocol: u8,
    ) -> PyResult<Vec<PyEffect>> {
        let request = Request::EndTransaction {
            transactional_id: checked(transactional_id)?,
            producer: Producer { id: producer.0, epoch: producer.1 },
            is_commit,
            version: version(protocol)?,
            spare_producer_id,
        };
        Ok(self.step(wall_ms, Event::Requested(Ticket(ticket), request)))
    }

    #[pyo3(signature = (wall_ms, append_id, error = None))]
    fn appended(&mut self, wall_ms: i64, append_id: u64, error: Option<&str>) -> PyResult<Vec<PyEffect>> {
        let known = [("failed", AppendFailure::Failed), ("fenced", AppendFailure::Fenced)];
        let result = error.map(|word| one_of("error", word, &known)).transpose()?.map_or(Ok(()), Err);
        Ok(self.step(wall_ms, Event::Appended(AppendId(append_id), result)))
    }

    fn marked(
        &mut self,
        wall_ms: i64,
        transactional_id: &str,
        marker_id: u64,
        result: &str,
    ) -> PyResult<Vec<PyEffect>> {
        let known = [
            ("written", Marking::Written),
            ("gone", Marking::Gone),
            ("failed", Marking::Failed),
            ("fenced", Marking::Fenced),
        ];
        let result = one_of("result", result, &known)?;
        let marker = rota_txn::MarkerId(marker_id);
        Ok(self.step(wall_ms, Event::Marked { transactional_id: transactional_id.into(), marker, result }))
    }

    /// Does everything that is due.
    fn advance(&mut self, wall_ms: i64) -> Vec<PyEffect> {
        self.step(wall_ms, Event::Advanced)
    }

    /// Returns the wall time at which something is due.
    fn next_deadline(&self) -> Option<i64> {
        self.inner.next_deadline()
    }

    /// Returns whether a participant may append data of a transaction.
    fn verify(&self, transactional_id: &str, producer: (i64, i16), participant: (String, i32)) -> &'static str {
        let producer = Producer { id: producer.0, epoch: producer.1 };
        match self.inner.verify(transactional_id, producer, &Participant::new(participant.0, participant.1)) {
            Verdict::Verified => "verified",
            Verdict::NotAdded => "not added",
            Verdict::Concurrent => "concurrent",
            Verdict::UnknownMapping => "unknown mapping",
            Verdict::WrongEpoch => "wrong epoch",
            Verdict::NotCoordinator => "not coordinator",
            Verdict::Loading => "loading",
        }
    }

    /// Returns the error code and the state of an id, without what clients do not see.
    fn describe(&self, transactional_id: &str) -> (i16, Option<Transaction>) {
        match self.inner.describe(transactional_id) {
            Err(error) => (newest(error), None),
            Ok(shown) => (
                0,
                Some(Transaction {
                    state: shown.state.name().to_owned(),
                    producer_id: shown.producer.id,
                    producer_epoch: shown.producer.epoch,
                    timeout_ms: shown.timeout_ms,
                    participants: pairs(shown.participants.iter()),
                    start_ms: shown.start_ms,
                    updated_ms: -1,
                    previous_producer_id: -1,
                    next_producer_id: -1,
                    last_epoch: -1,
                    protocol: 1,
                }),
            ),
        }
    }

    /// Returns the error code and the ids that pass all filters.
    #[pyo3(
        signature = (wall_ms, *, states = Vec::new(), producer_ids = Vec::new(), min_age_ms = None),
        text_signature = "($self, wall_ms, *, states=(), producer_ids=(), min_age_ms=None)"
    )]
    fn list_ids(
        &self,
        wall_ms: i64,
        states: Vec<String>,
        producer_ids: Vec<i64>,
        min_age_ms: Option<i64>,
    ) -> PyResult<(i16, Vec<String>)> {
        let known: Vec<(&str, State)> = State::ALL.iter().map(|state| (state.name(), *state)).collect();
        let states = states.iter().map(|word| one_of("states", word, &known)).collect::<PyResult<_>>()?;
        let filter = Filter { states, producer_ids: producer_ids.into_iter().collect(), min_age_ms };
        let listed = self.inner.list(&filter, wall_ms);
        Ok(match listed {
            Err(error) => (newest(error), Vec::new()),
            Ok(ids) => (0, ids.map(|(id, _)| id.to_owned()).collect()),
        })
    }

    /// Returns the durable state of every id.
    fn transactions(&self) -> std::collections::BTreeMap<String, Transaction> {
        self.inner.transactions().map(|(id, transaction)| (id.to_owned(), to_python(transaction))).collect()
    }

    /// Returns every invariant that does not hold.
    fn violations(&self) -> Vec<String> {
        self.inner.violations()
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Transaction>()?;
    module.add_class::<TransactionAnswer>()?;
    module.add_class::<TransactionAppend>()?;
    module.add_class::<TransactionMarker>()?;
    module.add_class::<GivenUp>()?;
    module.add_class::<TransactionCoordinator>()
}
