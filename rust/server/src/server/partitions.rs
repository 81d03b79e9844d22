//! Moves partitions of `__consumer_offsets` between nodes.

use std::{
    rc::Rc,
    sync::{PoisonError, mpsc::sync_channel},
};

use super::Server;
use crate::{
    base::{error::ServerError, owners::Owner},
    net::loading,
    node::Node,
};

impl Server {
    /// Returns the partition of `__consumer_offsets` that owns a group.
    pub fn partition_of(&self, group_id: &str) -> u32 {
        rota_core::partition_for(group_id, self.shared.owners().partitions())
    }

    /// Returns the id of the node that owns a partition of `__consumer_offsets`.
    pub fn owner(&self, partition: u32) -> Result<i32, ServerError> {
        self.owned(partition).map(|owner| owner.node_id)
    }

    fn owned(&self, partition: u32) -> Result<Owner, ServerError> {
        let partitions = self.shared.owners().partitions();
        self.shared.owners().of(partition).ok_or(ServerError::UnknownPartition { partition, partitions })
    }

    /// Hands a partition of `__consumer_offsets` to a node while clients use it: its owner unloads it, and the other
    /// node fences appends in flight and replays what is durable. A handover to the owner reloads it. Returns when it
    /// is loaded, or at once if loads or opens are held.
    pub fn move_partition(&self, partition: u32, node_id: i32) -> Result<(), ServerError> {
        if self.shared.cluster().is_some() {
            return Err(ServerError::OfCluster("partitions move between servers by the cluster's plan"));
        }
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let from = self.owned(partition)?;
        let to = self.place_of_node(node_id)?;
        if self.shared.outages().is_down(node_id) {
            return Err(ServerError::NodeIsDown { node_id });
        }
        let given = self.ask(self.shared.place_of(from.node_id), move |node| node.give_up(partition))?;
        let (epoch, clients) = given.map_or((from.epoch, Vec::new()), |given| (given.epoch, given.clients));
        let (report, loaded) = sync_channel(1);
        let begun = self.order(to, move |event_loop| {
            let epoch = epoch + 1;
            let node = &mut *event_loop.node.borrow_mut();
            node.take_over(partition, epoch, clients);
            tokio::task::spawn_local(loading::load(Rc::clone(event_loop), partition, epoch, Some(report)));
            node.holds_loads()
        })?;
        if self.answered(&begun)? || self.shared.log().holds_opens() {
            self.held_loads.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, loaded);
            return Ok(());
        }
        self.answered(&loaded)?
    }

    /// Holds the loading of partitions that are handed over from now on: clients get `COORDINATOR_LOAD_IN_PROGRESS`.
    /// Current handovers load first.
    pub fn hold_loads(&self) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Node::hold_loads).map(drop)
    }

    /// Resumes loading. Returns the number of held partitions, once they are loaded, or at once if opens are held.
    pub fn release_loads(&self) -> Result<usize, ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Node::release_loads)?;
        self.finish_held_loads()
    }

    /// Keeps the log of each partition that is handed over from opening, from now on. Its clients get
    /// `COORDINATOR_LOAD_IN_PROGRESS`.
    pub fn hold_opens(&self) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.check_running()?;
        self.shared.log().hold_opens();
        Ok(())
    }

    /// Opens complete again. Returns how many were held, when their partitions are loaded, or at once if loads are
    /// held.
    pub fn release_opens(&self) -> Result<usize, ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let released = self.shared.log().release_opens();
        self.ask_all(Node::settle)?;
        self.finish_held_loads()?;
        Ok(released)
    }

    /// Waits for all partitions whose load was held, unless something still holds them. Returns how many those are, or
    /// the error of the first one that failed.
    fn finish_held_loads(&self) -> Result<usize, ServerError> {
        let loads_are_held = self.ask_all(|node| node.holds_loads())?.contains(&true);
        let mut held = self.held_loads.lock().unwrap_or_else(PoisonError::into_inner);
        if loads_are_held || self.shared.log().holds_opens() {
            return Ok(held.len());
        }
        let waited_for = std::mem::take(&mut *held);
        drop(held);
        let loads: Vec<Result<(), ServerError>> =
            waited_for.values().map(|loaded| self.answered(loaded).and_then(|loaded| loaded)).collect();
        loads.into_iter().collect::<Result<(), ServerError>>()?;
        Ok(waited_for.len())
    }
}
