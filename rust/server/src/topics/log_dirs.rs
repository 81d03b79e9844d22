//! `DescribeLogDirs`: the directory of the messages, and the bytes of each partition in it.

use std::{collections::HashSet, path};

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use uuid::Uuid;

use super::Topics;

/// The name of what has the messages of a server without a data directory.
const MEMORY: &str = "memory";

/// A topic with the bytes of its partitions.
pub type Sizes<'t> = (&'t str, Vec<(i32, u64)>);

impl Topics {
    /// Returns the absolute path of the data directory, or `memory`.
    pub fn log_dir(&self) -> String {
        let Some(disk) = &self.owner.disk else { return MEMORY.to_owned() };
        path::absolute(disk.dir()).unwrap_or_else(|_| disk.dir().to_owned()).display().to_string()
    }

    /// Returns the partitions that this node leads, with their sizes: those of `asked`, or all. On a cluster the engine has
    /// the records of `__consumer_offsets`.
    pub fn sizes(&self, asked: Option<&[DescribableLogDirTopic]>) -> Vec<Sizes<'_>> {
        let asked = asked.map(|asked| self.existing(asked));
        let is_here = |internal: bool| !internal || self.owner.shared().is_none();
        let topics = self.table.by_name.iter().filter(|(_, topic)| is_here(topic.internal));
        let sizes = topics.map(|(name, topic)| {
            let is_asked = |index: &i32| asked.as_ref().is_none_or(|asked| asked.contains(&(topic.id, *index)));
            let led = |index: &i32| self.led(topic, *index).is_ok();
            let size = |index| (index, self.data.get(&(topic.id, index)).map_or(0, |found| found.log.size_bytes()));
            let partitions = (0..topic.leaders.len() as i32).filter(is_asked).filter(led).map(size);
            (name.as_str(), partitions.collect::<Vec<_>>())
        });
        sizes.filter(|(_, partitions)| !partitions.is_empty()).collect()
    }

    /// The partitions that exist. Each name is read once: it may be long, and have many indices.
    fn existing(&self, asked: &[DescribableLogDirTopic]) -> HashSet<(Uuid, i32)> {
        let mut existing = HashSet::new();
        for asked in asked {
            let Some(topic) = self.topic(&asked.topic) else { continue };
            let indices = asked.partitions.iter().filter(|index| (0..topic.leaders.len() as i32).contains(index));
            existing.extend(indices.map(|index| (topic.id, *index)));
        }
        existing
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{messages::TopicName, protocol::StrBytes};

    use super::*;
    use crate::{
        base::entropy::RandomBits,
        topics::{TopicSettings, configs::TopicConfigs},
    };

    #[test]
    fn only_partitions_that_exist_are_kept_of_a_request() {
        let mut random = RandomBits::default();
        let mut topics = Topics::new(TopicSettings::default(), &mut random);
        let id = topics
            .changing(|topics| {
                Ok::<_, crate::topics::TopicError>(topics.insert("t", 2, None, TopicConfigs::default(), &mut random))
            })
            .unwrap();
        let asked = |name: &str, partitions: Vec<i32>| {
            let name = TopicName(StrBytes::from_string(name.to_owned()));
            DescribableLogDirTopic::default().with_topic(name).with_partitions(partitions)
        };
        let many: Vec<i32> = (-1_000..1_000).collect();
        let asked = [asked(&"x".repeat(32_000), many.clone()), asked("t", many), asked("t", vec![1; 1_000])];
        assert_eq!(topics.existing(&asked), HashSet::from([(id, 0), (id, 1)]));
        assert_eq!(topics.sizes(Some(&asked)), [("t", vec![(0, 0), (1, 0)])]);
    }
}
