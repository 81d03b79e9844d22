//! Every state within bounds, breadth first.

use std::{
    collections::{HashMap, VecDeque},
    fmt::Write as _,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use crate::{
    bounds::Bounds,
    world::{Action, Broken, Seen, World},
};

type Fingerprint = u64;

/// The result of a search.
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Steps that were tried.
    pub steps: u64,
    /// Every state was visited.
    pub is_whole: bool,
    /// What happened at least once.
    pub seen: Seen,
    /// The first broken promise, with the shortest way to it.
    pub broken: Option<(Broken, String)>,
}

/// Visits states until a promise is broken or as many are known.
pub fn explore(bounds: Bounds, most: usize) -> Found {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let start = World::new(bounds);
    let mut ways: HashMap<Fingerprint, Option<(Fingerprint, Action)>, BuildHasherDefault<DefaultHasher>> =
        HashMap::default();
    ways.insert(hasher.hash_one(&start), None);
    let mut ahead = VecDeque::from([start]);
    let mut found = Found { states: 0, steps: 0, is_whole: true, seen: Seen::new(), broken: None };
    while let Some(world) = ahead.pop_front() {
        let from = hasher.hash_one(&world);
        for action in world.actions() {
            let mut next = world.clone();
            found.steps += 1;
            if let Err(broken) = next.step(action, &mut found.seen) {
                let mut way = path(&ways, from);
                way.push(action);
                found.states = ways.len();
                found.is_whole = false;
                found.broken = Some((broken, told(bounds, &way)));
                return found;
            }
            let fingerprint = hasher.hash_one(&next);
            if let std::collections::hash_map::Entry::Vacant(new) = ways.entry(fingerprint) {
                new.insert(Some((from, action)));
                ahead.push_back(next);
            }
        }
        if ways.len() >= most && !ahead.is_empty() {
            found.is_whole = false;
            break;
        }
    }
    found.states = ways.len();
    found
}

fn path<S: BuildHasher>(ways: &HashMap<Fingerprint, Option<(Fingerprint, Action)>, S>, to: Fingerprint) -> Vec<Action> {
    let mut way = Vec::new();
    let mut at = to;
    while let Some((from, action)) = ways[&at] {
        way.push(action);
        at = from;
    }
    way.reverse();
    way
}

/// The way as lines: each step, and of a flight what it carries.
fn told(bounds: Bounds, way: &[Action]) -> String {
    let mut world = World::new(bounds);
    let mut lines = String::new();
    for action in way {
        let flights = world.memory.flights();
        let carried = match action {
            Action::Apply(at)
            | Action::Lose(at)
            | Action::Duplicate(at)
            | Action::Exhaust(at)
            | Action::Deliver(at) => {
                format!("  node {}: {:?} {:?}", flights[*at].node.0, flights[*at].request.body, flights[*at].answer)
            }
            _ => String::new(),
        };
        let _ = writeln!(lines, "{action:?}{carried}");
        if world.step(*action, &mut Seen::new()).is_err() {
            break;
        }
    }
    lines
}
