//! Every state that the real core can reach within bounds, breadth first.
//!
//! A state is a [`World`]: the core and the log. It is remembered by a fingerprint of
//! everything in it ([`canonical`], and the newest records of the log) and by how it was first reached: its
//! parent and which of the parent's events led to it. To go on from a state its path is played again, from where it
//! leaves the path played before, so that a state takes some twenty bytes however large it is.

pub mod bounds;
pub mod canonical;
pub mod cells;
pub mod checks;
pub mod events;
pub mod witness;

use std::{
    any::Any,
    collections::{BTreeMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
};

use canonical::{Names, canonical};
use rota_core::Record;

pub use bounds::Bounds;
use checks::{Place, Taken};
use events::{Event, Validity, events, state_of};

use crate::{
    step::Step,
    world::{Effects, Mixer, World},
};

/// Something that does not hold, and the shortest way to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The id of the invariant; `panic` if none names it and the core has panicked.
    pub id: String,
    /// What is wrong.
    pub detail: String,
    /// The events from the empty log on.
    pub steps: Vec<Step>,
}

/// A cell: the state of the group, the event, its validity.
pub type Cell = (&'static str, &'static str, Validity);

/// What an exploration found.
#[derive(Debug, Default)]
pub struct Found {
    /// Distinct states.
    pub states: u64,
    /// Events tried.
    pub transitions: u64,
    /// Events that led out of the bounds, and were not followed.
    pub cut: u64,
    /// States by their distance from the empty log.
    pub by_depth: Vec<u64>,
    /// Whether every state within the bounds was seen.
    pub complete: bool,
    /// How often each cell came up.
    pub cells: BTreeMap<Cell, u64>,
    /// How often each check had something to say.
    pub checked: BTreeMap<&'static str, u64>,
    /// What remembers the states, in bytes.
    pub memory_bytes: u64,
    /// The first that was found, on a shortest path.
    pub violation: Option<Violation>,
}

/// Changes a core before it is explored, to see whether what is wrong with it is found.
pub type Fault = fn(&World, &Step, &mut Effects);

/// Fingerprints are mixed already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only fingerprints are hashed")
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

type Fingerprints = HashSet<u64, BuildHasherDefault<AsIs>>;

/// How a state was first reached: from which, by which of its events.
#[derive(Clone, Copy)]
struct Reached {
    from: u32,
    by: u16,
}

/// In place of an event: the state itself is wrong.
const OF_THE_STATE: u16 = u16::MAX;

/// What one worker brings back from its share of a layer.
#[derive(Default)]
struct Share {
    reached: Vec<(u64, Reached)>,
    cells: BTreeMap<Cell, u64>,
    checked: BTreeMap<&'static str, u64>,
    transitions: u64,
    cut: u64,
    violation: Option<(Reached, String, String)>,
}

/// The newest of a path's states, each after its event.
struct Path<'a> {
    bounds: &'a Bounds,
    states: &'a [Reached],
    played: Vec<(u32, World)>,
}

/// A state's fingerprint, and what came up in it.
pub fn fingerprint(world: &World, bounds: &Bounds) -> (u64, Names) {
    let mut mixer = Mixer::default();
    let mut state = canonical(&world.core, bounds.ages, &mut mixer);
    // By key, with how many appends in flight are older, whose records would lie before it.
    let mut newest: BTreeMap<(Option<&str>, i32), (u64, &Record)> = BTreeMap::new();
    for ((_, append_id), records) in &world.log {
        let older = world.in_flight.iter().filter(|(other, _)| other < append_id).count() as u64;
        for record in &**records {
            let key = match record {
                Record::Offset { topic, partition, .. } => (Some(&**topic), *partition),
                _ => (None, 0),
            };
            newest.insert(key, (older, record));
        }
    }
    for (key, (older, record)) in newest {
        state.put((key, older));
        state.record(record);
    }
    let names = state.into_names();
    (mixer.finish(), names)
}

fn within(world: &World, names: &Names, bounds: &Bounds) -> bool {
    let fits = |view: &rota_core::Projection| {
        view.members.len() + view.pending.len() <= bounds.members
            && bounds.generations.is_none_or(|most| view.generation <= most)
    };
    world.in_flight.len() <= bounds.appends
        && names.waiting.len() <= bounds.waiting
        && world.views[0].as_ref().is_none_or(fits)
}

impl<'a> Path<'a> {
    fn new(bounds: &'a Bounds, states: &'a [Reached]) -> Path<'a> {
        Path { bounds, states, played: vec![(0, World::new(&bounds.config))] }
    }

    /// The state with this number.
    fn play(&mut self, state: u32) -> &World {
        let mut way = vec![state];
        while let Some(last) = way.last().copied().filter(|last| *last != 0) {
            way.push(self.states[last as usize].from);
        }
        way.reverse();
        let common = way.iter().zip(&self.played).take_while(|(number, (played, _))| *number == played).count();
        self.played.truncate(common);
        for number in &way[common..] {
            let mut world = self.played.last().expect("the first state").1.clone();
            let (_, names) = fingerprint(&world, self.bounds);
            let by = usize::from(self.states[*number as usize].by);
            let event = events(&world, &names, self.bounds).swap_remove(by);
            world.apply(&event.step, &mut Effects::default());
            self.played.push((*number, world));
        }
        &self.played.last().expect("the first state").1
    }

    /// The events that led to this state.
    fn steps(&mut self, state: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut last = state;
        while last != 0 {
            let Reached { from, by } = self.states[last as usize];
            steps.push(self.event(from, by).step);
            last = from;
        }
        steps.reverse();
        steps
    }

    /// An event of a state, by its number.
    fn event(&mut self, state: u32, by: u16) -> Event {
        let bounds = self.bounds;
        let world = self.play(state);
        let (_, names) = fingerprint(world, bounds);
        events(world, &names, bounds).swap_remove(usize::from(by))
    }
}

/// What is wrong with the state in which a panic has left the core. The step did not end, so it is not checked.
fn left_broken(world: &World) -> Option<(&'static str, String)> {
    let look = || world.core.check_invariants().err().map(|violation| (violation.id, violation.detail));
    catch_unwind(AssertUnwindSafe(look)).ok().flatten()
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the core panicked: {}", text.unwrap_or_default())
}

impl Share {
    /// What a check has said.
    fn hear(&mut self, reached: Reached, id: &'static str, verdict: Result<(), String>) {
        *self.checked.entry(id).or_default() += 1;
        if let Err(detail) = verdict {
            self.violation.get_or_insert((reached, id.to_owned(), detail));
        }
    }

    /// Tries every event of a state.
    fn expand(&mut self, number: u32, world: &World, bounds: &Bounds, seen: &Fingerprints, fault: Option<Fault>) {
        let (own, names) = fingerprint(world, bounds);
        let before = Place { world, names: &names, fingerprint: own };
        for (id, verdict) in checks::of_state(&before, bounds) {
            self.hear(Reached { from: number, by: OF_THE_STATE }, id, verdict);
        }
        let state = state_of(world);
        let mut effects = Effects { told: Some(Vec::new()), ..Effects::default() };
        let mut scratch: Option<World> = None;
        for (by, Event { step, kind, validity }) in events(world, &names, bounds).into_iter().enumerate() {
            let reached = Reached { from: number, by: by as u16 };
            self.transitions += 1;
            *self.cells.entry((state, kind, validity)).or_default() += 1;
            let mut after = scratch.take().unwrap_or_else(|| world.clone());
            after.tickets = world.tickets;
            effects.told = Some(Vec::new());
            let applied = catch_unwind(AssertUnwindSafe(|| {
                after.apply(&step, &mut effects);
                if let Some(fault) = fault {
                    fault(world, &step, &mut effects);
                }
            }));
            if let Err(panic) = applied {
                let (id, detail) = left_broken(&after).unwrap_or_else(|| ("panic", words(&*panic)));
                self.violation.get_or_insert((reached, id.to_owned(), detail));
                continue;
            }
            let (fingerprint, after_names) = fingerprint(&after, bounds);
            let place = Place { world: &after, names: &after_names, fingerprint };
            let taken = Taken { before: &before, after: &place, step: &step, effects: &effects, bounds };
            for (id, verdict) in checks::of_step(&taken) {
                self.hear(reached, id, verdict);
            }
            if fingerprint == own && after_names == names {
                scratch = Some(after);
            } else if !within(&after, &after_names, bounds) {
                self.cut += 1;
            } else if !seen.contains(&fingerprint) {
                self.reached.push((fingerprint, reached));
            }
        }
    }
}

/// Explores until everything within the bounds was seen, `states_max` states were, something does not hold, or
/// `progress`, called after every layer, stops it.
pub fn explore(
    bounds: &Bounds,
    states_max: usize,
    workers: usize,
    fault: Option<Fault>,
    progress: &mut dyn FnMut(&Found) -> bool,
) -> Found {
    let root = World::new(&bounds.config);
    let mut seen = Fingerprints::default();
    seen.insert(fingerprint(&root, bounds).0);
    let mut states = vec![Reached { from: 0, by: 0 }];
    let mut found = Found { states: 1, by_depth: vec![1], complete: true, ..Found::default() };
    let mut layer = 0..1;
    while !layer.is_empty() && found.violation.is_none() {
        if found.by_depth.len() > bounds.depth || states.len() >= states_max {
            found.complete = false;
            break;
        }
        let shares = expand_layer(bounds, &states, layer.clone(), &seen, workers, fault);
        let first = states.len();
        let mut violation: Option<(Reached, String, String)> = None;
        for share in shares {
            for (fingerprint, reached) in share.reached {
                if seen.insert(fingerprint) {
                    states.push(reached);
                }
            }
            for (cell, count) in share.cells {
                *found.cells.entry(cell).or_default() += count;
            }
            for (id, count) in share.checked {
                *found.checked.entry(id).or_default() += count;
            }
            found.transitions += share.transitions;
            found.cut += share.cut;
            if let Some(this) = share.violation {
                violation.get_or_insert(this);
            }
        }
        if let Some((reached, id, detail)) = violation {
            found.violation = Some(tell(bounds, &states, reached, id, detail));
        }
        layer = first..states.len();
        if !layer.is_empty() {
            found.by_depth.push(layer.len() as u64);
        }
        found.states = states.len() as u64;
        found.memory_bytes =
            (states.capacity() * size_of::<Reached>() + seen.capacity() * (size_of::<u64>() + 1)) as u64;
        if !progress(&found) {
            found.complete = false;
            break;
        }
    }
    found
}

fn tell(bounds: &Bounds, states: &[Reached], reached: Reached, id: String, detail: String) -> Violation {
    let mut path = Path::new(bounds, states);
    let mut steps = path.steps(reached.from);
    if reached.by != OF_THE_STATE {
        steps.push(path.event(reached.from, reached.by).step);
    }
    Violation { id, detail, steps }
}

/// A layer in as many shares as there are workers; the result does not depend on their number.
fn expand_layer(
    bounds: &Bounds,
    states: &[Reached],
    layer: std::ops::Range<usize>,
    seen: &Fingerprints,
    workers: usize,
    fault: Option<Fault>,
) -> Vec<Share> {
    let each = layer.len().div_ceil(workers).max(1);
    std::thread::scope(|scope| {
        let parts = (layer.start..layer.end).step_by(each).map(|start| start..(start + each).min(layer.end));
        let running: Vec<_> = parts
            .map(|part| {
                scope.spawn(move || {
                    let mut share = Share::default();
                    let mut path = Path::new(bounds, states);
                    for number in part {
                        share.expand(number as u32, path.play(number as u32), bounds, seen, fault);
                    }
                    share
                })
            })
            .collect();
        running.into_iter().map(|worker| worker.join().expect("a worker catches what the core throws")).collect()
    })
}
