//! Commits offsets for tests, without a client.

use std::{
    slice,
    sync::mpsc::{RecvTimeoutError, sync_channel},
    time::Duration,
};

use rota_core::{
    error::ErrorCode,
    request::{CommitPartition, CommitTopic, OffsetCommit, Request},
};

use super::Server;
use crate::{
    base::error::ServerError,
    client::{caller_reply::CallerReply, reply::Reply},
    node::Node,
};

/// The last version of `OffsetCommit` that names topics.
const COMMIT_BY_NAME: i16 = 9;

/// Longer than a commit takes by default until it fails. A virtual clock may stand, or a test may hold appends.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

const NOT_DURABLE: &str =
    "its append failed, or is not durable in time: release the appends, or advance the clock if they are delayed";

/// Topic, partition and offset.
pub type NewOffset = (String, i32, i64);

impl Server {
    /// Commits offsets of a group without members, as an `OffsetCommit` of an admin client does. They are durable when this
    /// returns. Errors: `UnknownTopic`, `UnknownTopicPartition`, `Refused`.
    pub fn commit(&self, group_id: &str, offsets: Vec<NewOffset>) -> Result<(), ServerError> {
        for (topic, partition, _) in &offsets {
            self.leader_place(topic, *partition)?;
        }
        let (sender, result) = sync_channel(1);
        let partition = self.partition_of(group_id);
        let asked = group_id.to_owned();
        let done = move |result| {
            let _timed_out = sender.send(result);
        };
        self.ask_owner(partition, move |node| submit(node, &asked, &offsets, CallerReply(Box::new(done))))?;
        let reason = match result.recv_timeout(COMMIT_TIMEOUT) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(ErrorCode::UnknownMemberId)) => {
                "UNKNOWN_MEMBER_ID: it has members; close or expire them first, or commit as one of them".to_owned()
            }
            Ok(Err(ErrorCode::NotCoordinator)) => "NOT_COORDINATOR: commit at the server that has the group".to_owned(),
            Ok(Err(ErrorCode::CoordinatorNotAvailable)) => format!("COORDINATOR_NOT_AVAILABLE: {NOT_DURABLE}"),
            Ok(Err(error)) => error.name().to_owned(),
            Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            Err(RecvTimeoutError::Timeout) => NOT_DURABLE.to_owned(),
        };
        Err(ServerError::Refused { what: format!("cannot commit offsets of group `{group_id}`"), reason })
    }
}

fn submit(node: &mut Node, group_id: &str, offsets: &[NewOffset], reply: CallerReply) {
    node.catch_up();
    let partition = |(_, index, offset): &NewOffset| CommitPartition {
        index: *index,
        offset: *offset,
        leader_epoch: -1,
        metadata: None,
    };
    let partitions: Vec<CommitPartition<'_>> = offsets.iter().map(partition).collect();
    let mut topics = Vec::with_capacity(offsets.len());
    for ((name, ..), partition) in offsets.iter().zip(&partitions) {
        let topic_id = node.topics().topic_id(name).map_or(0, |id| id.as_u128());
        topics.push(CommitTopic { name, topic_id, partitions: slice::from_ref(partition) });
    }
    let request = OffsetCommit {
        version: COMMIT_BY_NAME,
        group_id: Some(group_id),
        generation: -1,
        member_id: "",
        instance_id: None,
        retention_time_ms: None,
        topics: &topics,
    };
    node.submit(node.partition_of(group_id), Reply::Caller(reply), Request::OffsetCommit(request));
}
