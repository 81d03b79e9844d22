//! Every world within bounds, breadth first.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt::Write as _,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use crate::{
    actions::Action,
    bounds::Bounds,
    world::{Seen, World},
};

type Ways = HashMap<u64, Option<(u64, Action)>, BuildHasherDefault<DefaultHasher>>;

/// The result of a search.
pub struct Found {
    /// Different worlds.
    pub states: usize,
    /// Steps that were tried.
    pub steps: u64,
    /// Every world was visited.
    pub is_whole: bool,
    /// What happened at least once.
    pub seen: Seen,
    /// The first broken promise, with the shortest way to it.
    pub broken: Option<(String, String)>,
}

/// Visits worlds until a promise is broken or as many are known.
pub fn explore(bounds: Bounds, most: usize) -> Found {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let start = World::new(bounds);
    let mut ways = Ways::default();
    ways.insert(hasher.hash_one(&start), None);
    let mut ahead = VecDeque::from([start]);
    let mut found = Found { states: 0, steps: 0, is_whole: true, seen: Seen::new(), broken: None };
    while let Some(world) = ahead.pop_front() {
        let from = hasher.hash_one(&world);
        for action in world.actions() {
            let mut next = world.clone();
            found.steps += 1;
            let acted = next.act(action.clone(), &mut found.seen);
            let fingerprint = hasher.hash_one(&next);
            let is_new = !ways.contains_key(&fingerprint);
            let checked = acted.and_then(|()| if is_new && next.may_stay() { next.check_end() } else { Ok(()) });
            if let Err(broken) = checked {
                let mut way = path(&ways, from);
                way.push(action);
                (found.states, found.is_whole) = (ways.len(), false);
                found.broken = Some((broken, told(&way)));
                return found;
            }
            if let Entry::Vacant(new) = ways.entry(fingerprint) {
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

fn path(ways: &Ways, to: u64) -> Vec<Action> {
    let mut way = Vec::new();
    let mut at = to;
    while let Some((from, action)) = &ways[&at] {
        way.push(action.clone());
        at = *from;
    }
    way.reverse();
    way
}

fn told(way: &[Action]) -> String {
    let mut lines = String::new();
    for action in way {
        let _ = writeln!(lines, "{action:?}");
    }
    lines
}
