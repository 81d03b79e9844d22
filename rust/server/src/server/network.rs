//! Network controls of a server for tests.

use std::{
    rc::Rc,
    sync::{
        PoisonError,
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

use rota_wire::versions::APIS;

use super::Server;
use crate::{
    base::{error::ServerError, names::Hint},
    client::Ending,
    faults::{FaultId, NetworkFault},
    net::{event_loop::EventLoop, listening_orders::Listening, loading},
};

/// The partitions that a restarted node loads, and their results.
type Loads = Vec<(u32, Receiver<Result<(), ServerError>>)>;

/// Returns the API of this name.
fn served(name: &str) -> Result<i16, ServerError> {
    let found = APIS.iter().find(|api| api.name == name).map(|api| api.key);
    found.ok_or_else(|| {
        let hint = Hint::new(name, APIS.iter().map(|api| api.name));
        ServerError::UnknownServedApi { name: name.to_owned(), hint }
    })
}

impl Server {
    /// Delays answers by `ms` milliseconds of real time from now on, optionally of one API or one node.
    pub fn delay_answers(
        &self,
        delay: Duration,
        api: Option<&str>,
        node_id: Option<i32>,
    ) -> Result<FaultId, ServerError> {
        self.begin_fault(Some(delay), api, node_id, None)
    }

    /// Handles the next `times` requests, but closes their connections instead of answering.
    pub fn drop_answers(&self, api: Option<&str>, times: u32, node_id: Option<i32>) -> Result<FaultId, ServerError> {
        self.begin_fault(None, api, node_id, Some(times))
    }

    fn begin_fault(
        &self,
        delay: Option<Duration>,
        api: Option<&str>,
        node_id: Option<i32>,
        times: Option<u32>,
    ) -> Result<FaultId, ServerError> {
        let api_key = api.map(served).transpose()?;
        node_id.map(|node_id| self.place_of_node(node_id)).transpose()?;
        self.check_running()?;
        Ok(self.shared.controls().begin_fault(NetworkFault { delay, api_key, node_id, times }))
    }

    /// Ends a network fault. Answers that it delays are written now.
    pub fn end_fault(&self, id: FaultId) -> Result<(), ServerError> {
        self.shared.controls().end_fault(id);
        self.run_on_all_loops(|event_loop| event_loop.wake_all()).map(drop)
    }

    /// Returns how many requests a network fault has affected, and how many it still will; `None`: without limit.
    pub fn fault(&self, id: FaultId) -> (u32, Option<u32>) {
        self.shared.controls().fault_count(id)
    }

    /// Closes all connections, or those of one node. Returns their number.
    pub fn drop_connections(&self, node_id: Option<i32>) -> Result<usize, ServerError> {
        let drop_all = |event_loop: &Rc<EventLoop>| {
            let count = event_loop.connection_count();
            event_loop.end_all(Ending::Now);
            count
        };
        match node_id {
            None => Ok(self.run_on_all_loops(drop_all)?.iter().sum()),
            Some(node_id) => {
                let dropped = self.order(self.place_of_node(node_id)?, drop_all)?;
                self.answered(&dropped)
            }
        }
    }

    /// Takes a node down: it stops listening, its connections close without an answer, and its coordinators lose what
    /// is not in the log. The other nodes do not name it. No effect on a node that is down.
    pub fn stop_node(&self, node_id: i32) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let at = self.place_of_own_node(node_id)?;
        self.check_running()?;
        if !self.shared.outages().mark(node_id, true) {
            return Ok(());
        }
        let (report, closed) = sync_channel(1);
        let begun = self.order(at, move |event_loop| {
            event_loop.listening.send(Listening::Nowhere);
            event_loop.end_all(Ending::Now);
            let event_loop = Rc::clone(event_loop);
            tokio::task::spawn_local(async move {
                event_loop.listening.settled().await;
                // Connections accepted before the listener was closed.
                event_loop.end_all(Ending::Now);
                event_loop.emptied().await;
                event_loop.node.borrow_mut().forget_coordinators();
                // The server may have stopped meanwhile.
                let _nobody = report.send(());
            });
        })?;
        self.answered(&begun)?;
        self.answered(&closed)
    }

    /// Restarts a node on its ports: it loads its partitions from the log, then listens.
    pub fn start_node(&self, node_id: i32) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let at = self.place_of_own_node(node_id)?;
        self.check_running()?;
        if !self.shared.outages().is_down(node_id) {
            return Ok(());
        }
        let sockets: Vec<_> = self.listeners.iter().map(|open| open.reopen(at)).collect::<Result<_, _>>()?;
        let loads = self.order(at, |event_loop| -> (bool, Loads) {
            let node = event_loop.node.borrow();
            let load = |(partition, epoch): (u32, u32)| {
                let (report, loaded) = sync_channel(1);
                tokio::task::spawn_local(loading::load(Rc::clone(event_loop), partition, epoch, Some(report)));
                (partition, loaded)
            };
            (node.holds_loads(), node.to_load().into_iter().map(load).collect())
        })?;
        let (is_held, loads) = self.answered(&loads)?;
        let is_held = is_held || self.shared.log().holds_opens();
        let mut outcome = Ok(());
        for (partition, loaded) in loads {
            if is_held {
                self.held_loads.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, loaded);
            } else {
                outcome = outcome.and(self.answered(&loaded)?);
            }
        }
        self.shared.outages().mark(node_id, false);
        let listening = self.order(at, move |event_loop| event_loop.listening.send(Listening::On(sockets)))?;
        self.answered(&listening)?;
        outcome
    }

    /// Returns the ids of the nodes that are down.
    pub fn down_nodes(&self) -> Vec<i32> {
        self.shared.outages().ids()
    }

    /// Ends everything that tests have set: injected errors, pauses, network and log faults, held loads, nodes that are
    /// down. Topics, messages, groups and time stay.
    pub fn reset(&self) -> Result<(), ServerError> {
        let paused = self.shared.controls().end_all();
        self.run_on_all_loops(move |event_loop| {
            for member in &paused {
                event_loop.pause(member, false);
            }
            event_loop.wake_all();
        })?;
        self.shared.log().forget_faults();
        self.delay_appends(0)?;
        self.release_appends()?;
        self.release_markers()?;
        self.release_opens()?;
        self.release_loads()?;
        self.down_nodes().into_iter().try_for_each(|node_id| self.start_node(node_id))
    }

    /// Returns the index of a node that the server can stop and start while the others go on.
    fn place_of_own_node(&self, node_id: i32) -> Result<usize, ServerError> {
        if self.shared.cluster().is_some() {
            return Err(ServerError::OfCluster("its node is the whole server: use `kill`, and start another one"));
        }
        self.place_of_node(node_id)
    }

    /// Returns the index of a node.
    pub(super) fn place_of_node(&self, node_id: i32) -> Result<usize, ServerError> {
        let (first_node, nodes) = (self.shared.first_node(), self.nodes.len() as u32);
        let exists = (first_node..first_node.saturating_add_unsigned(nodes)).contains(&node_id);
        if exists {
            Ok(self.shared.place_of(node_id))
        } else {
            Err(ServerError::UnknownNode { node_id, first_node, nodes })
        }
    }
}
