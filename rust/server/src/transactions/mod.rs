//! The coordinators of transactions (docs/transactions.md), which all nodes share: each partition of
//! `__transaction_state` has one, behind a mutex.
//!
//! Only the thread of the node that owns a partition changes its coordinator. Any thread may ask for a verdict on data
//! of a transaction. Participants report markers to the mailbox of the owner.

pub mod log;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rota_txn::{
    Answer, Config, Coordinator, Effect, Event, Participant, Producer, Request, Transaction, Verdict,
    coordinator::{Description, Filter},
};
use tokio::sync::Notify;

use self::log::StateLog;
use crate::{
    base::{
        error::ServerError,
        owners::{FIRST_NODE, Owners},
    },
    log::TRANSACTION_STATE,
};

/// Receives the answer to a request, on the thread of the coordinator's node. It must not block.
pub type AnswerTo = Box<dyn FnOnce(Answer) + Send>;

/// Something for the coordinator of a partition.
pub enum Mail {
    /// Something happened in an ownership of the partition: its epoch.
    Happened(u32, i32, Event),
    /// A request of another node.
    Asked(u32, Request, AnswerTo),
}

/// The coordinators of all partitions.
pub struct Transactions {
    config: Config,
    coordinators: Box<[Mutex<Coordinator>]>,
    owners: Arc<Owners>,
    log: StateLog,
    /// Results of markers and requests of other nodes, by the index of the node that owns the coordinator.
    mail: Box<[Mutex<Vec<Mail>>]>,
    wakers: Vec<Arc<Notify>>,
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transactions({} partitions of {TRANSACTION_STATE})", self.coordinators.len())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transactions {
    /// Creates the coordinators with what is in the log. Each must still be begun by its owner. Errors: the log cannot
    /// be read.
    pub fn new(config: Config, log: StateLog, wakers: Vec<Arc<Notify>>) -> Result<Transactions, ServerError> {
        let owners = Owners::new(log.partitions(), wakers.len() as u32);
        let coordinators = (0..log.partitions()).map(|partition| log.load(config.clone(), partition).map(Mutex::new));
        let coordinators = coordinators.collect::<Result<_, _>>()?;
        let mail = wakers.iter().map(|_| Mutex::default()).collect();
        Ok(Transactions { config, coordinators, owners, log, mail, wakers })
    }

    /// Creates the coordinators of a server of a cluster, which owns no partition yet. The cluster's view tells `owners`.
    pub fn of_cluster(config: Config, log: StateLog, owners: Arc<Owners>, waker: Arc<Notify>) -> Transactions {
        let unowned = |_| {
            let mut coordinator = Coordinator::new(config.clone(), 0);
            coordinator.unload(&mut Vec::new());
            Mutex::new(coordinator)
        };
        let coordinators = (0..log.partitions()).map(unowned).collect();
        Transactions { config, coordinators, owners, log, mail: Box::new([Mutex::default()]), wakers: vec![waker] }
    }

    /// Creates no coordinators, for a server that does not serve transactions.
    pub fn none(nodes: usize) -> Transactions {
        Transactions {
            config: Config::default(),
            coordinators: Box::default(),
            owners: Owners::new(0, nodes as u32),
            log: StateLog::in_memory(0),
            mail: (0..nodes).map(|_| Mutex::default()).collect(),
            wakers: Vec::new(),
        }
    }

    /// Returns the settings of the coordinators.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the log of the coordinators.
    pub fn log(&self) -> &StateLog {
        &self.log
    }

    /// Returns the owners of the partitions.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.coordinators.len() as u32
    }

    /// Returns the partition of a transactional id.
    pub fn partition_of(&self, transactional_id: &str) -> u32 {
        rota_core::partition_for(transactional_id, self.coordinators.len() as u32)
    }

    fn coordinator(&self, partition: u32) -> MutexGuard<'_, Coordinator> {
        lock(&self.coordinators[partition as usize])
    }

    /// Takes a partition over under a new epoch. Its log must still be loaded, slice by slice, and the partition begun.
    /// Producer ids below `first_producer_id` are of a lost history.
    pub fn take(&self, partition: u32, epoch: i32, first_producer_id: i64) {
        let config = Config { first_producer_id, ..self.config.clone() };
        *self.coordinator(partition) = Coordinator::new(config, epoch);
    }

    /// Loads the next slice of a partition that was taken over. Returns the offset of the next record: `from` at the end.
    /// Errors: a record cannot be read.
    pub fn load_slice(&self, partition: u32, from: i64) -> Result<i64, String> {
        self.log.load_slice(partition, &mut self.coordinator(partition), from)
    }

    /// Whether this server owns a partition: it serves or loads it.
    pub fn is_owned(&self, partition: u32) -> bool {
        self.coordinator(partition).is_owned()
    }

    /// Begins to serve a partition, on the thread of its owner. Returns when something is due, in wall milliseconds.
    pub fn begin(&self, partition: u32, now_ms: i64, effects: &mut Vec<Effect>) -> Option<i64> {
        let mut coordinator = self.coordinator(partition);
        coordinator.loaded(now_ms, effects);
        coordinator.next_deadline()
    }

    /// Passes an event to a coordinator, on the thread of its owner. Returns when something is due, in wall milliseconds.
    pub fn step(&self, partition: u32, now_ms: i64, event: Event, effects: &mut Vec<Effect>) -> Option<i64> {
        let mut coordinator = self.coordinator(partition);
        coordinator.step(now_ms, event, effects);
        coordinator.next_deadline()
    }

    /// Returns the epoch of a partition's owner.
    pub fn epoch(&self, partition: u32) -> i32 {
        self.coordinator(partition).epoch()
    }

    /// Ends a partition on the thread of its owner: waiting requests are answered.
    pub fn unload(&self, partition: u32, effects: &mut Vec<Effect>) {
        self.coordinator(partition).unload(effects);
    }

    /// Returns whether a participant may append data of a transaction (docs/transactions.md §6). The caller is the
    /// thread that also writes the participant's markers, and appends before it does anything else.
    pub fn verify(&self, transactional_id: &str, producer: Producer, participant: &Participant) -> Verdict {
        self.coordinator(self.partition_of(transactional_id)).verify(transactional_id, producer, participant)
    }

    /// Describes an id.
    pub fn describe(&self, transactional_id: &str) -> Result<Description, rota_txn::Error> {
        self.coordinator(self.partition_of(transactional_id)).describe(transactional_id)
    }

    /// Visits the ids of a partition that pass the filter. Errors: the partition is being loaded, or not owned.
    pub fn list(
        &self,
        partition: u32,
        filter: &Filter,
        now_ms: i64,
        mut visit: impl FnMut(&str, &Transaction),
    ) -> Result<(), rota_txn::Error> {
        let coordinator = self.coordinator(partition);
        coordinator.list(filter, now_ms)?.for_each(|(id, transaction)| visit(id, transaction));
        Ok(())
    }

    /// Leaves an event of an ownership of a partition for its owner, and wakes it. Any thread may call this.
    pub fn post(&self, partition: u32, epoch: i32, event: Event) {
        self.leave(partition, Mail::Happened(partition, epoch, event));
    }

    /// Leaves a request for the owner of a partition, and wakes it. Any thread may call this.
    pub fn ask(&self, partition: u32, request: Request, done: AnswerTo) {
        self.leave(partition, Mail::Asked(partition, request, done));
    }

    fn leave(&self, partition: u32, mail: Mail) {
        let Some(owner) = self.owners.of(partition) else { return };
        // A server of a cluster has one node, also if another server owns the partition by now.
        let at = if self.mail.len() == 1 { 0 } else { (owner.node_id - FIRST_NODE) as usize };
        lock(&self.mail[at]).push(mail);
        self.wakers[at].notify_one();
    }

    /// Takes what was left for the node with this index.
    pub fn take_mail(&self, at: usize) -> Vec<Mail> {
        std::mem::take(&mut *lock(&self.mail[at]))
    }
}
