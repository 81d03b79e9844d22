//! What each error makes a member do (docs/protocol.md §22.4): one table a request.

use rota_core::ErrorCode;

/// What is to be done about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Good,
    /// Wait a little, and ask again.
    Retry,
    /// Look for the coordinator, then ask again.
    FindAgain,
    /// Join again at once.
    Rejoin,
    /// Join again at once, with the member id in the answer.
    AdoptId,
    /// If the member is still who it was when it asked: forget generation and member id, and join again.
    ResetFull,
    /// If the member is still who it was when it asked: forget the generation, and join again.
    ResetSoft,
    /// Another process has this instance id: if the member is still who it was when it asked, stop.
    Fenced,
    /// Tell the application which topics.
    Topics,
    /// Tell the application: asking again would not help.
    Fatal,
}

use ErrorCode as E;

/// To `JoinGroup`.
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

/// To `SyncGroup`. That the coordinator is loading is not expected here: the join was answered.
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

/// To `Heartbeat`. What is not known is a heartbeat that failed: the next one may do better, or the session ends.
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

/// To one partition of an `OffsetCommit`.
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

/// To an `OffsetFetch`, as a whole or one partition of it.
pub fn fetch(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorLoadInProgress | E::UnstableOffsetCommit => Verdict::Retry,
        E::CoordinatorNotAvailable | E::NotCoordinator | E::RequestTimedOut => Verdict::FindAgain,
        E::UnknownTopicOrPartition | E::TopicAuthorizationFailed => Verdict::Topics,
        _ => Verdict::Fatal,
    }
}

/// To `FindCoordinator`.
pub fn find(error: ErrorCode) -> Verdict {
    match error {
        E::None => Verdict::Good,
        E::CoordinatorNotAvailable | E::NotCoordinator | E::CoordinatorLoadInProgress | E::RequestTimedOut => {
            Verdict::Retry
        }
        _ => Verdict::Fatal,
    }
}
