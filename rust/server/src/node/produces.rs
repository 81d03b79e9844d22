//! Produce requests that wait for the disk.

use std::sync::mpsc::SyncSender;

use kafka_protocol::messages::ProduceResponse;

use super::Node;
use crate::{client::reply_to::ReplyTo, topics::ProduceOutcome};

/// A Produce that waits until all of its batches are durable, or failed.
#[derive(Debug)]
pub struct ProduceWait {
    reply_to: Reply,
    outcome: ProduceOutcome,
}

/// Where the answer of a Produce goes.
#[derive(Debug)]
enum Reply {
    Client(ReplyTo),
    /// Another thread of this process.
    Caller(SyncSender<ProduceResponse>),
}

impl ProduceWait {
    fn answer(self) {
        match self.reply_to {
            Reply::Client(reply_to) => {
                let _unanswered = reply_to.encode(&self.outcome.response);
            }
            // The caller may have given up.
            Reply::Caller(caller) => drop(caller.send(self.outcome.response)),
        }
    }
}

impl Node {
    /// The answer of a Produce is sent when everything that it waits for is durable, or failed.
    pub fn answer_when_durable(&mut self, reply_to: ReplyTo, outcome: ProduceOutcome) {
        reply_to.client.park();
        self.produces.push(ProduceWait { reply_to: Reply::Client(reply_to), outcome });
    }

    /// The same for a caller in this process, who is answered at once if there is nothing to wait for.
    pub fn tell_when_durable(&mut self, caller: SyncSender<ProduceResponse>, outcome: ProduceOutcome) {
        let wait = ProduceWait { reply_to: Reply::Caller(caller), outcome };
        if wait.outcome.waiting.is_empty() { wait.answer() } else { self.produces.push(wait) }
    }

    /// Answers the requests all of whose batches are durable by now, or failed.
    pub(super) fn finish_produces(&mut self) {
        for (token, result) in self.topics.produced() {
            self.produces.iter_mut().for_each(|wait| wait.outcome.ended(token, &result));
        }
        self.produces.extract_if(.., |wait| wait.outcome.waiting.is_empty()).for_each(ProduceWait::answer);
    }
}
