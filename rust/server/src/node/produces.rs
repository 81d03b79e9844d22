//! Produce requests that wait for the disk.

use std::{collections::HashMap, rc::Rc, sync::mpsc::SyncSender};

use kafka_protocol::messages::ProduceResponse;
use rota_log::LogError;

use super::Node;
use crate::{
    client::{Client, Ending, reply_to::ReplyTo},
    topics::{AppendToken, ProduceOutcome},
};

/// A Produce that waits until all its batches are durable or failed.
#[derive(Debug)]
pub struct ProduceWait {
    reply_to: Reply,
    outcome: ProduceOutcome,
}

/// The Produce requests of a node that wait.
#[derive(Debug, Default)]
pub struct Produces {
    began: u64,
    waiting: HashMap<u64, ProduceWait>,
    /// The request of each batch. A search would take as long as requests wait, for each batch.
    by_token: HashMap<AppendToken, u64>,
}

impl Produces {
    /// Adds a request with batches in flight.
    fn add(&mut self, wait: ProduceWait) {
        let number = self.began;
        self.began += 1;
        self.by_token.extend(wait.outcome.waiting.keys().map(|token| (*token, number)));
        self.waiting.insert(number, wait);
    }

    /// Handles the completion of a batch. Returns its request if that was its last one.
    fn ended(&mut self, token: AppendToken, result: &Result<i64, LogError>) -> Option<ProduceWait> {
        let number = self.by_token.remove(&token)?;
        let wait = self.waiting.get_mut(&number)?;
        wait.outcome.ended(token, result);
        if wait.outcome.waiting.is_empty() { self.waiting.remove(&number) } else { None }
    }
}

/// The destination of a Produce answer.
#[derive(Debug)]
enum Reply {
    Client(ReplyTo),
    /// With acks 0 a client gets no answer: its next request is handled, or an error closes the connection.
    Nothing(Rc<Client>),
    /// Another thread of this process.
    Caller(SyncSender<ProduceResponse>),
}

impl ProduceWait {
    fn answer(self) {
        match self.reply_to {
            Reply::Client(reply_to) => reply_to.encode_or_close(&self.outcome.response),
            Reply::Nothing(client) => {
                if self.outcome.has_error {
                    client.end(Ending::Now);
                }
                client.answered();
            }
            // The caller may have timed out.
            Reply::Caller(caller) => drop(caller.send(self.outcome.response)),
        }
    }
}

impl Node {
    /// Answers a Produce when all its batches are durable or failed.
    pub fn answer_when_durable(&mut self, reply_to: ReplyTo, outcome: ProduceOutcome) {
        reply_to.client.park();
        self.produces.add(ProduceWait { reply_to: Reply::Client(reply_to), outcome });
    }

    /// Handles the client's next request when all batches are durable. An error closes the connection.
    pub fn go_on_when_durable(&mut self, client: &Rc<Client>, outcome: ProduceOutcome) {
        client.park();
        self.produces.add(ProduceWait { reply_to: Reply::Nothing(Rc::clone(client)), outcome });
    }

    /// Like `answer_when_durable` for a caller in this process; answers at once if nothing is in flight.
    pub fn tell_when_durable(&mut self, caller: SyncSender<ProduceResponse>, outcome: ProduceOutcome) {
        let wait = ProduceWait { reply_to: Reply::Caller(caller), outcome };
        if wait.outcome.waiting.is_empty() { wait.answer() } else { self.produces.add(wait) }
    }

    /// Whether a Produce waits for the disk.
    pub fn has_produces(&self) -> bool {
        !self.produces.waiting.is_empty()
    }

    /// Answers the requests whose batches are all durable or failed.
    pub(super) fn finish_produces(&mut self) {
        let mut finished = Vec::new();
        for (token, result) in self.topics.produced() {
            finished.extend(self.produces.ended(token, &result));
            self.marker_ended(token, &result);
        }
        finished.into_iter().for_each(ProduceWait::answer);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::mpsc};

    use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};

    use super::*;

    fn a_wait(tokens: &[u64]) -> ProduceWait {
        let partition = PartitionProduceResponse::default();
        let topic = TopicProduceResponse::default().with_partition_responses(vec![partition; tokens.len()]);
        let response = ProduceResponse::default().with_responses(vec![topic]);
        let places = tokens.iter().enumerate().map(|(at, token)| (AppendToken::of(*token), (0, at)));
        let waiting: BTreeMap<_, _> = places.collect();
        let outcome = ProduceOutcome { response, has_error: false, waiting };
        ProduceWait { reply_to: Reply::Caller(mpsc::sync_channel(1).0), outcome }
    }

    #[test]
    fn a_batch_ends_only_the_request_that_it_belongs_to() {
        let mut produces = Produces::default();
        produces.add(a_wait(&[1, 4]));
        produces.add(a_wait(&[2]));
        let mut offsets = |token: u64| {
            let ended = produces.ended(AppendToken::of(token), &Ok(token as i64 * 10))?;
            let answers = &ended.outcome.response.responses[0].partition_responses;
            Some(answers.iter().map(|answer| answer.base_offset).collect::<Vec<_>>())
        };
        assert_eq!([3, 1, 1].map(&mut offsets), [None, None, None]);
        assert_eq!([2, 4].map(&mut offsets), [Some(vec![20]), Some(vec![10, 40])]);
        assert_eq!((produces.waiting.len(), produces.by_token.len()), (0, 0));
    }
}
