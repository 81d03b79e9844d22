//! Bounds of the searches, and what must happen within them at least once.

use rota_txn::TransactionVersion::{self, V1, V2};

/// How much of everything may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// `transaction.version`.
    pub level: i16,
    /// The protocol of all clients.
    pub version: TransactionVersion,
    /// Participants.
    pub participants: usize,
    /// Calls of InitProducerId.
    pub inits: u8,
    /// A producer that has an epoch names it.
    pub names_epoch: bool,
    /// Batches, or offsets of a group.
    pub writes: u8,
    /// Requests to end a transaction, repetitions included.
    pub ends: u8,
    /// Crashes of the coordinator.
    pub crashes: u8,
    /// Appends and markers that fail.
    pub failures: u8,
    /// Transactions whose time is over.
    pub timeouts: u8,
    /// A client ends its transaction while its data is on the way.
    pub is_late: bool,
}

/// A search.
pub struct Named {
    pub name: &'static str,
    pub bounds: Bounds,
    pub sometimes: &'static [&'static str],
}

const SMALL: Bounds = Bounds {
    level: 0,
    version: V1,
    participants: 2,
    inits: 1,
    names_epoch: false,
    writes: 2,
    ends: 2,
    crashes: 1,
    failures: 0,
    timeouts: 0,
    is_late: false,
};

/// The searches of every run.
pub const ALL: &[Named] = &[
    Named {
        name: "first_protocol",
        bounds: Bounds { participants: 3, writes: 1, ends: 1, ..SMALL },
        sometimes: &["committed", "aborted", "loaded Prepare", "marker of an older coordinator"],
    },
    Named {
        name: "second_protocol",
        bounds: Bounds { level: 2, version: V2, participants: 3, writes: 3, ends: 1, ..SMALL },
        sometimes: &["committed", "aborted", "loaded Prepare", "marker repeated"],
    },
    Named {
        name: "repetitions",
        bounds: Bounds { level: 2, version: V2, ..SMALL },
        sometimes: &["committed", "aborted", "loaded Prepare", "end repeated"],
    },
    Named {
        name: "new_producers",
        bounds: Bounds { inits: 2, names_epoch: true, level: 2, ends: 1, writes: 1, ..SMALL },
        sometimes: &["committed", "aborted", "fenced", "loaded Prepare"],
    },
    Named {
        name: "fenced_producers",
        bounds: Bounds { participants: 1, inits: 3, ends: 1, writes: 1, crashes: 0, ..SMALL },
        sometimes: &["committed", "aborted", "fenced"],
    },
    Named {
        name: "time",
        bounds: Bounds { timeouts: 1, ends: 1, ..SMALL },
        sometimes: &["committed", "aborted", "fenced", "timed out", "loaded Prepare"],
    },
    Named {
        name: "failures",
        bounds: Bounds { failures: 1, writes: 1, ends: 1, ..SMALL },
        sometimes: &["committed", "aborted", "stored but failed", "marker failed", "loaded Prepare"],
    },
    Named {
        name: "late_data",
        bounds: Bounds { level: 2, version: V2, is_late: true, timeouts: 1, crashes: 0, ..SMALL },
        sometimes: &["committed", "aborted", "late data refused"],
    },
    // With one end there is no next transaction that late data could join.
    Named {
        name: "late_data_v1",
        bounds: Bounds { is_late: true, timeouts: 1, ends: 1, ..SMALL },
        sometimes: &["committed", "aborted", "late data refused"],
    },
];

/// The searches of minutes.
pub const DEEP: &[Named] = &[
    Named {
        name: "deep_first_protocol",
        bounds: Bounds { participants: 3, writes: 3, ends: 1, ..SMALL },
        sometimes: &["committed", "aborted", "loaded Prepare", "marker of an older coordinator"],
    },
    Named {
        name: "deep_second_protocol",
        bounds: Bounds { level: 2, version: V2, participants: 3, writes: 3, ends: 1, crashes: 2, ..SMALL },
        sometimes: &["committed", "aborted", "loaded Prepare", "marker repeated"],
    },
    Named {
        name: "deep_producers",
        bounds: Bounds { inits: 3, names_epoch: true, level: 2, ends: 1, writes: 1, crashes: 0, ..SMALL },
        sometimes: &["committed", "aborted", "fenced"],
    },
    Named {
        name: "deep_failures",
        bounds: Bounds { failures: 2, writes: 1, ..SMALL },
        sometimes: &["committed", "aborted", "stored but failed", "marker failed", "loaded Prepare"],
    },
];
