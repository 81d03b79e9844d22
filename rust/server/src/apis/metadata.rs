//! `Metadata`: the nodes, and the topics.

use kafka_protocol::messages::MetadataRequest;

use super::context::{Context, Outcome};
use crate::faults;

/// Creates requested topics that do not exist, if settings and request allow it.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: MetadataRequest = context.decode()?;
    let (version, cluster) = (context.version(), context.cluster());
    let (topics, random) = context.node.topics_mut();
    let mut response = topics.metadata(&request, version, &cluster, random);
    faults::clear_leaders_of_down_nodes(&mut response, context.node.outages());
    if let Some(error) = context.node.injected("") {
        faults::metadata_error(&mut response, error);
    }
    Ok(context.answer(&response))
}
