//! The partitions of `__transaction_state` that a server of a cluster takes over and loses, as it does those of groups
//! (docs/engine-protocol.md §5).

use std::{mem, rc::Rc};

use rota_engine::{Epoch, PartitionId};
use rota_log::LogError;
use tokio::sync::Notify;

use super::{Node, handover::Progress};
use crate::topics::SharedTopics;

/// A partition that is being loaded.
#[derive(Debug)]
pub struct LoadingTransactions {
    epoch: i32,
    progress: Loaded,
    /// Notified when the log has opened the partition, or it is lost.
    resumed: Rc<Notify>,
}

#[derive(Debug)]
enum Loaded {
    /// The log has not opened it yet.
    Nothing,
    /// The log refused to open it.
    Refused(LogError),
    /// Up to this offset.
    To(i64),
}

impl Node {
    /// Returns the number in `__transaction_state` of a partition of the cluster's engine; `None`: it is one of groups.
    pub(super) fn transaction_partition(&self, partition: u32) -> Option<u32> {
        self.cluster()?.partitions().in_transactions(PartitionId(partition.cast_signed()))
    }

    /// Takes a partition over under a new epoch. Until it is loaded, requests get `COORDINATOR_LOAD_IN_PROGRESS`.
    pub(super) fn take_transactions(&mut self, partition: u32, epoch: i32) {
        if !self.serves_transactions() {
            return;
        }
        let shared = self.shared_state();
        let first_producer_id = shared.topics.shared().map_or(0, SharedTopics::first_producer_id);
        shared.transactions.take(partition, epoch, first_producer_id);
        let loading = LoadingTransactions { epoch, progress: Loaded::Nothing, resumed: Rc::default() };
        self.transactions.loading.insert(partition, loading);
        self.transactions.expect();
        shared.transactions.log().open(partition, epoch, &self.transactions.completions);
    }

    /// The log has opened a partition, or refuses it.
    pub(super) fn transactions_opened(&mut self, partition: u32, epoch: i32, end: Result<i64, LogError>) {
        let loading = self.transactions.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch);
        let Some(loading) = loading else { return };
        loading.progress = end.map_or_else(Loaded::Refused, |_| Loaded::To(0));
        loading.resumed.notify_one();
    }

    /// Reads the next slice of a partition that this node took over under `epoch`, and serves it after the last.
    pub(super) fn load_transactions_slice(&mut self, partition: u32, epoch: i32) -> Progress {
        let shared = self.shared_state();
        let loading = self.transactions.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch);
        let Some(loading) = loading else { return Progress::Over };
        let read = match mem::replace(&mut loading.progress, Loaded::Nothing) {
            Loaded::Nothing => return Progress::Held(Rc::clone(&loading.resumed)),
            Loaded::Refused(error) => Err(format!(": {error}")),
            Loaded::To(from) => shared.transactions.load_slice(partition, from).map(|next| (from, next)),
        };
        match read {
            Ok((from, next)) if next > from => {
                loading.progress = Loaded::To(next);
                Progress::More
            }
            Ok(_) => {
                self.transactions.loading.remove(&partition);
                self.begin_transactions_of(partition);
                Progress::Over
            }
            Err(_) if self.has_lost_transactions(partition, epoch) => Progress::Over,
            Err(reason) => {
                eprintln!("rota: partition {partition} of __transaction_state cannot be loaded{reason}");
                if let Some(cluster) = self.cluster() {
                    let of_engine = cluster.partitions().of_transactions(partition);
                    cluster.session().damaged(of_engine, Epoch(epoch), format!("cannot load it{reason}"));
                }
                self.unload_transactions_of(partition);
                Progress::Over
            }
        }
    }

    fn has_lost_transactions(&self, partition: u32, epoch: i32) -> bool {
        let of_engine = self.cluster().map(|cluster| cluster.partitions().of_transactions(partition));
        of_engine.is_some_and(|of_engine| self.has_lost(of_engine, epoch))
    }

    /// Loses a partition: requests that wait get `NOT_COORDINATOR`.
    pub(super) fn lose_transactions(&mut self, partition: u32, epoch: i32) {
        let transactions = self.all_transactions();
        if self.serves_transactions() && transactions.is_owned(partition) && transactions.epoch(partition) == epoch {
            self.unload_transactions_of(partition);
        }
    }

    /// Gives a partition up whose coordinator has ended: it was lost, or it was fenced. Then the engine says who owns it, and
    /// its log what became of the transactions.
    pub(super) fn give_up_transactions(&mut self, partition: u32) {
        if let Some(loading) = self.transactions.loading.remove(&partition) {
            // A task that waits for this load must see that it is over.
            loading.resumed.notify_one();
        }
        self.transactions.deadlines[partition as usize] = None;
        if let Some(cluster) = self.cluster() {
            let epoch = Epoch(self.all_transactions().epoch(partition));
            cluster.session().dropped(cluster.partitions().of_transactions(partition), epoch);
        }
    }
}
