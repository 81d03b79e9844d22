//! How to make one small append to each of 1, 16 or 50 partitions durable: figures for
//! `docs/decisions/0002-group-commit.md`. `cargo run --release -p rota-benches --example group_commit -- [DIR] [SECONDS]`
//!
//! Every way is run in turn, several rounds, so that a drift of the disk meets all of them.

#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

const BATCH: [u8; 200] = [7; 200];
const WAL_BYTES_MAX: u64 = 64 << 20;
const ROUNDS: usize = 3;

/// One way to make a pass durable: it is given the partitions that have something new.
trait Way {
    fn pass(&mut self, batch: &[u8]) -> io::Result<u64>;
}

struct Segments {
    files: Vec<Arc<File>>,
    position: u64,
}

impl Segments {
    fn create(dir: &Path, count: usize) -> io::Result<Segments> {
        let files = (0..count)
            .map(|n| {
                OpenOptions::new().create(true).truncate(true).write(true).open(dir.join(format!("s{n}"))).map(Arc::new)
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Segments { files, position: 0 })
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        for file in &self.files {
            file.write_all_at(batch, self.position)?;
        }
        self.position += batch.len() as u64;
        Ok(())
    }
}

/// `fdatasync` of each dirty segment, one after the other.
struct EachInTurn(Segments);

impl Way for EachInTurn {
    fn pass(&mut self, batch: &[u8]) -> io::Result<u64> {
        self.0.write(batch)?;
        for file in &self.0.files {
            file.sync_data()?;
        }
        Ok(self.0.files.len() as u64)
    }
}

/// The same by eight threads, so that the file system may join the commits of its journal.
struct EachByThreads {
    segments: Segments,
    jobs: mpsc::Sender<Arc<File>>,
    done: mpsc::Receiver<io::Result<()>>,
}

impl EachByThreads {
    fn new(segments: Segments) -> EachByThreads {
        let (jobs, queue) = mpsc::channel::<Arc<File>>();
        let (tell, done) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..8 {
            let (queue, tell) = (Arc::clone(&queue), tell.clone());
            thread::spawn(move || {
                loop {
                    let job = queue.lock().unwrap().recv();
                    let Ok(file) = job else { return };
                    if tell.send(file.sync_data()).is_err() {
                        return;
                    }
                }
            });
        }
        EachByThreads { segments, jobs, done }
    }
}

impl Way for EachByThreads {
    fn pass(&mut self, batch: &[u8]) -> io::Result<u64> {
        self.segments.write(batch)?;
        for file in &self.segments.files {
            self.jobs.send(Arc::clone(file)).unwrap();
        }
        for _ in &self.segments.files {
            self.done.recv().unwrap()?;
        }
        Ok(self.segments.files.len() as u64)
    }
}

/// `syncfs`: everything that anybody wrote to the file system.
struct WholeFileSystem(Segments);

impl Way for WholeFileSystem {
    fn pass(&mut self, batch: &[u8]) -> io::Result<u64> {
        self.0.write(batch)?;
        rustix::fs::syncfs(&self.0.files[0])?;
        Ok(1)
    }
}

/// A write-ahead file, segments written in the same pass and synced when the file is full.
struct WriteAhead {
    segments: Segments,
    wal: File,
    position: u64,
    sync: bool,
    frame: Vec<u8>,
}

/// How the write-ahead file gets its blocks.
#[derive(Clone, Copy, PartialEq)]
enum Blocks {
    Growing,
    Allocated,
    Zeroed,
    ZeroedDsync,
}

impl WriteAhead {
    fn new(dir: &Path, segments: Segments, blocks: Blocks) -> io::Result<WriteAhead> {
        let path = dir.join("wal");
        let mut wal = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        match blocks {
            Blocks::Growing => {}
            Blocks::Allocated => {
                rustix::fs::fallocate(&wal, rustix::fs::FallocateFlags::empty(), 0, WAL_BYTES_MAX)?;
            }
            Blocks::Zeroed | Blocks::ZeroedDsync => {
                let zeros = vec![0; 1 << 20];
                for _ in 0..WAL_BYTES_MAX >> 20 {
                    wal.write_all(&zeros)?;
                }
            }
        }
        wal.sync_all()?;
        let sync = blocks != Blocks::ZeroedDsync;
        if !sync {
            let flags = rustix::fs::OFlags::DSYNC.bits().cast_signed();
            wal = OpenOptions::new().write(true).custom_flags(flags).open(&path)?;
        }
        Ok(WriteAhead { segments, wal, position: 0, sync, frame: Vec::new() })
    }
}

impl Way for WriteAhead {
    fn pass(&mut self, batch: &[u8]) -> io::Result<u64> {
        self.frame.clear();
        for _ in &self.segments.files {
            self.frame.extend_from_slice(batch);
        }
        let mut syncs = 1;
        if self.position + self.frame.len() as u64 > WAL_BYTES_MAX {
            for file in &self.segments.files {
                file.sync_data()?;
            }
            syncs += self.segments.files.len() as u64;
            self.position = 0;
        }
        self.segments.write(batch)?;
        self.wal.write_all_at(&self.frame, self.position)?;
        if self.sync {
            self.wal.sync_data()?;
        }
        self.position += self.frame.len() as u64;
        Ok(syncs)
    }
}

/// The floor: 4 KiB overwritten in place and synced.
struct Floor(File);

impl Way for Floor {
    fn pass(&mut self, _: &[u8]) -> io::Result<u64> {
        self.0.write_all_at(&[1; 4096], 0)?;
        self.0.sync_data()?;
        Ok(1)
    }
}

fn way(name: &str, dir: &Path, partitions: usize) -> io::Result<Box<dyn Way>> {
    let segments = Segments::create(dir, partitions)?;
    let write_ahead =
        |segments, blocks| WriteAhead::new(dir, segments, blocks).map(|way| Box::new(way) as Box<dyn Way>);
    Ok(match name {
        "floor: 4 KiB in place" => {
            let file = File::create(dir.join("floor"))?;
            file.write_all_at(&[0; 4096], 0)?;
            file.sync_all()?;
            Box::new(Floor(file))
        }
        "each segment in turn" => Box::new(EachInTurn(segments)),
        "each segment, 8 threads" => Box::new(EachByThreads::new(segments)),
        "syncfs" => Box::new(WholeFileSystem(segments)),
        "write-ahead, growing" => write_ahead(segments, Blocks::Growing)?,
        "write-ahead, fallocate" => write_ahead(segments, Blocks::Allocated)?,
        "write-ahead, zeroed" => write_ahead(segments, Blocks::Zeroed)?,
        "write-ahead, zeroed, O_DSYNC" => write_ahead(segments, Blocks::ZeroedDsync)?,
        other => panic!("no way is called `{other}`"),
    })
}

const WAYS: [&str; 8] = [
    "floor: 4 KiB in place",
    "each segment in turn",
    "each segment, 8 threads",
    "syncfs",
    "write-ahead, growing",
    "write-ahead, fallocate",
    "write-ahead, zeroed",
    "write-ahead, zeroed, O_DSYNC",
];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let parent = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.get(1).map_or(0.7, |text| text.parse().expect("seconds are a number"));
    let dir = parent.join(format!("rota-group-commit-{}", std::process::id()));
    println!(
        "{:<30} {:>10} {:>10} {:>11} {:>9} {:>9}",
        "way", "partitions", "passes/s", "appends/s", "syncs/pass", "p99 us"
    );
    for partitions in [1, 16, 50] {
        let mut figures: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); WAYS.len()];
        for _ in 0..ROUNDS {
            for (name, figures) in WAYS.iter().zip(&mut figures) {
                fs::create_dir_all(&dir)?;
                figures.push(measure(way(name, &dir, partitions)?.as_mut(), seconds)?);
                fs::remove_dir_all(&dir)?;
            }
        }
        for (name, mut figures) in WAYS.iter().zip(figures) {
            figures.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (rate, syncs, p99_us) = figures[ROUNDS / 2];
            let appends = if name.starts_with("floor") { rate } else { rate * partitions as f64 };
            println!("{name:<30} {partitions:>10} {rate:>10.0} {appends:>11.0} {syncs:>9.2} {p99_us:>9.0}");
        }
    }
    Ok(())
}

/// Passes a second, syncs a pass, 99th percentile of a pass in microseconds.
fn measure(way: &mut dyn Way, seconds: f64) -> io::Result<(f64, f64, f64)> {
    let mut took_us = Vec::new();
    let mut syncs = 0;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs_f64(seconds) {
        let before = Instant::now();
        syncs += way.pass(&BATCH)?;
        took_us.push(before.elapsed().as_secs_f64() * 1e6);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let passes = took_us.len() as f64;
    took_us.sort_by(f64::total_cmp);
    Ok((passes / elapsed, syncs as f64 / passes, took_us[took_us.len() * 99 / 100]))
}
