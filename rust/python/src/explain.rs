//! What a group is doing and why it rebalanced, as frozen classes.

use std::sync::Arc;

use pyo3::{PyClass, prelude::*};
use rota_core::explain;

use crate::{plain::plain, values::Tuple};

plain! {
    /// One thing that a group waits for.
    "rota.coordinator" Wait {
        /// What: one of the vocabulary's `waits`.
        what: String,
        /// For whom, or "".
        member_id: String,
        /// When the coordinator stops waiting for it, monotonic milliseconds.
        until_ms: u64,
        /// Whether the member heartbeats while the group waits for it.
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
    /// A member that went while a rebalance was running.
    "rota.coordinator" Departure {
        /// The member, or the id that was handed out.
        member_id: String,
        /// How it went: one of the vocabulary's `departures`.
        how: String,
        /// The reason that the request gave, or "".
        reason: String,
        /// Monotonic milliseconds.
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
        /// What began it: one of the vocabulary's `causes`.
        cause: String,
        /// Whose event that was, or "".
        member_id: String,
        /// What the client said about it, or "".
        reason: String,
        /// The generation that it ended.
        from_generation: i32,
        /// The generation that came of it, once its join phase completed.
        to_generation: Option<i32>,
        /// Monotonic milliseconds.
        began_ms: u64,
        /// Milliseconds since the Unix epoch.
        began_wall_ms: i64,
        /// When its join phase completed.
        joined_ms: Option<u64>,
        /// When the group was Stable, or Empty, again.
        settled_ms: Option<u64>,
        /// The members that went while it ran, the last ones, oldest first.
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
    /// What a group is doing, whom it waits for, and why it rebalanced lately.
    "rota.coordinator" Explanation {
        /// The group.
        group_id: String,
        /// One of the vocabulary's `states`.
        state: String,
        /// Its generation.
        generation: i32,
        /// Since when it is in this state, monotonic milliseconds.
        since_ms: u64,
        /// When this was asked, monotonic milliseconds.
        now_ms: u64,
        /// What it waits for; empty while nothing is missing.
        waiting: Tuple<Wait>,
        /// The last rebalances, oldest first.
        rebalances: Tuple<Rebalance>,
    }
    methods {
        fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
            said("of_explanation", slf)
        }
    }
}

plain! {
    /// A group in a few figures.
    "rota.coordinator" Summary {
        /// The group.
        group_id: String,
        /// Kept when the group empties.
        protocol_type: Option<String>,
        /// The chosen protocol.
        protocol_name: Option<String>,
        /// How many members it has.
        members: u32,
        /// How many of them have a parked JoinGroup.
        awaiting_join: u32,
        /// How many of them have a parked SyncGroup.
        awaiting_sync: u32,
        /// How many ids were handed out that have not joined.
        pending: u32,
        /// By tenths of the session that are left, how many members have so much left; first those with the least.
        slack: Tuple<u32>,
        /// How many things it waits for; `explanation` has the first of them.
        waits: u32,
        /// What it is doing, and why.
        explanation: Explanation,
    }
}

/// A sentence: those are `rota.why`'s, which makes the same ones of JSON.
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

/// The core's explanation of a group, asked for at `now_ms`.
pub fn explanation(group_id: &str, now_ms: u64, explained: &explain::Explanation) -> Explanation {
    Explanation {
        group_id: group_id.to_owned(),
        state: explained.state.name().to_owned(),
        generation: explained.generation,
        since_ms: explained.since_ms,
        now_ms,
        waiting: explained.waiting.iter().map(wait).collect(),
        rebalances: explained.rebalances.iter().map(rebalance).collect(),
    }
}

/// The core's summary of a group, made at `now_ms`.
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

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wait>()?;
    module.add_class::<Departure>()?;
    module.add_class::<Rebalance>()?;
    module.add_class::<Explanation>()?;
    module.add_class::<Summary>()
}
