//! `CreatePartitions`.

use kafka_protocol::{
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;

use super::{Change, TopicError, Topics, occurrences, refuse_internal, table::Refusable};

impl Refusable for CreatePartitionsResponse {
    fn refused(mut self, error: &TopicError) -> Self {
        for answer in self.results.iter_mut().filter(|answer| answer.error_code == 0) {
            answer.error_code = error.code as i16;
            answer.error_message = Some(StrBytes::from_string(error.message.clone()));
        }
        self
    }
}

impl Topics {
    /// Handles versions 0–3.
    pub fn create_partitions(&mut self, request: &CreatePartitionsRequest) -> CreatePartitionsResponse {
        self.changing(|topics| topics.grow_all(request))
    }

    fn grow_all(&mut self, request: &CreatePartitionsRequest) -> CreatePartitionsResponse {
        let counts = occurrences(request.topics.iter().map(|asked| asked.name.as_str()));
        let mut response = CreatePartitionsResponse::default();
        for (at, asked) in request.topics.iter().enumerate() {
            let (first, count) = counts[asked.name.as_str()];
            if first != at {
                continue;
            }
            let grown = if count > 1 {
                Err(TopicError::new(ErrorCode::InvalidRequest, "the topic is named more than once"))
            } else {
                self.grow(asked, request.validate_only)
            };
            let answer = CreatePartitionsTopicResult::default().with_name(asked.name.clone());
            response.results.push(match grown {
                Ok(()) => answer.with_error_message(None),
                Err(error) => answer
                    .with_error_code(error.code as i16)
                    .with_error_message(Some(StrBytes::from_string(error.message))),
            });
        }
        response
    }

    fn grow(&mut self, asked: &CreatePartitionsTopic, validate_only: bool) -> Result<(), TopicError> {
        self.check_known()?;
        let name = asked.name.as_str();
        let Some(current) = self.partition_count(name) else {
            return Err(TopicError::new(ErrorCode::UnknownTopicOrPartition, format!("there is no topic `{name}`")));
        };
        refuse_internal(name)?;
        let added = match asked.count.checked_sub(current).and_then(|added| usize::try_from(added).ok()) {
            None | Some(0) => {
                let message = format!("topic `{name}` has {current} partitions: {} would not be more", asked.count);
                return Err(TopicError::new(ErrorCode::InvalidPartitions, message));
            }
            Some(added) => self.check_partition_limits(asked.count, added)?,
        };
        let leaders = match &asked.assignments {
            Some(assignments) if assignments.len() != added => {
                let message = format!("{added} partitions are added but {} are assigned", assignments.len());
                return Err(TopicError::new(ErrorCode::InvalidReplicaAssignment, message));
            }
            Some(assignments) => {
                let leaders = assignments.iter().map(|assignment| self.check_replicas(&assignment.broker_ids));
                Some(leaders.collect::<Result<Vec<i32>, TopicError>>()?)
            }
            None => None,
        };
        if !validate_only {
            let node_ids = self.owner.owners.node_ids();
            self.table_mut(Change::Added).grow(name, added, leaders, &node_ids);
        }
        Ok(())
    }
}
