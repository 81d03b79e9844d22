//! One coordinator, a clock that is moved by hand, and a log that ends each append on request.

use std::collections::BTreeMap;

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Projection, Record, Request, Sink, State, Ticket,
    effects::Moment,
    explain::Rebalance,
    request::{
        Assignment, CommitPartition, CommitTopic, JoinGroup, LeaveGroup, LeaveIdentity, OffsetCommit, Protocol,
        SyncGroup,
    },
    response::Answer,
};

/// What a request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub error: ErrorCode,
    /// Joins: the member id in the answer.
    pub member_id: String,
    /// Joins: the generation in the answer.
    pub generation: i32,
    /// Joins: the members in the answer, each with its metadata.
    pub listed: Vec<(String, Vec<u8>)>,
    /// Syncs: the assignment.
    pub assignment: Vec<u8>,
}

/// What the coordinator did.
#[derive(Default)]
pub struct Effects {
    pub replies: BTreeMap<Ticket, Vec<Reply>>,
    /// The rebalances that the observer received, each with its new generation.
    pub moments: Vec<(Moment, Option<i32>)>,
    pub appends: Vec<(AppendId, Vec<Record>)>,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let nothing = Reply {
            error: ErrorCode::None,
            member_id: String::new(),
            generation: -1,
            listed: vec![],
            assignment: vec![],
        };
        let reply = match answer {
            Answer::JoinGroup(join) => Reply {
                error: join.error,
                member_id: join.member_id.to_owned(),
                generation: join.generation,
                listed: join
                    .members
                    .iter()
                    .map(|member| (member.member_id.to_owned(), member.metadata.to_vec()))
                    .collect(),
                ..nothing
            },
            Answer::SyncGroup(sync) => Reply { error: sync.error, assignment: sync.assignment.to_vec(), ..nothing },
            Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => Reply { error, ..nothing },
            Answer::LeaveGroup(leave) => Reply { error: leave.error, ..nothing },
            Answer::OffsetCommit(commit) => Reply { error: commit.topics[0].partitions[0].1, ..nothing },
            Answer::OffsetFetch(fetch) => Reply { error: fetch.error, ..nothing },
            Answer::DescribeGroup(describe) => Reply { error: describe.error, ..nothing },
            Answer::ListGroups(list) => Reply { error: list.error, ..nothing },
            Answer::DeleteGroup(delete) => Reply { error: delete.error, ..nothing },
            Answer::OffsetDelete(delete) => Reply { error: delete.error, ..nothing },
            Answer::ConsumerGroupHeartbeat(heartbeat) => Reply { error: heartbeat.error, ..nothing },
            Answer::ConsumerGroupDescribe(describe) => Reply { error: describe.error, ..nothing },
        };
        self.replies.entry(ticket).or_default().push(reply);
    }

    fn rebalance(&mut self, _group_id: &str, moment: Moment, rebalance: &Rebalance) {
        self.moments.push((moment, rebalance.to_generation));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.appends.push((append_id, records.to_vec()));
    }
}

/// A JoinGroup of group "g", to be sent.
#[derive(Clone)]
pub struct Joining<'a> {
    pub member_id: &'a str,
    pub instance: Option<&'a str>,
    pub host: &'a str,
    pub session_ms: i32,
    pub rebalance_ms: i32,
    pub offers: &'a [&'a str],
}

/// A static member's first join.
pub fn joining(instance: &str) -> Joining<'_> {
    Joining {
        member_id: "",
        instance: Some(instance),
        host: "/127.0.0.1",
        session_ms: 10_000,
        rebalance_ms: 60_000,
        offers: &["range"],
    }
}

pub struct Scene {
    pub coordinator: Coordinator,
    pub effects: Effects,
    now_ms: u64,
    tickets: u64,
}

/// No initial delay, and any session timeout.
pub fn config() -> Config {
    Config { group_min_session_timeout_ms: 1, group_initial_rebalance_delay_ms: 0, ..Config::default() }
}

impl Scene {
    pub fn new(config: Config) -> Scene {
        let mut scene = Scene::around(Coordinator::new(config, 0, 0));
        let now = scene.now();
        scene.coordinator.loaded(now, &mut scene.effects);
        scene
    }

    pub fn around(coordinator: Coordinator) -> Scene {
        Scene { coordinator, effects: Effects::default(), now_ms: 0, tickets: 0 }
    }

    pub fn now(&self) -> Now {
        Now { mono_ms: self.now_ms, wall_ms: 1_000 + self.now_ms as i64 }
    }

    pub fn send(&mut self, request: Request<'_>) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let entropy = Entropy(u128::from(self.tickets).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let now = self.now();
        self.coordinator.submit(now, ticket, entropy, request, &mut self.effects);
        ticket
    }

    pub fn join(&mut self, joining: &Joining<'_>) -> Ticket {
        let protocols: Vec<Protocol<'_>> =
            joining.offers.iter().map(|name| Protocol { name, metadata: b"\0\0" }).collect();
        self.send(Request::JoinGroup(JoinGroup {
            version: 5,
            group_id: Some("g"),
            member_id: joining.member_id,
            instance_id: joining.instance,
            client_id: "c",
            client_host: joining.host,
            session_timeout_ms: joining.session_ms,
            rebalance_timeout_ms: joining.rebalance_ms,
            protocol_type: "consumer",
            protocols: &protocols,
            reason: None,
        }))
    }

    pub fn sync(&mut self, member_id: &str, generation: i32, plan: &[(&str, &[u8])]) -> Ticket {
        let assignments: Vec<Assignment<'_>> =
            plan.iter().map(|(member_id, assignment)| Assignment { member_id, assignment }).collect();
        self.send(Request::SyncGroup(SyncGroup {
            version: 3,
            group_id: Some("g"),
            generation,
            member_id,
            instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: &assignments,
        }))
    }

    pub fn leave(&mut self, member_ids: &[&str]) -> Ticket {
        let members: Vec<LeaveIdentity<'_>> =
            member_ids.iter().map(|member_id| LeaveIdentity { member_id, instance_id: None, reason: None }).collect();
        self.send(Request::LeaveGroup(LeaveGroup { version: 3, group_id: Some("g"), members: &members }))
    }

    /// A commit without a member id, for so many partitions.
    pub fn commit(&mut self, group: &str, topic: &str, partitions: i32) -> Ticket {
        let partitions: Vec<CommitPartition<'_>> = (0..partitions)
            .map(|index| CommitPartition { index, offset: 5, leader_epoch: -1, metadata: None })
            .collect();
        let topics = [CommitTopic { name: topic, topic_id: 0, partitions: &partitions }];
        self.send(Request::OffsetCommit(OffsetCommit {
            version: 5,
            group_id: Some(group),
            generation: -1,
            member_id: "",
            instance_id: None,
            retention_time_ms: None,
            topics: &topics,
        }))
    }

    pub fn delete_topic(&mut self, topic: &str) {
        let now = self.now();
        self.coordinator.topics_deleted(&[topic], now, &mut self.effects);
    }

    /// The newest append.
    pub fn newest(&self) -> AppendId {
        self.effects.appends.last().expect("something was appended").0
    }

    pub fn records(&self, append_id: AppendId) -> &[Record] {
        let append = self.effects.appends.iter().find(|(other, _)| *other == append_id);
        &append.expect("it was appended").1
    }

    pub fn end(&mut self, append_id: AppendId, result: Result<u64, ErrorCode>) {
        let now = self.now();
        self.coordinator.appended(append_id, result, now, &mut self.effects);
    }

    /// The newest append is durable.
    pub fn store(&mut self) {
        self.end(self.newest(), Ok(0));
    }

    /// The newest append is not durable, and never will be.
    pub fn fail(&mut self, append_id: AppendId) {
        self.end(append_id, Err(ErrorCode::NotEnoughReplicas));
    }

    /// Time goes on to this moment, and everything that is due happens.
    pub fn until(&mut self, now_ms: u64) {
        for _ in 0..4 {
            self.step(now_ms);
        }
    }

    /// Time goes on to this moment, and what is due now happens; what that makes due waits.
    pub fn step(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let now = self.now();
        self.coordinator.advance(now, &mut self.effects);
    }

    pub fn is_open(&self, ticket: Ticket) -> bool {
        !self.effects.replies.contains_key(&ticket)
    }

    /// The one answer of a request.
    pub fn reply(&self, ticket: Ticket) -> &Reply {
        let replies = self.effects.replies.get(&ticket).map_or(&[][..], Vec::as_slice);
        assert_eq!(replies.len(), 1, "{ticket:?} was answered {replies:?}");
        &replies[0]
    }

    pub fn group(&self) -> Projection {
        self.coordinator.project("g").expect("the group is there")
    }

    pub fn member_ids(&self) -> Vec<String> {
        self.group().members.iter().map(|member| member.member_id.to_string()).collect()
    }

    /// Static members i0, who leads, and i1 in generation 1, whose plan is still to come.
    pub fn two_joined(&mut self, first: &Joining<'_>, second: &Joining<'_>) -> (String, String) {
        let leader = self.join(first);
        self.store();
        let follower = self.join(second);
        self.until(self.now_ms);
        (self.reply(leader).member_id.clone(), self.reply(follower).member_id.clone())
    }

    /// The same in Stable, with the assignments A and B.
    pub fn two_stable(&mut self, first: &Joining<'_>, second: &Joining<'_>) -> (String, String) {
        let (leader, follower) = self.two_joined(first, second);
        self.sync(&leader, 1, &[(&leader, b"A"), (&follower, b"B")]);
        self.sync(&follower, 1, &[]);
        self.store();
        assert_eq!(self.group().state, State::Stable);
        (leader, follower)
    }
}
