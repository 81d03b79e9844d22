//! Topic metadata of consumer-group coordinators: names, ids and partition counts.

use std::sync::Arc;

use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use rota_core::consumer_group::topics::TopicMetadata;
use rota_journal::Event;

use super::Node;

impl Node {
    /// Deletes topics, and their offsets in the groups of this node. Other nodes do so when they catch up.
    pub fn delete_topics(&mut self, request: &DeleteTopicsRequest, version: i16) -> DeleteTopicsResponse {
        let deletion = self.topics.delete_topics(request, version);
        let names: Vec<&str> = deletion.deleted.iter().map(|name| &**name).collect();
        if !names.is_empty() {
            self.topics_deleted(&names);
        }
        deletion.response
    }

    /// Passes new and changed topics to the coordinators; `topics_deleted` passes deleted ones.
    pub(super) fn tell_topics(&mut self) {
        if !self.settings.consumer_groups().enabled || self.known_version == Some(self.topics.version()) {
            return;
        }
        self.known_version = Some(self.topics.version());
        let known = self.topics.names().filter_map(|name| {
            let id = self.topics.topic_id(name)?.as_u128();
            Some((name.to_owned(), (id, self.topics.partition_count(name)?)))
        });
        let before = std::mem::replace(&mut self.known_topics, known.collect());
        let changed = self.known_topics.iter().filter(|(name, topic)| before.get(*name) != Some(*topic));
        let changed: Vec<TopicMetadata> = changed.map(metadata).collect();
        if !changed.is_empty() {
            self.each_partition(&Event::TopicsChanged { topics: &changed }, |_| true);
        }
    }

    /// Passes all topics to a coordinator that has just loaded.
    pub(super) fn tell_topics_to(&mut self, partition: u32) {
        let topics: Vec<TopicMetadata> = self.known_topics.iter().map(metadata).collect();
        if !topics.is_empty() {
            self.on_partition(partition, &Event::TopicsChanged { topics: &topics });
        }
    }
}

fn metadata((name, (topic_id, partitions)): (&String, &(u128, i32))) -> TopicMetadata {
    TopicMetadata { name: Arc::from(name.as_str()), topic_id: *topic_id, partitions: *partitions, racks: Vec::new() }
}
