//! The simulator holds itself to what it says: the same seed is the same world, faults have effects, bugs are found.
//!
//! `ROTA_SEEDS` sets how many worlds; `rota-sim simulate` is the long run.

use rota_sim::fleet::{Options, Planted, Report, faults::Kind, faults_of, minimise, protocols::Protocol, run, seeds};

const WITH_LINES: Options =
    Options { protocol: Protocol::Classic, swarm: false, engine: false, lines: true, journal: false, planted: None };

const KINDS: [Protocol; 3] = [Protocol::Classic, Protocol::Consumer, Protocol::Mixed];

/// A bug in worlds whose members it concerns.
fn with(planted: Planted) -> Options {
    let engine = planted.is_of_engine();
    Options { protocol: planted.protocol(), planted: Some(planted), engine, ..Options::default() }
}

fn of(protocol: Protocol) -> Options {
    Options { protocol, ..Options::default() }
}

fn world(seed: u64, options: Options) -> Report {
    run(seed, &faults_of(seed, options), options)
}

#[test]
fn no_world_breaks() {
    let count: u64 = std::env::var("ROTA_SEEDS").map_or(50, |text| text.parse().expect("a number"));
    for (protocol, swarm) in KINDS.into_iter().flat_map(|protocol| [(protocol, false), (protocol, true)]) {
        let count = if protocol == Protocol::Classic { count } else { count.div_ceil(4) };
        let total = seeds::run_all(0..count, Options { swarm, ..of(protocol) });
        assert!(total.broken.is_none(), "{} swarm {swarm}: {:?}", protocol.name(), total.broken);
        assert_eq!(total.seeds, count);
    }
    for (protocol, swarm) in KINDS.into_iter().flat_map(|protocol| [(protocol, false), (protocol, true)]) {
        let total = seeds::run_all(0..count.div_ceil(4), Options { swarm, engine: true, ..of(protocol) });
        assert!(total.broken.is_none(), "engine, {} swarm {swarm}: {:?}", protocol.name(), total.broken);
    }
}

#[test]
fn the_same_seed_is_the_same_world_line_by_line() {
    for (seed, protocol) in (0..4).flat_map(|seed| KINDS.map(|protocol| (seed, protocol))) {
        let options = Options { protocol, ..WITH_LINES };
        let (first, again) = (world(seed, options), world(seed, options));
        assert_eq!(first.lines, again.lines);
        assert!(first.lines.len() > 500);
        assert_ne!(first.lines, world(seed + 100, options).lines);
        let quiet = world(seed, of(protocol));
        assert_eq!(quiet.figures, first.figures, "writing changes nothing");
        assert_eq!(first.protocol, protocol);
    }
}

#[test]
fn a_seed_decides_the_protocol_where_it_is_open() {
    let kinds: Vec<Protocol> = (0..6).map(|seed| world(seed, of(Protocol::All)).protocol).collect();
    assert_eq!(kinds, [KINDS, KINDS].concat());
    assert_eq!(world(4, of(Protocol::All)).figures, world(4, of(Protocol::Consumer)).figures);
}

/// Everything that is counted is zero without its cause, so that what is counted says something.
#[test]
fn without_faults_nothing_is_lost_and_groups_settle_at_once() {
    for (seed, protocol) in (0..10).flat_map(|seed| [(seed, Protocol::Classic), (seed, Protocol::Consumer)]) {
        let report = run(seed, &[], of(protocol));
        assert_eq!(report.violation, None);
        assert!(report.figures.struck.is_empty());
        assert!(report.figures.effective.is_empty(), "{:?}", report.figures.effective);
        assert_eq!((report.figures.torn, report.figures.settled_ms), (0, 0));
    }
}

#[test]
fn every_kind_of_fault_makes_a_difference_and_none_that_is_left_out() {
    for &kind in Kind::ALL {
        let (mut with, mut without) = (0, 0);
        // What only worlds of the newer protocol have comes last.
        let is_newer = kind as usize >= Kind::Roll as usize;
        let engine = kind.is_of_engine();
        let options = Options { engine, ..of(if is_newer { Protocol::Mixed } else { Protocol::Classic }) };
        for seed in 0..60 {
            let of = |is_of: bool| {
                let faults: Vec<_> =
                    faults_of(seed, options).into_iter().filter(|one| (one.kind == kind) == is_of).collect();
                let report = run(seed, &faults, options);
                assert_eq!(report.violation, None, "seed {seed}");
                report.figures.effective.get(&kind).copied().unwrap_or(0)
            };
            if with == 0 {
                with = of(true);
            }
            if seed < 3 {
                without += of(false);
            }
        }
        assert!(with > 0, "{} never made a difference", kind.name());
        assert_eq!(without, 0, "{} struck though it was left out", kind.name());
    }
}

#[test]
fn every_check_looked_at_something() {
    let total = seeds::run_all(0..10, Options::default());
    for id in ["S1", "S4", "S9", "S11", "S15", "S25", "S26", "ownership", "reading", "S27", "S20", "S24", "L1", "L5"] {
        assert!(total.figures.looked.get(id).is_some_and(|count| *count > 0), "{id}: {:?}", total.figures.looked);
    }
    let total = seeds::run_all(0..10, Options { engine: true, ..Options::default() });
    for id in ["E1", "E5", "S25", "S26", "L5"] {
        assert!(total.figures.looked.get(id).is_some_and(|count| *count > 0), "{id}: {:?}", total.figures.looked);
    }
    let total = seeds::run_all(0..20, of(Protocol::Mixed));
    let ids = (2..=20).filter(|id| ![1, 12].contains(id)).map(|id| format!("C{id}"));
    for id in ids.chain(["S29".to_owned()]) {
        assert!(total.figures.looked.get(&*id).is_some_and(|count| *count > 0), "{id}: {:?}", total.figures.looked);
    }
}

#[test]
fn every_bug_planted_around_the_coordinators_is_found_within_200_worlds() {
    for &planted in Planted::ALL {
        let total = seeds::run_all(0..200, with(planted));
        assert!(total.broken.is_some(), "{} was not found", planted.name());
    }
}

#[test]
fn what_breaks_a_world_is_made_small() {
    let options = with(Planted::LogWithoutFence);
    let broken = seeds::run_all(0..40, options).broken.expect("a bug that is found");
    let small = minimise(broken.seed, &broken.faults, options).expect("it breaks");
    let id = |report: &Report| report.violation.as_ref().map(|found| found.id.clone());
    assert_eq!(id(&small), id(&broken));
    assert!(small.faults.len() <= 3, "{:?}", small.faults);
    assert!(minimise(broken.seed, &[], options).is_none());
}
