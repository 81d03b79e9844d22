//! `Fetch`, which may wait on its connection for data. It waits in real time, whatever the coordinators' clock.

use std::time::Duration;

use kafka_protocol::messages::{
    FetchRequest, FetchResponse,
    fetch_request::{FetchPartition, FetchTopic},
};
use rota_core::error::ErrorCode;
use rota_security::acl::{Operation, ResourceType};
use tokio::time::Instant;

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::{
    client::reply_to::ReplyTo,
    faults,
    node::Node,
    topics::{Seen, Unread, WatchId},
};

/// Answers at once if there is enough data or an error; otherwise the request waits.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: FetchRequest = context.decode()?;
    // There are no fetch sessions, so there is nothing to forget, and a fetch may wait for long.
    request.forgotten_topics_data = Vec::new();
    if let Some(error) = context.node.injected("") {
        return Ok(context.answer(&faults::fetch_error(&request, error)));
    }
    let max_wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let refused = refuse_forbidden(context, &mut request);
    follow_offsets(context.node, &request);
    let (topics, version) = (context.node.topics(), context.version());
    let seen_changes = topics.changes();
    let mut outcome = topics.fetch(&request, version);
    if max_wait_ms == 0 || outcome.is_complete(&request) {
        add_errors(&mut outcome.response, &refused);
        return Ok(context.answer(&outcome.response));
    }
    let mut unread = topics.take_unread(&mut request, version);
    unread.extend(refused);
    unread.shrink_to_fit();
    Ok(Handled::Fetch(Box::new(FetchWait {
        unread,
        seen_changes,
        seen: topics.seen(&request, version, &outcome),
        request,
        readable: outcome.readable,
        reply_to: context.reply_to(),
        body_bytes: context.body().len(),
        until: Instant::now() + Duration::from_millis(max_wait_ms),
    })))
}

fn follow_offsets(node: &mut Node, request: &FetchRequest) {
    let partitions = node.topics().fetched_offsets(request);
    node.follow_offsets(partitions);
}

fn add_errors(response: &mut FetchResponse, unread: &[Unread]) {
    for unread in unread {
        unread.add_to(response);
    }
}

/// Takes the topics that the client may not read out of the request, and returns them with their error.
fn refuse_forbidden(context: &mut Context<'_>, request: &mut FetchRequest) -> Vec<Unread> {
    let access = context.access();
    let asked = std::mem::take(&mut request.topics);
    let topics = context.node.topics();
    let (mut allowed, mut refused) = (Vec::with_capacity(asked.len()), Vec::new());
    for topic in asked {
        let name = if topic.topic_id.is_nil() { Some(topic.topic.as_str()) } else { topics.topic_name(topic.topic_id) };
        let count = topic.partitions.len();
        let allows = |name: &str| access.allows_counted(Operation::Read, ResourceType::Topic, name, count);
        // An id of no topic is unknown to everyone, and stays so while the request waits.
        if name.is_none_or(allows) {
            allowed.push(topic);
        } else {
            refused.push(Unread::all(&topic, ErrorCode::TopicAuthorizationFailed));
        }
    }
    request.topics = allowed;
    refused
}

/// A waiting fetch.
pub struct FetchWait {
    /// Each partition that it waits for, once.
    request: FetchRequest,
    /// What is answered with errors.
    unread: Vec<Unread>,
    /// The changes of topics before the first look.
    seen_changes: u64,
    /// What the last look has seen.
    seen: Seen,
    /// Number of partitions that could be read at the first look.
    readable: usize,
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
        self.body_bytes
            + self.seen.size_bytes()
            + self.unread.iter().map(Unread::size_bytes).sum::<usize>()
            + topics.len() * size_of::<FetchTopic>()
            // Each watched partition has the id of the watch, in a list that grows by doubling.
            + partitions * (size_of::<FetchPartition>() + 2 * size_of::<WatchId>())
    }

    /// Looks again before the first watch, if something has changed since. Returns whether it answered.
    pub fn finish_if_changed(&mut self, node: &mut Node) -> bool {
        node.topics().changes() != self.seen_changes && self.finish(node, false)
    }

    /// Notifies the client whenever a partition of the fetch has data.
    pub fn watch(&self, node: &mut Node) -> WatchId {
        node.topics_mut().0.watch(&self.request, self.reply_to.version, self.reply_to.client.data())
    }

    /// Watches again if the watch has ended. Returns the watch.
    pub fn keep_watching(&self, node: &mut Node, watch: WatchId) -> WatchId {
        if node.topics().is_watching(watch) { watch } else { self.watch(node) }
    }

    /// Ends the watch.
    pub fn unwatch(node: &mut Node, watch: WatchId) {
        node.topics_mut().0.unwatch(watch);
    }

    /// Answers if there is enough data, a partition is gone, the time is up, or `over`. Returns whether it did.
    pub fn finish(&mut self, node: &mut Node, over: bool) -> bool {
        follow_offsets(node, &self.request);
        let (topics, version) = (node.topics(), self.reply_to.version);
        let is_over = over || self.until <= Instant::now();
        // Reading a few more bytes each time would read all of them again for every batch that comes.
        if !is_over && !topics.may_be_complete(&self.request, version, &self.seen) {
            return false;
        }
        let mut outcome = topics.fetch(&self.request, version);
        let is_gone = outcome.readable < self.readable;
        let finished = is_over || is_gone || outcome.is_complete(&self.request);
        if finished {
            add_errors(&mut outcome.response, &self.unread);
            self.reply_to.encode_or_close(&outcome.response);
        } else {
            self.seen = topics.seen(&self.request, version, &outcome);
        }
        finished
    }
}
