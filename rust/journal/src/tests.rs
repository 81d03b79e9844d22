//! Sessions by chance, written down, folded again, and damaged in every way that a journal can be.

use rota_core::{
    Answer, AppendId, Config, Coordinator, ErrorCode, Now, Record, Request, Sink, Ticket,
    request::{
        Assignment, CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, Heartbeat, JoinGroup,
        LeaveGroup, LeaveIdentity, ListGroups, OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, Protocol,
        SyncGroup, TxnOffsetCommit, WriteTxnMarker,
    },
};

use crate::{
    Entry, Event, Firing, Outcome, Recorder, Replay, ReplayCounts, entry::effects_in, event::OwnedEvent, owned,
    write_entries, write_mark,
};

/// What a client of the session remembers.
#[derive(Default)]
struct Client {
    /// Group, member id, generation, whether it leads.
    members: Vec<(usize, String, i32, bool)>,
    appends: Vec<AppendId>,
    group: usize,
}

impl Sink for Client {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        let Answer::JoinGroup(join) = answer else { return };
        if join.member_id.is_empty() {
            return;
        }
        self.members.retain(|(_, member_id, ..)| member_id != join.member_id);
        let leads = join.leader == join.member_id;
        self.members.push((self.group, join.member_id.to_owned(), join.generation, leads));
        let excess = self.members.len().saturating_sub(12);
        self.members.drain(..excess);
    }

    fn append(&mut self, append_id: AppendId, _: &[Record]) {
        self.appends.push(append_id);
    }
}

/// A coordinator, and the journal of its events.
struct Session {
    coordinator: Coordinator,
    heard: Client,
    journal: Vec<Vec<u8>>,
    sequence: u64,
    now: Now,
    random: u64,
}

const GROUPS: [&str; 3] = ["g", "payments", ""];

impl Session {
    fn new(seed: u64) -> Session {
        let config = Config { group_initial_rebalance_delay_ms: 50, ..Config::default() };
        let mut session = Session {
            coordinator: Coordinator::new(config.clone(), 3, 1),
            heard: Client::default(),
            journal: Vec::new(),
            sequence: 0,
            now: Now { mono_ms: 0, wall_ms: 1_700_000_000_000 },
            random: seed.wrapping_mul(2) | 1,
        };
        session.tell(&Event::Began { config: &config, partition: 3, epoch: 1 });
        session.tell(&Event::Loaded { state: &[] });
        session
    }

    fn by_chance(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    fn tell(&mut self, event: &Event<'_>) {
        let (mut outcome, subject) = (Outcome::default(), event.subject(&self.coordinator));
        let sink = &mut Recorder::new(&mut outcome, Some(&mut self.heard));
        let _done = event.apply(&mut self.coordinator, self.now, sink);
        let state = self.coordinator.snapshot();
        let event = if matches!(event, Event::Loaded { .. }) { &Event::Loaded { state: &state } } else { event };
        let take = |_: &str, bytes| self.journal.push(bytes);
        write_entries(&self.coordinator, self.now, event, &subject, &outcome, &mut self.sequence, take);
    }

    fn snapshot(&mut self) {
        let state = self.coordinator.snapshot();
        self.journal.push(write_mark(self.sequence, self.now, &Event::Snapshot { state: &state }));
        self.sequence += 1;
    }

    fn ask(&mut self, request: Request<'_>) {
        owned::Request::from(&request).with(|again| assert_eq!(again, request, "an owned copy lends the same request"));
        let entropy = u128::from(self.random) << 64 | u128::from(self.random);
        self.tell(&Event::Submitted { ticket: Ticket(self.sequence), entropy, request });
    }

    fn member(&mut self) -> (usize, String, i32, bool) {
        if self.heard.members.is_empty() {
            return (0, "nobody".to_owned(), 1, false);
        }
        let at = self.by_chance(self.heard.members.len());
        self.heard.members[at].clone()
    }

    fn step(&mut self) {
        let group_id = GROUPS[self.member().0];
        match self.by_chance(24) {
            0..=16 => self.ask_something(),
            17 => self.tell(&Event::TopicsDeleted { topics: &["t", "u"] }),
            18 => {
                let (group, member_id, ..) = self.member();
                self.tell(&Event::Lapsed { group_id: GROUPS[group], member_id: &member_id });
            }
            19 => self.tell(&Event::Rebalanced { group_id }),
            20 => self.snapshot(),
            21..=22 => self.pass_time(),
            _ => self.end_appends(),
        }
    }

    fn end_appends(&mut self) {
        for append_id in std::mem::take(&mut self.heard.appends) {
            let failed = self.by_chance(8) == 0;
            let result = if failed { Err(ErrorCode::CoordinatorNotAvailable) } else { Ok(append_id.0) };
            self.tell(&Event::Appended { append_id, result });
        }
    }

    fn ask_something(&mut self) {
        let (group, member_id, generation, leads) = self.member();
        let (group_id, member_id) = (Some(GROUPS[group]), &*member_id);
        let partition = CommitPartition { index: 2, offset: 7, leader_epoch: -1, metadata: Some("m") };
        let (topics, instance) = ([CommitTopic { name: "t", topic_id: 9, partitions: &[partition] }], Some("i"));
        match self.by_chance(19) {
            0..=4 => {
                let known = self.by_chance(3) > 0;
                self.heard.group = if known { group } else { self.by_chance(2) };
                self.ask(Request::JoinGroup(JoinGroup {
                    version: 5,
                    group_id: Some(GROUPS[self.heard.group]),
                    member_id: if known && member_id != "nobody" { member_id } else { "" },
                    instance_id: if known { None } else { instance.filter(|_| generation > 2) },
                    client_id: "c",
                    client_host: "/127.0.0.1",
                    session_timeout_ms: 10_000,
                    rebalance_timeout_ms: 20_000,
                    protocol_type: "consumer",
                    protocols: &[Protocol { name: "range", metadata: b"\0\x01\0\0\0\0\xff\xff\xff\xff" }],
                    reason: Some("because"),
                }));
            }
            5..=7 => {
                let assignments = [Assignment { member_id, assignment: b"all of it" }];
                self.ask(Request::SyncGroup(SyncGroup {
                    version: 5,
                    group_id,
                    generation,
                    member_id,
                    instance_id: None,
                    protocol_type: Some("consumer"),
                    protocol_name: Some("range"),
                    assignments: if leads { &assignments } else { &[] },
                }));
            }
            8..=9 => self.ask(Request::Heartbeat(Heartbeat { group_id, generation, member_id, instance_id: None })),
            10 => self.ask(Request::OffsetCommit(OffsetCommit {
                version: 9,
                group_id,
                generation,
                member_id,
                instance_id: None,
                retention_time_ms: None,
                topics: &topics,
            })),
            11 => {
                let asked = [FetchTopic { name: "t", topic_id: 0, partitions: &[2, 5] }];
                let topics = (generation % 2 == 0).then_some(&asked[..]);
                self.ask(Request::OffsetFetch(OffsetFetch { group_id, require_stable: true, topics }));
            }
            12 => self.ask(Request::DescribeGroup(DescribeGroup { version: 6, group_id })),
            13 => self.ask(Request::ListGroups(ListGroups { states: &["stable", "empty"], types: &[] })),
            14 => {
                let members = [LeaveIdentity { member_id, instance_id: None, reason: Some("done") }];
                self.ask(Request::LeaveGroup(LeaveGroup { version: 5, group_id, members: &members }));
            }
            15 => self.ask(Request::DeleteGroup(DeleteGroup { group_id })),
            16..=17 => self.ask_in_transaction(group_id, generation),
            _ => {
                let topics = [OffsetDeleteTopic { name: "t", partitions: &[2] }];
                self.ask(Request::OffsetDelete(OffsetDelete { group_id, topics: &topics }));
            }
        }
    }

    /// Adds to a transaction, or ends it.
    fn ask_in_transaction(&mut self, group_id: Option<&str>, generation: i32) {
        if self.by_chance(2) == 0 {
            return self.ask(Request::WriteTxnMarker(WriteTxnMarker {
                transactional_id: Some("pay"),
                producer_id: 7,
                producer_epoch: 0,
                coordinator_epoch: 3,
                is_commit: generation % 2 == 0,
            }));
        }
        let partition = CommitPartition { index: 2, offset: 9, leader_epoch: -1, metadata: None };
        self.ask(Request::TxnOffsetCommit(TxnOffsetCommit {
            version: 5,
            group_id,
            producer_id: 7,
            producer_epoch: 0,
            generation: -1,
            member_id: "",
            instance_id: None,
            topics: &[CommitTopic { name: "t", topic_id: 9, partitions: &[partition] }],
        }));
    }

    fn pass_time(&mut self) {
        let step_ms = [1, 60, 3_000, 15_000][self.by_chance(4)];
        (self.now.mono_ms, self.now.wall_ms) = (self.now.mono_ms + step_ms, self.now.wall_ms + step_ms as i64);
        if self.coordinator.next_deadline().is_some_and(|deadline_ms| deadline_ms <= self.now.mono_ms) {
            self.tell(&Event::Advanced(Firing::default()));
        }
    }
}

fn journal(seed: u64, steps: usize) -> Vec<Vec<u8>> {
    let mut session = Session::new(seed);
    (0..steps).for_each(|_| session.step());
    session.tell(&Event::Unloaded);
    session.journal
}

/// What a replay has seen, or where it ended and what differed.
fn replayed(journal: &[Vec<u8>]) -> Result<ReplayCounts, (usize, &'static str)> {
    let mut replay = Replay::new();
    for (at, entry) in journal.iter().enumerate() {
        replay.fold(entry).map_err(|difference| (at, difference.what))?;
    }
    Ok(replay.counts())
}

fn event(entry: &[u8]) -> OwnedEvent<'_> {
    Entry::read(entry).unwrap().event
}

#[test]
fn a_journal_replays_without_a_difference_and_every_kind_of_event_is_in_it() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let journal = journal(seed, 400);
        let counts = replayed(&journal).unwrap();
        let marks = |entry: &&Vec<u8>| matches!(event(entry), OwnedEvent::Snapshot { .. });
        assert_eq!(counts.snapshots as usize, journal.iter().filter(marks).count());
        assert_eq!((counts.missing, counts.unchecked, counts.cut), (0, 0, 0));
        assert_eq!(counts.compared + counts.snapshots + 2, counts.entries);
        for entry in &journal {
            let is_beginning = matches!(event(entry), OwnedEvent::Began { .. } | OwnedEvent::Snapshot { .. });
            assert_eq!(Entry::begins_anew(entry), is_beginning);
            let shown = format!("{:?}", event(entry));
            let words: Vec<&str> = shown.split([' ', '(', '{']).filter(|word| !word.is_empty()).collect();
            let request = words.iter().position(|word| *word == "request:").map_or("", |at| words[at + 1]);
            kinds.insert(format!("{} {request}", words[0]));
        }
    }
    assert_eq!(kinds.len(), 10 + 11, "{kinds:?}");
}

#[test]
fn effects_are_read_as_they_were_written() {
    for entry in journal(7, 2_000) {
        let entry = Entry::read(&entry).unwrap();
        let written: Vec<u8> = effects_in(entry.effect_bytes())
            .unwrap()
            .iter()
            .flat_map(|effect| postcard::to_allocvec(effect).unwrap())
            .collect();
        assert_eq!(written, entry.effect_bytes());
        assert!(serde_json::from_str::<serde_json::Value>(&entry.to_json().unwrap()).is_ok());
    }
}

/// Entries that an earlier build wrote, each as hexadecimal and as JSON: of every event but the states, and of every
/// request and answer.
const VERSION_1: &str = include_str!("../tests/version_1.txt");

#[test]
fn entries_of_earlier_builds_are_read_and_written_as_they_were() {
    let lines: Vec<&str> = VERSION_1.lines().collect();
    for recorded in lines.chunks(2) {
        let [hexadecimal, json] = recorded else { panic!("a line without its JSON") };
        let digits: Vec<&str> = hexadecimal.as_bytes().chunks(2).map(|two| str::from_utf8(two).unwrap()).collect();
        let bytes: Vec<u8> = digits.iter().map(|two| u8::from_str_radix(two, 16).unwrap()).collect();
        let entry = Entry::read(&bytes).unwrap();
        assert_eq!(entry.to_json().unwrap(), *json);
        assert_eq!(entry.write(&entry.effects().unwrap()), bytes);
    }
    for name in Request::NAMES {
        for place in ["request", "answer"] {
            // Their answers are those of other requests.
            if place == "answer" && ["ConsumerOffsetFetch", "TxnOffsetCommit"].contains(name) {
                continue;
            }
            assert!(VERSION_1.contains(&format!("\"{place}\":{{\"{name}\":")), "{place} {name}");
        }
    }
}

#[test]
fn every_changed_byte_of_an_answer_or_digest_is_found_where_it_is() {
    let journal = journal(3, 120);
    let mut tried = 0;
    for at in 0..journal.len() {
        let entry = Entry::read(&journal[at]).unwrap();
        if matches!(entry.event, OwnedEvent::Began { .. } | OwnedEvent::Loaded { .. } | OwnedEvent::Snapshot { .. }) {
            continue;
        }
        let digest_bytes = postcard::to_allocvec(&entry.digest).unwrap().len();
        let tail = entry.effect_bytes().len() + digest_bytes;
        for position in journal[at].len() - tail..journal[at].len() {
            let mut planted = journal.clone();
            planted[at][position] ^= 0x01;
            let (found, what) = replayed(&planted).expect_err("a planted byte");
            assert_eq!(found, at, "byte {position}: {what}");
            tried += 1;
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn every_dropped_or_exchanged_entry_is_found_at_once() {
    let journal = journal(5, 150);
    for at in 1..journal.len() - 1 {
        let mut dropped = journal.clone();
        dropped.remove(at);
        assert_eq!(replayed(&dropped), Err((at, "order")));
        let mut exchanged = journal.clone();
        exchanged.swap(at, at + 1);
        assert!(matches!(replayed(&exchanged), Err((found, _)) if found == at || found == at + 1));
        let mut repeated = journal.clone();
        repeated.insert(at, journal[at].clone());
        assert_eq!(replayed(&repeated), Err((at + 1, "order")));
    }
}

#[test]
fn a_state_that_was_changed_is_found_by_the_snapshot() {
    let mut session = Session::new(11);
    (0..60).for_each(|_| session.step());
    let mut other = Session::new(12);
    (0..60).for_each(|_| other.step());
    let state = other.coordinator.snapshot();
    session.journal.push(write_mark(session.sequence, session.now, &Event::Snapshot { state: &state }));
    assert_eq!(replayed(&session.journal), Err((session.journal.len() - 1, "state")));
}

#[test]
fn a_gap_is_counted_and_the_next_snapshot_goes_on() {
    let mut session = Session::new(9);
    (0..100).for_each(|_| session.step());
    let before = session.journal.len();
    (0..50).for_each(|_| session.step());
    let missing = (session.journal.len() - before) as u64;
    session.journal.truncate(before);
    let gap = |entries| write_mark(session.sequence - 1, session.now, &Event::Gap { entries });
    let mut wrong = session.journal.clone();
    wrong.push(gap(missing - 1));
    assert_eq!(replayed(&wrong), Err((before, "order")), "a gap says how much is missing");
    let gap = gap(missing);
    session.journal.push(gap);
    session.tell(&Event::Rebalanced { group_id: "g" });
    session.snapshot();
    let compared = replayed(&session.journal).unwrap().compared;
    (0..100).for_each(|_| session.step());
    let counts = replayed(&session.journal).unwrap();
    assert_eq!((counts.missing, counts.unchecked), (missing, 1));
    assert!(counts.compared > compared);
}

#[test]
fn the_last_sequence_number_and_the_largest_gap_are_differences_or_counted() {
    let now = Session::new(1).now;
    let gap = |sequence, entries| write_mark(sequence, now, &Event::Gap { entries });
    let fold = |entries: &[Vec<u8>]| {
        let mut replay = Replay::new();
        entries.iter().try_for_each(|entry| replay.fold(entry)).map_err(|difference| difference.what)?;
        Ok(replay.counts().missing)
    };
    assert_eq!(fold(&[gap(u64::MAX, 1)]), Err("order"));
    assert_eq!(fold(&[gap(0, 1), gap(u64::MAX, u64::MAX)]), Err("order"));
    assert_eq!(fold(&[gap(u64::MAX - 2, 1), gap(u64::MAX - 1, 1)]), Ok(2));
    // No server counts so many; the replay must not stop with a panic.
    assert_eq!(fold(&[gap(0, u64::MAX), gap(u64::MAX - 1, u64::MAX - 1)]), Ok(u64::MAX));
}

#[test]
fn an_incarnation_that_was_killed_is_counted() {
    let mut killed = Session::new(1);
    (0..50).for_each(|_| killed.step());
    let entries = [killed.journal, journal(2, 50), journal(3, 50)].concat();
    assert_eq!(replayed(&entries).unwrap().cut, 1);
}

#[test]
fn what_is_no_entry_is_refused_with_a_reason() {
    for (bytes, reason) in [(&b""[..], "it is empty"), (b"\x02abc", "version 2 of the format"), (b"\x01", "no entry")] {
        let error = Entry::read(bytes).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(Replay::new().fold(bytes).is_err());
    }
    let mut long = journal(1, 1)[0].clone();
    long.push(0);
    assert!(Entry::read(&long).unwrap_err().to_string().contains("1 bytes follow it"));
}

#[test]
fn bytes_by_chance_never_panic() {
    let entries = journal(13, 300);
    let mut session = Session::new(99);
    for _ in 0..20_000 {
        let at = session.by_chance(entries.len());
        let mut bytes = entries[at].clone();
        for _ in 0..=session.by_chance(3) {
            let position = session.by_chance(bytes.len());
            bytes[position] = session.by_chance(256) as u8;
        }
        bytes.truncate(1 + session.by_chance(bytes.len()));
        if let Ok(entry) = Entry::read(&bytes) {
            let _text = entry.to_json();
        }
    }
}
