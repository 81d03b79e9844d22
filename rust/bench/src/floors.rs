//! The machine's own time for the parts of a heartbeat and of a durable commit, without rota.

use std::{
    collections::HashMap,
    fs::{self, File},
    hint::black_box,
    io::{Seek, SeekFrom, Write},
    path::Path,
    time::{Duration, Instant},
};

use crate::{BenchError, Doing};

const BLOCK_BYTES: usize = 4_096;
/// Loads or lookups between two readings of the clock.
const STEPS: usize = 4_096;
/// Multiplier and increment of a random number generator for shuffles.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// An operation, its count and its duration.
#[derive(Clone, Debug)]
pub struct Floor {
    /// Name of the operation.
    pub what: String,
    /// Number of operations.
    pub count: u64,
    /// Duration of all operations.
    pub elapsed: Duration,
}

fn timed(what: impl Into<String>, duration: Duration, mut steps: impl FnMut() -> usize) -> Floor {
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < duration {
        count += steps() as u64;
    }
    Floor { what: what.into(), count, elapsed: began.elapsed() }
}

/// Returns a single cycle through all slots, in an order that no prefetcher predicts (Sattolo's shuffle).
fn cycle(slots: usize) -> Vec<u32> {
    let mut next: Vec<u32> = (0..slots as u32).collect();
    let mut random = 1_u64;
    for at in (1..slots).rev() {
        random = random.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        next.swap(at, (random >> 33) as usize % at);
    }
    next
}

/// Measures readings of the clock.
pub fn clock(duration: Duration) -> Floor {
    timed("a look at the clock", duration, || {
        for _ in 0..STEPS {
            black_box(Instant::now());
        }
        STEPS
    })
}

/// Measures loads that depend on each other, over `bytes` bytes.
pub fn dependent_loads(bytes: usize, duration: Duration) -> Floor {
    let next = cycle((bytes / size_of::<u32>()).max(2));
    let mut at = 0;
    timed(format!("a dependent load among {}", size(bytes)), duration, || {
        (0..STEPS).for_each(|_| at = next[at as usize]);
        black_box(at);
        STEPS
    })
}

/// Measures hits in a map with member ids as keys, in shuffled order, with the standard library's hash.
pub fn map_hits(members: usize, duration: Duration) -> Floor {
    let id = |at: usize| format!("consumer-1-00000000-0000-4000-8000-{at:012x}");
    let map: HashMap<String, u32> = (0..members).map(|at| (id(at), at as u32)).collect();
    let order = cycle(members.max(2));
    let ids: Vec<String> = (0..members.max(2)).map(id).collect();
    let mut at = 0;
    timed(format!("a hit in a map of {members} member ids"), duration, || {
        for _ in 0..STEPS {
            at = order[at] as usize;
            black_box(map.get(&ids[at]));
        }
        STEPS
    })
}

/// Measures blocks of 4 KiB written in place and synced, in a file of the directory.
pub fn syncs(directory: &Path, duration: Duration) -> Result<Floor, BenchError> {
    let path = directory.join("rota-bench-floor");
    let what = || format!("writing and syncing {}", path.display());
    let mut file = File::create(&path).doing(what)?;
    let (mut failed, mut block) = (None, 0_u8);
    let floor = timed("4 KiB written and synced", duration, || {
        block = block.wrapping_add(1);
        let written = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&[block; BLOCK_BYTES]))
            .and_then(|()| file.sync_data());
        failed = failed.take().or(written.err());
        1
    });
    fs::remove_file(&path).doing(what)?;
    failed.map_or(Ok(floor), Err).doing(what)
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
