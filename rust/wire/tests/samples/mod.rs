//! One request of every API in every version that is served, encoded by the `kafka-protocol` crate: the other side
//! of these tests.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        AlterUserScramCredentialsRequest, ApiVersionsRequest, ConsumerGroupDescribeRequest,
        ConsumerGroupHeartbeatRequest, CreateAclsRequest, CreatePartitionsRequest, CreateTopicsRequest,
        DeleteAclsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeAclsRequest,
        DescribeClientQuotasRequest, DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest,
        DescribeLogDirsRequest, DescribeUserScramCredentialsRequest, ElectLeadersRequest, FetchRequest,
        FindCoordinatorRequest, GroupId, HeartbeatRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
        JoinGroupRequest, LeaveGroupRequest, ListConfigResourcesRequest, ListGroupsRequest, ListOffsetsRequest,
        ListPartitionReassignmentsRequest, MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest,
        OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest, ProducerId, SyncGroupRequest, TopicName,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
        consumer_group_heartbeat_request::TopicPartitions,
        create_acls_request::AclCreation,
        create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
        delete_acls_request::DeleteAclsFilter,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        delete_topics_request::DeleteTopicState,
        describe_client_quotas_request::ComponentData,
        describe_configs_request::DescribeConfigsResource,
        describe_log_dirs_request::DescribableLogDirTopic,
        describe_user_scram_credentials_request::UserName,
        elect_leaders_request::TopicPartitions as ElectedPartitions,
        fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        list_partition_reassignments_request::ListPartitionReassignmentsTopics,
        metadata_request::MetadataRequestTopic,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::{Encodable, StrBytes},
};
use rota_wire::versions::{self, Api};
use uuid::Uuid;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group() -> GroupId {
    GroupId(text("größe"))
}

fn topic() -> TopicName {
    TopicName(text("orders"))
}

fn encoded(request: &impl Encodable, version: i16) -> Vec<u8> {
    let mut out = BytesMut::new();
    request.encode(&mut out, version).unwrap_or_else(|error| panic!("v{version}: {error}"));
    out.to_vec()
}

/// The body of a request to `api` in `version` that uses every field of that version.
pub fn body(api: &Api, version: i16) -> Vec<u8> {
    match api.key {
        versions::JOIN_GROUP | versions::SYNC_GROUP | versions::HEARTBEAT | versions::LEAVE_GROUP => {
            member_body(api.key, version)
        }
        versions::OFFSET_COMMIT | versions::OFFSET_FETCH => offsets_body(api.key, version),
        versions::DELETE_GROUPS | versions::OFFSET_DELETE => deletes_body(api.key, version),
        versions::DESCRIBE_GROUPS | versions::LIST_GROUPS | versions::FIND_COORDINATOR | versions::API_VERSIONS => {
            discovery_body(api.key, version)
        }
        versions::PRODUCE | versions::FETCH | versions::LIST_OFFSETS => data_body(api.key, version),
        versions::OFFSET_FOR_LEADER_EPOCH
        | versions::DESCRIBE_CONFIGS
        | versions::INCREMENTAL_ALTER_CONFIGS
        | versions::DESCRIBE_CLUSTER => described_body(api.key, version),
        versions::DESCRIBE_ACLS | versions::CREATE_ACLS | versions::DELETE_ACLS => acls_body(api.key, version),
        versions::DESCRIBE_LOG_DIRS
        | versions::ELECT_LEADERS
        | versions::LIST_PARTITION_REASSIGNMENTS
        | versions::LIST_CONFIG_RESOURCES => tools_body(api.key, version),
        versions::DESCRIBE_CLIENT_QUOTAS => {
            let component = |name: Option<StrBytes>| {
                ComponentData::default().with_entity_type(text("user")).with_match_type(2).with_match(name)
            };
            let components = vec![component(Some(text("größe"))), component(None)];
            encoded(&DescribeClientQuotasRequest::default().with_components(components).with_strict(true), version)
        }
        versions::DESCRIBE_USER_SCRAM_CREDENTIALS => {
            let users = ["ana", "größe"].map(|name| UserName::default().with_name(text(name)));
            encoded(&DescribeUserScramCredentialsRequest::default().with_users(Some(users.to_vec())), version)
        }
        versions::ALTER_USER_SCRAM_CREDENTIALS => {
            let deletion = ScramCredentialDeletion::default().with_name(text("größe")).with_mechanism(1);
            let upsertion = ScramCredentialUpsertion::default()
                .with_name(text("ana"))
                .with_mechanism(2)
                .with_iterations(4_096)
                .with_salt(Bytes::from_static(b"salt"))
                .with_salted_password(Bytes::from_static(b"salted"));
            let request = AlterUserScramCredentialsRequest::default()
                .with_deletions(vec![deletion])
                .with_upsertions(vec![upsertion.clone(), upsertion]);
            encoded(&request, version)
        }
        _ => topics_body(api.key, version),
    }
}

fn tools_body(key: i16, version: i16) -> Vec<u8> {
    match key {
        versions::DESCRIBE_LOG_DIRS => {
            let asked = DescribableLogDirTopic::default().with_topic(topic()).with_partitions(vec![0, 9]);
            // The crate stops at v4; requests of v5 are the same.
            encoded(&DescribeLogDirsRequest::default().with_topics(Some(vec![asked.clone(), asked])), version.min(4))
        }
        versions::ELECT_LEADERS => {
            let asked = ElectedPartitions::default().with_topic(topic()).with_partitions(vec![0, 9]);
            let request = ElectLeadersRequest::default()
                .with_election_type(i8::from(version >= 1))
                .with_topic_partitions(Some(vec![asked]))
                .with_timeout_ms(30_000);
            encoded(&request, version)
        }
        versions::LIST_PARTITION_REASSIGNMENTS => {
            let asked =
                ListPartitionReassignmentsTopics::default().with_name(topic()).with_partition_indexes(vec![0, 9]);
            encoded(&ListPartitionReassignmentsRequest::default().with_topics(Some(vec![asked])), version)
        }
        _ => {
            let types = if version >= 1 { vec![2, 32] } else { Vec::new() };
            encoded(&ListConfigResourcesRequest::default().with_resource_types(types), version)
        }
    }
}

fn acls_body(key: i16, version: i16) -> Vec<u8> {
    match key {
        versions::DESCRIBE_ACLS => {
            let request = DescribeAclsRequest::default()
                .with_resource_type_filter(2)
                .with_resource_name_filter(Some(text("orders")))
                .with_pattern_type_filter(2)
                .with_principal_filter(Some(text("User:ana")))
                .with_operation(1)
                .with_permission_type(1);
            encoded(&request, version)
        }
        versions::CREATE_ACLS => {
            let creation = AclCreation::default()
                .with_resource_type(2)
                .with_resource_name(text("größe"))
                .with_resource_pattern_type(4)
                .with_principal(text("User:*"))
                .with_host(text("*"))
                .with_operation(3)
                .with_permission_type(3);
            encoded(&CreateAclsRequest::default().with_creations(vec![creation.clone(), creation]), version)
        }
        _ => {
            let filter = DeleteAclsFilter::default()
                .with_resource_type_filter(3)
                .with_resource_name_filter(Some(text("größe")))
                .with_pattern_type_filter(1)
                .with_host_filter(Some(text("127.0.0.1")))
                .with_operation(1)
                .with_permission_type(2);
            encoded(&DeleteAclsRequest::default().with_filters(vec![filter.clone(), filter]), version)
        }
    }
}

fn member_body(key: i16, version: i16) -> Vec<u8> {
    let instance = |since| (version >= since).then(|| text("instance-1"));
    match key {
        versions::JOIN_GROUP => {
            let protocol = |name, metadata: &'static [u8]| {
                JoinGroupRequestProtocol::default().with_name(text(name)).with_metadata(Bytes::from_static(metadata))
            };
            let request = JoinGroupRequest::default()
                .with_group_id(group())
                .with_session_timeout_ms(10_000)
                .with_rebalance_timeout_ms(if version >= 1 { 60_000 } else { -1 })
                .with_member_id(text("member-1"))
                .with_group_instance_id(instance(5))
                .with_protocol_type(text("consumer"))
                .with_protocols(vec![protocol("range", b"\0\x01"), protocol("sticky", b"")])
                .with_reason((version >= 8).then(|| text("rejoin")));
            encoded(&request, version)
        }
        versions::SYNC_GROUP => {
            let assignment = |member, bytes: &'static [u8]| {
                SyncGroupRequestAssignment::default()
                    .with_member_id(text(member))
                    .with_assignment(Bytes::from_static(bytes))
            };
            let request = SyncGroupRequest::default()
                .with_group_id(group())
                .with_generation_id(7)
                .with_member_id(text("member-1"))
                .with_group_instance_id(instance(3))
                .with_protocol_type((version >= 5).then(|| text("consumer")))
                .with_protocol_name((version >= 5).then(|| text("range")))
                .with_assignments(vec![assignment("member-1", b"one"), assignment("member-2", b"")]);
            encoded(&request, version)
        }
        versions::HEARTBEAT => {
            let request = HeartbeatRequest::default()
                .with_group_id(group())
                .with_generation_id(7)
                .with_member_id(text("member-1"))
                .with_group_instance_id(instance(3));
            encoded(&request, version)
        }
        _ => {
            let member = MemberIdentity::default()
                .with_member_id(text("member-1"))
                .with_group_instance_id(instance(3))
                .with_reason((version >= 5).then(|| text("closed")));
            let request = LeaveGroupRequest::default().with_group_id(group());
            let request = if version <= 2 {
                request.with_member_id(text("member-1"))
            } else {
                request.with_members(vec![member.clone(), member])
            };
            encoded(&request, version)
        }
    }
}

/// The id of the topic in [`offsets_body`]: sixteen bytes that its name could be.
pub const TOPIC_ID: u128 = u128::from_be_bytes(*b"orders-by-its-id");

fn offsets_body(key: i16, version: i16) -> Vec<u8> {
    if version >= 10 {
        // The crate stops at v9; v10 has the topic's id where the name was, which comes in both but once.
        let named = offsets_body(key, 9);
        let name = b"\x07orders";
        let at = named.windows(name.len()).position(|bytes| bytes == name).unwrap();
        return [&named[..at], &TOPIC_ID.to_be_bytes(), &named[at + name.len()..]].concat();
    }
    if key == versions::OFFSET_COMMIT {
        let partition = |index, metadata: Option<&str>| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(100 + i64::from(index))
                .with_committed_leader_epoch(if version >= 6 { 3 } else { -1 })
                .with_committed_metadata(metadata.map(text))
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic())
            .with_partitions(vec![partition(0, Some("note")), partition(1, None)]);
        let request = OffsetCommitRequest::default()
            .with_group_id(group())
            .with_generation_id_or_member_epoch(7)
            .with_member_id(text("member-1"))
            .with_group_instance_id((version >= 7).then(|| text("instance-1")))
            .with_retention_time_ms(if version <= 4 { 86_400_000 } else { -1 })
            .with_topics(vec![topic]);
        return encoded(&request, version);
    }
    let request = if version <= 7 {
        let topic = OffsetFetchRequestTopic::default().with_name(topic()).with_partition_indexes(vec![0, 1]);
        OffsetFetchRequest::default().with_group_id(group()).with_topics(Some(vec![topic]))
    } else {
        let topic = OffsetFetchRequestTopics::default().with_name(topic()).with_partition_indexes(vec![0, 1]);
        let asked = OffsetFetchRequestGroup::default().with_group_id(group()).with_topics(Some(vec![topic]));
        let asked = if version >= 9 { asked.with_member_id(Some(text("m"))).with_member_epoch(4) } else { asked };
        let all = OffsetFetchRequestGroup::default().with_group_id(GroupId(text("all"))).with_topics(None);
        OffsetFetchRequest::default().with_groups(vec![asked, all])
    };
    encoded(&request.with_require_stable(version >= 7), version)
}

fn deletes_body(key: i16, version: i16) -> Vec<u8> {
    if key == versions::DELETE_GROUPS {
        // The crate stops at v2; requests of v3 are the same.
        let request = DeleteGroupsRequest::default().with_groups_names(vec![group(), GroupId(text(""))]);
        return encoded(&request, version.min(2));
    }
    let partition = |index| OffsetDeleteRequestPartition::default().with_partition_index(index);
    let topic =
        OffsetDeleteRequestTopic::default().with_name(topic()).with_partitions(vec![partition(0), partition(9)]);
    encoded(&OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![topic]), version)
}

fn discovery_body(key: i16, version: i16) -> Vec<u8> {
    match key {
        versions::DESCRIBE_GROUPS => {
            let request = DescribeGroupsRequest::default()
                .with_groups(vec![group(), GroupId(text(""))])
                .with_include_authorized_operations(version >= 3);
            encoded(&request, version)
        }
        versions::LIST_GROUPS => {
            let states = if version >= 4 { vec![text("Stable"), text("Empty")] } else { Vec::new() };
            let types = if version >= 5 { vec![text("classic")] } else { Vec::new() };
            encoded(&ListGroupsRequest::default().with_states_filter(states).with_types_filter(types), version)
        }
        versions::FIND_COORDINATOR => {
            let request = FindCoordinatorRequest::default().with_key_type(i8::from(version >= 1));
            let request = if version <= 3 {
                request.with_key(text("g"))
            } else {
                request.with_coordinator_keys(vec![text("g"), text("h")])
            };
            encoded(&request, version)
        }
        _ => {
            let request = ApiVersionsRequest::default()
                .with_client_software_name(text(if version >= 3 { "rota-test" } else { "" }))
                .with_client_software_version(text(if version >= 3 { "1.0" } else { "" }));
            // The crate stops at v4; v5 adds a nullable cluster id and a node id in front of the tagged fields.
            let mut body = encoded(&request, version.min(4));
            if version >= 5 {
                body.truncate(body.len() - 1);
                body.extend_from_slice(b"\x08cluster\0\0\0\x01\0");
            }
            body
        }
    }
}

fn data_body(key: i16, version: i16) -> Vec<u8> {
    let id = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
    match key {
        versions::PRODUCE => {
            let partition = PartitionProduceData::default()
                .with_index(3)
                .with_records(Some(Bytes::from_static(b"not looked at by the codec")));
            let data = TopicProduceData::default().with_partition_data(vec![partition]);
            let data = if version <= 12 { data.with_name(topic()) } else { data.with_topic_id(id) };
            encoded(
                &ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![data]),
                version,
            )
        }
        versions::FETCH => {
            let partition = FetchPartition::default().with_partition(3).with_fetch_offset(9);
            let partition = if version >= 17 { partition.with_replica_directory_id(id) } else { partition };
            let partition = if version >= 18 { partition.with_high_watermark(5) } else { partition };
            let fetched = FetchTopic::default().with_partitions(vec![partition]);
            let fetched = if version <= 12 { fetched.with_topic(topic()) } else { fetched.with_topic_id(id) };
            let forgotten = ForgottenTopic::default().with_partitions(vec![1, 2]);
            let forgotten = if version <= 12 { forgotten.with_topic(topic()) } else { forgotten.with_topic_id(id) };
            let request = FetchRequest::default().with_max_wait_ms(500).with_min_bytes(1).with_topics(vec![fetched]);
            let request = if version >= 7 { request.with_forgotten_topics_data(vec![forgotten]) } else { request };
            let request = if version >= 12 { request.with_cluster_id(Some(text("cluster"))) } else { request };
            encoded(&request, version)
        }
        _ => {
            let partition = ListOffsetsPartition::default().with_partition_index(3).with_timestamp(-1);
            let listed = ListOffsetsTopic::default().with_name(topic()).with_partitions(vec![partition]);
            encoded(&ListOffsetsRequest::default().with_topics(vec![listed]), version)
        }
    }
}

fn described_body(key: i16, version: i16) -> Vec<u8> {
    match key {
        versions::OFFSET_FOR_LEADER_EPOCH => {
            let partition = OffsetForLeaderPartition::default().with_partition(3).with_leader_epoch(2);
            let asked = OffsetForLeaderTopic::default().with_topic(topic()).with_partitions(vec![partition]);
            encoded(&OffsetForLeaderEpochRequest::default().with_topics(vec![asked]), version)
        }
        versions::DESCRIBE_CONFIGS => {
            let resource = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("orders"));
            let keys = resource.clone().with_configuration_keys(Some(vec![text("retention.ms")]));
            let request = DescribeConfigsRequest::default()
                .with_resources(vec![keys, resource.with_configuration_keys(None)])
                .with_include_synonyms(true)
                .with_include_documentation(version >= 3);
            encoded(&request, version)
        }
        versions::INCREMENTAL_ALTER_CONFIGS => {
            let set = AlterableConfig::default().with_name(text("consumer.session.timeout.ms"));
            let delete = set.clone().with_name(text("consumer.heartbeat.interval.ms")).with_config_operation(1);
            let resource = AlterConfigsResource::default()
                .with_resource_type(32)
                .with_resource_name(text("größe"))
                .with_configs(vec![set.with_value(Some(text("50000"))), delete.with_value(None)]);
            encoded(&IncrementalAlterConfigsRequest::default().with_resources(vec![resource]), version)
        }
        _ => {
            let request = DescribeClusterRequest::default()
                .with_include_cluster_authorized_operations(true)
                .with_endpoint_type(1)
                .with_include_fenced_brokers(version >= 2);
            encoded(&request, version)
        }
    }
}

fn topics_body(key: i16, version: i16) -> Vec<u8> {
    match key {
        versions::METADATA => {
            let request = MetadataRequest::default()
                .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(topic()))]))
                .with_include_topic_authorized_operations(version >= 8);
            encoded(&request, version)
        }
        versions::CREATE_TOPICS => {
            let assignment = CreatableReplicaAssignment::default().with_broker_ids(vec![1.into(), 2.into()]);
            let config = CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(Some(text("-1")));
            let created = CreatableTopic::default()
                .with_name(topic())
                .with_num_partitions(3)
                .with_assignments(vec![assignment])
                .with_configs(vec![config.clone(), config.with_value(None)]);
            encoded(&CreateTopicsRequest::default().with_topics(vec![created]), version)
        }
        versions::DELETE_TOPICS => {
            let request = if version <= 5 {
                DeleteTopicsRequest::default().with_topic_names(vec![topic(), topic()])
            } else {
                DeleteTopicsRequest::default().with_topics(vec![DeleteTopicState::default().with_name(Some(topic()))])
            };
            encoded(&request, version)
        }
        versions::DELETE_RECORDS => {
            let deleted = DeleteRecordsPartition::default().with_partition_index(1).with_offset(7);
            let deleted =
                DeleteRecordsTopic::default().with_name(topic()).with_partitions(vec![deleted.clone(), deleted]);
            encoded(&DeleteRecordsRequest::default().with_topics(vec![deleted]), version)
        }
        versions::CONSUMER_GROUP_HEARTBEAT => {
            let owned = TopicPartitions::default().with_partitions(vec![1, 2]);
            let request = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(group())
                .with_subscribed_topic_names(Some(vec![topic(), topic()]))
                .with_subscribed_topic_regex((version >= 1).then(|| text("o.*")))
                .with_topic_partitions(Some(vec![owned]));
            encoded(&request, version)
        }
        versions::CONSUMER_GROUP_DESCRIBE => {
            let request = ConsumerGroupDescribeRequest::default()
                .with_group_ids(vec![group(), group()])
                .with_include_authorized_operations(true);
            encoded(&request, version)
        }
        versions::CREATE_PARTITIONS => {
            let assignment = CreatePartitionsAssignment::default().with_broker_ids(vec![1.into()]);
            let grown = CreatePartitionsTopic::default()
                .with_name(topic())
                .with_count(9)
                .with_assignments(Some(vec![assignment]));
            encoded(&CreatePartitionsRequest::default().with_topics(vec![grown]), version)
        }
        _ => {
            let request = InitProducerIdRequest::default().with_transactional_id(None);
            let request = if version >= 3 { request.with_producer_id(ProducerId(5)) } else { request };
            encoded(&request, version)
        }
    }
}
