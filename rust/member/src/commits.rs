//! Offsets: committed by hand, on the clock, before a rebalance and on close; and asked for (§22.8).

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

/// For whom something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The application.
    Application(CommitId),
    /// The clock.
    Clock,
    /// A rebalance, which waits for it.
    Rebalance,
    /// A close, which waits for it.
    Close,
}

#[derive(Clone, Debug)]
enum What {
    Commit(Vec<(Partition, Offset)>),
    Fetch(Vec<Partition>),
}

#[derive(Clone, Debug)]
struct Work {
    who: Who,
    what: What,
    deadline_ms: u64,
    retry_at_ms: u64,
    request: Option<RequestId>,
    last: Option<ErrorCode>,
}

/// What is to be committed or fetched, and how far was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    works: Vec<Work>,
    /// Read, and not committed yet.
    consumed: BTreeMap<Partition, Offset>,
    due_ms: u64,
}

impl Commits {
    /// Whether something needs the coordinator.
    pub fn are_waiting(&self) -> bool {
        !self.works.is_empty()
    }

    /// Whether a rebalance waits for its commit.
    pub fn is_preparing(&self) -> bool {
        self.works.iter().any(|work| work.who == Who::Rebalance)
    }

    /// The next commit by the clock is an interval from now.
    pub fn interval_starts(&mut self, now_ms: u64, config: &Config) {
        self.due_ms = now_ms + u64::from(config.auto_commit_interval_ms.unwrap_or_default());
    }

    /// Another reads it now: how far this member came is nobody's business.
    pub fn forget(&mut self, partition: &Partition) {
        self.consumed.remove(partition);
    }
}

impl Member {
    pub(crate) fn consumed(&mut self, partition: Partition, offset: Offset) {
        let is_ours = match &self.subscription {
            crate::Subscription::Manual(partitions) => partitions.contains(&partition),
            _ => self.owned.contains(&partition),
        };
        if self.config.auto_commit_interval_ms.is_some() && is_ours {
            self.commits.consumed.insert(partition, offset);
        }
    }

    pub(crate) fn commit(&mut self, commit: CommitId, offsets: Vec<(Partition, Offset)>) {
        if offsets.is_empty() {
            return self.tell(Notice::Committed { commit, result: Ok(()) });
        }
        self.add(Who::Application(commit), What::Commit(offsets), self.config.api_timeout_ms);
    }

    pub(crate) fn fetch(&mut self, fetch: CommitId, partitions: Vec<Partition>) {
        if partitions.is_empty() {
            return self.tell(Notice::Fetched { fetch, result: Ok(Vec::new()) });
        }
        self.add(Who::Application(fetch), What::Fetch(partitions), self.config.api_timeout_ms);
    }

    fn add(&mut self, who: Who, what: What, timeout_ms: u32) {
        let deadline_ms = self.now_ms + u64::from(timeout_ms);
        self.commits.works.push(Work { who, what, deadline_ms, retry_at_ms: self.now_ms, request: None, last: None });
    }

    fn commit_consumed(&mut self, who: Who, timeout_ms: u32) {
        let may = self.state == State::Stable || !self.subscription.is_group();
        if may && !self.commits.consumed.is_empty() {
            let offsets = std::mem::take(&mut self.commits.consumed).into_iter().collect();
            self.add(who, What::Commit(offsets), timeout_ms);
        }
    }

    /// A round waits for it as long as a rebalance may take.
    pub(crate) fn commit_before_rejoin(&mut self) {
        self.commit_consumed(Who::Rebalance, self.config.max_poll_interval_ms);
    }

    /// The last commit.
    pub(crate) fn commit_before_close(&mut self) {
        self.commit_consumed(Who::Close, self.config.api_timeout_ms);
    }

    fn commits_by_clock(&self) -> bool {
        self.config.auto_commit_interval_ms.is_some()
            && !self.leaving.is_leaving()
            && !self.commits.consumed.is_empty()
            && (self.state == State::Stable || !self.subscription.is_group())
            && !self.commits.works.iter().any(|work| work.who == Who::Clock)
    }

    pub(crate) fn next_commit(&self) -> Option<u64> {
        let known = self.coordinator().is_some();
        let idle = self.commits.works.iter().filter(|work| work.request.is_none());
        let retry = idle.filter(|_| known).map(|work| work.retry_at_ms).min();
        let deadline = self.commits.works.iter().map(|work| work.deadline_ms).min();
        let due = self.commits_by_clock().then_some(self.commits.due_ms);
        [retry, deadline, due].into_iter().flatten().min()
    }

    pub(crate) fn send_commits(&mut self) {
        if self.commits_by_clock() && self.commits.due_ms <= self.now_ms {
            self.commits.interval_starts(self.now_ms, &self.config);
            self.commit_consumed(Who::Clock, self.config.request_timeout_ms);
        }
        let mut at = 0;
        while at < self.commits.works.len() {
            let work = &self.commits.works[at];
            if work.deadline_ms <= self.now_ms {
                let failure = Failure::TimedOut { api: work.what.api(), last: work.last };
                self.end(at, Err(failure));
            } else if work.request.is_none()
                && let Some(failure) = self.refused_here(&self.commits.works[at].what)
            {
                self.end(at, Err(failure));
            } else {
                self.send_work(at);
                at += 1;
            }
        }
    }

    /// What a group would refuse anyway, because this member has no part in it at the moment.
    fn refused_here(&self, what: &What) -> Option<Failure> {
        if matches!(what, What::Fetch(_)) || !self.subscription.is_group() {
            return None;
        }
        match self.state {
            State::Stable => None,
            State::PreparingRebalance | State::CompletingRebalance => Some(Failure::RebalanceInProgress),
            State::Unjoined => Some(Failure::CommitFailed),
        }
    }

    fn send_work(&mut self, at: usize) {
        let work = &self.commits.works[at];
        if work.request.is_some() || work.retry_at_ms > self.now_ms {
            return;
        }
        let group_id = self.config.group_id.clone();
        // Who chose partitions by hand is no member, and says so.
        let identity = if self.subscription.is_group() { self.identity.clone() } else { Identity::nobody() };
        let (purpose, body) = match &work.what {
            What::Commit(offsets) => (
                Purpose::Commit,
                Request::OffsetCommit {
                    group_id,
                    generation: identity.generation,
                    member_id: identity.member_id,
                    instance_id: self.config.instance_id.clone().filter(|_| self.subscription.is_group()),
                    offsets: offsets.clone(),
                },
            ),
            What::Fetch(partitions) => {
                (Purpose::Fetch, Request::OffsetFetch { group_id, partitions: partitions.clone() })
            }
        };
        let request = self.ask(purpose, body, u64::from(self.config.request_timeout_ms));
        self.commits.works[at].request = request;
    }

    fn position(&self, request: RequestId) -> Option<usize> {
        self.commits.works.iter().position(|work| work.request == Some(request))
    }

    /// Not this time: again after a while.
    pub(crate) fn retry_commit(&mut self, request: RequestId, last: Option<ErrorCode>) {
        let wait_ms = self.spread(u64::from(self.config.retry_backoff_ms));
        if let Some(at) = self.position(request) {
            let work = &mut self.commits.works[at];
            work.request = None;
            work.last = last.or(work.last);
            work.retry_at_ms = self.now_ms + wait_ms;
        }
    }

    pub(crate) fn committed(&mut self, request: RequestId, asked_as: &Identity, codes: &[(Partition, ErrorCode)]) {
        let Some(at) = self.position(request) else { return };
        let of = |wanted: fn(Verdict) -> bool| {
            codes.iter().find(|(_, error)| wanted(errors::commit(*error))).map(|(_, error)| *error)
        };
        // What asking again would not heal comes first, then what concerns the member, then what may pass.
        let decisive = of(|verdict| matches!(verdict, Verdict::Fatal | Verdict::Fenced))
            .or_else(|| of(|verdict| matches!(verdict, Verdict::ResetFull | Verdict::ResetSoft | Verdict::Rejoin)))
            .or_else(|| of(|verdict| verdict == Verdict::Topics))
            .or_else(|| of(|verdict| verdict != Verdict::Good));
        let Some(error) = decisive else { return self.end(at, Ok(Vec::new())) };
        let same = self.is_still(asked_as);
        let passed = match self.state {
            State::PreparingRebalance => Failure::RebalanceInProgress,
            _ => Failure::CommitFailed,
        };
        let failure = match errors::commit(error) {
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
                self.reset("another process has the instance id");
                Failure::Answer { api: "OffsetCommit", error }
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
        error: ErrorCode,
        offsets: Vec<(Partition, Result<Option<Offset>, ErrorCode>)>,
    ) {
        let Some(at) = self.position(request) else { return };
        let of_one = offsets.iter().find_map(|(_, found)| found.as_ref().err().copied());
        let error = if error == ErrorCode::None { of_one.unwrap_or(ErrorCode::None) } else { error };
        let result = match errors::fetch(error) {
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

    /// Tells whoever asked. What the clock could not commit is committed by the next one that can.
    fn end(&mut self, at: usize, result: Result<Vec<(Partition, Option<Offset>)>, Failure>) {
        let work = self.commits.works.remove(at);
        match (work.who, work.what) {
            (Who::Application(commit), What::Commit(_)) => {
                let result = result.map(|_| ());
                self.tell(Notice::Committed { commit, result });
            }
            (Who::Application(fetch), What::Fetch(_)) => self.tell(Notice::Fetched { fetch, result }),
            (Who::Clock, What::Commit(offsets)) if result.is_err() => {
                for (partition, offset) in offsets {
                    if self.owned.contains(&partition) {
                        self.commits.consumed.entry(partition).or_insert(offset);
                    }
                }
            }
            _ => {}
        }
    }

    /// The coordinator cannot be found, for a reason that will not pass.
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
}

fn topics_failure<'a>(error: ErrorCode, codes: impl Iterator<Item = (&'a Partition, ErrorCode)>) -> Failure {
    let bad = codes.filter(|(_, code)| *code == error).map(|(partition, _)| partition.topic.clone());
    let topics: Vec<Arc<str>> = bad.collect::<BTreeSet<_>>().into_iter().collect();
    Failure::Topics { error, topics }
}
