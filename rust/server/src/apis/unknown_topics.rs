//! Refuses topics and partitions of offset requests that do not exist, or that the client may not use.

use std::{borrow::Cow, collections::HashMap};

use rota_core::{error::ErrorCode, request::CommitPartition, response::CommittedTopic};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::requests::{CommitTopicBody, TopicRef};
use uuid::Uuid;

use crate::{client::access::Access, topics::Topics};

/// A topic in a request.
pub struct Named<'a> {
    /// The topic name.
    pub name: Cow<'a, str>,
    /// The topic id.
    pub topic_id: u128,
    /// Number of partitions; 0 if the topic does not exist.
    pub partitions: i32,
    /// The error for a missing partition, or for any if the client may not use the topic.
    error: ErrorCode,
    /// Whether the topic has a name that could be allowed: an id of no topic has none.
    has_name: bool,
}

impl<'a> Named<'a> {
    /// Looks a topic up. A missing topic keeps the name or id of the request.
    pub fn find(topics: &Topics, topic: TopicRef<'a>) -> Named<'a> {
        let (name, asked_id) = match topic {
            TopicRef::Name(name) => (Some(Cow::Borrowed(name)), 0),
            TopicRef::Id(id) => (topics.topic_name(Uuid::from_u128(id)).map(|name| Cow::Owned(name.to_owned())), id),
        };
        let unknown = match &name {
            // Clients do not repeat a commit of a topic that does not exist, and ask again where the coordinator is.
            _ if !topics.is_known() => ErrorCode::NotCoordinator,
            Some(_) => ErrorCode::UnknownTopicOrPartition,
            None => ErrorCode::UnknownTopicId,
        };
        let has_name = name.is_some();
        let name = name.unwrap_or_default();
        let topic_id = topics.topic_id(&name).map_or(asked_id, |id| id.as_u128());
        let partitions = topics.partition_count(&name).unwrap_or(0);
        Named { name, topic_id, partitions, error: unknown, has_name }
    }

    /// Returns the topic, without partitions if the client may not read it.
    pub fn readable(self, access: &Access, count: usize) -> Named<'a> {
        if !self.has_name || access.allows_counted(Operation::Read, ResourceType::Topic, &self.name, count) {
            return self;
        }
        Named { partitions: 0, error: ErrorCode::TopicAuthorizationFailed, ..self }
    }
}

/// Refused partitions of a request, by topic, in the order of first mention.
#[derive(Default)]
pub struct Refused {
    /// Refused partitions by topic.
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
        self.topics[at].partitions.extend(partitions.map(|index| (index, topic.error)));
    }
}

/// A topic's name and id, and the offsets to store.
pub type KeptTopic<'a> = (Cow<'a, str>, u128, Vec<CommitPartition<'a>>);

/// Splits a commit into refused partitions and those for the coordinator.
pub fn refuse_unknown<'a>(
    topics: &Topics,
    access: &Access,
    asked: &[CommitTopicBody<'a>],
    partitions: &[CommitPartition<'a>],
) -> (Vec<CommittedTopic>, Vec<KeptTopic<'a>>) {
    let mut refused = Refused::default();
    let mut kept = Vec::with_capacity(asked.len());
    for topic in asked {
        let partitions = &partitions[topic.partitions.clone()];
        let named = Named::find(topics, topic.topic).readable(access, partitions.len());
        let (known, unknown): (Vec<CommitPartition<'_>>, Vec<CommitPartition<'_>>) =
            partitions.iter().partition(|partition| (0..named.partitions).contains(&partition.index));
        if !unknown.is_empty() || (partitions.is_empty() && named.partitions == 0) {
            refused.add(&named, unknown.iter().map(|partition| partition.index));
        }
        if !known.is_empty() {
            kept.push((named.name, named.topic_id, known));
        }
    }
    (refused.topics, kept)
}
