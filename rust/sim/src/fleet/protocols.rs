//! Worlds of the newer protocol: who speaks it, and how groups change over.

use std::sync::Arc;

use rota_core::consumer_group::config::{ASSIGNORS, ConsumerConfig, Migration};

use super::{
    faults::{Fault, Kind},
    shape::Shape,
};
use crate::dice::Rng;

/// The protocol that the members of a world speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The classic one.
    #[default]
    Classic,
    /// The newer one.
    Consumer,
    /// Both: groups of either, and groups that change over.
    Mixed,
    /// The seed decides: worlds of the three kinds take turns.
    All,
}

impl Protocol {
    /// Every choice.
    pub const ALL: [Protocol; 4] = [Protocol::Classic, Protocol::Consumer, Protocol::Mixed, Protocol::All];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        ["classic", "consumer", "mixed", "all"][self as usize]
    }

    /// Returns the choice with this name.
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns the protocol of a seed's world.
    #[must_use]
    pub fn of(self, seed: u64) -> Protocol {
        if self == Protocol::All { Protocol::ALL[(seed % 3) as usize] } else { self }
    }
}

/// How the processes of a group change their protocol, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roll {
    /// They do not.
    Never,
    /// Classic members become consumers.
    Up,
    /// Consumers become classic members.
    Down,
    /// Classic members become consumers, and then classic members again.
    Back,
}

/// A member of the newer protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerShape {
    /// The server's assignor that it names.
    pub assignor: Option<&'static str>,
    /// Whether it subscribes by a pattern.
    pub by_pattern: bool,
    /// Whether the first process in its seat speaks the newer protocol.
    pub begins: bool,
}

/// What the newer protocol needs in a world.
#[derive(Clone, Copy, Debug)]
pub struct Newer {
    /// `group.consumer.migration.policy`
    pub migration: Migration,
    /// `group.consumer.assignment.interval.ms`
    pub assignment_interval_ms: i32,
}

/// Topics that are created later have these names, in turn.
pub const SUFFIX: &str = "-eu";

/// Makes a world of the newer protocol, or of both, out of a classic one with the same seed.
pub fn overlay(shape: &mut Shape, seed: u64, protocol: Protocol) {
    if protocol == Protocol::Classic {
        return;
    }
    let dice = &mut Rng::new(seed ^ 0x848);
    let policies = [Migration::Bidirectional, Migration::Bidirectional, Migration::Upgrade, Migration::Downgrade];
    let migration = if dice.chance(4) { Migration::Disabled } else { dice.pick(&policies) };
    let assignment_interval_ms = dice.pick(&[0, 1_000, 1_000, 3_000]);
    shape.newer = Some(Newer { migration, assignment_interval_ms });
    for group in 0..shape.groups.len() {
        let is_mixed = protocol == Protocol::Mixed;
        let roll =
            if is_mixed { dice.pick(&[Roll::Never, Roll::Up, Roll::Up, Roll::Down, Roll::Back]) } else { Roll::Never };
        shape.groups[group].roll = roll;
        let assignor = if dice.chance(50) { Some(dice.pick(&ASSIGNORS)) } else { None };
        let patterns = dice.chance(35);
        for seat in shape.seats.iter_mut().filter(|seat| seat.group == group) {
            let begins = match roll {
                Roll::Never => !is_mixed || dice.chance(50),
                Roll::Up | Roll::Back => false,
                Roll::Down => true,
            };
            let by_pattern = patterns && dice.chance(70);
            let assignor = if dice.chance(15) { Some(dice.pick(&ASSIGNORS)) } else { assignor };
            seat.consumer = Some(ConsumerShape { assignor, by_pattern, begins });
        }
    }
}

/// Draws the restarts of groups whose processes change over, one after the other.
pub fn rolls(shape: &Shape, dice: &mut Rng) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (group, of) in shape.groups.iter().enumerate() {
        let ways: &[usize] = match of.roll {
            Roll::Never => &[],
            Roll::Up => &[1],
            Roll::Down => &[0],
            Roll::Back => &[1, 0],
        };
        let pace = u64::from(shape.pace);
        let mut at_ms = (5_000 + dice.below(15_000) as u64) * pace;
        for way in ways {
            for whom in (0..shape.seats.len()).filter(|seat| shape.seats[*seat].group == group) {
                let for_ms = (100 + dice.below(3_000) as u64) * pace;
                faults.push(Fault { at_ms, for_ms, kind: Kind::Roll, whom, whence: *way });
                at_ms += (1_000 + dice.below(7_000) as u64) * pace;
            }
        }
    }
    faults
}

/// A pattern that matches every topic whose name begins with one of these.
pub fn pattern_of(names: &[Arc<str>]) -> Arc<str> {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    format!("(?:{}).*", names.join("|")).into()
}

/// Whether such a pattern matches a topic.
pub fn matches(pattern: &str, topic: &str) -> bool {
    let names = pattern.strip_prefix("(?:").and_then(|rest| rest.strip_suffix(").*"));
    names.is_some_and(|names| names.split('|').any(|name| topic.starts_with(name)))
}

impl Shape {
    /// Whether some member may speak the newer protocol.
    pub fn is_newer(&self) -> bool {
        self.newer.is_some()
    }

    /// Returns the settings of consumer groups.
    pub fn consumer_config(&self) -> ConsumerConfig {
        let Some(newer) = self.newer else { return ConsumerConfig::default() };
        let usual = ConsumerConfig::default();
        ConsumerConfig {
            enabled: true,
            session_timeout_ms: self.timeouts.session_ms as i32,
            heartbeat_interval_ms: self.timeouts.heartbeat_ms as i32,
            assignment_interval_ms: newer.assignment_interval_ms,
            max_size: self.limits.group_size.unwrap_or(usual.max_size),
            migration: newer.migration,
            ..usual
        }
    }
}
