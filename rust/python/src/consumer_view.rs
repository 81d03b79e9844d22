//! One consumer group as frozen Python classes.

use std::sync::Arc;

use pyo3::prelude::*;
use rota_core::consumer_view::{self, Place};

use crate::{plain::plain, records::OffsetValue, values::Tuple};

plain! {
    /// One consumer group as plain data.
    "rota.coordinator" ConsumerView {
        /// The group id.
        group_id: String,
        /// The assignor that most members name.
        assignor: String,
        /// Members by id.
        members: Tuple<ConsumerMemberView>,
        /// Ids of the group's appends in flight, ascending.
        in_flight: Tuple<u64>,
        /// (topic, partition, durable offset), by topic and partition.
        offsets: Tuple<(String, i32, OffsetValue)>,
    }
}

plain! {
    /// One member of a consumer group as plain data.
    "rota.coordinator" ConsumerMemberView {
        /// The member id.
        member_id: String,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// `client.id`.
        client_id: String,
        /// The client's host.
        client_host: String,
        /// `client.rack`.
        rack: Option<String>,
        /// The protocol that the member speaks: "classic" or "consumer".
        protocol: String,
        /// The member epoch; -2 of a static member that is away.
        epoch: i32,
        /// The session timeout that applies to it, in milliseconds.
        session_timeout_ms: i32,
        /// The time that it has to give partitions up, in milliseconds.
        rebalance_timeout_ms: i32,
        /// End of its session in monotonic milliseconds.
        session_ends_ms: Option<u64>,
        /// End of its rebalance timeout in monotonic milliseconds; `None` if that does not run.
        rebalance_ends_ms: Option<u64>,
        /// The topics that it names, ascending.
        topics: Tuple<String>,
        /// The pattern that it subscribes to; "" if none.
        pattern: String,
        /// (topic, partition) that it owns, ascending.
        assigned: Tuple<(String, i32)>,
        /// (topic, partition) that it has to give up, ascending.
        revoking: Tuple<(String, i32)>,
        /// (topic, partition) of its target assignment, ascending.
        target: Tuple<(String, i32)>,
    }
}

fn owned(text: Option<&Arc<str>>) -> Option<String> {
    text.map(ToString::to_string)
}

fn places(places: &[Place]) -> Tuple<(String, i32)> {
    places.iter().map(|(topic, partition)| (topic.to_string(), *partition)).collect()
}

impl From<&consumer_view::ConsumerView> for ConsumerView {
    fn from(group: &consumer_view::ConsumerView) -> ConsumerView {
        ConsumerView {
            group_id: group.group_id.to_string(),
            assignor: group.assignor.to_owned(),
            members: group.members.iter().map(ConsumerMemberView::from).collect(),
            in_flight: group.in_flight.iter().copied().collect(),
            offsets: (group.offsets.iter())
                .map(|(topic, partition, value)| (topic.to_string(), *partition, OffsetValue::from(value)))
                .collect(),
        }
    }
}

impl From<&consumer_view::ConsumerMemberView> for ConsumerMemberView {
    fn from(member: &consumer_view::ConsumerMemberView) -> ConsumerMemberView {
        ConsumerMemberView {
            member_id: member.member_id.to_string(),
            instance_id: owned(member.instance_id.as_ref()),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rack: owned(member.rack.as_ref()),
            protocol: member.protocol.name().to_owned(),
            epoch: member.epoch,
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_ends_ms: member.session_ends_ms,
            rebalance_ends_ms: member.rebalance_ends_ms,
            topics: member.topics.iter().map(ToString::to_string).collect(),
            pattern: member.pattern.to_string(),
            assigned: places(&member.assigned),
            revoking: places(&member.revoking),
            target: places(&member.target),
        }
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ConsumerView>()?;
    module.add_class::<ConsumerMemberView>()
}
