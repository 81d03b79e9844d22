//! Topics and partitions that an offset request names and that do not exist.

use std::{borrow::Cow, collections::HashMap};

use rota_core::{error::ErrorCode, response::CommittedTopic};
use rota_wire::requests::TopicRef;
use uuid::Uuid;

use crate::topics::Topics;

/// A topic that a request names, and how many partitions it has; 0 if there is no such topic.
pub struct Named<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its id.
    pub topic_id: u128,
    /// How many partitions it has.
    pub partitions: i32,
    /// Why a partition that is not there is refused.
    unknown: ErrorCode,
}

impl<'a> Named<'a> {
    /// A topic that does not exist keeps what the request calls it.
    pub fn find(topics: &Topics, topic: TopicRef<'a>) -> Named<'a> {
        let (name, asked_id) = match topic {
            TopicRef::Name(name) => (Some(Cow::Borrowed(name)), 0),
            TopicRef::Id(id) => (topics.topic_name(Uuid::from_u128(id)).map(|name| Cow::Owned(name.to_owned())), id),
        };
        let unknown = if name.is_some() { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::UnknownTopicId };
        let name = name.unwrap_or_default();
        let topic_id = topics.topic_id(&name).map_or(asked_id, |id| id.as_u128());
        let partitions = topics.partition_count(&name).unwrap_or(0);
        Named { name, topic_id, partitions, unknown }
    }
}

/// What is refused of a request before a coordinator is asked, by topic, in the order in which topics came first.
#[derive(Default)]
pub struct Refused {
    /// By topic.
    pub topics: Vec<CommittedTopic>,
    at: HashMap<(Box<str>, u128), usize>,
}

impl Refused {
    /// Refuses partitions of a topic.
    pub fn add(&mut self, topic: &Named<'_>, partitions: impl Iterator<Item = i32>) {
        let at = *self.at.entry(((&*topic.name).into(), topic.topic_id)).or_insert_with(|| {
            let name = (&*topic.name).into();
            self.topics.push(CommittedTopic { name, topic_id: topic.topic_id, partitions: Vec::new() });
            self.topics.len() - 1
        });
        self.topics[at].partitions.extend(partitions.map(|index| (index, topic.unknown)));
    }
}
