//! Heartbeats of consumer groups (KIP-848) through the coordinator, from bytes to bytes: `consumer_heartbeats MEMBERS
//! SECONDS`. Each line on stdin is a run of so many seconds; the answer is its nanoseconds and heartbeats, as
//! `benches/kafka/jvm` gives them.

use std::{env, error::Error, io::BufRead, time::Duration};

use rota_bench::consumers::ConsumerCrowd;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [members, seconds] = &words[..] else { return Err("give MEMBERS and SECONDS, such as `100000 2`".into()) };
    let mut crowd = ConsumerCrowd::assemble(members.parse()?)?;
    let duration = Duration::from_secs_f64(seconds.parse()?);
    for line in std::io::stdin().lock().lines() {
        line?;
        let run = crowd.requests(duration)?;
        println!("{} {}", run.elapsed.as_nanos(), run.count);
    }
    Ok(())
}
