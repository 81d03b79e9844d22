//! Whether a group comes to rest when its clients behave and nothing fails any more: C18 and C20.

use std::sync::Arc;

use rota_core::consumer_group::group::GroupState;

use super::{
    client::{Phase, Speaks},
    event::{Ask, Event, Fate},
    world::{GROUP, World, assigned, owner_of},
};

/// Rounds in which every client does what is next. Each revocation takes two: one whose answer has it, one to report it.
const ROUNDS_MAX: usize = 12;

/// So many deadlines fire in a row: the join phase of absent static members begins anew each time (departure D12).
const FIRINGS_MAX: usize = 20;

/// Before these rounds the members without a client end: some have a session only when a join phase is over.
const FORGETTING: [usize; 2] = [0, 4];

/// Ends what has begun, and lets every client go on until all have what they are to have.
pub fn settles(world: &World) -> Result<(), String> {
    let mut world = world.clone();
    end_appends(&mut world);
    for round in 0..ROUNDS_MAX {
        if is_at_rest(&world) {
            return Ok(());
        }
        if FORGETTING.contains(&round) {
            forget_strangers(&mut world);
        }
        for client in 0..world.clients.len() {
            next_of(&mut world, client, round == 0);
        }
        fire(&mut world, |name, _| ["ConsumerPatterns", "InitialDelay"].contains(&name));
        // Who joins and syncs has done so: the others are not heard of any more.
        if world.clients.iter().any(|known| known.waits.is_some()) {
            fire(&mut world, |name, _| ["Join", "Sync"].contains(&name));
        }
    }
    Err(format!(
        "after {ROUNDS_MAX} rounds: {:?}, clients {:?}",
        world.group().map(super::canonical::view),
        world.clients
    ))
}

fn end_appends(world: &mut World) {
    while !world.in_flight.is_empty() {
        world.apply(Event::End(None));
    }
}

fn fire(world: &mut World, chosen: impl Fn(&str, Option<&str>) -> bool) {
    for _ in 0..FIRINGS_MAX {
        let armed = world.deadlines().into_iter().enumerate();
        let Some((at, (_, name, _))) = { armed }.find(|(_, (_, name, id))| chosen(name, id.as_deref())) else { return };
        world.apply(Event::Fire(at, name));
        end_appends(world);
    }
}

/// Members whose client has another id now are not heard of any more.
fn forget_strangers(world: &mut World) {
    let own: Vec<Option<Arc<str>>> = (0..world.clients.len())
        .map(|client| {
            // An instance whose client does not know that it is a member is not released before its session has ended.
            let is_lost = world.instance_of(client).is_some() && world.clients[client].epoch.is_none();
            (!is_lost).then(|| world.id_of(client))
        })
        .collect();
    let is_stranger = |id: Option<&str>| id.is_some_and(|id| own[owner_of(id).0].as_deref() != Some(id));
    fire(world, |name, id| ["ConsumerSession", "Session", "NewMember"].contains(&name) && is_stranger(id));
    // The join phase of a classic group ends without those who were forgotten.
    fire(world, |name, id| name == "Pending" && is_stranger(id));
}

fn next_of(world: &mut World, client: usize, is_first: bool) {
    let known = &world.clients[client];
    if known.waits.is_some() {
        return;
    }
    if known.speaks == Speaks::Consumer && known.owned != known.told {
        world.apply(Event::Apply(client));
    }
    let known = &world.clients[client];
    let topics = world.bounds.topics;
    let ask = match (known.speaks, known.epoch, &known.phase) {
        // Epoch 0 is that of a member whose join has changed nothing: a heartbeat of it is a join again.
        (Speaks::Consumer, None | Some(0), _) => Ask::Join(topics),
        (Speaks::Consumer, Some(_), _) if is_first => Ask::Full,
        (Speaks::Consumer, Some(_), _) => Ask::Report,
        (Speaks::Classic, _, Phase::Out | Phase::Asked) => Ask::ClassicJoin,
        (Speaks::Classic, _, Phase::Joined(_)) => Ask::ClassicSync,
        (Speaks::Classic, _, Phase::Synced) => Ask::ClassicBeat,
    };
    world.apply(Event::Ask(client, ask, Fate::Answered));
    end_appends(world);
}

fn is_at_rest(world: &World) -> bool {
    let each_is_member = (0..world.clients.len()).all(|client| {
        let known = &world.clients[client];
        world.is_member(client) && known.waits.is_none() && known.owned == known.told
    });
    // Where the group is full, not every client is a member.
    let may_be_out = world.bounds.max_size < world.clients.len() as u32;
    let Some(group) = world.group() else {
        let classic = world.core.project(GROUP);
        let Some(classic) = classic.filter(|group| group.state == rota_core::State::Stable) else { return false };
        let has_its_part = |client: usize| {
            let known = &world.clients[client];
            let member = classic.members.iter().find(|member| *member.member_id == *world.id_of(client));
            known.phase == Phase::Synced && member.is_some_and(|member| assigned(&member.assignment) == known.told)
        };
        return (0..world.clients.len()).all(has_its_part);
    };
    let owns = |client: usize| {
        let Some(member) = group.member(&world.id_of(client)) else { return may_be_out };
        let target = member.target.clone().unwrap_or_default();
        member.is_reconciled(group.target_epoch()) && (target == world.clients[client].owned)
    };
    group.state() == GroupState::Stable && (may_be_out || each_is_member) && (0..world.clients.len()).all(owns)
}
