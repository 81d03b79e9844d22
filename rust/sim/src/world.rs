//! One world of clients and a log around the real core, driven by steps that can be written down, replayed in a fresh
//! world, and left out one by one.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, LogEntry, Now, Projection, Record, SelfCheck, Sink, Ticket,
    response::Answer,
};
use rota_journal::owned;

use crate::step::{Step, Who};

/// Shared text: ids and names.
pub type Text = Arc<str>;

/// The groups of a world.
pub const GROUPS: [&str; 2] = ["g", "h"];

/// Odd, so that no two seeds give one entropy.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Multiplies and rotates: fast, and the same everywhere.
#[derive(Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mixed = self.0 ^ self.0 >> 32;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word) ^ 8 << 56);
        }
        if !rest.is_empty() {
            let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(word ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.0 ^= self.0 >> 29;
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// 64 bits of anything.
pub fn digest(of: &impl Hash) -> u64 {
    let mut mixer = Mixer::default();
    of.hash(&mut mixer);
    mixer.finish()
}

/// One event's effects.
#[derive(Default)]
pub struct Effects {
    /// How many there were: answers and appends.
    pub count: usize,
    /// The batches, for the log.
    pub appends: Vec<(AppendId, Batch)>,
    /// (kind, error) of each answer.
    pub answers: Vec<(Ticket, &'static str, ErrorCode)>,
    /// Answers that a history keeps, if it is wanted.
    pub told: Option<Vec<(Ticket, Told)>>,
}

impl Effects {
    /// Forgets the last event.
    fn begin(&mut self) {
        self.count = 0;
        self.answers.clear();
    }
}

/// What a success says, as a history keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// `JoinGroup`: own id, generation, leader, protocol, the list.
    Joined {
        /// The receiver.
        member_id: String,
        /// The generation.
        generation: i32,
        /// The leader it was told.
        leader: String,
        /// The protocol it was told.
        protocol: String,
        /// The members it was told.
        listed: Vec<String>,
        /// Whether it was told not to compute a plan.
        skips: bool,
    },
    /// `SyncGroup`.
    Assigned(Vec<u8>),
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        self.count += 1;
        self.answers.push((ticket, answer.name(), error(&answer)));
        if let Some(told) = &mut self.told {
            match &answer {
                Answer::JoinGroup(join) if join.error == ErrorCode::None => {
                    let told_join = Told::Joined {
                        member_id: join.member_id.to_owned(),
                        generation: join.generation,
                        leader: join.leader.to_owned(),
                        protocol: join.protocol_name.unwrap_or("").to_owned(),
                        listed: join.members.iter().map(|member| member.member_id.to_owned()).collect(),
                        skips: join.skip_assignment,
                    };
                    told.push((ticket, told_join));
                }
                Answer::SyncGroup(sync) if sync.error == ErrorCode::None => {
                    told.push((ticket, Told::Assigned(sync.assignment.to_vec())));
                }
                _ => {}
            }
        }
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.count += 1;
        self.appends.push((append_id, records.into()));
    }
}

/// The error of an answer: the first one, where every member or partition has its own.
pub fn error(answer: &Answer<'_>) -> ErrorCode {
    match answer {
        Answer::JoinGroup(join) => join.error,
        Answer::SyncGroup(sync) => sync.error,
        Answer::Heartbeat(error) => *error,
        Answer::LeaveGroup(leave) => match leave.members.first() {
            Some(first) if leave.error == ErrorCode::None => first.error,
            _ => leave.error,
        },
        Answer::OffsetCommit(commit) => {
            let first = commit.topics.first().and_then(|topic| topic.partitions.first());
            first.map_or(ErrorCode::None, |(_, error)| *error)
        }
        Answer::OffsetFetch(fetch) => fetch.error,
        Answer::DescribeGroup(describe) => describe.error,
        Answer::ListGroups(list) => list.error,
        Answer::DeleteGroup(delete) => delete.error,
        Answer::ConsumerGroupHeartbeat(heartbeat) => heartbeat.error,
        Answer::ConsumerGroupDescribe(describe) => describe.error,
        Answer::OffsetDelete(delete) => {
            let first = delete.topics.first().and_then(|topic| topic.partitions.first());
            first.map_or(delete.error, |(_, error)| *error)
        }
    }
}

/// Records that are appended together; worlds that come of one world share them.
type Batch = Arc<[Record]>;

/// The batches that the log has, by incarnation and number.
type Stored = BTreeMap<(u32, AppendId), Batch>;

/// The core, the clients' knowledge, the log.
#[derive(Clone)]
pub struct World {
    /// The real one.
    pub core: Coordinator,
    /// Its settings.
    pub config: Config,
    /// The time.
    pub now: Now,
    /// Groups as the core projects them after the last step.
    pub views: [Option<Projection>; GROUPS.len()],
    /// Appends whose end has not come.
    pub in_flight: Vec<(AppendId, Batch)>,
    /// Ids by the seed of the join that they were minted for.
    pub ids: BTreeMap<u32, Text>,
    /// The seeds of ids.
    pub seeds: BTreeMap<Text, u32>,
    /// What the log has.
    pub log: Stored,
    /// Joins without an answer whose id nobody has seen yet.
    unseen: Vec<(u32, String, Ticket)>,
    /// The next ticket.
    pub tickets: u64,
    /// The incarnation.
    pub life: u32,
}

/// When a world begins, in monotonic milliseconds.
pub const START_MS: u64 = 1_000;

impl World {
    /// An empty log, loaded.
    pub fn new(config: &Config) -> World {
        let mut world = World {
            core: Coordinator::new(config.clone(), 0, 0),
            config: config.clone(),
            now: Now { mono_ms: START_MS, wall_ms: 1_700_000_000_000 },
            views: [None, None],
            in_flight: Vec::new(),
            ids: BTreeMap::new(),
            seeds: BTreeMap::new(),
            log: BTreeMap::new(),
            unseen: Vec::new(),
            tickets: 0,
            life: 0,
        };
        world.core.check_itself(SelfCheck::Never);
        let mut ignored = Effects::default();
        world.core.loaded(world.now, &mut ignored);
        world
    }

    /// The id that somebody goes by.
    pub fn id_of(&self, who: Who) -> owned::Text<'static> {
        match who {
            Who::Nobody => owned::Text::Borrowed(""),
            Who::Stranger => owned::Text::Borrowed("stranger"),
            Who::Minted(seed) => match self.ids.get(&seed) {
                Some(id) => owned::Text::Shared(Arc::clone(id)),
                None => owned::Text::Borrowed("stranger"),
            },
        }
    }

    /// The generation of a group, moved by so much.
    pub fn generation(&self, group: usize, delta: i32) -> i32 {
        self.views[group].as_ref().map_or(0, |view| view.generation).wrapping_add(delta)
    }

    /// Does a step.
    pub fn apply(&mut self, step: &Step, effects: &mut Effects) {
        effects.begin();
        match step {
            Step::Tick(ms) => {
                self.now =
                    Now { mono_ms: self.now.mono_ms + u64::from(*ms), wall_ms: self.now.wall_ms + i64::from(*ms) };
                self.core.advance(self.now, effects);
            }
            Step::End { at, error } => {
                if self.in_flight.is_empty() {
                    return;
                }
                let (append_id, records) = self.in_flight.remove(usize::from(*at) % self.in_flight.len());
                let result = match error {
                    None => {
                        self.log.insert((self.life, append_id), records);
                        Ok(append_id.0)
                    }
                    Some(error) => Err(*error),
                };
                self.core.appended(append_id, result, self.now, effects);
            }
            Step::Forget(topic) => self.core.topics_deleted(&[*topic], self.now, effects),
            Step::Reload { kept } => self.reload(*kept, effects),
            Step::Request { seed, .. } => {
                let request = step.request(self).expect("a request");
                if let owned::Request::JoinGroup(join) = &request
                    && join.member_id.is_empty()
                {
                    let prefix = join.instance_id.as_ref().unwrap_or(&join.client_id);
                    self.unseen.push((*seed, id_without_slot(prefix, entropy(*seed)), Ticket(self.tickets)));
                }
                let (now, ticket) = (self.now, Ticket(self.tickets));
                self.tickets += 1;
                request.with(|request| self.core.submit(now, ticket, entropy(*seed), request, effects));
            }
        }
        self.observe(effects);
        self.in_flight.append(&mut effects.appends);
    }

    /// Looks at the groups, and finds out which ids were minted.
    fn observe(&mut self, effects: &Effects) {
        for (view, group) in self.views.iter_mut().zip(GROUPS) {
            self.core.project_into(group, view);
        }
        if self.unseen.is_empty() {
            return;
        }
        let mut unseen = std::mem::take(&mut self.unseen);
        for view in self.views.iter().flatten() {
            let ids = view.members.iter().map(|member| &member.member_id);
            for id in ids.chain(view.pending.iter().map(|(id, _)| id)) {
                unseen.retain(|(seed, stem, _)| {
                    let is_it = id.starts_with(stem.as_str());
                    if is_it {
                        self.ids.insert(*seed, Arc::clone(id));
                        self.seeds.insert(Arc::clone(id), *seed);
                    }
                    !is_it
                });
            }
        }
        unseen.retain(|(_, _, ticket)| !effects.answers.iter().any(|(answered, _, _)| answered == ticket));
        self.unseen = unseen;
    }

    /// A crash, and another incarnation from what the log has; of what was in flight, what `kept` says.
    fn reload(&mut self, kept: u32, effects: &mut Effects) {
        for (at, (append_id, records)) in std::mem::take(&mut self.in_flight).into_iter().enumerate() {
            if kept >> (at % 32) & 1 == 1 {
                self.log.insert((self.life, append_id), records);
            }
        }
        self.unseen.clear();
        self.core.unload(self.now, effects);
        let mut core = Coordinator::new(self.config.clone(), 0, self.life + 1);
        core.check_itself(SelfCheck::Never);
        let all = std::mem::take(&mut self.log);
        let mut newest: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let records: Vec<&Record> = all.values().flat_map(|batch| &**batch).collect();
        for (at, record) in records.iter().enumerate() {
            newest.insert(record.key_bytes(), at);
            let entry = LogEntry { offset: at as u64, timestamp_ms: self.now.wall_ms, record: Record::clone(record) };
            core.replay(&entry);
        }
        core.loaded(self.now, effects);
        self.core = core;
        // Compacted, tombstones included: a load of the rest gives the same state but for groups that are forgotten.
        let is_newest = |at: usize, record: &Record| newest[&record.key_bytes()] == at;
        let rest: Batch = records
            .into_iter()
            .enumerate()
            .filter(|(at, record)| is_newest(*at, record))
            .map(|(_, record)| record.clone())
            .collect();
        self.log.insert((self.life, AppendId(0)), rest);
        self.life += 1;
    }
}

/// 128 bits of a seed.
pub fn entropy(seed: u32) -> Entropy {
    Entropy(u128::from(seed).wrapping_add(1).wrapping_mul(SPREAD))
}

/// The text of a minted id, but for the eight digits that name its slot.
fn id_without_slot(prefix: &str, entropy: Entropy) -> String {
    let bits = entropy.0 & !(0xf_u128 << 76) & !(0x3_u128 << 62) | 4 << 76 | 2 << 62;
    let mut id = String::with_capacity(prefix.len() + 36);
    id.push_str(prefix);
    for at in 0..24 {
        if matches!(at, 0 | 8 | 12 | 16 | 20) {
            id.push('-');
        }
        let digit = (bits >> (124 - 4 * at)) as u32 & 0xf;
        id.push(char::from_digit(digit, 16).expect("four bits"));
    }
    id
}
