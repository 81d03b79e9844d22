//! Questions of this node's requests to coordinators of transactions and to leaders of partitions, which may be other
//! nodes: the request waits, and goes on on this node's thread.

use std::{collections::HashMap, fmt};

use rota_core::error::ErrorCode;
use rota_txn::{Answer, Marker, Request};

use super::{Node, queues::Told, transactions::Waiting};

/// Continues a request with the coordinator's answer.
pub type Continue = Box<dyn FnOnce(&mut Node, Answer)>;

/// Continues a request with the results of its markers, in their order.
pub type ContinueMarked = Box<dyn FnOnce(&mut Node, Vec<ErrorCode>)>;

/// Markers that are not all written yet.
struct Markers {
    missing: usize,
    results: Vec<ErrorCode>,
    then: ContinueMarked,
}

/// The questions of a node that are not answered yet.
#[derive(Default)]
pub struct Questions {
    asked: u64,
    answers: HashMap<u64, Continue>,
    markers: HashMap<u64, Markers>,
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Questions({} and {} of markers)", self.answers.len(), self.markers.len())
    }
}

impl Node {
    /// Asks the coordinator of a transactional id, on whatever node. `then` runs on this node's thread, before this
    /// returns or later.
    pub fn ask_transaction(&mut self, request: Request, then: Continue) {
        self.questions.asked += 1;
        let number = self.questions.asked;
        self.questions.answers.insert(number, then);
        let (shared, place) = (self.shared_state(), self.place_index());
        let partition = shared.transactions.partition_of(request.transactional_id());
        let done = Box::new({
            let shared = self.shared_state();
            move |answer| {
                shared.told.leave(place, Told::Answered(number, answer));
                shared.wakers[place].notify_one();
            }
        });
        if self.coordinates(request.transactional_id()) {
            self.request_transaction(partition, request, Waiting::Asker(done));
        } else {
            shared.transactions.ask(partition, request, done);
        }
        self.settle_transactions();
    }

    /// Has markers written by the leaders of their partitions (topic, partition, marker), on whatever nodes of this server.
    /// `then` runs on this node's thread after the last is durable or failed.
    pub fn ask_markers(&mut self, markers: Vec<(String, i32, Marker)>, then: ContinueMarked) {
        if markers.is_empty() {
            return then(self, Vec::new());
        }
        self.questions.asked += 1;
        let number = self.questions.asked;
        let results = vec![ErrorCode::None; markers.len()];
        self.questions.markers.insert(number, Markers { missing: markers.len(), results, then });
        let place = self.place_index();
        for (at, (topic, partition, marker)) in markers.into_iter().enumerate() {
            let shared = self.shared_state();
            let done = move |result| {
                shared.told.leave(place, Told::Marked(number, at, result));
                shared.wakers[place].notify_one();
            };
            let shared = self.shared_state();
            // As in Kafka, a server passes no request on to another one.
            if shared.marker_leader(&topic, partition).is_some_and(|leader| shared.is_elsewhere(leader)) {
                done(Err(ErrorCode::UnknownTopicOrPartition));
                continue;
            }
            if marker.producer_epoch < 0 {
                done(Err(ErrorCode::UnknownServerError));
                continue;
            }
            shared.write_marker(&topic, partition, None, marker, Box::new(done));
        }
        self.write_markers();
        self.settle_transactions();
    }

    /// Continues the requests whose questions were answered. Returns whether there were any.
    pub(super) fn take_told(&mut self) -> bool {
        let told = self.shared_state().told.take(self.place_index());
        let is_any = !told.is_empty();
        for told in told {
            match told {
                Told::Answered(number, answer) => {
                    if let Some(then) = self.questions.answers.remove(&number) {
                        then(self, answer);
                    }
                }
                Told::Marked(number, at, result) => self.marked(number, at, result),
                Told::Admitted(number, codes) => self.admitted(number, codes),
            }
        }
        is_any
    }

    fn marked(&mut self, number: u64, at: usize, result: Result<(), ErrorCode>) {
        let Some(markers) = self.questions.markers.get_mut(&number) else { return };
        markers.results[at] = result.err().unwrap_or(ErrorCode::None);
        markers.missing -= 1;
        if markers.missing == 0
            && let Some(Markers { results, then, .. }) = self.questions.markers.remove(&number)
        {
            then(self, results);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc, sync::Arc};

    use rota_txn::Producer;

    use super::*;
    use crate::{base::owners::FIRST_NODE, node::shared_state::tests::on_disk};

    #[test]
    fn a_request_that_asks_goes_on_when_the_node_ends() {
        let dir = tempfile::tempdir().unwrap();
        let shared = Arc::new(on_disk(dir.path()).serving_transactions(2).unwrap());
        let mut node = Node::new(&shared, FIRST_NODE);
        let request = Request::InitProducerId {
            transactional_id: "pay".to_owned(),
            timeout_ms: 60_000,
            own: Producer { id: -1, epoch: -1 },
            spare_producer_id: 7,
        };
        let goes_on = Rc::new(Cell::new(false));
        let told = Rc::clone(&goes_on);
        // Its record is on the way to the disk.
        node.ask_transaction(request, Box::new(move |_, _| told.set(true)));
        node.unload();
        assert!(goes_on.get());
    }
}
