//! `DeleteRecords`.

use kafka_protocol::messages::{DeleteRecordsRequest, delete_records_request::DeleteRecordsTopic};
use rota_security::acl::Operation;

use super::context::{Context, Outcome};
use crate::topics::delete_records;

/// Deletes records of partitions that this node leads.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: DeleteRecordsRequest = context.decode()?;
    let asked = std::mem::take(&mut request.topics);
    let count = |topic: &DeleteRecordsTopic| topic.partitions.len();
    let (allowed, refused) =
        context.access().split_topics(Operation::Delete, asked, |topic| (topic.name.as_str(), count(topic)));
    request.topics = allowed;
    let mut response = context.node.topics_mut().0.delete_records(&request);
    response.topics.extend(refused.iter().map(delete_records::refused));
    Ok(context.answer(&response))
}
