//! `Fetch`, which waits on its connection for data. Waiting is in real time, whatever the coordinators' clock.

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

/// Answers at once if there is enough, or an error; otherwise the request waits.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: FetchRequest = context.decode()?;
    // Without fetch sessions there is nothing to forget, and a fetch may wait for long.
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

/// A fetch that waits.
pub struct FetchWait {
    request: FetchRequest,
    reply_to: ReplyTo,
    /// Of the request as it came: names in `request` are views into it.
    body_bytes: usize,
    /// When it is answered with whatever is there.
    pub until: Instant,
}

impl FetchWait {
    /// About how much memory it takes up while it waits.
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

    /// Answers if there is enough now, or time is up, or `over`; true if it did.
    pub fn finish(&self, node: &Node, over: bool) -> bool {
        let outcome = node.topics().fetch(&self.request, self.reply_to.version);
        let finished = over || self.until <= Instant::now() || outcome.is_complete(&self.request);
        if finished {
            // Without an answer the client waits until its own deadline.
            let _unencodable = self.reply_to.encode(&outcome.response);
        }
        finished
    }
}
