//! Every event that the bounds allow in a state, and the cell that it is in.

use rota_core::{
    ErrorCode,
    consumer_group::group::{AWAY, GroupState, MemberState},
};

use super::{
    canonical::{standing_of, standing_of_epoch},
    client::{Client, Phase, Speaks},
    event::{Ask, Event, Fate, Probe},
    world::World,
};

/// The state of the group and of the sender's member, the event, and whose it is.
pub type Cell = (&'static str, &'static str, &'static str);

/// Members beyond the clients: those whose client does not know them any more.
const GHOSTS_MAX: usize = 1;

/// The errors with which an append fails.
fn failures(world: &World) -> &'static [ErrorCode] {
    const ALL: [ErrorCode; 2] = [ErrorCode::NotEnoughReplicas, ErrorCode::RecordListTooLarge];
    if world.bounds.classic { &ALL } else { &ALL[..1] }
}

/// Every event of a state.
pub fn events(world: &World) -> Vec<Event> {
    let mut events = Vec::new();
    for client in 0..world.clients.len() {
        of_client(world, client, &mut events);
    }
    for (at, (_, name, _)) in world.deadlines().iter().enumerate() {
        events.push(Event::Fire(at, name));
    }
    if !world.in_flight.is_empty() {
        events.push(Event::End(None));
        events.extend(failures(world).iter().map(|error| Event::End(Some(*error))));
        events.push(Event::Crash(true));
    }
    events.push(Event::Crash(false));
    if world.bounds.patterns {
        events.push(if world.topics < world.bounds.topics { Event::Create } else { Event::Delete });
    }
    events
}

fn of_client(world: &World, client: usize, events: &mut Vec<Event>) {
    let known = &world.clients[client];
    if known.owned != known.told && known.speaks == Speaks::Consumer {
        events.push(Event::Apply(client));
    }
    if known.waits.is_some() {
        return events.push(Event::GiveUp(client));
    }
    let is_static = world.instance_of(client).is_some();
    let is_out = known.epoch.is_none() && known.phase == Phase::Out;
    for speaks in [Speaks::Consumer, Speaks::Classic] {
        let changes = speaks != known.speaks && world.bounds.classic && (is_out || is_static);
        if changes || is_static && speaks == known.speaks {
            events.push(Event::Restart(client, speaks));
        }
    }
    let mut asks = Vec::new();
    match known.speaks {
        Speaks::Consumer => consumer_asks(world, known, is_static, &mut asks),
        Speaks::Classic => classic_asks(known, &mut asks),
    }
    for ask in asks {
        events.push(Event::Ask(client, ask, Fate::Answered));
        if !world.bounds.held {
            events.push(Event::Ask(client, ask, Fate::Lost));
            events.extend(failures(world).iter().map(|error| Event::Ask(client, ask, Fate::Refused(*error))));
        }
    }
    if world.bounds.invalid {
        events.extend(probes(world, known).map(|probe| Event::Probe(client, probe)));
    }
}

fn consumer_asks(world: &World, known: &Client, is_static: bool, asks: &mut Vec<Ask>) {
    let bounds = &world.bounds;
    let least = if bounds.resubscribes { 1 } else { bounds.topics };
    asks.extend((least..=bounds.topics).map(Ask::Join));
    if known.epoch.is_none() {
        return;
    }
    asks.extend([Ask::Beat, Ask::Leave]);
    asks.extend(is_static.then_some(Ask::LeaveStatic));
    // A report ends the hold of what it lacks: no client sends one before it has carried out what it was granted.
    if known.told.is_subset(&known.owned) {
        asks.extend([Ask::Report, Ask::Full]);
        if bounds.resubscribes {
            asks.extend((0..=bounds.topics).map(Ask::Subscribe));
        }
    }
}

fn classic_asks(known: &Client, asks: &mut Vec<Ask>) {
    asks.push(Ask::ClassicJoin);
    match known.phase {
        Phase::Out => {}
        Phase::Joined(_) => asks.push(Ask::ClassicSync),
        Phase::Synced | Phase::Asked => asks.push(Ask::ClassicBeat),
    }
    if !known.classic_id.is_empty() {
        asks.push(Ask::ClassicLeave);
    }
}

fn probes(world: &World, known: &Client) -> impl Iterator<Item = Probe> {
    let commits = (0..world.bounds.partitions).map(Probe::Commit).chain([Probe::CommitAhead, Probe::CommitSimple]);
    let heartbeats = match known.speaks {
        Speaks::Consumer => vec![Probe::Ahead, Probe::Behind, Probe::Stranger, Probe::OtherInstance],
        Speaks::Classic => vec![Probe::ClassicAhead],
    };
    // With an append in flight a commit would wait for it.
    let commits = commits.filter(|_| world.in_flight.is_empty());
    let heartbeats = heartbeats.into_iter().filter(|_| world.group().is_none_or(|group| group.write.is_none()));
    let all: Vec<Probe> = commits.chain(heartbeats).filter(|_| known.epoch.is_some()).collect();
    all.into_iter()
}

/// Whether the bounds allow this state.
pub fn within(world: &World) -> bool {
    world.core.member_count() <= world.clients.len() + GHOSTS_MAX && world.in_flight.len() <= 2
}

/// The state of the group and of a client's member.
fn state_of(world: &World, client: Option<usize>) -> &'static str {
    let Some(group) = world.group() else {
        return if world.is_classic() { "classic group" } else { "no group" };
    };
    if group.write.is_some() {
        return "an append in flight";
    }
    if group.is_empty() {
        return "Empty";
    }
    let own = client.map(|client| world.id_of(client));
    let member = own.as_ref().and_then(|id| group.member(id));
    let Some(member) = member else {
        return match group.state() {
            GroupState::Assigning => "Assigning",
            GroupState::Reconciling => "Reconciling",
            GroupState::Stable | GroupState::Empty => "Stable",
        };
    };
    let state = member.current.as_ref().map_or(MemberState::Stable, |current| current.state);
    match (state, group.epoch() > group.target_epoch()) {
        _ if member.epoch() == AWAY => "member away",
        _ if member.is_classic() => "classic member",
        (MemberState::Unrevoked, false) => "member revokes",
        (MemberState::Unrevoked, true) => "member revokes, Assigning",
        (MemberState::Unreleased, false) => "member waits",
        (MemberState::Unreleased, true) => "member waits, Assigning",
        (_, true) => "member, Assigning",
        _ if member.epoch() == group.target_epoch() => "member at the target",
        _ => "member behind the target",
    }
}

/// All states of a cell.
pub const STATES: [&str; 16] = [
    "no group",
    "classic group",
    "an append in flight",
    "Empty",
    "Assigning",
    "Reconciling",
    "Stable",
    "member away",
    "classic member",
    "member revokes",
    "member revokes, Assigning",
    "member waits",
    "member waits, Assigning",
    "member, Assigning",
    "member at the target",
    "member behind the target",
];

/// The requests of a cell.
pub const REQUESTS: [&str; 12] = [
    "Join",
    "Beat",
    "Report",
    "Full",
    "Subscribe",
    "Leave",
    "LeaveStatic",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "Commit",
];

/// Whose requests these are, by the epoch that the sender knows.
pub const SENDERS: [&str; 11] = [
    "none",
    "no member",
    "away",
    "0 or less",
    "current",
    "previous",
    "older",
    "ahead",
    "stranger",
    "other instance",
    "without id",
];

/// The cell of an event. Of one that is no request it is the state of the group alone.
pub fn cell_of(world: &World, event: Event) -> Cell {
    match event {
        Event::Ask(client, ask, _) => {
            let sender = if matches!(ask, Ask::Join(_)) { "none" } else { standing_of(world, client) };
            (state_of(world, Some(client)), ask.kind(), sender)
        }
        Event::Probe(client, probe) => {
            let (kind, sender) = probe.cell();
            let sender = match sender {
                "known" => standing_of(world, client),
                "one behind" => standing_of_epoch(world, client, -1),
                sender => sender,
            };
            let whose = (!["stranger", "without id"].contains(&sender)).then_some(client);
            (state_of(world, whose), kind, sender)
        }
        _ => (state_of(world, None), "", ""),
    }
}
