//! A coordinator whose log completes every append at once, and Stable groups in it.

use std::collections::VecDeque;

use rota_core::{
    Answer, AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Record, Request, SelfCheck, Sink, Ticket,
    request::{Assignment, JoinGroup, Protocol, SyncGroup},
};

use crate::{BenchError, crowd::Seat};

const SESSION_TIMEOUT_MS: i32 = 45_000;
const REBALANCE_TIMEOUT_MS: i32 = 60_000;
/// The protocol that each member offers.
const OFFERED: [Protocol<'static>; 1] = [Protocol { name: "range", metadata: &[0; 24] }];
/// The assignment of each member.
const ASSIGNMENT: [u8; 32] = [0; 32];

/// A coordinator with its answers.
pub struct Stage {
    /// The coordinator, active with an empty log.
    pub coordinator: Coordinator,
    /// The time of the next event.
    pub now: Now,
    /// Session timeout of new members in milliseconds.
    pub session_timeout_ms: i32,
    /// Rebalance timeout of new members in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// Offset of the next append.
    pub(crate) appended: u64,
    /// Number of requests so far; each gets its own entropy.
    pub(crate) requests: u128,
    pub(crate) answers: Answers,
}

/// An answer to a member.
pub(crate) enum MemberAnswer {
    Joined {
        member_id: String,
        generation: i32,
        /// All ids of the group, for its leader.
        others: Vec<String>,
    },
    Synced,
    Beat(ErrorCode),
    Left(ErrorCode),
    Refused(ErrorCode),
}

/// Answers of the coordinator.
#[derive(Default)]
pub(crate) struct Answers {
    /// Whether all answers are kept, or only joins and the number of refusals.
    pub is_followed: bool,
    pub received: VecDeque<(Ticket, MemberAnswer)>,
    joined: Vec<(String, i32)>,
    refused: usize,
    pub appends: VecDeque<AppendId>,
}

impl MemberAnswer {
    fn of(answer: &Answer<'_>) -> MemberAnswer {
        match answer {
            Answer::JoinGroup(joined) if joined.error == ErrorCode::None => MemberAnswer::Joined {
                member_id: joined.member_id.to_owned(),
                generation: joined.generation,
                others: joined.members.iter().map(|member| member.member_id.to_owned()).collect(),
            },
            Answer::JoinGroup(refused) => MemberAnswer::Refused(refused.error),
            Answer::SyncGroup(synced) if synced.error == ErrorCode::None => MemberAnswer::Synced,
            Answer::SyncGroup(refused) => MemberAnswer::Refused(refused.error),
            Answer::Heartbeat(error) => MemberAnswer::Beat(*error),
            Answer::LeaveGroup(left) => MemberAnswer::Left(left.error),
            _ => MemberAnswer::Refused(ErrorCode::UnknownServerError),
        }
    }
}

impl Answers {
    fn count(&mut self, answer: &Answer<'_>) {
        match answer {
            Answer::JoinGroup(joined) if joined.error == ErrorCode::None => {
                self.joined.push((joined.member_id.to_owned(), joined.generation));
            }
            Answer::SyncGroup(synced) if synced.error == ErrorCode::None => {}
            Answer::OffsetCommit(committed) => {
                let mut codes = committed.topics.iter().flat_map(|topic| &topic.partitions);
                self.refused += usize::from(codes.any(|(_, code)| *code != ErrorCode::None));
            }
            Answer::LeaveGroup(left) => {
                let mut codes = left.members.iter().map(|member| member.error).chain([left.error]);
                self.refused += usize::from(codes.any(|code| code != ErrorCode::None));
            }
            _ => self.refused += 1,
        }
    }
}

impl Sink for Answers {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        if self.is_followed {
            self.received.push_back((ticket, MemberAnswer::of(&answer)));
        } else {
            self.count(&answer);
        }
    }

    fn append(&mut self, id: AppendId, _: &[Record]) {
        self.appends.push_back(id);
    }
}

impl Stage {
    /// Creates a coordinator without groups.
    pub fn new() -> Stage {
        let config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
        let mut coordinator = Coordinator::new(config, 0, 0);
        coordinator.check_itself(SelfCheck::Never);
        let (now, mut answers) = (Now { mono_ms: 0, wall_ms: 1_700_000_000_000 }, Answers::default());
        coordinator.loaded(now, &mut answers);
        Stage {
            coordinator,
            now,
            session_timeout_ms: SESSION_TIMEOUT_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            appended: 0,
            requests: 0,
            answers,
        }
    }

    /// Creates Stable groups of `members` members. Returns the seats of all members.
    pub fn settled(groups: usize, members: usize) -> Result<(Stage, Vec<Seat>), BenchError> {
        let mut stage = Stage::new();
        let seats = stage.settle(groups * members, members)?;
        Ok((stage, seats))
    }

    /// Adds members in Stable groups of `width`; the last group may be smaller.
    pub fn settle(&mut self, members: usize, width: usize) -> Result<Vec<Seat>, BenchError> {
        let mut seats = Vec::with_capacity(members);
        while seats.len() < members {
            let joined = self.join(&format!("group-{}", seats.len() / width), width.min(members - seats.len()))?;
            self.sync(&joined);
            seats.extend(joined);
        }
        self.all_good()?;
        Ok(seats)
    }

    /// Submits a request and completes its appends.
    pub fn submit(&mut self, request: Request<'_>) {
        self.ask(Ticket(0), request);
        self.keep();
    }

    /// Submits a request. Its appends stay in `answers` until `keep`.
    pub(crate) fn ask(&mut self, ticket: Ticket, request: Request<'_>) {
        self.requests += 1;
        self.coordinator.submit(self.now, ticket, Entropy(self.requests << 64), request, &mut self.answers);
    }

    /// Joins all members of a new group until each has its generation.
    pub fn join(&mut self, group: &str, members: usize) -> Result<Vec<Seat>, BenchError> {
        for _ in 0..members {
            self.submit(join_request(group, "", self.session_timeout_ms, self.rebalance_timeout_ms));
        }
        // The first deadline finds new joins, and extends the delay by 0.
        for _ in 0..2 {
            self.advance();
            self.keep();
        }
        let joined = std::mem::take(&mut self.answers.joined);
        if joined.len() != members {
            return Err(BenchError(format!("{} of {members} members have joined {group}", joined.len())));
        }
        let seat = |(member_id, generation)| Seat { group: group.to_owned(), member_id, generation };
        Ok(joined.into_iter().map(seat).collect())
    }

    /// Syncs all members of a group. The first one sends the plan.
    pub fn sync(&mut self, seats: &[Seat]) {
        let plan = plan_for(seats.iter().map(|seat| &*seat.member_id));
        for seat in seats {
            self.submit(sync_request(seat, &plan));
        }
    }

    /// Fails if a request was refused: refusals are cheaper, and their time has no meaning.
    pub fn all_good(&self) -> Result<(), BenchError> {
        match self.answers.refused {
            0 => Ok(()),
            refused => Err(BenchError(format!("{refused} of {} requests were refused", self.requests))),
        }
    }

    /// Advances time and fires what is due.
    pub(crate) fn advance(&mut self) {
        self.coordinator.advance(self.now, &mut self.answers);
    }

    /// Completes all appends.
    pub(crate) fn keep(&mut self) {
        while let Some(id) = self.answers.appends.pop_front() {
            self.coordinator.appended(id, Ok(self.appended), self.now, &mut self.answers);
            self.appended += 1;
        }
    }
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::new()
    }
}

/// Returns the join of a consumer; an empty `member_id` is a new member.
pub(crate) fn join_request<'a>(
    group: &'a str,
    member_id: &'a str,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
) -> Request<'a> {
    Request::JoinGroup(JoinGroup {
        version: 3,
        group_id: Some(group),
        member_id,
        instance_id: None,
        client_id: "consumer-1",
        client_host: "/127.0.0.1",
        session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: "consumer",
        protocols: &OFFERED,
        reason: None,
    })
}

/// Returns the sync of a member, with or without a plan.
pub(crate) fn sync_request<'a>(seat: &'a Seat, plan: &'a [Assignment<'a>]) -> Request<'a> {
    Request::SyncGroup(SyncGroup {
        version: 3,
        group_id: Some(&seat.group),
        generation: seat.generation,
        member_id: &seat.member_id,
        instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: plan,
    })
}

/// Returns a plan with the same assignment for every member.
pub(crate) fn plan_for<'a>(members: impl Iterator<Item = &'a str>) -> Vec<Assignment<'a>> {
    members.map(|member_id| Assignment { member_id, assignment: &ASSIGNMENT }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_cannot_join_are_an_error_and_no_panic() {
        let mut stage = Stage::new();
        stage.session_timeout_ms = 0;
        let error = stage.settle(3, 2).unwrap_err();
        assert_eq!(error.to_string(), "0 of 2 members have joined group-0");
    }

    #[test]
    fn a_request_that_was_refused_is_an_error() {
        let mut stage = Stage::new();
        stage.submit(join_request("group", "nobody", SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS));
        let error = stage.settle(2, 2).unwrap_err();
        assert_eq!(error.to_string(), "1 of 5 requests were refused");
    }
}
