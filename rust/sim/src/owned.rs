//! Requests that own what they say: for those that wait inside the naive coordinator, and for recorded events.

use std::ops::Deref;

use rota_core::{
    Request,
    request::{
        Assignment, CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, Heartbeat, JoinGroup,
        LeaveGroup, LeaveIdentity, ListGroups, OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, Protocol,
        SyncGroup,
    },
};

/// A request like [`Request`], with the same fields, that borrows from nobody: its texts and bytes are its own, or
/// shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are those of rota_core::request, under the same names")]
pub enum OwnedRequest<S = String, B = Vec<u8>> {
    JoinGroup {
        version: i16,
        group_id: Option<S>,
        member_id: S,
        instance_id: Option<S>,
        client_id: S,
        client_host: S,
        session_timeout_ms: i32,
        rebalance_timeout_ms: i32,
        protocol_type: S,
        protocols: Vec<(S, B)>,
    },
    SyncGroup {
        version: i16,
        group_id: Option<S>,
        generation: i32,
        member_id: S,
        instance_id: Option<S>,
        protocol_type: Option<S>,
        protocol_name: Option<S>,
        assignments: Vec<(S, B)>,
    },
    Heartbeat {
        group_id: Option<S>,
        generation: i32,
        member_id: S,
        instance_id: Option<S>,
    },
    LeaveGroup {
        version: i16,
        group_id: Option<S>,
        /// (member id, instance id)
        members: Vec<(S, Option<S>)>,
    },
    OffsetCommit {
        version: i16,
        group_id: Option<S>,
        generation: i32,
        member_id: S,
        instance_id: Option<S>,
        retention_time_ms: Option<i64>,
        topics: Vec<OwnedCommitTopic<S>>,
    },
    OffsetFetch {
        group_id: Option<S>,
        require_stable: bool,
        /// (topic, topic id, partitions)
        topics: Option<Vec<(S, u128, Vec<i32>)>>,
    },
    DescribeGroup {
        version: i16,
        group_id: Option<S>,
    },
    ListGroups {
        states: Vec<S>,
        types: Vec<S>,
    },
    DeleteGroup {
        group_id: Option<S>,
    },
    OffsetDelete {
        group_id: Option<S>,
        /// (topic, partitions)
        topics: Vec<(S, Vec<i32>)>,
    },
}

/// One topic of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedCommitTopic<S = String> {
    /// The topic's name.
    pub name: S,
    /// 0: not known.
    pub topic_id: u128,
    /// (partition, offset, leader epoch, metadata)
    pub partitions: Vec<(i32, i64, i32, Option<S>)>,
}

fn text(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

impl From<&JoinGroup<'_>> for OwnedRequest {
    fn from(join: &JoinGroup<'_>) -> OwnedRequest {
        OwnedRequest::JoinGroup {
            version: join.version,
            group_id: text(join.group_id),
            member_id: join.member_id.to_owned(),
            instance_id: text(join.instance_id),
            client_id: join.client_id.to_owned(),
            client_host: join.client_host.to_owned(),
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocol_type: join.protocol_type.to_owned(),
            protocols: join.protocols.iter().map(|offer| (offer.name.to_owned(), offer.metadata.to_vec())).collect(),
        }
    }
}

impl From<&OffsetDelete<'_>> for OwnedRequest {
    fn from(delete: &OffsetDelete<'_>) -> OwnedRequest {
        OwnedRequest::OffsetDelete {
            group_id: text(delete.group_id),
            topics: delete.topics.iter().map(|topic| (topic.name.to_owned(), topic.partitions.to_vec())).collect(),
        }
    }
}

impl<S: Deref<Target = str>, B: Deref<Target = [u8]>> OwnedRequest<S, B> {
    /// Lends itself as the request that it is.
    pub fn lend<T>(&self, take: impl FnOnce(Request<'_>) -> T) -> T {
        match self {
            OwnedRequest::JoinGroup { .. } => self.lend_join(take),
            OwnedRequest::SyncGroup { .. } => self.lend_sync(take),
            OwnedRequest::Heartbeat { group_id, generation, member_id, instance_id } => {
                take(Request::Heartbeat(Heartbeat {
                    group_id: group_id.as_deref(),
                    generation: *generation,
                    member_id,
                    instance_id: instance_id.as_deref(),
                }))
            }
            OwnedRequest::LeaveGroup { version, group_id, members } => {
                let members: Vec<LeaveIdentity<'_>> = members
                    .iter()
                    .map(|(member_id, instance_id)| LeaveIdentity {
                        member_id,
                        instance_id: instance_id.as_deref(),
                        reason: None,
                    })
                    .collect();
                take(Request::LeaveGroup(LeaveGroup {
                    version: *version,
                    group_id: group_id.as_deref(),
                    members: &members,
                }))
            }
            OwnedRequest::OffsetCommit { .. } => self.lend_commit(take),
            OwnedRequest::OffsetFetch { group_id, require_stable, topics } => {
                let topics: Option<Vec<FetchTopic<'_>>> = topics.as_ref().map(|topics| {
                    let lent = topics.iter();
                    lent.map(|(name, topic_id, partitions)| FetchTopic { name, topic_id: *topic_id, partitions })
                        .collect()
                });
                take(Request::OffsetFetch(OffsetFetch {
                    group_id: group_id.as_deref(),
                    require_stable: *require_stable,
                    topics: topics.as_deref(),
                }))
            }
            OwnedRequest::DescribeGroup { version, group_id } => {
                take(Request::DescribeGroup(DescribeGroup { version: *version, group_id: group_id.as_deref() }))
            }
            OwnedRequest::ListGroups { states, types } => {
                let states: Vec<&str> = states.iter().map(|state| &**state).collect();
                let types: Vec<&str> = types.iter().map(|kind| &**kind).collect();
                take(Request::ListGroups(ListGroups { states: &states, types: &types }))
            }
            OwnedRequest::DeleteGroup { group_id } => {
                take(Request::DeleteGroup(DeleteGroup { group_id: group_id.as_deref() }))
            }
            OwnedRequest::OffsetDelete { group_id, topics } => {
                let topics: Vec<OffsetDeleteTopic<'_>> =
                    topics.iter().map(|(name, partitions)| OffsetDeleteTopic { name, partitions }).collect();
                take(Request::OffsetDelete(OffsetDelete { group_id: group_id.as_deref(), topics: &topics }))
            }
        }
    }

    fn lend_join<T>(&self, take: impl FnOnce(Request<'_>) -> T) -> T {
        let OwnedRequest::JoinGroup {
            version,
            group_id,
            member_id,
            instance_id,
            client_id,
            client_host,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocol_type,
            protocols,
        } = self
        else {
            unreachable!("lent by its kind")
        };
        let protocols: Vec<Protocol<'_>> =
            protocols.iter().map(|(name, metadata)| Protocol { name, metadata }).collect();
        take(Request::JoinGroup(JoinGroup {
            version: *version,
            group_id: group_id.as_deref(),
            member_id,
            instance_id: instance_id.as_deref(),
            client_id,
            client_host,
            session_timeout_ms: *session_timeout_ms,
            rebalance_timeout_ms: *rebalance_timeout_ms,
            protocol_type,
            protocols: &protocols,
            reason: None,
        }))
    }

    fn lend_sync<T>(&self, take: impl FnOnce(Request<'_>) -> T) -> T {
        let OwnedRequest::SyncGroup {
            version,
            group_id,
            generation,
            member_id,
            instance_id,
            protocol_type,
            protocol_name,
            assignments,
        } = self
        else {
            unreachable!("lent by its kind")
        };
        let assignments: Vec<Assignment<'_>> =
            assignments.iter().map(|(member_id, assignment)| Assignment { member_id, assignment }).collect();
        take(Request::SyncGroup(SyncGroup {
            version: *version,
            group_id: group_id.as_deref(),
            generation: *generation,
            member_id,
            instance_id: instance_id.as_deref(),
            protocol_type: protocol_type.as_deref(),
            protocol_name: protocol_name.as_deref(),
            assignments: &assignments,
        }))
    }

    fn lend_commit<T>(&self, take: impl FnOnce(Request<'_>) -> T) -> T {
        let OwnedRequest::OffsetCommit {
            version,
            group_id,
            generation,
            member_id,
            instance_id,
            retention_time_ms,
            topics,
        } = self
        else {
            unreachable!("lent by its kind")
        };
        let partitions: Vec<Vec<CommitPartition<'_>>> = topics
            .iter()
            .map(|topic| {
                let lent = topic.partitions.iter();
                lent.map(|(index, offset, leader_epoch, metadata)| CommitPartition {
                    index: *index,
                    offset: *offset,
                    leader_epoch: *leader_epoch,
                    metadata: metadata.as_deref(),
                })
                .collect()
            })
            .collect();
        let topics: Vec<CommitTopic<'_>> = topics
            .iter()
            .zip(&partitions)
            .map(|(topic, partitions)| CommitTopic { name: &topic.name, topic_id: topic.topic_id, partitions })
            .collect();
        take(Request::OffsetCommit(OffsetCommit {
            version: *version,
            group_id: group_id.as_deref(),
            generation: *generation,
            member_id,
            instance_id: instance_id.as_deref(),
            retention_time_ms: *retention_time_ms,
            topics: &topics,
        }))
    }
}
