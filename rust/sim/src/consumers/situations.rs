//! What should come up at least once: beside each check something that it could have found.

use rota_core::{
    ErrorCode,
    consumer_group::group::{AWAY, ConsumerMember, MemberState},
};

use super::{
    checks::Taken,
    client::{Asked, Said, Speaks},
    event::{Event, Fate},
    events::Cell,
    world::World,
};
use crate::search::Expansion;

/// All situations.
pub const SOMETIMES: [&str; 23] = [
    "a member has to revoke",
    "a revocation is acknowledged",
    "acknowledged, and waits for others",
    "the last partition is released",
    "a client still processes what it has to give up",
    "a revocation takes too long",
    "a member is away",
    "a member that was away returns",
    "an epoch is fenced",
    "an instance is fenced",
    "an instance is not released",
    "a member that is gone gets an error",
    "the group is full",
    "an append fails",
    "an answer is lost with its records durable",
    "a request waits for an append",
    "a deadline waits for an append",
    "a group is loaded",
    "a commit with an older epoch is stored",
    "a commit with an older epoch is refused",
    "a classic group is converted",
    "a consumer group becomes classic",
    "a classic member is asked to join again",
];

/// Notes what a step shows.
pub fn note(taken: &Taken<'_>, into: &mut Expansion<'_, Cell>) {
    let seen = of_members(taken).chain(of_answers(taken)).chain(of_the_group(taken));
    seen.for_each(|situation| into.note(situation));
}

fn of_members<'a>(taken: &'a Taken<'_>) -> impl Iterator<Item = &'static str> + use<'a> {
    let state = |world: &World, client: usize| world.current(client).map(|current| (current.state, current.epoch));
    (0..taken.before.clients.len()).flat_map(move |client| {
        let known = &taken.after.clients[client];
        let late = taken.after.is_member(client) && known.speaks == Speaks::Consumer;
        let late = late && !known.owned.is_subset(&known.told);
        let moved = match (state(taken.before, client), state(taken.after, client)) {
            (Some((_, before)), Some((_, AWAY))) if before != AWAY => Some("a member is away"),
            (Some((MemberState::Stable, _)), Some((MemberState::Unrevoked, _))) => Some("a member has to revoke"),
            (Some((MemberState::Unrevoked, _)), Some((MemberState::Stable, _))) => Some("a revocation is acknowledged"),
            (Some((MemberState::Unrevoked, _)), Some((MemberState::Unreleased, _))) => {
                Some("acknowledged, and waits for others")
            }
            (Some((MemberState::Unreleased, _)), Some((MemberState::Stable, _))) => {
                Some("the last partition is released")
            }
            _ => None,
        };
        moved.into_iter().chain(late.then_some("a client still processes what it has to give up"))
    })
}

fn of_answers<'a>(taken: &'a Taken<'_>) -> impl Iterator<Item = &'static str> + use<'a> {
    taken.told.answers.iter().filter_map(|(whom, said)| {
        let asked = whom.map(|(_, asked)| asked);
        match (asked, said.error()) {
            (_, ErrorCode::FencedMemberEpoch) => Some("an epoch is fenced"),
            (_, ErrorCode::FencedInstanceId) => Some("an instance is fenced"),
            (_, ErrorCode::UnreleasedInstanceId) => Some("an instance is not released"),
            (Some(Asked::Beat(epoch)), ErrorCode::UnknownMemberId) if epoch > 0 => {
                Some("a member that is gone gets an error")
            }
            (_, ErrorCode::GroupMaxSizeReached) => Some("the group is full"),
            (Some(Asked::ClassicBeat), ErrorCode::RebalanceInProgress) if taken.after.group().is_some() => {
                Some("a classic member is asked to join again")
            }
            (None, ErrorCode::StaleMemberEpoch) => Some("a commit with an older epoch is refused"),
            _ => None,
        }
    })
}

fn of_the_group(taken: &Taken<'_>) -> impl Iterator<Item = &'static str> {
    let Taken { before, event, after, told } = *taken;
    let waits = |world: &World, timers: bool| {
        let waiting = world.group().into_iter().flat_map(|group| &group.waiting);
        waiting.filter(|waiting| waiting.what.ticket().is_none() == timers).count()
    };
    let is_returning = match event {
        Event::Ask(client, _, Fate::Answered) => before.instance_of(client).is_some_and(|instance| {
            let owner = |world: &World| world.group().and_then(|group| group.instance(instance).cloned());
            let was_away =
                before.group().zip(owner(before)).and_then(|(group, id)| group.member(&id)).map(ConsumerMember::epoch);
            was_away == Some(AWAY) && owner(after).is_some_and(|id| id == after.id_of(client))
        }),
        _ => false,
    };
    let stored_late = match event {
        Event::Probe(client, _) => {
            let known = before.clients[client].epoch;
            let is_older = before.current(client).zip(known).is_some_and(|(current, known)| known < current.epoch);
            is_older && matches!(told.said(None), Some(Said::Other(ErrorCode::CoordinatorNotAvailable)))
        }
        _ => false,
    };
    let lost = matches!(event, Event::Ask(_, _, Fate::Lost)) && told.wrote;
    let became = |from: &World, to: &World| from.is_classic() && to.group().is_some_and(|group| !group.is_empty());
    [
        (matches!(event, Event::Fire(_, "ConsumerRebalance")) && told.wrote, "a revocation takes too long"),
        (told.failed.is_some(), "an append fails"),
        (lost, "an answer is lost with its records durable"),
        (waits(after, false) > waits(before, false), "a request waits for an append"),
        (waits(after, true) > waits(before, true), "a deadline waits for an append"),
        (matches!(event, Event::Crash(_)) && before.group().is_some(), "a group is loaded"),
        (is_returning, "a member that was away returns"),
        (stored_late, "a commit with an older epoch is stored"),
        (before.group().is_none() && became(before, after), "a classic group is converted"),
        (after.group().is_none() && became(after, before), "a consumer group becomes classic"),
    ]
    .into_iter()
    .filter_map(|(is_so, situation)| is_so.then_some(situation))
}
