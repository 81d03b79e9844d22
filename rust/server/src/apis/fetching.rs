//! `Fetch`, which waits on its connection for data. Waiting is in real time, whatever the coordinators' clock.

use std::{rc::Rc, time::Duration};

use kafka_protocol::messages::{
    FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};
use rota_wire::{RequestHeader, WireError, versions::Api};
use tokio::time::Instant;

use crate::{
    apis::{
        Handled,
        topic_apis::{answer, decode},
    },
    faults,
    net::connection::Connection,
    node::Node,
    topics::WatchId,
};

/// A fetch that waits.
pub struct FetchWait {
    request: FetchRequest,
    api: &'static Api,
    version: i16,
    correlation_id: i32,
    /// Of the request as it came: names in `request` are views into it.
    body_bytes: usize,
    /// When it is answered with whatever is there.
    pub until: Instant,
}

impl FetchWait {
    fn header(&self) -> RequestHeader<'static> {
        RequestHeader { api: self.api, version: self.version, correlation_id: self.correlation_id, client_id: "" }
    }

    /// About how much memory it takes up while it waits.
    pub fn size_bytes(&self) -> usize {
        let topics = &self.request.topics;
        let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
        self.body_bytes + topics.len() * size_of::<FetchTopic>() + partitions * size_of::<FetchPartition>()
    }
}

/// `Fetch`: answered at once if there is enough, or an error; otherwise it waits.
pub fn fetch(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Result<Handled, WireError> {
    let mut request: FetchRequest = decode(header, body)?;
    // Without fetch sessions there is nothing to forget, and a fetch may wait for long.
    request.forgotten_topics_data = Vec::new();
    if let Some(error) = node.injected("") {
        return Ok(answer(connection, header, &faults::fetch_error(&request, error)));
    }
    let max_wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let outcome = node.topics.fetch(&request, header.version);
    if max_wait_ms == 0 || outcome.is_complete(&request) {
        return Ok(answer(connection, header, &outcome.response));
    }
    Ok(Handled::Fetch(Box::new(FetchWait {
        request,
        api: header.api,
        version: header.version,
        correlation_id: header.correlation_id,
        body_bytes: body.len(),
        until: Instant::now() + Duration::from_millis(max_wait_ms),
    })))
}

/// `connection.data` is notified when a partition of the fetch has data.
pub fn watch(node: &mut Node, connection: &Connection, wait: &FetchWait) -> WatchId {
    node.topics.watch(&wait.request, wait.version, &connection.data)
}

/// Nobody waits any more.
pub fn unwatch(node: &mut Node, watch: WatchId) {
    node.topics.unwatch(watch);
}

/// Answers a fetch that has waited, if there is enough now, or time is up, or `over`; true if it did.
pub fn finish(node: &mut Node, connection: &Connection, wait: &FetchWait, over: bool) -> bool {
    let outcome = node.topics.fetch(&wait.request, wait.version);
    let finished = over || wait.until <= Instant::now() || outcome.is_complete(&wait.request);
    if finished {
        // An answer that cannot be written leaves the connection mute; the client's own deadline ends that.
        let _closed = answer(connection, &wait.header(), &outcome.response);
    }
    finished
}
