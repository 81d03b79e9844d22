//! What a group is doing and why it rebalanced: frozen classes, and the same in plain English.

use pyo3::prelude::*;
use rota_core::explain;

use crate::{plain::plain, values::Tuple};

plain! {
    /// One thing that a group waits for.
    Wait {
        /// What: one of the vocabulary's `waits`.
        what: String,
        /// For whom, or "".
        member_id: String,
        /// When the coordinator stops waiting for it, monotonic milliseconds.
        until_ms: u64,
    }
    methods {
        fn __str__(&self) -> String {
            format!("waiting {} (until {} ms)", phrase(&self.what, &short(&self.member_id)), self.until_ms)
        }
    }
}

plain! {
    /// One rebalance of a group.
    Rebalance {
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
    }
    methods {
        fn __str__(&self) -> String {
            let mut text = match self.to_generation {
                Some(to) => format!("generation {} to {to}: {}", self.from_generation, self.because()),
                None => format!("after generation {}: {}", self.from_generation, self.because()),
            };
            if let Some(settled_ms) = self.settled_ms {
                text.extend([" (settled after ", &seconds(settled_ms.saturating_sub(self.began_ms)), ")"]);
            }
            text
        }
    }
}

impl Rebalance {
    fn because(&self) -> String {
        let who = if self.member_id.is_empty() { "a member".to_owned() } else { short(&self.member_id) };
        let what = match self.cause.as_str() {
            "MemberJoined" => format!("{who} joined"),
            "MetadataChanged" => {
                format!("{who} rejoined with other metadata (subscription, owned partitions or protocols)")
            }
            "LeaderRejoined" => format!("the leader {who} rejoined"),
            "MemberLeft" => format!("{who} left"),
            "PendingLeft" => format!("pending {who} left"),
            "SessionExpired" => format!("{who} was silent for its session timeout"),
            "NewMemberExpired" => format!("new member {who} did not finish its first join in time"),
            "SyncExpired" => "members did not sync in time".to_owned(),
            "AssignmentNotStored" => "the assignment could not be stored".to_owned(),
            "StaticReplaced" => format!("a new process replaced the static member {who}"),
            "OverCapacity" => "the group was loaded with more members than it may have".to_owned(),
            "Requested" => "a test asked for it".to_owned(),
            other => format!("{other} of {who}"),
        };
        if self.reason.is_empty() { what } else { format!("{what} (\"{}\")", self.reason) }
    }
}

plain! {
    /// What a group is doing, whom it waits for, and why it rebalanced lately.
    Explanation {
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
        fn __str__(&self) -> String {
            let held = seconds(self.now_ms.saturating_sub(self.since_ms));
            let mut text = format!("{} for {held}", self.state);
            if self.waiting.0.is_empty() {
                text.extend([", generation ", &self.generation.to_string()]);
            } else {
                text += ": waiting ";
                text += &self.waits();
            }
            if let Some(rebalance) = self.rebalances.0.last() {
                text.extend(["; last rebalance: ", &rebalance.because()]);
            }
            text
        }
    }
}

/// How many members one sentence names.
const NAMED_MEMBERS: usize = 3;

impl Explanation {
    /// Members that are waited for in the same way and until the same moment share a phrase.
    fn waits(&self) -> String {
        let alike = |left: &Wait, right: &Wait| left.what == right.what && left.until_ms == right.until_ms;
        let mut phrases = Vec::new();
        for run in self.waiting.0.chunk_by(alike) {
            let mut who: Vec<String> = run.iter().take(NAMED_MEMBERS).map(|wait| short(&wait.member_id)).collect();
            if run.len() > NAMED_MEMBERS {
                who.push(format!("{} more", run.len() - NAMED_MEMBERS));
            }
            let until = match run[0].until_ms.checked_sub(self.now_ms) {
                _ if run[0].until_ms == u64::MAX => String::new(),
                Some(0) | None => " (overdue)".to_owned(),
                Some(left_ms) => format!(" (until {} from now)", seconds(left_ms)),
            };
            phrases.push(phrase(&run[0].what, &listed(&who)) + &until);
        }
        phrases.join(", ")
    }
}

/// `for X to rejoin` and its like.
fn phrase(what: &str, who: &str) -> String {
    match what {
        "InitialDelay" => "for the initial delay, so that more members can join".to_owned(),
        "Rejoin" => format!("for {who} to rejoin"),
        "Pending" => format!("for pending {who} to join"),
        "LeaderSync" => format!("for the leader {who} to send the plan"),
        "Sync" => format!("for {who} to sync"),
        "Append" => "for the log to make the group's record durable".to_owned(),
        other => format!("for {other} {who}"),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(who: &[String]) -> String {
    match who.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// A member id without most of its UUID: `consumer-3-1f0c8a2e…`.
pub fn short(member_id: &str) -> String {
    const UUID_CHARS: usize = 36;
    const KEPT: usize = 8;
    let uuid_at = member_id.len().checked_sub(UUID_CHARS).filter(|at| member_id.is_char_boundary(*at));
    match uuid_at {
        Some(at) if is_uuid(&member_id[at..]) => format!("{}…", &member_id[..at + KEPT]),
        _ => member_id.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn seconds(ms: u64) -> String {
    let tenths = ms / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
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
    Wait { what: what.to_owned(), member_id: member_id.to_owned(), until_ms: wait.until_ms }
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

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wait>()?;
    module.add_class::<Rebalance>()?;
    module.add_class::<Explanation>()
}
