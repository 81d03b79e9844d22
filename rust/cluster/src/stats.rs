//! Counts of a host's work, for metrics.

use std::{collections::BTreeMap, time::Duration};

use rota_engine::{Outcome, requests::Used};
use rota_log::Histogram;

/// Why a node lost a partition, or how it got one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handover {
    /// It was claimed.
    Taken,
    /// The node gave it up: the plan names another one, or the node stops.
    GivenUp,
    /// It was lost: the session ended, or another node took it.
    Lost,
}

impl Handover {
    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Handover::Taken => "taken",
            Handover::GivenUp => "given_up",
            Handover::Lost => "lost",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ClusterStats {
    /// Durations of calls that append, whatever became of them.
    pub appends: Histogram,
    /// Attempts to append to a partition, by outcome: `answered`, `unknown`, `no_space`.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Partitions that came and went.
    pub handovers: BTreeMap<&'static str, u64>,
    /// Snapshots that are complete.
    pub snapshots: u64,
    /// The space of the engine's fullest member, when it was asked last.
    pub space: Option<Used>,
}

impl ClusterStats {
    /// A call that appends has ended.
    pub(crate) fn appended(&mut self, took: Duration, outcomes: &[Outcome]) {
        self.appends.observe(took);
        for outcome in outcomes {
            let name = match outcome {
                Outcome::Answered(_) => "answered",
                Outcome::Unknown => "unknown",
                Outcome::SpaceExhausted => "no_space",
            };
            *self.outcomes.entry(name).or_default() += 1;
        }
    }

    /// A partition came or went.
    pub(crate) fn handed(&mut self, handover: Handover) {
        *self.handovers.entry(handover.name()).or_default() += 1;
    }
}
