//! Offsets of transactions (docs/protocol.md §10.4): who may commit them, when they become visible, and that a replay of
//! the log knows the same.

#[expect(dead_code, reason = "other tests need the rest of it")]
mod scene;

use std::collections::BTreeMap;

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, Now, OffsetRecord, Record, Request, Sink, Ticket,
    coordinator::LogEntry,
    records::{EndTransaction, OffsetValue, TransactionBatch},
    request::{
        CommitPartition, CommitTopic, DeleteGroup, FetchTopic, OffsetCommit, OffsetDelete, OffsetDeleteTopic,
        OffsetFetch, TxnOffsetCommit, WriteTxnMarker,
    },
    response::Answer,
};

const A: i64 = 7;
const B: i64 = 8;
const STABLE: bool = true;
const UNSTABLE: i64 = -88;

/// An append, as a log stores it.
#[derive(Clone)]
struct Batch {
    transaction: Option<TransactionBatch>,
    records: Vec<Record>,
}

#[derive(Default)]
struct Seen {
    /// The first error of each commit, deletion or marker.
    errors: BTreeMap<Ticket, ErrorCode>,
    /// (partition, offset) of each fetch; an unstable offset is [`UNSTABLE`].
    fetched: BTreeMap<Ticket, Vec<(i32, i64)>>,
    waiting: Vec<(AppendId, Batch)>,
}

impl Sink for Seen {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let error = match answer {
            Answer::OffsetCommit(commit) => commit.topics[0].partitions[0].1,
            Answer::WriteTxnMarker(error) => error,
            Answer::DeleteGroup(delete) => delete.error,
            Answer::OffsetDelete(delete) => delete.error,
            Answer::OffsetFetch(fetch) => {
                let partitions = fetch.topics.iter().flat_map(|topic| &topic.partitions);
                let shown = partitions.map(|fetched| match fetched.error {
                    ErrorCode::None => (fetched.index, fetched.offset),
                    ErrorCode::UnstableOffsetCommit => (fetched.index, UNSTABLE),
                    other => panic!("{other:?}"),
                });
                self.fetched.insert(ticket, shown.collect());
                fetch.error
            }
            other => panic!("{other:?}"),
        };
        assert!(self.errors.insert(ticket, error).is_none(), "one answer");
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.waiting.push((append_id, Batch { transaction: None, records: records.to_vec() }));
    }

    fn append_in_transaction(&mut self, append_id: AppendId, batch: TransactionBatch, records: &[Record]) {
        self.waiting.push((append_id, Batch { transaction: Some(batch), records: records.to_vec() }));
    }
}

/// A coordinator and its log.
struct World {
    coordinator: Coordinator,
    seen: Seen,
    log: Vec<Batch>,
    tickets: u64,
}

const NOW: Now = Now { mono_ms: 0, wall_ms: 1_000 };

fn value(record: &OffsetValue) -> i64 {
    record.offset
}

impl World {
    fn new() -> World {
        World::over(Vec::new())
    }

    /// Loads the log, as a server does after a restart.
    fn over(log: Vec<Batch>) -> World {
        let mut coordinator = Coordinator::new(Config::default(), 0, 0);
        let mut offset = 0;
        for batch in &log {
            match batch.transaction {
                Some(TransactionBatch::End(end)) => coordinator.replay_marker(end.producer_id, end.is_commit),
                Some(TransactionBatch::Offsets { producer_id, producer_epoch }) => {
                    for record in &batch.records {
                        let (key, value) = (record.key_bytes(), record.value_bytes());
                        let record = OffsetRecord::read(&key, value.as_deref()).unwrap().unwrap();
                        coordinator.replay_pending((producer_id, producer_epoch), record);
                    }
                }
                None => {
                    for record in &batch.records {
                        coordinator.replay(&LogEntry { offset, timestamp_ms: 0, record: record.clone() });
                        offset += 1;
                    }
                }
            }
        }
        let mut seen = Seen::default();
        coordinator.loaded(NOW, &mut seen);
        World { coordinator, seen, log, tickets: 0 }
    }

    fn send(&mut self, request: Request<'_>) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.coordinator.submit(NOW, ticket, Entropy(u128::from(self.tickets) << 64), request, &mut self.seen);
        ticket
    }

    fn send_pending(&mut self, commit: &TxnOffsetCommit<'_>) -> Ticket {
        self.send(Request::TxnOffsetCommit(*commit))
    }

    fn send_marker(&mut self, end: &EndTransaction) -> Ticket {
        let EndTransaction { producer_id, producer_epoch, coordinator_epoch, is_commit } = *end;
        self.send(Request::WriteTxnMarker(WriteTxnMarker {
            transactional_id: None,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            is_commit,
        }))
    }

    /// Stores a request's append and returns its error.
    fn result(&mut self, ticket: Ticket) -> ErrorCode {
        self.store_all();
        self.seen.errors[&ticket]
    }

    /// The oldest append in flight ends.
    fn end_one(&mut self, stored: bool) {
        if self.seen.waiting.is_empty() {
            return;
        }
        let (append_id, batch) = self.seen.waiting.remove(0);
        let result = if stored { Ok(self.log.len() as u64) } else { Err(ErrorCode::NotEnoughReplicas) };
        if stored {
            self.log.push(batch);
        }
        self.coordinator.appended(append_id, result, NOW, &mut self.seen);
    }

    fn store_all(&mut self) {
        while !self.seen.waiting.is_empty() {
            self.end_one(true);
        }
    }

    /// Sends a request, stores its append, and returns its error.
    fn done(&mut self, request: Request<'_>) -> ErrorCode {
        let ticket = self.send(request);
        self.store_all();
        self.seen.errors[&ticket]
    }

    fn commit(&mut self, group: &str, partition: i32, offset: i64) -> ErrorCode {
        with_topics(partition, offset, |topics| {
            self.done(Request::OffsetCommit(OffsetCommit {
                version: 8,
                group_id: Some(group),
                generation: -1,
                member_id: "",
                instance_id: None,
                retention_time_ms: None,
                topics,
            }))
        })
    }

    fn txn_commit(&mut self, group: &str, producer_id: i64, partition: i32, offset: i64) -> ErrorCode {
        let ticket = with_topics(partition, offset, |topics| self.send_pending(&pending(group, producer_id, topics)));
        self.result(ticket)
    }

    fn mark(&mut self, producer_id: i64, is_commit: bool) -> ErrorCode {
        let ticket = self.send_marker(&marker(producer_id, is_commit));
        self.result(ticket)
    }

    /// The offsets of partitions 0 to 3 of the topic; -1: none.
    fn fetch(&mut self, group: &str, require_stable: bool) -> Vec<i64> {
        let topics = [FetchTopic { name: "t", topic_id: 0, partitions: &[0, 1, 2, 3] }];
        let request = OffsetFetch { group_id: Some(group), require_stable, topics: Some(&topics) };
        let ticket = self.send(Request::OffsetFetch(request));
        self.seen.fetched[&ticket].iter().map(|(_, offset)| *offset).collect()
    }

    fn fetch_all(&mut self, group: &str, require_stable: bool) -> Vec<(i32, i64)> {
        let request = OffsetFetch { group_id: Some(group), require_stable, topics: None };
        let ticket = self.send(Request::OffsetFetch(request));
        self.seen.fetched[&ticket].clone()
    }

    /// After a restart.
    fn loaded(&self) -> World {
        World::over(self.log.clone())
    }
}

fn with_topics<R>(partition: i32, offset: i64, act: impl FnOnce(&[CommitTopic<'_>]) -> R) -> R {
    let partitions = [CommitPartition { index: partition, offset, leader_epoch: -1, metadata: None }];
    act(&[CommitTopic { name: "t", topic_id: 0, partitions: &partitions }])
}

fn pending<'a>(group: &'a str, producer_id: i64, topics: &'a [CommitTopic<'a>]) -> TxnOffsetCommit<'a> {
    TxnOffsetCommit {
        version: 3,
        group_id: Some(group),
        producer_id,
        producer_epoch: 0,
        generation: -1,
        member_id: "",
        instance_id: None,
        topics,
    }
}

fn marker(producer_id: i64, is_commit: bool) -> EndTransaction {
    EndTransaction { producer_id, producer_epoch: 0, coordinator_epoch: 0, is_commit }
}

const NONE: ErrorCode = ErrorCode::None;

#[test]
fn an_offset_becomes_visible_with_the_commit_of_its_transaction() {
    let mut world = World::new();
    assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
    assert_eq!((world.fetch("g", STABLE)[0], world.fetch("g", !STABLE)[0]), (UNSTABLE, -1));
    assert_eq!((world.fetch_all("g", STABLE), world.fetch_all("g", !STABLE)), (vec![], vec![]));
    assert_eq!(world.fetch("g", STABLE)[1..], [-1, -1, -1], "other partitions are stable");
    assert_eq!(world.mark(A, true), NONE);
    assert_eq!((world.fetch("g", STABLE)[0], world.fetch_all("g", STABLE)), (5, vec![(0, 5)]));
}

#[test]
fn an_aborted_offset_is_never_visible_and_leaves_the_group_behind() {
    let mut world = World::new();
    assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
    assert_eq!(world.mark(A, false), NONE);
    assert_eq!((world.fetch("g", STABLE)[0], world.fetch("g", !STABLE)[0]), (-1, -1));
    assert_eq!(world.coordinator.group_ids(), ["g".into()]);
    assert_eq!(world.mark(A, true), NONE, "a marker without offsets");
    assert_eq!(world.fetch("g", !STABLE)[0], -1);
}

#[test]
fn a_later_commit_stays_when_the_transaction_commits() {
    let mut world = World::new();
    assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
    assert_eq!(world.commit("g", 0, 9), NONE);
    assert_eq!((world.fetch("g", STABLE)[0], world.fetch("g", !STABLE)[0]), (UNSTABLE, 9));
    assert_eq!(world.fetch_all("g", STABLE), [(0, UNSTABLE)]);
    assert_eq!(world.mark(A, true), NONE);
    assert_eq!(world.fetch("g", STABLE)[0], 9);
}

#[test]
fn of_two_transactions_the_later_record_counts_whichever_ends_first() {
    for first in [A, B] {
        let mut world = World::new();
        assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
        assert_eq!(world.txn_commit("g", B, 0, 7), NONE);
        assert_eq!(world.mark(first, true), NONE);
        let visible = if first == A { 5 } else { 7 };
        assert_eq!((world.fetch("g", STABLE)[0], world.fetch("g", !STABLE)[0]), (UNSTABLE, visible));
        assert_eq!(world.mark(if first == A { B } else { A }, true), NONE);
        assert_eq!(world.fetch("g", STABLE)[0], 7);
    }
}

#[test]
fn a_group_with_pending_offsets_only_can_be_deleted_and_nothing_of_it_returns() {
    let mut world = World::new();
    assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
    assert_eq!(world.done(Request::DeleteGroup(DeleteGroup { group_id: Some("g") })), NONE);
    assert!(world.coordinator.group_ids().is_empty());
    assert_eq!(world.mark(A, true), NONE);
    assert_eq!(world.fetch("g", !STABLE)[0], -1);
    assert!(world.loaded().coordinator.group_ids().is_empty());
}

#[test]
fn offsets_of_a_deleted_topic_do_not_return_with_their_transaction() {
    let mut world = World::new();
    assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
    world.coordinator.topics_deleted(&["t"], NOW, &mut world.seen);
    world.store_all();
    assert_eq!(world.mark(A, true), NONE);
    assert_eq!(world.fetch("g", !STABLE)[0], -1);
    assert_eq!(world.loaded().fetch("g", !STABLE)[0], -1);
}

#[test]
fn nothing_is_answered_or_decided_before_it_is_durable() {
    let mut world = World::new();
    let commit = with_topics(0, 5, |topics| world.send_pending(&pending("g", A, topics)));
    assert!(!world.seen.errors.contains_key(&commit));
    assert_eq!(world.fetch("g", !STABLE)[0], -1);
    world.store_all();
    let mark = world.send_marker(&marker(A, true));
    assert!(!world.seen.errors.contains_key(&mark));
    assert_eq!((world.fetch("g", STABLE)[0], world.fetch("g", !STABLE)[0]), (UNSTABLE, -1));
    world.end_one(false);
    assert_eq!(world.seen.errors[&mark], ErrorCode::CoordinatorNotAvailable, "it can be tried again");
    assert_eq!(world.fetch("g", STABLE)[0], UNSTABLE);
    assert_eq!(world.mark(A, true), NONE);
    assert_eq!(world.fetch("g", STABLE)[0], 5);
}

#[test]
fn an_older_epoch_of_the_producer_is_refused_while_its_transaction_is_open() {
    let mut world = World::new();
    let newer = with_topics(0, 5, |topics| {
        world.send_pending(&TxnOffsetCommit { producer_epoch: 1, ..pending("g", A, topics) })
    });
    assert_eq!(world.result(newer), NONE);
    assert_eq!(world.txn_commit("g", A, 0, 4), ErrorCode::InvalidProducerEpoch);
    assert_eq!(world.mark(A, true), ErrorCode::InvalidProducerEpoch);
    let current = world.send_marker(&EndTransaction { producer_epoch: 1, ..marker(A, true) });
    assert_eq!(world.result(current), NONE);
    assert_eq!(world.fetch("g", STABLE)[0], 5);
}

#[test]
fn a_transaction_whose_first_offset_is_in_flight_is_open_to_older_epochs_and_late_markers() {
    let mut world = World::new();
    let newer = with_topics(0, 5, |topics| {
        world.send_pending(&TxnOffsetCommit { producer_epoch: 1, ..pending("g", A, topics) })
    });
    assert_eq!(world.coordinator.pending_epoch(A), Some(1));
    assert_eq!(world.coordinator.pending_epoch(B), None);
    let late = world.send_marker(&marker(A, true));
    assert_eq!(world.seen.errors.get(&late), Some(&ErrorCode::InvalidProducerEpoch));
    let older = with_topics(0, 4, |topics| world.send_pending(&pending("g", A, topics)));
    assert_eq!(world.seen.errors.get(&older), Some(&ErrorCode::InvalidProducerEpoch));
    assert_eq!(world.result(newer), NONE);
    assert_eq!(world.fetch("g", STABLE)[0], UNSTABLE);
    assert_eq!(world.coordinator.pending_epoch(A), Some(1));
}

#[test]
fn a_group_id_is_needed_and_a_missing_group_has_no_generation() {
    let mut world = World::new();
    assert_eq!(world.txn_commit("", A, 0, 5), ErrorCode::InvalidGroupId);
    for (version, expected) in [(5, ErrorCode::IllegalGeneration), (6, ErrorCode::GroupIdNotFound)] {
        let ticket = with_topics(0, 5, |topics| {
            world.send_pending(&TxnOffsetCommit { version, generation: 1, ..pending("g", A, topics) })
        });
        assert_eq!(world.result(ticket), expected);
    }
    assert!(world.log.is_empty());
}

/// As Kafka 4.4.0 has answered, before and after the assignment.
#[test]
fn a_member_is_fenced_by_its_generation_and_a_stranger_is_not() {
    let mut scene = scene::Scene::new(scene::config());
    let joined = scene.join(&scene::Joining { instance: None, ..scene::joining("") });
    let member_id = scene.reply(joined).member_id.clone();
    let joined = scene.join(&scene::Joining { instance: None, member_id: &member_id, ..scene::joining("") });
    scene.store();
    scene.until(0);
    assert_eq!(scene.reply(joined).generation, 1);
    // Behind the tickets of the scene.
    let mut answers = 1_000;
    let mut check = |scene: &mut scene::Scene| {
        let cases = [
            (&*member_id, None, 1, NONE),
            (&member_id, None, 0, ErrorCode::IllegalGeneration),
            (&member_id, None, 2, ErrorCode::IllegalGeneration),
            (&member_id, None, -1, ErrorCode::IllegalGeneration),
            ("other", None, 1, ErrorCode::UnknownMemberId),
            ("", None, 1, ErrorCode::UnknownMemberId),
            (&member_id, Some("unknown"), 1, ErrorCode::UnknownMemberId),
            ("", None, -1, NONE),
        ];
        for (member_id, instance_id, generation, expected) in cases {
            let before = scene.effects.appends.len();
            let ticket = with_topics(0, 5, |topics| {
                let commit = TxnOffsetCommit { generation, member_id, instance_id, ..pending("g", A, topics) };
                answers += 1;
                let (now, ticket) = (scene.now(), Ticket(answers));
                let request = Request::TxnOffsetCommit(commit);
                scene.coordinator.submit(now, ticket, Entropy(0), request, &mut scene.effects);
                ticket
            });
            if scene.effects.appends.len() > before {
                scene.store();
            }
            assert_eq!(scene.reply(ticket).error, expected, "{member_id:?} {instance_id:?} {generation}");
        }
    };
    check(&mut scene);
    scene.sync(&member_id, 1, &[(&member_id, b"")]);
    scene.store();
    check(&mut scene);
}

#[test]
fn a_snapshot_has_pending_offsets_and_one_without_them_keeps_its_format() {
    let mut world = World::new();
    assert_eq!(world.commit("g", 1, 3), NONE);
    assert_eq!(world.coordinator.snapshot()[0], 4);
    assert_eq!(world.txn_commit("g", A, 0, 5), NONE);
    let snapshot = world.coordinator.snapshot();
    assert_eq!(snapshot[0], rota_core::SNAPSHOT_FORMAT);
    world.coordinator = Coordinator::restore(&snapshot).unwrap();
    assert_eq!(world.coordinator.snapshot(), snapshot);
    assert_eq!(world.mark(A, true), NONE);
    assert_eq!(world.fetch("g", STABLE), [5, 3, -1, -1]);
    for cut in 1..snapshot.len() {
        assert!(Coordinator::restore(&snapshot[..cut]).is_err(), "{cut} bytes");
    }
}

/// What the log says by itself: of each key the visible offset, and whether a transaction is still to decide. Written from
/// docs/protocol.md §10.4, by the positions of records.
fn expected(log: &[Batch]) -> BTreeMap<(String, i32), (i64, bool)> {
    let mut visible: BTreeMap<(String, i32), (usize, i64)> = BTreeMap::new();
    let mut open: BTreeMap<(String, i32), BTreeMap<i64, (usize, i64)>> = BTreeMap::new();
    for (position, batch) in log.iter().enumerate() {
        if let Some(TransactionBatch::End(EndTransaction { producer_id, is_commit, .. })) = batch.transaction {
            for (key, producers) in &mut open {
                let Some((written, offset)) = producers.remove(&producer_id).filter(|_| is_commit) else { continue };
                if visible.get(key).is_none_or(|(newest, _)| *newest < written) {
                    visible.insert(key.clone(), (written, offset));
                }
            }
        }
        for record in &batch.records {
            let Record::Offset { group_id, partition, value: stored, .. } = record else { continue };
            let key = (group_id.to_string(), *partition);
            match (stored, batch.transaction) {
                (Some(stored), Some(TransactionBatch::Offsets { producer_id, .. })) => {
                    open.entry(key).or_default().insert(producer_id, (position, value(stored)));
                }
                (Some(stored), _) => {
                    visible.insert(key, (position, value(stored)));
                }
                (None, _) => {
                    visible.remove(&key);
                    open.remove(&key);
                }
            }
        }
    }
    let mut all = BTreeMap::new();
    for group in ["g", "h"] {
        for partition in 0..4 {
            let key = (group.to_owned(), partition);
            let offset = visible.get(&key).map_or(-1, |(_, offset)| *offset);
            let is_open = open.get(&key).is_some_and(|producers| !producers.is_empty());
            all.insert(key, (offset, is_open));
        }
    }
    all
}

fn shown(world: &mut World) -> BTreeMap<(String, i32), (i64, bool)> {
    let mut all = BTreeMap::new();
    for group in ["g", "h"] {
        let (any, stable) = (world.fetch(group, !STABLE), world.fetch(group, STABLE));
        for partition in 0..4 {
            let (offset, stable) = (any[partition as usize], stable[partition as usize]);
            assert!(stable == UNSTABLE || stable == offset);
            all.insert((group.to_owned(), partition), (offset, stable == UNSTABLE));
        }
    }
    all
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// One event of a random session.
fn act(world: &mut World, random: &mut Random, step: i64) {
    let group = if random.below(3) == 0 { "h" } else { "g" };
    let (partition, producer) = (random.below(4) as i32, random.below(3) as i64);
    match random.below(20) {
        0..=4 => {
            with_topics(partition, step, |topics| world.send_pending(&pending(group, producer, topics)));
        }
        5..=7 => {
            with_topics(partition, step, |topics| {
                let commit = OffsetCommit {
                    version: 8,
                    group_id: Some(group),
                    generation: -1,
                    member_id: "",
                    instance_id: None,
                    retention_time_ms: None,
                    topics,
                };
                world.send(Request::OffsetCommit(commit));
            });
        }
        8..=10 => {
            world.send_marker(&marker(producer, random.below(3) > 0));
        }
        11 => {
            let topics = [OffsetDeleteTopic { name: "t", partitions: &[partition] }];
            world.send(Request::OffsetDelete(OffsetDelete { group_id: Some(group), topics: &topics }));
        }
        12 if random.below(3) == 0 => {
            world.send(Request::DeleteGroup(DeleteGroup { group_id: Some(group) }));
        }
        13 if random.below(4) == 0 => world.coordinator.topics_deleted(&["t"], NOW, &mut world.seen),
        14 => world.coordinator = Coordinator::restore(&world.coordinator.snapshot()).unwrap(),
        _ => world.end_one(true),
    }
}

#[test]
fn a_coordinator_and_its_replay_show_what_the_log_says() {
    let mut undecided = 0;
    for seed in 1..400_u64 {
        let mut world = World::new();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for step in 0..80 {
            act(&mut world, &mut random, step);
            if step % 8 == 7 {
                world.store_all();
                let expected = expected(&world.log);
                undecided += expected.values().filter(|(_, is_open)| *is_open).count();
                assert_eq!(shown(&mut world), expected, "seed {seed}, step {step}");
                assert_eq!(shown(&mut world.loaded()), expected, "seed {seed}, step {step}, after a restart");
                world.coordinator.check_invariants().unwrap();
            }
        }
    }
    assert!(undecided > 1_000, "{undecided} offsets were pending");
}
