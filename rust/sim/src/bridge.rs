//! What the member's side says, as the coordinator hears it, and back: the wire without bytes.

use rota_core::{Answer as CoreAnswer, ErrorCode};
use rota_journal::owned::{self, Text};
use rota_member::{Answer, Offset, Partition, Request, event::Joined};

/// The newest `JoinGroup`.
pub const JOIN_VERSION: i16 = 9;
/// Versions of its age: all that the member's side can say is in them.
const SYNC_VERSION: i16 = 5;
const LEAVE_VERSION: i16 = 5;
const COMMIT_VERSION: i16 = 9;

/// A request to a coordinator, from a client of some age; `None` for those that any broker answers.
pub fn to_core(request: &Request, client_id: &str, join_version: i16) -> Option<owned::Request<'static>> {
    Some(match request {
        Request::FindCoordinator { .. } | Request::Metadata { .. } => return None,
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
            // Version 0 does not have it.
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
        Request::OffsetFetch { group_id, partitions } => owned::Request::OffsetFetch(owned::OffsetFetch {
            group_id: Some(text(group_id)),
            require_stable: true,
            topics: Some(partitions.iter().map(fetched).collect()),
        }),
    })
}

fn text(text: &str) -> Text<'static> {
    Text::Shared(text.into())
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

/// An answer of the coordinator; `None` for those to requests that a member never sends.
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
        | CoreAnswer::ConsumerGroupHeartbeat(_)
        | CoreAnswer::ConsumerGroupDescribe(_) => return None,
    })
}
