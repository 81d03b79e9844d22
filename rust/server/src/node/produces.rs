//! Produce requests that wait for the disk.

use std::{rc::Rc, sync::mpsc::SyncSender};

use kafka_protocol::messages::ProduceResponse;

use super::Node;
use crate::{
    client::{Client, Ending, reply_to::ReplyTo},
    topics::ProduceOutcome,
};

/// A Produce that waits until all its batches are durable or failed.
#[derive(Debug)]
pub struct ProduceWait {
    reply_to: Reply,
    outcome: ProduceOutcome,
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
        self.produces.push(ProduceWait { reply_to: Reply::Client(reply_to), outcome });
    }

    /// Handles the client's next request when all batches are durable. An error closes the connection.
    pub fn go_on_when_durable(&mut self, client: &Rc<Client>, outcome: ProduceOutcome) {
        client.park();
        self.produces.push(ProduceWait { reply_to: Reply::Nothing(Rc::clone(client)), outcome });
    }

    /// Like `answer_when_durable` for a caller in this process; answers at once if nothing is in flight.
    pub fn tell_when_durable(&mut self, caller: SyncSender<ProduceResponse>, outcome: ProduceOutcome) {
        let wait = ProduceWait { reply_to: Reply::Caller(caller), outcome };
        if wait.outcome.waiting.is_empty() { wait.answer() } else { self.produces.push(wait) }
    }

    /// Whether a Produce waits for the disk.
    pub fn has_produces(&self) -> bool {
        !self.produces.is_empty()
    }

    /// Answers the requests whose batches are all durable or failed.
    pub(super) fn finish_produces(&mut self) {
        for (token, result) in self.topics.produced() {
            self.produces.iter_mut().for_each(|wait| wait.outcome.ended(token, &result));
            self.marker_ended(token, &result);
        }
        self.produces.extract_if(.., |wait| wait.outcome.waiting.is_empty()).for_each(ProduceWait::answer);
    }
}
