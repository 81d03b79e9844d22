//! The shape of a world without faults, drawn from the seed.

use std::{collections::BTreeMap, sync::Arc};

use rota_assign::Assignor;
use rota_member::{Config, Strategy, TopicMetadata};

use super::protocols::{ConsumerShape, Newer, Roll};
use crate::dice::Rng;

/// Duration of the chaos in milliseconds.
const CHAOS_MS: u64 = 90_000;
/// Session timeout of members in milliseconds; small, so that much happens.
const SESSION_MS: u32 = 6_000;
const HEARTBEAT_MS: u32 = 1_500;
/// Rebalance timeout of members in milliseconds.
const REBALANCE_MS: u32 = 12_000;
/// The pace of a slow world: its join phases may exceed the five minutes of a new member.
const SLOW: u32 = 100;
/// Request timeout in milliseconds.
pub const REQUEST_MS: u32 = 8_000;
const API_MS: u32 = 10_000;
/// Interval of a leader's metadata requests in milliseconds.
pub const METADATA_MS: u32 = 10_000;
const AUTO_COMMIT_MS: u32 = 2_000;
/// Append timeout in milliseconds.
pub const APPEND_MS: u32 = 5_000;
/// Interval of the cleaner in milliseconds, in worlds with retention.
const CLEANER_MS: u64 = 2_000;
/// Wall time at the start of a world in milliseconds.
pub const WORLD_BEGINS_WALL_MS: i64 = 1_700_000_000_000;
/// Maximum partitions of `__consumer_offsets` in a world.
pub const PARTITIONS_MAX: u32 = 4;

/// The shape of a group.
#[derive(Clone, Debug)]
pub struct GroupShape {
    /// The group id.
    pub id: Arc<str>,
    /// The assignors that its members offer.
    pub strategies: Vec<Assignor>,
    /// Topics that its members may subscribe to.
    pub topics: Vec<Arc<str>>,
    /// How its processes change their protocol.
    pub roll: Roll,
}

impl GroupShape {
    /// Whether the group uses the cooperative protocol.
    pub fn is_cooperative(&self) -> bool {
        self.strategies == [Assignor::CooperativeSticky]
    }
}

/// The shape of a seat.
#[derive(Clone, Debug)]
pub struct SeatShape {
    /// Index of the group.
    pub group: usize,
    /// The instance id of a static member.
    pub instance_id: Option<String>,
    /// Whether offsets are committed automatically.
    pub auto_commit: bool,
    /// The client's version of `JoinGroup`.
    pub join_version: i16,
    /// How its process is as a member of the newer protocol; `None`: it never is one.
    pub consumer: Option<ConsumerShape>,
}

/// Timeouts of members and coordinators.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Session timeout in milliseconds.
    pub session_ms: u32,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_ms: u32,
    /// Maximum poll interval and rebalance timeout in milliseconds.
    pub rebalance_ms: u32,
    /// Initial rebalance delay of coordinators in milliseconds.
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

/// Limits of the coordinators in some worlds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// `group.max.size`: the number of processes in the largest group, so that only crashed ones exceed it.
    pub group_size: Option<u32>,
    /// `group_max_pending_members`.
    pub pending_ids: Option<u32>,
    /// Whether offsets expire after a minute without use. Jumping wall clocks make them old.
    pub retention: bool,
}

impl Limits {
    fn draw(dice: &mut Rng, groups: usize, seats: &[SeatShape], pace: u32) -> Limits {
        let size = |group: usize| seats.iter().filter(|seat| seat.group == group).count() as u32;
        Limits {
            group_size: dice.chance(20).then(|| (0..groups).map(size).max()).flatten(),
            pending_ids: dice.chance(20).then_some(1),
            // A minute is too short in a slow world.
            retention: dice.chance(15) && pace == 1,
        }
    }
}

/// The shape of a world.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of partitions of `__consumer_offsets`.
    pub partitions: u32,
    /// Topics with their initial partitions.
    pub topics: BTreeMap<Arc<str>, TopicMetadata>,
    /// One to three groups.
    pub groups: Vec<GroupShape>,
    /// Seats of all groups.
    pub seats: Vec<SeatShape>,
    /// Timeouts, scaled by the pace in a drawn world.
    pub timeouts: Timeouts,
    /// Factor by which processes are slower than usual: timeouts of members, work of applications and the chaos.
    /// Coordinators, logs and connections keep their speed.
    pub pace: u32,
    /// Limits of the coordinators.
    pub limits: Limits,
    /// What the newer protocol needs; `None`: no member speaks it.
    pub newer: Option<Newer>,
    /// Whether nodes share the partitions over an engine.
    pub engine: bool,
}

impl Shape {
    /// Returns the partition of `__consumer_offsets` that has a group.
    pub fn partition_of(&self, group_id: &str) -> usize {
        rota_core::partition_for(group_id, self.partitions) as usize
    }

    /// Draws the world of a seed. Its group ids are unique.
    pub fn draw(seed: u64, dice: &mut Rng) -> Shape {
        let names: Vec<Arc<str>> = ["orders", "payments", "stock"].map(Arc::from).to_vec();
        let size = |dice: &mut Rng| TopicMetadata { partitions: 1 + dice.below(4) as i32, racks: Vec::new() };
        let topics = names.iter().map(|name| (name.clone(), size(dice))).collect();
        let assignors: [&[Assignor]; 6] = [
            &[Assignor::Range],
            &[Assignor::RoundRobin],
            &[Assignor::Sticky],
            &[Assignor::CooperativeSticky],
            &[Assignor::CooperativeSticky],
            &[Assignor::CooperativeSticky, Assignor::Range],
        ];
        let groups: Vec<GroupShape> = (0..=dice.below(3))
            .map(|at| GroupShape {
                id: format!("w{seed}-g{at}").into(),
                strategies: dice.pick(&assignors).to_vec(),
                topics: names[..=dice.below(names.len())].to_vec(),
                roll: Roll::Never,
            })
            .collect();
        let mut seats = Vec::new();
        for group in 0..groups.len() {
            let is_old = dice.chance(10);
            let size = if dice.chance(10) { 1 } else { 2 + dice.below(3) };
            for at in 0..size {
                let instance_id = (!is_old && dice.chance(40)).then(|| format!("g{group}-i{at}"));
                let join_version = match instance_id {
                    _ if is_old => 0,
                    Some(_) => 9,
                    None => dice.pick(&[9, 9, 9, 3, 1, 0]),
                };
                seats.push(SeatShape {
                    group,
                    instance_id,
                    auto_commit: dice.chance(50),
                    join_version,
                    consumer: None,
                });
            }
        }
        let (nodes, partitions) = (2 + dice.below(2), 2 + dice.below(PARTITIONS_MAX as usize - 1) as u32);
        let pace = if dice.chance(3) { SLOW } else { 1 };
        let limits = Limits::draw(dice, groups.len(), &seats, pace);
        Shape {
            nodes,
            partitions,
            topics,
            groups,
            seats,
            timeouts: Timeouts::at(pace),
            pace,
            limits,
            newer: None,
            engine: false,
        }
    }

    /// Returns the duration of the chaos in milliseconds.
    pub fn chaos_ms(&self) -> u64 {
        CHAOS_MS * u64::from(self.pace)
    }

    /// Returns the settings of a member in this seat.
    pub fn config(
        &self,
        seat: usize,
        instance_id: Option<String>,
        seed: u64,
        consumer: Option<ConsumerShape>,
    ) -> Config {
        let shape = &self.seats[seat];
        let group = &self.groups[shape.group];
        let own = match consumer {
            Some(consumer) => Config::consumer(&*group.id, consumer.assignor.map(str::to_owned)),
            None => Config {
                session_timeout_ms: self.timeouts.session_ms,
                heartbeat_interval_ms: self.timeouts.heartbeat_ms,
                strategies: group.strategies.iter().map(|assignor| Strategy::BuiltIn(*assignor)).collect(),
                ..Config::new(&*group.id)
            },
        };
        Config {
            instance_id,
            max_poll_interval_ms: self.timeouts.rebalance_ms,
            request_timeout_ms: REQUEST_MS,
            api_timeout_ms: API_MS,
            metadata_max_age_ms: METADATA_MS * self.pace,
            auto_commit_interval_ms: shape.auto_commit.then_some(AUTO_COMMIT_MS * self.pace),
            seed,
            ..own
        }
    }

    /// Returns the settings of the coordinators.
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
