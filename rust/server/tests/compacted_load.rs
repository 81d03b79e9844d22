//! Loading beside compaction: wherever the log is compacted and however much a loader has read by then, it ends in the
//! state that the whole log says (docs/protocol.md §15.3).

use std::{path::Path, sync::Arc};

use rota_core::{
    AppendId, Config, Coordinator, LogEntry, Now, OffsetRecord, Projection, Record, Sink, Ticket,
    records::{GroupValue, MemberValue, OffsetValue},
    response::Answer,
};
use rota_log::{
    BatchWriter, RecordInPlace,
    files::{Files, ForgetfulFiles},
    store::{Command, Durability, PartitionHandle, PartitionView, Store, StoreOptions},
};

const TOPIC: &str = "__consumer_offsets";
const PAGE_BYTES: usize = 64;
/// Less than a segment has.
const SLICE_BYTES: usize = 256;
/// Tombstones stay so long; the loader of the test is faster.
const TOMBSTONES_KEPT_MS: i64 = 1_000;
/// Types of records of share groups: group, member.
const NEWER: [i16; 2] = [11, 10];

struct Deaf;

impl Sink for Deaf {
    fn answer(&mut self, _: Ticket, _: Answer<'_>) {}
    fn append(&mut self, _: AppendId, _: &[Record]) {}
}

fn member(id: &str, assignment: &str) -> MemberValue {
    MemberValue {
        member_id: id.into(),
        instance_id: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 30_000,
        subscription: Arc::from(&b"\0\0"[..]),
        assignment: assignment.as_bytes().into(),
    }
}

/// A generation in which these members have these assignments.
fn group(id: &str, generation: i32, members: &[(&str, &str)]) -> Record {
    let value = GroupValue {
        protocol_type: "consumer".into(),
        generation,
        protocol_name: (!members.is_empty()).then(|| "range".into()),
        leader: members.first().map(|(id, _)| (*id).into()),
        state_timestamp_ms: i64::from(generation),
        members: members.iter().map(|(id, assignment)| member(id, assignment)).collect(),
    };
    Record::Group { group_id: id.into(), value: Some(value) }
}

fn group_gone(id: &str) -> Record {
    Record::Group { group_id: id.into(), value: None }
}

fn offset(id: &str, partition: i32, offset: Option<i64>) -> Record {
    let value = offset.map(|offset| OffsetValue {
        offset,
        leader_epoch: -1,
        metadata: "".into(),
        commit_timestamp_ms: offset,
        expire_timestamp_ms: None,
        topic_id: 0,
    });
    Record::Offset { group_id: id.into(), topic: "orders".into(), partition, value }
}

fn newer(id: &str, is_there: bool) -> Vec<Record> {
    let record = |record_type: i16| {
        let mut key = record_type.to_be_bytes().to_vec();
        for text in [id, "member"].iter().take(1 + usize::from(record_type != NEWER[0])) {
            key.extend((text.len() as u16).to_be_bytes());
            key.extend(text.as_bytes());
        }
        Record::Unknown { key: key.into(), value: is_there.then(|| [0; 7].into()) }
    };
    NEWER.map(record).into()
}

/// What a partition moves from one member to the next leaves behind, groups that change their protocol and back, and
/// offsets that come and go.
fn log() -> Vec<Record> {
    let mut records = vec![
        group("g", 1, &[("a", "p")]),
        offset("g", 0, Some(1)),
        group("g", 2, &[]),
        group("g", 3, &[("b", "p")]),
        offset("g", 0, Some(2)),
        offset("g", 1, Some(7)),
        offset("g", 1, None),
        group("h", 1, &[("x", "p"), ("y", "q")]),
        offset("simple", 0, Some(5)),
        group_gone("h"),
    ];
    records.extend(newer("h", true));
    records.push(offset("h", 0, Some(3)));
    records.extend(newer("h", false));
    records.extend([
        group("h", 2, &[("y", "p, q")]),
        offset("simple", 0, Some(6)),
        offset("h", 0, Some(4)),
        group("g", 4, &[("b", "p"), ("c", "q")]),
        group("gone", 1, &[("z", "p")]),
        offset("gone", 0, Some(9)),
        offset("gone", 0, None),
        group_gone("gone"),
        group("g", 5, &[("c", "p, q")]),
        offset("g", 1, Some(8)),
    ]);
    records
}

/// A partition with the records of [`log`], some to each segment.
struct Scene {
    store: Store,
    partition: PartitionHandle,
    view: Arc<PartitionView>,
}

impl Scene {
    fn new() -> Scene {
        let options = StoreOptions {
            durability: Durability::Os,
            segment_bytes: 300,
            wal_bytes: 1 << 20,
            wal_reserve_bytes: 512,
            delete_retention_ms: TOMBSTONES_KEPT_MS,
            cleanable_percent_min: 0,
            ..StoreOptions::default()
        };
        let files: Arc<dyn Files> = Arc::new(ForgetfulFiles::new(PAGE_BYTES));
        let (mut store, _) = Store::open(files, Path::new(""), options).unwrap();
        let create = Command::Create { topic: TOPIC.to_owned(), partition: 0, topic_id: 1 };
        let handle = store.pass(vec![create]).remove(0).unwrap();
        let partition = PartitionHandle(handle as u32);
        store.pass(vec![Command::Open { partition, epoch: 0 }]).remove(0).unwrap();
        let view = store.view(partition).unwrap();
        Scene { store, partition, view }
    }

    fn append(&mut self, records: &[Record]) {
        for record in records {
            let mut writer = BatchWriter::default();
            writer.push(0, Some(&record.key_bytes()), record.value_bytes().as_deref());
            let batch = writer.finish().to_vec();
            let append = Command::Append { partition: self.partition, epoch: 0, batch };
            self.store.pass(vec![append]).remove(0).unwrap();
        }
    }

    /// Compacts what can be at this time; gives how many records are left.
    fn compact(&mut self, now_ms: i64) -> usize {
        self.store.checkpoint().unwrap();
        while let Some(mut task) = self.store.next_task(now_ms) {
            let done = task.run();
            self.store.finish(task, done);
        }
        self.view.read_records(0, usize::MAX).unwrap().len()
    }
}

/// A coordinator that is being loaded.
struct Loader {
    coordinator: Coordinator,
    next: i64,
}

impl Loader {
    fn new() -> Loader {
        Loader { coordinator: Coordinator::new(Config::default(), 0, 1), next: 0 }
    }

    fn read(&mut self, view: &PartitionView, records: usize) {
        for stored in view.read_records(self.next, records).unwrap() {
            self.replay(stored.offset, stored.timestamp_ms, &stored.record.key, stored.record.value.as_deref());
            self.next = stored.offset + 1;
        }
    }

    /// As the server does: offsets where they lie.
    fn replay(&mut self, offset: i64, timestamp_ms: i64, key: &[u8], value: Option<&[u8]>) {
        if let Some(record) = OffsetRecord::read(key, value).unwrap() {
            return self.coordinator.replay_offset(record);
        }
        let record = Record::decode(key, value).unwrap();
        self.coordinator.replay(&LogEntry { offset: offset as u64, timestamp_ms, record });
    }

    /// Reads the rest; gives the state of every group.
    fn finish(mut self, view: &PartitionView) -> Vec<Projection> {
        loop {
            let from = self.next;
            let visit = |record: RecordInPlace<'_>| {
                self.replay(record.offset, record.timestamp_ms, record.key, record.value);
            };
            self.next = view.visit_records(from, SLICE_BYTES, visit).unwrap();
            if self.next == from {
                break;
            }
        }
        self.coordinator.loaded(Now { mono_ms: 0, wall_ms: 0 }, &mut Deaf);
        let groups = self.coordinator.group_ids();
        groups.iter().map(|group_id| self.coordinator.project(group_id).unwrap()).collect()
    }
}

/// The states after the first so many records, as a log that was never compacted says.
fn expected(records: &[Record]) -> Vec<Projection> {
    let mut scene = Scene::new();
    scene.append(records);
    Loader::new().finish(&scene.view)
}

#[test]
fn every_compaction_point_and_every_prefix_that_was_read_give_the_same_state() {
    let records = log();
    let whole = expected(&records);
    let (mut compacted, mut tried) = (0, 0);
    for point in 0..=records.len() {
        for prefix in 0..=point {
            let mut scene = Scene::new();
            scene.append(&records[..point]);
            let mut loader = Loader::new();
            loader.read(&scene.view, prefix);
            compacted += usize::from(scene.compact(1) < point);
            scene.append(&records[point..]);
            assert_eq!(loader.finish(&scene.view), whole, "compacted after {point}, {prefix} were read");
            // Once more, while tombstones are still kept, and for a load that begins now.
            scene.compact(TOMBSTONES_KEPT_MS);
            assert_eq!(Loader::new().finish(&scene.view), whole, "compacted after {point} and at the end");
            tried += 1;
        }
    }
    assert!(tried > 300 && compacted > tried / 2, "{compacted} of {tried} had anything to compact");
}

#[test]
fn a_loader_that_reads_on_at_every_slice_of_a_compaction_ends_in_the_same_state() {
    let records = log();
    let whole = expected(&records);
    let mut slices = 0;
    for prefix in 0..=records.len() {
        for at in 0.. {
            let mut scene = Scene::new();
            scene.append(&records);
            let mut loader = Loader::new();
            loader.read(&scene.view, prefix);
            scene.store.checkpoint().unwrap();
            let mut task = scene.store.next_task(1).expect("there is something to compact");
            let goes_on = (0..at).all(|_| task.step().unwrap());
            loader.read(&scene.view, 1);
            if goes_on {
                task.run().unwrap();
            }
            scene.store.finish(task, Ok(()));
            assert_eq!(loader.finish(&scene.view), whole, "{prefix} were read, then one after {at} slices");
            slices += 1;
            if !goes_on {
                break;
            }
        }
    }
    assert!(slices > 10 * records.len(), "{slices}");
}

#[test]
fn without_its_tombstones_the_log_still_says_the_same() {
    let records = log();
    let mut scene = Scene::new();
    scene.append(&records);
    // The newest segment is never compacted: what follows is no record.
    scene.append(&vec![offset("last", 0, Some(1)); 6]);
    let with_tombstones = scene.compact(1);
    scene.append(&vec![offset("last", 0, Some(2)); 6]);
    let without = scene.compact(3 * TOMBSTONES_KEPT_MS);
    assert!(without < with_tombstones, "{without} of {with_tombstones}");
    let mut whole = expected(&[records, vec![offset("last", 0, Some(2))]].concat());
    for state in &mut whole {
        state.offsets.sort_by_key(|(topic, partition, _)| (Arc::clone(topic), *partition));
    }
    assert_eq!(Loader::new().finish(&scene.view), whole);
}
