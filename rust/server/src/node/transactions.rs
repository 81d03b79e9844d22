//! The transactions that a node coordinates: requests that wait, records and markers that are on their way.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rota_core::{error::ErrorCode, request::Now};
use rota_log::{Completion, Completions, LogError, LogRecord, Operation};
use rota_txn::{
    AppendFailure, AppendId, Effect, Event, Marking, Request, Ticket, Transaction,
    coordinator::{Description, Filter},
};
use tokio::sync::Notify;

use super::{
    Node, shared_state::SharedState, transaction_partitions::LoadingTransactions, transaction_replies::TransactionReply,
};
use crate::{
    base::owners::Owner,
    transactions::{AnswerTo, Mail, Transactions},
};

/// A wall clock that is slewed loses less between two looks.
const SET_BACK_MS: i64 = 50;

/// What waits for a coordinator's answer.
pub enum Waiting {
    /// A client.
    Client(TransactionReply),
    /// A request of this node or of another one, that goes on with the answer.
    Asker(AnswerTo),
}

/// A node's part of the coordinators of transactions.
pub struct NodeTransactions {
    pub(super) completions: Arc<Completions>,
    /// Requests that wait for their answers, by partition and ticket.
    waiting: HashMap<(u32, Ticket), Waiting>,
    next_ticket: u64,
    /// Operations of the log whose completions are still to come.
    expected: usize,
    /// When something is due in each partition, in wall milliseconds.
    pub(super) deadlines: Vec<Option<i64>>,
    /// Partitions that are being loaded from the engine of a cluster.
    pub(super) loading: BTreeMap<u32, LoadingTransactions>,
    /// Wall time minus monotonic time, in milliseconds; `None` before the first look.
    wall_ahead_ms: Option<i64>,
}

impl NodeTransactions {
    /// Creates the part of the node that waits on `waker`.
    pub fn new(partitions: u32, waker: Arc<Notify>) -> NodeTransactions {
        NodeTransactions {
            completions: Completions::new(move || waker.notify_one()),
            waiting: HashMap::new(),
            next_ticket: 0,
            expected: 0,
            deadlines: vec![None; partitions as usize],
            loading: BTreeMap::new(),
            wall_ahead_ms: None,
        }
    }

    /// Whether the wall clock was set back since the last call, by more than two reads differ.
    fn is_set_back(&mut self, now: Now) -> bool {
        let ahead_ms = now.wall_ms.saturating_sub_unsigned(now.mono_ms);
        self.wall_ahead_ms.replace(ahead_ms).is_some_and(|before_ms| ahead_ms < before_ms - SET_BACK_MS)
    }

    /// One more completion will come.
    pub(super) fn expect(&mut self) {
        self.expected += 1;
        self.completions.attend();
    }

    fn take_completed(&mut self) -> Vec<Completion> {
        let mut taken = Vec::new();
        if self.expected > 0 {
            self.completions.take_into(&mut taken);
            self.expected -= taken.len();
        }
        taken
    }
}

impl Node {
    /// Serves the node's partitions of `__transaction_state`, unless the engine of a cluster says which. Decided
    /// transactions are finished.
    pub fn begin_transactions(&mut self) {
        if !self.serves_transactions() || self.cluster().is_some() {
            return;
        }
        for partition in self.own_transaction_partitions() {
            self.begin_transactions_of(partition);
        }
        self.settle_transactions();
    }

    /// Serves a partition that is loaded.
    pub(super) fn begin_transactions_of(&mut self, partition: u32) {
        let mut effects = Vec::new();
        let now_ms = self.clock.now().wall_ms;
        let deadline_ms = self.shared.transactions.begin(partition, now_ms, &mut effects);
        self.transactions.deadlines[partition as usize] = deadline_ms;
        self.carry_out(partition, effects);
        self.arm_earlier(self.next_transaction_deadline());
    }

    /// Submits a request to the coordinator of its transactional id. The answer comes before this returns, or later.
    pub fn submit_transaction(&mut self, request: Request, reply: TransactionReply) {
        let shared = Arc::clone(&self.shared);
        if let Err(error) = shared.transactions.config().check(&request) {
            return reply.refuse(error);
        }
        if !self.coordinates(request.transactional_id()) {
            return reply.refuse(rota_txn::Error::NotCoordinator);
        }
        let partition = shared.transactions.partition_of(request.transactional_id());
        self.request_transaction(partition, request, Waiting::Client(reply));
        self.settle_transactions();
    }

    /// Passes a request to a coordinator of this node.
    pub(super) fn request_transaction(&mut self, partition: u32, request: Request, waiting: Waiting) {
        self.transactions.next_ticket += 1;
        let ticket = Ticket(self.transactions.next_ticket);
        self.transactions.waiting.insert((partition, ticket), waiting);
        self.step_transaction(partition, Event::Requested(ticket, request));
    }

    /// Passes an event on, unless it belongs to an ownership that has ended.
    fn step_ownership(&mut self, partition: u32, epoch: i32, event: Event) {
        if self.shared.transactions.epoch(partition) == epoch {
            self.step_transaction(partition, event);
        }
    }

    fn step_transaction(&mut self, partition: u32, event: Event) {
        let now_ms = self.clock.now().wall_ms;
        let mut effects = Vec::new();
        let deadline_ms = self.shared.transactions.step(partition, now_ms, event, &mut effects);
        self.transactions.deadlines[partition as usize] = deadline_ms;
        self.carry_out(partition, effects);
    }

    fn carry_out(&mut self, partition: u32, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(ticket, answer) => match self.transactions.waiting.remove(&(partition, ticket)) {
                    Some(Waiting::Client(reply)) => reply.answer(answer),
                    Some(Waiting::Asker(done)) => done(answer),
                    None => {}
                },
                Effect::Append { id, key, value } => self.append_state(partition, id, LogRecord { key, value }),
                Effect::SendMarker { id, transactional_id, participant, marker } => {
                    let (shared, of) = (Arc::clone(&self.shared), Some(Arc::clone(&transactional_id)));
                    let epoch = shared.transactions.epoch(partition);
                    let topic = participant.topic.clone();
                    let report = move |result| {
                        let result = shared.marking(partition, epoch, &topic, result);
                        let marked = Event::Marked { transactional_id, marker: id, result };
                        shared.transactions.post(partition, epoch, marked);
                    };
                    self.shared.write_marker(&participant.topic, participant.partition, of, marker, Box::new(report));
                }
                Effect::GiveUp => self.give_up_transactions(partition),
            }
        }
    }

    fn append_state(&mut self, partition: u32, id: AppendId, record: LogRecord) {
        let now_ms = self.clock.now().wall_ms;
        let shared = Arc::clone(&self.shared);
        let epoch = shared.transactions.epoch(partition);
        self.transactions.expect();
        let to = &self.transactions.completions;
        if !shared.transactions.log().append(partition, epoch, id, now_ms, record, to) {
            self.transactions.expected -= 1;
            self.step_transaction(partition, Event::Appended(id, Ok(())));
        }
    }

    /// Passes completed appends and written markers to the coordinators until there are none.
    pub fn settle_transactions(&mut self) {
        if !self.serves_transactions() {
            return;
        }
        let at = self.shared.place_of(self.id());
        loop {
            let completed = self.transactions.take_completed();
            let mail = self.shared.transactions.take_mail(at);
            if completed.is_empty() && mail.is_empty() && !self.take_told() {
                break;
            }
            for completion in completed {
                let partition = self.shared.transactions.log().partition_of(&completion);
                let Completion { epoch, operation, result, .. } = completion;
                match operation {
                    Operation::Open => self.transactions_opened(partition, epoch, result),
                    Operation::Append(id) => {
                        let result = result.map(drop).map_err(|error| match error {
                            LogError::Fenced { .. } => AppendFailure::Fenced,
                            _ => AppendFailure::Failed,
                        });
                        self.step_ownership(partition, epoch, Event::Appended(AppendId(id), result));
                    }
                }
            }
            for mail in mail {
                match mail {
                    Mail::Happened(partition, epoch, event) => self.step_ownership(partition, epoch, event),
                    Mail::Asked(partition, request, done) => {
                        self.request_transaction(partition, request, Waiting::Asker(done));
                    }
                }
            }
        }
        self.arm_earlier(self.next_transaction_deadline());
    }

    /// Returns when something is due in a transaction, in monotonic milliseconds.
    pub(super) fn next_transaction_deadline(&self) -> Option<u64> {
        let due_ms = self.transactions.deadlines.iter().flatten().min()?;
        let now = self.clock.now();
        Some(now.mono_ms.saturating_add(u64::try_from(due_ms.saturating_sub(now.wall_ms)).unwrap_or(0)))
    }

    /// Does what is due in transactions.
    pub(super) fn advance_transactions(&mut self) {
        let now = self.clock.now();
        // The timer that leads here is monotonic, so it does not wait until the wall clock has made up for that.
        let is_set_back = self.transactions.is_set_back(now);
        let deadlines = self.transactions.deadlines.iter().enumerate();
        let due = deadlines.filter(|(_, due_ms)| due_ms.is_some_and(|due_ms| is_set_back || due_ms <= now.wall_ms));
        let due: Vec<u32> = due.map(|(partition, _)| partition as u32).collect();
        for partition in due {
            self.step_transaction(partition, if is_set_back { Event::SetBack } else { Event::Advanced });
        }
        self.settle_transactions();
    }

    /// Whether the server serves transactions.
    pub fn serves_transactions(&self) -> bool {
        self.shared.serves_transactions()
    }

    /// Returns the coordinators of transactions of all nodes.
    pub fn all_transactions(&self) -> Arc<Transactions> {
        Arc::clone(&self.shared.transactions)
    }

    /// Describes a transactional id that this node coordinates.
    pub fn describe_transaction(&self, transactional_id: &str) -> Result<Description, rota_txn::Error> {
        if transactional_id.is_empty() {
            return Err(rota_txn::Error::InvalidRequest);
        }
        if !self.coordinates(transactional_id) {
            return Err(rota_txn::Error::NotCoordinator);
        }
        self.shared.transactions.describe(transactional_id)
    }

    /// Visits the transactional ids that this node coordinates and the filter passes.
    pub fn list_transactions(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(&str, &Transaction),
    ) -> Result<(), rota_txn::Error> {
        let now_ms = self.clock.now().wall_ms;
        self.own_transaction_partitions()
            .try_for_each(|partition| self.shared.transactions.list(partition, filter, now_ms, &mut visit))
    }

    /// Returns the id of the node that coordinates a transactional id.
    pub fn transaction_owner(&self, transactional_id: &str) -> i32 {
        let partition = self.shared.transactions.partition_of(transactional_id);
        self.shared.transactions.owners().of(partition).map_or(self.id(), |owner| owner.node_id)
    }

    /// Whether this node coordinates a transactional id.
    pub fn coordinates(&self, transactional_id: &str) -> bool {
        self.owns_transactions(self.shared.transactions.partition_of(transactional_id))
    }

    fn owns_transactions(&self, partition: u32) -> bool {
        let transactions = &self.shared.transactions;
        // What this node owns in a cluster, the view may show later.
        if self.shared.cluster.is_some() {
            return transactions.is_owned(partition);
        }
        transactions.owners().of(partition).is_some_and(|owner| owner.node_id == self.id())
    }

    pub(super) fn own_transaction_partitions(&self) -> impl Iterator<Item = u32> + use<> {
        let all = 0..self.shared.transactions.partitions();
        all.filter(|partition| self.owns_transactions(*partition)).collect::<Vec<_>>().into_iter()
    }

    /// Answers the requests that wait, when the server stops.
    pub(super) fn unload_transactions(&mut self) {
        for partition in self.own_transaction_partitions() {
            self.unload_transactions_of(partition);
        }
    }

    pub(super) fn unload_transactions_of(&mut self, partition: u32) {
        let mut effects = Vec::new();
        self.shared.transactions.unload(partition, &mut effects);
        self.carry_out(partition, effects);
    }
}

impl SharedState {
    /// Returns what the coordinator of a partition, in its ownership of this epoch, makes of the result of a participant of
    /// this topic (docs/transactions.md §5).
    fn marking(&self, partition: u32, epoch: i32, topic: &str, result: Result<(), ErrorCode>) -> Marking {
        match result {
            Ok(()) => Marking::Written,
            Err(ErrorCode::UnknownTopicOrPartition) if !self.is_gone(partition, epoch, topic) => Marking::Failed,
            // With a newer epoch the participant accepts no data of this transaction any more.
            Err(ErrorCode::UnknownTopicOrPartition | ErrorCode::InvalidProducerEpoch) => Marking::Gone,
            // Without a cluster no other coordinator can have sent that epoch: a marker of the wire had it.
            Err(ErrorCode::TransactionCoordinatorFenced) if self.topics.shared().is_some() => Marking::Fenced,
            Err(_) => Marking::Failed,
        }
    }

    /// Whether a participant that is not in the table of topics does not exist any more. In a cluster the table may be old,
    /// or lack a topic whose note cannot be read. It is not old once the view shows this ownership: every participant
    /// that an earlier owner added is older, and this one adds none that it does not know.
    fn is_gone(&self, partition: u32, epoch: i32, topic: &str) -> bool {
        let shown = Owner { node_id: self.place.node_id, epoch: epoch.cast_unsigned() };
        let is_shown = || self.transactions.owners().of(partition) == Some(shown);
        self.topics.shared().is_none_or(|topics| is_shown() && topics.is_sure_of(topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_back_is_noticed_once() {
        let mut transactions = NodeTransactions::new(1, Arc::default());
        let mut look = |mono_ms, wall_ms| transactions.is_set_back(Now { mono_ms, wall_ms });
        assert!(!look(100, 5_000_100));
        assert!(!look(200, 5_000_199), "two reads");
        assert!(!look(300, 9_000_000), "it was set forward");
        assert!(look(60_000, 6_000_000), "although it is later than at the first look");
        assert!(!look(60_100, 6_000_100));
    }
}
