//! The coordinators of transactions behind their APIs (docs/transactions.md §3).

mod in_cluster;
#[path = "../scene/mod.rs"]
mod scene;

use std::net::TcpStream;

use kafka_protocol::{
    messages::{
        AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeProducersRequest, DescribeTransactionsRequest,
        EndTxnRequest, FetchRequest, FindCoordinatorRequest, InitProducerIdRequest, ListTransactionsRequest,
        MetadataRequest, OffsetFetchRequest, ProduceRequest, ProducerId, TransactionalId, TxnOffsetCommitRequest,
        WriteTxnMarkersRequest,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
        describe_producers_request::TopicRequest,
        fetch_request::{FetchPartition, FetchTopic},
        metadata_request::MetadataRequestTopic,
        offset_fetch_request::OffsetFetchRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
        write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
    },
    protocol::StrBytes,
};
use rota_log::{BatchWriter, RecordView, batches};
use rota_server::{DataConfig, ServerConfig};

use scene::{PATIENCE, Scene, group, text, topic};

const NONE: i16 = 0;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNSUPPORTED_VERSION: i16 = 35;
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const UNSTABLE_OFFSET_COMMIT: i16 = 88;
const TRANSACTION_ABORTABLE: i16 = 120;
const INVALID_REGULAR_EXPRESSION: i16 = 128;
const NOT_COORDINATOR: i16 = 16;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const INVALID_REQUEST: i16 = 42;
const INVALID_TXN_STATE: i16 = 48;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const INVALID_TRANSACTION_TIMEOUT: i16 = 50;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const OPERATION_NOT_ATTEMPTED: i16 = 55;
const PRODUCER_FENCED: i16 = 90;
const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;

type Producer = (i64, i16);

fn id(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}

impl Scene {
    /// Goes on with a connection to this node.
    fn at(&mut self, node_id: i32) -> &mut Scene {
        let (_, host, port) = self.server.addresses().remove(node_id as usize - 1);
        self.client = TcpStream::connect((host, port)).unwrap();
        self.client.set_read_timeout(Some(PATIENCE)).unwrap();
        self
    }

    fn init(&mut self, name: &str) -> (i16, Producer) {
        self.init_within(name, 60_000)
    }

    fn init_within(&mut self, name: &str, timeout_ms: i32) -> (i16, Producer) {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id(name)))
            .with_transaction_timeout_ms(timeout_ms)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let answer = self.ask(4, &request);
        (answer.error_code, (answer.producer_id.0, answer.producer_epoch))
    }

    fn add(&mut self, name: &str, producer: Producer, partitions: &[(&str, i32)]) -> Vec<i16> {
        let topics = partitions.iter().map(|(name, index)| {
            AddPartitionsToTxnTopic::default().with_name(topic(name)).with_partitions(vec![*index])
        });
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id(name))
            .with_v3_and_below_producer_id(ProducerId(producer.0))
            .with_v3_and_below_producer_epoch(producer.1)
            .with_v3_and_below_topics(topics.collect());
        let answer = self.ask(3, &request);
        let results = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
        results.map(|result| result.partition_error_code).collect()
    }

    fn add_offsets(&mut self, name: &str, producer: Producer, of: &str) -> i16 {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id(name))
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_group_id(group(of));
        self.ask(3, &request).error_code
    }

    fn end(&mut self, name: &str, producer: Producer, is_commit: bool) -> i16 {
        self.end_by(3, name, producer, is_commit).0
    }

    /// Error, and from version 5 on the producer from now on.
    fn end_by(&mut self, version: i16, name: &str, producer: Producer, is_commit: bool) -> (i16, Producer) {
        let request = EndTxnRequest::default()
            .with_transactional_id(id(name))
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_committed(is_commit);
        let answer = self.ask(version, &request);
        (answer.error_code, (answer.producer_id.0, answer.producer_epoch))
    }

    /// Commits an offset of partition 0 of `t` in a transaction.
    fn commit_offset(&mut self, version: i16, name: &str, producer: Producer, of: &str, offset: i64) -> i16 {
        let partition =
            TxnOffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id(name))
            .with_group_id(group(of))
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_topics(vec![topic]);
        self.ask(version, &request).topics[0].partitions[0].error_code
    }

    /// The group's offset of partition 0 of `t`, and its error, as a reader that waits for nothing sees it.
    fn offset(&mut self, of: &str, require_stable: bool) -> (i64, i16) {
        let topics = OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(group(of))
            .with_topics(Some(vec![topics]))
            .with_require_stable(require_stable);
        let answer = self.ask(7, &request);
        if answer.error_code != NONE {
            return (-1, answer.error_code);
        }
        let partition = &answer.topics[0].partitions[0];
        (partition.committed_offset, partition.error_code)
    }

    fn listed_by(&mut self, pattern: &str) -> (i16, Vec<String>) {
        let request = ListTransactionsRequest::default()
            .with_duration_filter(-1)
            .with_transactional_id_pattern(Some(text(pattern)));
        let answer = self.ask(2, &request);
        let ids = answer.transaction_states.iter().map(|state| state.transactional_id.to_string());
        (answer.error_code, ids.collect())
    }

    /// Error, state, and partitions by topic.
    fn describe(&mut self, name: &str) -> (i16, String, Vec<(String, Vec<i32>)>) {
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id(name)]);
        let state = self.ask(0, &request).transaction_states.remove(0);
        let topics = state.topics.iter().map(|topic| (topic.topic.to_string(), topic.partitions.clone()));
        (state.error_code, state.transaction_state.to_string(), topics.collect())
    }

    /// Asks until the transaction is complete: markers are written by other turns of the server.
    fn wait_for(&mut self, name: &str, state: &str) {
        let began = std::time::Instant::now();
        while self.describe(name).1 != state {
            assert!(began.elapsed() < PATIENCE, "{name} does not become {state}: {:?}", self.describe(name));
        }
    }

    /// Produces a record of the transaction to partition 0 of `t`.
    fn produce(&mut self, name: &str, producer: Producer, sequence: i32, value: &str) -> i16 {
        self.produce_by(9, name, producer, sequence, value)
    }

    fn produce_by(&mut self, version: i16, name: &str, producer: Producer, sequence: i32, value: &str) -> i16 {
        let mut writer = BatchWriter::default();
        (writer.producer, writer.is_transactional) = (Some((producer.0, producer.1, sequence)), true);
        writer.push(1_000, None, Some(value.as_bytes()));
        let data = PartitionProduceData::default().with_index(0).with_records(Some(writer.finish()));
        let data = TopicProduceData::default().with_name(topic("t")).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(Some(id(name)))
            .with_acks(-1)
            .with_timeout_ms(1_000)
            .with_topic_data(vec![data]);
        self.ask(version, &request).responses[0].partition_responses[0].error_code
    }

    /// Fetches partition 0 of `t` as a reader of committed records: the values of committed records, and the last stable
    /// offset.
    fn committed(&mut self) -> (Vec<String>, i64) {
        let partition = FetchPartition::default().with_partition(0).with_partition_max_bytes(1 << 20);
        let topics = vec![FetchTopic::default().with_topic(topic("t")).with_partitions(vec![partition])];
        let request = FetchRequest::default().with_isolation_level(1).with_max_bytes(1 << 20).with_topics(topics);
        let mut answer = self.ask(11, &request);
        let data = answer.responses.remove(0).partitions.remove(0);
        let aborted: Vec<_> = data.aborted_transactions.unwrap_or_default();
        let is_aborted = |producer_id: i64, offset: i64| {
            aborted.iter().any(|of| of.producer_id.0 == producer_id && of.first_offset <= offset)
        };
        let mut values = Vec::new();
        for batch in batches(&data.records.unwrap_or_default()) {
            let batch = batch.expect("a batch");
            let header = batch.header();
            if header.is_control() || is_aborted(header.producer_id, header.base_offset) {
                continue;
            }
            let payload = batch.payload(1 << 20).expect("records");
            let value = |record: RecordView<'_>| String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
            values.extend(batch.records_in(&payload).map(|record| value(record.expect("a record"))));
        }
        (values, data.last_stable_offset)
    }

    fn listed(&mut self, states: &[&str]) -> (Vec<String>, Vec<String>) {
        let filters = states.iter().map(|state| text(state)).collect();
        let request = ListTransactionsRequest::default().with_state_filters(filters).with_duration_filter(-1);
        let answer = self.ask(1, &request);
        let ids = answer.transaction_states.iter().map(|state| state.transactional_id.to_string());
        (ids.collect(), answer.unknown_state_filters.iter().map(StrBytes::to_string).collect())
    }
}

/// A server that has the first protocol only.
fn serving() -> ServerConfig {
    ServerConfig { transaction_version: 0, ..ServerConfig::default() }
}

fn scene() -> Scene {
    let scene = Scene::of(serving());
    scene.server.create_topic("t", 2).unwrap();
    scene
}

#[test]
fn a_transaction_goes_from_empty_to_complete() {
    let mut scene = scene();
    let (error, producer) = scene.init("pay");
    assert_eq!((error, producer.1), (NONE, 0));
    assert_eq!(scene.describe("pay"), (NONE, "Empty".to_owned(), vec![]));
    assert_eq!(scene.add("pay", producer, &[("t", 0), ("t", 1)]), [NONE, NONE]);
    assert_eq!(scene.describe("pay"), (NONE, "Ongoing".to_owned(), vec![("t".to_owned(), vec![0, 1])]));
    assert_eq!(scene.end("pay", producer, true), NONE);
    scene.wait_for("pay", "CompleteCommit");
    assert_eq!(scene.describe("pay").2, vec![]);
    assert_eq!((scene.end("pay", producer, true), scene.end("pay", producer, false)), (NONE, INVALID_TXN_STATE));
}

#[test]
fn a_group_takes_part_as_its_partition() {
    let mut scene = scene();
    let (_, producer) = scene.init("pay");
    assert_eq!(scene.add_offsets("pay", producer, "group-id"), NONE);
    assert_eq!(scene.describe("pay").2, vec![("__consumer_offsets".to_owned(), vec![13])]);
}

#[test]
fn a_new_producer_fences_the_one_before_and_aborts_its_transaction() {
    let mut scene = scene();
    let (_, old) = scene.init("pay");
    assert_eq!(scene.add("pay", old, &[("t", 0)]), [NONE]);
    assert_eq!(scene.init("pay").0, CONCURRENT_TRANSACTIONS);
    scene.wait_for("pay", "CompleteAbort");
    let (error, new) = scene.init("pay");
    assert_eq!((error, new), (NONE, (old.0, old.1 + 2)));
    assert_eq!(scene.add("pay", old, &[("t", 0)]), [PRODUCER_FENCED]);
    assert_eq!(scene.end("pay", old, true), PRODUCER_FENCED);
    assert_eq!(scene.add("other", old, &[("t", 0)]), [INVALID_PRODUCER_ID_MAPPING]);
}

#[test]
fn one_partition_that_cannot_be_added_keeps_all_others_out() {
    let mut scene = scene();
    let (_, producer) = scene.init("pay");
    let codes = scene.add("pay", producer, &[("t", 0), ("nosuch", 0), ("t", 2), ("__consumer_offsets", 0)]);
    let expected =
        [OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED];
    assert_eq!(codes, expected);
    assert_eq!(scene.describe("pay").1, "Empty");
}

#[test]
fn requests_that_contradict_themselves_are_refused() {
    let mut scene = scene();
    assert_eq!(scene.init("").0, INVALID_REQUEST);
    assert_eq!(scene.init_within("pay", 0).0, INVALID_TRANSACTION_TIMEOUT);
    assert_eq!(scene.init_within("pay", 900_001).0, INVALID_TRANSACTION_TIMEOUT);
    assert_eq!(scene.describe("").0, INVALID_REQUEST);
    assert_eq!(scene.describe("pay").0, TRANSACTIONAL_ID_NOT_FOUND);
}

#[test]
fn listings_are_filtered_by_state() {
    let mut scene = scene();
    let (_, producer) = scene.init("a");
    scene.init("b");
    scene.add("a", producer, &[("t", 0)]);
    let (mut all, _) = scene.listed(&[]);
    all.sort();
    assert_eq!(all, ["a", "b"]);
    assert_eq!(scene.listed(&["Ongoing", "ongoing"]), (vec!["a".to_owned()], vec!["ongoing".to_owned()]));
    assert_eq!(scene.listed(&["nonsense"]), (vec![], vec!["nonsense".to_owned()]));
}

#[test]
fn each_transactional_id_has_one_node_and_the_others_say_so() {
    let mut scene = Scene::of(ServerConfig { nodes: 2, ..serving() });
    let find = |scene: &mut Scene, name: &str| {
        let request = FindCoordinatorRequest::default().with_key_type(1).with_coordinator_keys(vec![text(name)]);
        let found = scene.ask(4, &request).coordinators.remove(0);
        (found.error_code, found.node_id.0)
    };
    // abs(hash) % 50 of these ids is 47 and 18 (docs/protocol.md §19), and partitions go round the nodes.
    assert_eq!((find(&mut scene, "a"), find(&mut scene, "groupId")), ((NONE, 2), (NONE, 1)));
    assert_eq!((scene.init("groupId").0, scene.init("a").0), (NONE, NOT_COORDINATOR));
    assert_eq!(scene.describe("a").0, NOT_COORDINATOR);
}

#[test]
fn transactions_outlive_the_server_in_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let config = || ServerConfig { data: Some(DataConfig::at(dir.path().join("data"))), ..serving() };
    let mut scene = Scene::of(config());
    scene.server.load().unwrap();
    scene.server.create_topic("t", 2).unwrap();
    let (_, producer) = scene.init("pay");
    assert_eq!(scene.add("pay", producer, &[("t", 1)]), [NONE]);
    scene.server.stop(PATIENCE).unwrap();
    let mut scene = Scene::of(config());
    scene.server.load().unwrap();
    assert_eq!(scene.describe("pay"), (NONE, "Ongoing".to_owned(), vec![("t".to_owned(), vec![1])]));
    assert_eq!(scene.end("pay", producer, true), NONE);
    scene.wait_for("pay", "CompleteCommit");
    let (error, next) = scene.init("pay");
    assert_eq!((error, next), (NONE, (producer.0, producer.1 + 1)));
}

#[test]
fn a_transaction_whose_time_is_over_is_aborted_on_the_servers_clock() {
    let mut scene = scene();
    let (_, producer) = scene.init_within("pay", 1);
    assert_eq!(scene.add("pay", producer, &[("t", 0)]), [NONE]);
    scene.wait_for("pay", "CompleteAbort");
    assert_eq!(scene.end("pay", producer, true), PRODUCER_FENCED);
}

#[test]
fn readers_of_committed_records_see_what_was_committed_and_nothing_else() {
    let mut scene = scene();
    let (_, producer) = scene.init("pay");
    assert_eq!(scene.produce("pay", producer, 0, "not added"), INVALID_TXN_STATE);
    scene.add("pay", producer, &[("t", 0)]);
    assert_eq!(scene.produce("pay", producer, 0, "one"), NONE);
    assert_eq!(scene.committed(), (vec![], 0), "the transaction is open");
    assert_eq!(scene.end("pay", producer, true), NONE);
    scene.wait_for("pay", "CompleteCommit");
    assert_eq!(scene.committed(), (vec!["one".to_owned()], 2));
    scene.add("pay", producer, &[("t", 0)]);
    assert_eq!(scene.produce("pay", producer, 1, "two"), NONE);
    assert_eq!(scene.end("pay", producer, false), NONE);
    scene.wait_for("pay", "CompleteAbort");
    assert_eq!(scene.committed(), (vec!["one".to_owned()], 4));
}

#[test]
fn a_decided_transaction_is_finished_by_the_next_server() {
    let dir = tempfile::tempdir().unwrap();
    let config = || ServerConfig { data: Some(DataConfig::at(dir.path().join("data"))), ..serving() };
    let mut scene = Scene::of(config());
    scene.server.load().unwrap();
    scene.server.create_topic("t", 1).unwrap();
    let (_, producer) = scene.init("pay");
    scene.add("pay", producer, &[("t", 0)]);
    assert_eq!(scene.produce("pay", producer, 0, "one"), NONE);
    // A group takes part, whose marker does not reach its log: the transaction stays decided.
    scene.server.hold_appends().unwrap();
    assert_eq!(scene.add_offsets("pay", producer, "g"), NONE);
    assert_eq!(scene.end("pay", producer, true), NONE);
    assert_eq!(scene.describe("pay").1, "PrepareCommit");
    scene.server.stop(PATIENCE).unwrap();
    let mut scene = Scene::of(config());
    scene.server.load().unwrap();
    scene.wait_for("pay", "CompleteCommit");
    assert_eq!(scene.committed().0, ["one"]);
    assert_eq!(scene.end("pay", producer, false), INVALID_TXN_STATE);
}

#[test]
fn offsets_of_a_transaction_are_visible_after_its_commit() {
    let mut scene = scene();
    let (_, producer) = scene.init("pay");
    assert_eq!(scene.commit_offset(3, "pay", producer, "g", 5), INVALID_TXN_STATE, "the group was not added");
    assert_eq!(scene.commit_offset(4, "pay", producer, "g", 5), TRANSACTION_ABORTABLE);
    assert_eq!(scene.commit_offset(5, "pay", producer, "g", 5), UNSUPPORTED_VERSION);
    assert_eq!(scene.add_offsets("pay", producer, "g"), NONE);
    assert_eq!(scene.commit_offset(3, "other", producer, "g", 5), INVALID_PRODUCER_ID_MAPPING);
    assert_eq!(scene.commit_offset(3, "pay", (producer.0, producer.1 + 1), "g", 5), INVALID_PRODUCER_EPOCH);
    assert_eq!(scene.commit_offset(3, "pay", producer, "g", 5), NONE);
    assert_eq!(scene.offset("g", false), (-1, NONE));
    assert_eq!(scene.offset("g", true), (-1, UNSTABLE_OFFSET_COMMIT));
    assert_eq!(scene.end("pay", producer, true), NONE);
    scene.wait_for("pay", "CompleteCommit");
    assert_eq!(scene.offset("g", true), (5, NONE));
    scene.add_offsets("pay", producer, "g");
    assert_eq!(scene.commit_offset(3, "pay", producer, "g", 9), NONE);
    assert_eq!(scene.end("pay", producer, false), NONE);
    scene.wait_for("pay", "CompleteAbort");
    assert_eq!(scene.offset("g", true), (5, NONE));
}

#[test]
fn by_the_second_protocol_leaders_add_their_partitions_and_each_end_raises_the_epoch() {
    // The coordinators of `pay`, of partition 0 of `t` and of the group are on different nodes or on the same one.
    for nodes in [1, 2, 3] {
        let mut scene = Scene::of(ServerConfig { nodes, ..ServerConfig::default() });
        scene.server.create_topic("t", 1).unwrap();
        let places = Places::of(&mut scene);
        let (_, producer) = places.coordinator(&mut scene).init("pay");
        assert_eq!(places.leader(&mut scene).produce_by(12, "pay", producer, 1, "gap"), OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(places.leader(&mut scene).produce_by(12, "pay", producer, 0, "one"), NONE);
        assert_eq!(places.leader(&mut scene).produce_by(12, "pay", producer, 1, "two"), NONE);
        assert_eq!(places.group(&mut scene).commit_offset(5, "pay", producer, "g", 2), NONE);
        let (error, state, topics) = places.coordinator(&mut scene).describe("pay");
        assert_eq!((error, &*state, topics.len()), (NONE, "Ongoing", 2), "{nodes} nodes: {topics:?}");
        let (error, next) = places.coordinator(&mut scene).end_by(5, "pay", producer, true);
        assert_eq!((error, next), (NONE, (producer.0, producer.1 + 1)));
        places.coordinator(&mut scene).wait_for("pay", "CompleteCommit");
        assert_eq!(places.leader(&mut scene).committed(), (vec!["one".to_owned(), "two".to_owned()], 3));
        assert_eq!(places.group(&mut scene).offset("g", true), (2, NONE));
        // What is late joins no other transaction.
        assert_eq!(places.leader(&mut scene).produce_by(12, "pay", producer, 2, "late"), INVALID_PRODUCER_EPOCH);
        assert_eq!(places.group(&mut scene).commit_offset(5, "pay", producer, "g", 9), INVALID_PRODUCER_EPOCH);
        assert_eq!(places.coordinator(&mut scene).end_by(5, "pay", producer, true), (NONE, next), "a repetition");
        assert_eq!(places.leader(&mut scene).produce_by(12, "pay", next, 0, "aborted"), NONE);
        let (error, last) = places.coordinator(&mut scene).end_by(5, "pay", next, false);
        assert_eq!((error, last), (NONE, (producer.0, producer.1 + 2)));
        places.coordinator(&mut scene).wait_for("pay", "CompleteAbort");
        assert_eq!(places.leader(&mut scene).committed().0, ["one", "two"]);
        assert_eq!(places.leader(&mut scene).produce_by(12, "other", last, 0, "x"), INVALID_PRODUCER_ID_MAPPING);
    }
}

/// The node of each part of a transaction, from 1.
struct Places {
    coordinator: i32,
    leader: i32,
    group: i32,
}

impl Places {
    fn of(scene: &mut Scene) -> Places {
        let mut find = |key_type: i8, key: &str| {
            let request =
                FindCoordinatorRequest::default().with_key_type(key_type).with_coordinator_keys(vec![text(key)]);
            scene.ask(4, &request).coordinators.remove(0).node_id.0
        };
        let (coordinator, group) = (find(1, "pay"), find(0, "g"));
        let topics = vec![MetadataRequestTopic::default().with_name(Some(topic("t")))];
        let metadata = scene.ask(9, &MetadataRequest::default().with_topics(Some(topics)));
        Places { coordinator, leader: metadata.topics[0].partitions[0].leader_id.0, group }
    }

    fn coordinator<'s>(&self, scene: &'s mut Scene) -> &'s mut Scene {
        scene.at(self.coordinator)
    }

    fn leader<'s>(&self, scene: &'s mut Scene) -> &'s mut Scene {
        scene.at(self.leader)
    }

    fn group<'s>(&self, scene: &'s mut Scene) -> &'s mut Scene {
        scene.at(self.group)
    }
}

#[test]
fn markers_of_the_wire_end_transactions_in_partitions() {
    let mut scene = scene();
    let (_, producer) = scene.init("pay");
    scene.add("pay", producer, &[("t", 0)]);
    assert_eq!(scene.produce("pay", producer, 0, "one"), NONE);
    let open = |scene: &mut Scene| {
        let topics = vec![TopicRequest::default().with_name(topic("t")).with_partition_indexes(vec![0, 7])];
        let mut answer = scene.ask(0, &DescribeProducersRequest::default().with_topics(topics)).topics.remove(0);
        assert_eq!(answer.partitions[1].error_code, UNKNOWN_TOPIC_OR_PARTITION);
        let producer = answer.partitions.remove(0).active_producers.remove(0);
        (producer.producer_id.0, producer.current_txn_start_offset)
    };
    assert_eq!(open(&mut scene), (producer.0, 0));
    let topics = [("t", vec![0, 7]), ("__consumer_offsets", vec![3])];
    let topics = topics.map(|(name, indexes)| {
        WritableTxnMarkerTopic::default().with_name(topic(name)).with_partition_indexes(indexes)
    });
    let marker = WritableTxnMarker::default()
        .with_producer_id(ProducerId(producer.0))
        .with_producer_epoch(producer.1)
        .with_transaction_result(true)
        .with_topics(topics.to_vec());
    let answer = scene.ask(1, &WriteTxnMarkersRequest::default().with_markers(vec![marker])).markers.remove(0);
    let results = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let results: Vec<_> = results.map(|result| (result.partition_index, result.error_code)).collect();
    assert_eq!(results, [(0, NONE), (7, UNKNOWN_TOPIC_OR_PARTITION), (3, NONE)]);
    assert_eq!(open(&mut scene), (producer.0, -1));
    assert_eq!(scene.committed(), (vec!["one".to_owned()], 2));
    let none = scene.ask(1, &WriteTxnMarkersRequest::default());
    assert!(none.markers.is_empty());
}

/// A client with the right to write markers can give one any epoch. Then the marker of this coordinator is refused, and
/// its transaction stays decided; those of other ids go on.
#[test]
fn a_marker_of_the_wire_with_a_greater_epoch_holds_up_its_own_transaction_only() {
    let mut scene = scene();
    // Both are in one partition of the transaction log.
    let (name, other) = ("pay-0", "pay-55");
    let (producer, other_producer) = (scene.init(name).1, scene.init(other).1);
    scene.add(name, producer, &[("t", 0)]);
    assert_eq!(scene.produce(name, producer, 0, "one"), NONE);
    let marker = WritableTxnMarker::default()
        .with_producer_id(ProducerId(producer.0))
        .with_producer_epoch(producer.1)
        .with_coordinator_epoch(i32::MAX)
        .with_topics(vec![WritableTxnMarkerTopic::default().with_name(topic("t")).with_partition_indexes(vec![0])]);
    scene.ask(1, &WriteTxnMarkersRequest::default().with_markers(vec![marker]));
    assert_eq!(scene.end(name, producer, true), NONE);
    assert_eq!(scene.end(name, producer, true), CONCURRENT_TRANSACTIONS);
    assert_eq!(scene.add(other, other_producer, &[("t", 0)]), [NONE]);
    assert_eq!(scene.end(other, other_producer, true), NONE);
}

#[test]
fn listings_are_filtered_by_a_pattern_of_the_whole_id() {
    let mut scene = scene();
    for name in ["pay-1", "pay-2", "repay-1"] {
        scene.init(name);
    }
    let (error, mut found) = scene.listed_by("pay-.");
    found.sort();
    assert_eq!((error, found), (NONE, vec!["pay-1".to_owned(), "pay-2".to_owned()]));
    assert_eq!(scene.listed_by("").1.len(), 3);
    for refused in ["pay-[", "(?:(?:.?){300}){300}", &"a".repeat(32_767)] {
        assert_eq!(scene.listed_by(refused), (INVALID_REGULAR_EXPRESSION, vec![]));
    }
}
