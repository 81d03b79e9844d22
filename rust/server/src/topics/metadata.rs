//! Metadata: nodes and topics.

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
};

use kafka_protocol::{
    messages::{
        BrokerId, MetadataRequest, MetadataResponse, TopicName,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use uuid::Uuid;

use super::{Cluster, Entropy, Node, Topic, TopicError, Topics, name::check_name};

/// The authorized operations on topics, as bits: all, since there is no authorization.
const TOPIC_OPERATIONS: i32 = 3_576;
const CLUSTER_OPERATIONS: i32 = 8_096;
/// The value if operations are not requested, or the version does not have them.
pub const NOT_LISTED: i32 = i32::MIN;
/// The first version that requests topics by id, without a name.
const BY_ID_SINCE: i16 = 12;

impl Topics {
    /// Handles versions 0–13. Creates topics requested by name that do not exist, if the settings and the request allow
    /// it (always before version 4). Unlike Kafka, which first answers `UNKNOWN_TOPIC_OR_PARTITION`, the answer already
    /// has them. A repeated topic is answered once.
    ///
    /// While the topics are not known yet, each is answered `LEADER_NOT_AVAILABLE`, which no client caches, and a request
    /// for all of them has neither topics nor nodes: clients take such an answer for that of a broker that starts, and
    /// ask again.
    pub fn metadata(
        &mut self,
        request: &MetadataRequest,
        version: i16,
        cluster: &Cluster,
        entropy: &mut impl Entropy,
    ) -> MetadataResponse {
        let listed = |asked: bool, versions: RangeInclusive<i16>, operations| {
            if asked && versions.contains(&version) { operations } else { NOT_LISTED }
        };
        let topic_operations = listed(request.include_topic_authorized_operations, 8..=i16::MAX, TOPIC_OPERATIONS);
        let cluster_operations = listed(request.include_cluster_authorized_operations, 8..=10, CLUSTER_OPERATIONS);
        let mut response = nodes(cluster).with_cluster_authorized_operations(cluster_operations);
        let asked = match &request.topics {
            Some(asked) if version > 0 || !asked.is_empty() => asked,
            _ if !self.is_known() => return response.with_brokers(Vec::new()).with_controller_id(BrokerId(-1)),
            _ => {
                response.topics = self.table.by_name.iter().map(|(name, topic)| self.describe(name, topic)).collect();
                return with_operations(response, topic_operations);
            }
        };
        if let Some(error) = misuse(asked, version) {
            response.topics = asked.iter().map(|asked| refused(asked, error)).collect();
            return with_operations(response, topic_operations);
        }
        let by_id = asked.iter().any(|asked| !asked.topic_id.is_nil());
        let may_create = self.settings.auto_create_topics && (version < 4 || request.allow_auto_topic_creation);
        let is_known = self.is_known();
        let failed =
            if may_create && is_known && !by_id { self.create_missing(asked, entropy) } else { HashMap::new() };
        let mut seen: HashSet<(Uuid, &str)> = HashSet::new();
        for asked in asked {
            let name = asked.name.as_deref().map_or("", StrBytes::as_str);
            if !seen.insert((asked.topic_id, name)) {
                continue;
            }
            let answer = match () {
                () if !is_known => refused(asked, ErrorCode::LeaderNotAvailable),
                () if by_id => self.by_id(asked),
                () => self.by_name(asked, name, failed.get(name).copied()),
            };
            response.topics.push(answer);
        }
        with_operations(response, topic_operations)
    }

    fn by_id(&self, asked: &MetadataRequestTopic) -> MetadataResponseTopic {
        match self.table.name_by_id.get(&asked.topic_id).and_then(|name| self.table.by_name.get_key_value(name)) {
            Some((name, topic)) => self.describe(name, topic),
            None => refused(asked, ErrorCode::UnknownTopicId).with_name(None),
        }
    }

    /// Creates the topics that are requested by name and do not exist, by one durable change. Returns the errors of those
    /// that cannot be created.
    fn create_missing<'r>(
        &mut self,
        asked: &'r [MetadataRequestTopic],
        entropy: &mut impl Entropy,
    ) -> HashMap<&'r str, ErrorCode> {
        let mut seen: HashSet<&str> = HashSet::new();
        let named = asked.iter().filter_map(|asked| asked.name.as_deref());
        let missing = named.map(StrBytes::as_str).filter(|name| self.topic(name).is_none() && check_name(name).is_ok());
        let missing: Vec<&str> = missing.filter(|name| seen.insert(name)).collect();
        if missing.is_empty() {
            return HashMap::new();
        }
        let created: Vec<Result<Uuid, TopicError>> =
            self.changing(|topics| missing.iter().map(|name| topics.create_in_change(name, -1, entropy)).collect());
        let failed = missing.into_iter().zip(created);
        failed.filter_map(|(name, created)| created.err().map(|error| (name, error.code))).collect()
    }

    fn by_name(&self, asked: &MetadataRequestTopic, name: &str, failed: Option<ErrorCode>) -> MetadataResponseTopic {
        match self.table.by_name.get_key_value(name.as_bytes()) {
            Some((name, topic)) => self.describe(name, topic),
            None if check_name(name).is_err() => refused(asked, ErrorCode::InvalidTopicException),
            // The cluster could not make the change in time.
            None if failed == Some(ErrorCode::NotController) => refused(asked, ErrorCode::LeaderNotAvailable),
            // One that another node had created meanwhile is gone again.
            None if failed == Some(ErrorCode::TopicAlreadyExists) => refused(asked, ErrorCode::UnknownTopicOrPartition),
            None => refused(asked, failed.unwrap_or(ErrorCode::UnknownTopicOrPartition)),
        }
    }

    fn describe(&self, name: &StrBytes, topic: &Topic) -> MetadataResponseTopic {
        let partition = |index: i32| {
            let leader = self.leader(topic, index)?;
            let node = BrokerId(leader.node_id);
            let answer = MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(node)
                .with_leader_epoch(leader.epoch)
                .with_replica_nodes(vec![node])
                .with_isr_nodes(vec![node]);
            Some(answer)
        };
        MetadataResponseTopic::default()
            .with_name(Some(TopicName(name.clone())))
            .with_topic_id(topic.id)
            .with_is_internal(topic.internal)
            .with_partitions((0..topic.leaders.len() as i32).filter_map(partition).collect())
    }
}

/// Returns the error of a request with ids before version 12, without a name there, or with ids and names.
pub fn misuse(asked: &[MetadataRequestTopic], version: i16) -> Option<ErrorCode> {
    let by_id = asked.iter().filter(|asked| !asked.topic_id.is_nil()).count();
    let unnamed = asked.iter().filter(|asked| asked.name.is_none()).count();
    let misused = if version < BY_ID_SINCE { by_id + unnamed > 0 } else { unnamed > by_id };
    misused.then_some(ErrorCode::InvalidRequest)
}

fn refused(asked: &MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(error as i16)
        .with_name(Some(asked.name.clone().unwrap_or_default()))
        .with_topic_id(asked.topic_id)
}

fn with_operations(mut response: MetadataResponse, topic_operations: i32) -> MetadataResponse {
    for topic in &mut response.topics {
        topic.topic_authorized_operations = topic_operations;
    }
    response
}

fn nodes(cluster: &Cluster) -> MetadataResponse {
    let broker = |node: &Node| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host.clone()))
            .with_port(node.port)
    };
    MetadataResponse::default()
        .with_brokers(cluster.nodes.iter().map(broker).collect())
        .with_cluster_id(cluster.id.clone().map(StrBytes::from_string))
        .with_controller_id(BrokerId(cluster.nodes.first().map_or(-1, |node| node.id)))
}
