//! etcd's space: how much each member uses. etcd counts its *file* against the quota, free pages included.

use std::sync::Arc;

use rota_cluster::{Endpoint, operating::MemberStatus};
use rota_engine::requests::Used;
use tokio::task::JoinSet;

use crate::{grpc::Failure, line::Shared, proto::StatusResponse};

/// A member, as it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where.
    pub endpoint: Endpoint,
    /// What it says, or why it does not answer.
    pub status: Result<MemberStatus, Failure>,
}

/// Asks every member.
pub(crate) async fn members(shared: &Arc<Shared>) -> Vec<Member> {
    let mut asked = JoinSet::new();
    for (index, endpoint) in shared.config.endpoints.iter().cloned().enumerate() {
        let shared = Arc::clone(shared);
        asked.spawn(async move {
            let status = of_member(&shared, &endpoint).await;
            (index, Member { endpoint, status })
        });
    }
    let mut members = Vec::new();
    while let Some(member) = asked.join_next().await {
        members.extend(member.ok());
    }
    members.sort_by_key(|(index, _)| *index);
    members.into_iter().map(|(_, member)| member).collect()
}

/// Asks one member.
pub(crate) async fn of_member(shared: &Shared, endpoint: &Endpoint) -> Result<MemberStatus, Failure> {
    shared.connect(endpoint).await.map(|(_, status)| member_status(shared, status))
}

/// From 3.6 on etcd says its quota itself.
fn member_status(shared: &Shared, status: StatusResponse) -> MemberStatus {
    let id = status.header.map_or(0, |header| header.member_id);
    let quota_bytes = match u64::try_from(status.db_size_quota) {
        Ok(quota) if quota > 0 => quota,
        _ => shared.config.quota_bytes,
    };
    let used = Used { file_bytes: status.db_size as u64, live_bytes: status.db_size_in_use as u64, quota_bytes };
    MemberStatus { id, version: status.version, leads: status.leader == id, used, errors: status.errors }
}

/// The space of the member that is nearest to its quota.
pub(crate) async fn used(shared: &Arc<Shared>) -> Result<Used, Failure> {
    let members = members(shared).await;
    let used = members.iter().filter_map(|member| member.status.as_ref().ok()).map(|status| status.used);
    let fullest = used.max_by_key(|used| used.file_bytes);
    fullest.ok_or(Failure::Timeout)
}
