//! Transactions on several servers over an engine in memory, which are killed and cut off (docs/cluster.md).

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest, ProducerId,
    add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction},
    metadata_request::MetadataRequestTopic,
};
use rota_cluster::{Engine, MemoryEngine, MemoryLink, operator};
use rota_engine::{HistoryId, Request, requests::AcceptLoss, requests::Body};
use rota_server::{ConnectTo, EngineConfig, Server, ServerConfig, Settings, topics::leaders_in_note};

use crate::{
    CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, NONE, NOT_COORDINATOR, OPERATION_NOT_ATTEMPTED,
    Producer, TRANSACTION_ABORTABLE, UNKNOWN_TOPIC_OR_PARTITION, UNSTABLE_OFFSET_COMMIT, id,
    scene::{PATIENCE, Scene, text, topic},
};

const TTL_MS: u64 = 1_000;
const NODES: i32 = 3;

fn config(link: &MemoryLink, node_id: i32) -> ServerConfig {
    let link: Arc<dyn Engine> = Arc::new(link.clone());
    let connect: ConnectTo = Arc::new(move || {
        let link = Arc::clone(&link);
        Box::pin(async move { Ok(link) })
    });
    let mut settings = Settings::default();
    settings.set("offsets.topic.num.partitions", "6").unwrap();
    settings.set("transaction.state.log.num.partitions", "6").unwrap();
    let engine = Some(EngineConfig { connect, node_id, ttl_ms: TTL_MS, fences_reads: false });
    ServerConfig { engine, settings, ..ServerConfig::default() }
}

/// Servers with node ids from 1.
struct Fleet {
    engine: MemoryEngine,
    links: BTreeMap<i32, MemoryLink>,
    scenes: BTreeMap<i32, Scene>,
}

impl Fleet {
    /// Three servers, each with its share of the partitions, and the topic `t`.
    fn new() -> Fleet {
        let engine = MemoryEngine::new(HistoryId(1));
        let mut fleet = Fleet { engine: engine.clone(), links: BTreeMap::new(), scenes: BTreeMap::new() };
        for node_id in 1..=NODES {
            let link = engine.link();
            fleet.scenes.insert(node_id, Scene::of(config(&link, node_id)));
            fleet.links.insert(node_id, link);
        }
        fleet.until("each server has its share", |fleet| {
            let table = fleet.any().cluster().unwrap().table();
            let (groups, transactions) = table.by_topic();
            let holds = |rows: &[rota_cluster::PartitionRow], node: i32| {
                rows.iter().filter(|row| row.is_held && row.owner.is_some_and(|owner| owner.0 == node)).count()
            };
            (1..=NODES).all(|node| holds(groups, node) == 2 && holds(transactions, node) == 2)
        });
        fleet.any().create_topic("t", NODES).unwrap();
        // The table of the cluster and each node's own may know it one after the other.
        let topics = vec![MetadataRequestTopic::default().with_name(Some(topic("t")))];
        let request = MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(false);
        fleet.until("each server knows the topic", |fleet| {
            let is_in_table = fleet.any().cluster().unwrap().table().topics.contains_key("t");
            let mut answers = fleet.scenes.values_mut().map(|scene| scene.ask(9, &request));
            is_in_table
                && answers.all(|answer| answer.topics[0].error_code == NONE && !answer.topics[0].partitions.is_empty())
        });
        fleet
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Fleet) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < 2 * PATIENCE, "never: {what}");
            std::thread::yield_now();
        }
    }

    fn any(&self) -> &Server {
        &self.scenes.values().next().unwrap().server
    }

    fn at(&mut self, node_id: i32) -> &mut Scene {
        self.scenes.get_mut(&node_id).unwrap()
    }

    /// The leader of partition 0 of `t`.
    fn leader(&self) -> i32 {
        leaders_in_note(&self.any().cluster().unwrap().table().topics["t"]).unwrap()[0]
    }

    /// Which server coordinates a group (0) or a transactional id (1).
    fn find(&mut self, key_type: i8, key: &str) -> Option<i32> {
        let find = FindCoordinatorRequest::default().with_key_type(key_type).with_coordinator_keys(vec![text(key)]);
        let scene = self.scenes.values_mut().next().unwrap();
        let found = scene.ask(4, &find).coordinators.remove(0);
        // The server that answers may not have noticed a kill.
        (found.error_code == NONE && self.scenes.contains_key(&found.node_id.0)).then_some(found.node_id.0)
    }

    /// A name of this kind whose coordinator is `node_id`.
    fn named(&mut self, key_type: i8, node_id: i32) -> String {
        let mut names = (0..).map(|number| format!("name-{number}"));
        names.find(|name| self.find(key_type, name) == Some(node_id)).unwrap()
    }

    /// Three servers have one job each: the coordinator of the id, the leader of the partition, the coordinator of the
    /// group.
    fn cast(&mut self) -> Cast {
        let leader = self.leader();
        let others: Vec<i32> = (1..=NODES).filter(|node| *node != leader).collect();
        let (coordinator, groups) = (others[0], others[1]);
        Cast { name: self.named(1, coordinator), group: self.named(0, groups), coordinator, leader, groups }
    }

    fn kill(&mut self, node_id: i32) {
        let scene = self.scenes.remove(&node_id).unwrap();
        scene.server.kill(PATIENCE).unwrap();
    }

    /// A producer of the id, as soon as its coordinator answers.
    fn init(&mut self, cast: &Cast, timeout_ms: i32) -> Producer {
        let mut found = None;
        self.until("a producer", |fleet| {
            let Some(node) = fleet.find(1, &cast.name) else { return false };
            let (error, producer) = fleet.at(node).init_within(&cast.name, timeout_ms);
            found = (error == NONE).then_some(producer);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until another server than before coordinates the id. Returns it.
    fn successor(&mut self, cast: &Cast) -> i32 {
        let mut found = None;
        self.until("another server coordinates the id", |fleet| {
            found = fleet.find(1, &cast.name).filter(|node| *node != cast.coordinator);
            found.is_some_and(|node| fleet.at(node).describe(&cast.name).0 == NONE)
        });
        found.unwrap()
    }

    /// A record in `t` and an offset of the group, by the first or the second protocol.
    fn write(&mut self, cast: &Cast, producer: Producer, is_second: bool, sequence: i32, value: &str) {
        let Cast { name, group, coordinator, leader, groups } = cast;
        if !is_second {
            assert_eq!(self.at(*coordinator).add(name, producer, &[("t", 0)]), [NONE]);
            assert_eq!(self.at(*coordinator).add_offsets(name, producer, group), NONE);
        }
        let (produce, commit) = if is_second { (12, 5) } else { (9, 3) };
        assert_eq!(self.at(*leader).produce_by(produce, name, producer, sequence, value), NONE);
        let offset = i64::from(sequence);
        assert_eq!(self.at(*groups).commit_offset(commit, name, producer, group, offset), NONE);
    }

    /// Waits until a reader sees these values at the leader and this offset at the group's coordinator.
    fn shows(&mut self, cast: &Cast, values: &[&str], offset: i64) {
        let (leader, group) = (cast.leader, cast.group.clone());
        self.until("the transaction is visible", |fleet| {
            let groups = fleet.find(0, &group);
            fleet.at(leader).committed().0 == values
                && groups.is_some_and(|groups| fleet.at(groups).offset(&group, true) == (offset, NONE))
        });
    }
}

/// See [`Fleet::cast`].
struct Cast {
    name: String,
    group: String,
    coordinator: i32,
    leader: i32,
    groups: i32,
}

#[test]
fn a_transaction_covers_partitions_and_groups_of_other_servers() {
    let mut fleet = Fleet::new();
    let cast = fleet.cast();
    let mut producer = fleet.init(&cast, 60_000);
    for (is_second, sequence) in [(false, 0), (true, 1)] {
        fleet.write(&cast, producer, is_second, sequence, &format!("{is_second}"));
        let (group, stable) = (cast.group.clone(), true);
        assert_eq!(fleet.at(cast.groups).offset(&group, stable).1, UNSTABLE_OFFSET_COMMIT);
        let version = if is_second { 5 } else { 3 };
        let (error, next) = fleet.at(cast.coordinator).end_by(version, &cast.name, producer, true);
        assert_eq!(error, NONE);
        producer = if is_second { next } else { producer };
        let values: &[&str] = if is_second { &["false", "true"] } else { &["false"] };
        fleet.shows(&cast, values, i64::from(sequence));
        fleet.at(cast.coordinator).wait_for(&cast.name, "CompleteCommit");
    }
    fleet.write(&cast, producer, true, 0, "aborted");
    assert_eq!(fleet.at(cast.coordinator).end_by(5, &cast.name, producer, false).0, NONE);
    fleet.at(cast.coordinator).wait_for(&cast.name, "CompleteAbort");
    fleet.shows(&cast, &["false", "true"], 1);
    for other in [cast.leader, cast.groups] {
        assert_eq!(fleet.at(other).end(&cast.name, producer, true), NOT_COORDINATOR);
        assert_eq!(fleet.at(other).describe(&cast.name).0, NOT_COORDINATOR);
    }
}

#[test]
fn data_of_a_partition_that_was_not_added_is_refused_wherever_it_arrives() {
    let mut fleet = Fleet::new();
    let cast = fleet.cast();
    let (old, producer) = (fleet.init(&cast, 60_000), fleet.init(&cast, 60_000));
    assert_eq!(fleet.at(cast.leader).produce(&cast.name, producer, 0, "v"), INVALID_TXN_STATE);
    assert_eq!(fleet.at(cast.leader).produce_by(11, &cast.name, producer, 0, "v"), TRANSACTION_ABORTABLE);
    assert_eq!(fleet.at(cast.groups).commit_offset(4, &cast.name, producer, &cast.group, 1), TRANSACTION_ABORTABLE);
    for version in [9, 12] {
        assert_eq!(fleet.at(cast.leader).produce_by(version, &cast.name, old, 0, "v"), INVALID_PRODUCER_EPOCH);
    }
}

#[test]
fn a_decided_transaction_is_finished_by_the_server_that_takes_it_over() {
    for is_second in [false, true] {
        let mut fleet = Fleet::new();
        let cast = fleet.cast();
        let producer = fleet.init(&cast, 60_000);
        fleet.write(&cast, producer, is_second, 0, "v");
        fleet.at(cast.coordinator).server.hold_markers().unwrap();
        let version = if is_second { 5 } else { 3 };
        assert_eq!(fleet.at(cast.coordinator).end_by(version, &cast.name, producer, true).0, NONE);
        assert_eq!(fleet.at(cast.leader).committed().0, [""; 0]);
        fleet.kill(cast.coordinator);
        fleet.shows(&cast, &["v"], 0);
        let successor = fleet.successor(&cast);
        fleet.at(successor).wait_for(&cast.name, "CompleteCommit");
    }
}

#[test]
fn an_open_transaction_is_aborted_in_time_by_the_server_that_takes_it_over() {
    let mut fleet = Fleet::new();
    let cast = fleet.cast();
    let producer = fleet.init(&cast, 2_000);
    fleet.write(&cast, producer, true, 0, "v");
    fleet.kill(cast.coordinator);
    let successor = fleet.successor(&cast);
    fleet.at(successor).wait_for(&cast.name, "CompleteAbort");
    fleet.shows(&cast, &[], -1);
    assert_eq!(fleet.at(cast.leader).produce_by(12, &cast.name, producer, 1, "late"), INVALID_PRODUCER_EPOCH);
}

#[test]
fn offsets_of_an_open_transaction_survive_the_server_of_their_group() {
    let mut fleet = Fleet::new();
    let cast = fleet.cast();
    let producer = fleet.init(&cast, 60_000);
    fleet.write(&cast, producer, false, 7, "v");
    fleet.kill(cast.groups);
    let group = cast.group.clone();
    fleet.until("another server has the group", |fleet| {
        let Some(node) = fleet.find(0, &group).filter(|node| *node != cast.groups) else { return false };
        fleet.at(node).offset(&group, true).1 == UNSTABLE_OFFSET_COMMIT
    });
    assert_eq!(fleet.at(cast.coordinator).end(&cast.name, producer, true), NONE);
    fleet.shows(&cast, &["v"], 7);
    fleet.at(cast.coordinator).wait_for(&cast.name, "CompleteCommit");
}

#[test]
fn late_markers_of_a_server_that_was_cut_off_do_not_end_the_next_transaction() {
    let mut fleet = Fleet::new();
    let cast = fleet.cast();
    let producer = fleet.init(&cast, 60_000);
    fleet.write(&cast, producer, false, 0, "first");
    fleet.at(cast.coordinator).server.hold_markers().unwrap();
    assert_eq!(fleet.at(cast.coordinator).end(&cast.name, producer, true), NONE);
    fleet.links[&cast.coordinator].set_faults(|faults| faults.is_silent = true);
    fleet.until("it notices that", |fleet| fleet.at(cast.coordinator).describe(&cast.name).0 == NOT_COORDINATOR);
    let late = fleet.scenes.remove(&cast.coordinator).unwrap();
    let successor = fleet.successor(&cast);
    fleet.at(successor).wait_for(&cast.name, "CompleteCommit");
    let next = Cast { coordinator: successor, ..cast };
    fleet.write(&next, producer, false, 1, "second");
    assert!(late.server.release_markers().unwrap() >= 2);
    // A question that goes the same way after them.
    let asked = |fleet: &mut Fleet| fleet.at(next.leader).committed();
    let until = Instant::now() + Duration::from_millis(TTL_MS);
    while Instant::now() < until {
        assert_eq!(asked(&mut fleet), (vec!["first".to_owned()], 2));
        assert_eq!(fleet.at(next.groups).offset(&next.group, true).1, UNSTABLE_OFFSET_COMMIT);
    }
    assert_eq!(fleet.at(successor).end(&next.name, producer, false), NONE);
    fleet.shows(&next, &["first"], 0);
}

#[test]
fn a_transactional_id_of_a_lost_history_gets_a_new_producer_id() {
    let mut fleet = Fleet::new();
    let cast = fleet.cast();
    let lost = fleet.init(&cast, 60_000);
    let (view, begin) = (fleet.engine.view(), HistoryId(2));
    let history = view.meta.history;
    let notes = operator::before_history(&view, begin).into_iter().map(Body::Note);
    for body in notes.chain([Body::AcceptLoss(AcceptLoss { lost: history, begin })]) {
        fleet.engine.carry_out(&Request { history, body });
    }
    fleet.until("the servers go on in the next history", |fleet| {
        let table = fleet.any().cluster().unwrap().table();
        table.history == Some(begin) && fleet.find(1, &cast.name).is_some()
    });
    let next = fleet.init(&cast, 60_000);
    assert!(next.0 > lost.0 && next.1 == 0, "{next:?} after {lost:?}");
    let again = fleet.init(&cast, 60_000);
    assert_eq!((again.0, again.1), (next.0, 1));
}

#[test]
fn no_two_servers_give_the_same_producer_id() {
    let mut fleet = Fleet::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        for scene in fleet.scenes.values_mut() {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let answer = scene.ask(4, &request);
            assert_eq!(answer.error_code, NONE);
            ids.push(answer.producer_id.0);
        }
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 9);
}

/// Asks about partitions of `t` as a server does. Returns the code of each.
fn admit(scene: &mut Scene, version: i16, name: &str, producer: Producer, verify_only: bool, of: &[i32]) -> Vec<i16> {
    let topics = AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(of.to_vec());
    let transaction = AddPartitionsToTxnTransaction::default()
        .with_transactional_id(id(name))
        .with_producer_id(ProducerId(producer.0))
        .with_producer_epoch(producer.1)
        .with_verify_only(verify_only)
        .with_topics(vec![topics]);
    let request = AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]);
    let answer = scene.ask(version, &request);
    let results = answer.results_by_transaction[0].topic_results.iter().flat_map(|topic| &topic.results_by_partition);
    results.map(|result| result.partition_error_code).collect()
}

#[test]
fn servers_ask_for_partitions_by_the_versions_for_brokers() {
    let mut scene = Scene::of(ServerConfig::default());
    scene.server.create_topic("t", 2).unwrap();
    let (_, producer) = scene.init("pay");
    assert_eq!(admit(&mut scene, 5, "pay", producer, true, &[0]), [TRANSACTION_ABORTABLE]);
    assert_eq!(admit(&mut scene, 4, "pay", producer, true, &[0]), [TRANSACTION_ABORTABLE]);
    let unknown = [OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION];
    assert_eq!(admit(&mut scene, 5, "pay", producer, false, &[0, 2]), unknown);
    assert_eq!(admit(&mut scene, 5, "pay", producer, false, &[0]), [NONE]);
    assert_eq!(admit(&mut scene, 5, "pay", producer, true, &[0, 1]), [NONE, TRANSACTION_ABORTABLE]);
    scene.server.hold_markers().unwrap();
    assert_eq!(scene.end_by(5, "pay", producer, true).0, NONE);
    let next = (producer.0, producer.1 + 1);
    assert_eq!(admit(&mut scene, 5, "pay", next, true, &[0]), [CONCURRENT_TRANSACTIONS]);
    assert_eq!(admit(&mut scene, 5, "pay", next, false, &[0]), [CONCURRENT_TRANSACTIONS]);
}
