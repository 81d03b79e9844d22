//! Calls: sending a request, and what its end means. A request of a partition whose outcome is unknown is sent again,
//! unchanged, until the engine answers (§2.3).

use super::{
    Command, Lost, Node, Stop,
    state::{Call, Phase, Purpose, Step},
};
use crate::{
    ids::{CallId, PartitionId},
    requests::{Answer, Body, Content, Outcome, Request},
};

impl Node {
    pub(super) fn send(&mut self, purpose: Purpose, body: Body, commands: &mut Vec<Command>) {
        let request = Request { history: self.state.history, body };
        self.send_call(Call { purpose, floor: self.state.known, request }, commands);
    }

    fn send_call(&mut self, call: Call, commands: &mut Vec<Command>) {
        let call_id = CallId(self.state.next_call);
        self.state.next_call += 1;
        commands.push(Command::Send(call_id, call.request.clone()));
        self.state.calls.insert(call_id, call);
    }

    /// Whether the step has a call under way.
    pub(super) fn is_calling(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        self.state.calls.values().any(|call| purpose(&call.purpose))
    }

    /// No step waits for the partition's calls any more. They may take effect all the same.
    pub(super) fn abandon(&mut self, partition: PartitionId) {
        self.state.calls.retain(|_, call| !matches!(call.purpose, Purpose::Of(other, _) if other == partition));
    }

    pub(super) fn ended(&mut self, now_ms: u64, call_id: CallId, outcome: Outcome, commands: &mut Vec<Command>) {
        let Some(call) = self.state.calls.remove(&call_id) else { return };
        match outcome {
            Outcome::Answered(answer) => self.answered(now_ms, &call, answer, commands),
            // An engine that has no space may have carried the request out before it said so.
            Outcome::Unknown | Outcome::SpaceExhausted => self.again(call, commands),
        }
    }

    fn again(&mut self, call: Call, commands: &mut Vec<Command>) {
        // The next beat says more than this one.
        if let Purpose::Of(..) = call.purpose {
            self.send_call(call, commands);
        }
    }

    fn answered(&mut self, now_ms: u64, call: &Call, answer: Answer, commands: &mut Vec<Command>) {
        if let Content::OtherHistory(meta) = answer.content {
            return self.stop(Stop::OtherHistory(meta.history), commands);
        }
        if answer.revision < call.floor {
            let lost = Lost::Revision { known: call.floor, answered: answer.revision };
            return self.went_back(lost, commands);
        }
        self.state.known = self.state.known.max(answer.revision);
        match (call.purpose, &call.request.body, answer.content) {
            (Purpose::Beat(sent_ms), Body::Beat(put), Content::Beaten(beaten)) => {
                self.beaten(now_ms, sent_ms, put.beat.counter, answer.revision, beaten, commands);
            }
            (Purpose::Of(partition, step), body, content) => {
                self.answered_step(partition, step, body, content, commands);
            }
            (Purpose::Beat(_), ..) => {}
        }
    }

    fn answered_step(
        &mut self,
        partition: PartitionId,
        step: Step,
        body: &Body,
        content: Content,
        commands: &mut Vec<Command>,
    ) {
        let Some(phase) = self.state.partitions.get(&partition) else { return };
        match (step, phase, body, content) {
            (Step::Claim, Phase::Claiming(_), Body::Claim(claim), Content::Claimed(claimed)) => {
                self.claimed(claim, claimed, commands);
            }
            (Step::Load, Phase::Loading(token), _, Content::Contents(contents)) => {
                self.load(partition, *token, *contents, commands);
            }
            (Step::Append, Phase::Serving(_), Body::Append(append), Content::Appended(appended)) => {
                self.appended(append, &appended, commands);
            }
            (Step::Snapshot, Phase::Serving(_), body, content) => {
                self.snapshot_answered(partition, body, &content, commands);
            }
            (Step::Release, Phase::Releasing(token), _, Content::Fence(fence)) => {
                self.released(partition, *token, fence, commands);
            }
            _ => {}
        }
    }
}
