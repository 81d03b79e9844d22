//! `DescribeGroups`, `ListGroups`, and the projection (§12.1, §12.2).

use std::sync::Arc;

use rota_core::{
    ErrorCode, Projection, Record, Sink, State, Ticket,
    projection::ProjectedMember,
    request::{DescribeGroup, ListGroups},
    response::{Answer, DescribeAnswer, DescribedMember, ListAnswer, ListedGroup},
};

use super::{Alarm, Group, Member, Naive, Text};

/// From this version on a missing group has an error.
const FIRST_VERSION_WITH_NOT_FOUND: i16 = 6;

impl Naive {
    pub(super) fn describe(&self, ticket: Ticket, describe: &DescribeGroup<'_>, sink: &mut dyn Sink) {
        let group_id = describe.group_id.expect("behind the gate");
        let Some(group) = self.groups.get(group_id).filter(|group| group.is_durable) else {
            let is_error = describe.version >= FIRST_VERSION_WITH_NOT_FOUND;
            let message = format!("Group {group_id} not found.");
            let answer = DescribeAnswer {
                error: if is_error { ErrorCode::GroupIdNotFound } else { ErrorCode::None },
                error_message: is_error.then_some(&message),
                group_id,
                state: State::Dead.name(),
                protocol_type: "",
                protocol_name: "",
                members: &[],
            };
            sink.answer(ticket, Answer::DescribeGroup(answer));
            return;
        };
        let chosen = group.protocol_name.as_deref().filter(|_| group.state == State::Stable);
        let members: Vec<DescribedMember<'_>> = group
            .members
            .values()
            .map(|member| DescribedMember {
                member_id: &member.id,
                instance_id: member.instance.as_deref(),
                client_id: &member.client_id,
                client_host: &member.client_host,
                metadata: member.metadata(chosen),
                assignment: &member.assignment,
            })
            .collect();
        let answer = DescribeAnswer {
            error: ErrorCode::None,
            error_message: None,
            group_id,
            state: group.state.name(),
            protocol_type: group.protocol_type.as_deref().unwrap_or(""),
            protocol_name: chosen.unwrap_or(""),
            members: &members,
        };
        sink.answer(ticket, Answer::DescribeGroup(answer));
    }

    pub(super) fn list(&self, ticket: Ticket, list: &ListGroups<'_>, sink: &mut dyn Sink) {
        let allows = |filter: &[&str], word: &str| {
            filter.is_empty() || filter.iter().any(|allowed| allowed.trim().eq_ignore_ascii_case(word))
        };
        let groups: Vec<ListedGroup<'_>> = self
            .groups
            .iter()
            .filter(|(_, group)| group.is_durable)
            .filter(|(_, group)| allows(list.states, group.state.name()) && allows(list.types, "classic"))
            .map(|(id, group)| ListedGroup {
                group_id: id,
                protocol_type: group.protocol_type.as_deref().unwrap_or(""),
                state: group.state.name(),
            })
            .collect();
        sink.answer(ticket, Answer::ListGroups(ListAnswer { error: ErrorCode::None, groups: &groups }));
    }

    /// Ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Text> {
        self.groups.keys().cloned().collect()
    }

    /// One group as the core projects it.
    pub fn project(&self, group_id: &str) -> Option<Projection> {
        let (id, group) = self.groups.get_key_value(group_id)?;
        Some(Projection {
            group_id: Arc::clone(id),
            state: group.state,
            since_ms: group.since_ms,
            generation: group.generation,
            protocol_type: group.protocol_type.clone(),
            protocol_name: group.protocol_name.clone(),
            leader: group.leader.clone(),
            members: group.members.values().map(project_member).collect(),
            pending: group.pending.iter().map(|(id, alarm)| (Arc::clone(id), alarm.deadline_ms)).collect(),
            timers: timers(group).collect(),
            in_flight: self
                .appends
                .iter()
                .filter(|(_, append)| append.records.iter().any(|record| speaks_of(record, id)))
                .map(|(append_id, _)| *append_id)
                .collect(),
            deleting: group.deleting,
            durable: group.is_durable,
            subscribed_topics: group.subscribed_topics.as_ref().map(|topics| topics.iter().cloned().collect()),
            offsets: group
                .offsets
                .iter()
                .map(|((topic, partition), value)| (Arc::clone(topic), *partition, value.clone()))
                .collect(),
        })
    }

    /// Whether [`Naive::project`] would give this, without making it.
    pub fn projects_as(&self, group_id: &str, view: Option<&Projection>) -> bool {
        let (Some((id, group)), Some(view)) = (self.groups.get_key_value(group_id), view) else {
            return !self.groups.contains_key(group_id) && view.is_none();
        };
        let Projection {
            group_id,
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
        } = view;
        let in_flight_here =
            self.appends.iter().filter(|(_, append)| append.records.iter().any(|one| speaks_of(one, id)));
        (id, group.state, group.since_ms, group.generation) == (group_id, *state, *since_ms, *generation)
            && (&group.protocol_type, &group.protocol_name, &group.leader) == (protocol_type, protocol_name, leader)
            && group.members.len() == members.len()
            && group.members.values().zip(members).all(|(member, seen)| projects_member_as(member, seen))
            && group
                .pending
                .iter()
                .map(|(id, alarm)| (id, alarm.deadline_ms))
                .eq(pending.iter().map(|(id, deadline_ms)| (id, *deadline_ms)))
            && self::timers(group).eq(timers.iter().copied())
            && in_flight_here.map(|(append_id, _)| append_id).eq(in_flight)
            && (group.deleting, group.is_durable) == (*deleting, *durable)
            && match (&group.subscribed_topics, subscribed_topics) {
                (Some(topics), Some(seen)) => topics.iter().eq(seen),
                (topics, seen) => topics.is_none() && seen.is_none(),
            }
            && group
                .offsets
                .iter()
                .map(|((topic, partition), value)| (topic, partition, value))
                .eq(offsets.iter().map(|(topic, partition, value)| (topic, partition, value)))
    }
}

/// Those of a group as a whole that are armed, by name.
fn timers(group: &Group) -> impl Iterator<Item = (&'static str, u64)> {
    let armed = [("InitialDelay", group.initial_delay), ("Join", group.join_deadline), ("Sync", group.sync_deadline)];
    armed.into_iter().filter_map(|(name, alarm)| Some((name, alarm?.deadline_ms)))
}

/// The session's, or that of a new member.
fn deadline_ms(member: &Member) -> Option<u64> {
    member.session.or(member.newcomer).map(|Alarm { deadline_ms, .. }| deadline_ms)
}

fn projects_member_as(member: &Member, view: &ProjectedMember) -> bool {
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
    (&member.id, &member.instance) == (member_id, instance_id)
        && member.session_timeout_ms == *session_timeout_ms
        && member.rebalance_timeout_ms == *rebalance_timeout_ms
        && member.protocols == *protocols
        && member.assignment == *assignment
        && (member.join.is_some(), member.sync.is_some()) == (*awaits_join, *awaits_sync)
        && (member.owes_sync, member.is_new) == (*owes_sync, *is_new)
        && self::deadline_ms(member) == *deadline_ms
}

fn project_member(member: &Member) -> ProjectedMember {
    ProjectedMember {
        member_id: Arc::clone(&member.id),
        instance_id: member.instance.clone(),
        session_timeout_ms: member.session_timeout_ms,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        protocols: member.protocols.clone(),
        assignment: Arc::clone(&member.assignment),
        awaits_join: member.join.is_some(),
        awaits_sync: member.sync.is_some(),
        owes_sync: member.owes_sync,
        is_new: member.is_new,
        deadline_ms: deadline_ms(member),
    }
}

fn speaks_of(record: &Record, id: &Text) -> bool {
    matches!(record, Record::Group { group_id, .. } | Record::Offset { group_id, .. } if group_id == id)
}
