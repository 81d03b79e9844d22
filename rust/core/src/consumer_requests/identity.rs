//! Which member a heartbeat is from, and whether its epoch is valid (docs/consumer-protocol.md §5.3, §9.1).

use std::sync::Arc;

use super::checks::{JOIN, Refusal};
use crate::{
    consumer_group::{
        group::{AWAY, ConsumerGroup, Current},
        partitions::{Partition, PartitionSet},
    },
    error::ErrorCode,
    request::ConsumerGroupHeartbeat,
};

/// Whose heartbeat it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// No member has this id yet: it joins.
    New,
    /// The group has this member.
    Known,
    /// A static member that was away comes back; the one with this id goes.
    Replaces(Arc<str>),
}

/// The partitions that a request reports as owned; `None`: it reports none.
pub fn owned(request: &ConsumerGroupHeartbeat<'_>) -> Option<PartitionSet> {
    let topics = request.topic_partitions?;
    let partitions = |(topic_id, partitions): (u128, &[i32])| -> Vec<Partition> {
        partitions.iter().map(|partition| (topic_id, *partition)).collect()
    };
    Some(topics.iter().flat_map(|topic| partitions((topic.topic_id, topic.partitions))).collect())
}

impl ConsumerGroup {
    /// Who sends this heartbeat of an epoch from 0 on.
    pub fn identify(&self, request: &ConsumerGroupHeartbeat<'_>, member_id: &str) -> Result<Identity, Refusal> {
        let known = self.member(member_id);
        let joins = request.member_epoch == JOIN;
        let Some(instance_id) = request.instance_id else {
            return match known {
                Some(_) => Ok(Identity::Known),
                None if joins => Ok(Identity::New),
                None => Err(self.no_member(member_id)),
            };
        };
        match self.instance(instance_id) {
            None if joins && known.is_some() => Ok(Identity::Known),
            None if joins => Ok(Identity::New),
            None => Err(no_instance(instance_id)),
            Some(owner) if joins => match self.member(owner) {
                Some(member) if member.epoch() != AWAY && !member.is_classic() => {
                    let message = format!(
                        "Static member {member_id} with instance id {instance_id} cannot join the group because the \
                         instance id is owned by {owner} member."
                    );
                    Err(Refusal::new(ErrorCode::UnreleasedInstanceId, message))
                }
                _ => Ok(Identity::Replaces(Arc::clone(owner))),
            },
            Some(owner) if **owner == *member_id => Ok(Identity::Known),
            Some(owner) => Err(fenced(member_id, instance_id, owner)),
        }
    }

    /// Who sends this JoinGroup (docs/consumer-protocol.md §18.2). `has_id`: whether the request has a member id, or
    /// `member_id` is a new one.
    pub fn identify_classic(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        has_id: bool,
    ) -> Result<Identity, Refusal> {
        let Some(instance_id) = instance_id else {
            let is_known = self.member(member_id).is_some();
            return Ok(if is_known { Identity::Known } else { Identity::New });
        };
        match self.instance(instance_id) {
            None if has_id => Err(no_instance(instance_id)),
            None => Ok(Identity::New),
            Some(owner) if !has_id => Ok(Identity::Replaces(Arc::clone(owner))),
            Some(owner) if **owner == *member_id => Ok(Identity::Known),
            Some(owner) => Err(fenced(member_id, instance_id, owner)),
        }
    }

    /// The member that leaves, by its instance id if it says one. Its epoch does not matter.
    pub fn leaver(&self, request: &ConsumerGroupHeartbeat<'_>) -> Result<Arc<str>, Refusal> {
        let member_id = request.member_id;
        let Some(instance_id) = request.instance_id else {
            let (id, _) = self.member_entry(member_id).ok_or_else(|| self.no_member(member_id))?;
            return Ok(Arc::clone(id));
        };
        match self.instance(instance_id) {
            None => Err(no_instance(instance_id)),
            Some(owner) if **owner == *member_id => Ok(Arc::clone(owner)),
            Some(owner) => Err(fenced(member_id, instance_id, owner)),
        }
    }

    fn no_member(&self, member_id: &str) -> Refusal {
        let message = format!("Member {member_id} is not a member of group {}.", self.id);
        Refusal::new(ErrorCode::UnknownMemberId, message)
    }
}

fn no_instance(instance_id: &str) -> Refusal {
    Refusal::new(ErrorCode::UnknownMemberId, format!("Instance id {instance_id} is unknown."))
}

fn fenced(member_id: &str, instance_id: &str, owner: &str) -> Refusal {
    let message = format!("Static member {member_id} with instance id {instance_id} was fenced by member {owner}.");
    Refusal::new(ErrorCode::FencedInstanceId, message)
}

/// Whether a known member may send this epoch. The previous one is accepted from a member that reports nothing but what
/// it was given: it has not received the answer with the newer epoch.
pub fn check_epoch(current: &Current, received: i32, owned: Option<&PartitionSet>) -> Result<(), Refusal> {
    let known = current.epoch;
    let word = if received > known { "greater" } else { "smaller" };
    let is_retry = || {
        received == current.previous_epoch
            && owned.is_some_and(|owned| owned.iter().all(|partition| current.assigned.contains_key(partition)))
    };
    if received == JOIN || received == known || received < known && is_retry() {
        return Ok(());
    }
    let message = format!(
        "The consumer group member has a {word} member epoch ({received}) than the one known by the group coordinator \
         ({known}). The member must abandon all its partitions and rejoin."
    );
    Err(Refusal::new(ErrorCode::FencedMemberEpoch, message))
}
