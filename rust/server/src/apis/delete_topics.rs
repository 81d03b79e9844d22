//! `DeleteTopics`.

use kafka_protocol::messages::DeleteTopicsRequest;

use super::context::{Context, Outcome};

/// Deletes topics with their committed offsets.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DeleteTopicsRequest = context.decode()?;
    let version = context.version();
    let deletion = context.node.topics_mut().0.delete_topics(&request, version);
    let names: Vec<&str> = deletion.deleted.iter().map(|name| &**name).collect();
    if !names.is_empty() {
        context.node.topics_deleted(&names);
    }
    Ok(context.answer(&deletion.response))
}
