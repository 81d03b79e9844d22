//! Which node owns which partition of `__consumer_offsets`, and how a partition is handed to another node.

use std::{
    rc::Rc,
    sync::{PoisonError, mpsc::sync_channel},
};

use super::Server;
use crate::{
    base::{error::ServerError, owners::Owner},
    net::loading,
    node::{Node, shared_state::SharedState},
};

impl Server {
    /// The partition of `__consumer_offsets` in which a group is.
    pub fn partition_of(&self, group_id: &str) -> u32 {
        rota_core::partition_for(group_id, self.shared.owners().partitions())
    }

    /// The id of the node that owns a partition of `__consumer_offsets`.
    pub fn owner(&self, partition: u32) -> Result<i32, ServerError> {
        self.owned(partition).map(|owner| owner.node_id)
    }

    fn owned(&self, partition: u32) -> Result<Owner, ServerError> {
        let partitions = self.shared.owners().partitions();
        self.shared.owners().of(partition).ok_or(ServerError::UnknownPartition { partition, partitions })
    }

    /// Hands a partition of `__consumer_offsets` to a node, while clients use it: the node that owns it unloads it,
    /// the other one fences what the first has in flight, and replays what is durable. To its own node it is loaded
    /// anew. Returns when it is loaded, or at once if loading is held.
    pub fn move_partition(&self, partition: u32, node_id: i32) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let from = self.owned(partition)?;
        let to = self.place_of_node(node_id)?;
        if self.shared.outages().is_down(node_id) {
            return Err(ServerError::NodeIsDown { node_id });
        }
        let given = self.ask(SharedState::place_of(from.node_id), move |node| node.give_up(partition))?;
        let (epoch, voices) = given.map_or((from.epoch, Vec::new()), |given| (given.epoch, given.voices));
        let (report, loaded) = sync_channel(1);
        let begun = self.order(to, move |event_loop| {
            let epoch = epoch + 1;
            let node = &mut *event_loop.node.borrow_mut();
            node.take_over(partition, epoch, voices);
            tokio::task::spawn_local(loading::load(Rc::clone(event_loop), partition, epoch, Some(report)));
            node.holds_loads()
        })?;
        if self.answered(&begun)? {
            self.held_loads.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, loaded);
            return Ok(());
        }
        self.answered(&loaded)?
    }

    /// From now on a partition that is handed over is not loaded: clients are told `COORDINATOR_LOAD_IN_PROGRESS`.
    /// One that is being handed over is loaded before.
    pub fn hold_loads(&self) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Node::hold_loads).map(drop)
    }

    /// Partitions are loaded again, those that were held first; returns how many those are, when they are loaded.
    pub fn release_loads(&self) -> Result<usize, ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Node::release_loads)?;
        let held = std::mem::take(&mut *self.held_loads.lock().unwrap_or_else(PoisonError::into_inner));
        for loaded in held.values() {
            self.answered(loaded)??;
        }
        Ok(held.len())
    }
}
