//! Runs many worlds.

use std::collections::BTreeMap;

use super::{Figures, Options, Report, faults_of, run};

/// The results of many worlds.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// Number of worlds.
    pub seeds: u64,
    /// Sums of the counts.
    pub figures: Figures,
    /// The longest time to settle in milliseconds.
    pub settled_ms_max: u64,
    /// The most rebalances of one group until settled.
    pub settled_rebalances_max: u64,
    /// The first world with a violation.
    pub broken: Option<Report>,
}

impl Total {
    /// Adds the result of a world.
    pub fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.settled_ms_max = self.settled_ms_max.max(report.figures.settled_ms);
        self.settled_rebalances_max = self.settled_rebalances_max.max(report.figures.settled_rebalances);
        self.add_figures(&report.figures);
        if report.violation.is_some() && self.broken.is_none() {
            self.broken = Some(report);
        }
    }

    fn add_figures(&mut self, more: &Figures) {
        let all = &mut self.figures;
        all.happenings += more.happenings;
        all.core_events += more.core_events;
        all.member_events += more.member_events;
        all.simulated_ms += more.simulated_ms;
        all.settled_ms += more.settled_ms;
        all.settled_rebalances += more.settled_rebalances;
        all.assignments += more.assignments;
        all.read += more.read;
        all.moved += more.moved;
        all.held_ms += more.held_ms;
        all.torn += more.torn;
        add_counts(&mut all.struck, &more.struck);
        add_counts(&mut all.effective, &more.effective);
        add_counts(&mut all.looked, &more.looked);
    }
}

fn add_counts<K: Ord + Copy>(all: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (what, count) in more {
        *all.entry(*what).or_default() += count;
    }
}

/// Runs the worlds of these seeds, up to the first violation.
pub fn run_all(seeds: std::ops::Range<u64>, options: Options) -> Total {
    let mut total = Total::default();
    for seed in seeds {
        total.add(run(seed, &faults_of(seed, options), options));
        if total.broken.is_some() {
            break;
        }
    }
    total
}
