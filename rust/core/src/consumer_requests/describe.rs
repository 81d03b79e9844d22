//! Describing, listing and deleting consumer groups (docs/consumer-protocol.md §13).

use std::{collections::BTreeSet, sync::Arc};

use super::writes::{Draft, refuse_describe};
use crate::{
    consumer_group::{
        group::{ConsumerGroup, ConsumerMember, Current},
        partitions::{Partition, PartitionSet},
        topics::Topics,
        waiting::{Later, Owed},
    },
    coordinator::Coordinator,
    deletes::{answer_delete, tombstones},
    effects::Step,
    error::ErrorCode,
    records::{ConsumerRecord, SubscriptionValue},
    request::Ticket,
    response::{Answer, ConsumerDescribeAnswer, ConsumerMemberDescription, NamedTopic},
};

/// Member types of a description.
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;

/// How many groups one run of the cleaner ends.
const ENDED_AT_ONCE: usize = 1_000;

/// One member's lists, which its description borrows.
struct Lists<'a> {
    names: Vec<&'a str>,
    assigned: Vec<(&'a str, u128, Vec<i32>)>,
    target: Vec<(&'a str, u128, Vec<i32>)>,
}

impl Coordinator {
    pub(crate) fn consumer_group_describe(&mut self, step: &mut Step<'_>, ticket: Ticket, group_id: &str) {
        if self.is_writing(group_id) {
            return self.wait_for_write(step.now, group_id, Later::Describe(ticket));
        }
        let Some(group) = self.find_consumer_group(group_id) else {
            let is_classic = self.find_group(group_id).is_some_and(|group| self.groups[group].is_visible());
            let what = if is_classic { "is not a consumer group" } else { "not found" };
            let message = format!("Group {group_id} {what}.");
            return refuse_describe(step, ticket, group_id, ErrorCode::GroupIdNotFound, Some(&message));
        };
        let lists: Vec<Lists<'_>> =
            group.members().map(|(_, member, value)| lists_of(&self.topics, member, value)).collect();
        let topics: Vec<[Vec<NamedTopic<'_>>; 2]> =
            lists.iter().map(|lists| [named(&lists.assigned), named(&lists.target)]).collect();
        let members: Vec<ConsumerMemberDescription<'_>> = group
            .members()
            .zip(lists.iter().zip(&topics))
            .map(|((id, member, value), (lists, [assignment, target]))| ConsumerMemberDescription {
                member_id: id,
                instance_id: value.instance_id.as_deref(),
                rack_id: value.rack_id.as_deref(),
                member_epoch: member.epoch(),
                client_id: &value.client_id,
                client_host: &value.client_host,
                subscribed_topic_names: &lists.names,
                subscribed_topic_regex: Some(value.topic_regex.as_deref().unwrap_or_default()),
                assignment,
                target_assignment: target,
                member_type: if value.classic.is_some() { CLASSIC } else { CONSUMER },
            })
            .collect();
        let answer = ConsumerDescribeAnswer {
            error: ErrorCode::None,
            error_message: None,
            group_id,
            group_state: group.state().name(),
            group_epoch: group.epoch(),
            assignment_epoch: group.target_epoch(),
            assignor_name: group.preferred_assignor(),
            members: &members,
        };
        step.sink.answer(ticket, Answer::ConsumerGroupDescribe(answer));
    }

    /// `DeleteGroups` of a consumer group.
    pub(crate) fn delete_consumer_group(&mut self, step: &mut Step<'_>, ticket: Ticket, group_id: &str) {
        if self.is_writing(group_id) {
            return self.wait_for_write(step.now, group_id, Later::Delete(ticket));
        }
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        if !group.is_empty() {
            return answer_delete(step, ticket, group_id, ErrorCode::NonEmptyGroup);
        }
        let id = Arc::clone(&group.id);
        self.end_consumer_group(step, &id, Some(Owed::Delete(ticket)), true);
    }

    /// Ends the groups that have neither members nor offsets, at the end of a run of the cleaner.
    pub(crate) fn end_idle_consumer_groups(&mut self, step: &mut Step<'_>) {
        let busy = self.groups_in_flight();
        let is_idle = |(id, group): &(&Arc<str>, &ConsumerGroup)| {
            let has_offsets = self.find_group(id).is_some_and(|handle| !self.groups[handle].offsets.is_empty());
            // Those of an open transaction may count later, and so may those in flight.
            let may_have = self.pending_offsets.has_group(id) || busy.contains(&***id);
            group.write.is_none() && group.is_empty() && !has_offsets && !may_have
        };
        let idle = self.consumer_groups.iter().filter(is_idle);
        let idle: Vec<Arc<str>> = idle.take(ENDED_AT_ONCE).map(|(id, _)| Arc::clone(id)).collect();
        for group_id in idle {
            self.end_consumer_group(step, &group_id, None, false);
        }
    }

    /// Writes the tombstones of a group without members, and those of its offsets if they are to go, too.
    pub(crate) fn end_consumer_group(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        answer: Option<Owed>,
        with_offsets: bool,
    ) {
        let offsets = if with_offsets { self.offsets_in_log(group_id) } else { BTreeSet::new() };
        let before = tombstones(group_id, offsets);
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        let mut draft = Draft::default();
        let patterns: Vec<Arc<str>> = group.patterns().cloned().collect();
        for pattern in patterns {
            draft.put(group, ConsumerRecord::Pattern(pattern, None));
        }
        for record in [ConsumerRecord::TargetEpoch(None), ConsumerRecord::Metadata(None), ConsumerRecord::Epoch(None)] {
            draft.put(group, record);
        }
        self.write(step, group_id, draft, before, answer);
    }
}

fn lists_of<'a>(topics: &'a Topics, member: &'a ConsumerMember, value: &'a SubscriptionValue) -> Lists<'a> {
    let held: PartitionSet = member.current.iter().flat_map(Current::held).map(|(partition, _)| *partition).collect();
    Lists {
        names: value.topic_names.iter().map(|name| &**name).collect(),
        assigned: by_name(topics, held.into_iter()),
        target: by_name(topics, member.target.iter().flatten().copied()),
    }
}

/// Partitions by topic; topics that are gone are left out.
fn by_name(topics: &Topics, partitions: impl Iterator<Item = Partition>) -> Vec<(&str, u128, Vec<i32>)> {
    let mut named: Vec<(&str, u128, Vec<i32>)> = Vec::new();
    for (topic_id, index) in partitions {
        match named.last_mut().filter(|(_, last, _)| *last == topic_id) {
            Some((_, _, indexes)) => indexes.push(index),
            None => named.extend(topics.name_of(topic_id).map(|name| (&**name, topic_id, vec![index]))),
        }
    }
    named
}

fn named<'l>(topics: &'l [(&'l str, u128, Vec<i32>)]) -> Vec<NamedTopic<'l>> {
    let name = |(topic, topic_id, partitions): &'l (&'l str, u128, Vec<i32>)| NamedTopic {
        topic_id: *topic_id,
        topic,
        partitions,
    };
    topics.iter().map(name).collect()
}
