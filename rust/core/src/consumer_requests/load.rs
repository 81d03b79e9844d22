//! Consumer groups from the log, and the topics that they subscribe to (docs/consumer-protocol.md §14.4).

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    consumer_group::{
        config::{ConsumerConfig, GroupSettings, Timing},
        group::ConsumerGroup,
        topics::TopicMetadata,
    },
    coordinator::{Coordinator, Phase},
    effects::Step,
    group::Group,
    records::ConsumerRecord,
    request::Now,
};

impl Coordinator {
    /// Changes the settings of consumer groups. Timers that run keep the timeouts that they have.
    pub fn configure_consumer_groups(&mut self, config: ConsumerConfig) {
        self.consumer = config;
        self.consumer_groups.renew_all();
    }

    /// Changes the settings that one group has of its own, whether the group exists or not. They apply from the next
    /// heartbeat of each member on.
    pub fn configure_group(&mut self, group_id: &str, settings: GroupSettings) {
        if settings == GroupSettings::default() {
            self.group_settings.remove(group_id);
        } else {
            self.group_settings.insert(group_id.into(), settings);
        }
        // Its timing is in receipts.
        self.consumer_groups.get_mut(group_id);
    }

    /// The timing of a group.
    pub fn timing_of(&self, group_id: &str) -> Timing {
        self.consumer.of_group(self.group_settings.get(group_id))
    }

    /// The settings of consumer groups.
    pub fn consumer_config(&self) -> &ConsumerConfig {
        &self.consumer
    }

    /// These topics exist, and this is what they are now: they are new, or have changed. Groups that subscribe to them
    /// look at them again with the next heartbeat.
    pub fn topics_changed(&mut self, topics: &[TopicMetadata], now: Now) {
        self.observe(now);
        let is_new = topics
            .iter()
            .any(|topic| self.topics.get(&topic.name).is_none_or(|known| known.topic_id != topic.topic_id));
        for topic in topics {
            self.topics.insert(topic.clone());
        }
        for group in self.consumer_groups.values_mut() {
            group.topics_are_new |= is_new;
        }
        self.expire_metadata(&topics.iter().map(|topic| &*topic.name).collect());
    }

    /// These topics are gone.
    pub(crate) fn forget_topic_metadata(&mut self, topics: &[&str]) {
        for name in topics {
            self.topics.remove(name);
        }
        self.expire_metadata(&topics.iter().copied().collect());
    }

    fn expire_metadata(&mut self, names: &BTreeSet<&str>) {
        for group in self.consumer_groups.values_mut() {
            if group.subscribes_to_any(&|name| names.contains(name)) {
                group.metadata_until_ms = 0;
            }
        }
    }

    /// Folds a record of a consumer group.
    pub(crate) fn replay_consumer(&mut self, group_id: &Arc<str>, record: &ConsumerRecord) {
        let group = self.consumer_groups.get_or_create(group_id);
        group.apply(record);
        if group.is_gone() {
            self.consumer_groups.remove(group_id);
            // Offsets that were replayed, and deleted before the group, left one.
            self.drop_empty_shell(group_id);
        }
    }

    /// Loading is over: members get a whole session. A group that has records of both protocols is a consumer group.
    pub(crate) fn consumer_groups_loaded(&mut self, step: &Step<'_>) {
        let ids: Vec<Arc<str>> = self.consumer_groups.keys().cloned().collect();
        for id in ids {
            let Some(mut group) = self.consumer_groups.remove(&id) else { continue };
            group.finish_replay();
            if group.is_gone() {
                continue;
            }
            group.begin_history(step.now.mono_ms);
            self.arm_missing(step.now, &mut group, true);
            self.end_classic(&id);
            self.consumer_groups.insert(id, group);
        }
    }

    /// A classic group without members ends, but for its offsets.
    pub(crate) fn end_classic(&mut self, group_id: &Arc<str>) {
        let Some(handle) = self.find_group(group_id) else { return };
        let pending: Vec<Arc<str>> = self.groups[handle].pending.keys().cloned().collect();
        for member_id in pending {
            self.remove_pending(handle, &member_id);
        }
        self.end_join_deadline(handle);
        let members: Vec<_> = self.groups[handle].joined.values().copied().collect();
        for member in members {
            self.remove_member(member);
        }
        let offsets = std::mem::take(&mut self.groups[handle].offsets);
        let simple = Group { offsets, ..self.simple_group(self.clock, group_id) };
        self.groups[handle] = simple;
        self.drop_empty_shell(group_id);
    }

    /// Forgets a simple group that has no offset left.
    pub(crate) fn drop_empty_shell(&mut self, group_id: &Arc<str>) {
        let Some(handle) = self.find_group(group_id) else { return };
        let group = &self.groups[handle];
        let is_bare = group.protocol_type.is_none() && group.joined.is_empty() && group.pending.is_empty();
        let is_idle = group.deleting.is_none() && group.creating.is_none() && !self.pending_offsets.has_group(group_id);
        if is_bare && group.offsets.is_empty() && is_idle {
            self.groups.release(handle);
            self.group_ids.remove(group_id);
        }
    }

    /// How many consumer groups there are.
    pub fn consumer_group_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.consumer_groups.iter().filter(|(_, group)| !group.is_gone()).map(|(id, _)| id)
    }

    /// A consumer group, to be read.
    pub fn consumer_group(&self, group_id: &str) -> Option<&ConsumerGroup> {
        self.find_consumer_group(group_id)
    }

    /// Whether the coordinator knows its groups.
    pub(crate) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }
}
