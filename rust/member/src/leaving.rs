//! Leaves the group: on request of the application, or because it does not poll (§22.9).

use crate::{
    event::{Failure, Notice, Partition, Request},
    member::{Member, Purpose, State},
};

/// Progress of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Step {
    /// The member stays.
    #[default]
    Staying,
    /// The application unsubscribed.
    Unsubscribing,
    /// The application unsubscribed and revokes its partitions.
    GivingUpSubscription,
    /// The member closes and commits first.
    Committing { until_ms: u64 },
    /// The member closes, and the application revokes its partitions.
    GivingUp,
    /// `LeaveGroup` is in flight.
    Leaving,
    /// All is done.
    Closed,
}

/// The state of leaving.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving {
    step: Step,
}

impl Leaving {
    /// Whether the member is leaving: no new round, no metadata.
    pub fn is_leaving(&self) -> bool {
        self.step != Step::Staying
    }

    pub fn is_closed(&self) -> bool {
        self.step == Step::Closed
    }
}

impl Member {
    /// Leaves the group with one request, whatever its answer. Static members of classic groups do not send it: they
    /// keep their place.
    pub(crate) fn leave(&mut self, reason: &str) {
        if self.config.is_consumer() {
            return self.leave_consumer_group();
        }
        let tells =
            self.config.instance_id.is_none() && self.config.leave_on_close && !self.identity.member_id.is_empty();
        if tells {
            let body = Request::LeaveGroup {
                group_id: self.config.group_id.clone(),
                member_id: self.identity.member_id.clone(),
                instance_id: None,
                reason: reason.to_owned(),
            };
            self.ask(Purpose::Leave, body, u64::from(self.config.request_timeout_ms));
        }
        self.reset(reason);
    }

    /// Leaves the group because the application unsubscribed.
    pub(crate) fn unsubscribe(&mut self) {
        if !self.leaving.is_leaving() {
            self.leaving.step = Step::Unsubscribing;
        }
    }

    pub(crate) fn close(&mut self, commit_timeout_ms: Option<u32>) {
        match self.leaving.step {
            Step::Staying | Step::Unsubscribing => {
                self.busy_since_ms = None;
                let timeout_ms = commit_timeout_ms.unwrap_or(self.config.api_timeout_ms);
                self.commit_before_close(timeout_ms);
                self.leaving.step = Step::Committing { until_ms: self.now_ms + u64::from(timeout_ms) };
            }
            // The application gives up all partitions already.
            Step::GivingUpSubscription => {
                self.busy_since_ms = None;
                self.leaving.step = Step::GivingUp;
            }
            Step::Committing { .. } | Step::GivingUp | Step::Leaving | Step::Closed => {}
        }
    }

    pub(crate) fn next_leaving(&self) -> Option<u64> {
        match self.leaving.step {
            // Waits until the application has handled the pending notice.
            Step::Committing { until_ms } if !self.waits_for_the_application() => Some(until_ms),
            _ => None,
        }
    }

    /// The application has revoked its partitions.
    pub(crate) fn given_up(&mut self) {
        match self.leaving.step {
            Step::GivingUpSubscription => self.end_of_subscription(),
            Step::GivingUp => self.say_goodbye(),
            // No notice was pending.
            _ => {}
        }
    }

    pub(crate) fn leave_step(&mut self) {
        // One notice at a time.
        let busy = self.waits_for_the_application();
        match self.leaving.step {
            Step::Unsubscribing if !busy => {
                self.leaving.step = Step::GivingUpSubscription;
                self.give_everything_up();
            }
            Step::Committing { until_ms } if !busy && (!self.commits.are_waiting() || until_ms <= self.now_ms) => {
                self.leaving.step = Step::GivingUp;
                self.give_everything_up();
            }
            Step::Leaving if !self.waits_for(Purpose::Leave) => self.end_of_life(),
            _ => {}
        }
    }

    /// Notifies the application to revoke its partitions. Without partitions this is done at once.
    fn give_everything_up(&mut self) {
        let partitions: Vec<Partition> = self.owned().cloned().collect();
        if partitions.is_empty() {
            return self.given_up();
        }
        let is_out = self.generation() == -1 || self.state == State::PreparingRebalance;
        self.let_go(&partitions);
        self.tell(if is_out { Notice::Lose { partitions } } else { Notice::Revoke { partitions } });
    }

    fn end_of_subscription(&mut self) {
        self.leaving.step = Step::Staying;
        self.leave("the consumer unsubscribed");
    }

    fn say_goodbye(&mut self) {
        self.leaving.step = Step::Leaving;
        self.leave("the consumer is being closed");
        self.leave_step();
    }

    fn end_of_life(&mut self) {
        self.fail_commits(&Failure::Closed);
        self.pending.clear();
        self.leaving.step = Step::Closed;
        self.tell(Notice::Closed);
    }
}
