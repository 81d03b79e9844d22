//! `DescribeProducers` (docs/transactions.md §10.4).

use kafka_protocol::messages::DescribeProducersRequest;
use rota_security::acl::{Operation, ResourceType};

use super::context::{Context, Outcome};
use crate::topics::refuse_describe_producers;

/// Describes the producers of partitions that this node leads.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: DescribeProducersRequest = context.decode()?;
    let access = context.access();
    let asked = std::mem::take(&mut request.topics);
    let (allowed, refused) = asked
        .into_iter()
        .partition::<Vec<_>, _>(|topic| access.allows(Operation::Read, ResourceType::Topic, &topic.name));
    request.topics = allowed;
    let mut response = context.node.topics_mut().0.describe_producers(&request);
    response.topics.extend(refused.iter().map(refuse_describe_producers));
    Ok(context.answer(&response))
}
