//! Explanations of groups as frozen classes.

use std::sync::Arc;

use pyo3::{PyClass, prelude::*};
use rota_core::explain;
use rota_server::HeldBy;

use crate::{plain::plain, values::Tuple};

plain! {
    /// One wait of a group.
    "rota.coordinator" Wait {
        /// The kind of wait: one of the vocabulary's `waits`.
        what: String,
        /// The member id, or "".
        member_id: String,
        /// End of the wait in monotonic milliseconds.
        until_ms: u64,
        /// Whether the member sends heartbeats during the wait.
        heartbeats: bool = false,
        /// Whether it is a static member.
        is_static: bool = false,
    }
    shown "(what, member_id, until_ms, heartbeats=False, is_static=False)"
    methods {
        fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
            said("of_wait", slf)
        }
    }
}

plain! {
    /// A member that left during a rebalance.
    "rota.coordinator" Departure {
        /// The member id, or the pending member id.
        member_id: String,
        /// The kind of departure: one of the vocabulary's `departures`.
        how: String,
        /// The reason in the request, or "".
        reason: String,
        /// Time in monotonic milliseconds.
        at_ms: u64,
    }
    methods {
        fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
            said("of_departure", slf)
        }
    }
}

plain! {
    /// One rebalance of a group.
    "rota.coordinator" Rebalance {
        /// The cause: one of the vocabulary's `causes`.
        cause: String,
        /// The member whose event began it, or "".
        member_id: String,
        /// The reason in the client's request, or "".
        reason: String,
        /// The generation that it ended.
        from_generation: i32,
        /// The generation after the join phase; `None` until it completes.
        to_generation: Option<i32>,
        /// Start in monotonic milliseconds.
        began_ms: u64,
        /// Start in milliseconds since the Unix epoch.
        began_wall_ms: i64,
        /// End of the join phase in monotonic milliseconds.
        joined_ms: Option<u64>,
        /// Time when the group became Stable or Empty, in monotonic milliseconds.
        settled_ms: Option<u64>,
        /// The last members that left during the rebalance, oldest first.
        departures: Tuple<Departure> = Tuple::default(),
    }
    shown "(cause, member_id, reason, from_generation, to_generation, began_ms, began_wall_ms, joined_ms, settled_ms, departures=())"
    methods {
        fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
            said("of_rebalance", slf)
        }
    }
}

plain! {
    /// The state of a group, its waits and its recent rebalances.
    "rota.coordinator" Explanation {
        /// The group id.
        group_id: String,
        /// The state: one of the vocabulary's `states`, or of its `consumer_states`.
        state: String,
        /// Its generation, or the group epoch of a consumer group.
        generation: i32,
        /// Start of the state in monotonic milliseconds.
        since_ms: u64,
        /// Time of the explanation in monotonic milliseconds.
        now_ms: u64,
        /// What the group waits for; empty if nothing delays it.
        waiting: Tuple<Wait>,
        /// The last rebalances, oldest first.
        rebalances: Tuple<Rebalance>,
        /// The protocol: "classic" or "consumer".
        protocol: String = "classic".to_owned(),
        /// The epoch of a consumer group's target assignment.
        target_epoch: Option<i32> = None,
    }
    shown "(group_id, state, generation, since_ms, now_ms, waiting, rebalances, protocol='classic', target_epoch=None)"
    methods {
        fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
            said("of_explanation", slf)
        }
    }
}

plain! {
    /// A group summarized in a few figures.
    "rota.coordinator" Summary {
        /// The group id.
        group_id: String,
        /// The protocol type; kept when the group becomes empty.
        protocol_type: Option<String>,
        /// The chosen protocol.
        protocol_name: Option<String>,
        /// Number of members.
        members: u32,
        /// Number of members with a parked JoinGroup.
        awaiting_join: u32,
        /// Number of members with a parked SyncGroup.
        awaiting_sync: u32,
        /// Number of pending member ids.
        pending: u32,
        /// Number of members by tenths of the session left, the least first.
        slack: Tuple<u32>,
        /// Number of waits; `explanation` has the first of them.
        waits: u32,
        /// Explanation of the state.
        explanation: Explanation,
    }
}

/// Returns a sentence from `rota.why`, which makes the same sentences from JSON.
fn said<T: PyClass>(maker: &str, of: &Bound<'_, T>) -> PyResult<String> {
    of.py().import("rota.why")?.call_method1(maker, (of,))?.extract()
}

fn wait(wait: &explain::Wait) -> Wait {
    let (what, member_id) = match &wait.what {
        explain::Waiting::InitialDelay => ("InitialDelay", ""),
        explain::Waiting::Rejoin(member_id) => ("Rejoin", &**member_id),
        explain::Waiting::Pending(member_id) => ("Pending", &**member_id),
        explain::Waiting::LeaderSync(member_id) => ("LeaderSync", &**member_id),
        explain::Waiting::Sync(member_id) => ("Sync", &**member_id),
        explain::Waiting::Append => ("Append", ""),
        explain::Waiting::Target => ("Target", ""),
        explain::Waiting::Revoke(member_id) => ("Revoke", &**member_id),
        explain::Waiting::Release(member_id) => ("Release", &**member_id),
        explain::Waiting::Reconcile(member_id) => ("Reconcile", &**member_id),
        explain::Waiting::Return(member_id) => ("Return", &**member_id),
    };
    Wait {
        what: what.to_owned(),
        member_id: member_id.to_owned(),
        until_ms: wait.until_ms,
        heartbeats: wait.heartbeats,
        is_static: wait.is_static,
    }
}

fn departure(departure: &explain::Departure) -> Departure {
    Departure {
        member_id: departure.member_id.to_string(),
        how: departure.how.name().to_owned(),
        reason: departure.reason.to_string(),
        at_ms: departure.at_ms,
    }
}

fn rebalance(rebalance: &explain::Rebalance) -> Rebalance {
    Rebalance {
        cause: format!("{:?}", rebalance.cause),
        member_id: rebalance.member_id.to_string(),
        reason: rebalance.reason.to_string(),
        from_generation: rebalance.from_generation,
        to_generation: rebalance.to_generation,
        began_ms: rebalance.began_ms,
        began_wall_ms: rebalance.began_wall_ms,
        joined_ms: rebalance.joined_ms,
        settled_ms: rebalance.settled_ms,
        departures: rebalance.departures.iter().map(departure).collect(),
    }
}

/// Converts the core's explanation of a group at `now_ms`.
pub fn explanation(group_id: &str, now_ms: u64, explained: &explain::Explanation) -> Explanation {
    Explanation {
        group_id: group_id.to_owned(),
        state: explained.state.to_owned(),
        generation: explained.generation,
        since_ms: explained.since_ms,
        now_ms,
        waiting: explained.waiting.iter().map(wait).collect(),
        rebalances: explained.rebalances.iter().map(rebalance).collect(),
        protocol: explained.protocol.name().to_owned(),
        target_epoch: explained.target_epoch,
    }
}

/// Converts the core's summary of a group at `now_ms`.
pub fn summary(now_ms: u64, summary: &rota_core::summary::Summary) -> Summary {
    let owned = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    Summary {
        group_id: summary.group_id.to_string(),
        protocol_type: owned(&summary.protocol_type),
        protocol_name: owned(&summary.protocol_name),
        members: summary.members,
        awaiting_join: summary.awaiting_join,
        awaiting_sync: summary.awaiting_sync,
        pending: summary.pending,
        slack: summary.slack.iter().copied().collect(),
        waits: summary.waits,
        explanation: explanation(&summary.group_id, now_ms, &summary.explanation),
    }
}

/// Producer id, transactional id, state, start in wall milliseconds, timeout, partitions, and the node that coordinates it
/// if that is another server. An unknown producer has "".
pub type HeldRow = (i64, String, &'static str, i64, i32, Vec<(String, i32)>, Option<i32>);

/// Converts a transaction that holds offsets of a group back.
pub fn held_row(held: HeldBy) -> HeldRow {
    let (elsewhere, node_id) = held.elsewhere.unzip();
    let (id, state, start_ms, timeout_ms) = match held.transaction {
        Some((id, known)) => (id, known.state.name(), known.start_ms, known.timeout_ms),
        None => (elsewhere.unwrap_or_default(), "", -1, -1),
    };
    (held.producer_id, id, state, start_ms, timeout_ms, held.partitions, node_id)
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wait>()?;
    module.add_class::<Departure>()?;
    module.add_class::<Rebalance>()?;
    module.add_class::<Explanation>()?;
    module.add_class::<Summary>()
}
