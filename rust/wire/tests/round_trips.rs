//! Requests that another codec wrote, read by ours; answers that ours wrote, read by the other: in every version.

mod samples;

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiVersionsResponse, DescribeGroupsResponse, FindCoordinatorResponse, HeartbeatResponse, JoinGroupResponse,
        LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, OffsetCommitResponse, OffsetFetchResponse,
        SyncGroupResponse,
    },
    protocol::{Decodable, Encodable, StrBytes},
};
use rota_core::{
    error::ErrorCode,
    request::{Assignment, CommitPartition, Heartbeat, LeaveIdentity, Protocol},
    response::{
        CommittedTopic, DeleteAnswer, DescribeAnswer, DescribedMember, FetchAnswer, FetchedOffset, FetchedTopic,
        JoinAnswer, JoinedMember, LeaveAnswer, LeftMember, ListedGroup, OffsetDeleteAnswer, OffsetDeletedTopic,
        SyncAnswer,
    },
};
use rota_wire::{
    Writer,
    answers::{self, FetchIds},
    discovery::{self, ApiVersionsBody, Feature, FindCoordinatorBody, FoundCoordinator},
    requests::{
        DescribeGroupsBody, JoinGroupBody, LeaveGroupBody, ListGroupsBody, OffsetCommitBody, OffsetDeleteBody,
        OffsetFetchBody, SyncGroupBody, TopicRef, read_delete_groups, read_heartbeat,
    },
    versions::{self, APIS, Api},
};

const GROUP: &str = "größe";

/// Every served version of an API, with the body of a full request.
fn requests(key: i16) -> impl Iterator<Item = (i16, Vec<u8>)> {
    let api = versions::find(key).unwrap();
    (api.served_from..=api.max).map(move |version| (version, samples::body(api, version)))
}

/// An answer as the other codec reads it, in every served version. It must be read to its last byte.
fn answers<T: Decodable>(key: i16, write: impl Fn(&mut Writer<'_>, i16)) -> Vec<(i16, T)> {
    let api: &Api = versions::find(key).unwrap();
    let read = |version: i16| {
        let mut out = BytesMut::new();
        write(&mut Writer::new(&mut out, api.flexible(version)), version);
        let mut bytes = out.freeze();
        let answer = T::decode(&mut bytes, version).unwrap_or_else(|error| panic!("v{version}: {error}"));
        assert_eq!(bytes, Bytes::new(), "v{version}: bytes are left");
        (version, answer)
    };
    // Where the other codec stops. Kafka's v5 of ApiVersions answers in the layout of v4.
    let last = match api.key {
        versions::API_VERSIONS => 4,
        versions::OFFSET_COMMIT | versions::OFFSET_FETCH => 9,
        _ => api.max,
    };
    (api.served_from..=last).map(read).collect()
}

#[test]
fn a_join_group_request_is_read_in_every_version() {
    for (version, body) in requests(versions::JOIN_GROUP) {
        let body = JoinGroupBody::read(version, &body).unwrap();
        let request = body.request("client", "/127.0.0.1");
        assert_eq!((request.version, request.group_id, request.member_id), (version, Some(GROUP), "member-1"));
        assert_eq!((request.client_id, request.client_host), ("client", "/127.0.0.1"));
        assert_eq!(request.session_timeout_ms, 10_000);
        assert_eq!(request.rebalance_timeout_ms, if version >= 1 { 60_000 } else { -1 });
        assert_eq!(request.instance_id, (version >= 5).then_some("instance-1"));
        assert_eq!(request.protocol_type, "consumer");
        let protocols = [Protocol { name: "range", metadata: b"\0\x01" }, Protocol { name: "sticky", metadata: b"" }];
        assert_eq!(request.protocols, protocols);
        assert_eq!(request.reason, (version >= 8).then_some("rejoin"));
    }
}

#[test]
fn a_sync_group_request_is_read_in_every_version() {
    for (version, body) in requests(versions::SYNC_GROUP) {
        let body = SyncGroupBody::read(version, &body).unwrap();
        let request = body.request();
        assert_eq!((request.version, request.group_id, request.generation), (version, Some(GROUP), 7));
        assert_eq!(request.instance_id, (version >= 3).then_some("instance-1"));
        assert_eq!(request.protocol_type, (version >= 5).then_some("consumer"));
        assert_eq!(request.protocol_name, (version >= 5).then_some("range"));
        let assignments = [
            Assignment { member_id: "member-1", assignment: b"one" },
            Assignment { member_id: "member-2", assignment: b"" },
        ];
        assert_eq!(request.assignments, assignments);
    }
}

#[test]
fn a_heartbeat_request_is_read_in_every_version() {
    for (version, body) in requests(versions::HEARTBEAT) {
        let instance_id = (version >= 3).then_some("instance-1");
        let expected = Heartbeat { group_id: Some(GROUP), generation: 7, member_id: "member-1", instance_id };
        assert_eq!(read_heartbeat(version, &body).unwrap(), expected);
    }
}

#[test]
fn a_leave_group_request_is_read_in_every_version() {
    for (version, body) in requests(versions::LEAVE_GROUP) {
        let body = LeaveGroupBody::read(version, &body).unwrap();
        let request = body.request();
        let leaver = LeaveIdentity {
            member_id: "member-1",
            instance_id: (version >= 3).then_some("instance-1"),
            reason: (version >= 5).then_some("closed"),
        };
        assert_eq!((request.version, request.group_id), (version, Some(GROUP)));
        assert_eq!(request.members, vec![leaver; if version <= 2 { 1 } else { 2 }]);
    }
}

/// The topic of the offset requests.
fn named(version: i16) -> TopicRef<'static> {
    if version >= 10 { TopicRef::Id(samples::TOPIC_ID) } else { TopicRef::Name("orders") }
}

#[test]
fn an_offset_commit_request_is_read_in_every_version() {
    for (version, body) in requests(versions::OFFSET_COMMIT) {
        let body = OffsetCommitBody::read(version, &body).unwrap();
        let request = body.request(&[]);
        assert_eq!((request.group_id, request.generation, request.member_id), (Some(GROUP), 7, "member-1"));
        assert_eq!(request.instance_id, (version >= 7).then_some("instance-1"));
        assert_eq!(request.retention_time_ms, (version <= 4).then_some(86_400_000));
        let leader_epoch = if version >= 6 { 3 } else { -1 };
        let partitions = [
            CommitPartition { index: 0, offset: 100, leader_epoch, metadata: Some("note") },
            CommitPartition { index: 1, offset: 101, leader_epoch, metadata: None },
        ];
        assert_eq!(body.topics.len(), 1);
        assert_eq!(
            (body.topics[0].topic, &body.partitions[body.topics[0].partitions.clone()]),
            (named(version), &partitions[..])
        );
    }
}

#[test]
fn an_offset_fetch_request_is_read_in_every_version() {
    for (version, body) in requests(versions::OFFSET_FETCH) {
        let body = OffsetFetchBody::read(version, &body).unwrap();
        assert_eq!(body.groups.len(), if version >= 8 { 2 } else { 1 });
        assert_eq!(body.groups[0].group_id, GROUP);
        assert_eq!(body.groups[0].topics, Some(vec![(named(version), 0..2)]));
        assert_eq!(body.partitions, [0, 1]);
        if version >= 8 {
            assert_eq!((body.groups[1].group_id, &body.groups[1].topics), ("all", &None));
        }
        assert_eq!(body.request(GROUP, None).require_stable, version >= 7);
    }
}

#[test]
fn deleting_requests_are_read_in_every_version() {
    for (version, body) in requests(versions::DELETE_GROUPS) {
        assert_eq!(read_delete_groups(version, &body).unwrap(), [GROUP, ""], "v{version}");
    }
    for (version, body) in requests(versions::OFFSET_DELETE) {
        let read = OffsetDeleteBody::read(version, &body).unwrap();
        assert_eq!((read.group_id, read.topics, read.partitions), (GROUP, vec![("orders", 0..2)], vec![0, 9]));
    }
}

/// The bytes are Apache Kafka 4.4's answers to such requests.
#[test]
fn deleting_answers_are_kafkas_byte_for_byte() {
    let entries = [("zz", ErrorCode::GroupIdNotFound), ("g", ErrorCode::None)];
    for (version, expected) in [
        (0, "000000000000000200027a7a00450001670000"),
        (1, "000000000000000200027a7a00450001670000"),
        (2, "0000000003037a7a0045000267000000"),
        (3, "0000000003037a7a00450000026700000000"),
    ] {
        let flexible = version >= 2;
        let parts = entries.map(|(group_id, error)| {
            let mut part = BytesMut::new();
            let answer = DeleteAnswer { error, group_id };
            answers::deleted_group(&mut Writer::new(&mut part, flexible), version, &answer);
            part
        });
        let mut out = BytesMut::new();
        answers::multi(&mut Writer::new(&mut out, flexible), true, parts.iter().map(|part| &part[..]));
        assert_eq!(hex(&out), expected.to_owned() + if flexible { "00" } else { "" }, "v{version}");
    }
    let refused = [("nowhere", 0), ("t", 9)].map(|(name, partition)| CommittedTopic {
        name: name.into(),
        topic_id: 0,
        partitions: vec![(partition, ErrorCode::UnknownTopicOrPartition)],
    });
    let deleted = [0, 0, 1].map(|partition| (partition, ErrorCode::None)).to_vec();
    let topics = [OffsetDeletedTopic { name: "t".into(), partitions: deleted }];
    for (error, expected) in [
        (
            ErrorCode::None,
            "0000000000000000000200076e6f776865726500000001000000000003\
             00017400000004000000090003000000000000000000000000000000010000",
        ),
        (ErrorCode::GroupIdNotFound, "00450000000000000000"),
    ] {
        let mut out = BytesMut::new();
        let answer = OffsetDeleteAnswer { error, topics: &topics };
        answers::offset_delete(&mut Writer::new(&mut out, false), &answer, &refused);
        assert_eq!(hex(&out), expected);
    }
}

#[test]
fn a_null_topic_list_asks_for_all_from_v2_on() {
    let mut body = b"\0\x01g".to_vec();
    body.extend_from_slice(&(-1_i32).to_be_bytes());
    assert!(OffsetFetchBody::read(1, &body).is_err());
    assert_eq!(OffsetFetchBody::read(2, &body).unwrap().groups[0].topics, None);
}

#[test]
fn describing_and_listing_requests_are_read_in_every_version() {
    for (version, body) in requests(versions::DESCRIBE_GROUPS) {
        let read = DescribeGroupsBody::read(version, &body).unwrap();
        assert_eq!((read.group_ids, read.include_authorized_operations), (vec![GROUP, ""], version >= 3));
    }
    for (version, body) in requests(versions::LIST_GROUPS) {
        let read = ListGroupsBody::read(version, &body).unwrap();
        let request = read.request();
        assert_eq!(request.states, if version >= 4 { &["Stable", "Empty"][..] } else { &[] });
        assert_eq!(request.types, if version >= 5 { &["classic"][..] } else { &[] });
    }
}

#[test]
fn a_filter_of_groups_keeps_each_known_word_once_and_one_for_all_others() {
    let read = |states: &[&str], types: &[&str]| {
        let strs = |words: &[&str]| words.iter().map(|word| StrBytes::from_string((*word).to_owned())).collect();
        let request = ListGroupsRequest::default().with_states_filter(strs(states)).with_types_filter(strs(types));
        let mut body = BytesMut::new();
        request.encode(&mut body, 5).unwrap();
        ListGroupsBody::read(5, &body).unwrap()
    };
    let none = read(&[], &[]);
    assert!(none.request().states.is_empty() && none.request().types.is_empty());
    let others = ["a", "b", "", "a"].repeat(1_000);
    let padded = format!("{} STABLE", " ".repeat(1_000));
    let body = read(&[&others[..], &[&padded, "Reconciling", "stable"]].concat(), &[&others[..], &["Share"]].concat());
    let request = body.request();
    assert_eq!((request.states.len(), request.types.len()), (3, 2));
    assert!(request.states.iter().all(|word| word.len() <= "CompletingRebalance".len()));
    for (group_type, state, expected) in [
        ("share", "Stable", true),
        ("share", "Reconciling", true),
        ("share", "Empty", false),
        ("classic", "Stable", false),
    ] {
        assert_eq!(request.takes(group_type, state), expected, "{group_type} {state}");
    }
    let body = read(&others, &[]);
    assert!(!body.request().states.is_empty(), "it is not the filter that passes all");
    assert!(!body.request().takes("classic", "Stable"));
}

#[test]
fn discovery_requests_are_read_in_every_version() {
    for (version, body) in requests(versions::FIND_COORDINATOR) {
        let read = FindCoordinatorBody::read(version, &body).unwrap();
        assert_eq!(read.key_type, i8::from(version >= 1));
        assert_eq!(read.keys, if version <= 3 { vec!["g"] } else { vec!["g", "h"] });
    }
    for (version, body) in requests(versions::API_VERSIONS) {
        let read = ApiVersionsBody::read(version, &body).unwrap();
        assert_eq!(read.software, (version >= 3).then_some(("rota-test", "1.0")));
        assert_eq!((read.cluster_id, read.node_id), if version >= 5 { (Some("cluster"), 1) } else { (None, -1) });
        assert!(read.names_valid_software());
    }
}

#[test]
fn software_is_named_by_letters_and_digits_with_dots_and_dashes_inside() {
    let valid =
        |name| ApiVersionsBody { software: Some((name, "1")), cluster_id: None, node_id: -1 }.names_valid_software();
    for name in ["a", "1", "apache-kafka-java", "a.b-c", "A--9"] {
        assert!(valid(name), "{name}");
    }
    for name in ["", "-a", "a-", ".a", "a.", "a b", "a_b", "ä"] {
        assert!(!valid(name), "{name}");
    }
}

#[test]
fn a_join_group_answer_is_written_in_every_version() {
    let members = [
        JoinedMember { member_id: "m1", instance_id: Some("i1"), metadata: b"meta" },
        JoinedMember { member_id: "m2", instance_id: None, metadata: b"" },
    ];
    let answer = JoinAnswer {
        error: ErrorCode::None,
        generation: 3,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        leader: "m1",
        skip_assignment: true,
        member_id: "m1",
        members: &members,
    };
    for (version, read) in answers::<JoinGroupResponse>(versions::JOIN_GROUP, |out, version| {
        answers::join_group(out, version, &answer);
    }) {
        assert_eq!((read.error_code, read.generation_id), (0, 3));
        assert_eq!(read.protocol_type.as_deref(), (version >= 7).then_some("consumer"));
        assert_eq!((read.protocol_name.as_deref(), &*read.leader, &*read.member_id), (Some("range"), "m1", "m1"));
        assert_eq!(read.skip_assignment, version >= 9);
        assert_eq!(
            (read.members.len(), &read.members[0].metadata[..], &*read.members[1].member_id),
            (2, &b"meta"[..], "m2")
        );
        assert_eq!(read.members[0].group_instance_id.as_deref(), (version >= 5).then_some("i1"));
    }
}

#[test]
fn a_join_group_error_has_an_empty_protocol_name_up_to_v6_and_a_null_one_later() {
    let answer = JoinAnswer {
        error: ErrorCode::MemberIdRequired,
        generation: -1,
        protocol_type: None,
        protocol_name: None,
        leader: "",
        skip_assignment: false,
        member_id: "m1",
        members: &[],
    };
    for (version, read) in answers::<JoinGroupResponse>(versions::JOIN_GROUP, |out, version| {
        answers::join_group(out, version, &answer);
    }) {
        assert_eq!((read.error_code, read.generation_id, &*read.member_id), (79, -1, "m1"));
        assert_eq!(read.protocol_name.as_deref(), (version <= 6).then_some(""));
    }
}

#[test]
fn member_answers_are_written_in_every_version() {
    let sync = SyncAnswer {
        error: ErrorCode::None,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignment: b"plan",
    };
    for (version, read) in
        answers::<SyncGroupResponse>(versions::SYNC_GROUP, |out, version| answers::sync_group(out, version, &sync))
    {
        assert_eq!((read.error_code, &read.assignment[..]), (0, &b"plan"[..]));
        assert_eq!(read.protocol_name.as_deref(), (version >= 5).then_some("range"));
    }
    for (_, read) in answers::<HeartbeatResponse>(versions::HEARTBEAT, |out, version| {
        answers::heartbeat(out, version, ErrorCode::RebalanceInProgress);
    }) {
        assert_eq!(read.error_code, 27);
    }
    let members = [LeftMember { member_id: "m1", instance_id: Some("i1"), error: ErrorCode::FencedInstanceId }];
    let leave = LeaveAnswer { error: ErrorCode::None, members: &members };
    for (version, read) in
        answers::<LeaveGroupResponse>(versions::LEAVE_GROUP, |out, version| answers::leave_group(out, version, &leave))
    {
        let members: Vec<_> = read.members.iter().map(|member| (&*member.member_id, member.error_code)).collect();
        assert_eq!(members, if version >= 3 { vec![("m1", 82)] } else { vec![] });
    }
}

#[test]
fn a_commit_answer_lists_what_was_refused_first_and_a_topic_once() {
    let topic = |name: &str, partitions| CommittedTopic { name: name.into(), topic_id: 0, partitions };
    let refused = [
        topic("gone", vec![(0, ErrorCode::UnknownTopicOrPartition)]),
        topic("orders", vec![(9, ErrorCode::UnknownTopicOrPartition)]),
    ];
    let answered =
        [topic("orders", vec![(0, ErrorCode::None)]), topic("clicks", vec![(1, ErrorCode::IllegalGeneration)])];
    for (_, read) in answers::<OffsetCommitResponse>(versions::OFFSET_COMMIT, |out, version| {
        answers::offset_commit(out, version, &refused, &answered);
    }) {
        let codes: Vec<(&str, Vec<(i32, i16)>)> = read
            .topics
            .iter()
            .map(|topic| {
                (&**topic.name, topic.partitions.iter().map(|it| (it.partition_index, it.error_code)).collect())
            })
            .collect();
        assert_eq!(codes, [("gone", vec![(0, 3)]), ("orders", vec![(9, 3), (0, 0)]), ("clicks", vec![(1, 22)])]);
    }
}

const KNOWN_ID: u128 = 0x8c7f_2215_4272_452c_a6bd_5d23_d201_2361;
const UNKNOWN_ID: u128 = 0x1111_1111_1111_1111_1111_1111_1111_1111;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |written, byte| written + &format!("{byte:02x}"))
}

/// The bytes in this test and the next are Apache Kafka 4.4's answers to such requests.
#[test]
fn a_commit_answer_by_topic_id_is_kafkas_byte_for_byte() {
    let topic = |name: &str, topic_id, partitions| CommittedTopic { name: name.into(), topic_id, partitions };
    let refused = [
        topic("orders", KNOWN_ID, vec![(9, ErrorCode::UnknownTopicOrPartition)]),
        topic("", UNKNOWN_ID, vec![(0, ErrorCode::UnknownTopicId)]),
    ];
    let answered = [0, 1].map(|partition| topic("orders", KNOWN_ID, vec![(partition, ErrorCode::None)]));
    let mut out = BytesMut::new();
    answers::offset_commit(&mut Writer::new(&mut out, true), 10, &refused, &answered);
    let entries = [
        "8c7f22154272452ca6bd5d23d2012361",
        "04000000090003000000000000000000000001000000",
        "0011111111111111111111111111111111020000000000640000",
    ];
    assert_eq!(hex(&out), format!("0000000003{}00", entries.concat()));
}

#[test]
fn a_fetch_answer_by_topic_id_is_kafkas_byte_for_byte() {
    let offset = |index, offset, topic_id| FetchedOffset {
        index,
        offset,
        leader_epoch: -1,
        metadata: if offset < 0 { "" } else { "n" },
        topic_id,
        error: ErrorCode::None,
    };
    let topics = [FetchedTopic { name: "orders", partitions: vec![offset(0, 5, KNOWN_ID), offset(7, -1, 0)] }];
    let answer = FetchAnswer { error: ErrorCode::None, group_id: "g", topics: &topics };
    let ids = FetchIds {
        asked: vec![KNOWN_ID],
        refused: vec![(UNKNOWN_ID, vec![1], ErrorCode::UnknownTopicId), (0, vec![], ErrorCode::UnknownTopicId)],
    };
    let none = "ffffffffffffffffffffffff01";
    let entries = [
        "026704".to_owned() + "8c7f22154272452ca6bd5d23d2012361",
        "03000000000000000000000005ffffffff026e000000".to_owned() + "00000007" + none + "000000" + "00",
        "11111111111111111111111111111111".to_owned() + "0200000001" + none + "006400" + "00",
        "00000000000000000000000000000000".to_owned() + "0100",
    ];
    let mut out = BytesMut::new();
    answers::offset_fetch_group_by_id(&mut Writer::new(&mut out, true), &answer, &ids);
    assert_eq!(hex(&out), entries.concat() + "000000");
}

#[test]
fn a_fetch_of_all_topics_is_answered_with_the_ids_that_offsets_were_committed_to() {
    let offset = FetchedOffset {
        index: 0,
        offset: 5,
        leader_epoch: -1,
        metadata: "n",
        topic_id: KNOWN_ID,
        error: ErrorCode::None,
    };
    let without = FetchedOffset { topic_id: 0, ..offset };
    let topics = [
        FetchedTopic { name: "from an old log", partitions: vec![without] },
        FetchedTopic { name: "orders", partitions: vec![without, offset] },
    ];
    let answer = FetchAnswer { error: ErrorCode::None, group_id: "g", topics: &topics };
    let mut out = BytesMut::new();
    answers::offset_fetch_group_by_id(&mut Writer::new(&mut out, true), &answer, &FetchIds::default());
    let partition = "000000000000000000000005ffffffff026e000000";
    let topic = "8c7f22154272452ca6bd5d23d201236103".to_owned() + partition + partition + "00";
    assert_eq!(hex(&out), "026702".to_owned() + &topic + "000000");
    let failed = FetchAnswer { error: ErrorCode::NotCoordinator, group_id: "g", topics: &[] };
    let ids = FetchIds { asked: vec![], refused: vec![(UNKNOWN_ID, vec![1], ErrorCode::TopicAuthorizationFailed)] };
    out.clear();
    answers::offset_fetch_group_by_id(&mut Writer::new(&mut out, true), &failed, &ids);
    assert_eq!(hex(&out), "026701001000");
}

fn fetched<'a>(error: ErrorCode, topics: &'a [FetchedTopic<'a>]) -> FetchAnswer<'a> {
    FetchAnswer { error, group_id: "g", topics }
}

#[test]
fn a_fetch_answer_is_written_in_every_version() {
    let offset =
        FetchedOffset { index: 2, offset: 9, leader_epoch: 4, metadata: "note", topic_id: 1, error: ErrorCode::None };
    let topics = [FetchedTopic { name: "orders", partitions: vec![offset] }];
    let answer = fetched(ErrorCode::None, &topics);
    for (version, read) in answers::<OffsetFetchResponse>(versions::OFFSET_FETCH, |out, version| {
        write_fetch(out, version, &answer);
    }) {
        if version >= 8 {
            let group = &read.groups[0];
            let partition = &group.topics[0].partitions[0];
            assert_eq!((&**group.group_id, &**group.topics[0].name, group.error_code), ("g", "orders", 0));
            assert_eq!(
                (partition.partition_index, partition.committed_offset, partition.committed_leader_epoch),
                (2, 9, 4)
            );
        } else {
            let partition = &read.topics[0].partitions[0];
            assert_eq!((&**read.topics[0].name, partition.committed_offset), ("orders", 9));
            assert_eq!(partition.committed_leader_epoch, if version >= 5 { 4 } else { -1 });
            assert_eq!(partition.metadata.as_deref(), Some("note"));
        }
    }
}

#[test]
fn a_fetch_error_is_at_the_top_from_v2_in_the_group_from_v8_and_on_each_partition_in_v1() {
    let answer = fetched(ErrorCode::NotCoordinator, &[]);
    for (version, read) in answers::<OffsetFetchResponse>(versions::OFFSET_FETCH, |out, version| {
        write_fetch(out, version, &answer);
    }) {
        let on_partitions: Vec<i16> =
            read.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect();
        let in_groups: Vec<i16> = read.groups.iter().map(|group| group.error_code).collect();
        let expected = match version {
            1 => (0, vec![16, 16], vec![]),
            2..=7 => (16, vec![], vec![]),
            _ => (0, vec![], vec![16]),
        };
        assert_eq!((read.error_code, on_partitions, in_groups), expected, "v{version}");
    }
}

fn write_fetch(out: &mut Writer<'_>, version: i16, answer: &FetchAnswer<'_>) {
    if version <= 7 {
        answers::offset_fetch_single(out, version, answer, &[("orders".into(), vec![0, 1])]);
    } else {
        let mut part = BytesMut::new();
        answers::offset_fetch_group(&mut Writer::new(&mut part, true), version, answer);
        answers::multi(out, true, [&part[..]].into_iter());
    }
}

#[test]
fn a_description_is_written_in_every_version() {
    let members = [DescribedMember {
        member_id: "m1",
        instance_id: Some("i1"),
        client_id: "client",
        client_host: "/127.0.0.1",
        metadata: b"meta",
        assignment: b"plan",
    }];
    let answer = DescribeAnswer {
        error: ErrorCode::GroupIdNotFound,
        error_message: Some("Group g not found."),
        group_id: "g",
        state: "Stable",
        protocol_type: "consumer",
        protocol_name: "range",
        members: &members,
    };
    for (version, read) in answers::<DescribeGroupsResponse>(versions::DESCRIBE_GROUPS, |out, version| {
        let mut part = BytesMut::new();
        answers::described_group(&mut Writer::new(&mut part, version >= 5), version, &answer, 328);
        answers::multi(out, version >= 1, [&part[..]].into_iter());
    }) {
        let group = &read.groups[0];
        assert_eq!((group.error_code, &**group.group_id, &*group.group_state), (69, "g", "Stable"));
        assert_eq!(group.error_message.as_deref(), (version >= 6).then_some("Group g not found."));
        assert_eq!((&*group.protocol_type, &*group.protocol_data), ("consumer", "range"));
        assert_eq!(group.authorized_operations, if version >= 3 { 328 } else { i32::MIN });
        let member = &group.members[0];
        assert_eq!(member.group_instance_id.as_deref(), (version >= 4).then_some("i1"));
        assert_eq!((&*member.client_host, &member.member_assignment[..]), ("/127.0.0.1", &b"plan"[..]));
    }
}

#[test]
fn a_listing_is_written_in_every_version() {
    let group = ListedGroup { group_id: "g", protocol_type: "consumer", state: "Empty" };
    for (version, read) in answers::<ListGroupsResponse>(versions::LIST_GROUPS, |out, version| {
        let mut line = BytesMut::new();
        answers::listed_group(&mut Writer::new(&mut line, version >= 3), version, &group, "classic");
        answers::list_groups(out, version, ErrorCode::None, 1, &line);
    }) {
        let group = &read.groups[0];
        assert_eq!((&**group.group_id, &*group.protocol_type), ("g", "consumer"));
        assert_eq!(&*group.group_state, if version >= 4 { "Empty" } else { "" });
        assert_eq!(&*group.group_type, if version >= 5 { "classic" } else { "" });
    }
}

#[test]
fn api_versions_lists_every_api_in_every_version() {
    for (_, read) in answers::<ApiVersionsResponse>(versions::API_VERSIONS, |out, version| {
        discovery::api_versions(out, version, 0, &[Feature::group_version(1)], &[]);
    }) {
        let listed: Vec<_> = read.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
        let served: Vec<_> = APIS.iter().map(|api| (api.key, api.min, api.max)).collect();
        assert_eq!((read.error_code, listed), (0, served));
    }
}

/// As Kafka 4.4.0 answers. Its other features say nothing about groups and transactions.
#[test]
fn api_versions_tells_the_levels_of_groups_and_transactions() {
    for levels in [(0, 0), (1, 0), (0, 2), (1, 2)] {
        let features = [Feature::group_version(levels.0), Feature::transaction_version(levels.1)];
        for (version, read) in answers::<ApiVersionsResponse>(versions::API_VERSIONS, |out, version| {
            discovery::api_versions(out, version, 0, &features, &[]);
        }) {
            let supported: Vec<_> =
                read.supported_features.iter().map(|one| (&*one.name, one.min_version, one.max_version)).collect();
            let finalized: Vec<_> = (read.finalized_features.iter())
                .map(|one| (&*one.name, one.min_version_level, one.max_version_level))
                .collect();
            let all = [("group.version", 0, 1), ("transaction.version", 0, 2)];
            assert_eq!(supported, if version >= 4 { &all[..] } else { &[] });
            let in_use = [("group.version", levels.0, levels.0), ("transaction.version", levels.1, levels.1)];
            let in_use = in_use.into_iter().filter(|(_, level, _)| version >= 3 && *level > 0);
            assert_eq!(finalized, in_use.collect::<Vec<_>>());
            assert_eq!(read.finalized_features_epoch, if version >= 3 { 0 } else { -1 });
        }
    }
}

#[test]
fn an_api_versions_request_that_is_too_new_is_answered_in_version_0() {
    let mut out = BytesMut::new();
    discovery::api_versions_unsupported(&mut Writer::new(&mut out, false));
    assert_eq!(&out[..], b"\0\x23\0\0\0\x01\0\x12\0\0\0\x05");
}

#[test]
fn a_coordinator_is_found_in_every_version() {
    let found = FoundCoordinator { error: 0, message: None, node_id: 1, host: "here", port: 9092 };
    for (version, read) in answers::<FindCoordinatorResponse>(versions::FIND_COORDINATOR, |out, version| {
        discovery::find_coordinator(out, version, &["g"], |_| found);
    }) {
        if version <= 3 {
            assert_eq!((read.error_code, read.node_id.0, &*read.host, read.port), (0, 1, "here", 9092));
            assert_eq!(read.error_message.as_deref(), Some(if version >= 1 { "NONE" } else { "" }));
        } else {
            let found = &read.coordinators[0];
            assert_eq!((&*found.key, found.error_code, found.node_id.0, &*found.host), ("g", 0, 1, "here"));
            assert_eq!(found.error_message.as_deref(), Some(""));
        }
    }
}

#[test]
fn what_is_served_is_inside_what_the_other_codec_knows() {
    assert!(APIS.is_sorted_by_key(|api| api.key));
    for api in &APIS {
        assert!(api.min <= api.served_from && api.served_from <= api.max, "{}", api.name);
        assert_eq!(versions::find(api.key), Some(api));
    }
}
