//! A state up to what no rule reads: epochs count from the target's, deadlines are armed or not, and the log is that
//! which the group shows, because C13 is checked in every state.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use rota_core::{
    consumer_group::{
        group::{AWAY, ConsumerGroup, ConsumerMember, Current, MemberState},
        partitions::Partition,
        waiting::{Later, OnEnd},
    },
    records::SubscriptionValue,
};

use super::{
    client::{Asked, Partitions, Phase, Speaks},
    world::{GROUP, START, World, owner_of},
};
use crate::{explore::canonical::without_deadlines, world::Mixer};

/// Where an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// That of a static member that is away.
    Away,
    /// 0, of a member that has come back.
    Zero,
    /// Before the target's.
    Behind,
    /// The target's.
    AtTarget,
}

/// A member, by the client and the number of its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberView {
    id: (usize, u8),
    place: Place,
    state: u8,
    assigned: Vec<Partition>,
    pending: Vec<Partition>,
    target: Option<Vec<Partition>>,
    topics: usize,
    pattern: bool,
    instance: bool,
    /// What it reported when it joined, if it is classic.
    classic: Option<Vec<Vec<u8>>>,
}

/// What the log keeps of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupView {
    is_behind: bool,
    has_no_target: bool,
    members: Vec<MemberView>,
    patterns: Vec<(Arc<str>, Vec<Arc<str>>)>,
}

/// Where an epoch is, as seen from the group's target.
pub fn place_of(epoch: i32, group: &ConsumerGroup) -> Place {
    match epoch {
        AWAY => Place::Away,
        epoch if epoch == group.target_epoch() => Place::AtTarget,
        0 => Place::Zero,
        _ => Place::Behind,
    }
}

fn member_view(group: &ConsumerGroup, id: &str, member: &ConsumerMember, value: &SubscriptionValue) -> MemberView {
    let current = member.current.clone().unwrap_or_else(Current::joining);
    let classic = value.classic.as_ref();
    MemberView {
        id: owner_of(id),
        place: place_of(current.epoch, group),
        state: match current.state {
            MemberState::Stable => 0,
            MemberState::Unrevoked => 1,
            MemberState::Unreleased => 2,
            MemberState::Unknown(_) => 3,
        },
        assigned: current.assigned.keys().copied().collect(),
        pending: current.pending.keys().copied().collect(),
        target: member.target.as_ref().map(|target| target.iter().copied().collect()),
        topics: value.topic_names.len(),
        pattern: ConsumerGroup::pattern_of(value).is_some(),
        instance: value.instance_id.is_some(),
        classic: classic.map(|classic| classic.protocols.iter().map(|(_, metadata)| metadata.to_vec()).collect()),
    }
}

/// What the log keeps of the group.
pub fn view(group: &ConsumerGroup) -> GroupView {
    let patterns = group.patterns().map(|pattern| (Arc::clone(pattern), group.resolved_topics(pattern).to_vec()));
    GroupView {
        is_behind: group.epoch() > group.target_epoch(),
        has_no_target: group.target_timestamp_ms() == 0,
        members: group.members().map(|(id, member, value)| member_view(group, id, member, value)).collect(),
        patterns: patterns.collect(),
    }
}

/// The group without its append in flight; `None`: there would be none, or a classic one.
pub fn durable_view(group: &ConsumerGroup) -> Option<GroupView> {
    let mut before = group.clone();
    for record in group.write.iter().flat_map(|write| &write.undo) {
        before.apply(record);
    }
    Some(before).filter(|before| !before.is_gone()).map(|before| view(&before))
}

/// What the coordinator remembers of the group, but the log does not.
fn put_soft(group: &ConsumerGroup, into: &mut impl Hasher) {
    (group.metadata_until_ms <= START.mono_ms, group.topics_are_new, group.resolution.is_some()).hash(into);
    group.too_many_to_downgrade.hash(into);
    for (_, member, _) in group.members() {
        let armed = [member.session, member.rebalance, member.join, member.sync].map(|deadline| deadline.is_some());
        armed.hash(into);
    }
    if let Some(write) = &group.write {
        durable_view(group).hash(into);
        (write.answer.is_some(), write.cancelled.len()).hash(into);
        match &write.end {
            OnEnd::Nothing => 0_u8.hash(into),
            OnEnd::EndsClassic => 1_u8.hash(into),
            OnEnd::Upgraded(image) => {
                (2_u8, image.is_stable, image.leader.as_deref().map(owner_of)).hash(into);
                for member in &image.members {
                    (owner_of(&member.id), &member.assignment).hash(into);
                    member.protocols.iter().for_each(|offer| offer.metadata.hash(into));
                }
            }
            OnEnd::Downgraded(image, trigger) => {
                (3_u8, trigger.is_some()).hash(into);
                image.members.iter().for_each(|member| (owner_of(&member.id), &member.assignment).hash(into));
            }
        }
    }
    for waiting in &group.waiting {
        put_waiting(&waiting.what, group, into);
        waiting.deadline.is_some().hash(into);
    }
}

fn put_waiting(what: &Later, group: &ConsumerGroup, into: &mut impl Hasher) {
    match what {
        Later::Heartbeat(_, _, beat) => {
            (0_u8, owner_of(&beat.member_id), standing(group, &beat.member_id, beat.member_epoch)).hash(into);
            (&beat.topic_partitions, &beat.subscribed_topic_names).hash(into);
        }
        Later::Describe(_) => 1_u8.hash(into),
        Later::Delete(_) => 2_u8.hash(into),
        Later::Join(_, join) => {
            (3_u8, (!join.member_id.is_empty()).then(|| owner_of(&join.member_id))).hash(into);
            (&join.client_id, join.protocols.first().map(|offer| &offer.metadata)).hash(into);
        }
        Later::Sync(_, sync) => {
            (4_u8, owner_of(&sync.member_id), standing(group, &sync.member_id, sync.generation)).hash(into);
        }
        Later::Leave(_, leave) => {
            5_u8.hash(into);
            leave.members.iter().for_each(|(id, ..)| owner_of(id).hash(into));
        }
        Later::SessionEnded(id) => (6_u8, owner_of(id)).hash(into),
        Later::RebalanceEnded(id, epoch) => (7_u8, owner_of(id), standing(group, id, *epoch)).hash(into),
        Later::JoinEnded(id) => (8_u8, owner_of(id)).hash(into),
        Later::SyncEnded(id) => (9_u8, owner_of(id)).hash(into),
        Later::ResolutionDue => 10_u8.hash(into),
    }
}

/// What an epoch is to a member.
pub fn standing(group: &ConsumerGroup, member_id: &str, known: i32) -> &'static str {
    match group.member(member_id) {
        None => "no member",
        Some(member) => {
            let current = member.current.clone().unwrap_or_else(Current::joining);
            match known {
                _ if current.epoch == AWAY => "away",
                known if known <= 0 => "0 or less",
                known if known == current.epoch => "current",
                known if known == current.previous_epoch => "previous",
                known if known > current.epoch => "ahead",
                _ => "older",
            }
        }
    }
}

/// What a client's epoch is to the coordinator.
pub fn standing_of(world: &World, client: usize) -> &'static str {
    standing_of_epoch(world, client, 0)
}

/// The same of an epoch so many after it.
pub fn standing_of_epoch(world: &World, client: usize, later: i32) -> &'static str {
    let (Some(known), id) = (world.clients[client].epoch, world.id_of(client)) else { return "none" };
    let known = known + later;
    if let Some(group) = world.group() {
        return standing(group, &id, known);
    }
    match world.core.project(GROUP).filter(|group| group.members.iter().any(|member| member.member_id == id)) {
        None => "no member",
        Some(group) if group.generation == known => "current",
        Some(group) if group.generation < known => "ahead",
        Some(_) => "older",
    }
}

/// What a client holds for which its epoch is new enough to commit.
fn committable(world: &World, client: usize) -> Vec<Partition> {
    let (Some(known), Some(current)) = (world.clients[client].epoch, world.current(client)) else { return Vec::new() };
    current.held().filter(|(_, granted)| **granted <= known).map(|(partition, _)| *partition).collect()
}

fn put_client(world: &World, client: usize, put_id: &mut dyn FnMut(&Arc<str>), into: &mut Mixer) {
    let known = &world.clients[client];
    (known.speaks, known.second_id, known.is_fenced, known.was_removed).hash(into);
    (known.topics, standing_of(world, client)).hash(into);
    let places: [&Partitions; 3] = [&known.owned, &known.told, &known.kept];
    places.hash(into);
    let before = world.kept_before.get(client);
    before.map(|before| (before.epoch == known.epoch).then_some(&before.kept)).hash(into);
    committable(world, client).hash(into);
    match &known.phase {
        Phase::Out => 0_u8.hash(into),
        Phase::Joined(listed) => {
            (1_u8, listed.len()).hash(into);
            for (id, owned) in listed {
                (owner_of(id), owned).hash(into);
            }
        }
        Phase::Synced => 2_u8.hash(into),
        Phase::Asked => 3_u8.hash(into),
    }
    match known.waits {
        None => 0_u8.hash(into),
        Some((_, Asked::Beat(epoch))) => (1_u8, epoch == 0).hash(into),
        Some((_, asked)) => (2_u8, std::mem::discriminant(&asked)).hash(into),
    }
    if known.speaks == Speaks::Classic {
        put_id(&known.classic_id);
    }
}

/// A fingerprint of everything.
pub fn fingerprint(world: &World) -> u64 {
    let mut mixer = Mixer::default();
    let mut state = without_deadlines(&world.core, false, &mut mixer);
    if world.bounds.classic {
        for (_, record) in world.log.values().filter(|(_, record)| matches!(**record, rota_core::Record::Group { .. }))
        {
            state.record(record);
        }
    }
    let names = state.into_names();
    names.member_ids.iter().for_each(|id| owner_of(id).hash(&mut mixer));
    let group = world.core.inspect().consumer_groups.get(GROUP);
    group.map(view).hash(&mut mixer);
    if let Some(group) = group {
        put_soft(group, &mut mixer);
    }
    let mut armed: Vec<_> = world.deadlines();
    armed.sort_unstable_by_key(|(_, name, id)| (*name, id.clone()));
    for (_, name, id) in &armed {
        (name, id.as_deref().map(owner_of)).hash(&mut mixer);
    }
    world.topics.hash(&mut mixer);
    let ids: Vec<Arc<str>> = group.iter().flat_map(|group| group.members().map(|(id, ..)| Arc::clone(id))).collect();
    for client in 0..world.clients.len() {
        let mut known = None;
        put_client(world, client, &mut |id| known = Some(Arc::clone(id)), &mut mixer);
        if let Some(id) = known {
            let place = |all: &[Arc<str>]| all.iter().position(|other| *other == id);
            (id.is_empty(), place(&names.member_ids), place(&ids)).hash(&mut mixer);
        }
    }
    mixer.finish()
}

/// What of the group a refused request may not change: what the log keeps, and which deadlines are armed.
pub fn unchanged(world: &World) -> u64 {
    let mut mixer = Mixer::default();
    let state = without_deadlines(&world.core, false, &mut mixer);
    drop(state.into_names());
    let group = world.core.inspect().consumer_groups.get(GROUP);
    group.map(view).hash(&mut mixer);
    let mut armed: Vec<_> = world.deadlines().into_iter().map(|(_, name, id)| (name, id)).collect();
    armed.sort_unstable();
    armed.hash(&mut mixer);
    mixer.finish()
}
