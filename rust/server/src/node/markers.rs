//! Markers of transactions that other threads leave for the leaders of their partitions (docs/transactions.md §5).

use std::sync::{Arc, PoisonError};

use rota_core::{
    coordinator::Phase,
    error::ErrorCode,
    request::{Request, WriteTxnMarker},
};
use rota_log::EndMarker;
use rota_txn::{CONSUMER_OFFSETS, Marker, Participant};

use super::{Node, queues::MarkerOrder, shared_state::SharedState};
use crate::{
    client::{
        caller_reply::{CallerReply, Done},
        reply::Reply,
    },
    peers,
    topics::{AppendToken, MarkerOutcome, error_of},
};

/// A marker whose append in a topic is in flight.
pub struct MarkerWait {
    token: AppendToken,
    done: Done,
}

impl SharedState {
    /// Ends a transaction in a partition: leaves `marker` for the leader, and wakes it. `done` gets the result once the
    /// marker is durable. `UnknownTopicOrPartition`: the partition does not exist (any more). `InvalidProducerEpoch` and
    /// `TransactionCoordinatorFenced` are final; after any other error, the same marker can be written again.
    pub fn write_marker(
        &self,
        topic: &str,
        partition: i32,
        transactional_id: Option<Arc<str>>,
        marker: Marker,
        done: Done,
    ) {
        match self.marker_leader(topic, partition) {
            None => done(Err(ErrorCode::UnknownTopicOrPartition)),
            Some(node_id) => {
                let topic = topic.to_owned();
                self.pass_marker(node_id, MarkerOrder { topic, partition, transactional_id, marker, done });
            }
        }
    }

    /// Returns the id of the node that leads a partition of a topic, or owns one of groups; `None`: there is none.
    pub(super) fn marker_leader(&self, topic: &str, partition: i32) -> Option<i32> {
        if topic != CONSUMER_OFFSETS {
            return self.topics.leader_id(topic, partition);
        }
        self.owners.of(u32::try_from(partition).ok()?).map(|owner| owner.node_id)
    }

    /// Whether a node is another server.
    pub(super) fn is_elsewhere(&self, node_id: i32) -> bool {
        self.cluster.is_some() && node_id != self.place.node_id
    }

    /// Leaves a marker for a node, unless markers are held.
    fn pass_marker(&self, node_id: i32, order: MarkerOrder) {
        if let Some(held) = self.held_markers.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            return held.push((node_id, order));
        }
        if self.is_elsewhere(node_id) {
            return self.send_marker(node_id, order);
        }
        let place = self.place_of(node_id);
        self.markers.leave(place, order);
        self.wakers[place].notify_one();
    }

    fn send_marker(&self, node_id: i32, order: MarkerOrder) {
        let MarkerOrder { topic, partition, marker, done, .. } = order;
        let Some(peers) = &self.peers else { return done(Err(ErrorCode::CoordinatorNotAvailable)) };
        let done = Box::new(move |codes: Option<Vec<i16>>| {
            let error = codes.and_then(|codes| ErrorCode::from_code(codes[0])).unwrap_or(ErrorCode::RequestTimedOut);
            done(match error {
                ErrorCode::None => Ok(()),
                // The other server may not know the topic yet. Whether it is gone, this one's table tells.
                ErrorCode::UnknownTopicOrPartition => Err(ErrorCode::NotLeaderOrFollower),
                error => Err(error),
            });
        });
        peers.write_marker(
            node_id,
            peers::Marker { participant: Participant::new(topic, partition), end: marker, done },
        );
    }

    /// Keeps markers from their leaders from now on.
    pub fn hold_markers(&self) {
        self.held_markers.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    }

    /// Passes the held markers on, and holds no more. Returns their number.
    pub fn release_markers(&self) -> usize {
        let held = self.held_markers.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        let count = held.len();
        for (node_id, order) in held {
            self.pass_marker(node_id, order);
        }
        count
    }
}

impl Node {
    /// Writes the markers that other threads have left.
    pub(super) fn write_markers(&mut self) {
        for MarkerOrder { topic, partition, transactional_id, marker, done } in
            self.shared.markers.take(self.place_index())
        {
            self.admissions.marker_comes(marker.producer_id, &topic, partition);
            if topic == CONSUMER_OFFSETS {
                self.write_group_marker(partition, transactional_id.as_deref(), &marker, done);
                continue;
            }
            let now_ms = self.clock.now().wall_ms;
            match self.topics.write_marker(&topic, partition, &marker, now_ms) {
                MarkerOutcome::Ended(result) => done(result),
                MarkerOutcome::InFlight(token) => self.markers.push(MarkerWait { token, done }),
            }
        }
    }

    fn write_group_marker(&mut self, partition: i32, transactional_id: Option<&str>, marker: &Marker, done: Done) {
        let Some(partition) = u32::try_from(partition).ok().filter(|partition| *partition < self.partitions()) else {
            return done(Err(ErrorCode::UnknownTopicOrPartition));
        };
        let Marker { producer_id, producer_epoch, coordinator_epoch, is_commit, .. } = *marker;
        let serving = self.coordinator(partition).filter(|coordinator| coordinator.phase() == Phase::Active);
        if let Some(open) = serving.map(|coordinator| coordinator.pending_epoch(producer_id)) {
            let fences = self.marker_fences.entry(partition).or_default();
            if let Err(error) = fences.check(marker, open) {
                return done(Err(error));
            }
            // If its append fails, the same marker comes again.
            fences.put(&EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit });
        }
        let request = WriteTxnMarker { transactional_id, producer_id, producer_epoch, coordinator_epoch, is_commit };
        self.submit(partition, Reply::Caller(CallerReply(done)), Request::WriteTxnMarker(request));
    }

    /// Reports the markers whose appends have ended.
    pub(super) fn marker_ended(&mut self, token: AppendToken, result: &Result<i64, rota_log::LogError>) {
        if let Some(at) = self.markers.iter().position(|wait| wait.token == token) {
            (self.markers.swap_remove(at).done)(error_of(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rota_core::request::{CommitPartition, CommitTopic, TxnOffsetCommit};
    use rota_txn::TransactionVersion;

    use super::*;
    use crate::base::{clock::Clock, owners::FIRST_NODE, place::Place, settings::Settings};

    /// Two nodes in memory; topic `t` has a partition on each.
    fn nodes() -> (Arc<SharedState>, Vec<Node>) {
        let place = Place { cluster_id: String::new(), node_id: FIRST_NODE, nodes: 2, listeners: Arc::default() };
        let shared = Arc::new(SharedState::new(Settings::default(), place, Clock::standing()));
        let mut nodes: Vec<Node> = (FIRST_NODE..).take(2).map(|node_id| Node::new(&shared, node_id)).collect();
        let (topics, random) = nodes[0].topics_mut();
        topics.create("t", 2, random).unwrap();
        nodes.iter_mut().for_each(Node::handle_wakeup);
        (shared, nodes)
    }

    /// The result of a marker, once each node had a turn.
    fn write(shared: &SharedState, nodes: &mut [Node], topic: &str, partition: i32) -> Result<(), ErrorCode> {
        let (sender, result) = mpsc::channel();
        let marker = Marker {
            producer_id: 7,
            producer_epoch: 0,
            coordinator_epoch: 0,
            is_commit: true,
            transaction_version: TransactionVersion::V1,
        };
        shared.write_marker(topic, partition, None, marker, Box::new(move |result| sender.send(result).unwrap()));
        nodes.iter_mut().for_each(Node::handle_wakeup);
        result.try_recv().expect("in memory, a marker is durable at once")
    }

    #[test]
    fn a_marker_reaches_the_leader_of_its_partition_on_whatever_node() {
        let (shared, mut nodes) = nodes();
        for partition in 0..2 {
            assert_eq!(write(&shared, &mut nodes, "t", partition), Ok(()));
            let ends: Vec<Option<i64>> = nodes.iter().map(|node| node.topics().log_end("t", partition)).collect();
            assert_eq!(ends.iter().flatten().collect::<Vec<_>>(), [&1], "one of them leads it");
        }
        for (topic, partition) in [("t", 2), ("t", -1), ("u", 0), (CONSUMER_OFFSETS, 50), (CONSUMER_OFFSETS, -1)] {
            let result = write(&shared, &mut nodes, topic, partition);
            assert_eq!(result, Err(ErrorCode::UnknownTopicOrPartition), "{topic}-{partition}");
        }
    }

    #[test]
    fn a_marker_of_groups_makes_their_offsets_visible() {
        let (shared, mut nodes) = nodes();
        let partition = nodes[0].partition_of("g");
        let owner = nodes.iter().position(|node| node.coordinator(partition).is_some()).unwrap();
        let node = &mut nodes[owner];
        let partitions = [CommitPartition { index: 0, offset: 5, leader_epoch: -1, metadata: None }];
        let commit = TxnOffsetCommit {
            version: 3,
            group_id: Some("g"),
            producer_id: 7,
            producer_epoch: 0,
            generation: -1,
            member_id: "",
            instance_id: None,
            topics: &[CommitTopic { name: "t", topic_id: 0, partitions: &partitions }],
        };
        node.submit(partition, Reply::Discard, Request::TxnOffsetCommit(commit));
        let offsets = |nodes: &[Node]| nodes[owner].coordinator(partition).unwrap().offset_count();
        assert_eq!(offsets(&nodes), 0);
        assert_eq!(write(&shared, &mut nodes, CONSUMER_OFFSETS, partition as i32), Ok(()));
        assert_eq!(offsets(&nodes), 1);
    }

    #[test]
    fn a_node_that_has_lost_a_partition_refuses_its_markers() {
        let (_shared, mut nodes) = nodes();
        let partition = nodes[0].partition_of("g") as i32;
        let other = nodes.iter_mut().find(|node| node.coordinator(partition as u32).is_none()).unwrap();
        let (sender, result) = mpsc::channel();
        let done: Done = Box::new(move |result| sender.send(result).unwrap());
        let marker = Marker {
            producer_id: 7,
            producer_epoch: 0,
            coordinator_epoch: 0,
            is_commit: true,
            transaction_version: TransactionVersion::V1,
        };
        other.write_group_marker(partition, None, &marker, done);
        assert_eq!(result.try_recv(), Ok(Err(ErrorCode::NotCoordinator)));
    }
}
