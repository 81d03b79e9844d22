//! Every state that the real core can reach within bounds, breadth first.
//!
//! A state is a [`World`]: the core and the log. It is remembered by a fingerprint of
//! everything in it ([`canonical`], and the newest records of the log).

pub mod bounds;
pub mod canonical;
pub mod cells;
pub mod checks;
pub mod events;
pub mod witness;

use std::{
    collections::BTreeMap,
    hash::Hasher,
    panic::{AssertUnwindSafe, catch_unwind},
};

use canonical::{Names, canonical};
use rota_core::Record;

pub use bounds::Bounds;
use checks::{Place, Taken};
use events::{Event, Validity, events, state_of};

use crate::{
    search::{self, Expansion, Space, words},
    step::Step,
    world::{Effects, Mixer, World},
};

/// Something that does not hold, and the steps from the empty log on that lead to it.
pub type Violation = search::Violation<Step>;

/// A cell: the state of the group, the event, its validity.
pub type Cell = (&'static str, &'static str, Validity);

/// What an exploration found.
pub type Found = search::Found<Cell, Step>;

/// Changes a core before it is explored, to see whether what is wrong with it is found.
pub type Fault = fn(&World, &Step, &mut Effects);

/// Groups of the classic protocol within bounds.
struct Classic<'a> {
    bounds: &'a Bounds,
    fault: Option<Fault>,
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

/// What is wrong with the state in which a panic has left the core. The step did not end, so it is not checked.
fn left_broken(world: &World) -> Option<(&'static str, String)> {
    let look = || world.core.check_invariants().err().map(|violation| (violation.id, violation.detail));
    catch_unwind(AssertUnwindSafe(look)).ok().flatten()
}

impl Space for Classic<'_> {
    type World = World;
    type Event = Step;
    type Cell = Cell;

    fn start(&self) -> World {
        World::new(&self.bounds.config)
    }

    fn fingerprint(&self, world: &World) -> u64 {
        fingerprint(world, self.bounds).0
    }

    fn play(&self, world: &mut World, by: u16) -> Step {
        let (_, names) = fingerprint(world, self.bounds);
        let Event { step, .. } = events(world, &names, self.bounds).swap_remove(usize::from(by));
        // What the core throws is what the way leads to.
        let _ = catch_unwind(AssertUnwindSafe(|| world.apply(&step, &mut Effects::default())));
        step
    }

    fn expand(&self, world: &World, into: &mut Expansion<'_, Cell>) {
        let bounds = self.bounds;
        let (own, names) = fingerprint(world, bounds);
        let before = Place { world, names: &names, fingerprint: own };
        for (id, verdict) in checks::of_state(&before, bounds) {
            into.hear(None, id, verdict);
        }
        let state = state_of(world);
        let mut effects = Effects { told: Some(Vec::new()), ..Effects::default() };
        let mut scratch: Option<World> = None;
        for (by, Event { step, kind, validity }) in events(world, &names, bounds).into_iter().enumerate() {
            into.try_event((state, kind, validity));
            let mut after = scratch.take().unwrap_or_else(|| world.clone());
            after.tickets = world.tickets;
            effects.told = Some(Vec::new());
            let applied = catch_unwind(AssertUnwindSafe(|| {
                after.apply(&step, &mut effects);
                if let Some(fault) = self.fault {
                    fault(world, &step, &mut effects);
                }
            }));
            if let Err(panic) = applied {
                let (id, detail) = left_broken(&after).unwrap_or_else(|| ("panic", words(&*panic)));
                into.violate(Some(by), id, detail);
                continue;
            }
            let (fingerprint, after_names) = fingerprint(&after, bounds);
            let place = Place { world: &after, names: &after_names, fingerprint };
            let taken = Taken { before: &before, after: &place, step: &step, effects: &effects, bounds };
            for (id, verdict) in checks::of_step(&taken) {
                into.hear(Some(by), id, verdict);
            }
            if fingerprint == own && after_names == names {
                scratch = Some(after);
            } else if within(&after, &after_names, bounds) {
                into.reach(by, fingerprint);
            } else {
                into.cut();
            }
        }
    }

    fn depth_max(&self) -> usize {
        self.bounds.depth
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
    search::search(&Classic { bounds, fault }, states_max, workers, progress)
}
