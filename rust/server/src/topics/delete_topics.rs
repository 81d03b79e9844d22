//! `DeleteTopics`.

use std::collections::BTreeMap;

use kafka_protocol::{
    messages::{
        DeleteTopicsRequest, DeleteTopicsResponse, TopicName, delete_topics_request::DeleteTopicState,
        delete_topics_response::DeletableTopicResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_log::LogError;
use uuid::Uuid;

use super::{TopicError, Topics, occurrences, refuse_internal, table::Refusable};

/// The result of `DeleteTopics`.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The answer.
    pub response: DeleteTopicsResponse,
    /// The deleted topics, whose committed offsets must be deleted, too.
    pub deleted: Vec<String>,
}

impl Refusable for Deletion {
    fn refused(mut self, error: &TopicError) -> Self {
        for answer in self.response.responses.iter_mut().filter(|answer| answer.error_code == 0) {
            answer.error_code = error.code as i16;
            answer.error_message = Some(StrBytes::from_string(error.message.clone()));
        }
        self.deleted.clear();
        self
    }

    fn left_on_disk(mut self, left: &BTreeMap<Uuid, LogError>) -> Self {
        for answer in self.response.responses.iter_mut().filter(|answer| answer.error_code == 0) {
            if let Some(error) = left.get(&answer.topic_id) {
                let message = format!("the topic is gone, but files of it remain until the next start: {error}");
                answer.error_code = ErrorCode::KafkaStorageError.code();
                answer.error_message = Some(StrBytes::from_string(message));
            }
        }
        self
    }
}

impl Topics {
    /// Handles versions 1–6; by id from 6 on. Wakes fetches that wait for data of a deleted topic.
    pub fn delete_topics(&mut self, request: &DeleteTopicsRequest, version: i16) -> Deletion {
        self.changing(|topics| topics.delete_all(request, version))
    }

    fn delete_all(&mut self, request: &DeleteTopicsRequest, version: i16) -> Deletion {
        let asked: Vec<DeleteTopicState> = if version >= 6 {
            request.topics.clone()
        } else {
            let by_name = |name: &TopicName| DeleteTopicState::default().with_name(Some(name.clone()));
            request.topic_names.iter().map(by_name).collect()
        };
        let found: Vec<Result<String, TopicError>> = asked.iter().map(|asked| self.deletable(asked)).collect();
        let counts = occurrences(found.iter().filter_map(|found| found.as_deref().ok()));
        let mut deletion = Deletion { response: DeleteTopicsResponse::default(), deleted: Vec::new() };
        for (asked, found) in asked.into_iter().zip(&found) {
            let answer = DeletableTopicResult::default().with_name(asked.name).with_topic_id(asked.topic_id);
            let twice = || TopicError::new(ErrorCode::InvalidRequest, "the topic is named more than once");
            let outcome = match found {
                Ok(name) if counts[name.as_str()].1 > 1 => Err(twice()),
                Ok(name) => Ok(name),
                Err(error) => Err(error.clone()),
            };
            deletion.response.responses.push(match outcome {
                Ok(name) => {
                    let id = self.topic_id(name).unwrap_or_default();
                    self.remove(name);
                    deletion.deleted.push(name.clone());
                    answer.with_name(Some(TopicName(StrBytes::from_string(name.clone())))).with_topic_id(id)
                }
                Err(error) => answer
                    .with_error_code(error.code as i16)
                    .with_error_message(Some(StrBytes::from_string(error.message))),
            });
        }
        deletion
    }

    /// Returns the name of the topic to delete.
    fn deletable(&self, asked: &DeleteTopicState) -> Result<String, TopicError> {
        self.check_known()?;
        let name = match (&asked.name, asked.topic_id.is_nil()) {
            (Some(name), true) => name.as_str(),
            (None, false) => self
                .topic_name(asked.topic_id)
                .ok_or_else(|| TopicError::new(ErrorCode::UnknownTopicId, "there is no topic with this id"))?,
            _ => {
                let message = "name a topic to delete by its name or its id, not both";
                return Err(TopicError::new(ErrorCode::InvalidRequest, message));
            }
        };
        if self.topic(name).is_none() {
            return Err(TopicError::new(ErrorCode::UnknownTopicOrPartition, "there is no such topic"));
        }
        refuse_internal(name)?;
        Ok(name.to_owned())
    }
}
