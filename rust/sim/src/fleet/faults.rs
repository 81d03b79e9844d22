//! Faults, drawn as a list before the world starts, so that the list can be minimised.

use std::fmt;

use rota_core::ErrorCode;

use super::{
    protocols::{self, Roll},
    shape::Shape,
};
use crate::dice::Rng;

/// Errors of the log (docs/protocol.md §6.6).
pub const LOG_ERRORS: [ErrorCode; 8] = [
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::NotEnoughReplicas,
    ErrorCode::RequestTimedOut,
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::KafkaStorageError,
    ErrorCode::MessageTooLarge,
    ErrorCode::RecordListTooLarge,
    ErrorCode::NetworkException,
];

macro_rules! kinds {
    ($($kind:ident = $name:literal, $told:literal;)+) => {
        /// The kinds of faults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $told] $kind,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)+];

            /// Returns the name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)+ }
            }

            /// Returns a description in one sentence.
            pub fn told(self) -> &'static str {
                match self { $(Kind::$kind => $told,)+ }
            }
        }
    };
}

impl Kind {
    /// Whether worlds of this shape have such faults.
    pub fn is_in(self, shape: &Shape) -> bool {
        match self {
            Kind::Roll => shape.groups.iter().any(|group| group.roll != Roll::Never),
            Kind::SlowApply | Kind::Creation => shape.is_newer(),
            Kind::Deletion => shape.is_newer() && !shape.engine,
            // Of a log whose owner is decided from outside.
            Kind::Zombie | Kind::LoadFails | Kind::Compaction | Kind::LogSlow | Kind::LogFails => !shape.engine,
            _ => !self.is_of_engine() || shape.engine,
        }
    }

    /// Whether only nodes that share partitions over an engine have such faults.
    pub fn is_of_engine(self) -> bool {
        self as usize >= Kind::EngineSilent as usize
    }

    /// Whether the duration is that of a process that is away or works: longer in a slow world.
    fn is_of_processes(self) -> bool {
        matches!(
            self,
            Kind::ClientCrash
                | Kind::ClientAnew
                | Kind::ClientPause
                | Kind::ClientClose
                | Kind::CrashLoop
                | Kind::Busy
                | Kind::Roll
                | Kind::SlowApply
        )
    }
}

kinds! {
    NodeCrash = "node-crash", "a node loses its memory and comes back later; others take over its partitions";
    HandOver = "hand-over", "a partition moves: unloaded on one node, then loaded on another";
    Zombie = "zombie", "a partition moves, and its old owner learns of it late";
    LoadFails = "load-fails", "a log cannot be read once; the load is retried later";
    Compaction = "compaction", "a log keeps only the newest record of each key";
    LogSlow = "log-slow", "appends of a partition take long, some longer than their deadline, and some reach the log twice";
    LogFails = "log-fails", "appends of a partition fail with an error of 6.6";
    Cut = "cut", "the connections between a process and a node break, for both";
    HalfOpen = "half-open", "the connections between a process and a node drop all data, and neither side notices";
    Delay = "delay", "data between a process and a node arrives late, in order; new connections are not delayed";
    ClientCrash = "client-crash", "a process ends without leaving, and starts again later";
    ClientAnew = "client-anew", "the same, but it returns with another instance id, or without one";
    ClientPause = "client-pause", "a process does nothing for a while, and then everything late";
    ClientClose = "client-close", "a process closes its member, and starts again later";
    CrashLoop = "crash-loop", "a process is replaced by one that asks for a member id and ends, repeatedly";
    Twin = "twin", "a second process starts with the instance id of a running one";
    Busy = "busy", "an application works for longer than its poll interval";
    Subscribe = "subscribe", "an application subscribes to other topics";
    Growth = "growth", "a topic gets more partitions";
    Drift = "drift", "a node's clock goes faster or slower than the others from now on, or its wall clock jumps";
    Roll = "roll", "a process closes its member and starts again with the other protocol (worlds with both)";
    SlowApply = "slow-apply", "applications take long to handle their notices (the newer protocol)";
    Creation = "creation", "a topic is created that patterns may match (the newer protocol)";
    Deletion = "deletion", "a topic is deleted, and sometimes created again under a new id (the newer protocol, not --cluster)";
    EngineSilent = "engine-silent", "nothing passes between a node and the engine, or nothing in one direction (--cluster)";
    EngineUnknown = "engine-unknown", "requests of a node to the engine are lost, or their answers: their outcome is unknown (--cluster)";
    EngineSlow = "engine-slow", "requests of a node come late, some after another node has fenced it (--cluster)";
    EngineTwins = "engine-twins", "the engine carries requests of a node out twice, the second time late (--cluster)";
    EngineFull = "engine-full", "the engine carries requests of a node out, and says that it has no space (--cluster)";
    WatchStalled = "watch-stalled", "a node sees nothing new of the others (--cluster)";
    NodePause = "node-pause", "a node does nothing for a while, and then everything late (--cluster)";
    EngineBack = "engine-back", "the engine goes back to an earlier state of itself; a while later an operator accepts the loss (--cluster)";
    Snapshots = "snapshots", "a node replaces the tails of its partitions by snapshots again and again (--cluster)";
}

/// One fault. Its kind defines the meaning of `whom`, `whence` and `amount`; each is taken modulo the number of
/// candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Start in milliseconds.
    pub at_ms: u64,
    /// Duration in milliseconds, if the kind has one.
    pub for_ms: u64,
    /// The kind of fault.
    pub kind: Kind,
    /// A client, node or partition.
    pub whom: usize,
    /// A node, or another parameter.
    pub whence: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { at_ms, for_ms, kind, whom, whence } = self;
        write!(f, "{at_ms:>7} {:<12} {whom} {whence} for {for_ms} ms", kind.name())
    }
}

/// Draws the faults of a world, by time. With `swarm`, fewer kinds occur, each more often.
pub fn draw(dice: &mut Rng, shape: &Shape, swarm: bool) -> Vec<Fault> {
    let kinds = Kind::ALL.iter().copied().filter(|kind| kind.is_in(shape));
    let kinds: Vec<Kind> = kinds.filter(|_| !swarm || dice.chance(30)).collect();
    let count = if kinds.is_empty() { 0 } else { 4 + dice.below(20) };
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let kind = dice.pick(&kinds);
            let pace = if kind.is_of_processes() { shape.pace } else { 1 };
            Fault {
                at_ms: dice.below(shape.chaos_ms() as usize) as u64,
                for_ms: length(dice) * u64::from(pace),
                kind,
                whom: dice.below(shape.seats.len() * shape.nodes * shape.partitions as usize),
                whence: dice.below(840),
            }
        })
        .collect();
    faults.append(&mut protocols::rolls(shape, dice));
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}

/// Draws a duration: short, as long as a session, or longer than any timeout.
fn length(dice: &mut Rng) -> u64 {
    let max_ms = dice.pick(&[500, 4_000, 9_000, 20_000]);
    100 + dice.below(max_ms) as u64
}
