//! Offsets: commits by the application, by interval, before a rebalance and on close; and fetches (§22.8).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::ErrorCode;

use crate::{
    config::Config,
    errors::{self, Verdict},
    event::{CommitId, Failure, Notice, Offset, Partition, Request, RequestId},
    member::{Identity, Member, Purpose, State},
};

/// The origin of a commit or fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The application.
    Application(CommitId),
    /// The auto-commit interval.
    Clock,
    /// A rebalance, which waits for the commit.
    Rebalance,
    /// A close, which waits for the commit.
    Close,
}

impl Origin {
    /// Whether the member commits by itself.
    fn is_automatic(self) -> bool {
        !matches!(self, Origin::Application(_))
    }
}

#[derive(Clone, Debug)]
enum What {
    Commit(Vec<(Partition, Offset)>),
    Fetch(Vec<Partition>),
}

#[derive(Clone, Debug)]
struct Work {
    who: Origin,
    what: What,
    deadline_ms: u64,
    retry_at_ms: u64,
    request: Option<RequestId>,
    /// Whether all partitions of a commit were the member's when it began.
    was_held: bool,
    /// Whether its epoch was stale, so that it waits for the next heartbeat.
    is_stale: bool,
    /// Whether it waits for an earlier commit that shares a partition.
    is_behind: bool,
    /// Positions that a commit of the application has replaced. They count again if it fails.
    displaced: Vec<(Partition, Offset)>,
    last: Option<ErrorCode>,
}

/// Pending commits and fetches, and consumed positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    works: Vec<Work>,
    /// Consumed positions without a commit.
    consumed: BTreeMap<Partition, Offset>,
    due_ms: u64,
    /// How many commits of the interval have met a transient error since one succeeded.
    failures: u32,
}

impl Commits {
    /// Whether a request waits for the coordinator.
    pub fn are_waiting(&self) -> bool {
        !self.works.is_empty()
    }

    /// Whether there is an automatic commit. A rebalance waits for it: its own, or one of before that is in flight.
    pub fn is_preparing(&self) -> bool {
        self.works.iter().any(|work| work.who.is_automatic())
    }

    /// Retries what was sent with a stale epoch: the member has another one now, or none.
    pub fn retry_stale(&mut self) {
        self.works.iter_mut().for_each(|work| work.is_stale = false);
    }

    /// Schedules the next automatic commit after one interval.
    pub fn interval_starts(&mut self, now_ms: u64, config: &Config) {
        self.due_ms = now_ms + u64::from(config.auto_commit_interval_ms.unwrap_or_default());
    }

    /// Drops the position of a partition that another member reads now.
    pub fn forget(&mut self, partition: &Partition) {
        self.consumed.remove(partition);
    }

    /// Leaves partitions with a newer offset out of the automatic commits in flight, which may be repeated.
    fn supersede(&mut self, newer: &BTreeMap<Partition, Offset>) {
        for work in self.works.iter_mut().filter(|work| work.who.is_automatic()) {
            if let What::Commit(offsets) = &mut work.what {
                offsets.retain(|(partition, _)| !newer.contains_key(partition));
            }
        }
    }

    /// Takes out of the positions, and of what the interval has in flight, what the application commits itself: the
    /// partitions with an offset up to its own, and of what is in flight all.
    fn displace(&mut self, newer: &BTreeMap<Partition, Offset>) -> Vec<(Partition, Offset)> {
        let mut displaced = Vec::new();
        for work in self.works.iter_mut().filter(|work| work.who == Origin::Clock) {
            if let What::Commit(offsets) = &mut work.what {
                displaced.extend(offsets.extract_if(.., |(partition, _)| newer.contains_key(partition)));
            }
        }
        for (partition, offset) in newer {
            if self.consumed.get(partition).is_some_and(|position| position.offset <= offset.offset) {
                displaced.extend(self.consumed.remove_entry(partition));
            }
        }
        displaced
    }

    /// Puts commits behind earlier ones that share a partition and may be repeated: they would overwrite the later ones.
    /// A commit of the interval is not repeated, and a topic that does not exist stores nothing.
    fn put_in_order(&mut self) {
        // Most often all are in flight, and this is called after every event.
        if self.works.iter().all(|work| work.request.is_some()) {
            return;
        }
        let mut earlier = BTreeSet::new();
        for Work { who, what, is_behind, last, .. } in &mut self.works {
            let What::Commit(offsets) = &*what else { continue };
            *is_behind = offsets.iter().any(|(partition, _)| earlier.contains(partition));
            if *who != Origin::Clock && *last != Some(ErrorCode::UnknownTopicOrPartition) {
                earlier.extend(offsets.iter().map(|(partition, _)| partition));
            }
        }
    }
}

impl Member {
    pub(crate) fn consumed(&mut self, partition: Partition, offset: Offset) {
        if self.config.auto_commit_interval_ms.is_some() && self.reads(&partition) {
            self.commits.consumed.insert(partition, offset);
        }
    }

    fn reads(&self, partition: &Partition) -> bool {
        match &self.subscription {
            crate::Subscription::Manual(partitions) => partitions.contains(partition),
            _ => self.owned.contains(partition),
        }
    }

    pub(crate) fn commit(&mut self, commit: CommitId, offsets: Vec<(Partition, Offset)>) {
        if offsets.is_empty() {
            return self.tell(Notice::Committed { commit, result: Ok(()) });
        }
        let displaced = self.commits.displace(&offsets.iter().cloned().collect());
        self.add(Origin::Application(commit), What::Commit(offsets), self.config.api_timeout_ms);
        if let Some(work) = self.commits.works.last_mut() {
            work.displaced = displaced;
        }
    }

    pub(crate) fn fetch(&mut self, fetch: CommitId, partitions: Vec<Partition>) {
        if partitions.is_empty() {
            return self.tell(Notice::Fetched { fetch, result: Ok(Vec::new()) });
        }
        self.add(Origin::Application(fetch), What::Fetch(partitions), self.config.api_timeout_ms);
    }

    fn add(&mut self, who: Origin, what: What, timeout_ms: u32) {
        let deadline_ms = self.now_ms + u64::from(timeout_ms);
        let was_held = self.holds_all(&what);
        self.commits.works.push(Work {
            who,
            what,
            was_held,
            deadline_ms,
            retry_at_ms: self.now_ms,
            request: None,
            is_stale: false,
            is_behind: false,
            displaced: Vec::new(),
            last: None,
        });
    }

    /// Whether the coordinator would take a commit.
    fn may_commit(&self) -> bool {
        let is_in = if self.config.is_consumer() { self.has_epoch() } else { self.state == State::Stable };
        is_in || !self.is_of_group()
    }

    /// Whether the member commits as part of its group. One that has unsubscribed does until it leaves.
    fn is_of_group(&self) -> bool {
        self.subscription.is_group() || self.leaving.is_leaving() && self.generation() != -1
    }

    /// Commits the consumed positions. The commit takes over what earlier automatic ones have not sent: their repetition
    /// after it would overwrite newer offsets.
    fn commit_consumed(&mut self, who: Origin, timeout_ms: u32) {
        if !self.may_commit() {
            return;
        }
        let mut offsets = self.take_unsent();
        offsets.append(&mut self.commits.consumed);
        if !offsets.is_empty() {
            self.commits.supersede(&offsets);
            self.add(who, What::Commit(offsets.into_iter().collect()), timeout_ms);
        }
    }

    /// Takes the offsets of the automatic commits that wait to be sent.
    fn take_unsent(&mut self) -> BTreeMap<Partition, Offset> {
        let is_unsent = |work: &mut Work| work.who.is_automatic() && work.request.is_none();
        let unsent: Vec<Work> = self.commits.works.extract_if(.., is_unsent).collect();
        let (held, mut offsets) = (self.holdings(), BTreeMap::new());
        for work in unsent {
            let What::Commit(unsent) = work.what else { continue };
            // With the newer protocol, another member may have what this one held once (`refused_here`).
            let stays = |partition: &Partition| !(self.config.is_consumer() && work.was_held) || held.have(partition);
            offsets.extend(unsent.into_iter().filter(|(partition, _)| stays(partition)));
        }
        offsets
    }

    /// Commits before a round, which waits as long as a rebalance may take.
    pub(crate) fn commit_before_rejoin(&mut self) {
        self.commit_consumed(Origin::Rebalance, self.config.max_poll_interval_ms);
        let until_ms = self.now_ms + u64::from(self.config.max_poll_interval_ms);
        for work in self.commits.works.iter_mut().filter(|work| work.who.is_automatic()) {
            work.who = Origin::Rebalance;
            work.deadline_ms = work.deadline_ms.max(until_ms);
        }
    }

    /// Commits before the member closes.
    pub(crate) fn commit_before_close(&mut self, timeout_ms: u32) {
        self.commit_consumed(Origin::Close, timeout_ms);
        for work in self.commits.works.iter_mut().filter(|work| work.who.is_automatic()) {
            work.who = Origin::Close;
        }
    }

    fn commits_by_clock(&self) -> bool {
        self.config.auto_commit_interval_ms.is_some()
            && !self.leaving.is_leaving()
            && !self.commits.consumed.is_empty()
            && self.may_commit()
            && !self.commits.is_preparing()
    }

    pub(crate) fn next_commit(&self) -> Option<u64> {
        let known = self.coordinator().is_some();
        let idle = self.commits.works.iter().filter(|work| work.request.is_none() && !work.is_stale && !work.is_behind);
        let retry = idle.filter(|_| known).map(|work| work.retry_at_ms).min();
        let deadline = self.commits.works.iter().map(|work| work.deadline_ms).min();
        let due = self.commits_by_clock().then_some(self.commits.due_ms);
        [retry, deadline, due].into_iter().flatten().min()
    }

    pub(crate) fn send_commits(&mut self) {
        if self.commits_by_clock() && self.commits.due_ms <= self.now_ms {
            self.commits.interval_starts(self.now_ms, &self.config);
            self.commit_consumed(Origin::Clock, self.config.request_timeout_ms);
        }
        let mut at = 0;
        while at < self.commits.works.len() {
            let work = &self.commits.works[at];
            if work.deadline_ms <= self.now_ms {
                let failure = Failure::TimedOut { api: work.what.api(), last: work.last };
                self.end(at, Err(failure));
            } else if work.request.is_none() && work.what.is_empty() {
                // Newer commits have all its partitions.
                self.end(at, Ok(Vec::new()));
            } else if work.request.is_none()
                && let Some(failure) = self.refused_here(&self.commits.works[at])
            {
                self.end(at, Err(failure));
            } else {
                at += 1;
            }
        }
        self.commits.put_in_order();
        (0..self.commits.works.len()).for_each(|at| self.send_work(at));
    }

    /// Returns the failure of a request that the group would refuse, because the member is not part of it now.
    fn refused_here(&self, work: &Work) -> Option<Failure> {
        if matches!(work.what, What::Fetch(_)) {
            return None;
        }
        // The coordinator would take a retry with the epoch of now, and another member may have committed since.
        if self.config.is_consumer() && work.was_held && !self.holds_all(&work.what) {
            return Some(Failure::CommitFailed);
        }
        if self.may_commit() {
            return None;
        }
        Some(match self.state {
            State::PreparingRebalance | State::CompletingRebalance => Failure::RebalanceInProgress,
            State::Unjoined | State::Joining | State::Reconciling | State::Stable => Failure::CommitFailed,
        })
    }

    fn send_work(&mut self, at: usize) {
        let work = &self.commits.works[at];
        if work.request.is_some() || work.is_stale || work.is_behind || work.retry_at_ms > self.now_ms {
            return;
        }
        let group_id = self.config.group_id.clone();
        // A manual assignment commits without a member id.
        let identity = if self.is_of_group() { self.identity.clone() } else { Identity::nobody() };
        let (purpose, body) = match &work.what {
            What::Commit(offsets) => (
                Purpose::Commit,
                Request::OffsetCommit {
                    group_id,
                    generation: identity.generation,
                    member_id: identity.member_id,
                    instance_id: self.config.instance_id.clone().filter(|_| self.is_of_group()),
                    offsets: offsets.clone(),
                },
            ),
            What::Fetch(partitions) => {
                let is_in = self.config.is_consumer() && self.subscription.is_group() && self.has_epoch();
                let member = is_in.then_some((identity.member_id, identity.generation));
                (Purpose::Fetch, Request::OffsetFetch { group_id, member, partitions: partitions.clone() })
            }
        };
        let request = self.ask(purpose, body, u64::from(self.config.request_timeout_ms));
        self.commits.works[at].request = request;
    }

    fn position(&self, request: RequestId) -> Option<usize> {
        self.commits.works.iter().position(|work| work.request == Some(request))
    }

    /// Retries a request after the backoff. A commit of the interval ends instead, and the next one, with the positions
    /// of then, comes after the backoff, which grows: a topic that was deleted may stay assigned for hours.
    pub(crate) fn retry_commit(&mut self, request: RequestId, last: Option<ErrorCode>) {
        let Some(at) = self.position(request) else { return };
        let is_repeated_later = self.commits.works[at].who == Origin::Clock && !self.commits.works[at].is_stale;
        let wait_ms = self.backoff_ms(if is_repeated_later { self.commits.failures } else { 0 });
        let work = &mut self.commits.works[at];
        if is_repeated_later {
            self.commits.failures += 1;
            self.commits.due_ms = self.commits.due_ms.min(self.now_ms + wait_ms);
            return self.end(at, Err(Failure::CommitFailed));
        }
        work.request = None;
        work.last = last.or(work.last);
        work.retry_at_ms = self.now_ms + wait_ms;
    }

    /// Retries a request after the next heartbeat.
    fn retry_with_next_epoch(&mut self, at: usize, request: RequestId, asked_as: &Identity, error: ErrorCode) {
        // A newer epoch than that of the request needs no wait.
        self.commits.works[at].is_stale = self.is_still(asked_as);
        self.retry_commit(request, Some(error));
    }

    /// Whether all partitions of a commit are still the member's. A commit with a newer epoch would overwrite those of
    /// another member.
    fn holds_all(&self, what: &What) -> bool {
        match what {
            What::Commit(offsets) => {
                let held = self.holdings();
                offsets.iter().all(|(partition, _)| held.have(partition))
            }
            What::Fetch(_) => true,
        }
    }

    /// Takes out of a commit what is stored, and out of one that a rebalance or a close waits for, and out of
    /// its answer, deleted topics. Retries for a topic that does not come back would hold them up (KAFKA-16224,
    /// KAFKA-20959).
    fn without_settled(&mut self, at: usize, codes: &[(Partition, ErrorCode)]) -> Vec<(Partition, ErrorCode)> {
        let work = &mut self.commits.works[at];
        let is_awaited = matches!(work.who, Origin::Rebalance | Origin::Close);
        let is_deleted = |error| is_awaited && error == ErrorCode::UnknownTopicOrPartition;
        if let What::Commit(offsets) = &mut work.what {
            let is_settled = |error| error == ErrorCode::None || is_deleted(error);
            let settled = codes.iter().filter(|(_, error)| is_settled(*error)).map(|(partition, _)| partition);
            let settled: BTreeSet<&Partition> = settled.collect();
            offsets.retain(|(partition, _)| !settled.contains(partition));
        }
        codes.iter().filter(|(_, error)| !is_deleted(*error)).cloned().collect()
    }

    pub(crate) fn committed(&mut self, request: RequestId, asked_as: &Identity, codes: &[(Partition, ErrorCode)]) {
        let Some(at) = self.position(request) else { return };
        let verdict = if self.config.is_consumer() { errors::consumer_commit } else { errors::commit };
        let codes = self.without_settled(at, codes);
        let of = |wanted: fn(Verdict) -> bool| {
            codes.iter().find(|(_, error)| wanted(verdict(*error))).map(|(_, error)| *error)
        };
        // Errors that a retry cannot fix come first, then those about the member, then transient ones.
        let decisive = of(|verdict| matches!(verdict, Verdict::Fatal | Verdict::Fenced))
            .or_else(|| of(|verdict| matches!(verdict, Verdict::ResetFull | Verdict::ResetSoft | Verdict::Rejoin)))
            .or_else(|| of(|verdict| matches!(verdict, Verdict::Left | Verdict::Stale)))
            .or_else(|| of(|verdict| verdict == Verdict::Topics))
            .or_else(|| of(|verdict| verdict != Verdict::Good));
        let Some(error) = decisive else { return self.end(at, Ok(Vec::new())) };
        let same = self.is_still(asked_as);
        let passed = match self.state {
            State::PreparingRebalance => Failure::RebalanceInProgress,
            _ => Failure::CommitFailed,
        };
        let failure = match verdict(error) {
            Verdict::Stale if self.holds_all(&self.commits.works[at].what) => {
                return self.retry_with_next_epoch(at, request, asked_as, error);
            }
            Verdict::Stale | Verdict::Left => Failure::CommitFailed,
            Verdict::Retry => return self.retry_commit(request, Some(error)),
            Verdict::FindAgain => {
                self.forget_coordinator();
                return self.retry_commit(request, Some(error));
            }
            Verdict::ResetFull if same => {
                self.reset("the coordinator does not know the member");
                Failure::CommitFailed
            }
            Verdict::ResetSoft if same => {
                self.reset_generation("the generation is not the group's");
                Failure::CommitFailed
            }
            Verdict::Fenced if same => {
                let failure = Failure::Answer { api: "OffsetCommit", error };
                self.reset("another process has the instance id");
                self.raise(failure.clone());
                failure
            }
            Verdict::ResetFull | Verdict::ResetSoft | Verdict::Fenced => passed,
            Verdict::Rejoin => {
                self.rejoin("a commit was answered REBALANCE_IN_PROGRESS");
                Failure::RebalanceInProgress
            }
            Verdict::Topics => topics_failure(error, codes.iter().map(|(partition, error)| (partition, *error))),
            Verdict::Good | Verdict::AdoptId | Verdict::Fatal => Failure::Answer { api: "OffsetCommit", error },
        };
        self.end(at, Err(failure));
    }

    pub(crate) fn fetched(
        &mut self,
        request: RequestId,
        asked_as: &Identity,
        error: ErrorCode,
        offsets: Vec<(Partition, Result<Option<Offset>, ErrorCode>)>,
    ) {
        let Some(at) = self.position(request) else { return };
        let of_one = offsets.iter().find_map(|(_, found)| found.as_ref().err().copied());
        let error = if error == ErrorCode::None { of_one.unwrap_or(ErrorCode::None) } else { error };
        let verdict = if self.config.is_consumer() { errors::consumer_fetch } else { errors::fetch };
        let result = match verdict(error) {
            Verdict::Stale => return self.retry_with_next_epoch(at, request, asked_as, error),
            Verdict::Good => {
                Ok(offsets.into_iter().map(|(partition, found)| (partition, found.ok().flatten())).collect())
            }
            Verdict::Retry => return self.retry_commit(request, Some(error)),
            Verdict::FindAgain => {
                self.forget_coordinator();
                return self.retry_commit(request, Some(error));
            }
            Verdict::Topics => {
                let found =
                    offsets.iter().filter_map(|(partition, found)| Some((partition, found.as_ref().err().copied()?)));
                Err(topics_failure(error, found))
            }
            _ => Err(Failure::Answer { api: "OffsetFetch", error }),
        };
        self.end(at, result);
    }

    /// Reports the result to its origin. An automatic commit that failed is repeated by the next one, for what the member
    /// still reads then.
    fn end(&mut self, at: usize, result: Result<Vec<(Partition, Option<Offset>)>, Failure>) {
        let work = self.commits.works.remove(at);
        if work.who == Origin::Clock && result.is_ok() {
            self.commits.failures = 0;
        }
        match (work.who, work.what) {
            (Origin::Application(commit), What::Commit(_)) => {
                if result.is_err() {
                    self.give_back(work.displaced);
                }
                let result = result.map(|_| ());
                self.tell(Notice::Committed { commit, result });
            }
            (Origin::Application(fetch), What::Fetch(_)) => self.tell(Notice::Fetched { fetch, result }),
            (Origin::Clock | Origin::Rebalance, What::Commit(offsets)) if result.is_err() => self.give_back(offsets),
            _ => {}
        }
    }

    /// Returns positions to the next automatic commit.
    fn give_back(&mut self, positions: Vec<(Partition, Offset)>) {
        for (partition, offset) in positions {
            if self.reads(&partition) {
                self.commits.consumed.entry(partition).or_insert(offset);
            }
        }
    }

    /// Fails commits and fetches: the coordinator cannot be found, and a retry would not help.
    pub(crate) fn fail_commits(&mut self, failure: &Failure) {
        while !self.commits.works.is_empty() {
            self.end(0, Err(failure.clone()));
        }
    }
}

impl What {
    fn api(&self) -> &'static str {
        match self {
            What::Commit(_) => "OffsetCommit",
            What::Fetch(_) => "OffsetFetch",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            What::Commit(offsets) => offsets.is_empty(),
            What::Fetch(partitions) => partitions.is_empty(),
        }
    }
}

fn topics_failure<'a>(error: ErrorCode, codes: impl Iterator<Item = (&'a Partition, ErrorCode)>) -> Failure {
    let bad = codes.filter(|(_, code)| *code == error).map(|(partition, _)| partition.topic.clone());
    let topics: Vec<Arc<str>> = bad.collect::<BTreeSet<_>>().into_iter().collect();
    Failure::Topics { error, topics }
}
