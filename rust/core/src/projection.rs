//! One group's state in the vocabulary's terms, for comparison with a model, and its digest.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    coordinator::Coordinator,
    effects::AppendId,
    group::{Group, Member},
    operations::Operation,
    purgatory::OpId,
    records::{OffsetValue, Record},
    states::State,
};

/// One group as plain data; every list is in a stated order, every deadline is the logical one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Projection {
    /// The group.
    pub group_id: Arc<str>,
    /// Its state.
    pub state: State,
    /// Since when, monotonic milliseconds.
    pub since_ms: u64,
    /// Its generation.
    pub generation: i32,
    /// Kept when the group empties.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub protocol_name: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// In joining order.
    pub members: Vec<ProjectedMember>,
    /// Ids handed out, with their deadlines, by id.
    pub pending: Vec<(Arc<str>, u64)>,
    /// The initial-delay, join and sync deadlines that are armed, by name.
    pub timers: Vec<(&'static str, u64)>,
    /// Appends about this group that are in flight, by number.
    pub in_flight: Vec<u64>,
    /// The append that ends this group, if it is on its way.
    pub deleting: Option<u64>,
    /// Whether the log has something of this group.
    pub durable: bool,
    /// Topics that members subscribe to, sorted; `None` is unknown.
    pub subscribed_topics: Option<Vec<Arc<str>>>,
    /// Durable offsets by topic and partition.
    pub offsets: Vec<(Arc<str>, i32, OffsetValue)>,
}

/// One member as plain data.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, compared field by field")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ProjectedMember {
    /// The member.
    pub member_id: Arc<str>,
    /// Static members only.
    pub instance_id: Option<Arc<str>>,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// (name, metadata), in order of preference.
    pub protocols: Vec<(Arc<str>, Arc<[u8]>)>,
    /// The leader's bytes for it.
    pub assignment: Arc<[u8]>,
    /// It has a parked `JoinGroup`.
    pub awaits_join: bool,
    /// It has a parked `SyncGroup`.
    pub awaits_sync: bool,
    /// It has not sent `SyncGroup` for this generation.
    pub owes_sync: bool,
    /// It has never seen a join phase complete.
    pub is_new: bool,
    /// Its session or new-member deadline.
    pub deadline_ms: Option<u64>,
}

impl Coordinator {
    /// One group as plain data. `None`: no such group.
    pub fn project(&self, group_id: &str) -> Option<Projection> {
        let group = &self.groups[self.find_group(group_id)?];
        let about = |record: &Record| match record {
            Record::Group { group_id: about, .. } | Record::Offset { group_id: about, .. } => **about == *group_id,
            Record::Unknown { .. } => false,
        };
        let in_flight = self.appends.iter().filter(|(_, append)| append.records.iter().any(about));
        Some(Projection {
            group_id: Arc::clone(&group.id),
            state: group.state,
            since_ms: group.since_ms,
            generation: group.generation,
            protocol_type: group.protocol_type.clone(),
            protocol_name: group.protocol_name.clone(),
            leader: group.leader.map(|leader| self.members[leader].id.shared()),
            members: group.joined.values().map(|member| self.project_member(&self.members[*member])).collect(),
            pending: group
                .pending
                .iter()
                .filter_map(|(id, pending)| Some((Arc::clone(id), self.purgatory.deadline(pending.expiry)?)))
                .collect(),
            timers: self.timers(group),
            in_flight: in_flight.map(|(append_id, _)| append_id.0).collect(),
            deleting: group.deleting.map(|append_id| append_id.0),
            durable: group.durable,
            subscribed_topics: group.subscribed_topics.as_ref().map(|topics| topics.iter().cloned().collect()),
            offsets: group
                .offsets
                .iter()
                .flat_map(|(topic, partitions)| {
                    partitions.iter().map(|(partition, value)| (Arc::clone(topic), *partition, value.clone()))
                })
                .collect(),
        })
    }

    fn project_member(&self, member: &Member) -> ProjectedMember {
        ProjectedMember {
            member_id: member.id.shared(),
            instance_id: member.instance_id.clone(),
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            protocols: member
                .protocols
                .iter()
                .map(|protocol| (Arc::clone(&protocol.name), Arc::clone(&protocol.metadata)))
                .collect(),
            assignment: Arc::clone(&member.assignment),
            awaits_join: member.join.is_some(),
            awaits_sync: member.sync.is_some(),
            owes_sync: member.owes_sync,
            is_new: member.is_new,
            deadline_ms: member.session.and_then(|session| self.purgatory.deadline(session)),
        }
    }

    fn timers(&self, group: &Group) -> Vec<(&'static str, u64)> {
        let named = |operation: OpId| {
            let name = match self.purgatory.get(operation)? {
                Operation::InitialDelay(_) => "InitialDelay",
                Operation::Join(_) => "Join",
                Operation::Sync(_) => "Sync",
                _ => return None,
            };
            Some((name, self.purgatory.deadline(operation)?))
        };
        [group.join_deadline, group.sync_deadline].into_iter().flatten().filter_map(named).collect()
    }

    /// 64 bits that differ when a group's projection differs (but for a collision). `None`: no such group.
    pub fn digest(&self, group_id: &str) -> Option<u64> {
        let bytes = postcard::to_allocvec(&self.project(group_id)?).expect("plain data can be written");
        Some(fnv_1a(&bytes))
    }
}

/// What of a group a step can change besides its members and offsets, and the member that the step was about.
#[derive(Serialize)]
struct Outline<'a> {
    state: State,
    since_ms: u64,
    generation: i32,
    protocol_type: Option<&'a str>,
    protocol_name: Option<&'a str>,
    leader: Option<&'a str>,
    members: usize,
    pending: usize,
    awaiting_join: u32,
    owing_sync: u32,
    topics_with_offsets: usize,
    timers: Vec<(&'static str, u64)>,
    creating: Option<u64>,
    assigning: Option<u64>,
    deleting: Option<u64>,
    durable: bool,
    member: Option<ProjectedMember>,
}

impl Coordinator {
    /// 64 bits over a group as a whole and one of its members, in time that does not grow with the group: what a
    /// journal notes of every event. What it leaves out, the other members and the offsets, [`Coordinator::snapshot`]
    /// has. 0: no such group.
    pub fn outline_digest(&self, group_id: &str, member_id: &str) -> u64 {
        let Some(handle) = self.find_group(group_id) else { return 0 };
        let group = &self.groups[handle];
        let number = |append_id: AppendId| append_id.0;
        let outline = Outline {
            state: group.state,
            since_ms: group.since_ms,
            generation: group.generation,
            protocol_type: group.protocol_type.as_deref(),
            protocol_name: group.protocol_name.as_deref(),
            leader: group.leader.map(|leader| &*self.members[leader].id),
            members: group.joined.len(),
            pending: group.pending.len(),
            awaiting_join: group.awaiting_join,
            owing_sync: group.owing_sync,
            topics_with_offsets: group.offsets.len(),
            timers: self.timers(group),
            creating: group.creating.map(number),
            assigning: group.assigning.as_ref().map(|assigning| assigning.append_id.0),
            deleting: group.deleting.map(number),
            durable: group.durable,
            member: self.find_member(group_id, member_id).map(|member| self.project_member(&self.members[member])),
        };
        fnv_1a(&postcard::to_allocvec(&outline).expect("plain data can be written"))
    }
}

/// FNV-1a, 64 bits: the same everywhere, which a standard hasher does not promise.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::fnv_1a;

    /// From the test vectors of FNV's authors.
    #[test]
    fn the_digest_is_fnv_1a() {
        let hashes = ["", "a", "foobar"].map(|text| fnv_1a(text.as_bytes()));
        assert_eq!(hashes, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
    }
}
