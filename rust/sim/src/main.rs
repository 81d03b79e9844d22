//! `rota-sim explore|simulate ...`: long runs on demand.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use rota_sim::{
    consumers,
    explore::{self, Bounds, cells, witness},
    fleet::{Options, Report, faults_of, minimise, protocols::Protocol, run, seeds},
    search::{Found, Violation},
};

fn number(arguments: &[String], at: usize, default: u64) -> u64 {
    arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    match arguments.first().map(String::as_str) {
        Some("explore") => {
            let name = arguments.get(1).map_or("all", String::as_str);
            let chosen: Vec<Bounds> =
                Bounds::all().into_iter().filter(|one| name == "all" || one.name == name).collect();
            search(&chosen, number(&arguments, 2, 500_000) as usize, number(&arguments, 3, cores) as usize)
        }
        Some("consumers") => {
            let name = arguments.get(1).map_or("all", String::as_str);
            let chosen: Vec<consumers::Bounds> =
                consumers::Bounds::all().into_iter().filter(|one| name == "all" || one.name == name).collect();
            search_consumers(&chosen, number(&arguments, 2, 500_000) as usize, number(&arguments, 3, cores) as usize)
        }
        Some("simulate") => {
            let name = arguments.get(3).map_or("all", String::as_str);
            let Some(protocol) = Protocol::named(name) else {
                eprintln!("rota-sim: the protocol is `{name}`: give classic, consumer, mixed or all");
                return ExitCode::from(2);
            };
            let engine = arguments.get(4).is_some_and(|word| word == "engine");
            let options = Options { protocol, engine, ..Options::default() };
            simulate(number(&arguments, 1, 10_000), number(&arguments, 2, 0), options)
        }
        Some("world") => {
            let protocol = arguments.get(2).and_then(|name| Protocol::named(name)).unwrap_or(Protocol::All);
            let has = |name: &str| arguments.iter().skip(3).any(|word| word == name);
            let (swarm, engine) = (has("swarm"), has("engine"));
            world(number(&arguments, 1, 0), Options { protocol, swarm, engine, lines: true, ..Options::default() })
        }
        _ => {
            eprintln!("usage: rota-sim explore [all|NAME [STATES [WORKERS]]]");
            eprintln!("       rota-sim consumers [all|NAME [STATES [WORKERS]]]");
            eprintln!("       rota-sim simulate [SEEDS [FIRST_SEED [classic|consumer|mixed|all [engine]]]]");
            eprintln!("       rota-sim world SEED [classic|consumer|mixed|all [swarm] [engine]]");
            ExitCode::from(2)
        }
    }
}

/// Explores within each of these bounds, up to a number of states.
fn search(chosen: &[Bounds], states_max: usize, workers: usize) -> ExitCode {
    let explored = chosen.iter().map(|bounds| {
        let explore = move || explore::explore(bounds, states_max, workers, None, &mut |_| true);
        (bounds.name, timed(explore), move |broken: &_| witness::transcript(broken, &bounds.config))
    });
    let Some(cells) = tabulated(10, explored) else { return ExitCode::FAILURE };
    let (open, both) = cells::unsettled(&cells);
    println!(
        "{} cells of {}, {} argued",
        cells.len(),
        cells::all().len(),
        cells::all().len() - cells.len() - open.len()
    );
    for (word, cells) in [("not reached", open), ("reached although argued", both)] {
        for (state, kind, validity) in cells {
            println!("{word}: {state} {kind} {validity:?}");
        }
    }
    ExitCode::SUCCESS
}

/// Explores consumer groups within each of these bounds, up to a number of states.
fn search_consumers(chosen: &[consumers::Bounds], states_max: usize, workers: usize) -> ExitCode {
    let explored = chosen.iter().map(|bounds| {
        let explore = move || consumers::explore(bounds, states_max, workers, None, &mut |_| true);
        (bounds.name, timed(explore), |broken: &_| format!("---\n{}", consumers::witness(broken)))
    });
    let Some(cells) = tabulated(20, explored) else { return ExitCode::FAILURE };
    let (open, both) = consumers::cells::unsettled(&cells);
    for (word, cells) in [("not reached", open), ("reached although argued", both)] {
        for (state, request, sender) in cells {
            println!("{word}: {state}; {request}; {sender}");
        }
    }
    ExitCode::SUCCESS
}

fn timed<F>(explore: impl FnOnce() -> F) -> (F, Duration) {
    let began = Instant::now();
    (explore(), began.elapsed())
}

/// Prints a row for each of the bounds, whose names have this width. Returns how often each cell came up, or prints the first violation, with the way
/// to it.
fn tabulated<C: Ord, E, W: Fn(&Violation<E>) -> String>(
    width: usize,
    explored: impl Iterator<Item = (&'static str, (Found<C, E>, Duration), W)>,
) -> Option<BTreeMap<C, u64>> {
    let mut cells = BTreeMap::new();
    println!("{:width$} depth      states   whole  transitions       cut  states/s  bytes/state", "bounds");
    for (name, (found, took), witness) in explored {
        println!("{name:width$} {}", found.row(took));
        if let Some(violation) = &found.violation {
            println!("\n{}: {}\n\n{}", violation.id, violation.detail, witness(violation));
            return None;
        }
        for (cell, count) in found.cells {
            *cells.entry(cell).or_insert(0) += count;
        }
    }
    Some(cells)
}

/// Runs worlds with all kinds of faults, then worlds with some.
fn simulate(count: u64, first: u64, options: Options) -> ExitCode {
    let began = Instant::now();
    let mut worlds = 0;
    for swarm in [false, true] {
        let options = Options { swarm, ..options };
        let total = seeds::run_all(first..first + count / 2, options);
        worlds += total.seeds;
        let figures = &total.figures;
        let wall_ms = began.elapsed().as_millis().max(1);
        println!(
            "{} seeds, swarm {swarm}, {} happenings, {}/s, {} times as fast as time, settled within {} ms and {} rebalances",
            total.seeds,
            figures.happenings,
            u128::from(figures.happenings) * 1_000 / wall_ms,
            u128::from(figures.simulated_ms) / wall_ms,
            total.settled_ms_max,
            total.settled_rebalances_max,
        );
        println!("struck {:?}\neffective {:?}\nlooked {:?}", figures.struck, figures.effective, figures.looked);
        if let Some(broken) = &total.broken {
            print_broken(broken, options, worlds);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints a world, a line for each event; of one that breaks only what the faults need that break it.
fn world(seed: u64, options: Options) -> ExitCode {
    let faults = faults_of(seed, options);
    let report = minimise(seed, &faults, options).unwrap_or_else(|| run(seed, &faults, options));
    report.lines.iter().for_each(|line| println!("{line}"));
    report.faults.iter().for_each(|fault| println!("  {fault}"));
    println!("{:?}", report.violation);
    ExitCode::from(u8::from(report.violation.is_some()))
}

/// Prints a violation with its minimised faults.
fn print_broken(broken: &Report, options: Options, worlds: u64) {
    let small = minimise(broken.seed, &broken.faults, options);
    let needed = small.as_ref().map_or(broken.faults.len(), |small| small.faults.len());
    let (seed, protocol, swarm) = (broken.seed, broken.protocol.name(), options.swarm);
    println!("seed {seed} swarm {swarm}, after {worlds} worlds, {needed} faults: {protocol}");
    let shown = small.as_ref().unwrap_or(broken);
    shown.faults.iter().for_each(|fault| println!("  {fault}"));
    println!("{:?}", shown.violation);
}
