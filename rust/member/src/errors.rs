//! The reaction of a member to each error (docs/protocol.md §22.4), one table per request.

use rota_core::ErrorCode;

/// The reaction to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No error.
    Good,
    /// Retry after the backoff.
    Retry,
    /// Find the coordinator, then retry.
    FindAgain,
    /// Join again at once.
    Rejoin,
    /// Join again at once, with the member id in the answer.
    AdoptId,
    /// Reset generation and member id, then rejoin; only if the member's identity is still that of the request.
    ResetFull,
    /// Reset the generation, then rejoin; only if the member's identity is still that of the request.
    ResetSoft,
    /// Stop, because another process has this instance id; only if the member's identity is still that of the request.
    Fenced,
    /// Retry after the next heartbeat, which brings a newer epoch.
    Stale,
    /// The member is out of its group, as its next heartbeat will find.
    Left,
    /// Report the failed topics to the application.
    Topics,
    /// Report the error to the application, since a retry would not help.
    Fatal,
}

use ErrorCode as E;

/// Returns the reaction to a `JoinGroup` error.
pub fn join(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorLoadInProgress => Verdict::Retry,
        E::CoordinatorNotAvailable | E::NotCoordinator => Verdict::FindAgain,
        E::UnknownMemberId => Verdict::ResetFull,
        E::RebalanceInProgress => Verdict::Rejoin,
        E::MemberIdRequired => Verdict::AdoptId,
        _ => Verdict::Fatal,
    }
}

/// Returns the reaction to a `SyncGroup` error. A loading coordinator is unexpected here, since it has answered the
/// join.
pub fn sync(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorNotAvailable | E::NotCoordinator => Verdict::FindAgain,
        E::UnknownMemberId => Verdict::ResetFull,
        E::IllegalGeneration => Verdict::ResetSoft,
        E::RebalanceInProgress => Verdict::Rejoin,
        _ => Verdict::Fatal,
    }
}

/// Returns the reaction to a `Heartbeat` error. An unknown error counts as a failed heartbeat: the next may succeed, or
/// the session expires.
pub fn heartbeat(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorNotAvailable | E::NotCoordinator => Verdict::FindAgain,
        E::UnknownMemberId => Verdict::ResetFull,
        E::IllegalGeneration => Verdict::ResetSoft,
        E::RebalanceInProgress => Verdict::Rejoin,
        E::FencedInstanceId => Verdict::Fenced,
        _ => Verdict::Retry,
    }
}

/// Returns the reaction to the error of one partition of an `OffsetCommit`.
pub fn commit(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorLoadInProgress | E::UnknownTopicOrPartition => Verdict::Retry,
        E::CoordinatorNotAvailable | E::NotCoordinator | E::RequestTimedOut => Verdict::FindAgain,
        E::UnknownMemberId => Verdict::ResetFull,
        E::IllegalGeneration => Verdict::ResetSoft,
        E::RebalanceInProgress => Verdict::Rejoin,
        E::FencedInstanceId => Verdict::Fenced,
        E::TopicAuthorizationFailed => Verdict::Topics,
        _ => Verdict::Fatal,
    }
}

/// Returns the reaction to an `OffsetFetch` error, of the request or one partition.
pub fn fetch(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorLoadInProgress | E::UnstableOffsetCommit => Verdict::Retry,
        E::CoordinatorNotAvailable | E::NotCoordinator | E::RequestTimedOut => Verdict::FindAgain,
        E::UnknownTopicOrPartition | E::TopicAuthorizationFailed => Verdict::Topics,
        _ => Verdict::Fatal,
    }
}

/// Returns the reaction to a `ConsumerGroupHeartbeat` error.
pub fn consumer_heartbeat(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorLoadInProgress | E::RequestTimedOut => Verdict::Retry,
        E::CoordinatorNotAvailable | E::NotCoordinator => Verdict::FindAgain,
        E::UnknownMemberId | E::FencedMemberEpoch => Verdict::ResetSoft,
        E::TopicAuthorizationFailed => Verdict::Topics,
        _ => Verdict::Fatal,
    }
}

/// Returns the reaction to the error of one partition of an `OffsetCommit` with a member epoch.
pub fn consumer_commit(error: ErrorCode) -> Verdict {
    match error {
        E::StaleMemberEpoch => Verdict::Stale,
        E::UnknownMemberId | E::IllegalGeneration | E::RebalanceInProgress => Verdict::Left,
        E::FencedInstanceId => Verdict::Fatal,
        error => commit(error),
    }
}

/// Returns the reaction to an `OffsetFetch` error with a member epoch, of the request or one partition.
pub fn consumer_fetch(error: ErrorCode) -> Verdict {
    match error {
        // A member that was removed fetches as no member after its next heartbeat.
        E::StaleMemberEpoch | E::UnknownMemberId => Verdict::Stale,
        error => fetch(error),
    }
}

/// Returns the reaction to a `FindCoordinator` error.
pub fn find(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorNotAvailable | E::NotCoordinator | E::CoordinatorLoadInProgress | E::RequestTimedOut => {
            Verdict::Retry
        }
        _ => Verdict::Fatal,
    }
}
