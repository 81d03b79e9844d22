//! The topic table at one moment: the nodes' snapshot, and the content of the table's file.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::{configs::TopicConfigs, name::metric_name};

/// A topic without its data.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub id: Uuid,
    pub internal: bool,
    pub configs: TopicConfigs,
    /// The leader of each partition.
    pub leaders: Vec<i32>,
}

/// All topics at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub by_name: BTreeMap<StrBytes, Arc<Topic>>,
    pub name_by_id: HashMap<Uuid, StrBytes>,
    /// Names with every `.` replaced by `_`.
    pub name_by_metric_name: HashMap<String, StrBytes>,
    pub partition_total: usize,
    /// The leader of the next topic's first partition.
    pub next_leader: u32,
}

impl Table {
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name.as_bytes()).map(|topic| &**topic)
    }

    /// Returns the leaders of `count` partitions of a new topic: the nodes in turn.
    pub fn next_leaders(&mut self, count: usize, node_ids: &[i32]) -> Vec<i32> {
        let first = self.next_leader;
        self.next_leader = first.wrapping_add(1);
        node_ids.iter().cycle().skip(first as usize % node_ids.len()).take(count).copied().collect()
    }

    /// Adds a checked topic.
    pub fn insert(&mut self, name: &str, topic: Topic) {
        // A copy, because the name in the request would keep the whole request alive.
        let name = StrBytes::from_string(name.to_owned());
        self.partition_total += topic.leaders.len();
        self.name_by_id.insert(topic.id, name.clone());
        self.name_by_metric_name.insert(metric_name(&name), name.clone());
        self.by_name.insert(name, Arc::new(topic));
    }

    pub fn remove(&mut self, name: &str) -> Option<Arc<Topic>> {
        let topic = self.by_name.remove(name.as_bytes())?;
        self.name_by_id.remove(&topic.id);
        self.name_by_metric_name.remove(&metric_name(name));
        self.partition_total -= topic.leaders.len();
        Some(topic)
    }

    /// Sets the configuration of a topic.
    pub fn configure(&mut self, name: &str, configs: TopicConfigs) {
        if let Some(topic) = self.by_name.get_mut(name.as_bytes()).map(Arc::make_mut) {
            topic.configs = configs;
        }
    }

    /// Adds checked partitions, by default with the next nodes in turn as leaders.
    pub fn grow(&mut self, name: &str, added: usize, leaders: Option<Vec<i32>>, node_ids: &[i32]) {
        let Some(topic) = self.by_name.get_mut(name.as_bytes()).map(Arc::make_mut) else { return };
        let last = topic.leaders.last().and_then(|leader| node_ids.iter().position(|node_id| node_id == leader));
        let round = || node_ids.iter().cycle().skip(last.map_or(0, |last| last + 1)).take(added).copied().collect();
        topic.leaders.extend(leaders.unwrap_or_else(round));
        self.partition_total += added;
    }
}
