//! `rota-sim differential|...`: the long runs, by hand.

use std::{process::ExitCode, time::Instant};

use rota_sim::differential;

fn number(arguments: &[String], at: usize, default: u64) -> u64 {
    arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some("differential") = arguments.first().map(String::as_str) {
        compare(number(&arguments, 1, 100), number(&arguments, 2, 100_000), number(&arguments, 3, 0))
    } else {
        eprintln!("usage: rota-sim differential [WALKS [STEPS [FIRST_SEED]]]");
        ExitCode::from(2)
    }
}

fn compare(walks: u64, steps: u64, first: u64) -> ExitCode {
    let began = Instant::now();
    for seed in first..first + walks {
        if let Err(difference) = differential::walk(seed, steps) {
            println!("seed {seed}, after {} steps:", difference.after);
            difference.steps.iter().for_each(|step| println!("  {step:?}"));
            println!("{}", difference.told);
            return ExitCode::FAILURE;
        }
    }
    let all = walks * steps;
    let per_second = u128::from(all) * 1_000 / began.elapsed().as_millis().max(1);
    println!("{all} steps, no difference, {per_second} steps/s");
    ExitCode::SUCCESS
}
