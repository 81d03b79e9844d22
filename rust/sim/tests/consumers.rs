//! Consumer groups of the real core, explored; and explorations that find what is wrong.
//!
//! `ROTA_STATES` is how many states of each of the bounds are explored; `rota-sim consumers` is the long run.

mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::ErrorCode;
use rota_sim::consumers::{
    Ask, Bounds, CHECKS, Cell, Client, Event, Fate, Fault, Found, OF_STATES, SOMETIMES, Said, Speaks, Told, Walked,
    World, cells, explore, walk,
};

use page::{PAGE, row, with_commas};

/// How many events a walk has.
const WALK_LENGTH: usize = 80;

/// Bounds that are seen whole in every run.
const WHOLE: [&str; 2] = ["full-group", "consumers"];

fn states() -> usize {
    std::env::var("ROTA_STATES").ok().map_or(3_000, |value| value.parse().expect("a number"))
}

/// Walks within each of the bounds.
fn walks() -> u64 {
    std::env::var("ROTA_WALKS").ok().map_or(200, |value| value.parse().expect("a number"))
}

fn explored(bounds: &Bounds, states_max: usize, fault: Option<Fault>) -> Found {
    explore(bounds, states_max, 2, fault, &mut |_| true)
}

fn shown(name: &str, found: &Found) -> Option<String> {
    let broken = found.violation.as_ref()?;
    Some(format!("{name}: {}: {}\n{:#?}", broken.id, broken.detail, broken.steps))
}

fn shown_walk(name: &str, walked: &Walked) -> Option<String> {
    let broken = walked.violation.as_ref()?;
    Some(format!("{name}: {}: {}\n{:#?}", broken.id, broken.detail, broken.steps))
}

fn add_walks(bounds: &Bounds, begin: &[Event], length: usize, reached: &mut BTreeMap<Cell, u64>) {
    let walked = walk(bounds, begin, 0..walks(), length, None);
    assert_eq!(shown_walk(bounds.name, &walked), None);
    for (cell, count) in walked.cells {
        *reached.entry(cell).or_insert(0) += count;
    }
}

/// Bounds that have this name, for explorations or walks.
fn named(name: &str) -> Arc<Bounds> {
    let found = Bounds::all().into_iter().chain(Bounds::wide()).find(|bounds| bounds.name == name);
    Arc::new(found.expect("these bounds"))
}

/// These events, each with the appends that it makes. A deadline is found by its name.
fn one_by_one(bounds: &Arc<Bounds>, events: Vec<Event>) -> Vec<Event> {
    let mut world = World::new(bounds);
    let mut all = Vec::new();
    for event in events {
        let place = |name: &str| world.deadlines().iter().position(|(_, armed, _)| *armed == name);
        let event = match event {
            Event::Fire(_, name) => Event::Fire(place(name).expect("it is armed"), name),
            event => event,
        };
        all.push(event);
        world.apply(event);
        while !world.in_flight.is_empty() {
            all.push(Event::End(None));
            world.apply(Event::End(None));
        }
    }
    all
}

fn answered(client: usize, ask: Ask) -> Event {
    Event::Ask(client, ask, Fate::Answered)
}

/// The bounds, and the way.
type Begin = (&'static str, Vec<Event>);

/// Clients that have missed answers.
fn late_clients() -> Vec<Begin> {
    // A member that has heard of none of its last epochs.
    let mut deaf = vec![answered(0, Ask::Join(2)), answered(1, Ask::Join(2)), Event::Apply(0)];
    deaf.extend([1, 2, 1].map(|topics| Event::Ask(0, Ask::Subscribe(topics), Fate::Lost)));
    // A member of epoch 3 whose client knows 1. It waits for what the other one has to give up.
    let late = vec![
        answered(0, Ask::Join(2)),
        answered(1, Ask::Join(2)),
        Event::Fire(0, "ConsumerPatterns"),
        answered(0, Ask::Beat),
        Event::Apply(0),
        Event::Ask(1, Ask::Beat, Fate::Lost),
        answered(0, Ask::Subscribe(0)),
        Event::Ask(1, Ask::Report, Fate::Lost),
    ];
    // One of epoch 3 whose client knows 2. It has to give up what the other one was to have, which has left since.
    let revoking = vec![
        answered(0, Ask::Join(1)),
        Event::Apply(0),
        Event::Ask(0, Ask::Subscribe(2), Fate::Lost),
        answered(1, Ask::Join(1)),
        Event::Ask(0, Ask::Report, Fate::Lost),
        answered(1, Ask::Leave),
    ];
    // One of epoch 4 whose client knows 2, behind the target.
    let behind = vec![
        answered(0, Ask::Join(1)),
        Event::Apply(0),
        Event::Ask(0, Ask::Subscribe(2), Fate::Lost),
        answered(1, Ask::Join(2)),
        Event::Ask(0, Ask::Report, Fate::Lost),
        answered(1, Ask::Leave),
        answered(1, Ask::Join(2)),
    ];
    vec![
        ("patterns-conversion", late),
        ("static-subscriptions", behind),
        ("static-subscriptions", revoking),
        ("static-subscriptions", deaf),
    ]
}

/// Clients of groups that were converted, or are about to be.
fn converted() -> Vec<Begin> {
    // Members of a group of generation 0: all have left before the first join phase ended.
    let at_zero = vec![
        Event::Restart(0, Speaks::Classic),
        answered(0, Ask::ClassicJoin),
        answered(0, Ask::ClassicLeave),
        Event::Restart(0, Speaks::Consumer),
        answered(0, Ask::Join(2)),
        answered(1, Ask::Join(2)),
    ];
    // A classic client that has not heard that it is no member any more, of a consumer group that is Empty.
    let removed = vec![
        Event::Restart(0, Speaks::Classic),
        answered(0, Ask::ClassicJoin),
        Event::Fire(0, "InitialDelay"),
        answered(0, Ask::ClassicSync),
        Event::Fire(0, "Session"),
        answered(1, Ask::Join(1)),
        answered(1, Ask::Leave),
        Event::Restart(1, Speaks::Classic),
    ];
    // A classic client whose newest generation a crash has taken back, and one that has not heard of the generation that
    // the end of the newer protocol has made.
    let synced = [
        Event::Restart(1, Speaks::Classic),
        answered(1, Ask::ClassicJoin),
        Event::Fire(0, "InitialDelay"),
        answered(1, Ask::ClassicSync),
    ];
    let ahead = [&synced[..], &[answered(1, Ask::ClassicJoin), Event::Crash(false)]].concat();
    let left_behind = [&synced[..], &[answered(0, Ask::Join(1)), answered(0, Ask::Leave)]].concat();
    // A client that has not heard that it is no member any more, and its group is gone.
    let gone = vec![
        Event::Restart(1, Speaks::Classic),
        answered(0, Ask::Join(2)),
        Event::Fire(0, "ConsumerSession"),
        answered(1, Ask::ClassicJoin),
    ];
    vec![
        ("held-conversion", ahead),
        ("held-conversion", left_behind),
        ("held-patterns", gone),
        ("patterns-conversion", at_zero.clone()),
        ("held-patterns", at_zero),
        ("held-conversion", removed),
    ]
}

/// States that few walks come to: the bounds, and the way.
fn far_states() -> Vec<(Arc<Bounds>, Vec<Event>)> {
    let begins = late_clients().into_iter().chain(converted());
    let far = begins.map(|(name, way)| (named(name), way));
    far.map(|(bounds, way)| (Arc::clone(&bounds), one_by_one(&bounds, way))).collect()
}

/// Cooperative clients after these events. Before them, the first one has everything as the only classic member.
fn cooperative(bounds: &Arc<Bounds>, way: &[Event]) -> World {
    let begin = [
        Event::Restart(0, Speaks::Classic),
        Event::Ask(0, Ask::ClassicJoin, Fate::Answered),
        Event::Fire(1, "InitialDelay"),
        Event::Ask(0, Ask::ClassicSync, Fate::Answered),
    ];
    played(bounds, begin.iter().chain(way))
}

/// Clients after these events.
fn played<'a>(bounds: &Arc<Bounds>, events: impl IntoIterator<Item = &'a Event>) -> World {
    let mut world = World::new(bounds);
    for event in events {
        world.apply(*event);
    }
    world
}

/// The log refuses the plan of a cooperative group, and a consumer converts the group: the classic member holds what it
/// reports (docs/departures.md D21).
#[test]
fn an_upgrade_without_a_plan_leaves_members_what_they_use() {
    let bounds = Arc::new(Bounds::named("cooperative").expect("these bounds"));
    let way = [
        Event::Ask(0, Ask::ClassicJoin, Fate::Answered),
        Event::Ask(0, Ask::ClassicSync, Fate::Refused(ErrorCode::NotEnoughReplicas)),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
    ];
    let world = cooperative(&bounds, &way);
    assert!(world.group().is_some() && world.is_member(1), "the group is converted");
    assert_eq!(world.clients[0].holds().len(), 2);
    assert_eq!(world.held(0), world.clients[0].holds());
    assert!(world.clients[1].holds().is_empty());
}

/// The window of a removed classic member: it joins a consumer group again under its old id, and uses what another has
/// until `SyncGroup` tells it what it has (docs/exploration.md).
#[test]
fn a_removed_member_that_joins_again_counts_from_its_assignment_on() {
    let bounds = Arc::new(Bounds::named("cooperative").expect("these bounds"));
    let way = [
        Event::Fire(0, "Session"),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
        Event::Ask(0, Ask::ClassicJoin, Fate::Answered),
    ];
    let mut world = cooperative(&bounds, &way);
    assert!(world.is_member(0) && world.is_member(1) && world.clients[0].was_removed);
    assert_eq!(world.clients[0].holds(), world.clients[1].holds());
    world.apply(Event::Ask(0, Ask::ClassicSync, Fate::Answered));
    assert!(!world.clients[0].was_removed && world.clients[0].holds().is_empty());
}

/// The log has no generation before its plan. One that a crash loses is given again, and a static member that knows it is
/// not refused in it (docs/exploration.md).
#[test]
fn a_generation_that_a_crash_loses_is_given_again() {
    let way = [
        Event::Ask(0, Ask::ClassicJoin, Fate::Answered),
        Event::Crash(false),
        Event::Restart(1, Speaks::Classic),
        Event::Ask(1, Ask::ClassicJoin, Fate::Answered),
        Event::Fire(2, "Join"),
        Event::Ask(1, Ask::ClassicSync, Fate::Answered),
    ];
    let mut world = cooperative(&named("static-conversion"), &way);
    assert_eq!(world.clients[0].epoch, world.clients[1].epoch);
    assert!(world.is_member(0) && world.clients[0].was_removed && !world.clients[1].was_removed);
    assert!(world.clients[0].holds().is_superset(&world.clients[1].holds()));
    world.apply(Event::Ask(0, Ask::ClassicSync, Fate::Answered));
    assert!(!world.clients[0].was_removed && world.clients[0].holds().is_disjoint(&world.clients[1].holds()));
}

/// A static member that has missed a join phase joins again, and still uses what another has got. It counts from its
/// `SyncGroup` on in a classic group, too (docs/exploration.md).
#[test]
fn a_member_that_missed_a_join_phase_counts_from_its_assignment_on() {
    let way = [
        Event::Restart(1, Speaks::Classic),
        Event::Ask(1, Ask::ClassicJoin, Fate::Answered),
        Event::Fire(0, "Join"),
        Event::Ask(1, Ask::ClassicSync, Fate::Answered),
        Event::Ask(0, Ask::ClassicJoin, Fate::Answered),
        Event::Ask(1, Ask::ClassicJoin, Fate::Answered),
    ];
    let world = cooperative(&named("static-conversion"), &way);
    assert!(world.is_member(0) && world.clients[0].was_removed && !world.clients[1].was_removed);
    assert_eq!(world.clients[0].epoch, world.clients[1].epoch);
    assert!(!world.clients[0].holds().is_disjoint(&world.clients[1].holds()));
}

/// A member that the log keeps has not lost what it had: it commits for that with the epoch that it knows (C11).
#[test]
fn a_removal_that_the_log_refuses_takes_nothing_from_a_member() {
    let way = [
        Event::Ask(0, Ask::Join(1), Fate::Answered),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
        Event::End(None),
        Event::Fire(2, "ConsumerSession"),
        Event::Ask(0, Ask::Beat, Fate::Answered),
        Event::End(None),
        Event::End(None),
        Event::Crash(true),
    ];
    let mut world = played(&named("held-appends"), &way);
    let kept = world.clients[0].kept.clone();
    assert!(!kept.is_empty());
    world.apply(Event::Fire(0, "ConsumerSession"));
    assert!(!world.is_member(0) && world.clients[0].kept.is_empty());
    world.apply(Event::End(Some(ErrorCode::NotEnoughReplicas)));
    assert!(world.is_member(0) && world.clients[0].kept == kept);
}

/// A member is to give something up as soon as the append in flight is durable. Returns what its client has kept, too.
fn with_a_revocation_in_flight() -> (World, BTreeSet<(u128, i32)>) {
    let way = [
        Event::Ask(0, Ask::Join(1), Fate::Answered),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
        Event::End(None),
        Event::Apply(0),
        Event::Fire(2, "ConsumerSession"),
        Event::Ask(0, Ask::Beat, Fate::Answered),
        Event::End(None),
        Event::End(None),
        Event::Crash(true),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
        Event::Ask(0, Ask::Report, Fate::Answered),
        Event::End(None),
    ];
    let world = played(&named("held-appends"), &way);
    let kept = world.clients[0].kept.clone();
    assert!(world.current(0).is_some_and(|current| !current.pending.is_empty()));
    (world, kept)
}

/// The same of a revocation: a member that the log did not tell to give something up has not given it up.
#[test]
fn a_revocation_that_the_log_refuses_takes_nothing_from_a_member() {
    let (mut world, kept) = with_a_revocation_in_flight();
    world.apply(Event::End(Some(ErrorCode::NotEnoughReplicas)));
    assert!(world.current(0).is_some_and(|current| current.pending.is_empty()));
    assert_eq!((kept.len(), &world.clients[0].kept), (2, &kept));
}

/// And the same once more, of an append that begins when that one has failed.
#[test]
fn an_append_behind_a_revocation_that_the_log_refuses_takes_nothing_from_a_member() {
    let (mut world, kept) = with_a_revocation_in_flight();
    world.apply(Event::Ask(1, Ask::Leave, Fate::Answered));
    for _ in 0..2 {
        world.apply(Event::End(Some(ErrorCode::NotEnoughReplicas)));
        assert_eq!((kept.len(), &world.clients[0].kept), (2, &kept));
    }
}

/// What a member was to give up before an append that fails, it may give up in the same step: the next request of the group
/// acknowledges it. A partition that is granted again has not been held all along.
#[test]
fn a_revocation_of_before_is_over_although_the_log_refuses_an_append() {
    let way = [
        Event::Ask(0, Ask::Join(1), Fate::Answered),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
        Event::End(None),
        Event::Ask(0, Ask::Beat, Fate::Answered),
        Event::Fire(2, "ConsumerSession"),
        Event::End(None),
        Event::Ask(1, Ask::Join(1), Fate::Answered),
        Event::End(None),
        Event::Apply(0),
        Event::Ask(0, Ask::Report, Fate::Answered),
        Event::End(None),
        Event::End(Some(ErrorCode::NotEnoughReplicas)),
        Event::Crash(true),
    ];
    let world = played(&named("held-appends"), &way);
    let again = world.partitions().nth(1).expect("two partitions");
    assert!(world.held(0).contains(&again) && !world.clients[0].kept.contains(&again));
}

/// C1 to C20 as far as a step or a state shows them. Nothing holds only because it never comes up, every cell is reached
/// or has a reason, and the smallest bounds are seen whole. The page has the figures.
#[test]
fn every_state_within_the_bounds_holds_what_it_has_to() {
    let (mut reached, mut checked, mut sometimes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for bounds in Bounds::all() {
        let is_whole = WHOLE.contains(&bounds.name);
        let found = explored(&bounds, if is_whole { usize::MAX } else { states() }, None);
        assert_eq!(shown(bounds.name, &found), None);
        if is_whole {
            assert!(found.complete);
            assert!(PAGE.contains(&row(bounds.name, &found)), "the page should say {}", row(bounds.name, &found));
        }
        for (cell, count) in found.cells {
            *reached.entry(cell).or_insert(0) += count;
        }
        checked.extend(found.checked);
        sometimes.extend(found.sometimes);
    }
    let ids = CHECKS.iter().map(|(id, _)| *id).chain(OF_STATES).chain(["C18"]);
    let silent: Vec<&str> = ids.filter(|id| !checked.contains_key(id)).collect();
    assert!(silent.is_empty(), "no state had anything to say about {silent:?}");
    let never: Vec<&str> = SOMETIMES.into_iter().filter(|name| !sometimes.contains_key(name)).collect();
    assert!(never.is_empty(), "never happened: {never:?}");
    let unknown: Vec<&&str> = sometimes.keys().filter(|name| !SOMETIMES.contains(name)).collect();
    assert!(unknown.is_empty(), "not in the list: {unknown:?}");
    for bounds in Bounds::all().into_iter().chain(Bounds::wide()) {
        add_walks(&bounds, &[], WALK_LENGTH, &mut reached);
    }
    for (bounds, begin) in far_states() {
        add_walks(&bounds, &begin, WALK_LENGTH / 2, &mut reached);
    }
    let (open, both) = cells::unsettled(&reached);
    assert!(open.is_empty(), "neither reached nor argued: {open:#?}");
    assert!(both.is_empty(), "argued that it cannot be, and reached: {both:#?}");
    let (all, reached) = (cells::all().len(), reached.keys().filter(|cell| !cell.1.is_empty()).count());
    let told =
        format!("Of {} cells of the newer protocol, {} occur", with_commas(all as u64), with_commas(reached as u64));
    assert!(PAGE.contains(&told), "the page should say `{told}`");
}

/// However many share the work, the same states are found on the same paths.
#[test]
fn what_is_found_does_not_depend_on_how_many_look_for_it() {
    let bounds = Bounds::named("conversion").expect("these bounds");
    let [one, three] = [1, 3].map(|workers| explore(&bounds, 1_000, workers, None, &mut |_| true));
    assert_eq!((one.states, one.by_depth, one.cells), (three.states, three.by_depth, three.cells));
}

/// An answer grants a partition that another client holds.
fn grant_what_is_held(_: &World, _: Event, after: &mut World, _: &mut Told) {
    let other = after.clients[0].told.clone();
    if after.is_member(0) && after.is_member(1) {
        after.clients[1].told = other;
    }
}

/// A client hears nothing of a new assignment.
fn leave_the_assignment_out(_: &World, _: Event, _: &mut World, told: &mut Told) {
    for (_, said) in &mut told.answers {
        if let Said::Beat(_, _, assignment) = said {
            *assignment = None;
        }
    }
}

/// An answer has an epoch that the log has not.
fn tell_the_next_epoch(_: &World, _: Event, _: &mut World, told: &mut Told) {
    for (_, said) in &mut told.answers {
        if let Said::Beat(ErrorCode::None, epoch, _) = said {
            *epoch += 1;
        }
    }
}

/// A refused heartbeat removes its member.
fn remove_who_is_refused(_: &World, event: Event, after: &mut World, told: &mut Told) {
    let is_fenced = told.answers.iter().any(|(_, said)| said.error() == ErrorCode::FencedMemberEpoch);
    if let Event::Ask(client, ..) = event
        && is_fenced
    {
        after.clients[client] = Client::default();
        after.apply(Event::Ask(client, Ask::Leave, Fate::Answered));
    }
}

/// A revocation is acknowledged by a heartbeat without a report.
fn acknowledge_in_silence(before: &World, event: Event, after: &mut World, told: &mut Told) {
    if let Event::Ask(client, Ask::Beat, Fate::Answered) = event
        && told.answers.iter().all(|(_, said)| said.error() == ErrorCode::None)
    {
        let mut other = before.clone();
        let known = &mut other.clients[client];
        known.owned.clone_from(&known.told);
        *told = other.apply(Event::Ask(client, Ask::Report, Fate::Answered));
        let kept = before.clients[client].owned.clone();
        *after = other;
        after.clients[client].owned = kept;
    }
}

/// A member that goes has gone for good, whatever it said.
fn remove_who_goes_away(before: &World, event: Event, after: &mut World, told: &mut Told) {
    if let Event::Ask(client, Ask::LeaveStatic, fate) = event {
        let mut other = before.clone();
        *told = other.apply(Event::Ask(client, Ask::Leave, fate));
        *after = other;
    }
}

/// A converted group forgets its records in a crash.
fn lose_the_log(_: &World, event: Event, after: &mut World, _: &mut Told) {
    if matches!(event, Event::Ask(..)) && after.clients.iter().any(|known| known.speaks == Speaks::Classic) {
        after.log = std::sync::Arc::default();
    }
}

#[test]
fn planted_violations_are_found() {
    let planted: [(&str, Fault, &[&str]); 7] = [
        ("consumers", grant_what_is_held, &["C2"]),
        ("consumers", leave_the_assignment_out, &["C8"]),
        ("consumers", tell_the_next_epoch, &["C9"]),
        ("consumers", remove_who_is_refused, &["C12"]),
        ("consumers", acknowledge_in_silence, &["C2", "C6"]),
        ("static-consumers", remove_who_goes_away, &["C10"]),
        ("conversion", lose_the_log, &["C9", "C13"]),
    ];
    for (name, fault, ids) in planted {
        let bounds = Bounds::named(name).expect("these bounds");
        let found = explored(&bounds, 20_000, Some(fault));
        let violation = found.violation.unwrap_or_else(|| panic!("{ids:?} is not found"));
        assert!(ids.contains(&&*violation.id), "{}: {}\n{:#?}", violation.id, violation.detail, violation.steps);
        let walked = walk(&bounds, &[], 0..200, WALK_LENGTH, Some(fault));
        assert!(walked.violation.is_some(), "walks do not find {ids:?}");
    }
}
