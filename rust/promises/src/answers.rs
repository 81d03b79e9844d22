//! S1, S4, S9, S15, S34: the generations in the answers to the members of a group.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    columns::Row,
    finding::{At, Found},
    members::{How, Instant, Joined, Members},
    recent::Recent,
    relay::Plans,
    rounds::Settling,
    tickets::Ask,
    version::digest,
};

/// An answer to a JoinGroup that is no error.
pub(crate) struct Told<'a> {
    pub row: Row<'a>,
    pub ask: Ask,
}

impl Told<'_> {
    fn member(&self) -> &str {
        self.row.member.unwrap_or_default()
    }
}

/// What is remembered of the answers to a group's members.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Answers {
    /// The coordinator's incarnation and the group's life in it.
    life: (u64, u64),
    /// Records that a life begins or ends with.
    pub beginnings: u64,
    /// The greatest generation answered in this life, and where.
    pub greatest: Option<(i32, i64)>,
    /// The greatest generation answered or loaded in this life.
    newest: Option<i32>,
    leaders: Recent<i32, Leaders>,
    /// Generations with members that have been in the log.
    pub durable: Recent<i32, ()>,
    /// The members of the leader's last list, sorted.
    listed: Option<Vec<Arc<str>>>,
    pub members: Members,
    pub plans: Plans,
    pub settling: Settling,
    /// What a member may be waited for at most.
    pub wait_ms: i64,
}

/// The leaders of a generation by their answers: all their names, which are member ids and instance ids, and one member id
/// for each.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Leaders {
    who: Vec<Arc<str>>,
    members: Vec<Arc<str>>,
    first_offset: i64,
}

impl Answers {
    /// A member's timeouts.
    pub(crate) fn may_wait(&mut self, row: &Row<'_>) {
        for timeout_ms in [row.session_timeout_ms, row.rebalance_timeout_ms].into_iter().flatten() {
            self.wait_ms = self.wait_ms.max(timeout_ms.into());
        }
    }

    /// Forgets the answers of another life.
    pub(crate) fn live(&mut self, group: &Arc<str>, incarnation: u64, found: &mut Found) {
        let now = (incarnation, self.beginnings);
        if self.life != now {
            (self.life, self.greatest, self.newest) = (now, None, None);
            self.leaders.clear();
            self.settling.begin(group, found);
        }
    }

    /// A whole state has this member.
    pub(crate) fn held(&mut self, row: &Row<'_>, kept: usize) {
        self.may_wait(row);
        self.plans.gave(row.generation, row.member.unwrap_or_default(), digest(row.payload), kept);
        self.newest = self.newest.max(row.generation.or(Some(0)));
        self.members.held(row);
    }

    /// The answers of one entry to `JoinGroup` requests, and the list that its leader gets.
    pub(crate) fn of_joins(
        &mut self,
        group: &Arc<str>,
        joined: &[Told<'_>],
        listed: Option<Vec<&str>>,
        found: &mut Found,
    ) {
        of_one_round(group, joined, found);
        let newest = self.newest;
        for told in joined {
            self.of_join(group, told, newest, found);
        }
        let Some(listed) = listed else { return };
        let listed: HashSet<&str> = listed.into_iter().collect();
        for told in joined.iter().filter(|told| !listed.contains(told.member())) {
            let at = at_of(group, &told.row);
            let witness = format!("{} is not listed", told.member());
            found.push(at.finding("list is not the group", vec![told.member().into()], witness));
        }
        let offset = joined[0].row.offset.unwrap_or_default();
        let mut now: Vec<Arc<str>> = Vec::with_capacity(listed.len());
        for member in self.listed.take().unwrap_or_default() {
            if listed.contains(&*member) {
                now.push(member);
            } else {
                self.members.went(&member, How::NotListed, offset, found.extent.members());
            }
        }
        let known: HashSet<Arc<str>> = now.iter().cloned().collect();
        now.extend(listed.into_iter().filter(|member| !known.contains(*member)).map(Arc::from));
        now.sort();
        self.listed = Some(now);
    }

    fn of_join(&mut self, group: &Arc<str>, told: &Told<'_>, newest: Option<i32>, found: &mut Found) {
        let (row, ask) = (&told.row, &told.ask);
        let (generation, at) = (row.generation.unwrap_or_default(), at_of(group, row));
        match self.greatest {
            Some((greatest, offset)) if generation < greatest => {
                let witness = format!("generation {generation} after {greatest}");
                found.push(at.since(offset, "generation told back", vec![told.member().into()], witness));
            }
            Some((greatest, _)) if generation == greatest => {}
            _ => self.greatest = Some((generation, at.offset)),
        }
        if row.leader == row.member {
            self.leads(generation, told, &at, found);
        }
        let joined = Joined {
            member: told.member(),
            asked_as: &ask.member,
            instance: ask.instance.as_deref(),
            session_timeout_ms: ask.session_timeout_ms,
            asked: Instant { mono_ms: ask.mono_ms, offset: ask.offset },
            told: Instant::of_row(row),
            begins: newest.is_none_or(|newest| generation > newest),
        };
        self.members.joined(&joined, found.extent.members());
        self.newest = self.newest.max(Some(generation));
        self.settling.of_round(group, &at, found);
    }

    fn leads(&mut self, generation: i32, told: &Told<'_>, at: &At, found: &mut Found) {
        if self.leaders.get(&generation).is_none() {
            let first = Leaders { first_offset: at.offset, ..Leaders::default() };
            self.leaders.insert(generation, first, found.extent.generations());
        }
        let Some(leaders) = self.leaders.get_mut(&generation) else { return };
        // A replacement has another member id. A static member may join again without its instance id.
        let mut is_known = false;
        for name in [Some(told.member()), told.ask.instance.as_deref()].into_iter().flatten() {
            if leaders.who.iter().any(|known| **known == *name) {
                is_known = true;
            } else {
                leaders.who.push(name.into());
            }
        }
        if is_known {
            return;
        }
        leaders.members.push(told.member().into());
        if leaders.members.len() == 2 {
            let witness = String::from("2 leaders");
            found.push(at.since(leaders.first_offset, "two leaders", leaders.members.clone(), witness));
        }
    }
}

/// The answers of one entry agree.
fn of_one_round(group: &Arc<str>, joined: &[Told<'_>], found: &mut Found) {
    let generations: BTreeSet<_> = joined.iter().filter_map(|told| told.row.generation).collect();
    let protocols: BTreeSet<_> = joined.iter().filter_map(|told| told.row.protocol).collect();
    let leaders: BTreeSet<_> = joined.iter().filter_map(|told| told.row.leader).collect();
    let counts = [generations.len(), protocols.len(), leaders.len()];
    if counts.into_iter().max() > Some(1) {
        let mut at = at_of(group, &joined[0].row);
        at.generation = generations.last().copied();
        let members = joined.iter().map(|told| told.member().into()).collect();
        let [generations, protocols, leaders] = counts;
        let witness = format!("{generations} generations, {protocols} protocols, {leaders} leaders");
        found.push(at.finding("different answers", members, witness));
    }
}

/// A commit was accepted; `newer` is a generation that had been answered before, and where.
pub(crate) fn of_old_generation(at: &At, member: &str, newer: Option<(i32, i64)>, found: &mut Found) {
    if let Some((greatest, offset)) = newer {
        let witness = format!("generation {} after {greatest}", at.generation.unwrap_or_default());
        found.push(at.since(offset, "commit of an old generation", vec![member.into()], witness));
    }
}

/// Where a row of a group is.
pub(crate) fn at_of(group: &Arc<str>, row: &Row<'_>) -> At {
    At {
        group: Some(Arc::clone(group)),
        generation: row.generation,
        offset: row.offset.unwrap_or_default(),
        at_ms: row.at_ms,
    }
}
