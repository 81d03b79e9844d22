//! A server whose disk fails. Each waiting client gets an error, and the process says why and what to do. No failed write
//! is repeated as if it had not happened, and what was acknowledged is there after the next start.

mod failing_files;
mod scene;

use std::{
    collections::BTreeMap,
    io::Read,
    net::TcpStream,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use kafka_protocol::messages::{
    DeleteTopicsRequest, FetchRequest, JoinGroupRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
    SyncGroupRequest,
    fetch_request::{FetchPartition, FetchTopic},
    join_group_request::JoinGroupRequestProtocol,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_fetch_request::OffsetFetchRequestTopic,
    produce_request::{PartitionProduceData, TopicProduceData},
    sync_group_request::SyncGroupRequestAssignment,
};
use rota_log::BatchWriter;
use rota_server::{DataConfig, Server, ServerConfig, Settings};
use tempfile::TempDir;

use failing_files::{FailingFiles, Operation, Rule};
use scene::{PATIENCE, Scene, answer, connected, group, send, text, topic};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const NONE: i16 = 0;
const NOT_COORDINATOR: i16 = 16;
const KAFKA_STORAGE_ERROR: i16 = 56;
const REQUEST_TIMED_OUT: i16 = 7;
const PRODUCER_ID: i64 = 7;
const PARTITIONS: i32 = 4;

/// A server on `dir`, with files that fail on request.
fn served(dir: &TempDir, files: &FailingFiles) -> Scene {
    served_by(dir, files, false)
}

fn served_by(dir: &TempDir, files: &FailingFiles, virtual_clock: bool) -> Scene {
    let mut settings = Settings::default();
    for (name, value) in [
        ("offsets.topic.num.partitions", "4"),
        ("offsets.topic.segment.bytes", "4096"),
        ("group.initial.rebalance.delay.ms", "0"),
    ] {
        settings.set(name, value).unwrap();
    }
    let data = DataConfig { files: Arc::new(files.clone()), ..DataConfig::at(dir.path().join("data")) };
    let virtual_clock = virtual_clock.then_some(1_700_000_000_000);
    let scene = Scene::of(ServerConfig { settings, data: Some(data), virtual_clock, ..ServerConfig::default() });
    // It is there after a restart.
    let _there = scene.server.create_topic("t", PARTITIONS);
    scene
}

fn commit(id: &str, offset: i64) -> OffsetCommitRequest {
    let at = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
    let topics = vec![OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![at])];
    OffsetCommitRequest::default().with_group_id(group(id)).with_generation_id_or_member_epoch(-1).with_topics(topics)
}

/// A group whose coordinator is this partition.
fn group_in(scene: &Scene, partition: u32) -> String {
    (0..1_000).map(|at| format!("g{at}")).find(|id| scene.server.partition_of(id) == partition).unwrap()
}

/// The error and the offset in the answer to a Produce.
fn produced(client: &mut TcpStream) -> (i16, i64) {
    let partition = answer::<ProduceRequest>(client, 8).responses.remove(0).partition_responses.remove(0);
    (partition.error_code, partition.base_offset)
}

/// Whether an answer has come, within a short while.
fn has_answer(client: &TcpStream) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let has_come = client.peek(&mut [0]).is_ok();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    has_come
}

/// One message to partition 0 of `t`, with a sequence number of an idempotent producer.
fn message(sequence: Option<i32>) -> ProduceRequest {
    message_of(b"message", sequence)
}

fn message_of(value: &[u8], sequence: Option<i32>) -> ProduceRequest {
    let mut writer = BatchWriter::default();
    writer.producer = sequence.map(|sequence| (PRODUCER_ID, 0, sequence));
    writer.push(0, None, Some(value));
    let data = PartitionProduceData::default().with_index(0).with_records(Some(writer.finish()));
    let topics = vec![TopicProduceData::default().with_name(topic("t")).with_partition_data(vec![data])];
    ProduceRequest::default().with_acks(-1).with_topic_data(topics)
}

impl Scene {
    fn commit(&mut self, id: &str, offset: i64) -> i16 {
        self.ask(7, &commit(id, offset)).topics[0].partitions[0].error_code
    }

    fn committed(&mut self, id: &str) -> i64 {
        let asked = OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default().with_group_id(group(id)).with_topics(Some(vec![asked]));
        let fetched = self.ask(5, &request);
        assert_eq!(fetched.error_code, NONE);
        fetched.topics[0].partitions[0].committed_offset
    }

    /// A member joins and stores its plan; the first error of that.
    fn sync_a_plan(&mut self, id: &str) -> i16 {
        let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
        let join = JoinGroupRequest::default()
            .with_group_id(group(id))
            .with_session_timeout_ms(30_000)
            .with_rebalance_timeout_ms(30_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let joined = self.ask(3, &join);
        if joined.error_code != NONE {
            return joined.error_code;
        }
        let plan = SyncGroupRequestAssignment::default()
            .with_member_id(joined.member_id.clone())
            .with_assignment("plan".into());
        let sync = SyncGroupRequest::default()
            .with_group_id(group(id))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id)
            .with_assignments(vec![plan]);
        self.ask(3, &sync).error_code
    }

    fn produce(&mut self) -> i16 {
        self.ask(8, &message(None)).responses[0].partition_responses[0].error_code
    }

    /// The error and the offset of a batch of an idempotent producer, whose sequence numbers begin at `sequence`.
    fn produce_once(&self, sequence: i32) -> (i16, i64) {
        let mut client = connected(&self.server);
        send(&mut client, 8, &message(Some(sequence)));
        produced(&mut client)
    }

    fn log_end(&self) -> Option<i64> {
        self.server.log_ends(vec![("t".to_owned(), 0)]).unwrap()[0]
    }

    fn failures(&self) -> (u64, Option<String>) {
        let health = self.server.health().expect("it has a directory");
        (health.failures, health.last_failure)
    }

    fn failing(&self) -> Option<String> {
        self.server.health().expect("it has a directory").failing
    }

    fn stopped(&self) -> Option<String> {
        self.server.health().expect("it has a directory").stopped
    }
}

#[test]
fn everybody_who_waits_for_a_sync_that_fails_is_told_and_nothing_is_accepted_until_the_next_start() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    let ids: Vec<String> = (0..PARTITIONS as u32).map(|partition| group_in(&scene, partition)).collect();
    for id in &ids {
        assert_eq!(scene.commit(id, 1), NONE);
    }
    assert_eq!(scene.produce(), NONE);

    files.fail(Some(Rule { operation: Operation::Sync, named: "rota.wal", after: 0, times: 1, errno: EIO }));
    let mut clients: Vec<_> = ids.iter().map(|_| connected(&scene.server)).collect();
    for (client, id) in clients.iter_mut().zip(&ids) {
        send(client, 7, &commit(id, 2));
    }
    for client in &mut clients {
        let told = answer::<OffsetCommitRequest>(client, 7);
        assert_eq!(told.topics[0].partitions[0].error_code, NOT_COORDINATOR);
    }
    // The disk would work again; what it has of the failed sync is unknown.
    let asked = files.asked.load(Ordering::SeqCst);
    assert_eq!(scene.commit(&ids[0], 3), NOT_COORDINATOR);
    assert_eq!(scene.sync_a_plan(&ids[1]), NOT_COORDINATOR);
    assert_eq!(scene.produce(), KAFKA_STORAGE_ERROR);
    assert_eq!((files.asked.load(Ordering::SeqCst), files.failed.load(Ordering::SeqCst)), (asked, 1));
    let why = scene.stopped().expect("it says why");
    assert!(why.contains("rota.wal") && why.contains("os error 5") && why.contains("start again"), "{why}");
    drop(scene);

    let mut scene = served(&dir, &FailingFiles::default());
    for id in &ids {
        assert!((1..=2).contains(&scene.committed(id)), "{id}");
        assert_eq!(scene.commit(id, 4), NONE);
    }
    assert_eq!(scene.produce(), NONE);
}

#[test]
fn a_full_disk_refuses_the_appends_of_that_moment_and_later_ones_go_on() {
    for named in ["__consumer_offsets-", "rota.wal"] {
        let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
        let mut scene = served(&dir, &files);
        let (id, other) = (group_in(&scene, 0), group_in(&scene, 1));
        assert_eq!(scene.commit(&id, 1), NONE);

        let times = u64::MAX;
        files.fail(Some(Rule { operation: Operation::Write, named, after: 0, times, errno: ENOSPC }));
        let refused = scene.commit(&id, 2);
        assert_eq!(refused, NOT_COORDINATOR, "{named}");
        files.fail(None);
        if named == "rota.wal" {
            assert!(scene.stopped().is_some_and(|why| why.contains("os error 28")));
        } else {
            assert_eq!(scene.stopped(), None);
            assert_eq!((scene.committed(&id), scene.commit(&id, 3), scene.commit(&other, 4)), (1, NONE, NONE));
        }
        drop(scene);
        let mut scene = served(&dir, &FailingFiles::default());
        let there = scene.committed(&id);
        assert!(if named == "rota.wal" { (1..=2).contains(&there) } else { there == 3 }, "{named}: {there}");
    }
}

#[test]
fn the_settings_of_all_groups_of_a_request_are_stored_at_once() {
    use kafka_protocol::messages::{
        IncrementalAlterConfigsRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    };

    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    let mut stored_by = |groups: usize, timeout_ms: &str| {
        let config = AlterableConfig::default()
            .with_name(text("consumer.session.timeout.ms"))
            .with_value(Some(text(timeout_ms)));
        let resource = |at| {
            AlterConfigsResource::default()
                .with_resource_type(32)
                .with_resource_name(text(&format!("g{at}")))
                .with_configs(vec![config.clone()])
        };
        let request = IncrementalAlterConfigsRequest::default().with_resources((0..groups).map(resource).collect());
        let before = files.asked.load(Ordering::SeqCst);
        let response = scene.ask(1, &request);
        assert!(
            response.responses.len() == groups && response.responses.iter().all(|answer| answer.error_code == NONE)
        );
        files.asked.load(Ordering::SeqCst) - before
    };
    let one = stored_by(1, "50000");
    assert!(one > 0);
    assert_eq!(stored_by(100, "51000"), one);
}

#[test]
fn a_full_disk_is_shown_until_there_is_room_and_then_messages_go_on() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!((scene.produce(), scene.failing()), (NONE, None));
    let full = Rule { operation: Operation::Write, named: "/t-0/", after: 0, times: u64::MAX, errno: ENOSPC };
    files.fail(Some(full));
    assert_eq!([scene.produce(), scene.produce()], [KAFKA_STORAGE_ERROR; 2]);
    let why = scene.failing().expect("it says why");
    assert!(why.contains("/t-0`") && why.contains("No space left on device (os error 28)"), "{why}");
    assert!(why.contains("free space"), "{why}");
    assert_eq!((scene.failing(), scene.stopped()), (None, None), "a file of its own shows that there is room");
    assert_eq!(scene.produce(), KAFKA_STORAGE_ERROR);
    files.fail(None);
    assert_eq!((scene.produce(), scene.failing()), (NONE, None));
    drop(scene);
    let mut scene = served(&dir, &FailingFiles::default());
    assert_eq!(scene.server.log_ends(vec![("t".to_owned(), 0)]).unwrap(), [Some(2)], "what was acknowledged");
    assert_eq!(scene.produce(), NONE);
}

#[test]
fn settings_of_a_topic_that_cannot_be_stored_are_refused_and_stay_as_they_were() {
    use kafka_protocol::messages::{
        DescribeConfigsRequest, IncrementalAlterConfigsRequest,
        describe_configs_request::DescribeConfigsResource,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    };

    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!(scene.produce(), NONE);
    let change = |value: &str| {
        let config = AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text(value)));
        let topic = AlterConfigsResource::default().with_resource_type(2).with_resource_name(text("t"));
        IncrementalAlterConfigsRequest::default().with_resources(vec![topic.with_configs(vec![config])])
    };
    let own = |scene: &mut Scene| {
        let topic = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("t"));
        let request = DescribeConfigsRequest::default().with_resources(vec![topic.with_configuration_keys(None)]);
        let rows = scene.ask(4, &request).results.remove(0).configs;
        let row = rows.into_iter().find(|row| row.name.as_str() == "retention.ms").expect("every topic has it");
        row.value.map(|value| value.to_string())
    };
    assert_eq!(scene.ask(1, &change("5000")).responses[0].error_code, NONE);
    files.fail(Some(Rule { operation: Operation::Write, named: "rota.topics", after: 0, times: 1, errno: ENOSPC }));
    let refused = scene.ask(1, &change("6000")).responses.remove(0);
    assert_eq!(refused.error_code, KAFKA_STORAGE_ERROR);
    assert!(refused.error_message.is_some_and(|why| why.contains("os error 28")));
    assert_eq!(own(&mut scene).as_deref(), Some("5000"));
    drop(scene);
    let mut scene = served(&dir, &FailingFiles::default());
    assert_eq!(own(&mut scene).as_deref(), Some("5000"));
    assert_eq!(scene.ask(1, &change("6000")).responses[0].error_code, NONE);
    assert_eq!(own(&mut scene).as_deref(), Some("6000"));
}

#[test]
fn a_topic_whose_deletion_is_refused_keeps_its_messages() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!(scene.produce(), NONE);
    files.fail(Some(Rule { operation: Operation::Write, named: "rota.topics", after: 0, times: 1, errno: ENOSPC }));
    let deletion = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]).with_timeout_ms(1_000);
    assert_eq!(scene.ask(1, &deletion).responses[0].error_code, KAFKA_STORAGE_ERROR);
    assert_eq!(scene.server.messages("t").unwrap().len(), 1);
    assert_eq!(scene.produce(), NONE);
    assert_eq!(scene.server.messages("t").unwrap().len(), 2);
}

#[test]
fn a_topic_whose_files_could_not_be_deleted_is_answered_with_the_error() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!(scene.produce(), NONE);
    files.fail(Some(Rule { operation: Operation::Sync, named: "rota.wal", after: 0, times: 1, errno: EIO }));
    let deletion = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]).with_timeout_ms(1_000);
    let answer = scene.ask(5, &deletion).responses.remove(0);
    assert_eq!((answer.error_code, files.failed.load(Ordering::SeqCst)), (KAFKA_STORAGE_ERROR, 1));
    let why = answer.error_message.expect("it says why");
    assert!(why.contains("the topic is gone") && why.contains("rota.wal"), "{why}");
    assert_eq!(scene.server.log_ends(vec![("t".to_owned(), 0)]).unwrap(), [None]);
}

#[test]
fn a_topic_whose_deletion_may_be_on_the_disk_takes_no_more_messages() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!(scene.produce(), NONE);
    // The new table, then the directory with its name.
    files.fail(Some(Rule { operation: Operation::Sync, named: "/data", after: 1, times: 1, errno: EIO }));
    let deletion = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]).with_timeout_ms(1_000);
    assert_eq!(scene.ask(1, &deletion).responses[0].error_code, KAFKA_STORAGE_ERROR);
    assert_eq!(files.failed.load(Ordering::SeqCst), 1);
    assert_eq!(scene.produce(), KAFKA_STORAGE_ERROR, "the next start may delete it");
    let why = scene.stopped().expect("it says why");
    assert!(why.contains("rota.topics") && why.contains("start again"), "{why}");
    drop(scene);
    let mut scene = served(&dir, &FailingFiles::default());
    assert_eq!(scene.produce(), NONE);
}

#[test]
fn a_disk_that_was_full_for_one_write_is_in_the_health_although_it_takes_writes_again() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!((scene.produce(), scene.failures()), (NONE, (0, None)));
    files.fail(Some(Rule { operation: Operation::Write, named: "/t-0/", after: 0, times: 1, errno: ENOSPC }));
    assert_eq!([scene.produce(), scene.produce()], [KAFKA_STORAGE_ERROR, NONE]);
    assert_eq!(scene.failing(), None);
    let (failures, last) = scene.failures();
    assert_eq!(failures, 1);
    assert!(last.is_some_and(|why| why.contains("/t-0`") && why.contains("os error 28")));
}

#[test]
fn a_repetition_is_not_stored_again_after_a_failed_read_of_the_producers() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    assert_eq!(served(&dir, &files).produce_once(0), (NONE, 0));
    let scene = served(&dir, &files);
    files.fail(Some(Rule { operation: Operation::Read, named: "/t-0/", after: 0, times: 1, errno: EIO }));
    assert_eq!([scene.produce_once(0), scene.produce_once(0)], [(KAFKA_STORAGE_ERROR, -1), (NONE, 0)]);
    assert_eq!(files.failed.load(Ordering::SeqCst), 1);
    drop(scene);
    assert_eq!(served(&dir, &files).produce_once(0), (NONE, 0), "its first copy");
}

#[test]
fn a_repeated_batch_is_acknowledged_only_once_its_first_copy_is_durable() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let scene = served(&dir, &files);
    assert_eq!(scene.produce_once(0), (NONE, 0));

    let held = files.syncing.lock().unwrap();
    let mut clients = [connected(&scene.server), connected(&scene.server)];
    for client in &mut clients {
        send(client, 8, &message(Some(1)));
    }
    let refused = (0..1_000).find_map(|_| clients.iter().position(has_answer)).expect("the second copy is answered");
    assert_eq!(produced(&mut clients[refused]).0, REQUEST_TIMED_OUT);
    assert_eq!(scene.log_end(), Some(1));
    drop(held);
    assert_eq!(produced(&mut clients[1 - refused]), (NONE, 1));
    assert_eq!(scene.produce_once(1), (NONE, 1), "it is durable now");
    assert_eq!(scene.log_end(), Some(2));
}

#[test]
fn with_acks_0_the_next_request_is_handled_when_the_batch_is_durable() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!(scene.produce(), NONE);
    let id = group_in(&scene, 0);

    let held = files.syncing.lock().unwrap();
    let mut client = connected(&scene.server);
    send(&mut client, 8, &message(None).with_acks(0));
    send(&mut client, 5, &OffsetFetchRequest::default().with_group_id(group(&id)).with_topics(None));
    // The server has seen both requests before that of another connection.
    assert_eq!(scene.committed(&id), -1);
    assert!(!has_answer(&client));
    drop(held);
    assert_eq!(answer::<OffsetFetchRequest>(&mut client, 5).error_code, NONE);
    assert_eq!(scene.log_end(), Some(2));
}

#[test]
fn with_acks_0_a_batch_that_is_not_stored_closes_the_connection() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    assert_eq!(scene.produce(), NONE);
    files.fail(Some(Rule { operation: Operation::Write, named: "/t-0/", after: 0, times: 1, errno: ENOSPC }));
    let mut client = connected(&scene.server);
    send(&mut client, 8, &message(None).with_acks(0));
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "it is closed without an answer");
    assert_eq!((scene.produce(), scene.log_end()), (NONE, Some(2)));
}

#[test]
fn a_batch_that_a_full_disk_refused_is_stored_when_it_is_sent_again() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let scene = served(&dir, &files);
    assert_eq!(scene.produce_once(0), (NONE, 0));
    files.fail(Some(Rule { operation: Operation::Write, named: "/t-0/", after: 0, times: 1, errno: ENOSPC }));
    assert_eq!(scene.produce_once(1).0, KAFKA_STORAGE_ERROR);
    assert_eq!(scene.produce_once(1), (NONE, 1), "the retry is no repetition");
    assert_eq!(scene.produce_once(1), (NONE, 1), "this one is");
    assert_eq!((scene.produce_once(2), scene.log_end()), ((NONE, 2), Some(3)));
    drop(scene);
    let scene = served(&dir, &FailingFiles::default());
    assert_eq!((scene.produce_once(1), scene.log_end()), ((NONE, 1), Some(3)));
}

#[test]
fn a_fetch_that_waits_for_many_bytes_reads_them_once() {
    const VALUE_BYTES: usize = 50_000;
    const MIN_BYTES: i32 = 1_500_000;
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let data = DataConfig { files: Arc::new(files.clone()), ..DataConfig::at(dir.path().join("data")) };
    let mut scene = Scene::of(ServerConfig { data: Some(data), ..ServerConfig::default() });
    scene.server.create_topic("t", 1).unwrap();
    assert_eq!(scene.produce(), NONE);

    let partition = FetchPartition::default().with_partition_max_bytes(1 << 24).with_current_leader_epoch(-1);
    let fetch = FetchRequest::default()
        .with_max_wait_ms(i32::MAX)
        .with_min_bytes(MIN_BYTES)
        .with_max_bytes(1 << 24)
        .with_session_epoch(-1);
    for isolation_level in [0, 1] {
        let mut client = connected(&scene.server);
        let at_the_end = partition.clone().with_fetch_offset(scene.log_end().unwrap());
        let asked = FetchTopic::default().with_topic(topic("t")).with_partitions(vec![at_the_end]);
        send(&mut client, 12, &fetch.clone().with_topics(vec![asked]).with_isolation_level(isolation_level));
        files.read_bytes.store(0, Ordering::SeqCst);
        while !has_answer(&client) {
            let request = message_of(&vec![7; VALUE_BYTES], None);
            assert_eq!(scene.ask(8, &request).responses[0].partition_responses[0].error_code, NONE);
        }
        let answered = answer::<FetchRequest>(&mut client, 12).responses.remove(0).partitions.remove(0);
        let bytes = answered.records.expect("there are records").len() as u64;
        let read_bytes = files.read_bytes.load(Ordering::SeqCst);
        assert!(bytes >= MIN_BYTES as u64 && read_bytes < 2 * bytes, "{bytes} of {read_bytes}");
    }
}

#[test]
fn a_start_on_a_full_disk_names_the_cause() {
    let mut refused = 0;
    for after in 0.. {
        let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
        files.fail(Some(Rule { operation: Operation::Write, named: "", after, times: u64::MAX, errno: ENOSPC }));
        let data = DataConfig { files: Arc::new(files.clone()), ..DataConfig::at(dir.path().join("data")) };
        match Server::start(ServerConfig { data: Some(data), ..ServerConfig::default() }) {
            Ok(_started) => break,
            Err(error) => {
                let why = error.to_string();
                assert!(why.contains("No space left on device") && why.contains("free space"), "{after}: {why}");
                refused += 1;
            }
        }
    }
    assert!(refused > 2, "{refused} places where a start writes");
}

/// On a virtual clock the node itself loads, otherwise threads do.
#[test]
fn whoever_loads_a_partition_that_cannot_be_read_is_refused_and_the_others_are_as_they_were() {
    let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
    let mut scene = served(&dir, &files);
    let ids: Vec<String> = (0..PARTITIONS as u32).map(|partition| group_in(&scene, partition)).collect();
    for (offset, id) in (1..).zip(&ids) {
        assert_eq!((scene.commit(id, offset), scene.sync_a_plan(&format!("member-of-{id}"))), (NONE, NONE));
    }
    let groups = scene.server.groups().unwrap();
    drop(scene);

    for virtual_clock in [false, true] {
        let mut scene = served_by(&dir, &files, virtual_clock);
        assert_eq!(scene.server.groups().unwrap(), groups);
        for (offset, id) in (1..).zip(&ids) {
            assert_eq!(scene.committed(id), offset);
            let member = scene.server.explain(&format!("member-of-{id}")).expect("it is loaded").0;
            assert_eq!(member.generation, 1);
        }
        drop(scene);

        let disk = FailingFiles::default();
        let named = "__consumer_offsets-2/0000";
        disk.fail(Some(Rule { operation: Operation::Read, named, after: 0, times: u64::MAX, errno: EIO }));
        let mut scene = served_by(&dir, &disk, virtual_clock);
        let lines = scene.server.report().expect("it has a directory").lines.clone();
        let [line] = &lines[..] else { panic!("one line: {lines:?}") };
        assert!(line.starts_with("partition 2 of __consumer_offsets cannot be loaded, at offset 0: "), "{line}");
        assert!(line.contains(named) && line.contains("os error 5"), "{line}");
        for (offset, id) in (1..).zip(&ids) {
            if scene.server.partition_of(id) == 2 {
                assert_eq!(scene.commit(id, 9), NOT_COORDINATOR);
            } else {
                assert_eq!(scene.committed(id), offset);
            }
        }
    }
}

/// The answers to a workload, by group: the newest acknowledged offset, and those with an unknown outcome.
type Answers = BTreeMap<String, (i64, Vec<i64>)>;

fn work(scene: &mut Scene, told: &mut Answers) -> u64 {
    let mut refused = 0;
    for offset in 1..=24 {
        for partition in 0..3 {
            let id = group_in(scene, partition);
            let entry = told.entry(id.clone()).or_insert((-1, Vec::new()));
            match scene.commit(&id, offset) {
                NONE => *entry = (offset, Vec::new()),
                NOT_COORDINATOR => {
                    entry.1.push(offset);
                    refused += 1;
                }
                other => panic!("a commit was answered {other}"),
            }
        }
        let synced = scene.sync_a_plan(&format!("member-{offset}"));
        assert!([NONE, NOT_COORDINATOR].contains(&synced), "a plan was answered {synced}");
    }
    refused
}

#[test]
fn whatever_write_or_sync_fails_what_was_acknowledged_is_there_after_the_next_start() {
    let mut counted = Vec::new();
    for (operation, errno) in [(Operation::Write, ENOSPC), (Operation::Write, EIO), (Operation::Sync, EIO)] {
        let (mut positions, mut refused, mut stopped) = (0, 0, 0);
        for after in (0..).step_by(17) {
            let (dir, files) = (TempDir::new().unwrap(), FailingFiles::default());
            let (mut scene, mut told) = (served(&dir, &files), Answers::new());
            files.fail(Some(Rule { operation, named: "", after, times: 1, errno }));
            refused += work(&mut scene, &mut told);
            stopped += u64::from(scene.stopped().is_some());
            drop(scene);
            let mut scene = served(&dir, &FailingFiles::default());
            for (id, (acknowledged, uncertain)) in &told {
                let there = scene.committed(id);
                assert!(
                    there == *acknowledged || uncertain.contains(&there),
                    "{operation:?} {after} {errno}: {id} has {there}, {acknowledged} was acknowledged"
                );
            }
            assert_eq!(scene.commit("g0", 1_000), NONE, "it goes on");
            if files.failed.load(Ordering::SeqCst) == 0 {
                break;
            }
            positions += 1;
        }
        assert!(
            positions > 5 && refused > 0 && stopped > 0,
            "{operation:?} {errno}: {positions}, {refused}, {stopped}"
        );
        counted.push((operation, errno, positions, refused, stopped));
    }
    println!("operation, errno, positions, refused commits, stops: {counted:?}");
}
