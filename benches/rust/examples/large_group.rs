//! What members cost in one large group: `large_group MEMBERS`. Nanoseconds of a join, of a leave and of a replacement of
//! a static member, members in shuffled order.
//!
//! Time is the processor time of this thread, so that other processes are not measured.

use std::process::ExitCode;

use rota_bench::{BenchError, stage::Stage};
use rota_benches::{STRIDE, workloads::requests};
use rustix::time::{ClockId, clock_gettime};

/// Leaves and replacements that are timed.
const TIMED: usize = 1_000;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref().map_or_else(|| Err(misuse("")), run) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("large_group: {error}");
            ExitCode::FAILURE
        }
    }
}

fn misuse(word: &str) -> BenchError {
    BenchError(format!("`{word}` is no number of members of at least {}", 2 * TIMED))
}

fn processor_time_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn run(word: &str) -> Result<String, BenchError> {
    let members: usize = word.parse().ok().filter(|members| *members >= 2 * TIMED).ok_or_else(|| misuse(word))?;
    let each_ns = |began_ns: i64, count: usize| (processor_time_ns() - began_ns) / count as i64;
    let mut stage = Stage::new();
    let began_ns = processor_time_ns();
    let seats = stage.join("group", members)?;
    let join_ns = each_ns(began_ns, members);
    stage.sync(&seats);
    // The first one begins the rebalance, which looks at every member.
    requests::leave(&mut stage, &seats[0]);
    let began_ns = processor_time_ns();
    for at in 1..=TIMED {
        requests::leave(&mut stage, &seats[1 + at.wrapping_mul(STRIDE) % (members - 1)]);
    }
    let leave_ns = each_ns(began_ns, TIMED);
    stage.all_good()?;

    let mut stage = Stage::new();
    (0..members).for_each(|at| requests::join_static(&mut stage, at));
    let began_ns = processor_time_ns();
    for at in 1..=TIMED {
        requests::join_static(&mut stage, at.wrapping_mul(STRIDE) % members);
    }
    Ok(format!("{join_ns} ns a join, {leave_ns} ns a leave, {} ns a replacement", each_ns(began_ns, TIMED)))
}
