//! Requests that the explorer does not send, and rules of a node that no promise depends on.

use std::collections::BTreeMap;

use rota_engine::{
    Beat, CallId, Command, Config, Directory, Epoch, Event, HistoryId, Incarnation, Memory, Node, NodeId, Nonce,
    Outcome, PartitionId, Prev, Request, SnapshotHead, Token, View, checksum,
    node::{Lost, Stop},
    requests::{
        Append, Body, Check, Claim, Claimed, Content, Fence, HeadPut, NotePut, PutBeat, PutChunk, PutHead, PutNote,
        Register, Registered, Silence, Trim, Usage, read::Damage,
    },
};

const HISTORY: HistoryId = HistoryId(1);
const PARTITION: PartitionId = PartitionId(0);
const TTL_MS: u64 = 5_000;

fn ask(engine: &mut Memory, body: Body) -> Content {
    engine.call(&Request { history: HISTORY, body }).content
}

fn register(engine: &mut Memory, node: i32, directory: u128, incarnation: u128) -> Content {
    let (directory, incarnation) = (Directory(directory), Incarnation(incarnation));
    ask(engine, Body::Register(Register { node: NodeId(node), directory, incarnation }))
}

fn claim(engine: &mut Memory, node: i32, incarnation: u128) -> Token {
    let seen = engine.store().part(PARTITION);
    let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
    let claim =
        Claim { partition: PARTITION, seen, silence: Silence::NotNeeded, node, incarnation, at_least: Epoch(1) };
    let Content::Claimed(Claimed::Owner(token)) = ask(engine, Body::Claim(claim)) else { panic!("the claim is lost") };
    token
}

#[test]
fn a_claims_epoch_follows_the_one_before_and_is_at_least_what_it_asks_for() {
    let mut engine = Memory::new(HISTORY);
    let mut epoch = |at_least: i32| {
        let seen = engine.store().part(PARTITION);
        let (node, incarnation, at_least) = (NodeId(1), Incarnation(7), Epoch(at_least));
        let claim = Claim { partition: PARTITION, seen, silence: Silence::NotNeeded, node, incarnation, at_least };
        let Content::Claimed(Claimed::Owner(token)) = ask(&mut engine, Body::Claim(claim.clone())) else {
            panic!("the claim is lost")
        };
        assert_eq!(token.part(), claim.part());
        token.epoch.0
    };
    assert_eq!([epoch(5), epoch(1), epoch(6), epoch(9)], [5, 6, 7, 9]);
}

fn append(engine: &mut Memory, token: Token, prev: Prev, base_offset: i64) -> Prev {
    let nonce = Nonce(base_offset as u128);
    let append = Append { partition: PARTITION, token, prev, base_offset, nonce, count: 1, bytes: vec![7; 10] };
    let Content::Appended(rota_engine::requests::Appended::Written(revision)) = ask(engine, Body::Append(append))
    else {
        panic!("the append is refused")
    };
    Prev::Entry(base_offset, revision)
}

#[test]
fn an_id_stays_with_its_directory() {
    let mut engine = Memory::new(HISTORY);
    assert!(matches!(register(&mut engine, 1, 10, 100), Content::Registered(Registered::As(_))));
    assert!(matches!(register(&mut engine, 1, 10, 101), Content::Registered(Registered::As(_))));
    let other = register(&mut engine, 1, 11, 102);
    assert_eq!(other, Content::Registered(Registered::Taken(Directory(10))));
}

#[test]
fn a_check_says_whether_the_owner_still_is() {
    let mut engine = Memory::new(HISTORY);
    let first = claim(&mut engine, 1, 100);
    let check = |token| Body::Check(Check { partition: PARTITION, token });
    assert_eq!(ask(&mut engine, check(first)), Content::Fence(Fence::Held));
    let second = claim(&mut engine, 2, 200);
    assert_eq!(ask(&mut engine, check(first)), Content::Fence(Fence::Refused(Some(second.part()))));
}

#[test]
fn a_trim_keeps_what_no_snapshot_has_and_the_newest_entry() {
    let mut engine = Memory::new(HISTORY);
    let token = claim(&mut engine, 1, 100);
    let prev = (0..3).fold(Prev::Nothing, |prev, offset| append(&mut engine, token, prev, offset));
    let trim = Body::Trim(Trim { partition: PARTITION, token });
    assert_eq!(ask(&mut engine, trim.clone()), Content::Fence(Fence::Held));
    assert_eq!(engine.store().log(PARTITION).entries.len(), 3);
    let chunk = vec![1, 2, 3];
    let head = SnapshotHead { upto: 3, epoch: token.epoch, chunks: 1, checksum: checksum([&chunk]) };
    ask(&mut engine, Body::Chunk(PutChunk { partition: PARTITION, token, upto: 3, index: 0, bytes: chunk }));
    let put = Body::Head(PutHead { partition: PARTITION, token, replaces: None, prev, head });
    assert_eq!(ask(&mut engine, put), Content::HeadPut(HeadPut::Written));
    assert_eq!(ask(&mut engine, trim), Content::Fence(Fence::Held));
    let left: Vec<i64> = engine.store().log(PARTITION).entries.into_keys().collect();
    assert_eq!(left, [2]);
}

#[test]
fn a_chunk_follows_the_one_before_it() {
    let mut engine = Memory::new(HISTORY);
    let token = claim(&mut engine, 1, 100);
    let chunk = |index| Body::Chunk(PutChunk { partition: PARTITION, token, upto: 3, index, bytes: vec![7] });
    let (held, refused) = (Content::Fence(Fence::Held), Content::Fence(Fence::Refused(Some(token.part()))));
    assert_eq!(ask(&mut engine, chunk(1)), refused, "the first is not there");
    for (index, answer) in [(0, &held), (1, &held), (1, &held), (3, &refused), (2, &held)] {
        assert_eq!(ask(&mut engine, chunk(index)), *answer, "chunk {index}");
    }
    assert_eq!(engine.store().log(PARTITION).chunks.len(), 3);
}

#[test]
fn usage_counts_what_is_live() {
    let mut engine = Memory::new(HISTORY);
    let token = claim(&mut engine, 1, 100);
    append(&mut engine, token, Prev::Nothing, 0);
    let Content::Used(used) = ask(&mut engine, Body::Usage(Usage)) else { panic!("another answer") };
    assert_eq!(used.live_bytes, 10);
}

/// Node 1 beside node 2, which owns the partition and has beaten once.
struct Scene {
    engine: Memory,
    node: Node,
    /// What the node found that the engine has lost.
    lost: Vec<Lost>,
}

impl Scene {
    fn new() -> Scene {
        let mut engine = Memory::new(HISTORY);
        register(&mut engine, 2, 20, 200);
        let beat = Beat { incarnation: Incarnation(200), counter: 1 };
        ask(&mut engine, Body::Beat(PutBeat { node: NodeId(2), beat, shown: 0 }));
        claim(&mut engine, 2, 200);
        let registered = register(&mut engine, 1, 10, 100);
        let Content::Registered(Registered::As(view)) = registered else { panic!("the id is taken") };
        let (node, incarnation) = (NodeId(1), Incarnation(100));
        let config = Config { node, incarnation, ttl_ms: TTL_MS, margin_ms: 500, beat_interval_ms: 1_000 };
        Scene { engine, lost: Vec::new(), node: Node::new(config, view, 0) }
    }

    fn step(&mut self, now_ms: u64, event: Event) -> Vec<(CallId, Request)> {
        let mut commands = Vec::new();
        self.node.step(now_ms, event, &mut commands);
        let mut sent = Vec::new();
        for command in commands {
            match command {
                Command::Send(call, request) => sent.push((call, request)),
                Command::Lost(lost) => self.lost.push(lost),
                _ => {}
            }
        }
        sent
    }

    fn beat(&mut self, now_ms: u64) {
        for (call, request) in self.step(now_ms, Event::Turn) {
            let answer = self.engine.call(&request);
            self.step(now_ms, Event::Ended(call, Outcome::Answered(answer)));
        }
    }

    fn claims(&mut self, now_ms: u64) -> bool {
        !self.step(now_ms, Event::Acquire(PARTITION)).is_empty()
    }
}

#[test]
fn a_silent_owner_is_replaced_after_a_ttl() {
    let mut scene = Scene::new();
    for second in 0..5 {
        scene.beat(second * 1_000);
        assert!(!scene.claims(second * 1_000));
    }
    scene.beat(TTL_MS);
    assert!(scene.claims(TTL_MS));
}

#[test]
fn after_an_outage_of_the_engine_silence_counts_anew() {
    let mut scene = Scene::new();
    scene.beat(0);
    scene.beat(TTL_MS);
    assert!(!scene.claims(TTL_MS));
    for second in 6..10 {
        scene.beat(second * 1_000);
        assert!(!scene.claims(second * 1_000));
    }
    scene.beat(2 * TTL_MS);
    assert!(scene.claims(2 * TTL_MS));
}

#[test]
fn a_node_whose_beats_are_late_claims_from_a_silent_owner_all_the_same() {
    let mut scene = Scene::new();
    // Each beat is answered more than half a TTL after the one before it.
    let claimed = (0..5).map(|beat| beat * 3_000).find(|now_ms| {
        scene.beat(*now_ms);
        scene.claims(*now_ms)
    });
    assert_eq!(claimed, Some(9_000), "the count began anew at 3 s, and not again");
}

#[test]
fn a_stopped_node_refuses_everything() {
    let mut scene = Scene::new();
    scene.beat(0);
    register(&mut scene.engine, 1, 10, 101);
    scene.beat(1_000);
    assert_eq!(scene.node.inspect().stopped, Some(Stop::Replaced));
    assert_eq!(scene.step(2_000, Event::Turn), []);
    assert!(!scene.claims(2 * TTL_MS));
}

/// The image of an engine that went back, with revisions that are higher than all before.
fn bumped(mut view: View) -> View {
    view.revision.0 += 1 << 30;
    view
}

#[test]
fn a_node_that_is_shown_less_than_its_last_beat_stops() {
    let mut scene = Scene::new();
    scene.beat(0);
    let older = scene.engine.view();
    scene.beat(1_000);
    scene.step(1_000, Event::View(older.clone()));
    assert_eq!(scene.node.inspect().stopped, None, "the watch is late");
    let before = scene.node.inspect().view.clone();
    scene.step(1_000, Event::View(bumped(older)));
    assert_eq!(scene.node.inspect().stopped, Some(Stop::WentBack));
    assert_eq!(scene.lost, [Lost::Beat(2)]);
    assert_eq!(scene.node.inspect().view, before, "the other image is not passed on");
}

#[test]
fn a_node_whose_registration_is_gone_from_its_view_stops() {
    let mut scene = Scene::new();
    let before = scene.engine.view();
    scene.step(0, Event::View(View { nodes: BTreeMap::new(), ..bumped(before.clone()) }));
    assert_eq!(scene.node.inspect().stopped, Some(Stop::Replaced));
    assert_eq!(scene.node.inspect().view, before, "the other image is not passed on");
}

/// The answer to a beat arrives before the watch has shown that the engine went back.
#[test]
fn a_beat_is_not_written_by_an_engine_that_has_lost_an_earlier_one() {
    let mut scene = Scene::new();
    scene.beat(0);
    scene.engine.back_up();
    scene.beat(1_000);
    scene.engine.restore();
    // Revisions are higher again.
    claim(&mut scene.engine, 2, 200);
    claim(&mut scene.engine, 2, 200);
    let restored = scene.engine.view();
    scene.beat(2_000);
    assert_eq!(scene.node.inspect().stopped, Some(Stop::WentBack));
    assert_eq!(scene.lost, [Lost::Beat(2)]);
    assert_eq!(scene.engine.view(), restored);
}

#[test]
fn a_note_is_written_only_over_what_its_writer_saw() {
    let mut engine = Memory::new(HISTORY);
    let put = |engine: &mut Memory, seen: Option<&[u8]>, value: Option<&[u8]>| {
        let (seen, value) = (seen.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec));
        ask(engine, Body::Note(PutNote { name: "plan".to_owned(), seen, value }))
    };
    assert_eq!(put(&mut engine, None, Some(b"a")), Content::NotePut(NotePut::Written));
    let revision = engine.view().revision;
    assert_eq!(put(&mut engine, None, Some(b"a")), Content::NotePut(NotePut::Written), "an earlier attempt wrote it");
    assert_eq!(engine.view().revision, revision);
    assert_eq!(put(&mut engine, None, Some(b"b")), Content::NotePut(NotePut::Refused(Some(b"a".to_vec()))));
    assert_eq!(put(&mut engine, Some(b"a"), None), Content::NotePut(NotePut::Written));
    assert!(engine.view().notes.is_empty());
}

#[test]
fn an_entry_with_a_count_that_no_owner_writes_is_damage() {
    let mut engine = Memory::new(HISTORY);
    let token = claim(&mut engine, 1, 7);
    append(&mut engine, token, Prev::Nothing, 0);
    let log = engine.store().log(PARTITION);
    assert_eq!(log.end(), Ok(1));
    for count in [i64::MAX, i64::MIN, -1] {
        let mut log = log.clone();
        let mut last = log.entries[&0].clone();
        last.value.count = count;
        log.entries.insert(1, last);
        assert_eq!(log.end(), Err(Damage::Hole(1)), "{count}");
    }
}
