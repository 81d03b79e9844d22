//! Bounds: how many of everything there are, and which faults.

/// What an exploration may do. Each number says how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Nodes.
    pub nodes: usize,
    /// Partitions.
    pub partitions: i32,
    /// Claims that are carried out, of all partitions.
    pub epochs: i32,
    /// Records that clients send.
    pub appends: u8,
    /// Attempts whose outcome the sender does not learn.
    pub unknowns: u8,
    /// Requests that are under way twice.
    pub twins: u8,
    /// Requests that are carried out although the engine says that its space is exhausted.
    pub exhaustions: u8,
    /// Snapshots that begin.
    pub snapshots: u8,
    /// Releases.
    pub releases: u8,
    /// Copies of the engine's content.
    pub backups: u8,
    /// Returns to the copy.
    pub restores: u8,
    /// Histories that an operator begins after a restore.
    pub accepts: u8,
    /// Processes that end and begin again.
    pub restarts: u8,
    /// Node 0 serves partition 0 from the beginning, its watch is stalled, and it claims nothing: the others take over.
    pub is_takeover: bool,
    /// Time passes and nodes beat. Without, every session lasts and every owner counts as silent: who may write does not
    /// depend on clocks, so all promises but E5 hold there, too.
    pub is_timed: bool,
    /// A clock may stand still for a unit, once in a TTL.
    pub slips: bool,
    /// In units of time; nodes beat once in each unit.
    pub ttl: u64,
    /// In units of time.
    pub margin: u64,
}

impl Bounds {
    /// Two nodes and one partition, without faults but those that need no budget: pauses, silence, stalled watches.
    pub const QUIET: Bounds = Bounds {
        nodes: 2,
        partitions: 1,
        epochs: 2,
        appends: 1,
        unknowns: 0,
        twins: 0,
        exhaustions: 0,
        snapshots: 0,
        releases: 0,
        backups: 0,
        restores: 0,
        accepts: 0,
        restarts: 0,
        is_takeover: false,
        is_timed: false,
        slips: false,
        ttl: 2,
        margin: 0,
    };
}

/// Bounds with their name and what must happen within them at least once.
pub struct Named {
    pub name: &'static str,
    pub bounds: Bounds,
    pub sometimes: &'static [&'static str],
}

/// Those that every run of the tests explores.
pub const ALL: &[Named] = &[
    Named {
        name: "appends",
        bounds: Bounds { appends: 2, unknowns: 1, twins: 1, ..Bounds::QUIET },
        sometimes: &[
            "an append is fenced",
            "a repeated append finds its own entry",
            "an owner finds itself fenced",
            "a claim fails because the owner changed",
            "a twin arrives",
        ],
    },
    Named {
        name: "exhaustion",
        bounds: Bounds { appends: 2, exhaustions: 1, ..Bounds::QUIET },
        sometimes: &["a repeated append finds its own entry", "an append is acknowledged"],
    },
    Named {
        name: "queues",
        bounds: Bounds { nodes: 1, appends: 3, unknowns: 1, epochs: 1, ..Bounds::QUIET },
        sometimes: &["records wait for an append", "a repeated append finds its own entry"],
    },
    Named {
        name: "releases",
        bounds: Bounds { appends: 1, unknowns: 1, releases: 1, ..Bounds::QUIET },
        sometimes: &["a partition is released", "an owner leaves", "a partition is taken"],
    },
    Named {
        name: "snapshots",
        bounds: Bounds { appends: 2, snapshots: 1, ..Bounds::QUIET },
        sometimes: &["a snapshot is complete", "a write of a snapshot is fenced", "a snapshot is loaded"],
    },
    Named {
        name: "sweeps",
        bounds: Bounds { nodes: 1, appends: 3, snapshots: 2, twins: 1, epochs: 1, ..Bounds::QUIET },
        sometimes: &["a snapshot is complete", "a twin arrives"],
    },
    Named {
        name: "restores",
        bounds: Bounds { appends: 1, backups: 1, restores: 1, ..Bounds::QUIET },
        sometimes: &["a node finds that the engine went back", "an owner stops"],
    },
    Named {
        name: "survivors",
        bounds: Bounds { nodes: 1, appends: 2, backups: 1, restores: 1, epochs: 1, ..Bounds::QUIET },
        sometimes: &["an append does not find what it follows", "a node finds that the engine went back"],
    },
    Named {
        name: "returns",
        bounds: Bounds { nodes: 1, appends: 2, snapshots: 1, backups: 1, restores: 1, epochs: 1, ..Bounds::QUIET },
        sometimes: &["a snapshot is complete", "a write of a snapshot is refused after a restore"],
    },
    Named {
        name: "bumps",
        bounds: Bounds { nodes: 1, is_timed: true, appends: 0, backups: 1, restores: 1, epochs: 0, ..Bounds::QUIET },
        sometimes: &["a node finds that the engine went back"],
    },
    Named {
        name: "histories",
        bounds: Bounds { nodes: 1, appends: 1, backups: 1, restores: 1, accepts: 1, epochs: 1, ..Bounds::QUIET },
        sometimes: &["a node finds another history"],
    },
    Named {
        name: "sessions",
        bounds: Bounds { is_timed: true, is_takeover: true, appends: 0, ..Bounds::QUIET },
        sometimes: &[
            "a claim fails because the owner beats",
            "a read is answered",
            "a read is refused past the session's end",
            "a session expires",
            "an owner is replaced",
        ],
    },
];

/// Those that `make explore-engine` explores, too.
pub const DEEP: &[Named] = &[
    Named {
        name: "twins",
        bounds: Bounds { is_timed: true, is_takeover: true, appends: 0, twins: 1, ..Bounds::QUIET },
        sometimes: &["a beat comes too late", "an owner is replaced"],
    },
    Named {
        name: "clocks",
        bounds: Bounds {
            is_timed: true,
            is_takeover: true,
            appends: 0,
            slips: true,
            ttl: 3,
            margin: 1,
            ..Bounds::QUIET
        },
        sometimes: &["a session expires", "an owner is replaced"],
    },
    Named {
        name: "restarts",
        bounds: Bounds { is_timed: true, is_takeover: true, appends: 0, restarts: 1, ..Bounds::QUIET },
        sometimes: &["an owner is replaced"],
    },
    Named {
        name: "fresh_reads",
        bounds: Bounds { is_timed: true, is_takeover: true, ..Bounds::QUIET },
        sometimes: &["an append is acknowledged", "an owner is replaced"],
    },
    Named {
        name: "three_nodes",
        bounds: Bounds { nodes: 3, ..Bounds::QUIET },
        sometimes: &["an append is fenced", "an owner is replaced"],
    },
    Named {
        name: "long_sweeps",
        bounds: Bounds { appends: 2, snapshots: 2, ..Bounds::QUIET },
        sometimes: &["a write of a snapshot is fenced", "a snapshot is loaded"],
    },
    Named {
        name: "latency",
        bounds: Bounds { is_timed: true, is_takeover: true, appends: 0, ttl: 3, ..Bounds::QUIET },
        sometimes: &["an owner is replaced", "a claim fails because the owner beats"],
    },
    Named {
        name: "long_returns",
        bounds: Bounds { appends: 1, snapshots: 1, backups: 1, restores: 1, ..Bounds::QUIET },
        sometimes: &["a write of a snapshot is refused after a restore", "an owner is replaced"],
    },
];
