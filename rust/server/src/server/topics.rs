//! Creates topics without a request.

use super::Server;
use crate::base::error::ServerError;

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
}
