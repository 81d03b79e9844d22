//! `Fetch`, which may wait on its connection for data. It waits in real time, whatever the coordinators' clock.

use std::time::Duration;

use kafka_protocol::messages::{
    FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};
use tokio::time::Instant;

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::{client::reply_to::ReplyTo, faults, node::Node, topics::WatchId};

/// Answers at once if there is enough data or an error; otherwise the request waits.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: FetchRequest = context.decode()?;
    // There are no fetch sessions, so there is nothing to forget, and a fetch may wait for long.
    request.forgotten_topics_data = Vec::new();
    if let Some(error) = context.node.injected("") {
        return Ok(context.answer(&faults::fetch_error(&request, error)));
    }
    let max_wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let outcome = context.node.topics().fetch(&request, context.version());
    if max_wait_ms == 0 || outcome.is_complete(&request) {
        return Ok(context.answer(&outcome.response));
    }
    Ok(Handled::Fetch(Box::new(FetchWait {
        request,
        reply_to: context.reply_to(),
        body_bytes: context.body().len(),
        until: Instant::now() + Duration::from_millis(max_wait_ms),
    })))
}

/// A waiting fetch.
pub struct FetchWait {
    request: FetchRequest,
    reply_to: ReplyTo,
    /// Size of the body, which the names in `request` borrow from.
    body_bytes: usize,
    /// When the fetch is answered with the available data.
    pub until: Instant,
}

impl FetchWait {
    /// Returns its approximate memory while it waits, in bytes.
    pub fn size_bytes(&self) -> usize {
        let topics = &self.request.topics;
        let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
        self.body_bytes + topics.len() * size_of::<FetchTopic>() + partitions * size_of::<FetchPartition>()
    }

    /// Notifies the client when a partition of the fetch has data.
    pub fn watch(&self, node: &mut Node) -> WatchId {
        node.topics_mut().0.watch(&self.request, self.reply_to.version, self.reply_to.client.data())
    }

    /// Ends the watch.
    pub fn unwatch(node: &mut Node, watch: WatchId) {
        node.topics_mut().0.unwatch(watch);
    }

    /// Answers if there is enough data, the time is up, or `over`. Returns whether it did.
    pub fn finish(&self, node: &Node, over: bool) -> bool {
        let outcome = node.topics().fetch(&self.request, self.reply_to.version);
        let finished = over || self.until <= Instant::now() || outcome.is_complete(&self.request);
        if finished {
            // Without an answer, the client waits for its own timeout.
            let _unencodable = self.reply_to.encode(&outcome.response);
        }
        finished
    }
}
