//! How long heartbeats wait while members come, leave and fall silent (docs/benchmarks.md):
//! `churn MEMBERS CHANGES_PER_S SECONDS [ROUNDS]`, each round beside the same without changes and without a coordinator.
//!
//! Time is the processor time of this thread, so that other processes are not measured; what the
//! host of a virtual machine takes away is.

use std::{env, process::ExitCode, time::Duration};

use rota_bench::{
    BenchError,
    churn::{self, ChurnPlan, ChurnResult},
    passes::{LONG, STEPS},
};
use rustix::time::{ClockId, clock_gettime};

/// Played before the clock runs: two sessions, so that as much expires at a time as later on.
const WARM_UP: Duration = Duration::from_secs(12);
const SHARES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 1.0];

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("churn: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, BenchError> {
    word.parse().map_err(|_| BenchError(format!("`{word}` is no such number")))
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn micros(took: Duration) -> String {
    format!("{:.1}", took.as_secs_f64() * 1e6)
}

fn run(words: &[String]) -> Result<(), BenchError> {
    let [members, changes_per_s, seconds, rounds @ ..] = words else {
        return Err(BenchError("give MEMBERS CHANGES_PER_S SECONDS [ROUNDS], such as `100000 100 20 3`".to_owned()));
    };
    let plan = ChurnPlan {
        members: number(members)?,
        changes_per_s: number(changes_per_s)?,
        warm_up: WARM_UP,
        timing_steps: false,
        duration: Duration::try_from_secs_f64(number(seconds)?).map_err(|error| BenchError(error.to_string()))?,
    };
    println!("{:<22} {:>10}  p50, p99, p99.9, p99.99, longest (us)", "", "heartbeats");
    for _ in 0..rounds.first().map_or(Ok(1), |word| number(word))? {
        let churned = churn::run(&plan, processor_time)?;
        let still = churn::run(&ChurnPlan { changes_per_s: 0, ..plan }, processor_time)?;
        let named = format!("{changes_per_s} changes a second");
        for (what, took_ns) in [
            ("nothing but the clock", &churn::floor(&plan, processor_time)?),
            ("no changes", &still.took_ns),
            (&named, &churned.took_ns),
        ] {
            let took = SHARES.map(|share| micros(Duration::from_nanos(took_ns.value_at_quantile(share))));
            println!("{what:<22} {:>10}  {}", took_ns.len(), took.join(", "));
        }
        println!("  {} left, {} fell silent, {} joins", churned.left, churned.silenced, churned.joined);
        look_inside(&churn::run(&ChurnPlan { timing_steps: true, ..plan }, processor_time)?);
    }
    Ok(())
}

/// Says of another run, whose steps were timed, what its long passes are made of.
fn look_inside(churned: &ChurnResult) {
    let passes = &churned.passes;
    let share = passes.in_coordinator().as_secs_f64() / passes.took.as_secs_f64().max(f64::MIN_POSITIVE);
    println!(
        "  steps timed: {} passes of {} us or more, {} us in all, the longest {}; {:.0} % in the coordinator",
        passes.long,
        LONG.as_micros(),
        micros(passes.took),
        micros(passes.longest),
        100.0 * share
    );
    for (step, name) in STEPS {
        let [in_long, longest] = [passes.in_steps[step as usize], passes.longest_step[step as usize]];
        println!("    {name:<18} {:>10} us of those, {} the longest step of all", micros(in_long), micros(longest));
    }
}
