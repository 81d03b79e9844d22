//! Creates, lists and deletes topics without a request.

use std::collections::BTreeMap;

use kafka_protocol::{
    messages::{DeleteTopicsRequest, TopicName},
    protocol::StrBytes,
};

use super::{Server, messages::reason};
use crate::{base::error::ServerError, node::Node, topics::CONSUMER_OFFSETS};

/// The last version of `DeleteTopics` that names topics only.
const DELETE_BY_NAME: i16 = 5;

impl Server {
    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), ServerError> {
        let topic = name.to_owned();
        self.ask(0, move |node| {
            let (topics, random) = node.topics_mut();
            match topics.create(&topic, partitions, random) {
                Ok(_id) => Ok(()),
                Err(reason) => Err(ServerError::TopicRefused { topic, reason: reason.to_string() }),
            }
        })?
    }

    /// Returns the topics with their numbers of partitions, without `__consumer_offsets`.
    pub fn topics(&self) -> Result<BTreeMap<String, i32>, ServerError> {
        self.ask(0, |node| {
            node.catch_up();
            let topics = node.topics();
            let counted = |name: &str| Some((name.to_owned(), topics.partition_count(name)?));
            topics.names().filter(|name| *name != CONSUMER_OFFSETS).filter_map(counted).collect()
        })
    }

    /// Deletes a topic, as a `DeleteTopics` does. Every node has seen that when this returns. Errors: `UnknownTopic`,
    /// `Refused`.
    pub fn delete_topic(&self, name: &str) -> Result<(), ServerError> {
        self.partition_count(name)?;
        let asked = TopicName(StrBytes::from_string(name.to_owned()));
        let request = DeleteTopicsRequest::default().with_topic_names(vec![asked]);
        let response = self.ask(0, move |node| node.delete_topics(&request, DELETE_BY_NAME))?;
        self.ask_all(Node::catch_up)?;
        match response.responses.first() {
            Some(result) if result.error_code != 0 => Err(ServerError::Refused {
                what: format!("cannot delete topic `{name}`"),
                reason: reason(result.error_code, result.error_message.as_ref()),
            }),
            _ => Ok(()),
        }
    }
}
