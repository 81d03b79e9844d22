//! The transactions of a server, and faults of them for tests.

use std::{collections::BTreeMap, sync::mpsc::sync_channel};

use rota_txn::{Answer, Error, Producer, Request, State, Transaction, coordinator::Filter};

use super::Server;
use crate::{
    base::{error::ServerError, names::Hint},
    node::Node,
};

/// How many transactional ids there are, and how old their transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionTotals {
    /// Ids by state.
    pub by_state: BTreeMap<State, u64>,
    /// Age of the oldest transaction whose end is not in every participant, in milliseconds; 0 without one.
    pub oldest_open_ms: i64,
}

impl Server {
    /// Returns all transactional ids with their transactions, by id.
    pub fn transactions(&self) -> Result<BTreeMap<String, Transaction>, ServerError> {
        let of_nodes = self.ask_all(|node: &mut Node| {
            let mut found = Vec::new();
            visit_all(node, |id, transaction| found.push((id.to_owned(), transaction.clone())));
            found
        })?;
        Ok(of_nodes.into_iter().flatten().collect())
    }

    /// Counts the transactional ids.
    pub fn transaction_totals(&self) -> Result<TransactionTotals, ServerError> {
        let of_nodes = self.ask_all(|node: &mut Node| {
            let (now_ms, mut of_node) = (node.clock().now().wall_ms, TransactionTotals::default());
            visit_all(node, |_, Transaction { state, start_ms, .. }| {
                *of_node.by_state.entry(*state).or_default() += 1;
                if state.is_open() {
                    of_node.oldest_open_ms = of_node.oldest_open_ms.max(now_ms - start_ms);
                }
            });
            of_node
        })?;
        let mut totals = TransactionTotals::default();
        for of_node in of_nodes {
            for (state, count) in of_node.by_state {
                *totals.by_state.entry(state).or_default() += count;
            }
            totals.oldest_open_ms = totals.oldest_open_ms.max(of_node.oldest_open_ms);
        }
        Ok(totals)
    }

    /// Aborts the open transaction of an id, as a producer that begins does. Returns when that is decided; its markers
    /// may be written later. Errors: `UnknownTransaction`, `TransactionNotOpen`.
    pub fn abort_transaction(&self, transactional_id: &str) -> Result<(), ServerError> {
        let Transaction { state, timeout_ms, .. } = self.transaction(transactional_id)?;
        if state != State::Ongoing {
            let (transactional_id, state) = (transactional_id.to_owned(), state.name());
            return Err(ServerError::TransactionNotOpen { transactional_id, state });
        }
        self.begin_producer(transactional_id, timeout_ms).map(drop)
    }

    /// Fences the producer of an id, as another producer with its id does. `false`: a transaction is still being ended;
    /// try again. Errors: `UnknownTransaction`.
    pub fn fence_producer(&self, transactional_id: &str) -> Result<bool, ServerError> {
        let timeout_ms = self.transaction(transactional_id)?.timeout_ms;
        let answer = self.begin_producer(transactional_id, timeout_ms)?;
        Ok(answer != Answer::Refused(Error::Concurrent))
    }

    /// Keeps markers of transactions from their partitions, from now on.
    pub fn hold_markers(&self) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.hold_markers();
        Ok(())
    }

    /// Writes the markers that were held, and holds no more. Returns their number.
    pub fn release_markers(&self) -> Result<usize, ServerError> {
        self.check_running()?;
        Ok(self.shared.release_markers())
    }

    /// Returns the transaction of an id.
    fn transaction(&self, transactional_id: &str) -> Result<Transaction, ServerError> {
        let mut known = self.transactions()?;
        known.remove(transactional_id).ok_or_else(|| {
            let hint = Hint::new(transactional_id, known.keys().map(String::as_str));
            ServerError::UnknownTransaction { transactional_id: transactional_id.to_owned(), hint }
        })
    }

    /// Begins a producer of an id, and waits for the coordinator's answer.
    fn begin_producer(&self, transactional_id: &str, timeout_ms: i32) -> Result<Answer, ServerError> {
        let (sender, answer) = sync_channel(1);
        let transactional_id = transactional_id.to_owned();
        self.ask(0, move |node| {
            // Without one the caller sees that the server does not answer.
            let Some(spare_producer_id) = node.topics().new_producer_id() else { return };
            let own = Producer { id: -1, epoch: -1 };
            let begun = Request::InitProducerId { transactional_id, timeout_ms, own, spare_producer_id };
            let report = move |_: &mut Node, answer| {
                // The caller waits for it, unless the server stops.
                let _stopped = sender.send(answer);
            };
            node.ask_transaction(begun, Box::new(report));
        })?;
        self.answered(&answer)
    }
}

fn visit_all(node: &Node, visit: impl FnMut(&str, &Transaction)) {
    // A node of a server that stops has none.
    let _unloaded = node.list_transactions(&Filter::default(), visit);
}
