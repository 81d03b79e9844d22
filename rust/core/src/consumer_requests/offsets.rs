//! Offsets of consumer groups: who may commit and fetch them with which epoch (docs/consumer-protocol.md §11, §12).

use crate::{
    consumer_group::group::{ConsumerGroup, ConsumerMember},
    coordinator::Coordinator,
    error::ErrorCode,
    request::{CommitTopic, ConsumerOffsetFetch, OffsetCommit, TxnOffsetCommit},
};

/// The first version of `OffsetCommit` that members of the consumer protocol may use.
const FIRST_COMMIT_VERSION: i16 = 9;
/// The first version of `TxnOffsetCommit` that has an error for a member epoch.
const FIRST_VERSION_WITH_STALE_MEMBER_EPOCH: i16 = 6;

impl ConsumerGroup {
    /// Who may commit what.
    pub fn check_commit(
        &self,
        request: &OffsetCommit<'_>,
        topic_id: impl Fn(&str) -> Option<u128>,
    ) -> Result<(), ErrorCode> {
        let is_consumer = self.member(request.member_id).is_some_and(|member| !member.is_classic());
        if is_consumer && request.version < FIRST_COMMIT_VERSION {
            return Err(ErrorCode::UnsupportedVersion);
        }
        self.check_committer(request.member_id, request.generation, request.topics, topic_id)
    }

    /// Who may commit what in a transaction: the same, with the error of a generation in older versions.
    pub fn check_transactional_commit(
        &self,
        request: &TxnOffsetCommit<'_>,
        topic_id: impl Fn(&str) -> Option<u128>,
    ) -> Result<(), ErrorCode> {
        let checked = self.check_committer(request.member_id, request.generation, request.topics, topic_id);
        let is_old = request.version < FIRST_VERSION_WITH_STALE_MEMBER_EPOCH;
        checked.map_err(|error| match error {
            ErrorCode::StaleMemberEpoch if is_old => ErrorCode::IllegalGeneration,
            error => error,
        })
    }

    /// INVARIANT: C11. With the current epoch a member commits for any partition; with an older one for those that it has
    /// held since then, and one other partition refuses the whole request.
    fn check_committer(
        &self,
        member_id: &str,
        sent: i32,
        topics: &[CommitTopic<'_>],
        topic_id: impl Fn(&str) -> Option<u128>,
    ) -> Result<(), ErrorCode> {
        if sent < 0 && self.is_empty() {
            return Ok(());
        }
        let member = self.member(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let epoch = member.epoch();
        if member.is_classic() {
            return if sent == epoch { Ok(()) } else { Err(ErrorCode::IllegalGeneration) };
        }
        let holds = |topic: &str, topic_id_sent: u128, index: i32| {
            let topic_id = topic_id(topic).unwrap_or(topic_id_sent);
            granted_at(member, topic_id, index).is_some_and(|granted| granted <= sent)
        };
        let held_since = || {
            topics.iter().all(|topic| {
                topic.partitions.iter().all(|partition| holds(topic.name, topic.topic_id, partition.index))
            })
        };
        if sent == epoch || (0..epoch).contains(&sent) && held_since() {
            Ok(())
        } else {
            Err(ErrorCode::StaleMemberEpoch)
        }
    }

    /// Who may read offsets.
    pub fn check_fetch(&self, request: &ConsumerOffsetFetch<'_>) -> Result<(), ErrorCode> {
        let Some(member_id) = request.member_id else {
            return if request.member_epoch < 0 { Ok(()) } else { Err(ErrorCode::UnknownServerError) };
        };
        let member = self.member(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        match member.epoch() == request.member_epoch {
            true => Ok(()),
            false if member.subscription.as_ref().is_some_and(|value| value.classic.is_some()) => {
                Err(ErrorCode::IllegalGeneration)
            }
            false => Err(ErrorCode::StaleMemberEpoch),
        }
    }
}

fn granted_at(member: &ConsumerMember, topic_id: u128, index: i32) -> Option<i32> {
    let current = member.current.as_ref()?;
    let partition = (topic_id, index);
    current.assigned.get(&partition).or_else(|| current.pending.get(&partition)).copied()
}

impl Coordinator {
    /// Whether a commit to a consumer group is allowed; `None`: the group is no consumer group.
    pub(crate) fn check_consumer_commit(&self, request: &OffsetCommit<'_>) -> Option<Result<(), ErrorCode>> {
        let group = self.find_consumer_group(request.group_id?)?;
        Some(group.check_commit(request, |topic| self.topics.get(topic).map(|topic| topic.topic_id)))
    }
}
