//! One group's state as frozen Python classes, in the terms of the vocabulary.

use std::sync::Arc;

use pyo3::prelude::*;
use rota_core::projection;

use crate::{
    plain::plain,
    records::OffsetValue,
    values::{Octets, Tuple},
};

plain! {
    /// One group as plain data.
    "rota.coordinator" Projection {
        /// The group id.
        group_id: String,
        /// The state: one of the vocabulary's `states`.
        state: String,
        /// Start of the state in monotonic milliseconds.
        since_ms: u64,
        /// Its generation.
        generation: i32,
        /// The protocol type; kept when the group becomes empty.
        protocol_type: Option<String>,
        /// The chosen protocol.
        protocol_name: Option<String>,
        /// The leader's member id.
        leader: Option<String>,
        /// Members in joining order.
        members: Tuple<ProjectedMember>,
        /// Pending member ids with their deadlines in milliseconds, by id.
        pending: Tuple<(String, u64)>,
        /// (`InitialDelay`, `Join` or `Sync`, its deadline in milliseconds).
        timers: Tuple<(String, u64)>,
        /// Ids of the appends about this group that are in flight, ascending.
        in_flight: Tuple<u64>,
        /// Id of the append that deletes this group, in flight.
        deleting: Option<u64>,
        /// Whether the log has a record of this group.
        durable: bool,
        /// Topics that members subscribe to, sorted; `None` if unknown.
        subscribed_topics: Option<Tuple<String>>,
        /// (topic, partition, durable offset), by topic and partition.
        offsets: Tuple<(String, i32, OffsetValue)>,
    }
}

plain! {
    /// One member as plain data.
    "rota.coordinator" ProjectedMember {
        /// The member id.
        member_id: String,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// `session.timeout.ms`, in milliseconds.
        session_timeout_ms: i32,
        /// `rebalance.timeout.ms`, in milliseconds.
        rebalance_timeout_ms: i32,
        /// (name, metadata), in order of preference.
        protocols: Tuple<(String, Octets)>,
        /// The assignment that the leader sent for this member.
        assignment: Octets,
        /// Whether a `JoinGroup` is parked.
        awaits_join: bool,
        /// Whether a `SyncGroup` is parked.
        awaits_sync: bool,
        /// Whether `SyncGroup` of this generation is missing.
        owes_sync: bool,
        /// Whether the member has never seen a join phase complete.
        is_new: bool,
        /// The session or new-member deadline in monotonic milliseconds.
        deadline_ms: Option<u64>,
    }
}

fn owned(text: Option<&Arc<str>>) -> Option<String> {
    text.map(ToString::to_string)
}

impl From<&projection::Projection> for Projection {
    fn from(group: &projection::Projection) -> Projection {
        Projection {
            group_id: group.group_id.to_string(),
            state: group.state.name().to_owned(),
            since_ms: group.since_ms,
            generation: group.generation,
            protocol_type: owned(group.protocol_type.as_ref()),
            protocol_name: owned(group.protocol_name.as_ref()),
            leader: owned(group.leader.as_ref()),
            members: group.members.iter().map(ProjectedMember::from).collect(),
            pending: group.pending.iter().map(|(id, deadline)| (id.to_string(), *deadline)).collect(),
            timers: group.timers.iter().map(|(name, deadline)| ((*name).to_owned(), *deadline)).collect(),
            in_flight: group.in_flight.iter().copied().collect(),
            deleting: group.deleting,
            durable: group.durable,
            subscribed_topics: (group.subscribed_topics.as_ref())
                .map(|topics| topics.iter().map(ToString::to_string).collect()),
            offsets: (group.offsets.iter())
                .map(|(topic, partition, value)| (topic.to_string(), *partition, OffsetValue::from(value)))
                .collect(),
        }
    }
}

impl From<&projection::ProjectedMember> for ProjectedMember {
    fn from(member: &projection::ProjectedMember) -> ProjectedMember {
        let offers = member.protocols.iter();
        ProjectedMember {
            member_id: member.member_id.to_string(),
            instance_id: owned(member.instance_id.as_ref()),
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            protocols: offers.map(|(name, metadata)| (name.to_string(), (&**metadata).into())).collect(),
            assignment: (&*member.assignment).into(),
            awaits_join: member.awaits_join,
            awaits_sync: member.awaits_sync,
            owes_sync: member.owes_sync,
            is_new: member.is_new,
            deadline_ms: member.deadline_ms,
        }
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Projection>()?;
    module.add_class::<ProjectedMember>()
}
