//! Appends: from the coordinators to the node, and in lanes to the engine.

use std::{
    collections::{BTreeSet, VecDeque},
    iter,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rota_engine::{
    CallId, Epoch, Event, Outcome, PartitionId, Request, Ticket,
    node::{Phase, Refusal},
    requests::Body,
};
use rota_log::{Completion, Completions, LogError, Operation};
use tokio::time::Instant;

use super::Running;
use crate::{
    batches,
    log::{ENTRY_BYTES_MAX, LANES, Shelf, lane_of},
    messages::{AppendOrder, Message, Report, Written},
};

/// Before a request is sent again that found no space.
const PAUSE: Duration = Duration::from_millis(200);

/// An attempt that fails takes at least this long.
const ATTEMPT_MIN: Duration = Duration::from_millis(50);

/// Bytes of one call of a lane, unless its first append alone has more.
const CALL_BYTES_MAX: usize = 1 << 20;
/// Appends of one call of a lane: an engine bounds the operations of a transaction.
const CALL_APPENDS_MAX: usize = 32;

/// Appends of a partition that is served.
#[derive(Debug)]
pub(super) struct Feed {
    pub epoch: Epoch,
    /// Not yet handed to the node: together with what it has they would be too large for an entry.
    waiting: VecDeque<AppendOrder>,
    /// Bytes that the node has and that have not ended.
    node_bytes: usize,
    /// Bytes and entries since the last snapshot.
    pub tail_bytes: usize,
    pub tail_entries: usize,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: usize,
}

/// An append that the node has.
#[derive(Debug)]
pub(super) struct InFlight {
    order: AppendOrder,
    bytes: usize,
    since_ms: u64,
}

/// Appends on their way to the engine.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub is_busy: bool,
    waiting: VecDeque<(CallId, Request)>,
}

impl Feed {
    pub fn new(epoch: Epoch, tail_bytes: usize, tail_entries: usize, snapshot_bytes: usize) -> Feed {
        Feed { epoch, waiting: VecDeque::new(), node_bytes: 0, tail_bytes, tail_entries, snapshot_bytes }
    }

    /// Whether no append is under way.
    pub fn is_idle(&self) -> bool {
        self.node_bytes == 0 && self.waiting.is_empty()
    }
}

/// Refuses a message of a node that owns nothing.
pub(super) fn refuse(shelf: &Shelf, message: Message) {
    match message {
        Message::Open(partition, epoch, to) => refuse_open(partition, epoch, &to),
        Message::PutNotes(_, answer) => {
            // The caller may have given up.
            let _gone = answer.send(Written::All(Err("this server has not joined the cluster".to_owned())));
        }
        Message::Appends => shelf.refuse_orders(),
        _ => {}
    }
}

fn refuse_open(partition: PartitionId, epoch: Epoch, to: &Arc<Completions>) {
    let (partition, epoch) = (partition.0, epoch.0);
    to.put([Completion { partition, epoch, operation: Operation::Open, result: Err(LogError::NotOpen { partition }) }]);
}

impl Running<'_> {
    fn open(&mut self, partition: PartitionId, epoch: Epoch, to: Arc<Completions>) {
        match self.node.inspect().partitions.get(&partition) {
            Some(Phase::Loading(token)) if token.epoch == epoch => self.opens.push((partition, epoch, to)),
            Some(Phase::Serving(serving)) if serving.token.epoch == epoch => {
                // A partition is loaded once under each epoch.
                let result =
                    self.shared.shelf.end(partition, epoch).ok_or(LogError::NotOpen { partition: partition.0 });
                to.put([Completion { partition: partition.0, epoch: epoch.0, operation: Operation::Open, result }]);
            }
            _ => refuse_open(partition, epoch, &to),
        }
    }

    /// Completes the opens that waited for a load, or refuses those whose partition is lost.
    pub(super) fn settle_opens(&mut self) {
        for (partition, epoch, to) in std::mem::take(&mut self.opens) {
            self.open(partition, epoch, to);
        }
    }

    /// Takes the appends that wait. While a lane is busy the next ones wait for its call, and do not wake this thread.
    pub(super) fn take_appends(&mut self) {
        for at in 0..LANES {
            for order in self.shared.shelf.take_orders(at) {
                self.append(order);
            }
            if self.lanes[at].is_busy || !self.lanes[at].waiting.is_empty() {
                self.shared.shelf.attend(at);
            }
        }
    }

    fn append(&mut self, order: AppendOrder) {
        let partition = order.partition;
        match self.feeds.get_mut(&partition) {
            // An append of a coordinator that was loaded under another epoch does not know what came since.
            Some(feed) if feed.epoch == order.epoch => {
                feed.waiting.push_back(order);
                self.feed(partition);
            }
            _ => self.end_append(&order, order.bytes.len(), Err(fenced(&order))),
        }
    }

    /// Hands the node what fits into an entry.
    fn feed(&mut self, partition: PartitionId) {
        loop {
            let Some(feed) = self.feeds.get_mut(&partition) else { return };
            let Some(next) = feed.waiting.front() else { return };
            let bytes_max = next.bytes.len();
            if feed.node_bytes > 0 && feed.node_bytes + bytes_max > ENTRY_BYTES_MAX {
                return;
            }
            let Some(mut order) = feed.waiting.pop_front() else { return };
            let bytes = std::mem::take(&mut order.bytes);
            feed.node_bytes += bytes.len();
            let (ticket, nonce) = self.next_nonce();
            let count = order.count;
            self.in_flight.insert(ticket, InFlight { order, bytes: bytes.len(), since_ms: self.now_ms() });
            self.step(Event::Append { partition, ticket, nonce, count, bytes });
        }
    }

    fn end_append(&mut self, order: &AppendOrder, bytes: usize, result: Result<i64, LogError>) {
        self.shared.shelf.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.ended.push(order.completion(result));
    }

    /// Passes the results of the appends that have ended on, all at once: each time the thread may have to be woken.
    pub(super) fn tell_ended(&mut self) {
        let mut ended = self.ended.drain(..).peekable();
        while let Some((to, first)) = ended.next() {
            let more = iter::from_fn(|| Some(ended.next_if(|(next, _)| Arc::ptr_eq(next, &to))?.1));
            to.put(iter::once(first).chain(more));
        }
    }

    pub(super) fn applied(&mut self, partition: PartitionId, base_offset: i64, tickets: &[Ticket]) {
        let mut offset = base_offset;
        for ticket in tickets {
            let Some(InFlight { order, bytes, .. }) = self.in_flight.remove(ticket) else { continue };
            if let Some(feed) = self.feeds.get_mut(&partition).filter(|feed| feed.epoch == order.epoch) {
                feed.node_bytes -= bytes;
                feed.tail_bytes += bytes;
            }
            self.end_append(&order, bytes, Ok(offset));
            offset += order.count;
        }
        if let Some(feed) = self.feeds.get_mut(&partition) {
            feed.tail_entries += 1;
        }
        self.feed(partition);
    }

    pub(super) fn refused(&mut self, ticket: Ticket, refusal: Refusal) {
        let Some(InFlight { order, bytes, .. }) = self.in_flight.remove(&ticket) else { return };
        if let Some(feed) = self.feeds.get_mut(&order.partition).filter(|feed| feed.epoch == order.epoch) {
            feed.node_bytes -= bytes;
        }
        let error = match refusal {
            Refusal::Loading => LogError::NotOpen { partition: order.partition.0 },
            // Records of an uncertain outcome are in the log or not; the next owner's load shows it.
            Refusal::NotCoordinator | Refusal::Uncertain => fenced(&order),
        };
        self.end_append(&order, bytes, Err(error));
    }

    /// Gives partitions up whose appends have no outcome for too long: their clients get an answer, and the next load
    /// shows what came into the log.
    pub(super) fn time_out_appends(&mut self) {
        let now_ms = self.now_ms();
        let is_over = |append: &&InFlight| now_ms.saturating_sub(append.since_ms) > self.config.append_timeout_ms;
        let over: BTreeSet<PartitionId> =
            self.in_flight.values().filter(is_over).map(|append| append.order.partition).collect();
        for partition in over {
            self.step(Event::Release(partition));
        }
    }

    /// Refuses what waits for a partition that is lost.
    pub(super) fn drop_feed(&mut self, partition: PartitionId) {
        let Some(feed) = self.feeds.remove(&partition) else { return };
        for order in feed.waiting {
            self.end_append(&order, order.bytes.len(), Err(fenced(&order)));
        }
    }

    pub(super) fn queue_append(&mut self, call: CallId, mut request: Request) {
        let Body::Append(append) = &mut request.body else { return };
        // The same request gets the same bytes whenever it is sent again.
        batches::place(&mut append.bytes, append.base_offset, append.token.epoch.0);
        let lane = lane_of(append.partition);
        self.lanes[lane].waiting.push_back((call, request));
    }

    /// Sends what waits in lanes whose last call has ended.
    pub(super) fn flush_lanes(&mut self) {
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            if lane.is_busy || lane.waiting.is_empty() {
                continue;
            }
            lane.is_busy = true;
            let (calls, requests) = lane.next_call();
            let (engine, reports) = (Arc::clone(&self.engine), self.reports.clone());
            let shared = Rc::clone(&self.shared);
            tokio::task::spawn_local(async move {
                let began = Instant::now();
                let outcomes = engine.append_all(at, &requests).await;
                shared.count(|stats| stats.appended(began.elapsed(), &outcomes));
                pause_after(&outcomes, began).await;
                // The node may have ended.
                let _gone = reports.send(Report::LaneEnded(at, calls.into_iter().zip(outcomes).collect()));
            });
        }
    }
}

/// Waits before the next attempt if calls have failed. An engine that refuses connections fails them at once.
pub(super) async fn pause_after(outcomes: &[Outcome], began: Instant) {
    if outcomes.contains(&Outcome::SpaceExhausted) {
        tokio::time::sleep(PAUSE).await;
    } else if outcomes.contains(&Outcome::Unknown) {
        tokio::time::sleep_until(began + ATTEMPT_MIN).await;
    }
}

impl Lane {
    fn next_call(&mut self) -> (Vec<CallId>, Vec<Request>) {
        let (mut calls, mut requests, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((_, request)) = self.waiting.front() {
            bytes += if let Body::Append(append) = &request.body { append.bytes.len() } else { 0 };
            if !requests.is_empty() && (bytes > CALL_BYTES_MAX || requests.len() == CALL_APPENDS_MAX) {
                break;
            }
            let Some((call, request)) = self.waiting.pop_front() else { break };
            calls.push(call);
            requests.push(request);
        }
        (calls, requests)
    }
}

fn fenced(order: &AppendOrder) -> LogError {
    LogError::Fenced { current_epoch: order.epoch.0 + 1, epoch: order.epoch.0 }
}
