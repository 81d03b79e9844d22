//! `Metadata`: the nodes, and the topics.

use std::collections::HashSet;

use kafka_protocol::messages::{
    MetadataRequest, MetadataResponse, metadata_request::MetadataRequestTopic, metadata_response::MetadataResponseTopic,
};
use rota_core::error::ErrorCode;
use rota_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use uuid::Uuid;

use super::context::{Context, Outcome};
use crate::{client::access::Access, faults, topics::metadata};

/// Creates requested topics that do not exist, if settings, request and the client's rights allow it. A topic that the
/// client may not describe is answered like one that does not exist.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: MetadataRequest = context.decode()?;
    let (version, cluster, access) = (context.version(), context.cluster(), context.access());
    let refused = refuse_forbidden(context, &access, &mut request);
    // Of version 0, a request without topics is for all.
    let version_without_all = if refused.is_empty() { version } else { version.max(1) };
    let (topics, random) = context.node.topics_mut();
    let mut response = topics.metadata(&request, version_without_all, &cluster, random);
    if !access.is_open() {
        restrict(&mut response, &access);
    }
    response.topics.extend(refused);
    faults::clear_leaders(&mut response, |node_id| {
        let is_gone = context.node.cluster().is_some_and(|cluster| !cluster.is_alive(node_id));
        is_gone || context.node.outages().is_down(node_id)
    });
    if let Some(error) = context.node.injected("") {
        faults::metadata_error(&mut response, error);
    }
    Ok(context.answer(&response))
}

/// Takes the topics that the client may not describe, or not create, out of the request, and returns their answers.
fn refuse_forbidden(
    context: &Context<'_>,
    access: &Access,
    request: &mut MetadataRequest,
) -> Vec<MetadataResponseTopic> {
    let (node, version) = (&*context.node, context.version());
    let Some(asked) = request.topics.take() else { return Vec::new() };
    if access.is_open() || metadata::misuse(&asked, version).is_some() {
        request.topics = Some(asked);
        return Vec::new();
    }
    let asks_to_create = version < 4 || request.allow_auto_topic_creation;
    let creates = node.settings().topics().auto_create_topics && asks_to_create && node.topics().is_known();
    let may_create = |name: &str| {
        access.may(Operation::Create, ResourceType::Cluster, CLUSTER_NAME)
            || access.allows(Operation::Create, ResourceType::Topic, name)
    };
    let is_allowed = |asked: &MetadataRequestTopic| {
        let by_id = !asked.topic_id.is_nil();
        let name =
            if by_id { node.topics().topic_name(asked.topic_id) } else { asked.name.as_ref().map(|name| &***name) };
        // An id of no topic is unknown to everyone.
        let Some(name) = name else { return true };
        let exists = node.topics().partition_count(name).is_some();
        access.allows(Operation::Describe, ResourceType::Topic, name) && (exists || !creates || may_create(name))
    };
    let (allowed, refused) = asked.into_iter().partition(is_allowed);
    request.topics = Some(allowed);
    let refused: Vec<MetadataRequestTopic> = refused;
    // A repeated topic is answered once.
    let mut seen = HashSet::new();
    let first = refused.iter().filter(|asked| seen.insert((asked.topic_id, asked.name.as_deref())));
    first.map(refusal).collect()
}

fn refusal(asked: &MetadataRequestTopic) -> MetadataResponseTopic {
    let name = if asked.topic_id == Uuid::nil() { asked.name.clone() } else { None };
    MetadataResponseTopic::default()
        .with_error_code(ErrorCode::TopicAuthorizationFailed.code())
        .with_name(name)
        .with_topic_id(asked.topic_id)
        .with_topic_authorized_operations(metadata::NOT_LISTED)
}

/// Leaves topics out that the client may not describe, and lists the operations that it may do.
fn restrict(response: &mut MetadataResponse, access: &Access) {
    let name = |topic: &MetadataResponseTopic| topic.name.as_ref().map_or(String::new(), |name| name.0.to_string());
    // An error of a topic that was asked for stays.
    response
        .topics
        .retain(|topic| topic.error_code != 0 || access.may(Operation::Describe, ResourceType::Topic, &name(topic)));
    for topic in &mut response.topics {
        if topic.topic_authorized_operations != metadata::NOT_LISTED {
            topic.topic_authorized_operations = access.operations(ResourceType::Topic, &name(topic));
        }
    }
    if response.cluster_authorized_operations != metadata::NOT_LISTED {
        response.cluster_authorized_operations = access.cluster_operations();
    }
}
