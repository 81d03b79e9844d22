//! The rows of a journal, entry after entry: to which promise each of them matters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    PATIENCE_MS, SLACK_MS,
    answers::{self, Told, at_of},
    columns::Row,
    durability::{self, Append, Appends},
    fencing::{self, TopicIds},
    finding::{At, Extent, Found},
    groups::Groups,
    incarnation::{Incarnation, Order},
    members::{self, How, Instant},
    tickets::{self, Ask, Before, Tickets},
    version::digest,
};

const NONE: Option<&str> = Some("NONE");

/// What is remembered of a journal's partition, apart from its groups.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Journal {
    order: Order,
    incarnation: Incarnation,
    tickets: Tickets,
    appends: Appends,
    topics: TopicIds,
}

/// Whether the rows tell of members of the classic protocol.
fn is_of_members(kind: &str) -> bool {
    matches!(kind, "held" | "plan" | "leaver" | "timer")
}

/// Whether a request that is answered at once has an answer with more than an error in it.
fn says_more(api: &str) -> bool {
    matches!(api, "JoinGroup" | "SyncGroup")
}

impl Journal {
    /// Returns the groups that requests and appends are about which have not ended.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.tickets.groups().chain(self.appends.groups())
    }

    /// Entries are missing that the journal does not count: retention removed them, or they cannot be read. What was under
    /// way may have ended.
    pub(crate) fn miss(&mut self) {
        self.order = Order::default();
        self.tickets.clear();
        self.appends.clear();
        self.incarnation.miss();
    }

    /// The rows of one entry.
    pub(crate) fn of_entry(&mut self, rows: &[Row<'_>], groups: &mut Groups, found: &mut Found) {
        let first = &rows[0];
        let at = At {
            group: first.group.map(Arc::from),
            generation: None,
            offset: first.offset.unwrap_or_default(),
            at_ms: first.at_ms,
        };
        self.order.of_entry(&at, first, found);
        if first.kind == Some("began") {
            self.end(groups, found);
            self.incarnation.begin(first);
        }
        if first.kind == Some("gap") {
            self.appends.clear();
        }
        self.incarnation.tick(first);
        let mut told: Vec<Told<'_>> = Vec::new();
        for row in rows {
            let kind = row.kind.unwrap_or_default();
            if let Some(name) = row.group {
                let (_, group) = groups.get(name);
                group.is_newer |= kind.starts_with("consumer");
                if group.is_newer && is_of_members(kind) {
                    continue;
                }
            }
            match (kind, row.group) {
                ("loaded" | "snapshot" | "unloaded" | "gap", _) => self.incarnation.mark(kind, at.offset),
                ("held" | "plan" | "leaver" | "timer", Some(name)) => self.of_member(row, name, groups, found),
                ("request", Some(name)) => self.of_request(row, name, rows, groups, found),
                ("topics_changed", _) => self.topics.of_row(row),
                ("append", _) => self.of_append(row, rows, groups),
                ("appended", _) => self.of_appended(row, groups, found),
                ("answer", _) => told.extend(self.of_answer(row, groups, found)),
                _ => {}
            }
        }
        self.of_joins(told, rows, groups, found);
        let is_over = first.kind == Some("unloaded");
        if is_over || first.kind == Some("request") {
            let asks = self.tickets.take(|ask| is_over || (ask.offset == at.offset && &*ask.api == "Heartbeat"));
            self.unanswered(&asks, found);
        }
    }

    fn of_member(&mut self, row: &Row<'_>, name: &str, groups: &mut Groups, found: &mut Found) {
        let (name, group) = groups.get(name);
        let answers = &mut group.answers;
        let member = row.member.unwrap_or_default();
        match row.kind {
            Some("held") => {
                answers.live(name, self.incarnation.number, found);
                answers.held(row, found.extent.generations());
            }
            Some("plan") if row.error.is_none() || row.error == NONE => {
                answers.plans.gave(row.generation, member, digest(row.payload), found.extent.generations());
            }
            Some("leaver") if row.error == NONE && !member.is_empty() => {
                answers.members.went(member, How::Left, row.offset.unwrap_or_default(), found.extent.members());
            }
            Some("timer") if row.timer == Some("Session") => {
                answers.members.of_expiry(&at_of(name, row), row.mono_ms.unwrap_or_default(), found);
            }
            _ => {}
        }
    }

    // ---- requests and answers

    fn of_request(&mut self, row: &Row<'_>, name: &str, rows: &[Row<'_>], groups: &mut Groups, found: &mut Found) {
        let (name, group) = groups.get(name);
        let (api, member) = (row.api.unwrap_or_default(), row.member.unwrap_or_default());
        let (at, is_accepted) = (at_of(name, row), row.error == NONE);
        let answers = &mut group.answers;
        answers.live(name, self.incarnation.number, found);
        if api == "JoinGroup" {
            answers.may_wait(row);
        }
        if is_accepted {
            self.incarnation.of_success(&at, row, found);
        }
        if group.is_newer {
            let in_flight = self.appends.of_consumers(name);
            let states = fencing::states(member, group.consumers.holders.holding(member), in_flight);
            let unfit = if api == "OffsetCommit" { fencing::unfit(&states, rows, &self.topics) } else { None };
            let before = Before { unfit, ..Before::default() };
            if is_accepted {
                fencing::of_unfit(&at, &member.into(), before.unfit.as_ref(), found);
            }
            return self.wait_for_answer(row, name, before);
        }
        let is_old = |greatest: i32| row.generation.is_some_and(|generation| (0..greatest).contains(&generation));
        // A group without members accepts a commit without a generation of any client (docs/protocol.md §10.1).
        let is_anyones = api == "OffsetCommit" && row.generation.is_some_and(|generation| generation < 0);
        let mut before = Before {
            newer: answers.greatest.filter(|(greatest, _)| is_old(*greatest)),
            gone: answers.members.gone(member).filter(|_| !is_anyones),
            ..Before::default()
        };
        if api == "OffsetCommit" && !member.is_empty() {
            before.foreign = group.owners.foreign(row.generation.unwrap_or(-1), member, rows);
        }
        let now = Instant::of_row(row);
        let heard = answers.members.hears(member, now, i32::from(says_more(api)));
        let is_blind = api == "Heartbeat" && self.incarnation.is_loading();
        if is_accepted && api == "Heartbeat" && !self.incarnation.has_gaps && !is_blind {
            let heard = heard.filter(|(before, _)| before.offset >= self.incarnation.first_offset);
            let lived_ms = self.incarnation.lived_ms(now.mono_ms);
            members::of_silence(&at, member, now.mono_ms, heard, lived_ms, found);
        }
        if is_accepted && api == "OffsetCommit" {
            durability::of_commit(&at, member, rows, found);
        }
        if is_accepted && matches!(api, "Heartbeat" | "OffsetCommit") && !member.is_empty() && !is_blind {
            of_acceptance(&at, api, member, &before, found);
            if api == "Heartbeat" {
                answers.members.arm(member, now);
            }
        }
        self.wait_for_answer(row, name, before);
    }

    fn wait_for_answer(&mut self, row: &Row<'_>, group: &Arc<str>, before: Before) {
        if row.error.is_none() || says_more(row.api.unwrap_or_default()) {
            self.tickets.ask(row.ticket.unwrap_or_default(), Ask::new(group, row, before));
        }
    }

    /// Returns the answer if it is that of a JoinGroup and no error.
    fn of_answer<'a>(&mut self, row: &Row<'a>, groups: &mut Groups, found: &mut Found) -> Option<Told<'a>> {
        let ask = self.tickets.answer(row, found)?;
        let (name, group) = groups.get(&ask.group);
        if group.is_newer {
            if row.error == NONE {
                fencing::of_unfit(&ask.at(), &ask.member, ask.before.unfit.as_ref(), found);
            }
            return None;
        }
        let (api, answers) = (row.api.unwrap_or_default(), &mut group.answers);
        let (at, now) = (at_of(name, row), Instant::of_row(row));
        answers.members.hears(&ask.member, now, -i32::from(says_more(api)));
        if says_more(api) {
            let limit_ms = answers.wait_ms.max(self.incarnation.delay_ms);
            tickets::of_phase(&at, now.mono_ms, &ask, limit_ms, self.incarnation.lived_ms(now.mono_ms), found);
        }
        if row.error != NONE {
            return None;
        }
        if api == "SyncGroup" {
            let at = At { generation: ask.generation, ..at };
            answers.settling.settle(name, ask.generation.unwrap_or_default(), found);
            answers.plans.of_sync(&at, &ask.member, row.payload, found);
            self.appends.told(&at, &ask.member);
        }
        if matches!(api, "OffsetCommit" | "SyncGroup") && !ask.member.is_empty() {
            of_acceptance(&ask.at(), api, &ask.member, &ask.before, found);
        }
        (api == "JoinGroup").then_some(Told { row: *row, ask })
    }

    fn of_joins(&mut self, mut told: Vec<Told<'_>>, rows: &[Row<'_>], groups: &mut Groups, found: &mut Found) {
        while let Some(first) = told.first() {
            let name = first.row.group.unwrap_or_default();
            let (joined, others) = told.into_iter().partition(|told| told.row.group.unwrap_or_default() == name);
            told = others;
            let joined: Vec<Told<'_>> = joined;
            let (name, group) = groups.get(name);
            if group.is_newer {
                continue;
            }
            let listed: Vec<&str> = rows
                .iter()
                .filter(|row| row.kind == Some("listed") && row.group == Some(name))
                .map(|row| row.member.unwrap_or_default())
                .collect();
            group.answers.live(name, self.incarnation.number, found);
            let listed = Some(listed).filter(|listed| !listed.is_empty());
            group.answers.of_joins(name, &joined, listed, found);
            group.storm.of_round(name, &at_of(name, &joined[0].row), found);
        }
    }

    /// These requests have no answer.
    fn unanswered(&self, asks: &[Ask], found: &mut Found) {
        for ask in asks.iter().filter(|_| !self.incarnation.has_gaps) {
            tickets::of_silence(ask, self.incarnation.last, found);
        }
    }

    /// Requests that have waited for too long; they are not looked at again.
    fn overdue(&mut self, now_ms: i64, groups: &mut Groups, found: &mut Found) {
        if self.tickets.is_empty() {
            return;
        }
        let now = &self.incarnation;
        let asks = self.tickets.take(|ask| {
            let wait_ms = groups.get(&ask.group).1.answers.wait_ms.max(now.delay_ms).max(PATIENCE_MS);
            now.unloaded_offset.is_some() || now_ms > ask.mono_ms + wait_ms + SLACK_MS
        });
        self.unanswered(&asks, found);
    }

    /// Some rows end here.
    pub(crate) fn pause(&mut self, groups: &mut Groups, found: &mut Found) {
        if found.extent == Extent::Growing {
            self.overdue(self.incarnation.now_ms(), groups, found);
        }
    }

    /// The incarnation or the log ends.
    pub(crate) fn end(&mut self, groups: &mut Groups, found: &mut Found) {
        self.overdue(self.incarnation.last_mono_ms, groups, found);
        self.tickets.clear();
        self.appends.clear();
    }

    // ---- appends

    fn of_append(&mut self, row: &Row<'_>, rows: &[Row<'_>], groups: &mut Groups) {
        let append = self.appends.begin(row, rows);
        let mut newer = Vec::new();
        for name in append.groups() {
            if groups.get(name).1.is_newer && !newer.contains(name) {
                newer.push(Arc::clone(name));
            }
        }
        for version in &append.versions {
            let (_, group) = groups.get(&version.group);
            let begins = match version.generation {
                None => true,
                Some(generation) => generation == 0 && group.may_begin(),
            };
            group.answers.beginnings += u64::from(begins);
        }
        append.of_newer = newer;
        for row in rows.iter().filter(|row| row.kind == Some("member")) {
            if let Some(name) = row.group {
                groups.get(name).1.answers.may_wait(row);
            }
        }
    }

    fn of_appended(&mut self, row: &Row<'_>, groups: &mut Groups, found: &mut Found) {
        let Some(append) = self.appends.end(row).filter(|_| row.error == NONE) else { return };
        of_durable(&append, groups, found);
        let Append { generation: Some(generation), group: Some(name), of_newer, .. } = &append else { return };
        if of_newer.contains(name) {
            return;
        }
        let durable = &mut groups.get(name).1.answers.durable;
        if durable.get(generation).is_none() {
            append.of_told(row, found);
        }
        durable.insert(*generation, (), found.extent.generations());
    }
}

/// The records of an append are in the log.
fn of_durable(append: &Append, groups: &mut Groups, found: &mut Found) {
    for commit in &append.commits {
        groups.get(&commit.group).1.committed.of_commit(commit, found);
    }
    for ended in append.versions.iter().filter(|version| version.generation.is_none()) {
        groups.get(&ended.group).1.consumers.of_classic_end();
    }
    for record in &append.consumers {
        groups.get(&record.group).1.consumers.of_record(record, found);
    }
    for version in append.versions.iter().filter(|version| !append.of_newer.contains(&version.group)) {
        let (_, group) = groups.get(&version.group);
        group.of_version(version, true, found);
        for member in &version.members {
            group.answers.plans.gave(version.generation, &member.name, member.share, found.extent.generations());
        }
    }
}

/// A Heartbeat, SyncGroup or OffsetCommit of a member was answered NONE.
fn of_acceptance(at: &At, api: &str, member: &str, before: &Before, found: &mut Found) {
    if let Some(gone) = before.gone {
        members::of_departed(at, api, member, gone, found);
    }
    if api == "OffsetCommit" {
        answers::of_old_generation(at, member, before.newer, found);
        crate::commits::of_foreign(at, member, &before.foreign, found);
    }
}
