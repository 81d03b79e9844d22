//! A coordinator whose log keeps everything at once, and groups that come to Stable in it.

use std::collections::VecDeque;

use rota_core::{
    Answer, AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Record, Request, SelfCheck, Sink, Ticket,
    request::{Assignment, JoinGroup, Protocol, SyncGroup},
};

use crate::{BenchError, crowd::Seat};

const SESSION_TIMEOUT_MS: i32 = 45_000;
const REBALANCE_TIMEOUT_MS: i32 = 60_000;
/// What each member offers.
const OFFERED: [Protocol<'static>; 1] = [Protocol { name: "range", metadata: &[0; 24] }];
/// What each member is given.
const ASSIGNMENT: [u8; 32] = [0; 32];

/// The coordinator and what it has said.
pub struct Stage {
    /// Active, with an empty log.
    pub coordinator: Coordinator,
    /// The time of the next event.
    pub now: Now,
    /// Of those who join.
    pub session_timeout_ms: i32,
    /// Of those who join.
    pub rebalance_timeout_ms: i32,
    /// Offset of the next append.
    pub(crate) appended: u64,
    /// So far: no two have the same entropy.
    pub(crate) requests: u128,
    pub(crate) heard: Heard,
}

/// What a member is told.
pub(crate) enum Told {
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

/// What the coordinator has said.
#[derive(Default)]
pub(crate) struct Heard {
    /// Whether what is told is kept; or only who has joined, and how much was refused.
    pub is_followed: bool,
    pub told: VecDeque<(Ticket, Told)>,
    joined: Vec<(String, i32)>,
    refused: usize,
    pub appends: VecDeque<AppendId>,
}

impl Told {
    fn of(answer: &Answer<'_>) -> Told {
        match answer {
            Answer::JoinGroup(joined) if joined.error == ErrorCode::None => Told::Joined {
                member_id: joined.member_id.to_owned(),
                generation: joined.generation,
                others: joined.members.iter().map(|member| member.member_id.to_owned()).collect(),
            },
            Answer::JoinGroup(refused) => Told::Refused(refused.error),
            Answer::SyncGroup(synced) if synced.error == ErrorCode::None => Told::Synced,
            Answer::SyncGroup(refused) => Told::Refused(refused.error),
            Answer::Heartbeat(error) => Told::Beat(*error),
            Answer::LeaveGroup(left) => Told::Left(left.error),
            _ => Told::Refused(ErrorCode::UnknownServerError),
        }
    }
}

impl Heard {
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
            _ => self.refused += 1,
        }
    }
}

impl Sink for Heard {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        if self.is_followed {
            self.told.push_back((ticket, Told::of(&answer)));
        } else {
            self.count(&answer);
        }
    }

    fn append(&mut self, id: AppendId, _: &[Record]) {
        self.appends.push_back(id);
    }
}

impl Stage {
    /// Without groups.
    pub fn new() -> Stage {
        let config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
        let mut coordinator = Coordinator::new(config, 0, 0);
        coordinator.check_itself(SelfCheck::Never);
        let (now, mut heard) = (Now { mono_ms: 0, wall_ms: 1_700_000_000_000 }, Heard::default());
        coordinator.loaded(now, &mut heard);
        Stage {
            coordinator,
            now,
            session_timeout_ms: SESSION_TIMEOUT_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            appended: 0,
            requests: 0,
            heard,
        }
    }

    /// Groups of so many members, Stable, and the seats of all members.
    pub fn settled(groups: usize, members: usize) -> Result<(Stage, Vec<Seat>), BenchError> {
        let mut stage = Stage::new();
        let seats = stage.settle(groups * members, members)?;
        Ok((stage, seats))
    }

    /// So many members in groups of `width`, the last of which may be smaller: Stable.
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

    /// A request of somebody who does not follow up on it; the log keeps what comes of it.
    pub fn submit(&mut self, request: Request<'_>) {
        self.ask(Ticket(0), request);
        self.keep();
    }

    /// A request. What it appends lies in `heard` until `keep`.
    pub(crate) fn ask(&mut self, ticket: Ticket, request: Request<'_>) {
        self.requests += 1;
        self.coordinator.submit(self.now, ticket, Entropy(self.requests << 64), request, &mut self.heard);
    }

    /// All members of a new group join, until each has heard its generation.
    pub fn join(&mut self, group: &str, members: usize) -> Result<Vec<Seat>, BenchError> {
        for _ in 0..members {
            self.submit(join_request(group, "", self.session_timeout_ms, self.rebalance_timeout_ms));
        }
        // The first deadline finds that others have joined meanwhile, and gives them as much time again: none.
        for _ in 0..2 {
            self.advance();
            self.keep();
        }
        let joined = std::mem::take(&mut self.heard.joined);
        if joined.len() != members {
            return Err(BenchError(format!("{} of {members} members have joined {group}", joined.len())));
        }
        let seat = |(member_id, generation)| Seat { group: group.to_owned(), member_id, generation };
        Ok(joined.into_iter().map(seat).collect())
    }

    /// All members of a group sync, the first of them with a plan, whoever leads.
    pub fn sync(&mut self, seats: &[Seat]) {
        let plan = plan_for(seats.iter().map(|seat| &*seat.member_id));
        for seat in seats {
            self.submit(sync_request(seat, &plan));
        }
    }

    /// An error if something was refused: that is cheaper, and would not be worth counting.
    pub fn all_good(&self) -> Result<(), BenchError> {
        match self.heard.refused {
            0 => Ok(()),
            refused => Err(BenchError(format!("{refused} of {} requests were refused", self.requests))),
        }
    }

    /// Time has passed: whatever is due fires.
    pub(crate) fn advance(&mut self) {
        self.coordinator.advance(self.now, &mut self.heard);
    }

    /// The log keeps everything at once.
    pub(crate) fn keep(&mut self) {
        while let Some(id) = self.heard.appends.pop_front() {
            self.coordinator.appended(id, Ok(self.appended), self.now, &mut self.heard);
            self.appended += 1;
        }
    }
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::new()
    }
}

/// A consumer joins; with an empty `member_id` as somebody new.
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

/// A member syncs, with a plan or without one.
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

/// Every member is given as much.
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
