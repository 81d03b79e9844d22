//! Random steps through the core and the naive coordinator, compared after each one; what differs is made small.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rota_core::{Config, ErrorCode, State};

use crate::{
    dice::Dice,
    step::{Ask, Step, Who},
    world::{Effects, START_MS, World},
};

/// Two coordinators that do not agree.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The settings.
    pub config: Config,
    /// The shortest steps that were found to show it.
    pub steps: Vec<Step>,
    /// How many steps it took to find it.
    pub after: u64,
    /// What differs.
    pub told: String,
}

/// Small limits and short times, another mix for every seed.
pub fn config(seed: u64) -> Config {
    let of = |shift: u32, choices: &[u32]| choices[(seed >> shift) as usize % choices.len()];
    Config {
        group_min_session_timeout_ms: of(4, &[0, 1]) as i32,
        group_initial_rebalance_delay_ms: of(1, &[0, 100, 700]),
        group_max_size: of(0, &[3, 6]),
        group_max_pending_members: 3,
        offset_metadata_max_bytes: 4,
        offsets_commit_timeout_ms: of(2, &[5_000, 500]),
        rebalance_history: 4,
        offsets_retention_minutes: 1,
        offsets_retention_check_interval_ms: u64::from(of(3, &[10_000, 70_000])),
        ..Config::default()
    }
}

/// Walks `steps` steps from one seed. `Err`: the first difference, shrunk.
pub fn walk(seed: u64, steps: u64) -> Result<(), Box<Difference>> {
    let config = config(seed);
    let mut world = World::new(&config, true);
    let mut dice = Dice::new(seed);
    let mut taken: Vec<Step> = Vec::new();
    let mut effects = Effects::default();
    for at in 0..steps {
        let step = propose(&world, &mut dice, at as u32);
        let applied = apply(&mut world, &step, &mut effects);
        taken.push(step);
        if applied.is_err() {
            return Err(Box::new(shrink(&config, taken)));
        }
        if at % 64 == 0 {
            world.forget_old_ids();
        }
    }
    Ok(())
}

/// A walk from each of these seeds, shared out to threads. `Err`: the difference of the lowest seed that has one,
/// however many threads there are.
pub fn walks(seeds: Range<u64>, steps: u64, workers: usize) -> Result<(), (u64, Box<Difference>)> {
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let found: Mutex<Option<(u64, Box<Difference>)>> = Mutex::new(None);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end.load(Ordering::Relaxed) {
            return;
        }
        if let Err(difference) = walk(seed, steps) {
            end.fetch_min(seed, Ordering::Relaxed);
            let mut lowest = found.lock().unwrap_or_else(PoisonError::into_inner);
            if lowest.as_ref().is_none_or(|(other, _)| seed < *other) {
                *lowest = Some((seed, difference));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Does a step in both; a panic is a difference, too. The world is of no use after one.
fn apply(world: &mut World, step: &Step, effects: &mut Effects) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| world.apply(step, effects))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("a coordinator panicked: {}", text.unwrap_or_default()))
    })
}

/// The first step after which both differ, and what differs.
pub fn replay(config: &Config, steps: &[Step], in_words: bool) -> Option<(usize, String)> {
    let mut world = World::new(config, true);
    let mut effects = Effects::default();
    for (at, step) in steps.iter().enumerate() {
        effects.words = in_words.then(Vec::new);
        if let Err(told) = apply(&mut world, step, &mut effects) {
            return Some((at, told));
        }
        if at % 64 == 0 {
            world.forget_old_ids();
        }
    }
    None
}

/// Leaves out ever smaller parts, as long as something still differs; then lets adjacent waits be one.
pub fn shrink(config: &Config, mut steps: Vec<Step>) -> Difference {
    let after = steps.len() as u64;
    let mut part = steps.len().div_ceil(2);
    while part > 0 {
        let before = steps.len();
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + part).min(steps.len()));
            if !keep_if_it_differs(config, fewer, &mut steps) {
                from += part;
            }
        }
        if part == 1 {
            join_waits(config, &mut steps);
        }
        part = if part > 1 { part / 2 } else { usize::from(steps.len() < before) };
    }
    let told = replay(config, &steps, true).map_or_else(|| "nothing any more".to_owned(), |(_, told)| told);
    Difference { config: config.clone(), steps, after, told }
}

/// Whether these steps show a difference; then they are the steps from now on, up to it.
fn keep_if_it_differs(config: &Config, mut fewer: Vec<Step>, steps: &mut Vec<Step>) -> bool {
    let Some((at, _)) = replay(config, &fewer, false) else { return false };
    fewer.truncate(at + 1);
    *steps = fewer;
    true
}

fn join_waits(config: &Config, steps: &mut Vec<Step>) {
    let mut at = 0;
    while at + 1 < steps.len() {
        if let (Step::Tick(first), Step::Tick(second)) = (&steps[at], &steps[at + 1]) {
            let mut fewer = steps.clone();
            fewer.splice(at..at + 2, [Step::Tick(first + second)]);
            if keep_if_it_differs(config, fewer, steps) {
                continue;
            }
        }
        at += 1;
    }
}

const ERRORS: [ErrorCode; 7] = [
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::RequestTimedOut,
    ErrorCode::NotEnoughReplicas,
    ErrorCode::MessageTooLarge,
    ErrorCode::NetworkException,
    ErrorCode::KafkaStorageError,
    ErrorCode::InvalidRecord,
];

/// A step that suits the state, mostly.
pub fn propose(world: &World, dice: &mut Dice, seed: u32) -> Step {
    let group = u8::from(dice.chance(20));
    let ask = |ask| Step::Request { group, seed, ask };
    match dice.roll(200) {
        0..12 => {
            let instance = dice.chance(60).then(|| dice.roll(3) as u8);
            ask(join(dice, Who::Nobody, instance, None))
        }
        12..46 => {
            let (who, instance) = somebody(world, dice, group);
            let before = offered(world, group, who);
            let before = before.filter(|_| dice.chance(70));
            ask(join(dice, who, instance, before))
        }
        46..54 => match static_member(world, dice, group) {
            Some((instance, before)) => {
                let before = before.filter(|_| dice.chance(90));
                ask(join(dice, Who::Nobody, Some(instance), before))
            }
            None => Step::Tick(1),
        },
        54..88 => {
            let (who, instance) =
                if dice.chance(40) { leader(world, dice, group) } else { somebody(world, dice, group) };
            let generation = generation(dice);
            let version = dice.pick(&[0, 3, 4, 5, 5]);
            let protocol = if dice.chance(94) { u8::from(version == 5) } else { dice.roll(4) as u8 };
            let plan = if dice.chance(80) { 0 } else { dice.roll(3) as u8 };
            ask(Ask::Sync { who, instance, generation, version, protocol, plan })
        }
        88..102 => {
            let (who, instance) = somebody(world, dice, group);
            ask(Ask::Heartbeat { who, instance, generation: generation(dice) })
        }
        102..107 => {
            let version = dice.pick(&[1, 5, 5]);
            let several = if version < 3 { 1 } else { dice.roll(4) };
            let members = (0..several).map(|_| {
                let (who, instance) = somebody(world, dice, group);
                if instance.is_some() && dice.chance(25) { (Who::Nobody, instance) } else { (who, instance) }
            });
            let members = members.collect();
            ask(Ask::Leave { version, members })
        }
        107..119 => ask(commit(world, dice, group)),
        119..124 => ask(Ask::Fetch { is_stable: dice.chance(70), all: dice.chance(50) }),
        124..125 => ask(Ask::Describe { version: dice.pick(&[5, 6]) }),
        125..126 => ask(Ask::List { stable: dice.chance(50) }),
        126..155 => Step::Tick(wait(world, dice)),
        155..193 if !world.in_flight.is_empty() => {
            let at = if dice.chance(85) { 0 } else { dice.roll(world.in_flight.len().min(256)) as u8 };
            Step::End { at, error: dice.chance(25).then(|| dice.pick(&ERRORS)) }
        }
        193 => Step::Forget(dice.pick(&["t", "u"])),
        194..196 => ask(Ask::DeleteGroup),
        196..199 => ask(Ask::OffsetDelete { topic: dice.roll(2) as u8, from: dice.roll(4) as u8 }),
        199 if dice.chance(10) => Step::Reload { kept: dice.roll(1 << 16) as u32 },
        _ => Step::Tick(dice.roll(3) as u32),
    }
}

fn join(dice: &mut Dice, who: Who, instance: Option<u8>, before: Option<(u8, u8)>) -> Ask {
    let (offer, topics) = before.unwrap_or_else(|| {
        let offer = if dice.chance(98) { dice.roll(5) } else { 5 };
        (offer as u8, if dice.chance(80) { 0 } else { dice.roll(3) as u8 })
    });
    Ask::Join {
        who,
        instance,
        version: if instance.is_some() { dice.pick(&[5, 8, 9]) } else { dice.pick(&[0, 3, 4, 5, 9]) },
        session: if dice.chance(98) { dice.roll(3) } else { 3 } as u8,
        rebalance: dice.roll(5) as u8,
        fits: dice.chance(98),
        offer,
        topics,
    }
}

fn commit(world: &World, dice: &mut Dice, group: u8) -> Ask {
    let (mut who, mut instance) = somebody(world, dice, group);
    let mut generation = Some(generation(dice));
    if dice.chance(20) {
        (who, instance, generation) = (Who::Nobody, None, None);
    } else if dice.chance(5) {
        generation = None;
    }
    Ask::Commit {
        who,
        instance,
        generation,
        version: dice.pick(&[8, 9]),
        topic: dice.roll(2) as u8,
        index: dice.roll(2) as u8,
        retention: if dice.chance(80) { 0 } else { dice.roll(4) as u8 },
        is_long: dice.chance(3),
    }
}

fn generation(dice: &mut Dice) -> i32 {
    if dice.chance(93) { 0 } else { dice.pick(&[-1, -1, 1]) }
}

/// To a deadline, to the moment before it, or behind it.
fn wait(world: &World, dice: &mut Dice) -> u32 {
    let next = world.core.next_deadline().map_or(1_000, |next| next.saturating_sub(world.now.mono_ms));
    // Where the cleaner would run, so that offsets are committed just one retention before one of its runs.
    let interval_ms = world.config.offsets_retention_check_interval_ms;
    let ms = match dice.roll(11) {
        0..3 => next.saturating_sub(1),
        3..7 => next,
        7 => next + 1,
        10 => interval_ms - (world.now.mono_ms - START_MS) % interval_ms,
        8 => dice.roll(400) as u64,
        _ => dice.roll(4_000) as u64,
    };
    ms.min(80_000) as u32
}

/// The number of an instance id.
pub(crate) fn index_of(name: &str) -> Option<u8> {
    crate::step::INSTANCES.iter().position(|instance| *instance == name).map(|at| at as u8)
}

/// A member as the group has it; an id that was heard of once; or a stranger.
fn somebody(world: &World, dice: &mut Dice, group: u8) -> (Who, Option<u8>) {
    let (who, mut instance) = match dice.roll(100) {
        0..80 => present(world, dice, group),
        80..96 if !world.known.is_empty() => Some((Who::Minted(world.known[dice.roll(world.known.len())]), None)),
        _ => None,
    }
    .unwrap_or((Who::Stranger, None));
    match dice.roll(20) {
        0 => instance = Some(dice.roll(3) as u8),
        1 => instance = None,
        _ => {}
    }
    (who, instance)
}

fn present(world: &World, dice: &mut Dice, group: u8) -> Option<(Who, Option<u8>)> {
    let view = world.views[usize::from(group)].as_ref()?;
    let at = dice.roll((view.members.len() + view.pending.len()).max(1));
    if let Some(member) = view.members.get(at) {
        let instance = member.instance_id.as_deref().and_then(index_of);
        return Some((Who::Minted(*world.seeds.get(&member.member_id)?), instance));
    }
    let (pending, _) = view.pending.get(at - view.members.len())?;
    Some((Who::Minted(*world.seeds.get(pending)?), None))
}

fn leader(world: &World, dice: &mut Dice, group: u8) -> (Who, Option<u8>) {
    let found = world.views[usize::from(group)].as_ref().filter(|view| view.state != State::Empty).and_then(|view| {
        let leader = view.members.iter().find(|member| Some(&member.member_id) == view.leader.as_ref())?;
        let instance = leader.instance_id.as_deref().and_then(index_of);
        Some((Who::Minted(*world.seeds.get(&leader.member_id)?), instance))
    });
    found.unwrap_or_else(|| somebody(world, dice, group))
}

/// An instance of the group, and what its member offers.
fn static_member(world: &World, dice: &mut Dice, group: u8) -> Option<(u8, Option<(u8, u8)>)> {
    let view = world.views[usize::from(group)].as_ref()?;
    let statics: Vec<_> = view.members.iter().filter(|member| member.instance_id.is_some()).collect();
    if statics.is_empty() {
        return None;
    }
    let member = statics[dice.roll(statics.len())];
    let before = offer_of(&member.protocols);
    Some((member.instance_id.as_deref().and_then(index_of)?, before))
}

fn offered(world: &World, group: u8, who: Who) -> Option<(u8, u8)> {
    let Who::Minted(seed) = who else { return None };
    let id = world.ids.get(&seed)?;
    let view = world.views[usize::from(group)].as_ref()?;
    offer_of(&view.members.iter().find(|member| member.member_id == *id)?.protocols)
}

/// The numbers of what a member offers, and of its subscription.
pub(crate) fn offer_of(protocols: &[(crate::naive::Text, std::sync::Arc<[u8]>)]) -> Option<(u8, u8)> {
    let names = |offer: &&[&str]| {
        let distinct = offer.chunk_by(|one, next| one == next).map(|same| same[0]);
        distinct.eq(protocols.iter().map(|(name, _)| &**name))
    };
    let offer = crate::step::OFFERS.iter().position(names)?;
    let (_, metadata) = protocols.first()?;
    let topics = crate::step::SUBSCRIPTIONS.iter().position(|topics| **topics == **metadata)?;
    Some((offer as u8, topics as u8))
}
