//! A coordinator whose log keeps everything at once, and groups that come to Stable in it.

use std::collections::VecDeque;

use rota_bench::crowd::Seat;
use rota_core::{
    Answer, AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Record, Request, SelfCheck, Sink, Ticket,
    request::{Assignment, JoinGroup, Protocol, SyncGroup},
};

const SESSION_TIMEOUT_MS: i32 = 45_000;
const METADATA: [u8; 24] = [0; 24];
const ASSIGNMENT: [u8; 32] = [0; 32];

/// The coordinator and what it has said.
pub struct Stage {
    /// Active, with an empty log.
    pub coordinator: Coordinator,
    /// The time of the next event.
    pub now: Now,
    heard: Heard,
    requests: u128,
}

#[derive(Default)]
struct Heard {
    joined: Vec<(String, i32)>,
    refused: usize,
    appends: VecDeque<AppendId>,
    appended: u64,
}

impl Sink for Heard {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
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
        Stage { coordinator, now, heard, requests: 0 }
    }

    /// Groups of so many members, Stable, and the seats of all members.
    pub fn settled(groups: usize, members: usize) -> (Stage, Vec<Seat>) {
        let mut stage = Stage::new();
        let mut seats = Vec::with_capacity(groups * members);
        for group in 0..groups {
            let joined = stage.join(&format!("group-{group}"), members);
            stage.sync(&joined);
            seats.extend(joined);
        }
        (stage, seats)
    }

    /// A request; the log keeps what comes of it.
    pub fn submit(&mut self, request: Request<'_>) {
        self.requests += 1;
        let entropy = Entropy(self.requests << 64);
        self.coordinator.submit(self.now, Ticket(0), entropy, request, &mut self.heard);
        self.keep();
    }

    /// All members of a new group join, until each has heard its generation.
    pub fn join(&mut self, group: &str, members: usize) -> Vec<Seat> {
        for _ in 0..members {
            let join = JoinGroup {
                version: 3,
                group_id: Some(group),
                member_id: "",
                instance_id: None,
                client_id: "consumer-1",
                client_host: "/127.0.0.1",
                session_timeout_ms: SESSION_TIMEOUT_MS,
                rebalance_timeout_ms: 60_000,
                protocol_type: "consumer",
                protocols: &[Protocol { name: "range", metadata: &METADATA }],
                reason: None,
            };
            self.submit(Request::JoinGroup(join));
        }
        // The first deadline finds that others have joined meanwhile, and gives them as much time again: none.
        for _ in 0..2 {
            self.coordinator.advance(self.now, &mut self.heard);
            self.keep();
        }
        let joined = std::mem::take(&mut self.heard.joined);
        assert!(joined.len() == members, "{} of {members} members have joined {group}", joined.len());
        let seat = |(member_id, generation)| Seat { group: group.to_owned(), member_id, generation };
        joined.into_iter().map(seat).collect()
    }

    /// All members of a group sync, the first of them with a plan, whoever leads.
    pub fn sync(&mut self, seats: &[Seat]) {
        let plan: Vec<Assignment<'_>> =
            seats.iter().map(|seat| Assignment { member_id: &seat.member_id, assignment: &ASSIGNMENT }).collect();
        for seat in seats {
            let sync = SyncGroup {
                version: 3,
                group_id: Some(&seat.group),
                generation: seat.generation,
                member_id: &seat.member_id,
                instance_id: None,
                protocol_type: None,
                protocol_name: None,
                assignments: &plan,
            };
            self.submit(Request::SyncGroup(sync));
        }
    }

    /// Nothing was refused: what is refused is cheaper, and would not be worth counting.
    pub fn assert_all_good(&self) {
        assert!(self.heard.refused == 0, "{} requests were refused", self.heard.refused);
    }

    fn keep(&mut self) {
        while let Some(id) = self.heard.appends.pop_front() {
            self.coordinator.appended(id, Ok(self.heard.appended), self.now, &mut self.heard);
            self.heard.appended += 1;
        }
    }
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::new()
    }
}
