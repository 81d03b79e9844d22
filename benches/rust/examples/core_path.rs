//! Heartbeats through the coordinator, to be run under `perf` or `callgrind` (docs/benchmarks.md):
//! `core_path WAY MEMBERS SECONDS`, where WAY is `requests`, `singly`, `submitted` or `handles`.

use std::{env, process::ExitCode, time::Duration};

use rota_bench::{BenchError, core_path::Crowd};

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("core_path: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), BenchError> {
    let [way, members, seconds] = words else {
        return Err(BenchError("give WAY MEMBERS SECONDS, such as `requests 100000 2`".to_owned()));
    };
    let unreadable = |what: &str| BenchError(format!("`{what}` is no number"));
    let mut crowd = Crowd::assemble(members.parse().map_err(|_| unreadable(members))?)?;
    let duration = Duration::from_secs_f64(seconds.parse().map_err(|_| unreadable(seconds))?);
    // Every member has been heard once before anything is counted.
    crowd.requests_submitted(Duration::from_nanos(1))?;
    let beats = match &way[..] {
        "requests" => crowd.requests(duration),
        "singly" => crowd.requests_singly(duration),
        "submitted" => crowd.requests_submitted(duration),
        "handles" => crowd.handles(duration),
        _ => Err(BenchError(format!("`{way}` is none of requests, singly, submitted, handles"))),
    }?;
    println!("{} heartbeats, {} ns each", beats.count, beats.elapsed.as_nanos() / u128::from(beats.count));
    Ok(())
}
