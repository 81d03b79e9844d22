//! One group's state in the terms of the vocabulary, for comparison with a model.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    coordinator::Coordinator,
    group::{Group, Member, OwnedProtocol},
    member_id::MemberId,
    operations::Operation,
    purgatory::OpId,
    records::{OffsetValue, Record},
    states::State,
    stored_offsets::StoredOffset,
};

/// One group as plain data. Every list has a documented order; every deadline is the logical one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Projection {
    /// The group id.
    pub group_id: Arc<str>,
    /// Its state.
    pub state: State,
    /// Start of the state in monotonic milliseconds.
    pub since_ms: u64,
    /// Its generation.
    pub generation: i32,
    /// The protocol type; kept when the group becomes empty.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub protocol_name: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// Members in joining order.
    pub members: Vec<ProjectedMember>,
    /// Pending member ids with their deadlines in milliseconds, by id.
    pub pending: Vec<(Arc<str>, u64)>,
    /// The armed initial-delay, join and sync deadlines in milliseconds, by name.
    pub timers: Vec<(&'static str, u64)>,
    /// Ids of the group's appends in flight, ascending.
    pub in_flight: Vec<u64>,
    /// Id of the append that deletes this group, in flight.
    pub deleting: Option<u64>,
    /// Whether the log has a record of this group.
    pub durable: bool,
    /// Topics that members subscribe to, sorted; `None` if unknown.
    pub subscribed_topics: Option<Vec<Arc<str>>>,
    /// Durable offsets by topic and partition.
    pub offsets: Vec<(Arc<str>, i32, OffsetValue)>,
}

/// One member as plain data.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, compared field by field")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ProjectedMember {
    /// The member id.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `session.timeout.ms`, in milliseconds.
    pub session_timeout_ms: i32,
    /// `rebalance.timeout.ms`, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// (name, metadata) in order of preference.
    pub protocols: Vec<(Arc<str>, Arc<[u8]>)>,
    /// The assignment that the leader sent for this member.
    pub assignment: Arc<[u8]>,
    /// Whether a `JoinGroup` is parked.
    pub awaits_join: bool,
    /// Whether a `SyncGroup` is parked.
    pub awaits_sync: bool,
    /// Whether `SyncGroup` of this generation is missing.
    pub owes_sync: bool,
    /// Whether the member has never seen a join phase complete.
    pub is_new: bool,
    /// The session or new-member deadline in monotonic milliseconds.
    pub deadline_ms: Option<u64>,
}

impl Projection {
    /// Creates a projection of an otherwise unknown group.
    fn new(group_id: &Arc<str>) -> Projection {
        Projection {
            group_id: Arc::clone(group_id),
            state: State::Empty,
            since_ms: 0,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: Vec::new(),
            pending: Vec::new(),
            timers: Vec::new(),
            in_flight: Vec::new(),
            deleting: None,
            durable: false,
            subscribed_topics: None,
            offsets: Vec::new(),
        }
    }
}

/// Points `seen` to the memory of `own`; does not touch reference counts if they already share it.
fn share<T: ?Sized>(seen: &mut Arc<T>, own: &Arc<T>) {
    if !Arc::ptr_eq(seen, own) {
        seen.clone_from(own);
    }
}

fn share_maybe<T: ?Sized>(seen: &mut Option<Arc<T>>, own: Option<&Arc<T>>) {
    match (seen, own) {
        (Some(seen), Some(own)) => share(seen, own),
        (seen, own) => *seen = own.cloned(),
    }
}

fn show_offset(view: &mut (Arc<str>, i32, OffsetValue), (topic, partition, value): (&Arc<str>, i32, StoredOffset<'_>)) {
    share(&mut view.0, topic);
    view.1 = partition;
    view.2 = value.to_value();
}

/// Fills a list in place: changes existing elements and makes missing ones.
fn refill<T, O>(list: &mut Vec<T>, own: impl Iterator<Item = O>, make: impl Fn(O) -> T, change: impl Fn(&mut T, O)) {
    let mut length = 0;
    for one in own {
        match list.get_mut(length) {
            Some(seen) => change(seen, one),
            None => list.push(make(one)),
        }
        length += 1;
    }
    list.truncate(length);
}

impl Coordinator {
    /// Returns one group as plain data; `None` if there is no such group.
    pub fn project(&self, group_id: &str) -> Option<Projection> {
        let mut view = None;
        self.project_into(group_id, &mut view);
        view
    }

    /// Like [`Coordinator::project`], into an existing view of any group, whose memory is reused.
    pub fn project_into(&self, group_id: &str, view: &mut Option<Projection>) {
        let Some(group) = self.find_group(group_id).map(|group| &self.groups[group]) else {
            *view = None;
            return;
        };
        // Destructured, so that a new field does not compile until it is handled here.
        let Projection {
            group_id: id,
            state,
            since_ms,
            generation,
            protocol_type,
            protocol_name,
            leader,
            members,
            pending,
            timers,
            in_flight,
            deleting,
            durable,
            subscribed_topics,
            offsets,
        } = view.get_or_insert_with(|| Projection::new(&group.id));
        share(id, &group.id);
        (*state, *since_ms, *generation, *durable) = (group.state, group.since_ms, group.generation, group.durable);
        share_maybe(protocol_type, group.protocol_type.as_ref());
        share_maybe(protocol_name, group.protocol_name.as_ref());
        let leads = group.leader.map(|leader| &self.members[leader].id);
        if leader.as_deref().map(str::as_bytes) != leads.map(MemberId::as_bytes) {
            *leader = leads.map(MemberId::shared);
        }
        let joined = group.joined.values().map(|member| &self.members[*member]);
        refill(members, joined, |member| self.project_member(member), |seen, member| self.show_member(member, seen));
        let waiting = group.pending.iter().filter_map(|(id, one)| Some((id, self.purgatory.deadline(one.expiry)?)));
        let show_pending = |seen: &mut (Arc<str>, u64), (id, deadline_ms)| {
            share(&mut seen.0, id);
            seen.1 = deadline_ms;
        };
        refill(pending, waiting, |(id, deadline_ms)| (Arc::clone(id), deadline_ms), show_pending);
        timers.clear();
        timers.extend(self.timers(group));
        in_flight.clear();
        in_flight.extend(self.appends_about(group_id));
        *deleting = group.deleting.map(|append_id| append_id.0);
        match (subscribed_topics, &group.subscribed_topics) {
            (Some(seen), Some(topics)) => refill(seen, topics.iter(), Arc::clone, share),
            (seen, topics) => *seen = topics.as_ref().map(|topics| topics.iter().cloned().collect()),
        }
        let make = |(topic, partition, value): (&Arc<str>, i32, StoredOffset<'_>)| {
            (Arc::clone(topic), partition, value.to_value())
        };
        refill(offsets, group.offsets.iter(), make, show_offset);
    }

    fn appends_about(&self, group_id: &str) -> impl Iterator<Item = u64> {
        let about = move |record: &Record| match record {
            Record::Group { group_id: about, .. }
            | Record::Offset { group_id: about, .. }
            | Record::Consumer { group_id: about, .. } => **about == *group_id,
            Record::Unknown { .. } => false,
        };
        let in_flight = self.appends.iter().filter(move |(_, append)| append.records.iter().any(about));
        in_flight.map(|(append_id, _)| append_id.0)
    }

    fn project_member(&self, member: &Member) -> ProjectedMember {
        let mut view = ProjectedMember {
            member_id: member.id.shared(),
            instance_id: None,
            session_timeout_ms: 0,
            rebalance_timeout_ms: 0,
            protocols: Vec::with_capacity(member.protocols.len()),
            assignment: Arc::clone(&member.assignment),
            awaits_join: false,
            awaits_sync: false,
            owes_sync: false,
            is_new: false,
            deadline_ms: None,
        };
        self.show_member(member, &mut view);
        view
    }

    fn show_member(&self, member: &Member, view: &mut ProjectedMember) {
        let ProjectedMember {
            member_id,
            instance_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocols,
            assignment,
            awaits_join,
            awaits_sync,
            owes_sync,
            is_new,
            deadline_ms,
        } = view;
        if member_id.as_bytes() != member.id.as_bytes() {
            *member_id = member.id.shared();
        }
        share_maybe(instance_id, member.client.instance_id.as_ref());
        (*session_timeout_ms, *rebalance_timeout_ms) = (member.session_timeout_ms, member.rebalance_timeout_ms);
        let make = |offer: &OwnedProtocol| (Arc::clone(&offer.name), Arc::clone(&offer.metadata));
        refill(protocols, member.protocols.iter(), make, |(name, metadata), offer| {
            share(name, &offer.name);
            share(metadata, &offer.metadata);
        });
        share(assignment, &member.assignment);
        (*awaits_join, *awaits_sync) = (member.awaits_join(), member.awaits_sync());
        (*owes_sync, *is_new) = (member.owes_sync, member.is_new);
        *deadline_ms = member.session.and_then(|session| self.purgatory.deadline(session));
    }

    pub(crate) fn timers(&self, group: &Group) -> impl Iterator<Item = (&'static str, u64)> {
        let named = |operation: OpId| {
            let name = match self.purgatory.get(operation)? {
                Operation::InitialDelay(_) => "InitialDelay",
                Operation::Join(_) => "Join",
                Operation::Sync(_) => "Sync",
                _ => return None,
            };
            Some((name, self.purgatory.deadline(operation)?))
        };
        [group.join_deadline, group.sync_deadline].into_iter().flatten().filter_map(named)
    }
}
