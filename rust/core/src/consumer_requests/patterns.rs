//! The topics of patterns are looked up in a step of their own, behind the request that asks (docs/consumer-protocol.md
//! §15.2).

use std::sync::Arc;

use super::writes::Draft;
use crate::{
    consumer_group::{group::ConsumerGroup, waiting::Later},
    coordinator::Coordinator,
    effects::Step,
    history::{Cause, Trigger},
    operations::Operation,
    records::{ConsumerRecord, EpochValue},
    request::{Now, Ticket},
};

impl Coordinator {
    /// Limits what the patterns of a group match, from its next resolution on, to these topics: those that the client
    /// may see whose request has it resolve them. An unknown group has no patterns.
    pub fn limit_patterns(&mut self, group_id: &str, topics: &[&str], now: Now) {
        self.observe(now);
        if let Some(group) = self.consumer_groups.get_mut(group_id) {
            group.visible = Some(topics.iter().map(|topic| Arc::from(*topic)).collect());
        }
    }

    /// Has the patterns resolved in the next step in which time passes.
    pub(crate) fn arm_resolution(&mut self, step: &mut Step<'_>, group: &mut ConsumerGroup, ticket: Ticket) {
        step.sink.resolving(&group.id, ticket);
        let now = step.now;
        let what = Operation::ConsumerPatterns(Box::new(Arc::clone(&group.id)));
        group.resolution.get_or_insert_with(|| self.purgatory.watch(now.mono_ms, &[], what));
    }

    /// The deadline of a resolution has passed.
    pub(crate) fn resolution_due(&mut self, step: &mut Step<'_>, group_id: &Arc<str>) {
        if self.is_writing(group_id) {
            return self.wait_for_write(step.now, group_id, Later::ResolutionDue);
        }
        self.resolve_patterns(step, group_id);
    }

    /// Writes the topics of each pattern, and raises the group epoch if they or their metadata have changed.
    pub(crate) fn resolve_patterns(&mut self, step: &mut Step<'_>, group_id: &Arc<str>) {
        let Some(group) = self.consumer_groups.get_mut(group_id) else { return };
        // The deadline may be that of an earlier group with this id.
        let Some(deadline) = group.resolution.take() else { return };
        self.purgatory.complete(deadline);
        group.topics_are_new = false;
        let newcomer = group
            .members()
            .find(|(_, _, value)| ConsumerGroup::pattern_of(value).is_some_and(|pattern| !group.is_resolved(pattern)));
        let mut draft = Draft::caused_by(match newcomer {
            Some((member_id, ..)) => Trigger::new(Cause::PatternResolved, member_id),
            None => Trigger::new(Cause::TopicsChanged, &"".into()),
        });
        let mut has_changed = false;
        for (pattern, value) in group.resolve(&self.topics, step.now.wall_ms) {
            has_changed |= group.resolved_topics(&pattern) != value.topics;
            draft.put(group, ConsumerRecord::Pattern(pattern, Some(Box::new(value))));
        }
        let metadata_hash = group.subscribed_hash(&self.topics);
        if has_changed || metadata_hash != group.metadata_hash() {
            let value = EpochValue { epoch: group.epoch() + 1, metadata_hash };
            draft.put(group, ConsumerRecord::Epoch(Some(value)));
        }
        if !draft.records.is_empty() {
            self.write(step, group_id, draft, Vec::new(), None);
        }
    }
}
