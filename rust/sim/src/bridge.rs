//! Converts between the member's messages and the coordinator's: the wire without bytes.

use rota_core::{Answer as CoreAnswer, ErrorCode};
use rota_journal::owned::{self, Text};
use rota_member::{Answer, ConsumerHeartbeat, Offset, Partition, Request, event::Joined};

/// The newest version of `JoinGroup`.
pub const JOIN_VERSION: i16 = 9;
/// The newest versions of the other requests; they carry all fields of the member's side.
const SYNC_VERSION: i16 = 5;
const LEAVE_VERSION: i16 = 5;
const COMMIT_VERSION: i16 = 9;
const CONSUMER_HEARTBEAT_VERSION: i16 = 1;

/// Converts a request, with the `JoinGroup` version of its client; `None` for requests that any broker answers.
pub fn to_core(request: &Request, client_id: &str, join_version: i16) -> Option<owned::Request<'static>> {
    Some(match request {
        Request::FindCoordinator { .. } | Request::Metadata { .. } | Request::TopicNames { .. } => return None,
        Request::JoinGroup {
            group_id,
            member_id,
            instance_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocols,
            reason: _,
        } => owned::Request::JoinGroup(owned::JoinGroup {
            version: join_version,
            group_id: Some(text(group_id)),
            member_id: text(member_id),
            instance_id: instance_id.as_deref().map(text),
            client_id: text(client_id),
            client_host: Text::Borrowed("/127.0.0.1"),
            session_timeout_ms: *session_timeout_ms,
            // Version 0 does not have the field.
            rebalance_timeout_ms: if join_version == 0 { -1 } else { *rebalance_timeout_ms },
            protocol_type: Text::Borrowed("consumer"),
            protocols: protocols.iter().map(offered).collect(),
            reason: None,
        }),
        Request::SyncGroup { group_id, generation, member_id, instance_id, protocol_name, assignments } => {
            owned::Request::SyncGroup(owned::SyncGroup {
                version: SYNC_VERSION,
                group_id: Some(text(group_id)),
                generation: *generation,
                member_id: text(member_id),
                instance_id: instance_id.as_deref().map(text),
                protocol_type: Some(Text::Borrowed("consumer")),
                protocol_name: Some(text(protocol_name)),
                assignments: assignments.iter().map(assigned).collect(),
            })
        }
        Request::Heartbeat { group_id, generation, member_id, instance_id } => {
            owned::Request::Heartbeat(owned::Heartbeat {
                group_id: Some(text(group_id)),
                generation: *generation,
                member_id: text(member_id),
                instance_id: instance_id.as_deref().map(text),
            })
        }
        Request::ConsumerGroupHeartbeat(heartbeat) => consumer_heartbeat(heartbeat, client_id),
        Request::LeaveGroup { group_id, member_id, instance_id, reason: _ } => {
            let (member_id, instance_id) = (text(member_id), instance_id.as_deref().map(text));
            let members = vec![owned::LeaveIdentity { member_id, instance_id, reason: None }];
            let group_id = Some(text(group_id));
            owned::Request::LeaveGroup(owned::LeaveGroup { version: LEAVE_VERSION, group_id, members })
        }
        Request::OffsetCommit { group_id, generation, member_id, instance_id, offsets } => {
            owned::Request::OffsetCommit(owned::OffsetCommit {
                version: COMMIT_VERSION,
                group_id: Some(text(group_id)),
                generation: *generation,
                member_id: text(member_id),
                instance_id: instance_id.as_deref().map(text),
                retention_time_ms: None,
                topics: offsets.iter().map(committed).collect(),
            })
        }
        Request::OffsetFetch { group_id, member, partitions } => fetch(group_id, member.as_ref(), partitions),
    })
}

fn consumer_heartbeat(heartbeat: &ConsumerHeartbeat, client_id: &str) -> owned::Request<'static> {
    let topics = heartbeat.topics.as_ref();
    owned::Request::ConsumerGroupHeartbeat(owned::ConsumerGroupHeartbeat {
        version: CONSUMER_HEARTBEAT_VERSION,
        group_id: text(&heartbeat.group_id),
        member_id: text(&heartbeat.member_id),
        member_epoch: heartbeat.epoch,
        instance_id: heartbeat.instance_id.as_deref().map(text),
        rack_id: heartbeat.rack.as_deref().map(text),
        rebalance_timeout_ms: heartbeat.rebalance_timeout_ms,
        subscribed_topic_names: topics.map(|topics| topics.iter().map(|topic| text(topic)).collect()),
        subscribed_topic_regex: heartbeat.pattern.as_deref().map(text),
        server_assignor: heartbeat.assignor.as_deref().map(text),
        topic_partitions: heartbeat.owned.as_ref().map(|topics| topics.iter().map(reported).collect()),
        client_id: text(client_id),
        client_host: Text::Borrowed("/127.0.0.1"),
    })
}

/// A member of the newer protocol fetches with its id and epoch.
fn fetch(group_id: &str, member: Option<&(String, i32)>, partitions: &[Partition]) -> owned::Request<'static> {
    let (group_id, require_stable) = (Some(text(group_id)), true);
    let topics = Some(partitions.iter().map(fetched).collect());
    match member {
        None => owned::Request::OffsetFetch(owned::OffsetFetch { group_id, require_stable, topics }),
        Some((member_id, member_epoch)) => owned::Request::ConsumerOffsetFetch(owned::ConsumerOffsetFetch {
            group_id,
            member_id: Some(text(member_id)),
            member_epoch: *member_epoch,
            require_stable,
            topics,
        }),
    }
}

fn text(text: &str) -> Text<'static> {
    Text::Shared(text.into())
}

fn reported((topic_id, partitions): &(u128, Vec<i32>)) -> owned::TopicPartitions<'static> {
    owned::TopicPartitions { topic_id: *topic_id, partitions: partitions.clone().into() }
}

fn offered((name, metadata): &(String, Vec<u8>)) -> owned::Protocol<'static> {
    owned::Protocol { name: text(name), metadata: metadata.clone().into() }
}

fn assigned((member_id, part): &(String, Vec<u8>)) -> owned::Assignment<'static> {
    owned::Assignment { member_id: text(member_id), assignment: part.clone().into() }
}

fn committed((partition, offset): &(Partition, Offset)) -> owned::CommitTopic<'static> {
    let committed = owned::CommitPartition {
        index: partition.index,
        offset: offset.offset,
        leader_epoch: offset.leader_epoch,
        metadata: Some(text(&offset.metadata)),
    };
    owned::CommitTopic { name: text(&partition.topic), topic_id: 0, partitions: vec![committed] }
}

fn fetched(partition: &Partition) -> owned::FetchTopic<'static> {
    owned::FetchTopic { name: text(&partition.topic), topic_id: 0, partitions: vec![partition.index] }
}

/// Converts an answer; `None` for an answer to a request that members never send.
pub fn to_member(answer: &CoreAnswer<'_>) -> Option<Answer> {
    Some(match answer {
        CoreAnswer::JoinGroup(join) => Answer::JoinGroup {
            error: join.error,
            generation: join.generation,
            protocol_name: join.protocol_name.unwrap_or_default().to_owned(),
            leader: join.leader.to_owned(),
            member_id: join.member_id.to_owned(),
            skip_assignment: join.skip_assignment,
            members: join
                .members
                .iter()
                .map(|member| Joined {
                    member_id: member.member_id.to_owned(),
                    instance_id: member.instance_id.map(str::to_owned),
                    metadata: member.metadata.to_vec(),
                })
                .collect(),
        },
        CoreAnswer::SyncGroup(sync) => Answer::SyncGroup {
            error: sync.error,
            protocol_name: sync.protocol_name.map(str::to_owned),
            assignment: sync.assignment.to_vec(),
        },
        CoreAnswer::Heartbeat(error) => Answer::Heartbeat(*error),
        CoreAnswer::ConsumerGroupHeartbeat(heartbeat) => Answer::ConsumerGroupHeartbeat {
            error: heartbeat.error,
            message: heartbeat.error_message.map(str::to_owned),
            epoch: heartbeat.member_epoch,
            heartbeat_interval_ms: heartbeat.heartbeat_interval_ms,
            assignment: heartbeat
                .assignment
                .as_ref()
                .map(|topics| topics.iter().map(|topic| (topic.topic_id, topic.partitions.to_vec())).collect()),
        },
        CoreAnswer::LeaveGroup(leave) => Answer::LeaveGroup(leave.error),
        CoreAnswer::OffsetCommit(commit) => {
            let topics = commit.topics.iter();
            Answer::OffsetCommit(
                topics
                    .flat_map(|topic| topic.partitions.iter().map(|(index, error)| (&topic.name, *index, *error)))
                    .map(|(topic, index, error)| (Partition::new(&**topic, index), error))
                    .collect(),
            )
        }
        CoreAnswer::OffsetFetch(fetch) => Answer::OffsetFetch {
            error: fetch.error,
            offsets: fetch
                .topics
                .iter()
                .flat_map(|topic| topic.partitions.iter().map(|found| (topic.name, found)))
                .map(|(topic, found)| {
                    let offset = (found.offset >= 0).then(|| Offset {
                        offset: found.offset,
                        leader_epoch: found.leader_epoch,
                        metadata: found.metadata.to_owned(),
                    });
                    let result = if found.error == ErrorCode::None { Ok(offset) } else { Err(found.error) };
                    (Partition::new(topic, found.index), result)
                })
                .collect(),
        },
        CoreAnswer::DescribeGroup(_)
        | CoreAnswer::ListGroups(_)
        | CoreAnswer::DeleteGroup(_)
        | CoreAnswer::OffsetDelete(_)
        | CoreAnswer::ConsumerGroupDescribe(_)
        | CoreAnswer::WriteTxnMarker(_) => return None,
    })
}
