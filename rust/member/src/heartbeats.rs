//! Showing that the member is alive (§22.5).

use rota_core::ErrorCode;

use crate::{
    config::Config,
    errors::{self, Verdict},
    event::{Failure, Request},
    member::{Identity, Member, Purpose, State},
};

/// When the next heartbeat is due, and how long none has succeeded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeats {
    due_ms: u64,
    session_ends_ms: u64,
    /// In a row.
    failures: u32,
}

impl Heartbeats {
    /// Something good was heard from the coordinator.
    pub fn session_starts(&mut self, now_ms: u64, config: &Config) {
        self.session_ends_ms = now_ms + u64::from(config.session_timeout_ms);
        self.failures = 0;
    }

    /// The join was answered: the first heartbeat is due an interval from now.
    pub fn begin(&mut self, now_ms: u64, config: &Config) {
        self.session_starts(now_ms, config);
        self.due_ms = now_ms + u64::from(config.heartbeat_interval_ms);
    }
}

impl Member {
    /// Not while its join is under way: the coordinator keeps who waits there.
    fn beats(&self) -> bool {
        matches!(self.state, State::CompletingRebalance | State::Stable) && !self.raised
    }

    fn poll_ends_ms(&self) -> Option<u64> {
        self.busy_since_ms.map(|since| since + u64::from(self.config.max_poll_interval_ms))
    }

    pub(crate) fn next_heartbeat(&self) -> Option<u64> {
        if !self.beats() {
            return None;
        }
        let known = self.coordinator().is_some();
        let due = (known && !self.waits_for(Purpose::Heartbeat)).then_some(self.heartbeats.due_ms);
        let session = known.then_some(self.heartbeats.session_ends_ms);
        [due, session, self.poll_ends_ms()].into_iter().flatten().min()
    }

    /// An application that does not come back in time is out, and its partitions are for others. Static members are
    /// quiet instead: they come back, or their session ends.
    pub(crate) fn watch_the_application(&mut self) {
        if self.beats() && self.poll_ends_ms().is_some_and(|end| end <= self.now_ms) {
            self.leave("the consumer worked for longer than max.poll.interval.ms between two polls");
        }
    }

    pub(crate) fn beat(&mut self) {
        if !self.beats() || self.coordinator().is_none() {
            return;
        }
        if self.heartbeats.session_ends_ms <= self.now_ms {
            // Whether the group has dropped the member is for the next coordinator to say.
            self.forget_coordinator();
            return;
        }
        if self.heartbeats.due_ms > self.now_ms || self.waits_for(Purpose::Heartbeat) {
            return;
        }
        let body = Request::Heartbeat {
            group_id: self.config.group_id.clone(),
            generation: self.identity.generation,
            member_id: self.identity.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
        };
        self.heartbeats.due_ms = self.now_ms + u64::from(self.config.heartbeat_interval_ms);
        self.ask(Purpose::Heartbeat, body, u64::from(self.config.request_timeout_ms));
    }

    pub(crate) fn beaten(&mut self, asked_as: &Identity, error: ErrorCode) {
        let same = self.is_still(asked_as);
        match errors::heartbeat(error) {
            Verdict::Good => self.heartbeats.session_starts(self.now_ms, &self.config),
            Verdict::Rejoin => {
                self.heartbeats.session_starts(self.now_ms, &self.config);
                if self.state == State::Stable {
                    self.rejoin("the group is rebalancing");
                }
            }
            Verdict::FindAgain => {
                self.beat_failed();
                self.forget_coordinator();
            }
            Verdict::ResetFull if same => self.reset("the coordinator does not know the member"),
            Verdict::ResetSoft if same => self.reset_generation("the generation is not the group's"),
            Verdict::Fenced if same => {
                self.reset("another process has the instance id");
                self.raise(Failure::Answer { api: "Heartbeat", error });
            }
            // It was about somebody that this member is no more.
            Verdict::ResetFull | Verdict::ResetSoft | Verdict::Fenced => {}
            Verdict::Retry | Verdict::AdoptId | Verdict::Topics | Verdict::Fatal => self.beat_failed(),
        }
    }

    /// The next one comes sooner than an interval, but later each time.
    pub(crate) fn beat_failed(&mut self) {
        let doubled = u64::from(self.config.retry_backoff_ms) << self.heartbeats.failures.min(16);
        self.heartbeats.failures += 1;
        let wait_ms = self.spread(doubled.min(u64::from(self.config.retry_backoff_max_ms)));
        self.heartbeats.due_ms = self.now_ms + wait_ms;
    }
}
