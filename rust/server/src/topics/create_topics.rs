//! `CreateTopics`.

use kafka_protocol::{
    messages::{
        BrokerId, CreateTopicsRequest, CreateTopicsResponse, create_topics_request::CreatableTopic,
        create_topics_response::CreatableTopicResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use uuid::Uuid;

use super::{Entropy, TopicError, Topics, configs::TopicConfigs, occurrences, table::Refusable};

impl Refusable for Result<Uuid, TopicError> {
    fn refused(self, error: &TopicError) -> Self {
        self.and(Err(error.clone()))
    }
}

impl Refusable for Vec<Result<Uuid, TopicError>> {
    fn refused(self, error: &TopicError) -> Self {
        self.into_iter().map(|created| created.refused(error)).collect()
    }
}

impl Refusable for CreateTopicsResponse {
    fn refused(mut self, error: &TopicError) -> Self {
        for answer in self.topics.iter_mut().filter(|answer| answer.error_code == 0) {
            answer.error_code = error.code as i16;
            answer.error_message = Some(StrBytes::from_string(error.message.clone()));
        }
        self
    }
}

impl Topics {
    /// Handles versions 2–7. Topics are created in request order; a repeated name is refused once.
    pub fn create_topics(&mut self, request: &CreateTopicsRequest, entropy: &mut impl Entropy) -> CreateTopicsResponse {
        self.changing(|topics| topics.create_all(request, entropy))
    }

    fn create_all(&mut self, request: &CreateTopicsRequest, entropy: &mut impl Entropy) -> CreateTopicsResponse {
        let counts = occurrences(request.topics.iter().map(|asked| asked.name.as_str()));
        let mut response = CreateTopicsResponse::default();
        for (at, asked) in request.topics.iter().enumerate() {
            let (first, count) = counts[asked.name.as_str()];
            if first != at {
                continue;
            }
            let created = if count > 1 {
                Err(TopicError::new(ErrorCode::InvalidRequest, "the topic is named more than once"))
            } else {
                self.create_one(asked, request.validate_only, entropy)
            };
            response.topics.push(created.unwrap_or_else(|error| {
                CreatableTopicResult::default()
                    .with_name(asked.name.clone())
                    .with_error_code(error.code as i16)
                    .with_error_message(Some(StrBytes::from_string(error.message)))
                    .with_num_partitions(-1)
                    .with_replication_factor(-1)
            }));
        }
        response
    }

    fn create_one(
        &mut self,
        asked: &CreatableTopic,
        validate_only: bool,
        entropy: &mut impl Entropy,
    ) -> Result<CreatableTopicResult, TopicError> {
        self.check_known()?;
        self.check_new_name(&asked.name)?;
        let configs = TopicConfigs::read(&asked.configs)?;
        let (partitions, leaders) = if asked.assignments.is_empty() {
            check_replication_factor(asked.replication_factor)?;
            (self.check_new_partitions(asked.num_partitions)?, None)
        } else {
            let leaders = self.check_assignments(asked)?;
            (leaders.len(), Some(leaders))
        };
        let listed = configs.listed();
        let id =
            if validate_only { Uuid::nil() } else { self.insert(&asked.name, partitions, leaders, configs, entropy) };
        Ok(CreatableTopicResult::default()
            .with_name(asked.name.clone())
            .with_topic_id(id)
            .with_error_message(None)
            .with_num_partitions(partitions as i32)
            .with_replication_factor(1)
            .with_configs(Some(listed)))
    }

    /// Returns the leaders of a manual assignment.
    fn check_assignments(&self, asked: &CreatableTopic) -> Result<Vec<i32>, TopicError> {
        if asked.num_partitions != -1 || asked.replication_factor != -1 {
            let message = "with a manual assignment, the number of partitions and the replication factor must be -1";
            return Err(TopicError::new(ErrorCode::InvalidRequest, message));
        }
        let count = i32::try_from(asked.assignments.len()).unwrap_or(i32::MAX);
        self.check_partition_limits(count, asked.assignments.len())?;
        let mut assigned = vec![None; asked.assignments.len()];
        for assignment in &asked.assignments {
            let leader = self.check_replicas(&assignment.broker_ids)?;
            let place = usize::try_from(assignment.partition_index).ok().and_then(|index| assigned.get_mut(index));
            match place {
                Some(assigned) if assigned.is_none() => *assigned = Some(leader),
                _ => {
                    let message = "the partitions of a manual assignment must count up from 0 without gaps";
                    return Err(TopicError::new(ErrorCode::InvalidReplicaAssignment, message));
                }
            }
        }
        Ok(assigned.into_iter().flatten().collect())
    }

    /// Returns the leader of a partition in a manual assignment: partitions have one replica.
    pub(super) fn check_replicas(&self, replicas: &[BrokerId]) -> Result<i32, TopicError> {
        let node_ids = self.owner.owners.node_ids();
        let exists = |replica: &BrokerId| node_ids.contains(&replica.0);
        let message = match replicas {
            [only] if exists(only) => return Ok(only.0),
            [] => "the manual assignment has an empty replica list".to_owned(),
            [first, rest @ ..] => match replicas.iter().find(|replica| !exists(replica)) {
                Some(stranger) => format!("the manual assignment names node {}, which does not exist", stranger.0),
                None if rest.contains(first) => {
                    format!("the manual assignment names node {} more than once", first.0)
                }
                None => "the manual assignment has several replicas but there is no replication".to_owned(),
            },
        };
        Err(TopicError::new(ErrorCode::InvalidReplicaAssignment, message))
    }
}

/// Checks the replication factor: 1, or -1 for the default, which is 1.
fn check_replication_factor(asked: i16) -> Result<(), TopicError> {
    let message = match asked {
        1 | -1 => return Ok(()),
        ..=0 => format!("the replication factor is {asked}, expected 1, or -1 for the default"),
        _ => {
            format!("the replication factor is {asked} but there is no replication: expected 1, or -1 for the default")
        }
    };
    Err(TopicError::new(ErrorCode::InvalidReplicationFactor, message))
}
