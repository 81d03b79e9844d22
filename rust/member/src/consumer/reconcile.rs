//! Carries assignments out: commit, revoke, assign, one at a time (docs/consumer-protocol.md §22.3).

use std::cell::OnceCell;

use super::IdPartition;
use crate::{
    event::{Notice, Partition},
    member::Member,
};

/// Progress of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum Step {
    /// Nothing is under way.
    #[default]
    Idle,
    /// Consumed positions are committed, before partitions are revoked if some are.
    Committing { until_ms: u64, revokes: bool },
    /// The application revokes these partitions.
    Revoking(Vec<IdPartition>),
    /// The application takes partitions over.
    Assigning,
    /// The application gives up everything.
    Losing,
}

impl Step {
    /// Whether the application has an unhandled notice.
    pub fn waits_for_the_application(&self) -> bool {
        matches!(self, Step::Revoking(_) | Step::Assigning | Step::Losing)
    }

    /// Ends the reconciliation. The application still has to handle its notice.
    pub fn interrupt(&mut self) {
        if !self.waits_for_the_application() {
            *self = Step::Idle;
        }
    }
}

/// What has to change: partitions to revoke, then those to assign.
type Change = (Vec<IdPartition>, Vec<IdPartition>);

impl Member {
    /// Compares the assignment with the held partitions. `None`: they are equal, and the application knows.
    fn change(&self) -> Option<Change> {
        let (held, target) = (&self.consumer.held, self.consumer.target.as_ref()?);
        let revoked: Vec<IdPartition> = held.difference(target).copied().collect();
        let added = target.difference(held).filter(|one| self.consumer.names.has(one));
        let added: Vec<IdPartition> = added.copied().collect();
        let is_announced = self.consumer.is_announced || !self.unnamed().is_empty();
        let is_news = !(revoked.is_empty() && added.is_empty() && is_announced);
        is_news.then_some((revoked, added))
    }

    /// Whether the assignment is carried out.
    pub(super) fn is_reconciled(&self) -> bool {
        self.consumer.step == Step::Idle
            && self.consumer.target.is_some()
            && self.change().is_none()
            && self.unnamed().is_empty()
    }

    pub(crate) fn next_reconciliation(&self) -> Option<u64> {
        match self.consumer.step {
            // The answer to the heartbeat comes first.
            Step::Committing { until_ms, .. } if !self.has_denied() => Some(until_ms),
            _ => None,
        }
    }

    /// Carries the assignment out until the member must wait.
    pub(crate) fn reconcile(&mut self) {
        loop {
            match self.consumer.step {
                _ if self.leaving.is_leaving() => return self.consumer.step.interrupt(),
                Step::Idle if self.busy_since_ms.is_some() || self.raised => return,
                Step::Idle if !self.has_epoch() => return self.lose(),
                Step::Idle if self.change().is_none() || self.has_denied() => return,
                Step::Idle => {
                    self.commit_before_rejoin();
                    let until_ms = self.now_ms + u64::from(self.config.max_poll_interval_ms);
                    self.consumer.step = Step::Committing { until_ms, revokes: self.revokes() };
                    self.send_commits();
                }
                Step::Committing { until_ms, .. } if self.commits.is_preparing() && until_ms > self.now_ms => return,
                Step::Committing { .. } if self.has_denied() => return,
                // It has waited for an answer that takes partitions away, and read on.
                Step::Committing { revokes: false, .. } if self.revokes() => self.consumer.step = Step::Idle,
                Step::Committing { .. } => self.apply(),
                Step::Revoking(_) | Step::Assigning | Step::Losing => return,
            }
        }
    }

    fn revokes(&self) -> bool {
        self.change().is_some_and(|(revoked, _)| !revoked.is_empty())
    }

    /// Whether a heartbeat without an answer says that the member lacks something of what is assigned: the coordinator may
    /// take that for an acknowledgment, and give it to another member. An answer that was lost is one that may come.
    fn has_denied(&self) -> bool {
        let Some(named) = &self.consumer.unanswered else { return false };
        let change = self.change().filter(|(revoked, _)| revoked.is_empty());
        change.is_some_and(|(_, added)| added.iter().any(|one| !named.contains(one)))
    }

    /// Gives up everything, since the member is out of its group.
    fn lose(&mut self) {
        let partitions: Vec<Partition> = self.owned.iter().cloned().collect();
        if !partitions.is_empty() {
            self.let_go(&partitions);
            self.consumer.step = Step::Losing;
            self.tell(Notice::Lose { partitions });
        }
    }

    /// Notifies the application of the first part of the change.
    fn apply(&mut self) {
        self.consumer.step = Step::Idle;
        let Some((revoked, added)) = self.change() else { return };
        if revoked.is_empty() {
            let named = self.consumer.names.named(&added);
            self.owned.extend(named.iter().cloned());
            self.consumer.is_announced = true;
            // The application may read them from now on, so every heartbeat reports them.
            self.consumer.held.extend(added);
            self.consumer.step = Step::Assigning;
            let all = self.owned.iter().cloned().collect();
            self.tell(Notice::Assign { generation: self.identity.generation, added: named, all, user_data: None });
        } else {
            let partitions = self.consumer.names.named(&revoked);
            self.let_go(&partitions);
            self.consumer.step = Step::Revoking(revoked);
            self.tell(Notice::Revoke { partitions });
        }
    }

    /// The application has handled its notice. A heartbeat reports that.
    pub(crate) fn reconciled(&mut self) {
        match std::mem::take(&mut self.consumer.step) {
            Step::Revoking(revoked) => self.consumer.held.retain(|one| !revoked.contains(one)),
            Step::Assigning | Step::Losing => {}
            other => {
                self.consumer.step = other;
                self.given_up();
            }
        }
    }

    /// Returns the partitions that are the member's, or are being given up.
    pub(crate) fn holdings(&self) -> Holdings<'_> {
        Holdings { member: self, given_up: OnceCell::new() }
    }
}

/// The partitions that are a member's, or are being given up.
pub(crate) struct Holdings<'a> {
    member: &'a Member,
    /// What the coordinator takes for the member's, in order. Looked up once, and only if it matters.
    given_up: OnceCell<Vec<Partition>>,
}

impl Holdings<'_> {
    pub fn have(&self, partition: &Partition) -> bool {
        let Member { consumer, owned, .. } = self.member;
        let given_up = || self.given_up.get_or_init(|| consumer.names.named(&consumer.held));
        owned.contains(partition) || given_up().binary_search(partition).is_ok()
    }
}
