//! What must hold in every state of a group and in every step, by the ids of docs/consumer-protocol.md.

use std::{collections::BTreeSet, sync::Arc};

use rota_core::{ErrorCode, consumer_group::group::ConsumerGroup};

use super::{
    canonical::unchanged,
    client::{Asked, Partitions, Said},
    event::{Ask, Event, Fate, Probe},
    rules::{self, Holds, ensure},
    world::{GROUP, PATTERN, START, TOPICS, Told, World, topic_id},
};

/// A verdict of one check.
pub type Verdict = (&'static str, Holds);

/// A step that was taken.
pub struct Taken<'a> {
    /// Before.
    pub before: &'a World,
    /// What happened.
    pub event: Event,
    /// After.
    pub after: &'a World,
    /// What it has given back.
    pub told: &'a Told,
}

/// `None`: it says nothing about this step.
type Check = fn(&Taken<'_>) -> Option<Holds>;

/// Every check of a step, by the id of its invariant.
pub const CHECKS: [(&str, Check); 14] = [
    ("C3", c3_epochs_rise),
    ("C4", c4_member_epochs_rise),
    ("C5", c5_granted_only_free),
    ("C6", c6_acknowledged),
    ("C7", c7_target_exact),
    ("C8", c8_answered_if_changed),
    ("C9", c9_durable_before_told),
    ("C10", c10_goes_away),
    ("C10", c10_static_return),
    ("C11", c11_commit_fenced),
    ("C12", c12_refused_changes_nothing),
    ("C14", c14_converted),
    ("C15", c15_pattern_resolved),
    ("C19", c19_gets_what_is_free),
];

/// The ids of the checks of a state.
pub const OF_STATES: [&str; 7] = ["C1 C3 C6 C10 C16 S21", "C2", "C13", "C15", "C16", "C17", "S18"];

/// The checks of a state.
pub fn of_state(world: &World) -> Vec<Verdict> {
    let core = world.core.check_invariants().map_err(|violation| format!("{}: {}", violation.id, violation.detail));
    let mut verdicts = vec![
        (OF_STATES[0], core),
        ("C2", c2_told_one_owner(world)),
        ("C13", c13_replay_equal(world)),
        ("S18", s18_nobody_is_forgotten(world)),
    ];
    if let Some(group) = world.group() {
        verdicts.push(("C15", rules::no_stray_pattern(group)));
        verdicts.push(("C16", rules::timers(group)));
        verdicts.push(("C17", rules::bounded(group, world.bounds.max_size)));
    }
    verdicts
}

/// The checks of a step.
pub fn of_step(taken: &Taken<'_>) -> impl Iterator<Item = Verdict> {
    CHECKS.iter().filter_map(|(id, check)| Some((*id, check(taken)?)))
}

// ---- states

/// No two members may process one partition.
fn c2_told_one_owner(world: &World) -> Holds {
    let counts = |client: &usize| world.is_member(*client) && !world.clients[*client].was_removed;
    let members = (0..world.clients.len()).filter(counts);
    let holders: Vec<_> = members.map(|client| (format!("client {client}"), world.clients[client].holds())).collect();
    rules::held_once(&holders)
}

/// Loading the log gives the group that is there, with its tombstones and without.
fn c13_replay_equal(world: &World) -> Holds {
    // The next append repeats what a failed one may have stored or not.
    if !world.core.inspect().unsaved.is_empty() {
        return Ok(());
    }
    let all = world.core.inspect().consumer_groups.get(GROUP);
    let live = all.and_then(rules::durable);
    for tombstones in [true, false] {
        let loaded = world.loaded(tombstones);
        rules::replay_equal(live.as_deref(), loaded.consumer_group(GROUP))?;
        let (Some(group), None) = (world.core.project(GROUP), all) else { continue };
        if group.state == rota_core::State::Stable && group.in_flight.is_empty() {
            let shape = |group: &rota_core::Projection| {
                let members = group.members.iter();
                let members: Vec<_> =
                    members.map(|member| (member.member_id.clone(), member.assignment.clone())).collect();
                (group.generation, members)
            };
            let (live, stored) = (shape(&group), loaded.project(GROUP).as_ref().map(shape));
            ensure(stored.as_ref() == Some(&live), || format!("{live:?} is loaded as {stored:?}"))?;
        }
    }
    Ok(())
}

/// A client that waits is known to the coordinator.
fn s18_nobody_is_forgotten(world: &World) -> Holds {
    let inside = world.core.inspect();
    let group = inside.consumer_groups.get(GROUP);
    let classic = world.core.project(GROUP);
    let is_parked = |member: &rota_core::projection::ProjectedMember| member.awaits_join || member.awaits_sync;
    let is_parked = classic.is_some_and(|group| group.members.iter().any(is_parked));
    for (client, known) in world.clients.iter().enumerate() {
        let Some((ticket, _)) = known.waits else { continue };
        let waiting =
            group.iter().flat_map(|group| &group.waiting).any(|waiting| waiting.what.ticket() == Some(ticket));
        let owed = group.and_then(|group| group.write.as_ref()).is_some_and(|write| write.answer.is_some());
        let parked = is_parked || !world.in_flight.is_empty();
        ensure(waiting || owed || parked, || format!("client {client} gets no answer"))?;
    }
    Ok(())
}

// ---- steps

fn both<'a>(taken: &'a Taken<'_>) -> Option<(&'a ConsumerGroup, &'a ConsumerGroup)> {
    Some((taken.before.group()?, taken.after.group()?))
}

/// No answer has had what a load or a failed append takes back. And behind an append that ends, what has waited for it
/// goes on: a group may end and begin anew in one step, and a member may go and come back.
fn is_setback(taken: &Taken<'_>) -> bool {
    let waits = taken.before.group().is_some_and(|group| !group.waiting.is_empty());
    waits || taken.told.failed.is_some() || matches!(taken.event, Event::Crash(_) | Event::End(Some(_)))
}

fn c3_epochs_rise(taken: &Taken<'_>) -> Option<Holds> {
    let (old, new) = both(taken)?;
    if is_setback(taken) {
        return None;
    }
    Some(rules::epochs_rise(old, new))
}

fn c4_member_epochs_rise(taken: &Taken<'_>) -> Option<Holds> {
    let (old, new) = both(taken)?;
    if is_setback(taken) {
        return None;
    }
    Some(rules::member_epochs_rise(old, new))
}

/// Who gets a partition gets one that no other member has, and has nothing to give up.
fn c5_granted_only_free(taken: &Taken<'_>) -> Option<Holds> {
    let (old, new) = both(taken)?;
    if is_setback(taken) {
        return None;
    }
    Some(rules::granted_only_free(old, new))
}

/// A member stops revoking by a report without what it revokes, by joining, or by going.
fn c6_acknowledged(taken: &Taken<'_>) -> Option<Holds> {
    let (old, new) = both(taken)?;
    if is_setback(taken) || taken.before.bounds.held {
        return None;
    }
    let Event::Ask(client, ask, _) = taken.event else { return Some(rules::acknowledged(old, new, None)) };
    let reports = matches!(ask, Ask::Join(_) | Ask::ClassicJoin | Ask::Report | Ask::Full | Ask::Subscribe(_));
    let (id, kept) = (taken.before.id_of(client), &taken.after.clients[client].owned);
    Some(rules::acknowledged(old, new, reports.then_some((&*id, kept))))
}

fn c7_target_exact(taken: &Taken<'_>) -> Option<Holds> {
    let count = taken.after.bounds.partitions;
    let topics = TOPICS[..taken.after.topics].iter().map(|(name, id)| (Arc::from(*name), (*id, count))).collect();
    rules::target_exact(taken.before.group(), taken.after.group()?, &topics)
}

/// The heartbeat of a client that was answered in the same step: its answer's epoch and assignment.
fn answered<'a>(taken: &'a Taken<'_>) -> Option<(usize, i32, Option<&'a Partitions>)> {
    taken.told.answers.iter().find_map(|(whom, said)| match (whom, said) {
        (Some((client, Asked::Beat(_))), Said::Beat(ErrorCode::None, epoch, assignment)) => {
            Some((*client, *epoch, assignment.as_ref()))
        }
        _ => None,
    })
}

/// An answer has the assignment if the request is full, or the assignment has changed.
fn c8_answered_if_changed(taken: &Taken<'_>) -> Option<Holds> {
    let Event::Ask(client, ask, Fate::Answered) = taken.event else { return None };
    let (whom, _, shown) = answered(taken)?;
    if whom != client || taken.before.bounds.held {
        return None;
    }
    let has = |world: &World| -> Partitions {
        world.current(client).map_or_else(Partitions::new, |current| current.assigned.into_keys().collect())
    };
    let (old, new) = (has(taken.before), has(taken.after));
    let wanted = matches!(ask, Ask::Join(_) | Ask::Full) || old != new;
    let detail = || format!("client {client} gets {shown:?}, and has {new:?} after {old:?}");
    Some(ensure(shown == wanted.then_some(&new), detail))
}

/// What an answer gives a member is in the log.
fn c9_durable_before_told(taken: &Taken<'_>) -> Option<Holds> {
    let (client, epoch, shown) = answered(taken)?;
    let id = taken.after.id_of(client);
    let loaded = taken.after.loaded(true);
    let stored = loaded.consumer_group(GROUP).and_then(|group| group.member(&id));
    Some(rules::durable_before_told(stored, &id, epoch, shown))
}

/// A static member that goes away keeps what it owns, and has nothing to give up.
fn c10_goes_away(taken: &Taken<'_>) -> Option<Holds> {
    let Event::Ask(client, Ask::LeaveStatic, Fate::Answered | Fate::Lost) = taken.event else { return None };
    let id = taken.before.id_of(client);
    let before = taken.before.group()?.member(&id)?.current.clone()?;
    // With an append in flight the request waits.
    if taken.before.group()?.instance(taken.before.instance_of(client)?) != Some(&id) || taken.before.bounds.held {
        return None;
    }
    let after = taken.after.group().and_then(|group| group.member(&id)?.current.clone());
    Some(rules::goes_away(&id, &before, after.as_ref()))
}

/// A static member that returns with the same subscription gets what it had, and nothing new is computed.
fn c10_static_return(taken: &Taken<'_>) -> Option<Holds> {
    let Event::Ask(client, Ask::Join(topics), Fate::Answered) = taken.event else { return None };
    let (old, new) = both(taken)?;
    let instance = taken.before.instance_of(client)?;
    answered(taken)?;
    let has_patterns = taken.before.bounds.patterns;
    let is_same = |value: &rota_core::records::SubscriptionValue| value.topic_names.len() == topics && !has_patterns;
    rules::static_return((old, new), instance, &taken.after.id_of(client), is_same, START.mono_ms)
}

/// A commit with an older epoch is accepted for what the member has held ever since, and for nothing else.
fn c11_commit_fenced(taken: &Taken<'_>) -> Option<Holds> {
    let Event::Probe(client, probe) = taken.event else { return None };
    let error = taken.told.said(None)?.error();
    let accepted = error == ErrorCode::NotEnoughReplicas.for_offset_append();
    let world = taken.before;
    let known = world.clients[client].epoch?;
    let wanted = match probe {
        Probe::Commit(index) if world.group().is_some() => {
            let member = world.group()?.member(&world.id_of(client));
            rules::may_commit(member, known, world.clients[client].kept.contains(&(TOPICS[0].1, index)))
        }
        Probe::CommitAhead if world.group().is_some() => {
            let epoch = world.current(client).map(|current| current.epoch);
            // Of an older epoch that the client has not heard of, nothing is known here.
            if epoch.is_some_and(|epoch| epoch > known + 1) {
                return None;
            }
            epoch == Some(known + 1)
        }
        Probe::CommitSimple => world.core.member_count() == 0,
        _ => return None,
    };
    Some(ensure(accepted == wanted, || format!("client {client} of epoch {known} gets {error:?} for {probe:?}")))
}

/// A request that is refused changes nothing, and neither does one that the log refuses.
fn c12_refused_changes_nothing(taken: &Taken<'_>) -> Option<Holds> {
    let (Event::Ask(..) | Event::Probe(..)) = taken.event else { return None };
    let [(_, said)] = &taken.told.answers[..] else { return None };
    let refused = rules::is_refusal(said.error()) && taken.told.failed.is_none();
    // A JoinGroup ends a consumer group without members before it is refused (docs/consumer-protocol.md §18.2).
    let is_ended = taken.before.group().is_some_and(ConsumerGroup::is_empty) && taken.after.group().is_none();
    if !refused || is_ended || taken.before.is_classic() {
        return None;
    }
    Some(ensure(unchanged(taken.before) == unchanged(taken.after), || format!("{said:?}, and the group changed")))
}

/// A conversion keeps epochs, members and what they own.
fn c14_converted(taken: &Taken<'_>) -> Option<Holds> {
    let (before, after) = (taken.before, taken.after);
    let (classic, consumer, is_up) = match (before.group(), after.group()) {
        (None, Some(group)) if before.is_classic() => (before.core.project(GROUP)?, group, true),
        (Some(group), None) if after.is_classic() => (after.core.project(GROUP)?, group, false),
        _ => return None,
    };
    if is_setback(taken) {
        return None;
    }
    rules::converted(&classic, consumer, is_up, None, (&topic_id, &Some))
}

/// A resolution finds exactly the topics that match.
fn c15_pattern_resolved(taken: &Taken<'_>) -> Option<Holds> {
    let Event::Fire(_, "ConsumerPatterns") = taken.event else { return None };
    let group = taken.after.group().filter(|_| taken.told.wrote && taken.told.failed.is_none())?;
    // A pattern that was dropped meanwhile is not resolved.
    group.members().find(|(_, _, value)| ConsumerGroup::pattern_of(value).is_some())?;
    let matching: BTreeSet<Arc<str>> = TOPICS[..taken.after.topics].iter().map(|(name, _)| Arc::from(*name)).collect();
    Some(rules::resolved(group, PATTERN, &matching))
}

/// A member that waits for partitions gets those that are free with its next heartbeat.
fn c19_gets_what_is_free(taken: &Taken<'_>) -> Option<Holds> {
    let Event::Ask(client, Ask::Beat | Ask::Report | Ask::Full, Fate::Answered) = taken.event else { return None };
    if answered(taken).is_none() || taken.before.bounds.held {
        return None;
    }
    let name_of = |id: u128| TOPICS.iter().find(|(_, known)| *known == id).map(|(name, _)| Arc::from(*name));
    rules::free_is_granted(taken.before.group()?, taken.after.group()?, &taken.before.id_of(client), &name_of)
}
