//! Frames decoded as the server does. Tests and a target of `rust/fuzz` share it.

use bytes::Bytes;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, CreateAclsRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteAclsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeAclsRequest, DescribeClientQuotasRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeLogDirsRequest, DescribeUserScramCredentialsRequest,
    ElectLeadersRequest, FetchRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
    ListConfigResourcesRequest, ListOffsetsRequest, ListPartitionReassignmentsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest,
};
use rota_wire::{
    RequestHeader, WireError,
    consumer_groups::{DescribeBody, HeartbeatBody},
    decode_body,
    discovery::{ApiVersionsBody, FindCoordinatorBody},
    requests::{
        DescribeGroupsBody, JoinGroupBody, LeaveGroupBody, ListGroupsBody, OffsetCommitBody, OffsetDeleteBody,
        OffsetFetchBody, SyncGroupBody, read_delete_groups, read_heartbeat,
    },
    versions,
};

/// Decodes a frame from its header on.
pub fn decode_frame(frame: &[u8]) -> Result<(), WireError> {
    let (header, body) = RequestHeader::read(frame)?;
    if header.api.serves(header.version) { decode(header.api.key, header.version, body) } else { Ok(()) }
}

fn decode(key: i16, version: i16, body: &[u8]) -> Result<(), WireError> {
    let bytes = || Bytes::copy_from_slice(body);
    match key {
        versions::JOIN_GROUP => JoinGroupBody::read(version, body).map(drop),
        versions::SYNC_GROUP => SyncGroupBody::read(version, body).map(drop),
        versions::HEARTBEAT => read_heartbeat(version, body).map(drop),
        versions::LEAVE_GROUP => LeaveGroupBody::read(version, body).map(drop),
        versions::OFFSET_COMMIT => OffsetCommitBody::read(version, body).map(drop),
        versions::OFFSET_FETCH => OffsetFetchBody::read(version, body).map(drop),
        versions::DESCRIBE_GROUPS => DescribeGroupsBody::read(version, body).map(drop),
        versions::DELETE_GROUPS => read_delete_groups(version, body).map(drop),
        versions::OFFSET_DELETE => OffsetDeleteBody::read(version, body).map(drop),
        versions::LIST_GROUPS => ListGroupsBody::read(version, body).map(drop),
        versions::API_VERSIONS => ApiVersionsBody::read(version, body).map(drop),
        versions::FIND_COORDINATOR => FindCoordinatorBody::read(version, body).map(drop),
        versions::PRODUCE => decode_body::<ProduceRequest>(key, version, &bytes()).map(drop),
        versions::FETCH => decode_body::<FetchRequest>(key, version, &bytes()).map(drop),
        versions::LIST_OFFSETS => decode_body::<ListOffsetsRequest>(key, version, &bytes()).map(drop),
        versions::METADATA => decode_body::<MetadataRequest>(key, version, &bytes()).map(drop),
        versions::CREATE_TOPICS => decode_body::<CreateTopicsRequest>(key, version, &bytes()).map(drop),
        versions::DELETE_TOPICS => decode_body::<DeleteTopicsRequest>(key, version, &bytes()).map(drop),
        versions::DELETE_RECORDS => decode_body::<DeleteRecordsRequest>(key, version, &bytes()).map(drop),
        versions::CREATE_PARTITIONS => decode_body::<CreatePartitionsRequest>(key, version, &bytes()).map(drop),
        versions::OFFSET_FOR_LEADER_EPOCH => {
            decode_body::<OffsetForLeaderEpochRequest>(key, version, &bytes()).map(drop)
        }
        versions::INCREMENTAL_ALTER_CONFIGS => {
            decode_body::<IncrementalAlterConfigsRequest>(key, version, &bytes()).map(drop)
        }
        // The crate stops at v4; requests of v5 are the same.
        versions::DESCRIBE_LOG_DIRS => decode_body::<DescribeLogDirsRequest>(key, version.min(4), &bytes()).map(drop),
        versions::ELECT_LEADERS => decode_body::<ElectLeadersRequest>(key, version, &bytes()).map(drop),
        versions::LIST_PARTITION_REASSIGNMENTS => {
            decode_body::<ListPartitionReassignmentsRequest>(key, version, &bytes()).map(drop)
        }
        versions::LIST_CONFIG_RESOURCES => decode_body::<ListConfigResourcesRequest>(key, version, &bytes()).map(drop),
        versions::DESCRIBE_ACLS => decode_body::<DescribeAclsRequest>(key, version, &bytes()).map(drop),
        versions::CREATE_ACLS => decode_body::<CreateAclsRequest>(key, version, &bytes()).map(drop),
        versions::DELETE_ACLS => decode_body::<DeleteAclsRequest>(key, version, &bytes()).map(drop),
        versions::DESCRIBE_CLIENT_QUOTAS => {
            decode_body::<DescribeClientQuotasRequest>(key, version, &bytes()).map(drop)
        }
        versions::DESCRIBE_USER_SCRAM_CREDENTIALS => {
            decode_body::<DescribeUserScramCredentialsRequest>(key, version, &bytes()).map(drop)
        }
        versions::ALTER_USER_SCRAM_CREDENTIALS => {
            decode_body::<AlterUserScramCredentialsRequest>(key, version, &bytes()).map(drop)
        }
        versions::DESCRIBE_CONFIGS => decode_body::<DescribeConfigsRequest>(key, version, &bytes()).map(drop),
        versions::DESCRIBE_CLUSTER => decode_body::<DescribeClusterRequest>(key, version, &bytes()).map(drop),
        versions::CONSUMER_GROUP_HEARTBEAT => HeartbeatBody::read(version, body).map(drop),
        versions::CONSUMER_GROUP_DESCRIBE => DescribeBody::read(body).map(drop),
        versions::INIT_PRODUCER_ID => decode_body::<InitProducerIdRequest>(key, version, &bytes()).map(drop),
        key => panic!("no decoder for API {key}"),
    }
}
