//! S18, L1, L2: every request is answered once, and in time.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    PATIENCE_MS, SLACK_MS,
    columns::Row,
    commits::Foreign,
    finding::{At, Found},
    members::How,
    recent::Recent,
};

/// A request that waits for its answer, and what was known when it came.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ask {
    pub offset: i64,
    pub at_ms: Option<i64>,
    pub mono_ms: i64,
    pub group: Arc<str>,
    pub api: Box<str>,
    pub member: Arc<str>,
    pub instance: Option<Arc<str>>,
    pub generation: Option<i32>,
    pub session_timeout_ms: Option<i32>,
    pub before: Before,
}

/// What was known of a member when its request came.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Before {
    /// A newer generation that was answered before, and where.
    pub newer: Option<(i32, i64)>,
    /// How and where the member had gone.
    pub gone: Option<(How, i64)>,
    /// The partitions of a commit that belong to other members.
    pub foreign: Vec<Foreign>,
    /// Why a commit in a consumer group has to be refused, and where that is said.
    pub unfit: Option<(String, i64)>,
}

impl Ask {
    pub(crate) fn new(group: &Arc<str>, row: &Row<'_>, before: Before) -> Ask {
        Ask {
            offset: row.offset.unwrap_or_default(),
            at_ms: row.at_ms,
            mono_ms: row.mono_ms.unwrap_or_default(),
            group: Arc::clone(group),
            api: row.api.unwrap_or_default().into(),
            member: row.member.unwrap_or_default().into(),
            instance: row.instance.map(Arc::from),
            generation: row.generation,
            session_timeout_ms: row.session_timeout_ms,
            before,
        }
    }

    /// Where the request is.
    pub(crate) fn at(&self) -> At {
        let Ask { offset, at_ms, generation, .. } = *self;
        At { group: Some(Arc::clone(&self.group)), generation, offset, at_ms }
    }
}

/// A request that was answered.
#[derive(Debug, Deserialize, Serialize)]
struct Answered {
    group: Arc<str>,
    member: Arc<str>,
    api: Box<str>,
    asked_offset: i64,
    offset: i64,
    is_twice: bool,
}

/// The requests of a partition, by ticket.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Tickets {
    asks: HashMap<i64, Ask>,
    answered: Recent<i64, Answered>,
}

impl Tickets {
    pub(crate) fn ask(&mut self, ticket: i64, ask: Ask) {
        self.answered.remove(&ticket);
        self.asks.insert(ticket, ask);
    }

    /// Returns the groups of requests that wait.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.asks.values().map(|ask| &ask.group)
    }

    /// An answer came. Returns what was asked, unless it is answered already.
    pub(crate) fn answer(&mut self, row: &Row<'_>, found: &mut Found) -> Option<Ask> {
        let ticket = row.ticket.unwrap_or_default();
        let offset = row.offset.unwrap_or_default();
        let Some(ask) = self.asks.remove(&ticket) else {
            self.answer_again(ticket, row, found);
            return None;
        };
        let answered = Answered {
            group: Arc::clone(&ask.group),
            member: Arc::clone(&ask.member),
            api: ask.api.clone(),
            asked_offset: ask.offset,
            offset,
            is_twice: false,
        };
        self.answered.insert(ticket, answered, found.extent.tickets());
        Some(ask)
    }

    fn answer_again(&mut self, ticket: i64, row: &Row<'_>, found: &mut Found) {
        let Some(known) = self.answered.get_mut(&ticket).filter(|known| !known.is_twice) else { return };
        known.is_twice = true;
        let at = At {
            group: Some(Arc::clone(&known.group)),
            generation: row.generation,
            offset: row.offset.unwrap_or_default(),
            at_ms: row.at_ms,
        };
        let witness = format!("2 answers to the {} at {}", known.api, known.asked_offset);
        found.push(at.since(known.offset, "answered twice", vec![Arc::clone(&known.member)], witness));
    }

    /// Takes the requests that have no answer although `is_due`, in the order in which they came.
    pub(crate) fn take(&mut self, mut is_due: impl FnMut(&Ask) -> bool) -> Vec<Ask> {
        let mut due: Vec<i64> = self.asks.iter().filter(|(_, ask)| is_due(ask)).map(|(ticket, _)| *ticket).collect();
        due.sort_unstable();
        let mut asks: Vec<Ask> = due.into_iter().filter_map(|ticket| self.asks.remove(&ticket)).collect();
        asks.sort_by_key(|ask| ask.offset);
        asks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.asks.clear();
        self.answered.clear();
    }
}

/// A parked request was answered by `row`; `limit_ms`: how long a member may be waited for at most, `lived_ms`: when
/// the coordinator was there a second ago or before. A process that stands still does not see the time.
pub(crate) fn of_phase(at: &At, now_ms: i64, ask: &Ask, limit_ms: i64, lived_ms: Option<i64>, found: &mut Found) {
    let waited_ms = now_ms - ask.mono_ms;
    let was_told = lived_ms.is_some_and(|lived_ms| lived_ms >= ask.mono_ms + limit_ms);
    if waited_ms > limit_ms + if was_told { SLACK_MS } else { PATIENCE_MS } {
        let name = if &*ask.api == "JoinGroup" { "late phase" } else { "late sync" };
        let witness = format!("{} waited {waited_ms} ms", ask.api);
        found.push(at.since(ask.offset, name, vec![Arc::clone(&ask.member)], witness));
    }
}

/// A request has no answer; `last` is where the log ends for it.
pub(crate) fn of_silence(ask: &Ask, last: (i64, Option<i64>), found: &mut Found) {
    let (offset, at_ms) = last;
    let at = At { offset, at_ms, ..ask.at() };
    let witness = format!("the {} at {} has no answer", ask.api, ask.offset);
    found.push(at.since(ask.offset, "never answered", vec![Arc::clone(&ask.member)], witness));
}
