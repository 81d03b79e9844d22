//! What a journal shows of a group's members: who has gone (S14, S15, S17), and whose session ends when (S20, L3).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    SLACK_MS,
    columns::Row,
    finding::{At, Found},
};

/// How a member went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum How {
    Left,
    Replaced,
    NotListed,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Left => "left",
            How::Replaced => "replaced",
            How::NotListed => "not listed",
        }
    }
}

/// When and where something was, on the monotonic clock.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Instant {
    pub mono_ms: i64,
    pub offset: i64,
}

impl Instant {
    pub(crate) fn of_row(row: &Row<'_>) -> Instant {
        Instant { mono_ms: row.mono_ms.unwrap_or_default(), offset: row.offset.unwrap_or_default() }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Member {
    gone: Option<(How, i64)>,
    session: Option<Session>,
    /// When it last sent a request or got an answer.
    heard: Option<Instant>,
    /// How many of its requests are parked.
    parked: u32,
    timeout_ms: Option<i32>,
    /// Whether it got a successful answer, or a coordinator loaded it.
    was_told: bool,
    /// The shortest session timeout since it was last known for certain; of a static member its instance's counts.
    shortest_ms: Option<i32>,
}

/// A session: its timeout, and when it was last armed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Session {
    timeout_ms: Option<i32>,
    armed: Option<Instant>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Instance {
    /// The member answered last.
    holder: Option<Arc<str>>,
    shortest_ms: Option<i32>,
}

/// The members of a group as its answers show them.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Members {
    known: HashMap<Arc<str>, Member>,
    instances: HashMap<Arc<str>, Instance>,
    /// Members in the order in which they went.
    departed: VecDeque<Arc<str>>,
    /// A member whose session had ended when another one's did.
    expired: Option<Arc<str>>,
}

/// An answer to a JoinGroup, and what was asked.
pub(crate) struct Joined<'a> {
    pub member: &'a str,
    /// As in the request; empty: a new member.
    pub asked_as: &'a str,
    pub instance: Option<&'a str>,
    pub session_timeout_ms: Option<i32>,
    pub asked: Instant,
    pub told: Instant,
    /// Whether the answer has a generation that no member knew.
    pub begins: bool,
}

impl Members {
    fn member(&mut self, name: &str) -> &mut Member {
        if !self.known.contains_key(name) {
            self.known.insert(name.into(), Member::default());
        }
        self.known.get_mut(name).expect("it was inserted")
    }

    pub(crate) fn was_told(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|member| member.was_told)
    }

    pub(crate) fn gone(&self, name: &str) -> Option<(How, i64)> {
        self.known.get(name)?.gone
    }

    /// A member left, was replaced, or is not listed any more.
    pub(crate) fn went(&mut self, name: &str, how: How, offset: i64, kept: usize) {
        let member = self.member(name);
        member.session = None;
        match member.gone {
            Some((known, _)) if how != How::Replaced || known == How::Replaced => return,
            before => {
                member.gone = Some((how, offset));
                if before.is_some() {
                    return;
                }
            }
        }
        self.departed.push_back(name.into());
        while self.departed.len() > kept {
            let Some(oldest) = self.departed.pop_front() else { break };
            if self.known.get(&oldest).is_some_and(|member| member.gone.is_some()) {
                self.known.remove(&oldest);
            }
        }
    }

    /// A whole state has this member.
    pub(crate) fn held(&mut self, row: &Row<'_>) {
        let name = row.member.unwrap_or_default();
        let now = Instant::of_row(row);
        let is_loaded = row.note == Some("loaded");
        let timeout_ms = row.session_timeout_ms;
        let member = self.member(name);
        member.gone = None;
        (member.heard, member.parked) = (Some(now), 0);
        member.timeout_ms = timeout_ms.or(member.timeout_ms);
        member.was_told |= is_loaded && row.instance.is_some();
        let session = member.session.get_or_insert_default();
        session.timeout_ms = timeout_ms.or(session.timeout_ms);
        if is_loaded {
            session.armed = Some(now);
        }
        self.shortest(row.instance, name, timeout_ms, true);
    }

    /// The shortest session timeout that a member may have.
    fn shortest(&mut self, instance: Option<&str>, name: &str, asked_ms: Option<i32>, is_certain: bool) -> Option<i32> {
        let shortest_ms = match instance {
            None => &mut self.member(name).shortest_ms,
            Some(instance) => &mut self.instance(instance).shortest_ms,
        };
        let known_ms = shortest_ms.filter(|_| !is_certain);
        *shortest_ms = known_ms.into_iter().chain(asked_ms).min();
        *shortest_ms
    }

    fn instance(&mut self, instance: &str) -> &mut Instance {
        if !self.instances.contains_key(instance) {
            self.instances.insert(instance.into(), Instance::default());
        }
        self.instances.get_mut(instance).expect("it was inserted")
    }

    /// A JoinGroup was answered. A completed join phase arms the session (docs/protocol.md §7.2): its generation is
    /// new. An answer with a known one changes nothing; a static replacement has its predecessor's session, from its
    /// request on.
    pub(crate) fn joined(&mut self, joined: &Joined<'_>, kept: usize) {
        if let Some(instance) = joined.instance {
            let before = self.instance(instance).holder.replace(joined.member.into());
            if let Some(before) = before.filter(|before| **before != *joined.member) {
                self.went(&before, How::Replaced, joined.told.offset, kept);
            }
        }
        let asked_ms = joined.session_timeout_ms;
        let shortest_ms = self.shortest(joined.instance, joined.member, asked_ms, joined.begins);
        let member = self.member(joined.member);
        member.was_told |= joined.instance.is_some();
        (member.heard, member.parked) = (Some(joined.told), 0);
        member.timeout_ms = asked_ms.or(member.timeout_ms);
        if member.gone.is_some() {
            return;
        }
        let session = member.session.get_or_insert_default();
        let timeout_ms = if joined.begins { asked_ms } else { shortest_ms };
        session.timeout_ms = timeout_ms.or(session.timeout_ms);
        if joined.begins {
            session.armed = Some(joined.told);
        } else if joined.asked_as.is_empty() {
            session.armed = Some(joined.asked);
        }
    }

    /// A member sends a request or gets an answer. Returns when the previous one was, unless one is parked.
    pub(crate) fn hears(&mut self, name: &str, now: Instant, parked: i32) -> Option<(Instant, Option<i32>)> {
        let member = self.known.get_mut(name)?;
        let before = member.heard.replace(now);
        member.parked = member.parked.saturating_add_signed(parked);
        Some((before?, member.timeout_ms)).filter(|_| member.parked == 0)
    }

    /// A Heartbeat of a member was answered NONE.
    pub(crate) fn arm(&mut self, name: &str, now: Instant) {
        if let Some(session) = self.known.get_mut(name).and_then(|member| member.session.as_mut()) {
            session.armed = Some(now);
        }
    }

    /// A session ended.
    pub(crate) fn of_expiry(&mut self, at: &At, now_ms: i64, found: &mut Found) {
        let left_ms = |session: &Session| match (session.armed, session.timeout_ms) {
            (Some(armed), Some(timeout_ms)) => armed.mono_ms + i64::from(timeout_ms) - now_ms,
            _ => -1,
        };
        let has_ended = |member: &Member| member.session.as_ref().is_some_and(|session| left_ms(session) <= 0);
        if self.expired.as_ref().and_then(|name| self.known.get(name)).is_some_and(has_ended) {
            return;
        }
        let mut sessions = Vec::new();
        for (name, member) in &self.known {
            if has_ended(member) {
                self.expired = Some(Arc::clone(name));
                return;
            }
            sessions.extend(member.session.map(|session| (name, session)));
        }
        let Some(next_ms) = sessions.iter().map(|(_, session)| left_ms(session)).min() else { return };
        let armed = sessions.iter().filter_map(|(_, session)| session.armed).map(|armed| armed.offset).max();
        let members = sessions.iter().map(|(name, _)| Arc::clone(name)).collect();
        let witness = format!("the next session ends in {next_ms} ms");
        found.push(at.since(armed.unwrap_or(at.offset), "early expiry", members, witness));
    }
}

/// A Heartbeat is answered NONE; `lived_ms`: when the coordinator was there a second ago or before.
pub(crate) fn of_silence(
    at: &At,
    member: &str,
    now_ms: i64,
    before: Option<(Instant, Option<i32>)>,
    lived_ms: Option<i64>,
    found: &mut Found,
) {
    let (Some((before, Some(timeout_ms))), Some(lived_ms)) = (before, lived_ms) else { return };
    let (silent_ms, timeout_ms) = (now_ms - before.mono_ms, i64::from(timeout_ms));
    if silent_ms > timeout_ms + SLACK_MS && lived_ms >= before.mono_ms + timeout_ms {
        let witness = format!("silent for {silent_ms} ms, its session ends after {timeout_ms}");
        found.push(at.since(before.offset, "silent and still there", vec![member.into()], witness));
    }
}

/// A request of a member that had gone was answered NONE.
pub(crate) fn of_departed(at: &At, api: &str, member: &str, (how, offset): (How, i64), found: &mut Found) {
    let name = match how {
        How::Replaced => "replaced and not fenced",
        _ if api == "OffsetCommit" => "commit of a departed member",
        _ => "answer to a departed member",
    };
    found.push(at.since(offset, name, vec![member.into()], format!("{} at offset {offset}", how.name())));
}
