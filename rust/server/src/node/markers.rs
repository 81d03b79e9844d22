//! Markers of transactions that other threads leave for the leaders of their partitions (docs/transactions.md §5).

use rota_core::error::ErrorCode;
use rota_txn::{CONSUMER_OFFSETS, Marker};

use super::{Node, marker_queues::MarkerOrder, shared_state::SharedState};
use crate::{
    client::marker_reply::MarkerDone,
    topics::{AppendToken, MarkerOutcome, error_of},
};

/// A marker whose append in a topic is in flight.
pub struct MarkerWait {
    token: AppendToken,
    done: MarkerDone,
}

impl SharedState {
    /// Ends a transaction in a partition: leaves `marker` for the leader, and wakes it. `done` gets the result once the
    /// marker is durable. `UnknownTopicOrPartition`: the partition does not exist (any more). `InvalidProducerEpoch` and
    /// `TransactionCoordinatorFenced` are final; after any other error, the same marker can be written again.
    pub fn write_marker(&self, topic: &str, partition: i32, marker: Marker, done: MarkerDone) {
        let group_partition = || self.owners.of(u32::try_from(partition).ok()?).map(|owner| owner.node_id);
        let leader =
            if topic == CONSUMER_OFFSETS { group_partition() } else { self.topics.leader_id(topic, partition) };
        let place = leader.map(|node_id| self.place_of(node_id));
        match place {
            None => done(Err(ErrorCode::UnknownTopicOrPartition)),
            Some(place) => {
                self.markers.leave(place, MarkerOrder { topic: topic.to_owned(), partition, marker, done });
                self.wakers[place].notify_one();
            }
        }
    }
}

impl Node {
    /// Writes the markers that other threads have left.
    pub(super) fn write_markers(&mut self) {
        for MarkerOrder { topic, partition, marker, done } in
            self.shared.markers.take(self.shared.place_of(self.place.node_id))
        {
            if topic == CONSUMER_OFFSETS {
                // Groups have no offsets of transactions yet, and so no markers. The coordinator tries again.
                done(Err(ErrorCode::CoordinatorLoadInProgress));
                continue;
            }
            let now_ms = self.clock.now().wall_ms;
            match self.topics.write_marker(&topic, partition, &marker, now_ms) {
                MarkerOutcome::Ended(result) => done(result),
                MarkerOutcome::InFlight(token) => self.markers.push(MarkerWait { token, done }),
            }
        }
    }

    /// Reports the markers whose appends have ended.
    pub(super) fn marker_ended(&mut self, token: AppendToken, result: &Result<i64, rota_log::LogError>) {
        if let Some(at) = self.markers.iter().position(|wait| wait.token == token) {
            (self.markers.swap_remove(at).done)(error_of(result));
        }
    }
}
