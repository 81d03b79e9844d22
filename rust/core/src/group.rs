//! A group and its members: data, and the small operations that keep its counters right (docs/protocol.md §1).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    effects::{AppendId, Moment, Step},
    history::{Departed, Departure, Rebalance, kept_reason},
    ids,
    joining_order::JoiningOrder,
    member_id::MemberId,
    purgatory::OpId,
    records::{GroupValue, MemberValue, OffsetValue},
    request::{Now, Protocol, Ticket},
    slots::{Handle, Slots},
    states::State,
    stored_offsets::StoredOffsets,
};

/// Identifies a member.
pub type MemberHandle = Handle<Member>;
/// Identifies a group.
pub type GroupHandle = Handle<Group>;

/// A protocol that a member offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedProtocol {
    /// The protocol's name, such as `range`.
    pub name: Arc<str>,
    /// The member's metadata; opaque to the coordinator.
    pub metadata: Arc<[u8]>,
}

/// The client of a member: `client.id`, host and `group.instance.id`, as of its first join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// `client.id`.
    pub id: Arc<str>,
    /// Host in Kafka's notation: `/127.0.0.1`.
    pub host: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
}

impl Client {
    /// Creates a client with these names. Shares memory with the client of `other` if both are equal.
    pub fn like(other: Option<&Member>, id: &str, host: &str, instance_id: Option<Arc<str>>) -> Arc<Client> {
        let other = other.map(|other| &other.client);
        let shared = |text: &str, other: Option<&Arc<str>>| {
            other.filter(|other| ***other == *text).map_or_else(|| text.into(), Arc::clone)
        };
        match other {
            Some(other) if *other.id == *id && *other.host == *host && other.instance_id == instance_id => {
                Arc::clone(other)
            }
            _ => Arc::new(Client {
                id: shared(id, other.map(|other| &other.id)),
                host: shared(host, other.map(|other| &other.host)),
                instance_id,
            }),
        }
    }
}

/// A `JoinGroup` that waits for the end of the join phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedJoin {
    /// The ticket to answer.
    pub ticket: Ticket,
    /// The request's version. The answer of a static leader depends on it (§9).
    pub version: i16,
}

/// The parked request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parked {
    /// A `JoinGroup`, see `ParkedJoin`.
    Join {
        /// The ticket to answer.
        ticket: Ticket,
        /// The request's version.
        version: i16,
    },
    /// A `SyncGroup` that waits for the leader's assignment.
    Sync {
        /// The ticket to answer.
        ticket: Ticket,
    },
}

impl From<ParkedJoin> for Parked {
    fn from(ParkedJoin { ticket, version }: ParkedJoin) -> Parked {
        Parked::Join { ticket, version }
    }
}

/// A member. The fields that a heartbeat reads come first, so that they share two cache lines with the slot number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Member {
    /// The member id.
    pub id: MemberId,
    /// Its group.
    pub group: GroupHandle,
    /// The session or new-member deadline; `None` while the member is parked and not new (S19). The tag shows whether a
    /// slot is full.
    pub session: Option<OpId>,
    /// `session.timeout.ms`, in milliseconds.
    pub session_timeout_ms: i32,
    /// `rebalance.timeout.ms`, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// Whether `SyncGroup` of this generation is missing.
    pub owes_sync: bool,
    /// Whether the member has never seen a join phase complete.
    pub is_new: bool,
    /// The parked request. INVARIANT: S18, at most one.
    pub parked: Option<Parked>,
    /// The client of the first join.
    pub client: Arc<Client>,
    /// The offered protocols in order of preference, each name once.
    pub protocols: Arc<[OwnedProtocol]>,
    /// The assignment that the leader sent for this member.
    pub assignment: Arc<[u8]>,
}

impl Member {
    /// Whether a request is parked. Parked members do not expire, unless they are new.
    pub fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Returns the parked `JoinGroup`.
    pub fn parked_join(&self) -> Option<ParkedJoin> {
        match self.parked {
            Some(Parked::Join { ticket, version }) => Some(ParkedJoin { ticket, version }),
            _ => None,
        }
    }

    /// Returns the ticket of the parked `SyncGroup`.
    pub fn parked_sync(&self) -> Option<Ticket> {
        match self.parked {
            Some(Parked::Sync { ticket }) => Some(ticket),
            _ => None,
        }
    }

    /// Takes the parked `JoinGroup`.
    pub fn take_join(&mut self) -> Option<ParkedJoin> {
        let join = self.parked_join()?;
        self.parked = None;
        Some(join)
    }

    /// Takes the parked `SyncGroup`.
    pub fn take_sync(&mut self) -> Option<Ticket> {
        let sync = self.parked_sync()?;
        self.parked = None;
        Some(sync)
    }

    /// Whether a `JoinGroup` is parked.
    pub fn awaits_join(&self) -> bool {
        self.parked_join().is_some()
    }

    /// Whether a `SyncGroup` is parked.
    pub fn awaits_sync(&self) -> bool {
        self.parked_sync().is_some()
    }

    /// Returns the metadata for a protocol; `None` if the member does not offer it.
    pub fn metadata(&self, protocol: &str) -> Option<&Arc<[u8]>> {
        self.protocols.iter().find(|offer| &*offer.name == protocol).map(|offer| &offer.metadata)
    }

    /// Returns the metadata for a protocol as bytes; empty if the member does not offer it.
    pub fn metadata_bytes(&self, protocol: &str) -> &[u8] {
        self.metadata(protocol).map_or(&[], |metadata| metadata)
    }

    /// Whether a request offers the same as the member before: same names, same order, same bytes (§4.2).
    pub fn offers_the_same(&self, protocols: &[Protocol<'_>]) -> bool {
        let offered = distinct(protocols);
        offered.len() == self.protocols.len()
            && offered
                .iter()
                .zip(&*self.protocols)
                .all(|(new, old)| new.name == &*old.name && new.metadata == &*old.metadata)
    }
}

/// Drops repeated names. The first metadata of a name counts (departure D4).
pub fn distinct<'a>(protocols: &[Protocol<'a>]) -> Vec<Protocol<'a>> {
    let mut seen = BTreeSet::new();
    protocols.iter().filter(|protocol| seen.insert(protocol.name)).copied().collect()
}

/// A member id that was handed out and has not joined (§4.6).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PendingMember {
    /// The slot reserved for the member.
    pub slot: MemberHandle,
    /// The deadline of the id.
    pub expiry: OpId,
}

/// The initial delay of a rebalance that began from Empty (§5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialDelay {
    /// The current delay in milliseconds.
    pub delay_ms: u64,
    /// The remaining budget for extensions, in milliseconds.
    pub remaining_ms: u64,
}

/// The leader's assignment in flight (§6.3).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assigning {
    /// The append in flight.
    pub append_id: AppendId,
    /// One entry per member, in joining order.
    pub plan: Vec<(MemberHandle, Arc<[u8]>)>,
}

/// A group. The fields that a heartbeat reads come first, on one cache line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Group {
    /// The group id.
    pub id: Arc<str>,
    /// The generation: grows by 1 whenever a join phase completes.
    pub generation: i32,
    /// Its state.
    pub state: State,
    /// Whether a member joined during the initial delay.
    pub new_member_added: bool,
    /// Whether the join phase only waits for the record of the new group (§4.10).
    pub join_held: bool,
    /// Whether the log has a record of this group.
    pub durable: bool,
    /// Members with a parked join (S21).
    pub awaiting_join: u32,
    /// Members whose `SyncGroup` is missing (S21).
    pub owing_sync: u32,
    /// Start of the state in monotonic milliseconds.
    pub since_ms: u64,
    /// Start of the state in wall milliseconds; `None` in groups loaded from old records.
    pub state_timestamp_ms: Option<i64>,
    /// Set by the first member of an empty group, and kept when the group becomes empty again.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol that the join phase chose.
    pub protocol_name: Option<Arc<str>>,
    /// The leader; present exactly if there is a member (S3).
    pub leader: Option<MemberHandle>,
    /// All members in joining order.
    pub joined: JoiningOrder<Member>,
    /// Members whose id does not name their slot, by id. Another incarnation or another coordinator minted these ids.
    pub members_by_id: BTreeMap<Arc<str>, MemberHandle>,
    /// Static members by instance id (S16).
    pub instances: BTreeMap<Arc<str>, MemberHandle>,
    /// Ids handed out with `MEMBER_ID_REQUIRED`.
    pub pending: BTreeMap<Arc<str>, PendingMember>,
    /// Number of members that offer each protocol name.
    pub support: BTreeMap<Arc<str>, u32>,
    /// The initial delay; set while a rebalance that began from Empty runs.
    pub initial: Option<InitialDelay>,
    /// The deadline of the join phase or the initial delay.
    pub join_deadline: Option<OpId>,
    /// The deadline of the sync phase.
    pub sync_deadline: Option<OpId>,
    /// The append of the new group's record, in flight.
    pub creating: Option<AppendId>,
    /// The append that deletes this group, in flight (§12.3, §13.3). No member joins until it completes.
    pub deleting: Option<AppendId>,
    /// The leader's assignment, in flight.
    pub assigning: Option<Assigning>,
    /// Topics that members subscribe to; `None` if unknown.
    pub subscribed_topics: Option<BTreeSet<Arc<str>>>,
    /// Durable offsets by topic and partition.
    pub offsets: StoredOffsets,
    /// The latest rebalances, oldest first.
    pub rebalances: VecDeque<Rebalance>,
}

impl Group {
    /// Whether its members are joining again, or waiting for the leader's plan.
    pub fn is_rebalancing(&self) -> bool {
        self.state != State::Stable && !self.joined.is_empty()
    }

    /// Creates an Empty group.
    pub fn new(id: Arc<str>, now: Now) -> Group {
        Group {
            id,
            state: State::Empty,
            since_ms: now.mono_ms,
            state_timestamp_ms: Some(now.wall_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            joined: JoiningOrder::default(),
            members_by_id: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeMap::new(),
            support: BTreeMap::new(),
            awaiting_join: 0,
            owing_sync: 0,
            initial: None,
            new_member_added: false,
            join_deadline: None,
            sync_deadline: None,
            join_held: false,
            durable: false,
            creating: None,
            deleting: None,
            assigning: None,
            subscribed_topics: None,
            offsets: StoredOffsets::default(),
            rebalances: VecDeque::new(),
        }
    }

    /// Whether every member has a parked join and no id is pending (§5.2). True without members.
    pub fn all_joined(&self) -> bool {
        self.joined.len() == self.awaiting_join as usize && self.pending.is_empty()
    }

    /// Whether members use the embedded consumer protocol (§18).
    pub fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// Whether a member subscribes to the topic. An unknown subscription counts as all topics (§12.4).
    pub fn subscribes(&self, topic: &str) -> bool {
        self.is_consumer() && self.subscribed_topics.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    /// Whether clients can see the group. A group whose first record is in flight is still "Dead" (§12.1).
    pub fn is_visible(&self) -> bool {
        self.durable && self.state != State::Dead
    }

    /// Enters `state`. INVARIANT: S5, only legal transitions.
    pub fn enter(&mut self, state: State, now: Now) {
        assert!(self.state.may_become(state), "group {:?} cannot go from {:?} to {state:?}", self.id, self.state);
        self.state = state;
        self.since_ms = now.mono_ms;
        self.state_timestamp_ms = Some(now.wall_ms);
    }

    /// Sets an offset.
    pub fn put_offset(&mut self, topic: &str, partition: i32, value: OffsetValue) {
        self.durable = true;
        self.offsets.put(topic, partition, value);
    }

    /// Adds a member at the end of the joining order and indexes its id.
    pub fn enlist(&mut self, member_id: &str, handle: MemberHandle, members: &mut Slots<Member>) {
        self.joined.push(handle, members);
        self.name(member_id, handle);
    }

    /// Indexes a member's id, unless the id names the member's slot.
    pub fn name(&mut self, member_id: &str, handle: MemberHandle) {
        if !is_native(member_id, handle) {
            self.members_by_id.insert(member_id.into(), handle);
        }
    }

    /// Adds a member's protocols to `support`, or removes them.
    pub fn count_protocols(&mut self, protocols: &[OwnedProtocol], joining: bool) {
        for protocol in protocols {
            let count = self.support.entry(Arc::clone(&protocol.name)).or_insert(0);
            if joining {
                *count += 1;
            } else {
                *count -= 1;
                if *count == 0 {
                    self.support.remove(&protocol.name);
                }
            }
        }
    }

    /// Records in the history that the join phase of the current rebalance completed with `generation`.
    pub(crate) fn rebalance_joined(&mut self, step: &mut Step<'_>, generation: i32) {
        if let Some(rebalance) = open(&mut self.rebalances) {
            rebalance.to_generation = Some(generation);
            rebalance.joined_ms = Some(step.now.mono_ms);
            step.sink.rebalance(&self.id, Moment::Joined, rebalance);
        }
    }

    /// Records in the history that the current rebalance is over.
    pub(crate) fn rebalance_settled(&mut self, step: &mut Step<'_>) {
        if let Some(rebalance) = open(&mut self.rebalances) {
            rebalance.settled_ms = Some(step.now.mono_ms);
            step.sink.rebalance(&self.id, Moment::Settled, rebalance);
        }
    }

    /// Adds a departure to the history of the latest rebalance, which keeps the last `kept` departures.
    pub(crate) fn note_departure(&mut self, now: Now, kept: u32, member_id: Arc<str>, how: Departed, reason: &str) {
        let Some(rebalance) = self.rebalances.back_mut() else { return };
        if rebalance.departures.len() >= kept.max(1) as usize {
            rebalance.departures.remove(0);
        }
        rebalance.departures.push(Departure { member_id, how, reason: kept_reason(reason), at_ms: now.mono_ms });
    }

    /// Returns the group without members as a record: new, or empty again (§14).
    pub fn empty_record(&self) -> GroupValue {
        GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_else(|| "".into()),
            generation: self.generation,
            protocol_name: None,
            leader: None,
            state_timestamp_ms: self.state_timestamp_ms.unwrap_or(-1),
            members: Vec::new(),
        }
    }
}

/// Whether a member id names the member's slot. Such a member needs no table entry.
pub fn is_native(member_id: &str, handle: MemberHandle) -> bool {
    ids::hinted_slot(member_id.as_bytes()) == Some(handle.index())
}

/// Returns the current rebalance.
fn open(rebalances: &mut VecDeque<Rebalance>) -> Option<&mut Rebalance> {
    rebalances.back_mut().filter(|rebalance| rebalance.settled_ms.is_none())
}

/// Returns a member as part of a group record.
pub fn member_record(member: &Member, protocol: &str, assignment: &Arc<[u8]>) -> MemberValue {
    MemberValue {
        member_id: member.id.shared(),
        instance_id: member.client.instance_id.clone(),
        client_id: Arc::clone(&member.client.id),
        client_host: Arc::clone(&member.client.host),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        session_timeout_ms: member.session_timeout_ms,
        subscription: member.metadata(protocol).cloned().unwrap_or_default(),
        assignment: Arc::clone(assignment),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::operations::Operation;

    /// What docs/benchmarks.md says that an idle member takes.
    #[test]
    fn a_member_and_what_its_timer_carries_stay_as_small_as_they_are() {
        assert_eq!((size_of::<Member>(), size_of::<Operation>()), (152, 16));
    }

    /// With the number of its slot before it, a member has 8 bytes less than those to read.
    #[test]
    fn what_a_heartbeat_reads_comes_first() {
        assert_eq!(offset_of!(Member, rebalance_timeout_ms), 96 - 8);
        assert_eq!(offset_of!(Group, awaiting_join), 32 - 8);
    }
}
