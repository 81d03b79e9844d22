//! Loads partitions of `__consumer_offsets` into a node: in slices between which the node serves clients, or on
//! separate threads when a server starts with data.

use std::{
    rc::Rc,
    sync::mpsc::{SyncSender, sync_channel},
};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::event_loop::EventLoop;
use crate::{
    base::error::ServerError,
    node::{handover::Progress, loaders::LoadResult},
};

/// Begins to load the node's own partitions from the log. `loads` gets the result of each partition. Separate threads
/// load, and end before the node. On a virtual clock the node loads by itself, always in the same order.
pub fn load_own(event_loop: &Rc<EventLoop>, loads: SyncSender<Result<(), ServerError>>) {
    let node = event_loop.node.borrow();
    if !node.clock().is_virtual() {
        tokio::task::spawn_local(load_by_threads(Rc::clone(event_loop), loads));
        return;
    }
    for (partition, epoch) in node.to_load() {
        tokio::task::spawn_local(load(Rc::clone(event_loop), partition, epoch, Some(loads.clone())));
    }
}

async fn load_by_threads(event_loop: Rc<EventLoop>, loads: SyncSender<Result<(), ServerError>>) {
    loop {
        // A partition that cannot be opened refuses requests; the report of the start has the reason.
        let opening = event_loop.node.borrow().opening();
        match opening {
            Some(opened) => opened.notified().await,
            None => break,
        }
    }
    let (ended, loaded) = unbounded_channel();
    let begun = event_loop.node.borrow_mut().load_by_threads(&ended);
    drop(ended);
    match begun {
        Ok(_loaders) => take_loaded(event_loop, loaded, loads).await,
        Err(source) => {
            // The receiver may have timed out.
            let _dropped = loads.send(Err(ServerError::CannotRun { source }));
        }
    }
}

/// Loads a partition that the node took over, slice by slice, and reports the result.
pub async fn load(
    event_loop: Rc<EventLoop>,
    partition: u32,
    epoch: u32,
    report: Option<SyncSender<Result<(), ServerError>>>,
) {
    let ended = loop {
        let progress = event_loop.node.borrow_mut().load_slice(partition, epoch);
        match progress {
            Progress::More => tokio::task::yield_now().await,
            Progress::Held(resumed) => resumed.notified().await,
            Progress::Over => break Ok(()),
            Progress::Failed(error) => break Err(error),
        }
    };
    // The receiver may have timed out.
    let _dropped = report.map(|report| report.send(ended));
}

/// Loads a partition that the node of a cluster has claimed. If it cannot be loaded it refuses requests.
pub async fn load_taken(event_loop: Rc<EventLoop>, partition: u32, epoch: u32) {
    let (report, loaded) = sync_channel(1);
    load(event_loop, partition, epoch, Some(report)).await;
    if let Ok(Err(error)) = loaded.try_recv() {
        eprintln!("rota: {error}");
    }
}

/// Installs the partitions that threads have loaded, and reports each result.
async fn take_loaded(
    event_loop: Rc<EventLoop>,
    mut loaded: UnboundedReceiver<LoadResult>,
    report: SyncSender<Result<(), ServerError>>,
) {
    while let Some((load, result)) = loaded.recv().await {
        let ended = event_loop.node.borrow_mut().end_loading(load, result);
        // The receiver may have timed out.
        let _dropped = report.send(ended);
    }
}
