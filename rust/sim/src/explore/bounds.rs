//! Bounds: how many of everything, and which events there are.

use rota_core::Config;

/// What an exploration may do.
#[expect(clippy::struct_excessive_bools, reason = "independent choices")]
#[derive(Clone, Debug)]
pub struct Bounds {
    /// What they are called.
    pub name: &'static str,
    /// Settings of the coordinator.
    pub config: Config,
    /// Members and ids that were handed out, together.
    pub members: usize,
    /// Instance ids.
    pub instances: u8,
    /// Appends in flight.
    pub appends: usize,
    /// Requests that wait for an answer.
    pub waiting: usize,
    /// Generations of a group, from its creation on; `None`: as many as there are, counted from the present one.
    pub generations: Option<i32>,
    /// Partitions that are committed.
    pub partitions: u8,
    /// Offers to choose from, by their number in [`crate::step::OFFERS`].
    pub offers: &'static [u8],
    /// Requests that a member sends with a wrong generation, id or instance.
    pub invalid: bool,
    /// Groups are deleted, and offsets.
    pub deletes: bool,
    /// Crashes.
    pub crashes: bool,
    /// Appends fail.
    pub failures: bool,
    /// Time also passes in steps of so much, not only to the next deadline.
    pub tick_ms: Option<u32>,
    /// The cleaner runs, and ages are part of the state.
    pub ages: bool,
    /// Events from the beginning.
    pub depth: usize,
}

/// The cleaner comes after this, if `ages` is not set: behind every depth.
const NEVER_MS: u64 = 1 << 40;

/// The one session timeout, by its number in [`crate::step::SESSIONS_MS`], and the one rebalance timeout.
pub const SESSION: u8 = 1;
/// In [`crate::step::REBALANCES_MS`].
pub const REBALANCE: u8 = 3;

fn config() -> Config {
    Config {
        group_min_session_timeout_ms: 0,
        group_initial_rebalance_delay_ms: 0,
        group_max_size: 2,
        group_max_pending_members: 2,
        offset_metadata_max_bytes: 4,
        offsets_commit_timeout_ms: 2_000,
        offsets_retention_minutes: 1,
        offsets_retention_check_interval_ms: NEVER_MS,
        rebalance_history: 1,
        ..Config::default()
    }
}

impl Bounds {
    /// All that there are.
    pub fn all() -> Vec<Bounds> {
        let dynamic = Bounds {
            name: "dynamic",
            config: config(),
            members: 3,
            instances: 0,
            appends: 2,
            waiting: 5,
            generations: None,
            partitions: 1,
            offers: &[1, 2],
            invalid: true,
            deletes: false,
            crashes: true,
            failures: true,
            tick_ms: None,
            ages: false,
            depth: 1_000,
        };
        let statics = Bounds { name: "static", instances: 2, members: 3, ..dynamic.clone() };
        let offsets =
            Bounds { name: "offsets", members: 1, appends: 3, partitions: 2, deletes: true, ..dynamic.clone() };
        let delayed = Bounds {
            name: "delayed",
            config: Config { group_initial_rebalance_delay_ms: 1_000, ..config() },
            tick_ms: Some(1_000),
            ..dynamic.clone()
        };
        let retention = Bounds {
            name: "retention",
            config: Config { offsets_retention_check_interval_ms: 60_000, ..config() },
            ages: true,
            members: 1,
            ..offsets.clone()
        };
        let narrow = Bounds {
            name: "narrow",
            members: 2,
            appends: 1,
            waiting: 3,
            partitions: 0,
            deletes: true,
            offers: &[1],
            config: Config { group_max_pending_members: 1, ..config() },
            ..dynamic.clone()
        };
        let pair = Bounds { name: "pair", instances: 2, ..narrow.clone() };
        let single = Bounds { name: "single", members: 1, waiting: 2, instances: 1, ..narrow.clone() };
        vec![single, narrow, pair, dynamic, statics, offsets, delayed, retention]
    }

    /// Those with this name.
    pub fn named(name: &str) -> Option<Bounds> {
        Bounds::all().into_iter().find(|bounds| bounds.name == name)
    }
}
