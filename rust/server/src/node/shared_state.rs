//! What the nodes of one server share.

use std::sync::{Arc, atomic::AtomicU64};

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
    client::trace::Trace,
    faults::{Controls, Outages},
    log::{data_dir::DataDir, offsets_log::SharedLog},
    node::journal::Journal,
    topics::TopicTable,
};

/// See the module. Whatever changes in it is shared by design: nothing of it is on the path of a heartbeat.
#[derive(Debug)]
pub struct SharedState {
    /// As the server was started with.
    pub settings: Settings,
    /// Where clients find the first node; the others' differ in their id and port.
    pub place: Place,
    /// The time of all coordinators.
    pub clock: Clock,
    /// Who coordinates what.
    pub owners: Arc<Owners>,
    /// The owner of the topic table.
    pub topics: Arc<TopicTable>,
    /// The log under all coordinators.
    pub log: Arc<SharedLog>,
    /// What a test has asked for.
    pub controls: Controls,
    /// Which nodes are down.
    pub outages: Outages,
    /// Wakes threads that wait for groups to change.
    pub changes: Arc<Changes>,
    /// How many requests have made their handler panic.
    pub panics: AtomicU64,
    /// Of each node: rung when another thread has left something for it.
    pub bells: Vec<Arc<Notify>>,
    /// Who is shown every request and answer.
    pub trace: Option<Trace>,
    /// Where everything that coordinators are told is written down.
    pub journal: Option<Arc<Journal>>,
    /// Where everything is kept, unless it is in memory.
    pub data: Option<DataDir>,
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

    /// Where the bell of a node is.
    pub fn place_of(node_id: i32) -> usize {
        (node_id - FIRST_NODE) as usize
    }
}
