//! A group and its members: data, and the small operations that keep its counters right (docs/protocol.md §1).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    effects::{AppendId, Moment, Step},
    history::{Departed, Departure, Rebalance},
    ids,
    joining_order::JoiningOrder,
    member_id::MemberId,
    purgatory::OpId,
    records::{GroupValue, MemberValue, OffsetValue},
    request::{Now, Protocol, Ticket},
    slots::Handle,
    states::State,
};

/// Names a member.
pub type MemberHandle = Handle<Member>;
/// Names a group.
pub type GroupHandle = Handle<Group>;

/// A protocol that a member offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedProtocol {
    /// Such as `range`.
    pub name: Arc<str>,
    /// Opaque.
    pub metadata: Arc<[u8]>,
}

/// Who joined a member: `client.id`, host and `group.instance.id`, as of its first join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// `client.id`
    pub id: Arc<str>,
    /// As Kafka writes it: `/127.0.0.1`.
    pub host: Arc<str>,
    /// Static members only.
    pub instance_id: Option<Arc<str>>,
}

impl Client {
    /// The client with these names; the other's memory, as far as that is the same.
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
    /// Whom to answer.
    pub ticket: Ticket,
    /// The request's version: what a static leader is told depends on it (§9).
    pub version: i16,
}

/// What of a member waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parked {
    /// Its `JoinGroup`, see [`ParkedJoin`].
    Join {
        /// Whom to answer.
        ticket: Ticket,
        /// The request's version.
        version: i16,
    },
    /// Its `SyncGroup`, that waits for the leader's plan.
    Sync {
        /// Whom to answer.
        ticket: Ticket,
    },
}

impl From<ParkedJoin> for Parked {
    fn from(ParkedJoin { ticket, version }: ParkedJoin) -> Parked {
        Parked::Join { ticket, version }
    }
}

/// A member. What a heartbeat reads comes first, so that it lies on two lines of cache with the number of its slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// Its group.
    pub group: GroupHandle,
    /// Its session or new-member deadline; none while it is parked and not new (S19). Whether a slot is full is told by
    /// its tag.
    pub session: Option<OpId>,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// It has not sent `SyncGroup` for this generation.
    pub owes_sync: bool,
    /// It has never seen a join phase complete.
    pub is_new: bool,
    /// Its request that waits. INVARIANT: S18, one at most.
    pub parked: Option<Parked>,
    /// As it joined first.
    pub client: Arc<Client>,
    /// In order of preference, each name once.
    pub protocols: Arc<[OwnedProtocol]>,
    /// The leader's bytes for it.
    pub assignment: Arc<[u8]>,
}

impl Member {
    /// Parked members do not expire, unless they are new.
    pub fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Its `JoinGroup`, parked.
    pub fn parked_join(&self) -> Option<ParkedJoin> {
        match self.parked {
            Some(Parked::Join { ticket, version }) => Some(ParkedJoin { ticket, version }),
            _ => None,
        }
    }

    /// Its `SyncGroup`, parked: whom to answer.
    pub fn parked_sync(&self) -> Option<Ticket> {
        match self.parked {
            Some(Parked::Sync { ticket }) => Some(ticket),
            _ => None,
        }
    }

    /// Its parked `JoinGroup`, which waits no more.
    pub fn take_join(&mut self) -> Option<ParkedJoin> {
        let join = self.parked_join()?;
        self.parked = None;
        Some(join)
    }

    /// Its parked `SyncGroup`, which waits no more.
    pub fn take_sync(&mut self) -> Option<Ticket> {
        let sync = self.parked_sync()?;
        self.parked = None;
        Some(sync)
    }

    /// Whether its `JoinGroup` is parked.
    pub fn awaits_join(&self) -> bool {
        self.parked_join().is_some()
    }

    /// Whether its `SyncGroup` is parked.
    pub fn awaits_sync(&self) -> bool {
        self.parked_sync().is_some()
    }

    /// Its metadata for a protocol; none if it does not list it.
    pub fn metadata(&self, protocol: &str) -> Option<&Arc<[u8]>> {
        self.protocols.iter().find(|offer| &*offer.name == protocol).map(|offer| &offer.metadata)
    }

    /// The same as bytes; none of them if it does not list the protocol.
    pub fn metadata_bytes(&self, protocol: &str) -> &[u8] {
        self.metadata(protocol).map_or(&[], |metadata| metadata)
    }

    /// Whether a request offers just what the member offered before: same names, same order, same bytes (§4.2).
    pub fn offers_the_same(&self, protocols: &[Protocol<'_>]) -> bool {
        let offered = distinct(protocols);
        offered.len() == self.protocols.len()
            && offered
                .iter()
                .zip(&*self.protocols)
                .all(|(new, old)| new.name == &*old.name && new.metadata == &*old.metadata)
    }
}

/// A name that is listed twice counts once, with its first metadata (departure D4).
pub fn distinct<'a>(protocols: &[Protocol<'a>]) -> Vec<Protocol<'a>> {
    let mut seen = BTreeSet::new();
    protocols.iter().filter(|protocol| seen.insert(protocol.name)).copied().collect()
}

/// An id that was handed out and has not joined (§4.6).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PendingMember {
    /// The slot that its member will have.
    pub slot: MemberHandle,
    /// Its deadline.
    pub expiry: OpId,
}

/// The initial delay of a rebalance that began from Empty (§5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialDelay {
    /// The delay that runs now.
    pub delay_ms: u64,
    /// How much may still be added.
    pub remaining_ms: u64,
}

/// The leader's plan on its way to the log (§6.3).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assigning {
    /// Its append.
    pub append_id: AppendId,
    /// One entry per member, in joining order.
    pub plan: Vec<(MemberHandle, Arc<[u8]>)>,
}

/// A group. What a heartbeat reads comes first, on one line of cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Group {
    /// Its id.
    pub id: Arc<str>,
    /// +1 whenever a join phase completes.
    pub generation: i32,
    /// Its state.
    pub state: State,
    /// Somebody joined during the initial delay.
    pub new_member_added: bool,
    /// The join phase is over but for the record of the new group (§4.10).
    pub join_held: bool,
    /// The log has something of this group.
    pub durable: bool,
    /// How many members have a parked join (S21).
    pub awaiting_join: u32,
    /// How many members owe a SyncGroup (S21).
    pub owing_sync: u32,
    /// Since when, monotonic milliseconds.
    pub since_ms: u64,
    /// Since when, wall milliseconds; absent in groups loaded from old records.
    pub state_timestamp_ms: Option<i64>,
    /// From the first member of a member-less group; kept when the group empties.
    pub protocol_type: Option<Arc<str>>,
    /// Chosen at join completion.
    pub protocol_name: Option<Arc<str>>,
    /// Present iff there is a member (S3).
    pub leader: Option<MemberHandle>,
    /// All members, by joining order.
    pub joined: JoiningOrder<MemberHandle>,
    /// By id, those whose id does not name their slot: they came from another incarnation, or another coordinator.
    pub strangers: BTreeMap<Arc<str>, MemberHandle>,
    /// The members that have an instance id, by it (S16).
    pub instances: BTreeMap<Arc<str>, MemberHandle>,
    /// Ids handed out with `MEMBER_ID_REQUIRED`.
    pub pending: BTreeMap<Arc<str>, PendingMember>,
    /// How many members list each name.
    pub support: BTreeMap<Arc<str>, u32>,
    /// Set while the rebalance began from Empty.
    pub initial: Option<InitialDelay>,
    /// The join or initial-delay deadline.
    pub join_deadline: Option<OpId>,
    /// The sync deadline.
    pub sync_deadline: Option<OpId>,
    /// The record of the new group, in flight.
    pub creating: Option<AppendId>,
    /// The end of this group, in flight (§12.3, §13.3): until then nobody joins.
    pub deleting: Option<AppendId>,
    /// The leader's plan, in flight.
    pub assigning: Option<Assigning>,
    /// Topics that members subscribe to; `None` is unknown.
    pub subscribed_topics: Option<BTreeSet<Arc<str>>>,
    /// Durable offsets by topic and partition.
    pub offsets: BTreeMap<Arc<str>, BTreeMap<i32, OffsetValue>>,
    /// The last rebalances.
    pub rebalances: VecDeque<Rebalance>,
}

impl Group {
    /// A new, Empty group.
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
            strangers: BTreeMap::new(),
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
            offsets: BTreeMap::new(),
            rebalances: VecDeque::new(),
        }
    }

    /// "All joined": every member is parked and no id is pending; true without members (§5.2).
    pub fn all_joined(&self) -> bool {
        self.joined.len() == self.awaiting_join as usize && self.pending.is_empty()
    }

    /// Whether the bytes of its members are the embedded consumer protocol (§18).
    pub fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// Whether a member subscribes to the topic, as far as is known; what is unknown counts as all topics (§12.4).
    pub fn subscribes(&self, topic: &str) -> bool {
        self.is_consumer() && self.subscribed_topics.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    /// Whether the outside can see it: a group whose first record is in flight is still "Dead" (§12.1).
    pub fn is_visible(&self) -> bool {
        self.durable && self.state != State::Dead
    }

    /// Goes to `state`. INVARIANT: S5, only legal edges.
    pub fn enter(&mut self, state: State, now: Now) {
        assert!(self.state.may_become(state), "group {:?} cannot go from {:?} to {state:?}", self.id, self.state);
        self.state = state;
        self.since_ms = now.mono_ms;
        self.state_timestamp_ms = Some(now.wall_ms);
    }

    /// An offset, in place of the one before.
    pub fn put_offset(&mut self, topic: &str, partition: i32, value: OffsetValue) {
        self.durable = true;
        if let Some(partitions) = self.offsets.get_mut(topic) {
            partitions.insert(partition, value);
        } else {
            self.offsets.insert(topic.into(), BTreeMap::from([(partition, value)]));
        }
    }

    /// Takes an offset away, and with the last of its topic the topic.
    pub fn remove_offset(&mut self, topic: &str, partition: i32) {
        let Some(partitions) = self.offsets.get_mut(topic) else { return };
        partitions.remove(&partition);
        if partitions.is_empty() {
            self.offsets.remove(topic);
        }
    }

    /// A member joins: it comes last, and there is a way to it by its id.
    pub fn enlist(&mut self, member_id: &str, handle: MemberHandle) {
        self.joined.push(handle);
        self.name(member_id, handle);
    }

    /// Has a way lead from a member's id to it, if the id does not name its slot itself.
    pub fn name(&mut self, member_id: &str, handle: MemberHandle) {
        if !is_native(member_id, handle) {
            self.strangers.insert(member_id.into(), handle);
        }
    }

    /// Counts a member's protocols in, or out again.
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

    /// The join phase of the rebalance that is going on is complete: `generation` has come of it.
    pub(crate) fn rebalance_joined(&mut self, step: &mut Step<'_>, generation: i32) {
        if let Some(rebalance) = open(&mut self.rebalances) {
            rebalance.to_generation = Some(generation);
            rebalance.joined_ms = Some(step.now.mono_ms);
            step.sink.rebalance(&self.id, Moment::Joined, rebalance);
        }
    }

    /// The rebalance that is going on is over.
    pub(crate) fn rebalance_settled(&mut self, step: &mut Step<'_>) {
        if let Some(rebalance) = open(&mut self.rebalances) {
            rebalance.settled_ms = Some(step.now.mono_ms);
            step.sink.rebalance(&self.id, Moment::Settled, rebalance);
        }
    }

    /// Adds a member that went to the history of the latest rebalance, of which it keeps the last `kept` departures.
    pub(crate) fn note_departure(&mut self, now: Now, kept: u32, member_id: Arc<str>, how: Departed, reason: &str) {
        let Some(rebalance) = self.rebalances.back_mut() else { return };
        if rebalance.departures.len() >= kept.max(1) as usize {
            rebalance.departures.remove(0);
        }
        rebalance.departures.push(Departure { member_id, how, reason: reason.into(), at_ms: now.mono_ms });
    }

    /// The group as a record without members: new, or emptied (§14).
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

/// Whether a member's id names its slot, so that no table is needed to find it.
pub fn is_native(member_id: &str, handle: MemberHandle) -> bool {
    ids::hinted_slot(member_id.as_bytes()) == Some(handle.index())
}

/// The rebalance that is going on.
fn open(rebalances: &mut VecDeque<Rebalance>) -> Option<&mut Rebalance> {
    rebalances.back_mut().filter(|rebalance| rebalance.settled_ms.is_none())
}

/// A member as part of a group record.
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
