//! A world of clients and a log around the real core. Its steps can be recorded, replayed in a new world, and removed
//! one by one.

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

use crate::step::{Sender, Step};

/// Shared strings: ids and names.
pub type Text = Arc<str>;

/// The groups of a world.
pub const GROUPS: [&str; 2] = ["g", "h"];

/// Odd, so that no two seeds give the same entropy.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// A hasher that multiplies and rotates: fast, and the same on every platform.
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

/// Returns a 64-bit hash.
pub fn digest(of: &impl Hash) -> u64 {
    let mut mixer = Mixer::default();
    of.hash(&mut mixer);
    mixer.finish()
}

/// The effects of one event.
#[derive(Default)]
pub struct Effects {
    /// Number of answers and appends.
    pub count: usize,
    /// Batches for the log.
    pub appends: Vec<(AppendId, Batch)>,
    /// (ticket, request, error) of each answer.
    pub answers: Vec<(Ticket, &'static str, ErrorCode)>,
    /// Contents of successful answers, if a history needs them.
    pub told: Option<Vec<(Ticket, Success)>>,
}

impl Effects {
    /// Resets for the next event.
    fn begin(&mut self) {
        self.count = 0;
        self.answers.clear();
    }
}

/// The content of a successful answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Success {
    /// A `JoinGroup` answer.
    Joined {
        /// The receiver's member id.
        member_id: String,
        /// The generation.
        generation: i32,
        /// The leader's member id.
        leader: String,
        /// The protocol.
        protocol: String,
        /// The listed members.
        listed: Vec<String>,
        /// Whether the leader may skip the plan.
        skips: bool,
    },
    /// A `SyncGroup` answer: the assignment.
    Assigned(Vec<u8>),
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        self.count += 1;
        self.answers.push((ticket, answer.name(), error(&answer)));
        if let Some(told) = &mut self.told {
            match &answer {
                Answer::JoinGroup(join) if join.error == ErrorCode::None => {
                    let told_join = Success::Joined {
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
                    told.push((ticket, Success::Assigned(sync.assignment.to_vec())));
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

/// Returns the error of an answer: the first one of its members or partitions.
pub fn error(answer: &Answer<'_>) -> ErrorCode {
    match answer {
        Answer::JoinGroup(join) => join.error,
        Answer::SyncGroup(sync) => sync.error,
        Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => *error,
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

/// Records of one append, shared by worlds with a common past.
type Batch = Arc<[Record]>;

/// Batches in the log by incarnation and number.
type Stored = BTreeMap<(u32, AppendId), Batch>;

/// The core, the clients' knowledge, and the log.
#[derive(Clone)]
pub struct World {
    /// The coordinator.
    pub core: Coordinator,
    /// Its settings.
    pub config: Config,
    /// The current time.
    pub now: Now,
    /// Projections of the groups after the last step.
    pub views: [Option<Projection>; GROUPS.len()],
    /// Appends in flight.
    pub in_flight: Vec<(AppendId, Batch)>,
    /// Member ids by the seed of their join.
    pub ids: BTreeMap<u32, Text>,
    /// Seeds by member id.
    pub seeds: BTreeMap<Text, u32>,
    /// The log.
    pub log: Stored,
    /// Unanswered joins with ids that no client knows yet.
    unseen: Vec<(u32, String, Ticket)>,
    /// The next ticket.
    pub tickets: u64,
    /// The incarnation.
    pub life: u32,
}

/// Start of a world in monotonic milliseconds.
pub const START_MS: u64 = 1_000;

impl World {
    /// Creates a world with an empty log, loaded.
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

    /// Returns the member id of a sender.
    pub fn id_of(&self, who: Sender) -> owned::Text<'static> {
        match who {
            Sender::Empty => owned::Text::Borrowed(""),
            Sender::Unknown => owned::Text::Borrowed("stranger"),
            Sender::Minted(seed) => match self.ids.get(&seed) {
                Some(id) => owned::Text::Shared(Arc::clone(id)),
                None => owned::Text::Borrowed("stranger"),
            },
        }
    }

    /// Returns a group's generation plus `delta`.
    pub fn generation(&self, group: usize, delta: i32) -> i32 {
        self.views[group].as_ref().map_or(0, |view| view.generation).wrapping_add(delta)
    }

    /// Executes a step.
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

    /// Updates the views, and finds the minted ids.
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

    /// Crashes and starts another incarnation from the log; `kept` selects the appends in flight that it keeps.
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
        // Compaction includes tombstones: loading the rest gives the same state, except for forgotten groups.
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

/// Returns 128 bits from a seed.
pub fn entropy(seed: u32) -> Entropy {
    Entropy(u128::from(seed).wrapping_add(1).wrapping_mul(SPREAD))
}

/// Returns the text of a minted id without the eight digits of its slot.
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
