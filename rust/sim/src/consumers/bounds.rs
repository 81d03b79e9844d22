//! Bounds: how many of everything, and which events there are.

use rota_core::consumer_group::config::{ConsumerConfig, Migration};

/// What an exploration may do.
#[expect(clippy::struct_excessive_bools, reason = "independent choices")]
#[derive(Clone, Debug)]
pub struct Bounds {
    /// What they are called.
    pub name: &'static str,
    /// Consumers, up to 3.
    pub clients: usize,
    /// Topics, 1 or 2.
    pub topics: usize,
    /// Partitions of each topic.
    pub partitions: i32,
    /// How many of the clients are static members.
    pub statics: usize,
    /// Clients change their subscription.
    pub resubscribes: bool,
    /// Clients subscribe by a pattern; the last topic is created at some time, and may be deleted.
    pub patterns: bool,
    /// Clients speak either protocol, and the first group is a classic one.
    pub classic: bool,
    /// Classic clients keep what they own when they join again, and report it.
    pub cooperative: bool,
    /// Appends stay in flight: anything may happen before one ends.
    pub held: bool,
    /// Requests with a wrong epoch, id or instance.
    pub invalid: bool,
    /// The most members that a consumer group has.
    pub max_size: u32,
}

impl Bounds {
    /// All that there are.
    pub fn all() -> Vec<Bounds> {
        let pair = Bounds {
            name: "consumers",
            clients: 2,
            topics: 1,
            partitions: 2,
            statics: 0,
            resubscribes: false,
            patterns: false,
            classic: false,
            cooperative: false,
            held: false,
            invalid: true,
            max_size: 10,
        };
        let full = Bounds { name: "full-group", max_size: 1, ..pair.clone() };
        let topics = Bounds { name: "subscriptions", topics: 2, partitions: 1, resubscribes: true, ..pair.clone() };
        let patterns = Bounds { name: "patterns", patterns: true, resubscribes: false, ..topics.clone() };
        let statics = Bounds { name: "static-consumers", statics: 2, ..pair.clone() };
        let held = Bounds { name: "held-appends", statics: 1, held: true, ..pair.clone() };
        let conversion = Bounds { name: "conversion", classic: true, ..pair.clone() };
        let cooperative = Bounds { name: "cooperative", cooperative: true, ..conversion.clone() };
        let mixed = Bounds { name: "static-conversion", statics: 1, cooperative: true, ..conversion.clone() };
        let slow = Bounds { name: "held-conversion", held: true, cooperative: true, ..conversion.clone() };
        let trio =
            Bounds { name: "three-consumers", clients: 3, partitions: 3, topics: 2, invalid: false, ..pair.clone() };
        let crowd = Bounds { name: "three-convert", clients: 3, partitions: 3, ..cooperative.clone() };
        vec![pair, full, topics, patterns, statics, held, conversion, cooperative, mixed, slow, trio, crowd]
    }

    /// Wider ones, for walks: no exploration sees them whole.
    pub fn wide() -> Vec<Bounds> {
        let named = |name: &str| Bounds::named(name).expect("these bounds");
        let held = Bounds { name: "held-static-conversion", held: true, ..named("static-conversion") };
        let statics = Bounds { name: "static-subscriptions", statics: 2, ..named("subscriptions") };
        let topics = Bounds { name: "subscriptions-conversion", classic: true, statics: 1, ..statics.clone() };
        let held_topics = Bounds { name: "held-subscriptions", held: true, ..topics.clone() };
        let patterns = Bounds { name: "patterns-conversion", patterns: true, statics: 2, ..topics.clone() };
        let held_patterns = Bounds { name: "held-patterns", held: true, ..patterns.clone() };
        vec![held, statics, topics, held_topics, patterns, held_patterns]
    }

    /// Those with this name.
    pub fn named(name: &str) -> Option<Bounds> {
        Bounds::all().into_iter().find(|bounds| bounds.name == name)
    }

    /// The settings of consumer groups. Time stands still, so that a target is always due.
    pub fn config(&self) -> ConsumerConfig {
        ConsumerConfig {
            enabled: true,
            assignment_interval_ms: 0,
            max_size: self.max_size,
            migration: Migration::Bidirectional,
            ..ConsumerConfig::default()
        }
    }
}
