//! What a world is made of before anything goes wrong: drawn from the seed alone.

use std::{collections::BTreeMap, sync::Arc};

use rota_assign::Assignor;
use rota_member::{Config, Strategy, TopicMetadata};

use crate::dice::Dice;

/// How long things go wrong.
const CHAOS_MS: u64 = 90_000;
/// Members' settings: small, so that much happens.
const SESSION_MS: u32 = 6_000;
const HEARTBEAT_MS: u32 = 1_500;
/// Also the rebalance timeout.
const REBALANCE_MS: u32 = 12_000;
/// A slow world's pace: its join phases may take longer than the five minutes that a new member has.
const SLOW: u32 = 100;
/// An answer is waited for.
pub const REQUEST_MS: u32 = 8_000;
const API_MS: u32 = 10_000;
/// How often a leader looks at the topics.
pub const METADATA_MS: u32 = 10_000;
const AUTO_COMMIT_MS: u32 = 2_000;
/// An append is waited for.
pub const APPEND_MS: u32 = 5_000;
/// How often expired offsets are looked for, in worlds in which they expire.
const CLEANER_MS: u64 = 2_000;
/// What a wall clock shows when a world begins.
pub const WORLD_BEGINS_WALL_MS: i64 = 1_700_000_000_000;
/// No world has more of `__consumer_offsets`.
pub const PARTITIONS_MAX: u32 = 4;

/// One group as it is meant to be.
#[derive(Clone, Debug)]
pub struct GroupShape {
    /// Its name.
    pub id: Arc<str>,
    /// What its members offer.
    pub strategies: Vec<Assignor>,
    /// Topics that its members may subscribe to.
    pub topics: Vec<Arc<str>>,
}

impl GroupShape {
    /// Whether its members keep what does not move.
    pub fn is_cooperative(&self) -> bool {
        self.strategies == [Assignor::CooperativeSticky]
    }
}

/// One place for a process.
#[derive(Clone, Debug)]
pub struct SeatShape {
    /// Which group.
    pub group: usize,
    /// Of a static member.
    pub instance_id: Option<String>,
    /// Commits by the clock, or by itself.
    pub auto_commit: bool,
    /// The age of its client, by the version of its `JoinGroup`.
    pub join_version: i16,
}

/// What members and coordinators wait for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Of members.
    pub session_ms: u32,
    /// Of members.
    pub heartbeat_ms: u32,
    /// Between two polls; also the rebalance timeout.
    pub rebalance_ms: u32,
    /// Of coordinators, before the first generation.
    pub initial_delay_ms: u32,
}

impl Timeouts {
    fn at(pace: u32) -> Timeouts {
        Timeouts {
            session_ms: SESSION_MS * pace,
            heartbeat_ms: HEARTBEAT_MS * pace,
            rebalance_ms: REBALANCE_MS * pace,
            initial_delay_ms: 500,
        }
    }
}

/// What the coordinators of some worlds limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// `group.max.size`: as many as the largest group has processes, so that only those that are gone without a word
    /// are too many.
    pub group_size: Option<u32>,
    /// `group_max_pending_members`.
    pub pending_ids: Option<u32>,
    /// Offsets are kept for a minute after their group has no use for them: what makes one old is a wall clock that
    /// jumps.
    pub retention: bool,
}

impl Limits {
    fn draw(dice: &mut Dice, groups: usize, seats: &[SeatShape], pace: u32) -> Limits {
        let size = |group: usize| seats.iter().filter(|seat| seat.group == group).count() as u32;
        Limits {
            group_size: dice.chance(20).then(|| (0..groups).map(size).max()).flatten(),
            pending_ids: dice.chance(20).then_some(1),
            // A minute is nothing in a slow world.
            retention: dice.chance(15) && pace == 1,
        }
    }
}

/// A whole world.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How many.
    pub nodes: usize,
    /// Of `__consumer_offsets`.
    pub partitions: u32,
    /// With how many partitions they begin.
    pub topics: BTreeMap<Arc<str>, TopicMetadata>,
    /// One to three.
    pub groups: Vec<GroupShape>,
    /// Of all groups.
    pub seats: Vec<SeatShape>,
    /// By the pace, in a drawn world.
    pub timeouts: Timeouts,
    /// How many times slower than usual processes are: what their members wait for, what their applications do, and
    /// how long things go wrong. Coordinators, logs and connections are as fast as ever.
    pub pace: u32,
    /// Of coordinators.
    pub limits: Limits,
}

impl Shape {
    /// The world of a seed. No other has groups of the same names.
    pub fn draw(seed: u64, dice: &mut Dice) -> Shape {
        let names: Vec<Arc<str>> = ["orders", "payments", "stock"].map(Arc::from).to_vec();
        let size = |dice: &mut Dice| TopicMetadata { partitions: 1 + dice.roll(4) as i32, racks: Vec::new() };
        let topics = names.iter().map(|name| (name.clone(), size(dice))).collect();
        let assignors: [&[Assignor]; 6] = [
            &[Assignor::Range],
            &[Assignor::RoundRobin],
            &[Assignor::Sticky],
            &[Assignor::CooperativeSticky],
            &[Assignor::CooperativeSticky],
            &[Assignor::CooperativeSticky, Assignor::Range],
        ];
        let groups: Vec<GroupShape> = (0..=dice.roll(3))
            .map(|at| GroupShape {
                id: format!("w{seed}-g{at}").into(),
                strategies: dice.pick(&assignors).to_vec(),
                topics: names[..=dice.roll(names.len())].to_vec(),
            })
            .collect();
        let mut seats = Vec::new();
        for group in 0..groups.len() {
            let is_old = dice.chance(10);
            let size = if dice.chance(10) { 1 } else { 2 + dice.roll(3) };
            for at in 0..size {
                let instance_id = (!is_old && dice.chance(40)).then(|| format!("g{group}-i{at}"));
                let join_version = match instance_id {
                    _ if is_old => 0,
                    Some(_) => 9,
                    None => dice.pick(&[9, 9, 9, 3, 1, 0]),
                };
                seats.push(SeatShape { group, instance_id, auto_commit: dice.chance(50), join_version });
            }
        }
        let (nodes, partitions) = (2 + dice.roll(2), 2 + dice.roll(PARTITIONS_MAX as usize - 1) as u32);
        let pace = if dice.chance(3) { SLOW } else { 1 };
        let limits = Limits::draw(dice, groups.len(), &seats, pace);
        Shape { nodes, partitions, topics, groups, seats, timeouts: Timeouts::at(pace), pace, limits }
    }

    /// How long things go wrong.
    pub fn chaos_ms(&self) -> u64 {
        CHAOS_MS * u64::from(self.pace)
    }

    /// The settings of a member in this seat.
    pub fn config(&self, seat: usize, instance_id: Option<String>, seed: u64) -> Config {
        let shape = &self.seats[seat];
        let group = &self.groups[shape.group];
        Config {
            instance_id,
            session_timeout_ms: self.timeouts.session_ms,
            heartbeat_interval_ms: self.timeouts.heartbeat_ms,
            max_poll_interval_ms: self.timeouts.rebalance_ms,
            request_timeout_ms: REQUEST_MS,
            api_timeout_ms: API_MS,
            metadata_max_age_ms: METADATA_MS * self.pace,
            auto_commit_interval_ms: shape.auto_commit.then_some(AUTO_COMMIT_MS * self.pace),
            strategies: group.strategies.iter().map(|assignor| Strategy::BuiltIn(*assignor)).collect(),
            seed,
            ..Config::new(&*group.id)
        }
    }

    /// The settings of the coordinators.
    pub fn core_config(&self) -> rota_core::Config {
        let usual = rota_core::Config::default();
        let Limits { group_size, pending_ids, retention } = self.limits;
        let (retention_minutes, check_ms) = if retention { (1, CLEANER_MS) } else { (10_080, 600_000) };
        rota_core::Config {
            group_min_session_timeout_ms: 1_000,
            group_initial_rebalance_delay_ms: self.timeouts.initial_delay_ms,
            offsets_commit_timeout_ms: APPEND_MS,
            group_max_size: group_size.unwrap_or(usual.group_max_size),
            group_max_pending_members: pending_ids.unwrap_or(usual.group_max_pending_members),
            offsets_retention_minutes: retention_minutes,
            offsets_retention_check_interval_ms: check_ms,
            ..usual
        }
    }
}
