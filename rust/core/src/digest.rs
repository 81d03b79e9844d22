//! Digests of a group: what a journal stores with every event, without copies of what it hashes.

use postcard::{ser_flavors::Flavor, serialize_with_flavor};
use serde::{Serialize, Serializer};

use crate::{
    coordinator::Coordinator,
    effects::AppendId,
    group::{Member, OwnedProtocol},
    records::serialized_bytes,
    states::State,
};

/// What a step can change in a group besides its members and offsets, and the member of the step.
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
    member: Option<OutlinedMember<'a>>,
}

/// A member, encoded as a [`ProjectedMember`](crate::projection::ProjectedMember).
#[expect(clippy::struct_excessive_bools, reason = "they are those of the projection")]
#[derive(Serialize)]
struct OutlinedMember<'a> {
    member_id: &'a str,
    instance_id: Option<&'a str>,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    #[serde(serialize_with = "pairs")]
    protocols: &'a [OwnedProtocol],
    #[serde(serialize_with = "serialized_bytes")]
    assignment: &'a [u8],
    awaits_join: bool,
    awaits_sync: bool,
    owes_sync: bool,
    is_new: bool,
    deadline_ms: Option<u64>,
}

/// Protocols as pairs of a name and bytes.
fn pairs<S: Serializer>(protocols: &[OwnedProtocol], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Pair<'a>(&'a str, #[serde(serialize_with = "serialized_bytes")] &'a [u8]);
    serializer.collect_seq(protocols.iter().map(|offer| Pair(&offer.name, &offer.metadata)))
}

impl Coordinator {
    /// Returns a 64-bit hash of a group's projection; `None` if there is no such group.
    pub fn digest(&self, group_id: &str) -> Option<u64> {
        Some(hash_of(&self.project(group_id)?))
    }

    /// Returns a 64-bit hash of a group as a whole and one of its members, in time independent of the group's size. A
    /// journal stores it with every event. It leaves out other members and offsets; [`Coordinator::snapshot`] has them.
    /// Returns 0 if there is no such group.
    pub fn outline_digest(&self, group_id: &str, member_id: &str) -> u64 {
        let Some(handle) = self.find_group(group_id) else { return 0 };
        let group = &self.groups[handle];
        let number = |append_id: AppendId| append_id.0;
        hash_of(&Outline {
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
            topics_with_offsets: group.offsets.topic_count(),
            timers: self.timers(group).collect(),
            creating: group.creating.map(number),
            assigning: group.assigning.as_ref().map(|assigning| assigning.append_id.0),
            deleting: group.deleting.map(number),
            durable: group.durable,
            member: self.find_member(group_id, member_id).map(|member| self.outline_member(&self.members[member])),
        })
    }

    fn outline_member<'a>(&'a self, member: &'a Member) -> OutlinedMember<'a> {
        OutlinedMember {
            member_id: &member.id,
            instance_id: member.client.instance_id.as_deref(),
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            protocols: &member.protocols,
            assignment: &member.assignment,
            awaits_join: member.awaits_join(),
            awaits_sync: member.awaits_sync(),
            owes_sync: member.owes_sync,
            is_new: member.is_new,
            deadline_ms: member.session.and_then(|session| self.purgatory.deadline(session)),
        }
    }
}

/// Hashes what `postcard` makes of plain data.
fn hash_of(data: &impl Serialize) -> u64 {
    serialize_with_flavor(data, Fnv1a::BEGIN).expect("plain data can be written")
}

/// FNV-1a with 64 bits, the same on every platform; a standard hasher does not guarantee that.
struct Fnv1a(u64);

impl Fnv1a {
    const BEGIN: Fnv1a = Fnv1a(0xcbf2_9ce4_8422_2325);
}

impl Flavor for Fnv1a {
    type Output = u64;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<u64> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::ProjectedMember;

    fn fnv_1a(bytes: &[u8]) -> u64 {
        let mut hash = Fnv1a::BEGIN;
        hash.try_extend(bytes).unwrap();
        hash.finalize().unwrap()
    }

    /// From the test vectors of FNV's authors.
    #[test]
    fn the_digest_is_fnv_1a() {
        assert_eq!(
            ["", "a", "foobar"].map(|text| fnv_1a(text.as_bytes())),
            [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
        );
    }

    /// Journals have these digests.
    #[test]
    fn a_member_is_hashed_as_its_projection() {
        let protocols = [OwnedProtocol { name: "range".into(), metadata: [1, 2, 3].into() }];
        let outlined = OutlinedMember {
            member_id: "m",
            instance_id: Some("i"),
            session_timeout_ms: 6_000,
            rebalance_timeout_ms: -1,
            protocols: &protocols,
            assignment: &[7; 200],
            awaits_join: true,
            awaits_sync: false,
            owes_sync: true,
            is_new: false,
            deadline_ms: Some(300),
        };
        let projected = ProjectedMember {
            member_id: "m".into(),
            instance_id: Some("i".into()),
            session_timeout_ms: 6_000,
            rebalance_timeout_ms: -1,
            protocols: vec![("range".into(), [1, 2, 3].into())],
            assignment: [7; 200].into(),
            awaits_join: true,
            awaits_sync: false,
            owes_sync: true,
            is_new: false,
            deadline_ms: Some(300),
        };
        assert_eq!(postcard::to_allocvec(&outlined).unwrap(), postcard::to_allocvec(&projected).unwrap());
        assert_eq!(hash_of(&outlined), fnv_1a(&postcard::to_allocvec(&projected).unwrap()));
    }
}
