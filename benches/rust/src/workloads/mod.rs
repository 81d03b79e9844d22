//! All workloads, by name. Each returns how many operations were done inside [`measured`](crate::measured).

mod assignors;
mod heartbeats;
mod log;
pub mod requests;
mod timers;

/// One workload.
pub struct Workload {
    /// As the baseline calls it.
    pub name: &'static str,
    /// What one operation is.
    pub each: &'static str,
    /// Prepares, works, and says how many operations it was.
    pub run: fn() -> u64,
}

/// In the order of the table.
pub const WORKLOADS: &[Workload] = &[
    Workload { name: "heartbeat-bytes", each: "request's bytes to answer's bytes", run: heartbeats::by_bytes },
    Workload { name: "heartbeat-submitted", each: "the same, the long way", run: heartbeats::by_submission },
    Workload { name: "heartbeat-handles", each: "member in the arrays", run: heartbeats::by_handle },
    Workload { name: "heartbeat-consumer", each: "of a consumer group, bytes to bytes", run: heartbeats::consumer },
    Workload { name: "heartbeat-waiting", each: "of a group before its next target", run: heartbeats::waiting },
    Workload { name: "wheel-rearm", each: "timer given a later deadline", run: timers::rearm },
    Workload { name: "wheel-cancel-add", each: "timer cancelled and armed again", run: timers::cancel_and_add },
    Workload { name: "wheel-next", each: "look at when the next timer is due", run: timers::next_deadline },
    Workload { name: "wheel-expiry", each: "timer that fired", run: timers::expiry },
    Workload { name: "purgatory", each: "operation watched and completed", run: timers::purgatory },
    Workload { name: "join", each: "of 1,000 members of one group", run: requests::join },
    Workload { name: "join-consumer", each: "of 500 members of one consumer group", run: requests::join_consumer },
    Workload { name: "sync", each: "of 1,000 members of one group", run: requests::sync },
    Workload { name: "leave", each: "of a group of 10,000, shuffled", run: requests::leaves },
    Workload { name: "replace", each: "static member of 10,000, shuffled", run: requests::replacements },
    Workload { name: "offset-commit", each: "offset, kept by the log", run: requests::offset_commit },
    Workload { name: "assign-range", each: "partition of 10,000, 100 members", run: assignors::range },
    Workload { name: "assign-uniform", each: "partition of 10,000, 100 members", run: assignors::uniform },
    Workload { name: "assign-sticky", each: "partition of 10,000, one of 100 members leaves", run: assignors::sticky },
    Workload { name: "log-append", each: "offset record in a batch of 16", run: log::append },
    Workload { name: "log-decode", each: "offset record read out of its batch", run: log::decode },
    Workload { name: "log-replay", each: "offset record folded into the coordinator", run: log::replay },
    Workload { name: "log-replay-mixed", each: "the same, each of another group", run: log::replay_mixed },
];
