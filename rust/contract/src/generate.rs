//! Random requests: valid ones, stale ones, ones of another history, and delayed twins. They are made from what the store
//! in memory has, and from what it had.

use std::collections::VecDeque;

use rota_engine::{
    Beat, Body, Directory, Entry, Epoch, HistoryId, Incarnation, NodeId, Nonce, Part, PartitionId, Prev, Request,
    Revision, SnapshotHead, Store, Token, checksum,
    requests::{
        AcceptLoss, Append, Check, Claim, PutBeat, PutChunk, PutHead, PutNote, Read, Register, Release, Silence, Sweep,
        Trim, Usage,
    },
    store::Stored,
};

const NODES: u64 = 3;
const PARTITIONS: u64 = 3;

/// Random numbers (splitmix64), the same ones for the same seed.
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True so many times in a hundred.
    pub fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        let bound = choices.len() as u64;
        (bound > 0).then(|| choices[self.below(bound) as usize])
    }
}

/// Makes requests.
pub struct Generator {
    /// What decides.
    pub random: Random,
    history: HistoryId,
    /// Everything that was asked, for twins.
    asked: Vec<Request>,
    /// The rest of a snapshot.
    planned: VecDeque<Body>,
    tokens: Vec<(PartitionId, Token)>,
    parts: Vec<Part>,
    beats: Vec<Beat>,
    heads: Vec<SnapshotHead>,
    prevs: Vec<(PartitionId, Prev)>,
    nonces: u128,
}

impl Generator {
    /// The same requests for the same seed.
    pub fn new(seed: u64, history: HistoryId) -> Generator {
        Generator {
            random: Random(seed),
            history,
            asked: Vec::new(),
            planned: VecDeque::new(),
            tokens: Vec::new(),
            parts: Vec::new(),
            beats: Vec::new(),
            heads: Vec::new(),
            prevs: Vec::new(),
            nonces: 0,
        }
    }

    /// The next request.
    pub fn request(&mut self, store: &Store) -> Request {
        self.history = store.view.meta.history;
        if self.random.is(12) && !self.asked.is_empty() {
            let twin = self.random.below(self.asked.len() as u64) as usize;
            return self.asked[twin].clone();
        }
        let body = match self.planned.pop_front() {
            Some(planned) if self.random.is(80) => planned,
            _ => self.body(store),
        };
        let history = if self.random.is(3) { HistoryId(99) } else { self.history };
        let request = Request { history, body };
        self.asked.push(request.clone());
        request
    }

    /// Appends to several partitions.
    pub fn appends(&mut self, store: &Store) -> Vec<Request> {
        let history = store.view.meta.history;
        let appends = (0..PARTITIONS as i32).filter_map(|partition| self.append(store, PartitionId(partition)));
        let requests: Vec<Request> = appends.map(|body| Request { history, body }).collect();
        self.asked.extend(requests.iter().cloned());
        requests
    }

    /// Remembers what the store has now.
    pub fn learn(&mut self, store: &Store) {
        for (partition, part) in &store.view.parts {
            let Part { epoch, node, incarnation, held: _ } = *part;
            let claimed = store.parts_written.get(partition).copied().unwrap_or_default();
            if !self.tokens.iter().any(|(known, token)| known == partition && token.epoch == epoch) {
                self.tokens.push((*partition, Token { epoch, node, incarnation, claimed }));
            }
            if !self.parts.contains(part) {
                self.parts.push(*part);
            }
        }
        self.beats.extend(store.view.beats.values().filter(|beat| !self.beats.contains(beat)).collect::<Vec<_>>());
        for (partition, log) in &store.logs {
            let head = log.head.as_ref();
            self.heads.extend(head.map(|head| head.value).filter(|head| !self.heads.contains(head)));
            let entries = log.entries.iter().map(|(offset, entry)| Prev::Entry(*offset, entry.revision));
            for prev in entries.chain(head.map(|head| Prev::Head(head.revision))) {
                if !self.prevs.contains(&(*partition, prev)) {
                    self.prevs.push((*partition, prev));
                }
            }
        }
    }

    /// What an append or a snapshot may have followed once.
    fn prev(&mut self, partition: PartitionId) -> Prev {
        let known = self.prevs.iter().filter(|(known, _)| *known == partition).map(|(_, prev)| *prev);
        let known: Vec<Prev> = known.chain([Prev::Nothing]).collect();
        self.random.of(&known).unwrap_or(Prev::Nothing)
    }

    fn body(&mut self, store: &Store) -> Body {
        let partition = PartitionId(self.random.below(PARTITIONS) as i32);
        let made = match self.random.below(100) {
            0..10 => Some(self.register(store)),
            10..26 => Some(self.beat(store)),
            26..38 => Some(self.claim(store, partition)),
            38..62 => self.append(store, partition),
            62..66 => Some(Body::Read(Read { partition })),
            66..70 => self.token(partition).map(|token| Body::Check(Check { partition, token })),
            70..80 => self.snapshot(store, partition),
            80..83 => self.token(partition).map(|token| Body::Trim(Trim { partition, token })),
            83..86 => self.sweep(store, partition),
            86..91 => self.token(partition).map(|token| Body::Release(Release { partition, token })),
            91..92 => Some(Body::Usage(Usage)),
            92..99 => Some(self.note(store)),
            _ => Some(self.accept_loss()),
        };
        made.unwrap_or(Body::Read(Read { partition }))
    }

    fn node(&mut self) -> NodeId {
        NodeId(1 + self.random.below(NODES) as i32)
    }

    /// The process that runs, or another one of the node.
    fn incarnation(&mut self, store: &Store, node: NodeId) -> Incarnation {
        let registered = store.view.nodes.get(&node).map(|node| node.incarnation);
        match registered {
            Some(incarnation) if self.random.is(80) => incarnation,
            _ => Incarnation(node.0 as u128 * 100 + u128::from(self.random.below(6))),
        }
    }

    /// The present owner's, or an earlier one's.
    fn token(&mut self, partition: PartitionId) -> Option<Token> {
        let known = self.tokens.iter().filter(|(known, _)| *known == partition);
        let known: Vec<Token> = known.map(|(_, token)| *token).collect();
        if self.random.is(80) { known.last().copied() } else { self.random.of(&known) }
    }

    fn register(&mut self, store: &Store) -> Body {
        let node = self.node();
        let directory = Directory(if self.random.is(80) { node.0 as u128 } else { 99 });
        Body::Register(Register { node, directory, incarnation: self.incarnation(store, node) })
    }

    fn beat(&mut self, store: &Store) -> Body {
        let node = self.node();
        let incarnation = self.incarnation(store, node);
        let last = store.view.beats.get(&node).map_or(0, |beat| beat.counter);
        // The same number again, an older one, or one with more digits.
        let counter = (last + self.random.below(13)).saturating_sub(2);
        let shown = if self.random.is(50) { 0 } else { (last + self.random.below(4)).saturating_sub(2) };
        Body::Beat(PutBeat { node, beat: Beat { incarnation, counter }, shown })
    }

    fn claim(&mut self, store: &Store, partition: PartitionId) -> Body {
        let node = self.node();
        let incarnation = self.incarnation(store, node);
        let seen = if self.random.is(80) { store.part(partition) } else { self.random.of(&self.parts) };
        let of = seen.map_or(node, |part| part.node);
        let silence = match self.random.below(3) {
            0 => Silence::NotNeeded,
            1 if self.random.is(70) => Silence::Beat(of, store.view.beats.get(&of).copied()),
            1 => Silence::Beat(of, self.random.of(&self.beats)),
            _ => {
                let registered = store.view.nodes.get(&of).map_or(Incarnation(7), |node| node.incarnation);
                let other = seen.map_or(incarnation, |part| part.incarnation);
                Silence::Replaced(of, if self.random.is(50) { registered } else { other })
            }
        };
        let at_least = Epoch(if self.random.is(20) { 1 + self.random.below(9) as i32 } else { 1 });
        Body::Claim(Claim { partition, seen, silence, node, incarnation, at_least })
    }

    fn append(&mut self, store: &Store, partition: PartitionId) -> Option<Body> {
        let token = self.token(partition)?;
        let log = store.log(partition);
        let (end, newest) = end_of(store, partition);
        let first = log.entries.keys().next().copied().unwrap_or(0);
        // A position that is not the next one is taken, or was trimmed: then what it followed is gone as well.
        let (base_offset, prev) = match self.random.below(10) {
            0 => (self.random.of(&log.entries.keys().copied().collect::<Vec<_>>())?, newest),
            1 => (end, self.prev(partition)),
            2 if first > 0 => (self.random.below(first as u64) as i64, Prev::Entry(first - 1, Revision(1))),
            // The right entry, of an engine that went back.
            3 => match newest {
                Prev::Entry(base_offset, _) => (end, Prev::Entry(base_offset, Revision(1))),
                Prev::Head(_) | Prev::Nothing => (end, Prev::Head(Revision(1))),
            },
            _ => (end, newest),
        };
        self.nonces += 1;
        let (nonce, count) = (Nonce(self.nonces), 1 + self.random.below(3) as i64);
        let bytes = vec![self.nonces as u8; self.random.below(200) as usize];
        Some(Body::Append(Append { partition, token, prev, base_offset, nonce, count, bytes }))
    }

    /// Chunks, head and sweep; now and then one of them is left out.
    fn snapshot(&mut self, store: &Store, partition: PartitionId) -> Option<Body> {
        let token = self.token(partition)?;
        let (end, newest) = end_of(store, partition);
        let log = store.log(partition);
        // On the border of an entry, or within one.
        let upto = if self.random.is(70) { end } else { self.random.below(end as u64 + 1) as i64 };
        let chunks: Vec<Vec<u8>> = (0..self.random.below(4)).map(|_| vec![self.random.below(9) as u8; 30]).collect();
        let head = SnapshotHead { upto, epoch: token.epoch, chunks: chunks.len() as u32, checksum: checksum(&chunks) };
        for (index, bytes) in chunks.into_iter().enumerate().filter(|_| self.random.is(95)) {
            let index = index as u32;
            self.planned.push_back(Body::Chunk(PutChunk { partition, token, upto, index, bytes }));
        }
        let known = log.head.as_ref().map(|head| head.value);
        let replaces = if self.random.is(90) { known } else { self.random.of(&self.heads) };
        let prev = if self.random.is(90) { newest } else { self.prev(partition) };
        let put = Body::Head(PutHead { partition, token, replaces, prev, head });
        self.planned.push_back(put.clone());
        if self.random.is(30) {
            self.planned.push_back(put);
        }
        self.planned.push_back(Body::Sweep(Sweep { partition, token, keep: head }));
        self.planned.pop_front()
    }

    fn sweep(&mut self, store: &Store, partition: PartitionId) -> Option<Body> {
        let token = self.token(partition)?;
        let log = store.log(partition);
        let known = log.head.as_ref().map(|head| head.value);
        let keep = if self.random.is(60) { known } else { self.random.of(&self.heads) };
        Some(Body::Sweep(Sweep { partition, token, keep: keep? }))
    }

    fn note(&mut self, store: &Store) -> Body {
        let name = ["node/1", "plan"][self.random.below(2) as usize].to_owned();
        let values = [None, Some(vec![1]), Some(vec![2]), Some(Vec::new())];
        let present = store.view.notes.get(&name).cloned();
        let seen = if self.random.is(70) { present } else { values[self.random.below(4) as usize].clone() };
        let value = values[self.random.below(4) as usize].clone();
        Body::Note(PutNote { name, seen, value })
    }

    fn accept_loss(&mut self) -> Body {
        self.nonces += 1;
        let begin = HistoryId(1_000 + self.nonces);
        Body::AcceptLoss(AcceptLoss { lost: if self.random.is(60) { self.history } else { HistoryId(98) }, begin })
    }
}

/// Where the next entry goes, and what it follows.
fn end_of(store: &Store, partition: PartitionId) -> (i64, Prev) {
    let log = store.log(partition);
    let upto = log.head.as_ref().map_or(0, |head| head.value.upto);
    let end_of = |(base_offset, entry): (&i64, &Stored<Entry>)| base_offset + entry.value.count;
    let end = log.entries.last_key_value().map_or(upto, end_of);
    let newest = log.entries.last_key_value().map(|(base_offset, entry)| Prev::Entry(*base_offset, entry.revision));
    let head = log.head.as_ref().map(|head| Prev::Head(head.revision));
    (end, newest.or(head).unwrap_or(Prev::Nothing))
}
