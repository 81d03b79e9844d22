//! `CreateTopics`, `DeleteTopics`, `CreatePartitions` and `InitProducerId`.

use std::collections::HashMap;

use kafka_protocol::{
    messages::{
        BrokerId, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
        DeleteTopicsRequest, DeleteTopicsResponse, InitProducerIdRequest, InitProducerIdResponse, ProducerId,
        TopicName, create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult, create_topics_request::CreatableTopic,
        create_topics_response::CreatableTopicResult, delete_topics_request::DeleteTopicState,
        delete_topics_response::DeletableTopicResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use uuid::Uuid;

use super::{
    CONSUMER_OFFSETS, Change, Entropy, TRANSACTIONS_REFUSED, TopicError, Topics, configs::TopicConfigs,
    table::Refusable,
};

/// What `DeleteTopics` did.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The answer.
    pub response: DeleteTopicsResponse,
    /// The topics that are gone; their committed offsets have to go too.
    pub deleted: Vec<String>,
}

impl Refusable for Result<Uuid, TopicError> {
    fn refused(self, error: &TopicError) -> Self {
        self.and(Err(error.clone()))
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

impl Refusable for CreatePartitionsResponse {
    fn refused(mut self, error: &TopicError) -> Self {
        for answer in self.results.iter_mut().filter(|answer| answer.error_code == 0) {
            answer.error_code = error.code as i16;
            answer.error_message = Some(StrBytes::from_string(error.message.clone()));
        }
        self
    }
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
}

impl Topics {
    /// Versions 2–7. Topics are created one by one in request order; a name that comes twice is refused once.
    pub fn create_topics(
        &mut self,
        request: &CreateTopicsRequest,
        _version: i16,
        entropy: &mut impl Entropy,
    ) -> CreateTopicsResponse {
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

    /// The leaders of the partitions that a manual assignment makes.
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

    /// The leader that a manual assignment names: partitions have one replica.
    fn check_replicas(&self, replicas: &[BrokerId]) -> Result<i32, TopicError> {
        let exists = |replica: &BrokerId| self.owner.owners.node_ids().any(|node_id| node_id == replica.0);
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

    /// Versions 1–6; by id from 6 on. Whoever waits for data of a deleted topic is woken.
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

    /// The name of the topic to delete.
    fn deletable(&self, asked: &DeleteTopicState) -> Result<String, TopicError> {
        let name = match (&asked.name, asked.topic_id.is_nil()) {
            (Some(name), true) => name.as_str(),
            (None, false) => self
                .topic_name(asked.topic_id)
                .ok_or_else(|| TopicError::new(ErrorCode::UnknownTopicId, "there is no topic with this id"))?,
            _ => {
                let message = "a topic to delete is given by its name or by its id, and not by both";
                return Err(TopicError::new(ErrorCode::InvalidRequest, message));
            }
        };
        if self.topic(name).is_none() {
            return Err(TopicError::new(ErrorCode::UnknownTopicOrPartition, "there is no such topic"));
        }
        refuse_internal(name)?;
        Ok(name.to_owned())
    }

    /// Versions 0–3.
    pub fn create_partitions(&mut self, request: &CreatePartitionsRequest, _version: i16) -> CreatePartitionsResponse {
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
            let nodes = self.owner.owners.nodes();
            self.table_mut(Change::Added).grow(name, added, leaders, nodes);
        }
        Ok(())
    }

    /// Versions 0–5. A fresh id with epoch 0; transactional ids are refused with [`TRANSACTIONS_REFUSED`].
    pub fn init_producer_id(&mut self, request: &InitProducerIdRequest, _version: i16) -> InitProducerIdResponse {
        let half_known = (request.producer_id.0 == -1) != (request.producer_epoch == -1);
        let refused = match &request.transactional_id {
            Some(id) if id.is_empty() => Some(ErrorCode::InvalidRequest),
            _ if half_known => Some(ErrorCode::InvalidRequest),
            Some(_) => Some(TRANSACTIONS_REFUSED),
            None => None,
        };
        if let Some(error) = refused {
            return InitProducerIdResponse::default()
                .with_error_code(error as i16)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
        }
        let producer_id = self.owner.new_producer_id();
        InitProducerIdResponse::default().with_producer_id(ProducerId(producer_id)).with_producer_epoch(0)
    }
}

/// The coordinators own this topic: its number of partitions decides where a group lives.
fn refuse_internal(name: &str) -> Result<(), TopicError> {
    if name == CONSUMER_OFFSETS {
        let message = format!("`{CONSUMER_OFFSETS}` belongs to the group coordinator and cannot be changed");
        return Err(TopicError::new(ErrorCode::InvalidTopicException, message));
    }
    Ok(())
}

/// There is one node for each partition: replication factor 1, or -1 for the default, which is 1.
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

/// For each name where it comes first, and how often it comes.
fn occurrences<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, (usize, usize)> {
    let mut found: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, name) in names.enumerate() {
        found.entry(name).or_insert((at, 0)).1 += 1;
    }
    found
}
