//! An injected error stands where each API's answer has it, in every version that `kafka-protocol` can read.

mod scene;

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        ApiKey, DescribeGroupsRequest, DescribeGroupsResponse, FetchRequest, FetchResponse, FindCoordinatorRequest,
        FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
        LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, MetadataRequest,
        MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
        ProduceRequest, ProduceResponse, SyncGroupRequest, SyncGroupResponse,
        fetch_request::{FetchPartition, FetchTopic},
        leave_group_request::MemberIdentity,
        metadata_request::MetadataRequestTopic,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::{Decodable, Encodable, HeaderVersion, Message, Request},
};
use rota_server::{ServerConfig, ServerError};
use rota_wire::versions;

use scene::{PATIENCE, Scene, group, text, topic};

const NOT_COORDINATOR: i16 = 16;
const UNKNOWN_MEMBER_ID: i16 = 25;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;

/// A server with topic `t` of two partitions.
fn scene() -> Scene {
    let scene = Scene::of(ServerConfig::default());
    scene.server.create_topic("t", 2).unwrap();
    scene
}

impl Scene {
    /// In every version: injects an error, asks, and compares where the answer has codes with what is expected.
    fn check<Q: Request + Encodable + Message>(
        &mut self,
        error: &str,
        request: impl Fn(i16) -> Q,
        codes: impl Fn(&Q::Response) -> Vec<i16>,
        expected: impl Fn(i16) -> Vec<i16>,
    ) where
        Q::Response: Decodable + HeaderVersion,
    {
        let api = versions::find(Q::KEY).expect("the API is served");
        let name = api.name;
        for version in api.min.max(api.served_from)..=api.max.min(Q::VERSIONS.max) {
            let before = self.server.injected();
            let injection = self.server.inject_error(name, error, 1, None).unwrap();
            let answer = self.ask(version, &request(version));
            assert_eq!(codes(&answer), expected(version), "{name} v{version}");
            assert_eq!(self.server.injection(injection), (1, 0), "{name} v{version}");
            assert_eq!(self.server.injected(), before + 1);
        }
    }
}

#[test]
fn requests_that_carry_one_error_are_answered_with_it() {
    let mut scene = scene();
    let one = |code| move |_| vec![code];
    scene.check(
        "NOT_COORDINATOR",
        |_| HeartbeatRequest::default().with_group_id(group("g")).with_member_id(text("m")),
        |answer: &HeartbeatResponse| vec![answer.error_code],
        one(NOT_COORDINATOR),
    );
    scene.check(
        "GROUP_AUTHORIZATION_FAILED",
        |_| JoinGroupRequest::default().with_group_id(group("g")).with_session_timeout_ms(10_000),
        |answer: &JoinGroupResponse| {
            assert_eq!(answer.generation_id, -1);
            vec![answer.error_code]
        },
        one(GROUP_AUTHORIZATION_FAILED),
    );
    scene.check(
        "UNKNOWN_MEMBER_ID",
        |_| SyncGroupRequest::default().with_group_id(group("g")).with_member_id(text("m")),
        |answer: &SyncGroupResponse| vec![answer.error_code],
        one(UNKNOWN_MEMBER_ID),
    );
    scene.check(
        "GROUP_AUTHORIZATION_FAILED",
        |_| ListGroupsRequest::default(),
        |answer: &ListGroupsResponse| vec![answer.error_code],
        one(GROUP_AUTHORIZATION_FAILED),
    );
    assert_eq!(scene.server.groups().unwrap(), [""; 0], "no coordinator has been asked");
}

#[test]
fn what_is_wrong_with_a_leaver_is_said_of_it_and_what_is_wrong_with_the_group_at_the_top() {
    let request = |version| {
        let leave = LeaveGroupRequest::default().with_group_id(group("g"));
        match version {
            0..=2 => leave.with_member_id(text("m")),
            _ => leave.with_members(vec![MemberIdentity::default().with_member_id(text("m"))]),
        }
    };
    let codes = |answer: &LeaveGroupResponse| {
        [answer.error_code].into_iter().chain(answer.members.iter().map(|member| member.error_code)).collect()
    };
    let mut scene = scene();
    scene.check("UNKNOWN_MEMBER_ID", request, codes, |version| match version {
        0..=2 => vec![UNKNOWN_MEMBER_ID],
        _ => vec![0, UNKNOWN_MEMBER_ID],
    });
    scene.check("NOT_COORDINATOR", request, codes, |_| vec![NOT_COORDINATOR]);
}

#[test]
fn a_commit_has_the_error_on_every_partition_that_the_coordinator_would_have_stored() {
    let partition = |index| OffsetCommitRequestPartition::default().with_partition_index(index);
    // There is no partition 2: that is said before, whatever is injected.
    let wanted = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![
        partition(0),
        partition(1),
        partition(2),
    ]);
    let mut scene = scene();
    scene.check(
        "NOT_COORDINATOR",
        |_| OffsetCommitRequest::default().with_group_id(group("g")).with_topics(vec![wanted.clone()]),
        |answer: &OffsetCommitResponse| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let mut codes: Vec<(i32, i16)> = partitions.map(|done| (done.partition_index, done.error_code)).collect();
            codes.sort_unstable();
            codes.into_iter().map(|(_, code)| code).collect()
        },
        |_| vec![NOT_COORDINATOR, NOT_COORDINATOR, 3],
    );
}

#[test]
fn a_fetch_of_offsets_has_the_error_of_each_group_or_in_version_1_of_each_partition() {
    let mut scene = scene();
    scene.check(
        "NOT_COORDINATOR",
        |version| {
            let fetch = OffsetFetchRequest::default();
            if version >= 8 {
                let topics =
                    vec![OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0, 1])];
                let of =
                    |id| OffsetFetchRequestGroup::default().with_group_id(group(id)).with_topics(Some(topics.clone()));
                return fetch.with_groups(vec![of("g"), of("h")]);
            }
            let topics =
                vec![OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0, 1])];
            fetch.with_group_id(group("g")).with_topics(Some(topics))
        },
        |answer: &OffsetFetchResponse| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|found| found.error_code);
            let groups = answer.groups.iter().map(|group| group.error_code);
            [answer.error_code].into_iter().chain(partitions).chain(groups).collect()
        },
        // Two partitions in version 1, two groups from version 8 on.
        |version| match version {
            2..=7 => vec![NOT_COORDINATOR],
            _ => vec![0, NOT_COORDINATOR, NOT_COORDINATOR],
        },
    );
}

#[test]
fn a_description_and_a_coordinator_have_the_error_of_each_group() {
    let mut scene = scene();
    scene.check(
        "NOT_COORDINATOR",
        |_| DescribeGroupsRequest::default().with_groups(vec![group("g"), group("h")]),
        |answer: &DescribeGroupsResponse| answer.groups.iter().map(|group| group.error_code).collect(),
        |_| vec![NOT_COORDINATOR, NOT_COORDINATOR],
    );
    scene.check(
        "GROUP_AUTHORIZATION_FAILED",
        |version| {
            let find = FindCoordinatorRequest::default();
            if version >= 4 { find.with_coordinator_keys(vec![text("g"), text("h")]) } else { find.with_key(text("g")) }
        },
        |answer: &FindCoordinatorResponse| {
            if answer.coordinators.is_empty() {
                return vec![answer.error_code, answer.node_id.0 as i16];
            }
            answer.coordinators.iter().map(|found| found.error_code).collect()
        },
        |version| match version {
            0..=3 => vec![GROUP_AUTHORIZATION_FAILED, -1],
            _ => vec![GROUP_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED],
        },
    );
}

#[test]
fn topics_and_partitions_have_the_error_where_messages_are_concerned() {
    let mut scene = scene();
    scene.check(
        "LEADER_NOT_AVAILABLE",
        |_| {
            MetadataRequest::default()
                .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(topic("t")))]))
        },
        |answer: &MetadataResponse| {
            assert_eq!(answer.brokers.len(), 1);
            answer.topics.iter().map(|topic| topic.error_code).collect()
        },
        |_| vec![5],
    );
    scene.check(
        "NOT_ENOUGH_REPLICAS",
        |_| {
            let data = PartitionProduceData::default().with_index(0).with_records(Some(Bytes::from_static(b"any")));
            let topic = TopicProduceData::default().with_name(topic("t")).with_partition_data(vec![data]);
            ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic])
        },
        |answer: &ProduceResponse| {
            let partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
            partitions.map(|stored| stored.error_code).collect()
        },
        |_| vec![19],
    );
    let fetch = |_| {
        let topic = FetchTopic::default().with_topic(topic("t")).with_partitions(vec![FetchPartition::default()]);
        FetchRequest::default().with_max_wait_ms(60_000).with_min_bytes(1).with_topics(vec![topic])
    };
    let codes = |answer: &FetchResponse| {
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions).map(|found| found.error_code);
        [answer.error_code].into_iter().chain(partitions).collect()
    };
    scene.check("NOT_LEADER_OR_FOLLOWER", fetch, codes, |_| vec![0, 6]);
}

#[test]
fn names_that_are_none_are_refused_with_the_nearest_that_is() {
    let Scene { server, .. } = scene();
    let said = |api, error| server.inject_error(api, error, 1, None).unwrap_err().to_string();
    assert!(said("OffsetComit", "NOT_COORDINATOR").ends_with("the nearest one is `OffsetCommit`"));
    assert!(said("ApiVersions", "NOT_COORDINATOR").starts_with("no API that can answer an injected error"));
    assert!(said("Heartbeat", "NOT_COORDINATR").ends_with("the nearest one is `NOT_COORDINATOR`"));
    assert!(!said("Heartbeat", "FOO").contains("nearest"));
    assert!(said("Foo", "NOT_COORDINATOR").contains("there are `Produce`, `Fetch`, "));
    assert!(matches!(server.inject_error("Heartbeat", "NONE", 1, None), Err(ServerError::UnknownErrorName { .. })));
    server.stop(PATIENCE).unwrap();
    assert!(matches!(server.inject_error("Heartbeat", "NOT_COORDINATOR", 1, None), Err(ServerError::Stopped)));
    assert!(matches!(server.delay_appends(1), Err(ServerError::Stopped)));
    assert!(matches!(server.rebalance("g"), Err(ServerError::Stopped)));
}

#[test]
fn every_api_about_groups_can_be_made_to_answer_an_error() {
    let Scene { server, .. } = scene();
    let about_groups = [8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47];
    for api in versions::APIS.iter().filter(|api| about_groups.contains(&api.key)) {
        server.inject_error(api.name, "NOT_COORDINATOR", 0, None).unwrap();
    }
    assert_eq!(ApiKey::Heartbeat as i16, 12);
}
