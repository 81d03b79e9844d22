//! `ConsumerGroupHeartbeat`: joins, reports what has changed, and leaves (docs/consumer-protocol.md §22.2).

use std::{collections::BTreeSet, sync::Arc};

use rota_core::ErrorCode;

use super::IdPartition;
use crate::{
    errors::{self, Verdict},
    event::{ConsumerHeartbeat, Failure, Request, Subscription},
    member::{Identity, Member, Purpose, State},
};

/// The epoch of a join.
const JOIN_EPOCH: i32 = 0;
/// The epoch of a dynamic member that leaves.
const LEAVE_EPOCH: i32 = -1;
/// The epoch of a static member that leaves: the coordinator keeps its partitions until its session ends.
const STATIC_LEAVE_EPOCH: i32 = -2;

/// What a heartbeat says about the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    topics: Vec<Arc<str>>,
    pattern: Option<Arc<str>>,
    held: BTreeSet<IdPartition>,
}

impl Report {
    /// Whether it names exactly these partitions.
    pub fn is_held(&self, held: &BTreeSet<IdPartition>) -> bool {
        self.held == *held
    }
}

/// The answer to a heartbeat.
pub(crate) struct HeartbeatAnswer {
    pub error: ErrorCode,
    pub message: Option<String>,
    pub epoch: i32,
    pub interval_ms: i32,
    pub assignment: Option<Vec<(u128, Vec<i32>)>>,
}

impl Member {
    /// Whether the member may join: it polls, and its application has given up what it had before.
    fn may_join(&self) -> bool {
        self.subscription.is_group()
            && self.busy_since_ms.is_none()
            && !self.leaving.is_leaving()
            && !self.consumer.waits_for_the_application()
            && self.owned.is_empty()
    }

    /// Returns when the next heartbeat is due: at once if there is something to report.
    fn beat_due(&self) -> Option<u64> {
        if self.raised || self.coordinator().is_none() || self.waits_for(Purpose::Heartbeat) {
            return None;
        }
        if !self.has_epoch() {
            return self.may_join().then_some(self.heartbeats.due_ms());
        }
        let waits = self.consumer.waits_for_the_application();
        let news = !waits && self.consumer.reported.as_ref().is_some_and(|reported| !self.is_as_reported(reported));
        Some(if news { self.now_ms } else { self.heartbeats.due_ms() })
    }

    pub(crate) fn next_consumer_heartbeat(&self) -> Option<u64> {
        let poll = self.poll_ends_ms().filter(|_| self.state != State::Unjoined);
        [self.beat_due(), poll].into_iter().flatten().min()
    }

    fn report(&self) -> Report {
        let (topics, pattern) = self.wanted();
        Report { topics, pattern, held: self.consumer.held.clone() }
    }

    fn is_as_reported(&self, reported: &Report) -> bool {
        let (topics, pattern) = self.wanted();
        reported.held == self.consumer.held && reported.topics == topics && reported.pattern == pattern
    }

    /// The topics, or the pattern, to which the member subscribes.
    fn wanted(&self) -> (Vec<Arc<str>>, Option<Arc<str>>) {
        match &self.subscription {
            Subscription::CoordinatorPattern(pattern) => (Vec::new(), Some(pattern.clone())),
            Subscription::Pattern(pattern) => (Vec::new(), Some(Arc::from(pattern.as_str()))),
            Subscription::Topics(_) => (self.subscribed_topics(), None),
            // A member that unsubscribes still has its topics, until it leaves.
            Subscription::None | Subscription::Manual(_) => match &self.consumer.reported {
                Some(reported) => (reported.topics.clone(), reported.pattern.clone()),
                None => (Vec::new(), None),
            },
        }
    }

    pub(crate) fn consumer_beat(&mut self) {
        if self.beat_due().is_none_or(|due| due > self.now_ms) {
            return;
        }
        let report = self.report();
        let joins = !self.has_epoch();
        // Without a whole and readable assignment the member asks for it again: the answer to a heartbeat that says
        // everything has it.
        let reads = self.consumer.target.is_some() && self.unnamed().is_empty();
        let known = self.consumer.reported.take().filter(|_| !joins && reads);
        let is_new =
            |is_same: fn(&Report, &Report) -> bool| known.as_ref().is_none_or(|known| !is_same(known, &report));
        let everything = known.is_none();
        self.consumer.has_had_pattern |= report.pattern.is_some();
        // The empty pattern drops the one before, which the coordinator may still have.
        let pattern = report.pattern.clone().or_else(|| self.consumer.has_had_pattern.then(|| Arc::from("")));
        let heartbeat = ConsumerHeartbeat {
            group_id: self.config.group_id.clone(),
            member_id: self.identity.member_id.clone(),
            epoch: if joins { JOIN_EPOCH } else { self.identity.generation },
            instance_id: self.config.instance_id.clone(),
            rack: self.config.rack.clone().filter(|_| everything),
            rebalance_timeout_ms: if everything { self.config.max_poll_interval_ms as i32 } else { -1 },
            topics: is_new(|known, report| known.topics == report.topics).then(|| report.topics.clone()),
            pattern: pattern.filter(|_| is_new(|known, report| known.pattern == report.pattern)),
            assignor: self.config.remote_assignor().filter(|_| everything).map(str::to_owned),
            owned: is_new(|known, report| known.held == report.held).then(|| by_topic(&report.held)),
        };
        let names_held = heartbeat.owned.is_some();
        let body = Request::ConsumerGroupHeartbeat(heartbeat);
        if self.ask(Purpose::Heartbeat, body, u64::from(self.config.request_timeout_ms)).is_some() {
            if joins {
                self.state = State::Joining;
            }
            if names_held {
                let before = self.consumer.unanswered.take();
                self.consumer.unanswered =
                    Some(before.map_or_else(|| report.held.clone(), |before| &before & &report.held));
            }
            self.consumer.reported = Some(report);
            self.consumer.sent_ms = self.now_ms;
        }
    }

    pub(crate) fn consumer_beaten(&mut self, asked_as: &Identity, answer: HeartbeatAnswer) {
        let error = answer.error;
        match errors::consumer_heartbeat(error) {
            // No member has such an epoch: the answer cannot be meant.
            Verdict::Good if answer.epoch <= 0 => self.consumer_beat_failed(),
            Verdict::Good => self.accept(asked_as, answer),
            Verdict::FindAgain => {
                self.consumer_beat_failed();
                self.forget_coordinator();
            }
            Verdict::ResetSoft => {
                self.out_of_the_consumer_group();
                if asked_as.generation == -1 {
                    self.beat_failed();
                }
            }
            Verdict::Topics => {
                self.consumer_beat_failed();
                self.raise(refusal(error, answer.message));
            }
            Verdict::Fatal => {
                self.out_of_the_consumer_group();
                self.raise(refusal(error, answer.message));
            }
            _ => self.consumer_beat_failed(),
        }
    }

    fn accept(&mut self, asked_as: &Identity, answer: HeartbeatAnswer) {
        self.identity.generation = answer.epoch;
        // The broker decides the interval; one of 0 would leave no time between two heartbeats.
        let interval_ms = u64::try_from(answer.interval_ms).unwrap_or(0).max(u64::from(self.config.retry_backoff_ms));
        self.consumer.unanswered = None;
        self.heartbeats.succeeded();
        self.heartbeats.schedule(self.consumer.sent_ms + interval_ms);
        self.commits.retry_stale();
        if asked_as.generation == -1 {
            self.commits.interval_starts(self.now_ms, &self.config);
        }
        if let Some(assignment) = answer.assignment {
            let each = |(topic, indexes): (u128, Vec<i32>)| indexes.into_iter().map(move |index| (topic, index));
            self.consumer.target = Some(assignment.into_iter().flat_map(each).collect());
        }
    }

    /// Schedules another heartbeat. It says everything, since the coordinator may not have got the last one.
    pub(crate) fn consumer_beat_failed(&mut self) {
        self.consumer.reported = None;
        self.beat_failed();
    }

    /// Leaves the group with one heartbeat, whatever its answer.
    pub(crate) fn leave_consumer_group(&mut self) {
        if self.config.leave_on_close && self.state != State::Unjoined {
            let is_static = self.config.instance_id.is_some();
            let heartbeat = ConsumerHeartbeat {
                group_id: self.config.group_id.clone(),
                member_id: self.identity.member_id.clone(),
                epoch: if is_static { STATIC_LEAVE_EPOCH } else { LEAVE_EPOCH },
                instance_id: self.config.instance_id.clone(),
                rack: None,
                rebalance_timeout_ms: -1,
                topics: None,
                pattern: None,
                assignor: None,
                owned: None,
            };
            let body = Request::ConsumerGroupHeartbeat(heartbeat);
            self.ask(Purpose::Leave, body, u64::from(self.config.request_timeout_ms));
        }
        // The answer to a heartbeat before it would be about a member that has left.
        self.pending.retain(|_, pending| pending.purpose != Purpose::Heartbeat);
        self.out_of_the_consumer_group();
    }
}

fn refusal(error: ErrorCode, message: Option<String>) -> Failure {
    let api = "ConsumerGroupHeartbeat";
    match (error, message) {
        (ErrorCode::UnsupportedVersion, message) => Failure::Unsupported { message },
        (error, Some(message)) => Failure::Refused { api, error, message },
        (error, None) => Failure::Answer { api, error },
    }
}

fn by_topic(partitions: &BTreeSet<IdPartition>) -> Vec<(u128, Vec<i32>)> {
    let mut topics: Vec<(u128, Vec<i32>)> = Vec::new();
    for (topic, index) in partitions {
        match topics.last_mut().filter(|(last, _)| last == topic) {
            Some((_, indexes)) => indexes.push(*index),
            None => topics.push((*topic, vec![*index])),
        }
    }
    topics
}
