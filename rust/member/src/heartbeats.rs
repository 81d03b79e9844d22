//! Sends heartbeats (§22.5).

use rota_core::ErrorCode;

use crate::{
    config::Config,
    errors::{self, Verdict},
    event::{Failure, Request},
    member::{Identity, Member, Purpose, State},
};

/// The schedule of heartbeats, and the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeats {
    due_ms: u64,
    session_ends_ms: u64,
    /// Consecutive failures.
    failures: u32,
}

impl Heartbeats {
    /// Restarts the session after a successful answer of the coordinator.
    pub fn session_starts(&mut self, now_ms: u64, config: &Config) {
        self.session_ends_ms = now_ms + u64::from(config.session_timeout_ms);
        self.failures = 0;
    }

    /// Starts heartbeats after a join: the first is due after one interval.
    pub fn begin(&mut self, now_ms: u64, config: &Config) {
        self.session_starts(now_ms, config);
        self.due_ms = now_ms + u64::from(config.heartbeat_interval_ms);
    }
}

impl Heartbeats {
    /// Returns when the next heartbeat is due.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Sets when the next heartbeat is due.
    pub fn schedule(&mut self, due_ms: u64) {
        self.due_ms = due_ms;
    }

    /// Ends a series of failures.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

impl Member {
    /// Whether heartbeats are sent. Not during a join: the coordinator keeps a member with a parked join.
    fn beats(&self) -> bool {
        matches!(self.state, State::CompletingRebalance | State::Stable) && !self.raised
    }

    /// Returns when the application must have polled.
    pub(crate) fn poll_ends_ms(&self) -> Option<u64> {
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

    /// Leaves the group if the application does not poll in time, so that others get its partitions. A static member
    /// stays silent instead: it polls again, or its session expires.
    pub(crate) fn watch_the_application(&mut self) {
        let is_watched = if self.config.is_consumer() { self.state != State::Unjoined } else { self.beats() };
        if is_watched && self.poll_ends_ms().is_some_and(|end| end <= self.now_ms) {
            self.leave("the consumer worked for longer than max.poll.interval.ms between two polls");
        }
    }

    pub(crate) fn beat(&mut self) {
        if !self.beats() || self.coordinator().is_none() {
            return;
        }
        if self.heartbeats.session_ends_ms <= self.now_ms {
            // The next coordinator knows whether the member was removed.
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
            // The answer is about an earlier identity of the member.
            Verdict::ResetFull | Verdict::ResetSoft | Verdict::Fenced => {}
            Verdict::Retry | Verdict::AdoptId | Verdict::Stale | Verdict::Left | Verdict::Topics | Verdict::Fatal => {
                self.beat_failed();
            }
        }
    }

    /// Schedules the next heartbeat sooner than an interval, but later with each failure.
    pub(crate) fn beat_failed(&mut self) {
        let wait_ms = self.backoff_ms(self.heartbeats.failures);
        self.heartbeats.failures += 1;
        self.heartbeats.due_ms = self.now_ms + wait_ms;
    }
}
