//! The gate: requests that are refused before any group is looked up (docs/protocol.md §3).

use crate::{
    admin,
    consumer_requests::writes::{refuse_describe, refuse_heartbeat},
    coordinator::{Coordinator, Phase},
    deletes,
    effects::Step,
    error::ErrorCode,
    join::JoinRefusal,
    request::{Request, Ticket},
    response::{Answer, LeaveAnswer, ListAnswer},
};

/// Errors whose `JoinGroup` answers do not repeat the member id.
const WITHOUT_ECHO: [ErrorCode; 2] = [ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator];

impl<'a> Request<'a> {
    /// Returns the group of the request; `None` if it has none.
    pub fn group_id(&self) -> Option<&'a str> {
        match self {
            Request::JoinGroup(request) => request.group_id,
            Request::SyncGroup(request) => request.group_id,
            Request::Heartbeat(request) => request.group_id,
            Request::LeaveGroup(request) => request.group_id,
            Request::OffsetCommit(request) => request.group_id,
            Request::OffsetFetch(request) => request.group_id,
            Request::DescribeGroup(request) => request.group_id,
            // About all groups of the partition.
            Request::ListGroups(_) | Request::WriteTxnMarker(_) => Some(""),
            Request::DeleteGroup(request) => request.group_id,
            Request::OffsetDelete(request) => request.group_id,
            Request::ConsumerGroupHeartbeat(request) => Some(request.group_id),
            Request::ConsumerGroupDescribe(request) => Some(request.group_id),
            Request::ConsumerOffsetFetch(request) => request.group_id,
            Request::TxnOffsetCommit(request) => request.group_id,
        }
    }

    /// Null is never a legal group id; "" is one in the requests of §3.
    fn has_legal_group_id(&self) -> bool {
        let may_be_empty = !matches!(
            self,
            Request::JoinGroup(_)
                | Request::SyncGroup(_)
                | Request::Heartbeat(_)
                | Request::LeaveGroup(_)
                | Request::OffsetDelete(_)
                | Request::ConsumerGroupDescribe(_)
                | Request::TxnOffsetCommit(_)
        );
        self.group_id().is_some_and(|group_id| may_be_empty || !group_id.is_empty())
    }
}

/// Answers a request that the gate refuses. Returns whether it refused the request.
pub fn refuse(coordinator: &Coordinator, step: &mut Step<'_>, ticket: Ticket, request: &Request<'_>) -> bool {
    // Kafka checks this before its coordinator sees the request (§6.1).
    if let Request::SyncGroup(sync) = request
        && sync.version >= 5
        && (sync.protocol_type.is_none() || sync.protocol_name.is_none())
    {
        Coordinator::answer_sync_error(step, ticket, ErrorCode::InconsistentGroupProtocol);
        return true;
    }
    if let Request::ConsumerGroupHeartbeat(heartbeat) = request {
        let refusal = coordinator.refuse_consumer_heartbeat(heartbeat);
        return refusal.inspect(|refusal| refuse_heartbeat(step, ticket, refusal)).is_some();
    }
    let Some(error) = verdict(coordinator, request) else { return false };
    answer(step, ticket, request, error);
    true
}

/// Answers a request with an error for the whole request, at the position that its answer has for that.
pub fn answer(step: &mut Step<'_>, ticket: Ticket, request: &Request<'_>, error: ErrorCode) {
    match request {
        Request::JoinGroup(join) => {
            let echo = !WITHOUT_ECHO.contains(&error);
            JoinRefusal { error, member_id: if echo { join.member_id } else { "" } }.answer(step, ticket);
        }
        Request::SyncGroup(_) => Coordinator::answer_sync_error(step, ticket, error),
        Request::Heartbeat(_) => step.sink.answer(ticket, Answer::Heartbeat(error)),
        Request::LeaveGroup(_) => {
            step.sink.answer(ticket, Answer::LeaveGroup(LeaveAnswer { error, members: &[] }));
        }
        Request::OffsetCommit(commit) => Coordinator::answer_commit_error(step, ticket, commit.topics, error),
        Request::OffsetFetch(fetch) => {
            Coordinator::answer_fetch_error(step, ticket, fetch.group_id.unwrap_or(""), error);
        }
        Request::DescribeGroup(describe) => {
            admin::answer_describe_error(step, ticket, describe.group_id.unwrap_or(""), error);
        }
        Request::ListGroups(_) => {
            step.sink.answer(ticket, Answer::ListGroups(ListAnswer { error, groups: &[] }));
        }
        Request::DeleteGroup(delete) => {
            deletes::answer_delete(step, ticket, delete.group_id.unwrap_or(""), error);
        }
        Request::OffsetDelete(_) => deletes::answer_offset_delete_error(step, ticket, error),
        Request::ConsumerGroupHeartbeat(_) => refuse_heartbeat(step, ticket, &error.into()),
        Request::ConsumerGroupDescribe(describe) => {
            refuse_describe(step, ticket, describe.group_id, error, None);
        }
        Request::ConsumerOffsetFetch(fetch) => {
            Coordinator::answer_fetch_error(step, ticket, fetch.group_id.unwrap_or(""), error);
        }
        Request::TxnOffsetCommit(commit) => Coordinator::answer_commit_error(step, ticket, commit.topics, error),
        Request::WriteTxnMarker(_) => step.sink.answer(ticket, Answer::WriteTxnMarker(error)),
    }
}

/// Runs the gate's checks, in order.
fn verdict(coordinator: &Coordinator, request: &Request<'_>) -> Option<ErrorCode> {
    if !request.has_legal_group_id() {
        return Some(ErrorCode::InvalidGroupId);
    }
    if let Request::JoinGroup(join) = request {
        let config = &coordinator.config;
        let legal = config.group_min_session_timeout_ms..=config.group_max_session_timeout_ms;
        if !legal.contains(&join.session_timeout_ms) {
            return Some(ErrorCode::InvalidSessionTimeout);
        }
    }
    if matches!(request, Request::ConsumerGroupDescribe(_)) && !coordinator.consumer_config().enabled {
        return Some(ErrorCode::UnsupportedVersion);
    }
    match coordinator.phase {
        // Heartbeats have their own answers in the other phases.
        _ if matches!(request, Request::Heartbeat(_)) => None,
        Phase::Active => None,
        Phase::Loading => Some(ErrorCode::CoordinatorLoadInProgress),
        Phase::Failed | Phase::Unloaded => Some(ErrorCode::NotCoordinator),
    }
}
