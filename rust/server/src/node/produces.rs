//! Produce requests that wait for the disk.

use super::Node;
use crate::{client::reply::ReplyTo, topics::ProduceOutcome};

/// A Produce that waits until all of its batches are durable, or failed.
#[derive(Debug)]
pub struct ProduceWait {
    reply_to: ReplyTo,
    outcome: ProduceOutcome,
}

impl Node {
    /// The answer of a Produce is sent when everything that it waits for is durable, or failed.
    pub fn answer_when_durable(&mut self, reply_to: ReplyTo, outcome: ProduceOutcome) {
        reply_to.client.park();
        self.produces.push(ProduceWait { reply_to, outcome });
    }

    /// Answers the requests all of whose batches are durable by now, or failed.
    pub(super) fn finish_produces(&mut self) {
        for (token, result) in self.topics.produced() {
            self.produces.iter_mut().for_each(|wait| wait.outcome.ended(token, &result));
        }
        for wait in self.produces.extract_if(.., |wait| wait.outcome.waiting.is_empty()) {
            let _unanswered = wait.reply_to.encode(&wait.outcome.response);
        }
    }
}
