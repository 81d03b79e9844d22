//! Sets of partitions, and the ways in which records and answers list them.

use std::collections::{BTreeMap, BTreeSet};

use crate::records::{EpochedIndexes, TopicIndexes};

/// A partition: topic id and index.
pub type Partition = (u128, i32);
/// Partitions of a target assignment.
pub type PartitionSet = BTreeSet<Partition>;
/// Partitions of a current assignment, each with the member epoch at which it was granted.
pub type Granted = BTreeMap<Partition, i32>;

/// Lists partitions, which ascend, by topic.
pub fn by_topic(partitions: impl Iterator<Item = Partition>) -> Vec<TopicIndexes> {
    let mut topics: Vec<TopicIndexes> = Vec::new();
    for (topic_id, partition) in partitions {
        match topics.last_mut().filter(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(TopicIndexes { topic_id, partitions: vec![partition] }),
        }
    }
    topics
}

/// The set of such a list.
pub fn set_of(topics: &[TopicIndexes]) -> PartitionSet {
    topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic_id, *partition))).collect()
}

/// Lists granted partitions by topic, with their epochs.
pub fn with_epochs(granted: &Granted) -> Vec<EpochedIndexes> {
    let mut topics: Vec<EpochedIndexes> = Vec::new();
    for ((topic_id, partition), epoch) in granted {
        if topics.last().is_none_or(|topic| topic.topic_id != *topic_id) {
            topics.push(EpochedIndexes { topic_id: *topic_id, partitions: Vec::new(), epochs: Vec::new() });
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(*partition);
            topic.epochs.push(*epoch);
        }
    }
    topics
}

/// The partitions of such a list. Where epochs are missing, `member_epoch` stands for them.
pub fn granted_of(topics: &[EpochedIndexes], member_epoch: i32) -> Granted {
    let granted = topics.iter().flat_map(|topic| {
        topic.partitions.iter().enumerate().map(move |(at, partition)| {
            let epoch = topic.epochs.get(at).copied().unwrap_or(member_epoch);
            ((topic.topic_id, *partition), epoch)
        })
    });
    granted.collect()
}
