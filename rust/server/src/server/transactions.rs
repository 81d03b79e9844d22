//! The transactions of a server, and faults of them for tests.

use std::sync::mpsc::sync_channel;

use rota_txn::{Answer, Error, Producer, Request, State, Transaction, coordinator::Filter};

use super::Server;
use crate::{
    base::{error::ServerError, names::Hint},
    node::Node,
};

impl Server {
    /// Returns all transactional ids with their transactions, by id, and the wall time in milliseconds.
    pub fn transactions(&self) -> Result<(Vec<(String, Transaction)>, i64), ServerError> {
        let of_nodes = self.ask_all(|node: &mut Node| {
            let mut found = Vec::new();
            // A node of a server that stops has none.
            let _unloaded = node.list_transactions(&Filter::default(), |id, transaction| {
                found.push((id.to_owned(), transaction.clone()));
            });
            (found, node.clock().now().wall_ms)
        })?;
        let now_ms = of_nodes.iter().map(|(_, now_ms)| *now_ms).max().unwrap_or(0);
        let mut found: Vec<(String, Transaction)> = of_nodes.into_iter().flat_map(|(found, _)| found).collect();
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok((found, now_ms))
    }

    /// Aborts the open transaction of an id, as a producer that begins does. Returns when that is decided; its markers
    /// may be written later. Errors: `UnknownTransaction`, `TransactionNotOpen`.
    pub fn abort_transaction(&self, transactional_id: &str) -> Result<(), ServerError> {
        let (state, timeout_ms) = self.described(transactional_id)?;
        if state != State::Ongoing {
            let (transactional_id, state) = (transactional_id.to_owned(), state.name());
            return Err(ServerError::TransactionNotOpen { transactional_id, state });
        }
        self.begin_producer(transactional_id, timeout_ms).map(drop)
    }

    /// Fences the producer of an id, as another producer with its id does. `false`: a transaction is still being ended;
    /// try again. Errors: `UnknownTransaction`.
    pub fn fence_producer(&self, transactional_id: &str) -> Result<bool, ServerError> {
        let (_, timeout_ms) = self.described(transactional_id)?;
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

    /// Returns state and timeout of an id.
    fn described(&self, transactional_id: &str) -> Result<(State, i32), ServerError> {
        self.check_running()?;
        if let Some(found) = self.shared.describe_transaction(transactional_id) {
            return Ok((found.state, found.timeout_ms));
        }
        let (known, _) = self.transactions()?;
        let hint = Hint::new(transactional_id, known.iter().map(|(id, _)| id.as_str()));
        Err(ServerError::UnknownTransaction { transactional_id: transactional_id.to_owned(), hint })
    }

    /// Begins a producer of an id, and waits for the coordinator's answer.
    fn begin_producer(&self, transactional_id: &str, timeout_ms: i32) -> Result<Answer, ServerError> {
        let (sender, answer) = sync_channel(1);
        let transactional_id = transactional_id.to_owned();
        self.ask(0, move |node| {
            let spare_producer_id = node.topics().new_producer_id();
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
