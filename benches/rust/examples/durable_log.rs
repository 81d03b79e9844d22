//! The durable log as a server uses it: commits per sync beside the disk's own rate of syncs, and the load of a
//! partition of 1.02 million offset records. `cargo run --release -p rota-benches --example durable_log -- [DIR] [SECONDS]`

#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use rota_log::{
    Append, BatchKind, Completions, FencedLog, LogRecord, SegmentStore,
    files::DiskFiles,
    store::{Durability, StoreOptions},
};

const RECORDS: u64 = 1_020_000;
const ROUNDS: usize = 3;

/// As Kafka 4.4 writes them: key of group, topic and partition, value version 4.
fn offset_record(n: u64) -> LogRecord {
    let mut key = vec![0, 1];
    for name in [format!("group-{:05}", n % 10_000), "some-topic".to_owned()] {
        key.extend((name.len() as u16).to_be_bytes());
        key.extend(name.as_bytes());
    }
    key.extend(((n / 10_000) as i32 % 102).to_be_bytes());
    let mut value = vec![0, 4];
    value.extend(n.to_be_bytes());
    value.extend([0xff; 4]);
    value.push(1);
    value.extend(1_700_000_000_000_u64.to_be_bytes());
    value.extend([1, 0, 16]);
    value.extend([7; 16]);
    LogRecord { key, value: Some(value) }
}

fn open(dir: &Path, durability: Durability) -> SegmentStore {
    let options = StoreOptions { durability, ..StoreOptions::default() };
    SegmentStore::open(Arc::new(DiskFiles), dir, options).expect("the directory can be opened").0
}

/// Syncs a second of 4 KiB in place.
fn floor(dir: &Path, seconds: f64) -> io::Result<f64> {
    let mut file = fs::File::create(dir.join("floor"))?;
    file.write_all(&[0; 4096])?;
    file.sync_all()?;
    let (started, mut count) = (Instant::now(), 0_u64);
    while started.elapsed() < Duration::from_secs_f64(seconds) {
        file.write_all_at(&[1; 4096], 0)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

fn append(partition: i32, id: u64) -> Append<Vec<LogRecord>> {
    let (timestamp_ms, kind) = (1_700_000_000_000, BatchKind::Plain);
    Append { partition, epoch: 0, id, timestamp_ms, kind, batch: vec![offset_record(id)] }
}

/// So many requesters, each with one commit in flight, over the partitions: commits a second, syncs a second.
fn commits(dir: &Path, requesters: u64, partitions: u32, durability: Durability, seconds: f64) -> (f64, f64) {
    let store = open(dir, durability);
    let (wake, woken) = mpsc::channel();
    let completions = Completions::new(move || {
        let _ = wake.send(());
    });
    let log = store.log("__consumer_offsets", partitions, 1, usize::MAX).expect("a new directory");
    let mut opened = 0;
    for partition in 0..partitions as i32 {
        log.open(partition, 0, &completions);
    }
    while opened < partitions as usize {
        woken.recv().expect("the log lives");
        opened += completions.take().len();
    }
    let (mut asked, mut durable) = (0, 0_u64);
    let before = store.inspect(|store| store.syncs().count()).expect("it is open");
    let started = Instant::now();
    let mut ask = |count: u64| {
        for _ in 0..count {
            asked += 1;
            log.append(append((asked % u64::from(partitions)) as i32, asked), &completions);
        }
    };
    ask(requesters);
    while started.elapsed() < Duration::from_secs_f64(seconds) {
        woken.recv().expect("the log lives");
        let arrived = completions.take();
        assert!(arrived.iter().all(|completion| completion.result.is_ok()));
        durable += arrived.len() as u64;
        ask(arrived.len() as u64);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let syncs = store.inspect(|store| store.syncs().count()).expect("it is open") - before;
    (durable as f64 / elapsed, syncs as f64 / elapsed)
}

/// Fills a partition with `RECORDS` records, one a batch; then opens the directory and reads all of them.
fn load(dir: &Path) {
    {
        let store = open(dir, Durability::Os);
        let log = store.log("__consumer_offsets", 50, 1, usize::MAX).expect("a new directory");
        let completions = Completions::new(|| ());
        log.open(0, 0, &completions);
        let mut ended = 0;
        for n in 0..RECORDS {
            log.append(append(0, n), &completions);
            while n % 10_000 == 9_999 && ended + 20_000 < n {
                ended += completions.take().len() as u64;
                std::thread::yield_now();
            }
        }
    }
    for round in 0..ROUNDS {
        let started = Instant::now();
        let store = open(dir, Durability::Fsync);
        let opened = started.elapsed();
        let log = store.log("__consumer_offsets", 50, 1, usize::MAX).expect("it is there");
        let view = log.view(0).expect("it is there");
        let started = Instant::now();
        let (mut from, mut records, mut bytes, mut sum) = (0, 0_u64, 0, 0_u64);
        loop {
            let slice = view.read_slice(from, 1 << 20).expect("nothing is damaged");
            if slice.next_offset == from {
                break;
            }
            from = slice.next_offset;
            bytes += slice.bytes.len();
            for batch in slice.batches() {
                let batch = batch.expect("it was read back");
                let payload = batch.payload(1 << 20).expect("it is not compressed");
                for record in batch.records_in(&payload) {
                    let record = record.expect("it was written by us");
                    records += 1;
                    sum = sum.wrapping_add(record.key.map_or(0, <[u8]>::len) as u64);
                }
            }
        }
        let took = started.elapsed();
        let started = Instant::now();
        let stored = view.read_records(0, usize::MAX).expect("nothing is damaged");
        let owned = started.elapsed();
        println!(
            "load, round {round}: open {:.1} ms; {records} records, {:.0} MB ({sum}): in place {:.0} ms ({:.2} M records/s, \
             {:.0} MB/s), as owned records {:.0} ms ({} of them)",
            opened.as_secs_f64() * 1e3,
            bytes as f64 / 1e6,
            took.as_secs_f64() * 1e3,
            records as f64 / took.as_secs_f64() / 1e6,
            bytes as f64 / took.as_secs_f64() / 1e6,
            owned.as_secs_f64() * 1e3,
            stored.len(),
        );
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let parent = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.get(1).map_or(1.0, |text| text.parse().expect("seconds are a number"));
    let dir = parent.join(format!("rota-durable-log-{}", std::process::id()));
    println!(
        "{:>10} {:>10} {:>12} {:>10} {:>12} {:>8}",
        "requesters", "partitions", "commits/s", "syncs/s", "floor x n", "share"
    );
    for (requesters, partitions) in [(1, 1), (16, 1), (16, 50), (256, 50), (1_024, 50)] {
        let mut rows = Vec::new();
        for _ in 0..ROUNDS {
            fs::create_dir_all(&dir)?;
            let floor = floor(&dir, seconds / 2.0)? * requesters as f64;
            fs::remove_dir_all(&dir)?;
            let (commits, syncs) = commits(&dir, requesters, partitions, Durability::Fsync, seconds);
            fs::remove_dir_all(&dir)?;
            rows.push((commits / floor, commits, syncs, floor));
        }
        rows.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (share, commits, syncs, floor) = rows[ROUNDS / 2];
        println!(
            "{requesters:>10} {partitions:>10} {commits:>12.0} {syncs:>10.0} {floor:>12.0} {:>7.0}%",
            share * 100.0
        );
    }
    let (os, _) = commits(&dir, 256, 50, Durability::Os, seconds);
    println!("256 requesters, 50 partitions, durability os: {os:.0} commits/s");
    fs::remove_dir_all(&dir)?;
    load(&dir);
    fs::remove_dir_all(&dir)
}
