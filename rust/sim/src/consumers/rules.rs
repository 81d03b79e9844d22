//! What must hold in a consumer group, and between two states of it: for the exploration of all states, and for the
//! coordinators of simulated worlds.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use rota_core::{
    ErrorCode, Projection,
    consumer_group::{
        group::{AWAY, ConsumerGroup, ConsumerMember, Current, MemberState},
        partitions::{Partition, PartitionSet},
    },
    embedded::{self, Assignment, TopicPartitions},
    purgatory::OpId,
    records::SubscriptionValue,
};

use super::client::Partitions;

/// Whether something holds; if not, what was observed.
pub type Holds = Result<(), String>;

/// The id of a topic; 0: there is no such topic.
pub type TopicIds<'a> = &'a dyn Fn(&str) -> u128;

/// Checks a condition.
pub fn ensure(holds: bool, detail: impl FnOnce() -> String) -> Holds {
    if holds { Ok(()) } else { Err(detail()) }
}

/// Partitions by topic id.
pub fn identified(partitions: &[TopicPartitions], ids: TopicIds<'_>) -> Partitions {
    partitions.iter().flat_map(|of| of.partitions.iter().map(|index| (ids(&of.topic), *index))).collect()
}

/// What an assignment says; empty bytes say nothing.
pub fn assigned(bytes: &[u8], ids: TopicIds<'_>) -> Partitions {
    let said = embedded::decode_assignment(bytes);
    said.map(|Assignment { partitions, .. }| identified(&partitions, ids)).unwrap_or_default()
}

/// What a member owns.
pub fn owned(current: &Current) -> Partitions {
    current.assigned.keys().copied().collect()
}

// ---- states

/// C2: no two of these members process one partition.
pub fn held_once<N: fmt::Display, P: Ord + fmt::Debug>(holders: &[(N, BTreeSet<P>)]) -> Holds {
    for (at, (one, ours)) in holders.iter().enumerate() {
        for (other, theirs) in &holders[at + 1..] {
            let both: Vec<_> = ours.intersection(theirs).collect();
            ensure(both.is_empty(), || format!("{one} and {other} both hold {both:?}"))?;
        }
    }
    Ok(())
}

/// The group without its append in flight; `None`: there would be none, or a classic one.
pub fn durable(group: &ConsumerGroup) -> Option<Cow<'_, ConsumerGroup>> {
    let mut before = Cow::Borrowed(group);
    for record in group.write.iter().flat_map(|write| &write.undo) {
        before.to_mut().apply(record);
    }
    Some(before).filter(|before| !before.is_gone())
}

/// What the log keeps of the members.
type Kept<'a> = (&'a Arc<str>, Option<&'a Current>, Option<&'a PartitionSet>, &'a SubscriptionValue);

fn kept(group: &ConsumerGroup) -> impl Iterator<Item = Kept<'_>> {
    group.members().map(|(id, member, value)| (id, member.current.as_ref(), member.target.as_ref(), value))
}

fn patterns(group: &ConsumerGroup) -> impl Iterator<Item = (&Arc<str>, &[Arc<str>])> {
    group.patterns().map(|pattern| (pattern, group.resolved_topics(pattern)))
}

/// What differs between what the log keeps of two groups.
fn difference(one: &ConsumerGroup, other: &ConsumerGroup) -> Option<String> {
    let epochs = |group: &ConsumerGroup| {
        (group.epoch(), group.metadata_hash(), group.target_epoch(), group.target_timestamp_ms())
    };
    if epochs(one) != epochs(other) {
        return Some(format!("epochs {:?} and {:?}", epochs(one), epochs(other)));
    }
    if !kept(one).eq(kept(other)) {
        let differs = kept(one).zip(kept(other)).find(|(one, other)| one != other);
        return Some(format!("{} and {} members: {differs:?}", one.size(), other.size()));
    }
    if !patterns(one).eq(patterns(other)) {
        let all = |group| patterns(group).collect::<Vec<_>>();
        return Some(format!("patterns {:?} and {:?}", all(one), all(other)));
    }
    None
}

/// C13: the log has the group that is there, but for its append in flight.
pub fn replay_equal(live: Option<&ConsumerGroup>, stored: Option<&ConsumerGroup>) -> Holds {
    match (live, stored) {
        (None, None) => Ok(()),
        (Some(live), Some(stored)) => {
            difference(live, stored).map_or(Ok(()), |words| Err(format!("memory and log differ: {words}")))
        }
        _ => Err(format!("a consumer group in memory: {}, in the log: {}", live.is_some(), stored.is_some())),
    }
}

/// C15: a pattern that no member has is forgotten.
pub fn no_stray_pattern(group: &ConsumerGroup) -> Holds {
    let is_used = group.members().any(|(_, _, value)| ConsumerGroup::pattern_of(value).is_some());
    ensure(is_used || group.patterns().next().is_none(), || "a pattern without a member".to_owned())
}

/// C16: exactly the members that have something to give up have a deadline for it.
pub fn timers(group: &ConsumerGroup) -> Holds {
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

/// C17: a group has no more members than it may have.
pub fn bounded(group: &ConsumerGroup, max_size: u32) -> Holds {
    let size = group.size();
    ensure(size <= max_size as usize, || format!("{size} members of {max_size} at most"))
}

// ---- steps

/// C3
pub fn epochs_rise(old: &ConsumerGroup, new: &ConsumerGroup) -> Holds {
    let falls = new.epoch() < old.epoch() || new.target_epoch() < old.target_epoch();
    let detail = || format!("from {}/{} to {}/{}", old.epoch(), old.target_epoch(), new.epoch(), new.target_epoch());
    ensure(!falls, detail)
}

/// C4
pub fn member_epochs_rise(old: &ConsumerGroup, new: &ConsumerGroup) -> Holds {
    let fallen = old.members().find_map(|(id, before, _)| {
        let after = new.member(id)?;
        (after.epoch() < before.epoch() && after.epoch() != AWAY).then(|| (id, before.epoch(), after.epoch()))
    });
    fallen.map_or(Ok(()), |(id, before, after)| Err(format!("{id} went from epoch {before} to {after}")))
}

/// C5: who gets a partition gets one that no other member has, and has nothing to give up.
pub fn granted_only_free(old: &ConsumerGroup, new: &ConsumerGroup) -> Holds {
    for (id, member, value) in new.members() {
        let Some(current) = &member.current else { continue };
        let before = old.member(id).and_then(|member| member.current.as_ref());
        let fresh = |at: &(u128, i32)| before.is_none_or(|before| !before.assigned.contains_key(at));
        for partition in current.assigned.keys().filter(|at| fresh(at)) {
            ensure(current.pending.is_empty(), || format!("{id} gets {partition:?} while it revokes"))?;
            // A static member takes over what its predecessor had.
            let holder = old.members().find(|(other, member, theirs)| {
                let same = value.instance_id.is_some() && value.instance_id == theirs.instance_id;
                *other != id && !same && member.current.iter().flat_map(Current::held).any(|(at, _)| at == partition)
            });
            if let Some((holder, ..)) = holder.filter(|(holder, ..)| new.member(holder).is_some()) {
                return Err(format!("{id} gets {partition:?}, which {holder} holds"));
            }
        }
    }
    Ok(())
}

/// C6: a member stops revoking by a report without what it revokes, by joining, or by going. `report`: whose it is, and
/// what it says that the member owns.
pub fn acknowledged(old: &ConsumerGroup, new: &ConsumerGroup, report: Option<(&str, &Partitions)>) -> Holds {
    let revoking = |group: &ConsumerGroup, id: &str| -> Option<Partitions> {
        let current = group.member(id)?.current.as_ref()?;
        (current.state == MemberState::Unrevoked).then(|| current.pending.keys().copied().collect())
    };
    for (id, ..) in old.members() {
        let (Some(before), Some(member)) = (revoking(old, id), new.member(id)) else { continue };
        let Some(current) = member.current.as_ref() else { return Ok(()) };
        if current.epoch == AWAY || before.iter().all(|partition| current.pending.contains_key(partition)) {
            continue;
        }
        let is_given_up = |kept: &Partitions| {
            before.iter().all(|partition| !kept.contains(partition) || current.pending.contains_key(partition))
        };
        let acknowledged = report.is_some_and(|(whose, kept)| whose == &**id && is_given_up(kept));
        ensure(acknowledged, || format!("{id} stopped revoking {before:?}"))?;
    }
    Ok(())
}

/// C7: a new target gives every partition of each subscribed topic to one member that subscribes to it, in equal shares if
/// all members subscribe to the same. `None`: there is no new target.
pub fn target_exact(
    old: Option<&ConsumerGroup>,
    new: &ConsumerGroup,
    topics: &BTreeMap<Arc<str>, (u128, i32)>,
) -> Option<Holds> {
    let old = old.map_or(1, ConsumerGroup::target_epoch);
    if new.target_epoch() <= old || new.target_timestamp_ms() == 0 || new.epoch() != new.target_epoch() {
        return None;
    }
    let mut wanted = Partitions::new();
    let mut given: Vec<Partition> = Vec::new();
    let mut shares = Vec::new();
    for (id, member, value) in new.members() {
        let topics: Vec<_> = topics.iter().filter(|(name, _)| new.is_subscribed(value, name)).collect();
        wanted.extend(topics.iter().flat_map(|(_, (id, count))| (0..*count).map(move |index| (*id, index))));
        let target: Vec<_> = member.target.iter().flatten().copied().collect();
        if let Some(stray) = target.iter().find(|partition| !topics.iter().any(|(_, (id, _))| *id == partition.0)) {
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
    // `range` evens each topic out, `uniform` all of them together.
    let is_range = new.preferred_assignor() == "range";
    let most = if is_range { shares.first().map_or(0, |(topics, _)| topics.len()) } else { 1 };
    Some(ensure(!alike || spread <= most, || format!("shares of {:?}", sizes().collect::<Vec<_>>())))
}

/// C9: what an answer gives a member is in the log.
pub fn durable_before_told(stored: Option<&ConsumerMember>, id: &str, epoch: i32, shown: Option<&Partitions>) -> Holds {
    let Some(member) = stored else { return Err(format!("{id} gets epoch {epoch}, and is not in the log")) };
    let current = member.current.clone().unwrap_or_else(Current::joining);
    let stored = owned(&current);
    let detail = || format!("{id} gets {epoch} and {shown:?}, the log has {} and {stored:?}", current.epoch);
    ensure(current.epoch == epoch && shown.is_none_or(|shown| *shown == stored), detail)
}

/// C10: a static member that goes away keeps what it owns, and has nothing to give up.
pub fn goes_away(id: &str, before: &Current, after: Option<&Current>) -> Holds {
    let is_away = after.is_some_and(|after| {
        after.epoch == AWAY && after.pending.is_empty() && after.assigned.keys().eq(before.assigned.keys())
    });
    ensure(is_away, || format!("{id} went away with {before:?}, and is {after:?}"))
}

/// C10: a static member that returns with the same subscription gets what it had, and nothing new is computed. `None`: it
/// does not return so.
pub fn static_return(
    (old, new): (&ConsumerGroup, &ConsumerGroup),
    instance: &str,
    id: &str,
    is_same: impl FnOnce(&SubscriptionValue) -> bool,
    now_ms: u64,
) -> Option<Holds> {
    let predecessor = old.member(old.instance(instance)?)?;
    let value = predecessor.subscription.as_deref()?;
    let same = value.classic.is_none() && is_same(value);
    // Topics may have changed while it was away.
    let is_old = old.metadata_until_ms <= now_ms;
    if !same || predecessor.epoch() != AWAY || old.epoch() != old.target_epoch() || is_old {
        return None;
    }
    let target = new.member(id).and_then(|member| member.target.clone());
    let detail = || format!("{id} returns to {target:?} of epoch {}, not {}", new.epoch(), old.epoch());
    Some(ensure(new.epoch() == old.epoch() && target == predecessor.target, detail))
}

/// C11: whether a commit of this epoch is accepted. An older one is for what the member has held ever since.
pub fn may_commit(member: Option<&ConsumerMember>, known: i32, has_kept_all: bool) -> bool {
    let Some(member) = member else { return false };
    let epoch = member.epoch();
    epoch == known || !member.is_classic() && known >= 0 && known < epoch && has_kept_all
}

/// Errors that come with a change: of the log, and of a rebalance.
const OF_A_CHANGE: [ErrorCode; 3] =
    [ErrorCode::None, ErrorCode::RebalanceInProgress, ErrorCode::CoordinatorNotAvailable];

/// C12: whether an answer refuses a request, so that nothing may have changed.
pub fn is_refusal(error: ErrorCode) -> bool {
    !OF_A_CHANGE.contains(&error)
}

/// The deadlines of each member.
fn armed(group: &ConsumerGroup) -> impl Iterator<Item = [Option<OpId>; 4]> {
    group.members().map(|(_, member, _)| [member.session, member.rebalance, member.join, member.sync])
}

/// C12: a refused request changes no group.
pub fn is_unchanged(old: &ConsumerGroup, new: Option<&ConsumerGroup>) -> Holds {
    let Some(new) = new else { return Err("the group is gone".to_owned()) };
    match difference(old, new) {
        Some(words) => Err(words),
        None => ensure(armed(old).eq(armed(new)), || "deadlines changed".to_owned()),
    }
}

/// C14: a conversion keeps epochs, members and what they own. The member that joins with it may get more already; what
/// members own of topics that the coordinator does not know has no name in a classic group, which knows topics by name.
/// `id_now` is the id that a topic of this name has now. `None`: there were no members.
pub fn converted(
    classic: &Projection,
    consumer: &ConsumerGroup,
    is_up: bool,
    joins: Option<&str>,
    (ids, id_now): (TopicIds<'_>, &dyn Fn(u128) -> Option<u128>),
) -> Option<Holds> {
    if classic.members.is_empty() || consumer.is_empty() {
        return None;
    }
    let grown = consumer.epoch() - classic.generation;
    // A newcomer raises the epoch above the old generation; a rebalance behind the conversion raises the generation.
    if !(0..=1).contains(&if is_up { grown } else { -grown }) {
        return Some(Err(format!("generation {}, epoch {}", classic.generation, consumer.epoch())));
    }
    // The step may compute a target before it converts, also because the newcomer subscribes to something else.
    let is_settled = is_up || consumer.epoch() == consumer.target_epoch() && grown == 0;
    let is_stable = classic.state == rota_core::State::Stable && is_settled;
    for member in classic.members.iter().filter(|_| is_stable) {
        let instance = member.instance_id.as_deref().and_then(|instance| consumer.instance(instance));
        if instance.is_some_and(|id| joins == Some(&**id)) || joins == Some(&*member.member_id) {
            continue;
        }
        let same = consumer.member(&member.member_id).or_else(|| consumer.member(instance?));
        let Some(other) = same else {
            return Some(Err(format!("{} is lost", member.member_id)));
        };
        let given = assigned(&member.assignment, ids);
        let part: Partitions = match &other.current {
            Some(current) if is_up => owned(current),
            _ => other.target.iter().flatten().filter_map(|(topic, index)| Some((id_now(*topic)?, *index))).collect(),
        };
        if given != part && !(is_up && given.is_superset(&part)) {
            return Some(Err(format!("{} had {given:?}, and has {part:?}", member.member_id)));
        }
    }
    Some(Ok(()))
}

/// C15: a pattern is resolved to exactly the topics that match.
pub fn resolved(group: &ConsumerGroup, pattern: &str, matching: &BTreeSet<Arc<str>>) -> Holds {
    let found = group.resolved_topics(pattern);
    ensure(found.iter().eq(matching), || format!("{pattern} is resolved to {found:?}, {matching:?} match"))
}

/// C19: a member that waits for partitions gets those that are free with its next heartbeat, if it still subscribes to
/// them. `None`: it did not wait.
pub fn free_is_granted(
    old: &ConsumerGroup,
    new: &ConsumerGroup,
    id: &str,
    name_of: &dyn Fn(u128) -> Option<Arc<str>>,
) -> Option<Holds> {
    if old.member(id)?.current.as_ref()?.state != MemberState::Unreleased {
        return None;
    }
    let member = new.member(id)?;
    let (current, value) = (member.current.as_ref()?, member.subscription.as_deref()?);
    let is_wanted = |partition: &Partition| name_of(partition.0).is_some_and(|name| new.is_subscribed(value, &name));
    let target = member.target.iter().flatten().filter(|partition| is_wanted(partition));
    let free = target.filter(|partition| new.is_free_for(**partition, id));
    let missing: Vec<_> = free.filter(|partition| !current.assigned.contains_key(*partition)).collect();
    let is_done = current.state == MemberState::Unrevoked || missing.is_empty();
    Some(ensure(is_done, || format!("{id} still waits for {missing:?}, which no member has")))
}
