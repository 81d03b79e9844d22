//! What must hold in every state of a group and in every step, by the ids of docs/consumer-protocol.md.

use rota_core::{
    ErrorCode,
    consumer_group::group::{AWAY, ConsumerGroup, ConsumerMember, Current, MemberState},
};

use super::{
    canonical::{durable_view, unchanged, view},
    client::{Asked, Partitions, Said},
    event::{Ask, Event, Fate, Probe},
    world::{GROUP, PATTERN, START, TOPICS, Told, World, assigned},
};

/// A verdict of one check.
pub type Verdict = (&'static str, Result<(), String>);

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
type Check = fn(&Taken<'_>) -> Option<Result<(), String>>;

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
pub const OF_STATES: [&str; 7] = ["C1 C3 C6 C10 C16", "C2", "C13", "C15", "C16", "C17", "S18"];

fn ensure(holds: bool, detail: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(detail()) }
}

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
        verdicts.push(("C15", c15_no_stray_pattern(group)));
        verdicts.push(("C16", c16_timers(group)));
        let size = group.size();
        let fits = size <= world.bounds.max_size as usize;
        verdicts.push(("C17", ensure(fits, || format!("{size} members of {} at most", world.bounds.max_size))));
    }
    verdicts
}

/// The checks of a step.
pub fn of_step(taken: &Taken<'_>) -> impl Iterator<Item = Verdict> {
    CHECKS.iter().filter_map(|(id, check)| Some((*id, check(taken)?)))
}

// ---- states

/// No two members may process one partition.
fn c2_told_one_owner(world: &World) -> Result<(), String> {
    let counts = |client: &usize| world.is_member(*client) && !world.clients[*client].was_removed;
    let members: Vec<usize> = (0..world.clients.len()).filter(counts).collect();
    for (at, one) in members.iter().enumerate() {
        for other in &members[at + 1..] {
            let (ours, theirs) = (world.clients[*one].holds(), world.clients[*other].holds());
            let both: Vec<_> = ours.intersection(&theirs).collect();
            ensure(both.is_empty(), || format!("clients {one} and {other} both hold {both:?}"))?;
        }
    }
    Ok(())
}

/// Loading the log gives the group that is there, with its tombstones and without.
fn c13_replay_equal(world: &World) -> Result<(), String> {
    // The next append repeats what a failed one may have stored or not.
    if !world.core.inspect().unsaved.is_empty() {
        return Ok(());
    }
    let all = world.core.inspect().consumer_groups.get(GROUP);
    let live = all.and_then(durable_view);
    for tombstones in [true, false] {
        let loaded = world.loaded(tombstones);
        let stored = loaded.consumer_group(GROUP).map(view);
        ensure(live == stored, || format!("{live:?} is loaded as {stored:?}"))?;
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

/// A pattern that no member has is forgotten.
fn c15_no_stray_pattern(group: &ConsumerGroup) -> Result<(), String> {
    let is_used = group.members().any(|(_, _, value)| ConsumerGroup::pattern_of(value).is_some());
    ensure(is_used || group.patterns().next().is_none(), || "a pattern without a member".to_owned())
}

/// Exactly the members that have something to give up have a deadline for it.
fn c16_timers(group: &ConsumerGroup) -> Result<(), String> {
    if group.write.is_some() {
        return Ok(());
    }
    for (id, member, value) in group.members() {
        let current = member.current.as_ref();
        let owes = current.is_some_and(|current| current.state == MemberState::Unrevoked);
        let is_classic = value.classic.is_some();
        ensure(member.session.is_some(), || format!("{id} has no session"))?;
        let armed = member.rebalance.is_some();
        // One that is away, or comes back, has nothing to give up, and may have been loaded.
        let is_free = owes && current.is_some_and(|current| current.pending.is_empty());
        ensure(armed == (owes && !is_classic) || is_free, || format!("{id} revokes: {owes}, in time: {armed}"))?;
        let classic = [("rejoin", member.join), ("sync", member.sync)];
        for (name, _) in classic.iter().filter(|(_, deadline)| deadline.is_some()) {
            ensure(is_classic, || format!("{id} has a deadline to {name}"))?;
        }
    }
    Ok(())
}

/// A client that waits is known to the coordinator.
fn s18_nobody_is_forgotten(world: &World) -> Result<(), String> {
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

fn c3_epochs_rise(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (old, new) = both(taken)?;
    if is_setback(taken) {
        return None;
    }
    let falls = new.epoch() < old.epoch() || new.target_epoch() < old.target_epoch();
    let detail = || format!("from {}/{} to {}/{}", old.epoch(), old.target_epoch(), new.epoch(), new.target_epoch());
    Some(ensure(!falls, detail))
}

fn c4_member_epochs_rise(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (old, new) = both(taken)?;
    if is_setback(taken) {
        return None;
    }
    let fallen = old.members().find_map(|(id, before, _)| {
        let after = new.member(id)?;
        (after.epoch() < before.epoch() && after.epoch() != AWAY).then(|| (id, before.epoch(), after.epoch()))
    });
    Some(fallen.map_or(Ok(()), |(id, before, after)| Err(format!("{id} went from epoch {before} to {after}"))))
}

/// Who gets a partition gets one that no other member has, and has nothing to give up.
fn c5_granted_only_free(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (old, new) = both(taken)?;
    if is_setback(taken) {
        return None;
    }
    for (id, member, value) in new.members() {
        let Some(current) = &member.current else { continue };
        let before = old.member(id).and_then(|member| member.current.as_ref());
        let fresh = |at: &(u128, i32)| before.is_none_or(|before| !before.assigned.contains_key(at));
        for partition in current.assigned.keys().filter(|at| fresh(at)) {
            if !current.pending.is_empty() {
                return Some(Err(format!("{id} gets {partition:?} while it revokes")));
            }
            // A static member takes over what its predecessor had.
            let holder = old.members().find(|(other, member, theirs)| {
                let same = value.instance_id.is_some() && value.instance_id == theirs.instance_id;
                *other != id && !same && member.current.iter().flat_map(Current::held).any(|(at, _)| at == partition)
            });
            if let Some((holder, ..)) = holder.filter(|(holder, ..)| new.member(holder).is_some()) {
                return Some(Err(format!("{id} gets {partition:?}, which {holder} holds")));
            }
        }
    }
    Some(Ok(()))
}

/// A member stops revoking by a report without what it revokes, by joining, or by going.
fn c6_acknowledged(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (old, new) = both(taken)?;
    if is_setback(taken) || taken.before.bounds.held {
        return None;
    }
    let revoking = |group: &ConsumerGroup, id: &str| -> Option<Partitions> {
        let current = group.member(id)?.current.clone()?;
        (current.state == MemberState::Unrevoked).then(|| current.pending.into_keys().collect())
    };
    for (id, ..) in old.members() {
        let (Some(before), Some(member)) = (revoking(old, id), new.member(id)) else { continue };
        let current = member.current.as_ref()?;
        if current.epoch == AWAY || before.iter().all(|partition| current.pending.contains_key(partition)) {
            continue;
        }
        let acknowledged = match taken.event {
            Event::Ask(client, Ask::Join(_) | Ask::ClassicJoin | Ask::Report | Ask::Full | Ask::Subscribe(_), _) => {
                taken.before.id_of(client) == *id && {
                    let kept = &taken.after.clients[client].owned;
                    before.iter().all(|partition| !kept.contains(partition) || current.pending.contains_key(partition))
                }
            }
            _ => false,
        };
        if !acknowledged {
            return Some(Err(format!("{id} stopped revoking {before:?}")));
        }
    }
    Some(Ok(()))
}

/// A new target gives every partition of each subscribed topic to one member that subscribes to it, in equal shares if
/// all members subscribe to the same.
fn c7_target_exact(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let new = taken.after.group()?;
    let old = taken.before.group().map_or(1, ConsumerGroup::target_epoch);
    if new.target_epoch() <= old || new.target_timestamp_ms() == 0 || new.epoch() != new.target_epoch() {
        return None;
    }
    let mut wanted = Partitions::new();
    let mut given: Vec<(u128, i32)> = Vec::new();
    let mut shares = Vec::new();
    for (id, member, value) in new.members() {
        let topics = TOPICS[..taken.after.topics].iter().filter(|(name, _)| new.is_subscribed(value, name));
        let topics: Vec<u128> = topics.map(|(_, id)| *id).collect();
        wanted.extend(taken.after.partitions().filter(|partition| topics.contains(&partition.0)));
        let target: Vec<_> = member.target.iter().flatten().copied().collect();
        if let Some(stray) = target.iter().find(|partition| !topics.contains(&partition.0)) {
            return Some(Err(format!("{id} is to have {stray:?}, to which it does not subscribe")));
        }
        shares.push((topics, target.len()));
        given.extend(target);
    }
    let count = given.len();
    let given: Partitions = given.into_iter().collect();
    if given != wanted || count != given.len() {
        return Some(Err(format!("{count} parts of {given:?} are given, {wanted:?} are wanted")));
    }
    let alike = shares.iter().all(|(topics, _)| *topics == shares[0].0);
    let sizes = || shares.iter().map(|(_, size)| *size);
    let spread = sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0);
    Some(ensure(!alike || spread <= 1, || format!("shares of {:?}", sizes().collect::<Vec<_>>())))
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
fn c8_answered_if_changed(taken: &Taken<'_>) -> Option<Result<(), String>> {
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
fn c9_durable_before_told(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (client, epoch, shown) = answered(taken)?;
    let id = taken.after.id_of(client);
    let loaded = taken.after.loaded(true);
    let Some((_, member)) = loaded.consumer_group(GROUP).and_then(|group| group.member_entry(&id)) else {
        return Some(Err(format!("{id} gets epoch {epoch}, and is not in the log")));
    };
    let current = member.current.clone().unwrap_or_else(Current::joining);
    let stored: Partitions = current.assigned.keys().copied().collect();
    let detail = || format!("{id} gets {epoch} and {shown:?}, the log has {} and {stored:?}", current.epoch);
    Some(ensure(current.epoch == epoch && shown.is_none_or(|shown| *shown == stored), detail))
}

/// A static member that goes away keeps what it owns, and has nothing to give up.
fn c10_goes_away(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let Event::Ask(client, Ask::LeaveStatic, Fate::Answered | Fate::Lost) = taken.event else { return None };
    let id = taken.before.id_of(client);
    let before = taken.before.group()?.member(&id)?.current.clone()?;
    // With an append in flight the request waits.
    if taken.before.group()?.instance(taken.before.instance_of(client)?) != Some(&id) || taken.before.bounds.held {
        return None;
    }
    let after = taken.after.group().and_then(|group| group.member(&id)?.current.clone());
    let is_away = after.as_ref().is_some_and(|after| {
        after.epoch == AWAY && after.pending.is_empty() && after.assigned.keys().eq(before.assigned.keys())
    });
    Some(ensure(is_away, || format!("{id} went away with {before:?}, and is {after:?}")))
}

/// A static member that returns with the same subscription gets what it had, and nothing new is computed.
fn c10_static_return(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let Event::Ask(client, Ask::Join(topics), Fate::Answered) = taken.event else { return None };
    let (old, new) = both(taken)?;
    let instance = taken.before.instance_of(client)?;
    let predecessor = old.member(old.instance(instance)?)?;
    let value = predecessor.subscription.as_deref()?;
    let same = value.topic_names.len() == topics && value.classic.is_none() && !taken.before.bounds.patterns;
    if !same || predecessor.epoch() != AWAY || answered(taken).is_none() || old.epoch() != old.target_epoch() {
        return None;
    }
    // Topics may have changed while it was away.
    if old.metadata_until_ms <= START.mono_ms {
        return None;
    }
    let target = new.member(&taken.after.id_of(client)).and_then(|member| member.target.clone());
    let detail = || format!("client {client} returns to {target:?} of epoch {}, not {}", new.epoch(), old.epoch());
    Some(ensure(new.epoch() == old.epoch() && target == predecessor.target, detail))
}

/// A commit with an older epoch is accepted for what the member has held ever since, and for nothing else.
fn c11_commit_fenced(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let Event::Probe(client, probe) = taken.event else { return None };
    let error = taken.told.said(None)?.error();
    let accepted = error == ErrorCode::NotEnoughReplicas.for_offset_append();
    let world = taken.before;
    let known = world.clients[client].epoch?;
    let wanted = match probe {
        Probe::Commit(index) if world.group().is_some() => {
            let partition = (TOPICS[0].1, index);
            let member = world.current(client);
            let is_current = member.as_ref().is_some_and(|current| current.epoch == known);
            let is_classic = world.group()?.member(&world.id_of(client)).is_some_and(ConsumerMember::is_classic);
            let kept = member.is_some_and(|current| current.epoch > known) && known >= 0;
            is_current || !is_classic && kept && world.clients[client].kept.contains(&partition)
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

/// Errors that come with a change: of the log, and of a rebalance.
const OF_A_CHANGE: [ErrorCode; 3] =
    [ErrorCode::None, ErrorCode::RebalanceInProgress, ErrorCode::CoordinatorNotAvailable];

/// A request that is refused changes nothing, and neither does one that the log refuses.
fn c12_refused_changes_nothing(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (Event::Ask(..) | Event::Probe(..)) = taken.event else { return None };
    let [(_, said)] = &taken.told.answers[..] else { return None };
    let refused = !OF_A_CHANGE.contains(&said.error()) && taken.told.failed.is_none();
    // A JoinGroup ends a consumer group without members before it is refused (docs/consumer-protocol.md §18.2).
    let is_ended = taken.before.group().is_some_and(ConsumerGroup::is_empty) && taken.after.group().is_none();
    if !refused || is_ended || taken.before.is_classic() {
        return None;
    }
    Some(ensure(unchanged(taken.before) == unchanged(taken.after), || format!("{said:?}, and the group changed")))
}

/// A conversion keeps epochs, members and what they own.
fn c14_converted(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let (before, after) = (taken.before, taken.after);
    let (classic, consumer, is_up) = match (before.group(), after.group()) {
        (None, Some(group)) if before.is_classic() => (before.core.project(GROUP)?, group, true),
        (Some(group), None) if after.is_classic() => (after.core.project(GROUP)?, group, false),
        _ => return None,
    };
    if is_setback(taken) || classic.members.is_empty() || consumer.is_empty() {
        return None;
    }
    let grown = consumer.epoch() - classic.generation;
    // A newcomer raises the epoch above the old generation; a rebalance behind the conversion raises the generation.
    if !(0..=1).contains(&if is_up { grown } else { -grown }) {
        return Some(Err(format!("generation {}, epoch {}", classic.generation, consumer.epoch())));
    }
    // The step may compute a target before it converts.
    let is_settled = is_up || consumer.epoch() == consumer.target_epoch();
    let is_stable = classic.state == rota_core::State::Stable && is_settled;
    for member in classic.members.iter().filter(|_| is_stable) {
        let instance = member.instance_id.as_deref().and_then(|instance| consumer.instance(instance));
        let same = consumer.member(&member.member_id).or_else(|| consumer.member(instance?));
        let Some(other) = same else {
            return Some(Err(format!("{} is lost", member.member_id)));
        };
        let given = assigned(&member.assignment);
        let part: Partitions = match &other.current {
            Some(current) if is_up => current.assigned.keys().copied().collect(),
            _ => other.target.iter().flatten().copied().collect(),
        };
        if given != part && !(is_up && given.is_superset(&part)) {
            return Some(Err(format!("{} had {given:?}, and has {part:?}", member.member_id)));
        }
    }
    Some(Ok(()))
}

/// A resolution finds exactly the topics that match.
fn c15_pattern_resolved(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let Event::Fire(_, "ConsumerPatterns") = taken.event else { return None };
    let group = taken.after.group().filter(|_| taken.told.wrote && taken.told.failed.is_none())?;
    let found = group.resolved_topics(PATTERN).len();
    Some(ensure(found == taken.after.topics, || format!("{found} topics of {} match", taken.after.topics)))
}

/// A member that waits for partitions gets those that are free with its next heartbeat.
fn c19_gets_what_is_free(taken: &Taken<'_>) -> Option<Result<(), String>> {
    let Event::Ask(client, Ask::Beat | Ask::Report | Ask::Full, Fate::Answered) = taken.event else { return None };
    let (old, id) = (taken.before.group()?, taken.before.id_of(client));
    let waits = old.member(&id)?.current.as_ref()?.state == MemberState::Unreleased;
    if !waits || answered(taken).is_none() || taken.before.bounds.held {
        return None;
    }
    let (new, member) = (taken.after.group()?, taken.after.group()?.member(&id)?);
    let current = member.current.as_ref()?;
    let free = member.target.iter().flatten().filter(|partition| new.is_free_for(**partition, &id));
    let missing: Vec<_> = free.filter(|partition| !current.assigned.contains_key(*partition)).collect();
    let is_done = current.state == MemberState::Unrevoked || missing.is_empty();
    Some(ensure(is_done, || format!("{id} still waits for {missing:?}, which no member has")))
}
