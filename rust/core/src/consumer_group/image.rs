//! A classic group as data, without what the coordinator's tables add (docs/consumer-protocol.md §16, §17).

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    group::{Group, Member, MemberHandle, member_record},
    history::Rebalance,
    records::GroupValue,
};

/// The protocol type of consumers.
pub const CONSUMER: &str = "consumer";

/// A classic group outside the coordinator's tables. Its members have no deadlines, and their group is not set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassicImage {
    /// Its generation.
    pub generation: i32,
    /// Chosen by vote; `None`: no generation has begun.
    pub protocol_name: Option<Arc<str>>,
    /// The member id of the leader.
    pub leader: Option<Arc<str>>,
    /// Whether every member has its assignment.
    pub is_stable: bool,
    /// In joining order.
    pub members: Vec<Member>,
    /// Start of its state in monotonic milliseconds.
    pub since_ms: u64,
    /// Its recent rebalances.
    pub rebalances: VecDeque<Rebalance>,
}

impl ClassicImage {
    /// The image of a group whose members have nothing parked any more.
    pub fn of(group: &Group, members: Vec<Member>, is_stable: bool) -> ClassicImage {
        let id_of = |leader: MemberHandle| {
            let at = group.joined.values().position(|member| *member == leader)?;
            Some(members.get(at)?.id.shared())
        };
        ClassicImage {
            generation: group.generation,
            protocol_name: group.protocol_name.clone(),
            leader: group.leader.and_then(id_of),
            is_stable,
            members,
            since_ms: group.since_ms,
            rebalances: group.rebalances.clone(),
        }
    }

    /// The record of the group. One that is to rebalance is stored without a leader, so that it also does if the
    /// coordinator is lost before (departure D24).
    pub fn value(&self, wall_ms: i64) -> GroupValue {
        let protocol = self.protocol_name.as_deref().unwrap_or("");
        let members = self.members.iter().map(|member| member_record(member, protocol, &member.assignment));
        GroupValue {
            protocol_type: CONSUMER.into(),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().filter(|_| self.is_stable),
            state_timestamp_ms: wall_ms,
            members: members.collect(),
        }
    }
}
