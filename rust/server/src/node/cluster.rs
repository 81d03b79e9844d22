//! A node of a cluster of several servers: it takes and loses partitions as the engine says, and answers while its session
//! lasts (docs/engine-protocol.md §5).

use std::{collections::BTreeSet, mem, sync::Arc};

use rota_cluster::Change;
use rota_engine::{Epoch, PartitionId};
use rota_journal::Event;
use tokio::sync::oneshot;

use super::Node;
use crate::log::cluster::Cluster;

impl Node {
    /// Returns the cluster; `None`: the server is alone.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.shared.cluster.as_ref()
    }

    /// Returns the id of the cluster as clients see it; `None`: this server is of a cluster that it does not know yet.
    pub fn cluster_id(&self) -> Option<String> {
        match self.cluster() {
            Some(cluster) => cluster.id(),
            None => Some(self.place.cluster_id.clone()),
        }
    }

    /// Takes and loses what the host has left: another server may own what is lost from now on. Unloads everything if the
    /// session is over then: nothing succeeds any more, completions that have arrived included. The caller has taken the
    /// bytes of its requests before.
    pub fn check_session(&mut self) {
        let Some(cluster) = self.shared.cluster.clone() else { return };
        if cluster.session().is_valid() || cluster.session().follow(|change| self.follow_change(change)) {
            return;
        }
        let held =
            (0..self.partitions()).filter_map(|partition| Some((partition, self.coordinator(partition)?.epoch())));
        let held: Vec<(u32, u32)> = held.collect();
        for (partition, _) in &held {
            self.effects.log.forget(*partition);
        }
        for (partition, epoch) in held {
            self.lose(partition);
            cluster.session().dropped(PartitionId(partition as i32), Epoch(epoch as i32));
        }
        self.unload_transactions();
    }

    /// Asks the engine whether this node still has the partitions of these groups. The result arrives when it has
    /// confirmed that, or ends if it does not. `None`: nothing is to be asked, because the node has none of them.
    pub fn confirm<'g>(&self, groups: impl Iterator<Item = &'g str>) -> Option<oneshot::Receiver<()>> {
        let cluster = self.cluster()?;
        let held = groups.filter_map(|group| {
            let partition = self.partition_of(group);
            let epoch = self.coordinator(partition)?.epoch();
            Some((PartitionId(partition as i32), Epoch(epoch as i32)))
        });
        let held: BTreeSet<_> = held.collect();
        (!held.is_empty()).then(|| cluster.host().confirm(held))
    }

    /// Takes and loses what the engine says, after the waker was notified. Returns the partitions to load, with their
    /// epochs.
    pub fn follow_cluster(&mut self) -> Vec<(u32, u32)> {
        let Some(cluster) = self.shared.cluster.clone() else { return Vec::new() };
        // Also if there is no mail: the host asks whether this thread takes turns.
        cluster.session().follow(|change| self.follow_change(change));
        self.check_session();
        mem::take(&mut self.taken)
    }

    fn follow_change(&mut self, change: Change) {
        let Some(cluster) = self.shared.cluster.clone() else { return };
        match change {
            Change::Take(partition, epoch) => {
                match cluster.partitions().in_transactions(partition) {
                    Some(of_transactions) => self.take_transactions(of_transactions, epoch.0),
                    None => self.take_over(partition.0 as u32, epoch.0 as u32, Vec::new()),
                }
                self.taken.push((partition.0 as u32, epoch.0 as u32));
            }
            Change::Lose(partition, epoch) => {
                if let Some(of_transactions) = cluster.partitions().in_transactions(partition) {
                    return self.lose_transactions(of_transactions, epoch.0);
                }
                let partition = partition.0 as u32;
                if self.coordinator(partition).is_some_and(|coordinator| coordinator.epoch() == epoch.0 as u32) {
                    self.lose(partition);
                }
            }
        }
    }

    /// Whether a partition of the engine, owned under this epoch, is about to be lost: then what it has cannot be read.
    pub(super) fn has_lost(&self, partition: PartitionId, epoch: i32) -> bool {
        self.cluster().is_some_and(|cluster| cluster.session().has_lost(partition, Epoch(epoch)))
    }

    /// Forgets a partition: its completions do not count any more, and requests that wait get `NOT_COORDINATOR`.
    fn lose(&mut self, partition: u32) {
        self.effects.log.forget(partition);
        self.on_partition(partition, &Event::Unloaded);
        self.drop_partition(partition);
    }
}
