//! What has to hold across a step, each under its id. What one state can show is `rota_core::invariants`' affair.

use std::collections::BTreeMap;

use rota_core::{
    Coordinator, ErrorCode, LogEntry, Projection, Record, State, Ticket, projection::ProjectedMember,
    records::MemberValue,
};

use crate::{
    explore::{
        bounds::{Bounds, REBALANCE, SESSION},
        canonical::Names,
    },
    step::{Body, REBALANCES_MS, SESSIONS_MS, Sender, Step},
    world::{Effects, Success, Text, World, entropy},
};

/// A state, and what it is called by.
pub struct Place<'a> {
    /// The state.
    pub world: &'a World,
    /// What came up in it.
    pub names: &'a Names,
    /// Of the whole state.
    pub fingerprint: u64,
}

/// A step that was taken.
pub struct Taken<'a> {
    /// Before.
    pub before: &'a Place<'a>,
    /// After.
    pub after: &'a Place<'a>,
    /// What happened.
    pub step: &'a Step,
    /// The result.
    pub effects: &'a Effects,
    /// Within which bounds.
    pub bounds: &'a Bounds,
}

/// `None`: it says nothing about this step. `Some(Err)`: what is broken.
type Verdict = Option<Result<(), String>>;
type Check = fn(&Taken<'_>) -> Verdict;

/// Every check of a step, by the id of its invariant.
pub const CHECKS: [(&str, Check); 20] = [
    ("S1", s1_one_leader),
    ("S2", s2_leader_installs_once),
    ("S4", s4_generations_grow),
    ("S8", s8_join_barrier),
    ("S9", s9_told_what_is),
    ("S11", s11_relayed),
    ("S14", s14_fenced_noop),
    ("S14", s14_other_generations_are_fenced),
    ("S15", s15_commit_fenced),
    ("S17", s17_replaced_is_fenced),
    ("S18", s18_answers_conserved),
    ("S20", s20_no_early_expiry),
    ("S22", s22_leader_is_loaded),
    ("S26", s26_durable_before_told),
    ("S29", s29_no_resurrection),
    ("S30", s30_heartbeats_keep_alive),
    ("L1", l1_join_phase_ends),
    ("L2", l2_sync_ends),
    ("L3", l3_silent_members_go),
    ("L5", l5_members_hear_of_a_rebalance),
];

/// Checks of a state in which nothing is on its way to the log.
pub const OF_STATES: [&str; 3] = ["S22", "S33", "L7"];

const NEW_MEMBER_MS: u64 = 300_000;

#[expect(clippy::unnecessary_wraps, reason = "a check returns what this returns")]
fn holds(holds: bool, detail: impl FnOnce() -> String) -> Verdict {
    Some(if holds { Ok(()) } else { Err(detail()) })
}

fn every(mut all: impl Iterator<Item = Result<(), String>>) -> Verdict {
    let first = all.next()?;
    Some(first.and_then(|()| all.collect()))
}

impl Taken<'_> {
    fn views(&self) -> Option<(&Projection, &Projection)> {
        if matches!(self.step, Step::Reload { .. }) {
            return None;
        }
        Some((self.before.world.views[0].as_ref()?, self.after.world.views[0].as_ref()?))
    }

    /// The ticket of the request that this step is.
    fn ticket(&self) -> Option<Ticket> {
        matches!(self.step, Step::Request { .. }).then(|| Ticket(self.after.world.tickets - 1))
    }

    fn ask(&self) -> Option<&Body> {
        match self.step {
            Step::Request { ask, .. } => Some(ask),
            _ => None,
        }
    }

    /// The error of the answer that the request got at once.
    fn answered(&self) -> Option<ErrorCode> {
        let ticket = self.ticket()?;
        self.effects.answers.iter().find(|(other, _, _)| *other == ticket).map(|(_, _, error)| *error)
    }

    fn joined(&self) -> impl Iterator<Item = &Success> {
        let told = self.effects.told.iter().flatten();
        told.filter(|(_, told)| matches!(told, Success::Joined { .. })).map(|(_, told)| told)
    }

    /// Who asked with this ticket.
    fn asker(&self, ticket: Ticket) -> Option<&str> {
        let parked = self.before.names.waiting.iter().find(|(other, _)| *other == ticket);
        if let Some((_, member)) = parked {
            return member.as_deref();
        }
        match self.ask() {
            Some(Body::Sync { who: Sender::Minted(seed), .. }) => {
                self.before.world.ids.get(seed).map(std::convert::AsRef::as_ref)
            }
            _ => None,
        }
    }
}

/// The newest record of each key that the log has.
pub fn newest(world: &World) -> BTreeMap<Vec<u8>, &Record> {
    world.log.values().flat_map(|batch| &**batch).map(|record| (record.key_bytes(), record)).collect()
}

fn group_in_log(world: &World) -> Option<&rota_core::records::GroupValue> {
    let mut groups = world.log.values().flat_map(|batch| &**batch).filter_map(|record| match record {
        Record::Group { value, .. } => Some(value.as_ref()),
        _ => None,
    });
    groups.next_back().flatten()
}

fn s1_one_leader(taken: &Taken<'_>) -> Verdict {
    let (before, after) = taken.views()?;
    let settled = |view: &Projection| matches!(view.state, State::CompletingRebalance | State::Stable);
    if !settled(before) || !settled(after) || before.generation != after.generation {
        return None;
    }
    let instance = |view: &Projection| {
        let leader = view.members.iter().find(|member| Some(&member.member_id) == view.leader.as_ref());
        leader.and_then(|leader| leader.instance_id.clone())
    };
    let one = before.leader == after.leader
        || instance(before).is_some() && instance(before) == instance(after)
        || before.leader.as_ref().is_some_and(|leader| after.members.iter().all(|member| member.member_id != *leader));
    holds(one && before.protocol_name == after.protocol_name, || {
        format!("generation {} was led by {:?}, then by {:?}", after.generation, before.leader, after.leader)
    })
}

/// A plan goes to the log once for each generation, and only the leader's does.
fn s2_leader_installs_once(taken: &Taken<'_>) -> Verdict {
    let Some(Body::Sync { who, .. }) = taken.ask() else { return None };
    let before = taken.before.world.views[0].as_ref().filter(|view| view.state == State::CompletingRebalance)?;
    if taken.after.world.in_flight.len() <= taken.before.world.in_flight.len() {
        return None;
    }
    let id = taken.before.world.id_of(*who);
    let is_planned = taken.before.world.in_flight.iter().flat_map(|(_, batch)| &**batch).any(|record| {
        matches!(record, Record::Group { value: Some(value), .. }
            if value.generation == before.generation && !value.members.is_empty())
    });
    holds(before.leader.as_deref() == Some(&*id) && !is_planned, || {
        format!("a plan of `{id}` goes to the log, the leader is {:?}, a plan on its way: {is_planned}", before.leader)
    })
}

fn s4_generations_grow(taken: &Taken<'_>) -> Verdict {
    let (before, after) = taken.views()?;
    let completed =
        before.state == State::PreparingRebalance && matches!(after.state, State::CompletingRebalance | State::Empty);
    // Another life of the group: a join waited for the end of the last one (§12.3), or the end of an append dissolves a
    // group whose record was refused and brings another one with its offsets (§4.10).
    let another_life = before.deleting.is_some() && before.deleting != after.deleting
        || after.generation == 0 && after.members.is_empty();
    holds(another_life || after.generation >= before.generation + i32::from(completed), || {
        format!("generation {} after {}", after.generation, before.generation)
    })
}

/// A join phase ends when everybody is there, or at its deadline; and only dynamic members that are absent are dropped.
fn s8_join_barrier(taken: &Taken<'_>) -> Verdict {
    let (before, after) = taken.views()?;
    if before.state != State::PreparingRebalance || after.state != State::CompletingRebalance {
        return None;
    }
    let now_ms = taken.after.world.now.mono_ms;
    let over = before.timers.iter().any(|(_, deadline_ms)| *deadline_ms <= now_ms);
    let dropped = before.members.iter().filter(|old| !after.members.iter().any(|new| new.member_id == old.member_id));
    let replaced = |instance: &Option<Text>| {
        instance.is_some() && after.members.iter().any(|member| member.instance_id == *instance)
    };
    let gone: Vec<_> = dropped.filter(|old| !replaced(&old.instance_id)).collect();
    let left =
        matches!(taken.ask(), Some(Body::Leave { .. })) || taken.answered() == Some(ErrorCode::GroupMaxSizeReached);
    let ended = |deadline_ms: Option<u64>| deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
    let held = before.timers.is_empty();
    let unjust = gone.iter().find(|member| {
        !left && !ended(member.deadline_ms) && (!(over || held) || member.awaits_join || member.instance_id.is_some())
    });
    let told = taken.joined().count();
    holds(unjust.is_none() && told > 0, || {
        format!(
            "{:?} was dropped by the end of a join phase that answered {told}",
            unjust.map(|member| &member.member_id)
        )
    })
}

/// Answers about a generation agree with the group, and only the leader gets the list of members.
fn s9_told_what_is(taken: &Taken<'_>) -> Verdict {
    let after = taken.after.world.views[0].as_ref()?;
    every(taken.joined().map(|told| {
        let Success::Joined { member_id, generation, leader, protocol, listed, .. } = told else { return Ok(()) };
        let is_leader = Some(&**leader) == after.leader.as_deref();
        let older_client = after.state == State::Stable && listed.is_empty();
        let listed_right = listed.is_empty() && member_id != leader
            || member_id == leader
                && listed.iter().map(|id| &**id).eq(after.members.iter().map(|member| &*member.member_id))
            || older_client;
        let fits = *generation == after.generation
            && (is_leader || older_client)
            && Some(&**protocol) == after.protocol_name.as_deref()
            && after.members.iter().any(|member| *member.member_id == **member_id)
            && listed_right;
        if fits {
            Ok(())
        } else {
            Err(format!("{told:?} in {:?}", (after.generation, &after.leader, &after.protocol_name)))
        }
    }))
}

fn s11_relayed(taken: &Taken<'_>) -> Verdict {
    let after = taken.after.world.views[0].as_ref()?;
    every(taken.effects.told.iter().flatten().filter_map(|(ticket, told)| {
        let Success::Assigned(bytes) = told else { return None };
        let asker = taken.asker(*ticket);
        let member = after.members.iter().find(|member| Some(&*member.member_id) == asker);
        let fits = member.is_some_and(|member| *member.assignment == **bytes);
        Some(if fits { Ok(()) } else { Err(format!("{asker:?} was given {bytes:?}")) })
    }))
}

fn s14_fenced_noop(taken: &Taken<'_>) -> Verdict {
    let error = taken.answered()?;
    let refused =
        [ErrorCode::IllegalGeneration, ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId].contains(&error);
    (refused && taken.effects.count == 1).then(|| {
        let same = taken.before.fingerprint == taken.after.fingerprint;
        if same { Ok(()) } else { Err(format!("{error:?}, and the state changed")) }
    })
}

/// The member that a heartbeat comes from by its own id and instance, as it was before, and the generation's distance.
fn beating<'a>(taken: &Taken<'a>) -> Option<(&'a Projection, &'a ProjectedMember, i32)> {
    let Body::Heartbeat { who, instance, generation } = taken.ask()? else { return None };
    let before = taken.before.world.views[0].as_ref()?;
    let id = taken.before.world.id_of(*who);
    let instance = instance.map(|instance| crate::step::INSTANCES[usize::from(instance)]);
    let member = before.members.iter().find(|member| *member.member_id == *id)?;
    (member.instance_id.as_deref() == instance).then_some((before, member, *generation))
}

fn s14_other_generations_are_fenced(taken: &Taken<'_>) -> Verdict {
    let (_, member, generation) = beating(taken)?;
    (generation != 0).then_some(())?;
    holds(taken.answered() == Some(ErrorCode::IllegalGeneration), || {
        format!("{} is answered {:?} in another generation", member.member_id, taken.answered())
    })
}

fn s30_heartbeats_keep_alive(taken: &Taken<'_>) -> Verdict {
    let (_, member, generation) = beating(taken)?;
    let after = taken.after.world.views[0].as_ref()?;
    let member = after.members.iter().find(|after| after.member_id == member.member_id)?;
    if generation != 0 || member.is_new || member.awaits_join || member.awaits_sync {
        return None;
    }
    let by_ms = taken.after.world.now.mono_ms + member.session_timeout_ms as u64;
    holds(member.deadline_ms == Some(by_ms), || {
        format!("{} goes at {:?}, not at {by_ms}", member.member_id, member.deadline_ms)
    })
}

fn l5_members_hear_of_a_rebalance(taken: &Taken<'_>) -> Verdict {
    let (before, member, generation) = beating(taken)?;
    (generation == 0).then_some(())?;
    let rebalances = before.state == State::PreparingRebalance;
    let expected = if rebalances { ErrorCode::RebalanceInProgress } else { ErrorCode::None };
    holds(taken.answered() == Some(expected), || {
        format!("{} is answered {:?} in {:?}", member.member_id, taken.answered(), before.state)
    })
}

fn s15_commit_fenced(taken: &Taken<'_>) -> Verdict {
    let Some(Body::Commit { who, generation, .. }) = taken.ask() else { return None };
    if taken.after.names.waiting.len() <= taken.before.names.waiting.len() {
        return None;
    }
    let view = taken.before.world.views[0].as_ref();
    let allowed = match (generation, who, view) {
        (None, Sender::Empty, view) => view.is_none_or(|view| view.members.is_empty()),
        (Some(0), Sender::Minted(seed), Some(view)) => {
            let id = taken.before.world.ids.get(seed);
            view.state != State::CompletingRebalance && view.members.iter().any(|member| Some(&member.member_id) == id)
        }
        _ => false,
    };
    holds(allowed, || format!("a commit of {who:?}, generation {generation:?}, was accepted"))
}

fn s17_replaced_is_fenced(taken: &Taken<'_>) -> Verdict {
    let (Body::Heartbeat { who, instance: Some(instance), .. }
    | Body::Sync { who, instance: Some(instance), protocol: 1, .. }) = taken.ask()?
    else {
        return None;
    };
    let view = taken.before.world.views[0].as_ref()?;
    let name = Some(crate::step::INSTANCES[usize::from(*instance)]);
    let holder = view.members.iter().find(|member| member.instance_id.as_deref() == name)?;
    let id = taken.before.world.id_of(*who);
    let passes_the_gate = matches!(taken.ask(), Some(Body::Heartbeat { .. })) || view.protocol_name.is_some();
    if *holder.member_id == *id || !passes_the_gate {
        return None;
    }
    holds(taken.answered() == Some(ErrorCode::FencedInstanceId), || {
        format!("`{id}` has not got {name:?}, and is answered {:?}", taken.answered())
    })
}

fn s18_answers_conserved(taken: &Taken<'_>) -> Verdict {
    let mut waiting: Vec<Ticket> =
        taken.before.names.waiting.iter().map(|(ticket, _)| *ticket).chain(taken.ticket()).collect();
    for (ticket, kind, _) in &taken.effects.answers {
        match waiting.iter().position(|other| other == ticket) {
            Some(at) => drop(waiting.swap_remove(at)),
            None => return Some(Err(format!("{kind} {} was answered, and no request waited for that", ticket.0))),
        }
    }
    let mut wait: Vec<Ticket> = taken.after.names.waiting.iter().map(|(ticket, _)| *ticket).collect();
    waiting.sort_unstable();
    wait.sort_unstable();
    holds(waiting == wait, || format!("{waiting:?} should wait, and {wait:?} do"))
}

/// Time removes a member only at a deadline, and no deadline is left behind.
fn s20_no_early_expiry(taken: &Taken<'_>) -> Verdict {
    let Step::Tick(_) = taken.step else { return None };
    let before = taken.before.world.views[0].as_ref()?;
    let now_ms = taken.after.world.now.mono_ms;
    let after = taken.after.world.views[0].as_ref();
    let is_there = |id: &str| after.is_some_and(|view| view.members.iter().any(|member| *member.member_id == *id));
    let phase_over = before.timers.iter().any(|(_, deadline_ms)| *deadline_ms <= now_ms);
    let early = before.members.iter().find(|member| {
        let lapsed = member.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
        let released = before.state == State::PreparingRebalance && !member.awaits_join && member.instance_id.is_none();
        !is_there(&member.member_id) && !lapsed && !phase_over && !released && before.in_flight.is_empty()
    });
    let next_ms = taken.after.names.next_deadline_ms;
    holds(early.is_none() && next_ms.is_none_or(|next_ms| next_ms >= now_ms), || {
        format!("at {now_ms} {:?} is gone, the next deadline is {next_ms:?}", early.map(|member| &member.member_id))
    })
}

/// Compared with the record itself, because a second load of it would repeat a mistake of the first.
fn s22_leader_is_loaded(taken: &Taken<'_>) -> Verdict {
    let loaded = taken.after.world.views[0].as_ref().filter(|view| view.state == State::Stable)?;
    let stored = group_in_log(taken.after.world).filter(|_| matches!(taken.step, Step::Reload { .. }))?;
    holds(loaded.leader == stored.leader, || {
        format!("{:?} leads after the load, and the log has {:?}", loaded.leader, stored.leader)
    })
}

fn s26_durable_before_told(taken: &Taken<'_>) -> Verdict {
    let world = taken.after.world;
    let mut seen = false;
    for (ticket, told) in taken.effects.told.iter().flatten() {
        seen = true;
        let stored = match told {
            Success::Joined { .. } => !world.log.is_empty(),
            Success::Assigned(bytes) => {
                // Or for the one that it replaced, whose place it has: the same instance (S11).
                let asker = taken.asker(*ticket);
                let live = world.views[0]
                    .as_ref()
                    .and_then(|view| view.members.iter().find(|member| Some(&*member.member_id) == asker));
                let is_its = |stored: &MemberValue| {
                    Some(&*stored.member_id) == asker
                        || stored.instance_id.is_some()
                            && live.is_some_and(|live| live.instance_id == stored.instance_id)
                };
                let stored = group_in_log(world).and_then(|stored| stored.members.iter().find(|member| is_its(member)));
                stored.is_some_and(|member| *member.assignment == **bytes)
            }
        };
        if !stored {
            return Some(Err(format!("{told:?}, and the log has {:?}", group_in_log(world))));
        }
    }
    for (_, kind, error) in &taken.effects.answers {
        if *error == ErrorCode::None && matches!(*kind, "OffsetCommit" | "DeleteGroup") {
            seen = true;
            // Of two ends, the later one may be the one that counts both (§10.3).
            if !matches!(taken.step, Step::End { .. }) || world.log.is_empty() {
                return Some(Err(format!("{kind} succeeded in a step in which nothing was stored")));
            }
        }
    }
    seen.then_some(Ok(()))
}

/// A group that is gone does not come back by itself.
fn s29_no_resurrection(taken: &Taken<'_>) -> Verdict {
    let absent = taken.before.world.views[0].is_none();
    if !absent || !matches!(taken.step, Step::Tick(_) | Step::End { .. } | Step::Forget(_)) {
        return None;
    }
    let after = taken.after.world.views[0].as_ref();
    let stored = matches!(taken.step, Step::End { .. });
    holds(after.is_none_or(|view| stored && view.durable && view.members.is_empty()), || {
        format!("the group is there again: {after:?}")
    })
}

fn longest_ms(taken: &Taken<'_>) -> u64 {
    let rebalance_ms = REBALANCES_MS[usize::from(REBALANCE)] as u64;
    rebalance_ms.max(u64::from(taken.bounds.config.group_initial_rebalance_delay_ms))
}

fn timer(view: &Projection, names: &[&str]) -> Option<u64> {
    view.timers.iter().find(|(name, _)| names.contains(name)).map(|(_, deadline_ms)| *deadline_ms)
}

fn l1_join_phase_ends(taken: &Taken<'_>) -> Verdict {
    let view = taken.after.world.views[0].as_ref()?;
    if view.state != State::PreparingRebalance {
        return None;
    }
    let by_ms = taken.after.world.now.mono_ms + longest_ms(taken);
    let ends =
        timer(view, &["Join", "InitialDelay"]).map_or(!view.in_flight.is_empty(), |deadline_ms| deadline_ms <= by_ms);
    holds(ends, || format!("the join phase goes on behind {by_ms}: {:?}", view.timers))
}

fn l2_sync_ends(taken: &Taken<'_>) -> Verdict {
    let view = taken.after.world.views[0].as_ref()?;
    if view.state != State::CompletingRebalance {
        return None;
    }
    let by_ms = taken.after.world.now.mono_ms + longest_ms(taken);
    let owes = view.members.iter().any(|member| member.owes_sync);
    let ends = timer(view, &["Sync"]).map_or(!owes, |deadline_ms| deadline_ms <= by_ms);
    let all_parked = view.members.iter().all(|member| member.deadline_ms.is_none());
    holds(ends && (owes || !all_parked || !view.in_flight.is_empty()), || {
        format!("{:?} syncs behind {by_ms}: {:?}", view.members, view.timers)
    })
}

fn l3_silent_members_go(taken: &Taken<'_>) -> Verdict {
    let view = taken.after.world.views[0].as_ref()?;
    let now_ms = taken.after.world.now.mono_ms;
    let session_ms = SESSIONS_MS[usize::from(SESSION)] as u64;
    every(view.members.iter().map(|member| {
        let by_ms = now_ms + if member.is_new { NEW_MEMBER_MS } else { session_ms };
        let parked = member.awaits_join || member.awaits_sync;
        match member.deadline_ms {
            Some(deadline_ms) if (now_ms..=by_ms).contains(&deadline_ms) => Ok(()),
            None if parked => Ok(()),
            other => Err(format!("{} goes at {other:?}, not by {by_ms}", member.member_id)),
        }
    }))
}

/// What a state says of itself: `L7` no deadline is behind; `S22` the log says what the group is; `S33` while that is
/// loaded, requests get the gate's answers.
pub fn of_state(place: &Place<'_>, bounds: &Bounds) -> Vec<(&'static str, Result<(), String>)> {
    let world = place.world;
    let mut found = Vec::new();
    let late = place.names.next_deadline_ms.filter(|next_ms| *next_ms < world.now.mono_ms);
    found.push(("L7", late.map_or(Ok(()), |late| Err(format!("a deadline was left behind: {late}")))));
    if let Err(violation) = world.core.check_invariants() {
        found.push((violation.id, Err(violation.detail)));
    }
    if place.names.settled {
        let mut again = Coordinator::new(bounds.config.clone(), 0, 0);
        for (at, record) in newest(world).into_values().enumerate() {
            let record = record.clone();
            again.replay(&LogEntry { offset: at as u64, timestamp_ms: world.now.wall_ms, record });
        }
        found.push(("S22", same_as_log(world.views[0].as_ref(), again.project("g").as_ref())));
        found.push(("S33", silent(&again, world)));
    }
    found
}

/// What each check has to say of a step, if it has.
pub fn of_step(taken: &Taken<'_>) -> impl Iterator<Item = (&'static str, Result<(), String>)> {
    CHECKS.iter().filter_map(|(id, check)| Some((*id, check(taken)?)))
}

fn same_as_log(live: Option<&Projection>, stored: Option<&Projection>) -> Result<(), String> {
    let differs = || Err(format!("live {live:?}, stored {stored:?}"));
    let (Some(live), Some(stored)) = (live, stored) else {
        // Compaction may leave nothing of a group whose offsets are all gone (§15.3), which people may join again.
        let unsaid = |view: &Projection| {
            let settling = matches!(view.state, State::PreparingRebalance | State::CompletingRebalance);
            view.offsets.is_empty() && (settling || view.members.is_empty() && view.generation == 0)
        };
        return if live.is_none_or(unsaid) && stored.is_none_or(unsaid) { Ok(()) } else { differs() };
    };
    let members = |view: &Projection| {
        let members = view.members.iter().map(|member| {
            let times = (member.session_timeout_ms, member.rebalance_timeout_ms);
            (member.member_id.clone(), member.instance_id.clone(), member.assignment.clone(), times)
        });
        members.collect::<Vec<_>>()
    };
    let same = match live.state {
        State::Stable => {
            members(live) == members(stored)
                && (live.generation, &live.protocol_type, &live.protocol_name, &live.leader)
                    == (stored.generation, &stored.protocol_type, &stored.protocol_name, &stored.leader)
        }
        State::Empty => stored.members.is_empty() && live.generation == stored.generation,
        _ => stored.generation <= live.generation,
    };
    if same && live.offsets == stored.offsets { Ok(()) } else { differs() }
}

fn silent(loading: &Coordinator, world: &World) -> Result<(), String> {
    let mut core = loading.clone();
    let before = core.project("g");
    for (ask, error) in [
        (Body::Heartbeat { who: Sender::Unknown, instance: None, generation: 0 }, ErrorCode::None),
        (Body::Fetch { is_stable: true, all: true }, ErrorCode::CoordinatorLoadInProgress),
        (Body::DeleteGroup, ErrorCode::CoordinatorLoadInProgress),
        (Body::Leave { version: 5, members: vec![(Sender::Unknown, None)] }, ErrorCode::CoordinatorLoadInProgress),
    ] {
        let mut effects = Effects::default();
        let step = Step::Request { group: 0, seed: 0, ask };
        let request = step.request(world).expect("a request");
        request.with(|request| core.submit(world.now, Ticket(0), entropy(0), request, &mut effects));
        if effects.answers.iter().map(|(_, _, error)| *error).ne([error]) || core.project("g") != before {
            return Err(format!("{step:?} is answered {:?} while loading", effects.answers));
        }
    }
    Ok(())
}
