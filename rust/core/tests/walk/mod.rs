//! A world of clients that do anything at all, and a record of what they were told.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, LogEntry, Now, Record, Request, Sink, State, Ticket,
    request::{
        Assignment, CommitPartition, CommitTopic, DescribeGroup, FetchTopic, Heartbeat, JoinGroup, LeaveGroup,
        LeaveIdentity, ListGroups, OffsetCommit, OffsetFetch, Protocol, SyncGroup,
    },
    response::{Answer, JoinAnswer},
};

const GROUPS: [&str; 2] = ["g", "h"];
const PROTOCOLS: [&str; 3] = ["range", "roundrobin", "sticky"];
const INSTANCES: [&str; 2] = ["i1", "i2"];

/// What a wrong coordinator, or a wrong road from it, would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    AnswerTwice,
    AnswerNever,
    GenerationBack,
    AnotherLeader,
    WrongAssignment,
    LostRecord,
    EarlyAnswer,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::AnswerTwice,
        Fault::AnswerNever,
        Fault::GenerationBack,
        Fault::AnotherLeader,
        Fault::WrongAssignment,
        Fault::LostRecord,
        Fault::EarlyAnswer,
    ];
}

/// xorshift64*: the walk is the seed's alone.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }

    fn chance(&mut self, in_hundred: usize) -> bool {
        self.roll(100) < in_hundred
    }
}

/// An identity that a client knows of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    group: &'static str,
    member_id: String,
    instance: Option<&'static str>,
}

/// What clients were told.
#[derive(Clone, Default)]
pub struct History {
    /// Per (group, life, generation): the leaders that were told that they lead, in order.
    leaders: BTreeMap<(String, u32, i32), Vec<String>>,
    /// Per (group, life, generation): the plan that its leader handed in first.
    plans: BTreeMap<(String, u32, i32), BTreeMap<String, Vec<u8>>>,
    generations: BTreeMap<(String, u32), i32>,
    sightings: BTreeMap<&'static str, usize>,
}

impl History {
    pub fn absorb(&mut self, other: &History) {
        for (what, count) in &other.sightings {
            *self.sightings.entry(what).or_default() += count;
        }
    }

    pub fn sightings(&self) -> Vec<(&'static str, usize)> {
        let expected = [
            "success JoinGroup",
            "success SyncGroup",
            "success OffsetCommit",
            "MEMBER_ID_REQUIRED",
            "ILLEGAL_GENERATION",
            "UNKNOWN_MEMBER_ID",
            "REBALANCE_IN_PROGRESS",
            "INCONSISTENT_GROUP_PROTOCOL",
            "GROUP_MAX_SIZE_REACHED",
            "FENCED_INSTANCE_ID",
            "NOT_COORDINATOR",
            "COORDINATOR_NOT_AVAILABLE",
            "skip_assignment",
            "reload",
            "unload",
        ];
        expected.iter().map(|what| (*what, self.sightings.get(what).copied().unwrap_or(0))).collect()
    }

    fn see(&mut self, what: &'static str) {
        *self.sightings.entry(what).or_default() += 1;
    }
}

/// Collects one event's effects.
#[derive(Default)]
struct Effects {
    answers: Vec<(Ticket, String, ErrorCode, Option<Told>)>,
    appends: Vec<(AppendId, Vec<Record>)>,
}

/// The part of a success answer that the history keeps.
enum Told {
    Join { member_id: String, generation: i32, leader: String, listed: Vec<String>, skip: bool },
    Sync { assignment: Vec<u8> },
    Commit,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let text = format!("{answer:?}");
        let (error, told) = match &answer {
            Answer::JoinGroup(join) => (join.error, (join.error == ErrorCode::None).then(|| told_join(join))),
            Answer::SyncGroup(sync) => {
                let told = Told::Sync { assignment: sync.assignment.to_vec() };
                (sync.error, (sync.error == ErrorCode::None).then_some(told))
            }
            Answer::Heartbeat(error) => (*error, None),
            Answer::LeaveGroup(leave) => (leave.error, None),
            Answer::OffsetCommit(commit) => {
                let error = commit.topics[0].partitions[0].1;
                (error, (error == ErrorCode::None).then_some(Told::Commit))
            }
            Answer::OffsetFetch(fetch) => (fetch.error, None),
            Answer::DescribeGroup(describe) => (describe.error, None),
            Answer::ListGroups(list) => (list.error, None),
        };
        self.answers.push((ticket, text, error, told));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.appends.push((append_id, records.to_vec()));
    }
}

fn told_join(join: &JoinAnswer<'_>) -> Told {
    Told::Join {
        member_id: join.member_id.to_owned(),
        generation: join.generation,
        leader: join.leader.to_owned(),
        listed: join.members.iter().map(|member| member.member_id.to_owned()).collect(),
        skip: join.skip_assignment,
    }
}

/// A request whose answer is outstanding.
#[derive(Clone)]
struct Open {
    known: Known,
    kind: &'static str,
    generation: i32,
    appends_before: u64,
}

#[derive(Clone)]
pub struct World {
    pub coordinator: Coordinator,
    pub history: History,
    pub transcript: Vec<String>,
    pub fault: Option<Fault>,
    dice: Dice,
    now: Now,
    tickets: u64,
    open: BTreeMap<Ticket, Open>,
    known: BTreeSet<Known>,
    generations: BTreeMap<&'static str, i32>,
    in_flight: Vec<(AppendId, Vec<Record>)>,
    log: Vec<Record>,
    /// Replacement chains: an id and the ids that its instance had before (S1).
    chains: BTreeMap<String, BTreeSet<String>>,
    /// What each member offered last: protocol names and metadata.
    offers: BTreeMap<String, (Vec<&'static str>, [u8; 2])>,
    life: u32,
    log_fails: bool,
    seed: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut world = World {
            coordinator: Coordinator::new(config(seed), 0, 0),
            history: History::default(),
            transcript: Vec::new(),
            fault: None,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 },
            tickets: 0,
            open: BTreeMap::new(),
            known: BTreeSet::new(),
            generations: BTreeMap::new(),
            in_flight: Vec::new(),
            log: Vec::new(),
            chains: BTreeMap::new(),
            offers: BTreeMap::new(),
            life: 0,
            log_fails: true,
            seed,
        };
        let now = world.now;
        world.event("loaded".to_owned(), |coordinator, effects| coordinator.loaded(now, effects));
        world
    }

    pub fn step(&mut self) {
        match self.dice.roll(100) {
            0..10 => self.join(),
            10..34 => self.sync(),
            34..46 => self.heartbeat(),
            46..50 => self.leave(),
            50..58 => self.commit(),
            58..62 => self.fetch(),
            62..64 => self.look(),
            64..82 => self.tick(),
            82..97 => self.finish_append(),
            97 => self.forget_topic(),
            98 if self.dice.chance(20) => self.reload(),
            _ => self.beat_by_handle(),
        }
    }

    /// Lets everything end: after it no request is open (L1–L4 as bounded safety).
    pub fn settle(&mut self) {
        self.log_fails = false;
        // What an earlier append failed to store goes with the next one, so there has to be one.
        let writer = Known { group: "writer", member_id: String::new(), instance: None };
        self.commit_to(&writer, -1);
        for _ in 0..400 {
            while !self.in_flight.is_empty() {
                self.finish_append();
            }
            self.pass(5_000);
        }
        assert!(self.open.is_empty(), "requests were never answered: {:?}", self.open.keys());
        assert_eq!(self.coordinator.next_deadline(), None, "nothing is left to wait for");
        self.compare_replay();
    }

    fn event(&mut self, what: String, act: impl FnOnce(&mut Coordinator, &mut Effects)) {
        let mut effects = Effects::default();
        act(&mut self.coordinator, &mut effects);
        self.coordinator.check_invariants().expect("the invariants hold");
        self.transcript.push(what);
        for (append_id, records) in effects.appends {
            self.transcript.push(format!("append {append_id:?} {records:?}"));
            self.in_flight.push((append_id, records));
        }
        for (ticket, text, error, told) in effects.answers {
            self.transcript.push(format!("answer {ticket:?} {text}"));
            self.answered(ticket, error, told);
        }
        for group in GROUPS {
            if let Some(projection) = self.coordinator.project(group) {
                let reached = self.history.generations.entry((group.to_owned(), self.life)).or_default();
                let generation = match self.fault {
                    Some(Fault::GenerationBack) if projection.generation > 2 => 1,
                    _ => projection.generation,
                };
                // A group that dissolved with its first record begins again at 0.
                assert!(generation >= *reached || generation == 0, "S4: {generation} after {reached}");
                *reached = generation;
                self.generations.insert(group, projection.generation);
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, error: ErrorCode, told: Option<Told>) {
        if self.fault == Some(Fault::AnswerNever) && ticket.0 % 50 == 49 {
            return;
        }
        let open = self.open.remove(&ticket).expect("S18: only an open ticket is answered, and once");
        if self.fault == Some(Fault::AnswerTwice) && ticket.0 % 50 == 49 {
            self.open.remove(&ticket).expect("S18: only an open ticket is answered, and once");
        }
        if error != ErrorCode::None {
            self.history.see(error.name());
        }
        match told {
            Some(Told::Join { member_id, generation, leader, listed, skip }) => {
                self.history.see("success JoinGroup");
                self.told_join(&open.known, &member_id, generation, &leader, &listed, skip);
            }
            Some(Told::Sync { mut assignment }) => {
                self.history.see("success SyncGroup");
                if self.fault == Some(Fault::WrongAssignment) {
                    assignment.push(0);
                }
                self.told_assignment(&open, &assignment);
            }
            Some(Told::Commit) => {
                self.history.see("success OffsetCommit");
                self.assert_durable(open.appends_before, "S26: a commit is durable before it is told");
            }
            None => {}
        }
    }

    fn told_join(&mut self, known: &Known, id: &str, generation: i32, leader: &str, listed: &[String], skip: bool) {
        if skip {
            self.history.see("skip_assignment");
        }
        if let Some(instance) = known.instance {
            let same = |old: &Known| old.instance == Some(instance) && old.group == known.group && old.member_id != id;
            let before = self.known.iter().filter(|old| same(old)).map(|old| old.member_id.clone());
            self.chains.entry(id.to_owned()).or_insert_with(|| before.collect());
        }
        self.known.insert(Known { member_id: id.to_owned(), ..known.clone() });
        if listed.is_empty() {
            return;
        }
        let leader = match self.fault {
            Some(Fault::AnotherLeader) => format!("{leader}-{}", self.tickets),
            _ => leader.to_owned(),
        };
        assert!(leader == id || self.fault.is_some(), "S9: the list goes only to the leader");
        assert!(listed.iter().any(|member| member == id), "S9: the leader is on its own list");
        let key = (known.group.to_owned(), self.life, generation);
        let leaders = self.history.leaders.entry(key).or_default();
        let chain = self.chains.get(id);
        let inherits = |other: &String| chain.is_some_and(|chain| chain.contains(other));
        let succeeds = leaders.iter().all(|other| *other == leader || inherits(other));
        assert!(succeeds, "S1: {leader} after {leaders:?} in generation {generation}");
        leaders.push(leader);
    }

    fn told_assignment(&mut self, open: &Open, assignment: &[u8]) {
        let key = (open.known.group.to_owned(), self.life, open.generation);
        // A generation that was loaded from the log has its plan in the record.
        let Some(plan) = self.history.plans.get(&key) else { return };
        if open.known.instance.is_some() {
            return;
        }
        let own = plan.get(&open.known.member_id).cloned().unwrap_or_default();
        assert_eq!(own, assignment, "S11: the leader's bytes, exactly");
    }

    fn assert_durable(&self, appends_before: u64, rule: &str) {
        let first = self.in_flight.first().map_or(u64::MAX, |(append_id, _)| append_id.0);
        let reached = if self.fault == Some(Fault::EarlyAnswer) { 0 } else { first };
        assert!(appends_before < reached, "{rule}: append {appends_before} is in flight ({first})");
    }

    fn submit(&mut self, known: &Known, kind: &'static str, generation: i32, request: Request<'_>) {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let entropy = Entropy(u128::from(self.tickets) << 64 | u128::from(self.life));
        let next = self.in_flight.last().map_or(0, |(append_id, _)| append_id.0 + 1);
        self.open.insert(ticket, Open { known: known.clone(), kind, generation, appends_before: next });
        let digests = GROUPS.map(|group| self.coordinator.digest(group));
        let now = self.now;
        let length = self.transcript.len();
        self.event(format!("{ticket:?} {request:?}"), |coordinator, effects| {
            coordinator.submit(now, ticket, entropy, request, effects);
        });
        let refused = self.transcript[length..].iter().any(|line| {
            line.starts_with(&format!("answer {ticket:?}"))
                && (line.contains("IllegalGeneration") || line.contains("FencedInstanceId"))
        });
        if refused && kind != "LeaveGroup" {
            let after = GROUPS.map(|group| self.coordinator.digest(group));
            assert_eq!(digests, after, "S14: a fenced request changes nothing");
        }
    }

    fn somebody(&mut self) -> Known {
        let all: Vec<Known> = self.known.iter().cloned().collect();
        if all.is_empty() || self.dice.chance(5) {
            return Known { group: self.dice.pick(&GROUPS), member_id: "stranger".to_owned(), instance: None };
        }
        // The newest are the likeliest to be alive.
        let recent = all.len().saturating_sub(8);
        let mut known = if self.dice.chance(80) { self.dice.pick(&all[recent..]) } else { self.dice.pick(&all) };
        if self.dice.chance(5) {
            known.instance = Some(self.dice.pick(&INSTANCES));
        }
        known
    }

    fn generation(&mut self, group: &str) -> i32 {
        let current = self.generations.get(group).copied().unwrap_or(0);
        if self.dice.chance(85) { current } else { current - 1 }
    }

    fn join(&mut self) {
        let mut known = self.somebody();
        if self.dice.chance(45) {
            known.member_id = String::new();
            known.instance = self.dice.chance(40).then(|| self.dice.pick(&INSTANCES));
        }
        let (names, metadata) = self.offer(&known.member_id);
        let protocols: Vec<Protocol<'_>> = names.iter().map(|name| Protocol { name, metadata: &metadata }).collect();
        let request = JoinGroup {
            version: self.dice.pick(&[0, 3, 4, 5, 8, 9]),
            group_id: Some(known.group),
            member_id: &known.member_id,
            instance_id: known.instance,
            client_id: "c",
            client_host: "/127.0.0.1",
            session_timeout_ms: self.dice.pick(&[6_000, 10_000, 5_000]),
            rebalance_timeout_ms: self.dice.pick(&[4_000, 20_000]),
            protocol_type: if self.dice.chance(97) { "consumer" } else { "connect" },
            protocols: &protocols,
            reason: None,
        };
        self.submit(&known.clone(), "JoinGroup", -1, Request::JoinGroup(request));
        // Whatever id came back is known from now on.
        if let Some(line) = self.transcript.iter().rev().find(|line| line.contains("MemberIdRequired"))
            && let Some(id) = line.split("member_id: \"").nth(1).and_then(|rest| rest.split('"').next())
        {
            self.known.insert(Known { group: known.group, member_id: id.to_owned(), instance: None });
        }
    }

    /// What a member offers: often the same again.
    fn offer(&mut self, member_id: &str) -> (Vec<&'static str>, [u8; 2]) {
        if let Some(offer) = self.offers.get(member_id)
            && self.dice.chance(60)
        {
            return offer.clone();
        }
        let mut names = vec![self.dice.pick(&PROTOCOLS)];
        while self.dice.chance(60) {
            names.push(self.dice.pick(&PROTOCOLS));
        }
        let offer = (names, [0, self.dice.roll(3) as u8]);
        self.offers.insert(member_id.to_owned(), offer.clone());
        offer
    }

    fn sync(&mut self) {
        let known = self.somebody();
        let generation = self.generation(known.group);
        let projection = self.coordinator.project(known.group);
        let members: Vec<String> = projection
            .iter()
            .flat_map(|group| group.members.iter().map(|member| member.member_id.to_string()))
            .collect();
        let plan: BTreeMap<String, Vec<u8>> = members
            .iter()
            .map(|member| (member.clone(), format!("{member}@{generation}#{}", self.tickets).into_bytes()))
            .collect();
        let assignments: Vec<Assignment<'_>> =
            plan.iter().map(|(member_id, assignment)| Assignment { member_id, assignment }).collect();
        let installs = projection.as_ref().is_some_and(|group| {
            group.state == State::CompletingRebalance
                && group.generation == generation
                && group.leader.as_deref() == Some(&known.member_id)
                && known.instance.is_none()
        });
        if installs {
            let key = (known.group.to_owned(), self.life, generation);
            self.history.plans.entry(key).or_insert_with(|| plan.clone());
        }
        let request = SyncGroup {
            version: 4,
            group_id: Some(known.group),
            generation,
            member_id: &known.member_id,
            instance_id: known.instance,
            protocol_type: None,
            protocol_name: None,
            assignments: &assignments,
        };
        self.submit(&known, "SyncGroup", generation, Request::SyncGroup(request));
    }

    fn heartbeat(&mut self) {
        let known = self.somebody();
        let generation = self.generation(known.group);
        let request = Heartbeat {
            group_id: Some(known.group),
            generation,
            member_id: &known.member_id,
            instance_id: known.instance,
        };
        self.submit(&known, "Heartbeat", generation, Request::Heartbeat(request));
    }

    fn beat_by_handle(&mut self) {
        let known = self.somebody();
        let handle = self.coordinator.member_handle(known.group, &known.member_id).unwrap_or(u64::MAX);
        let generation = self.generation(known.group);
        let now = self.now;
        let mut codes = [0];
        self.event(format!("beat {known:?} {generation}"), |coordinator, _| {
            coordinator.heartbeats(now, &[handle], &[generation], &mut codes);
        });
        self.transcript.push(format!("code {codes:?}"));
    }

    fn leave(&mut self) {
        let first = self.somebody();
        let second = self.somebody();
        let members: Vec<LeaveIdentity<'_>> = [&first, &second]
            .iter()
            .map(|known| LeaveIdentity { member_id: &known.member_id, instance_id: known.instance, reason: None })
            .collect();
        let request = LeaveGroup { version: 5, group_id: Some(first.group), members: &members };
        self.submit(&first, "LeaveGroup", -1, Request::LeaveGroup(request));
    }

    fn commit(&mut self) {
        let mut known = self.somebody();
        let mut generation = self.generation(known.group);
        if self.dice.chance(20) {
            known.member_id = String::new();
            generation = -1;
        }
        self.commit_to(&known, generation);
    }

    fn commit_to(&mut self, known: &Known, generation: i32) {
        let partitions = [CommitPartition { index: 0, offset: self.tickets as i64, leader_epoch: -1, metadata: None }];
        let topic = self.dice.pick(&["t", "u"]);
        let topics = [CommitTopic { name: topic, topic_id: 0, partitions: &partitions }];
        let request = OffsetCommit {
            version: self.dice.pick(&[8, 9]),
            group_id: Some(known.group),
            generation,
            member_id: &known.member_id,
            instance_id: known.instance,
            retention_time_ms: None,
            topics: &topics,
        };
        self.submit(known, "OffsetCommit", generation, Request::OffsetCommit(request));
    }

    fn fetch(&mut self) {
        let known = self.somebody();
        let topics = [FetchTopic { name: "t", partitions: &[0, 1] }];
        let request = OffsetFetch {
            group_id: Some(known.group),
            require_stable: self.dice.chance(50),
            topics: if self.dice.chance(50) { Some(&topics) } else { None },
        };
        self.submit(&known, "OffsetFetch", -1, Request::OffsetFetch(request));
    }

    fn look(&mut self) {
        let known = self.somebody();
        let describe = DescribeGroup { version: 6, group_id: Some(known.group) };
        self.submit(&known, "DescribeGroup", -1, Request::DescribeGroup(describe));
        self.submit(&known, "ListGroups", -1, Request::ListGroups(ListGroups { states: &["stable"], types: &[] }));
        let explained = self.coordinator.explain(known.group);
        self.transcript.push(format!("{explained:?}"));
    }

    fn tick(&mut self) {
        let by_ms = self.dice.pick(&[0, 1, 10, 500, 2_000, 5_999, 6_000, 6_001]);
        self.pass(by_ms);
    }

    fn pass(&mut self, by_ms: u64) {
        self.now.mono_ms += by_ms;
        self.now.wall_ms += by_ms as i64;
        let now = self.now;
        let next = self.coordinator.next_deadline();
        let before = self.transcript.len();
        self.event(format!("tick {by_ms}"), |coordinator, effects| coordinator.advance(now, effects));
        let silent = self.transcript.len() == before + 1;
        assert!(silent || next.is_some_and(|next| next <= now.mono_ms), "next_deadline was late");
    }

    /// Completions come in the order of the appends.
    fn finish_append(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let (append_id, records) = self.in_flight.remove(0);
        let errors = [ErrorCode::NotLeaderOrFollower, ErrorCode::RequestTimedOut, ErrorCode::MessageTooLarge];
        let succeeds = !self.log_fails || self.dice.chance(75);
        let result = if succeeds { Ok(self.log.len() as u64) } else { Err(self.dice.pick(&errors)) };
        let lost = self.fault == Some(Fault::LostRecord);
        if result.is_ok() && !lost {
            self.log.extend(records);
        }
        let now = self.now;
        self.event(format!("appended {append_id:?} {result:?}"), |coordinator, effects| {
            coordinator.appended(append_id, result, now, effects);
        });
    }

    fn forget_topic(&mut self) {
        let now = self.now;
        self.event("topics deleted".to_owned(), |coordinator, effects| {
            coordinator.topics_deleted(&["u"], now, effects);
        });
    }

    fn fold(&self) -> Coordinator {
        let mut replica = Coordinator::new(config(self.seed), 0, 1);
        for (offset, record) in self.log.iter().enumerate() {
            let record = Record::decode(&record.key_bytes(), record.value_bytes().as_deref()).expect("own bytes");
            replica.replay(&LogEntry { offset: offset as u64, timestamp_ms: self.now.wall_ms, record });
        }
        replica
    }

    /// Unload (or crash) and load from the log.
    fn reload(&mut self) {
        let now = self.now;
        if self.dice.chance(50) {
            self.history.see("unload");
            self.event("unload".to_owned(), |coordinator, effects| coordinator.unload(now, effects));
            assert!(self.open.is_empty() || self.fault.is_some(), "unload answers whoever waits: {:?}", {
                self.open.values().map(|open| open.kind).collect::<Vec<_>>()
            });
        }
        self.open.clear();
        self.in_flight.clear();
        self.history.see("reload");
        self.life += 1;
        self.coordinator = self.fold();
        self.event("loaded".to_owned(), |coordinator, effects| coordinator.loaded(now, effects));
    }

    /// S22: what the log says is what the state says, for groups with nothing in flight that are Stable or Empty.
    fn compare_replay(&self) {
        let replica = self.fold();
        for group in GROUPS {
            let Some(live) = self.coordinator.project(group) else { continue };
            let durable = replica.project(group).expect("S22: a group that lives is in the log");
            assert_eq!(live.offsets, durable.offsets, "S22: offsets of {group}");
            if live.state == State::Empty && live.generation > 0 {
                let folded = (durable.generation, durable.members.len());
                assert_eq!(folded, (live.generation, 0), "S22: the last record of {group}");
            }
        }
    }
}

/// Small limits; every other world has room for replacements of static members.
fn config(seed: u64) -> Config {
    Config {
        group_initial_rebalance_delay_ms: 500,
        group_max_size: if seed.is_multiple_of(2) { 3 } else { 8 },
        group_max_pending_members: 4,
        rebalance_history: 4,
        ..Config::default()
    }
}
