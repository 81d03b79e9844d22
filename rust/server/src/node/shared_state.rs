//! What the nodes of one server share.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rota_log::{FaultyLog, MemoryLog};
use tokio::sync::Notify;

use crate::{
    base::{
        changes::Changes,
        clock::Clock,
        entropy::RandomBits,
        error::ServerError,
        owners::{FIRST_NODE, Owners},
        place::Place,
        settings::Settings,
    },
    client::trace::{ConnectionTrace, Trace},
    faults::{Controls, Outages},
    log::{data_dir::DataDir, offsets_log::SharedLog},
    node::journal::{Journal, JournalConfig},
    topics::TopicTable,
};

/// See the module. Only nodes use its fields; the layers above call its methods. What changes in it is shared by design:
/// nothing of it is on the path of a heartbeat.
#[derive(Debug)]
pub struct SharedState {
    /// As the server was started with.
    pub(super) settings: Settings,
    /// Where clients find the first node; the others' differ in their id and port.
    pub(super) place: Place,
    /// The time of all coordinators.
    pub(super) clock: Clock,
    /// Who coordinates what.
    pub(super) owners: Arc<Owners>,
    /// The owner of the topic table.
    pub(super) topics: Arc<TopicTable>,
    /// The log under all coordinators.
    pub(super) log: Arc<SharedLog>,
    /// What a test has asked for.
    pub(super) controls: Controls,
    /// Which nodes are down.
    pub(super) outages: Outages,
    /// Wakes threads that wait for groups to change.
    pub(super) changes: Arc<Changes>,
    /// How many requests have made their handler panic.
    panics: AtomicU64,
    /// Of each node: rung when another thread has left something for it.
    pub(super) bells: Vec<Arc<Notify>>,
    /// Who is shown every request and answer.
    trace: Option<Trace>,
    /// Where everything that coordinators are told is written down.
    pub(super) journal: Option<Arc<Journal>>,
    /// Where everything is kept, unless it is in memory.
    data: Option<DataDir>,
}

fn owners_and_bells(settings: &Settings, place: &Place) -> (Arc<Owners>, Vec<Arc<Notify>>) {
    let nodes = place.ports.len() as u32;
    (Owners::new(settings.offsets_partitions(), nodes), (0..nodes).map(|_| Arc::default()).collect())
}

impl SharedState {
    /// Of nodes as `place` has ports for, with everything in memory.
    pub fn new(settings: Settings, place: Place, clock: Clock) -> SharedState {
        let (owners, bells) = owners_and_bells(&settings, &place);
        let table_owners = Arc::clone(&owners);
        let topics = TopicTable::new(settings.topics(), table_owners, bells.clone(), &mut RandomBits::default());
        let log = MemoryLog::new(settings.offsets_partitions(), settings.message_max_bytes());
        let shown = clock.clone();
        let log = Arc::new(FaultyLog::new(Arc::new(log), move || shown.now().mono_ms));
        SharedState {
            controls: Controls::default(),
            outages: Outages::of(place.ports.len()),
            changes: Arc::default(),
            panics: AtomicU64::new(0),
            settings,
            place,
            clock,
            owners,
            topics,
            log,
            bells,
            trace: None,
            journal: None,
            data: None,
        }
    }

    /// The same over a data directory.
    pub fn on_disk(settings: Settings, place: Place, clock: Clock, data: DataDir) -> Result<SharedState, ServerError> {
        let (owners, bells) = owners_and_bells(&settings, &place);
        let log = data.offsets_log(&settings, &owners, clock.clone())?;
        let topics = TopicTable::in_data_dir(
            &data,
            settings.topics(),
            Arc::clone(&owners),
            bells.clone(),
            &mut RandomBits::default(),
        )?;
        let (controls, outages) = (Controls::default(), Outages::of(place.ports.len()));
        let (changes, panics) = (Arc::default(), AtomicU64::new(0));
        let (trace, journal, data) = (None, None, Some(data));
        Ok(SharedState {
            settings,
            place,
            clock,
            owners,
            topics,
            log,
            controls,
            outages,
            changes,
            panics,
            bells,
            trace,
            journal,
            data,
        })
    }

    /// Shows every request and answer to `trace`.
    pub fn traced(self, trace: Option<Trace>) -> SharedState {
        SharedState { trace, ..self }
    }

    /// Writes every event of the coordinators into a journal. Errors: it cannot be opened.
    pub fn journaled(self, journal: Option<JournalConfig>) -> Result<SharedState, ServerError> {
        let (partitions, cluster_id) = (self.owners.partitions(), &self.place.cluster_id);
        let beside = |journal| Journal::beside(&journal, self.data.as_ref(), partitions, cluster_id);
        let journal = journal.map(beside).transpose()?;
        Ok(SharedState { journal, ..self })
    }

    /// The settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time of all coordinators.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The owners of partitions.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// The topic table.
    pub fn topics(&self) -> &Arc<TopicTable> {
        &self.topics
    }

    /// The log under all coordinators, with the faults of tests.
    pub fn log(&self) -> &SharedLog {
        &self.log
    }

    /// What a test has asked for.
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// The nodes that are down.
    pub fn outages(&self) -> &Outages {
        &self.outages
    }

    /// The data directory; `None`: everything is in memory.
    pub fn data(&self) -> Option<&DataDir> {
        self.data.as_ref()
    }

    /// The journal; `None`: none is written.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// The trace of a connection, if there is one.
    pub fn trace_of(&self, place: &Place, connection_id: u64, peer: SocketAddr) -> Option<ConnectionTrace> {
        self.trace.as_ref().map(|trace| trace.of(place, connection_id, peer))
    }

    /// Counts a request whose handler has panicked. It may have asked the log for something and not taken the answer, so
    /// that every node looks.
    pub fn request_panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.bells.iter().for_each(|bell| bell.notify_one());
    }

    /// How many requests have made their handler panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Waits until groups have changed since this returned `seen`, `timeout` at most.
    pub fn wait_for_change(&self, seen: u64, timeout: Duration) -> u64 {
        self.changes.wait_beyond(seen, timeout)
    }

    /// Where the bell of a node is.
    pub fn place_of(node_id: i32) -> usize {
        (node_id - FIRST_NODE) as usize
    }
}
