//! Out of the group: by the application's wish, or because it does not come back (§22.9).

use crate::{
    event::{Failure, Notice, Partition, Request},
    member::{Member, Purpose, State},
};

/// How far a goodbye is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Step {
    /// Nobody leaves.
    #[default]
    Staying,
    /// The application unsubscribed.
    Unsubscribing,
    /// The same; it gives up what it has.
    GivingUpSubscription,
    /// The member is to close; everything is committed that can be.
    Committing { until_ms: u64 },
    /// The application gives up what it has.
    GivingUp,
    /// The group is told.
    Leaving,
    /// All is done.
    Closed,
}

/// Whether the member is about to go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving {
    step: Step,
}

impl Leaving {
    /// No new round, nothing new to learn.
    pub fn is_leaving(&self) -> bool {
        self.step != Step::Staying
    }

    pub fn is_closed(&self) -> bool {
        self.step == Step::Closed
    }
}

impl Member {
    /// Out of the group, and the group is told if that is possible: one try, whatever comes of it. Static members never
    /// say it: their place is kept for them.
    pub(crate) fn leave(&mut self, reason: &str) {
        let tells = self.config.instance_id.is_none()
            && self.config.leave_on_close
            && self.state != State::Unjoined
            && !self.identity.member_id.is_empty();
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

    /// The application wants nothing from the group any more.
    pub(crate) fn unsubscribe(&mut self) {
        if !self.leaving.is_leaving() {
            self.leaving.step = Step::Unsubscribing;
        }
    }

    pub(crate) fn close(&mut self) {
        if matches!(self.leaving.step, Step::Staying | Step::Unsubscribing) {
            self.busy_since_ms = None;
            self.commit_before_close();
            self.leaving.step = Step::Committing { until_ms: self.now_ms + u64::from(self.config.api_timeout_ms) };
        }
    }

    pub(crate) fn next_leaving(&self) -> Option<u64> {
        match self.leaving.step {
            // Until the application has dealt with what it was told, nothing can be done then.
            Step::Committing { until_ms } if !self.round.waits_for_the_application() => Some(until_ms),
            _ => None,
        }
    }

    /// The application has given up what it had.
    pub(crate) fn given_up(&mut self) {
        match self.leaving.step {
            Step::GivingUpSubscription => self.end_of_subscription(),
            Step::GivingUp => self.say_goodbye(),
            // It was not asked.
            _ => {}
        }
    }

    pub(crate) fn leave_step(&mut self) {
        // One notice at a time.
        let busy = self.round.waits_for_the_application();
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

    /// Tells the application to give up what it has. If that is nothing, it has done so.
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
