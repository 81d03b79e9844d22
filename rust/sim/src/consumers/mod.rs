//! Every state of a consumer group of the real core within bounds, breadth first: members that join, report, leave and
//! subscribe anew in either protocol, deadlines in every order, answers that are lost, appends that fail or take long,
//! crashes.

mod asks;
pub mod bounds;
mod canonical;
pub mod cells;
mod checks;
mod client;
mod event;
mod events;
pub(crate) mod rules;
mod settle;
mod situations;
mod walk;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

pub use bounds::Bounds;
pub use checks::{CHECKS, OF_STATES};
pub use client::{Client, Said, Speaks};
pub use event::{Ask, Event, Fate, Probe};
pub use events::Cell;
pub use situations::SOMETIMES;
pub use walk::{Walked, walk};
pub use world::{Told, World};

use crate::search::{self, Expansion, Space, words};
use checks::Taken;

/// What an exploration has found.
pub type Found = search::Found<Cell, Event>;

/// Changes a world after an event, to see whether what is wrong is found.
pub type Fault = fn(&World, Event, &mut World, &mut Told);

/// Of so many states one is led to rest.
const SETTLED_EVERY: u64 = 8;

/// Consumer groups within bounds.
struct Consumers {
    bounds: Arc<Bounds>,
    fault: Option<Fault>,
}

impl Consumers {
    fn take(&self, before: &World, event: Event) -> Result<(World, Told), String> {
        let taken = catch_unwind(AssertUnwindSafe(|| {
            let mut after = before.clone();
            let mut told = after.apply(event);
            if let Some(fault) = self.fault {
                fault(before, event, &mut after, &mut told);
            }
            (after, told)
        }));
        taken.map_err(|panic| words(&*panic))
    }
}

impl Space for Consumers {
    type World = World;
    type Event = Event;
    type Cell = Cell;

    fn start(&self) -> World {
        World::new(&self.bounds)
    }

    fn fingerprint(&self, world: &World) -> u64 {
        canonical::fingerprint(world)
    }

    fn play(&self, world: &mut World, by: u16) -> Event {
        let event = events::events(world).swap_remove(usize::from(by));
        if let Ok((after, _)) = self.take(world, event) {
            *world = after;
        }
        event
    }

    fn expand(&self, world: &World, into: &mut Expansion<'_, Cell>) {
        let own = self.fingerprint(world);
        for (id, verdict) in checks::of_state(world) {
            into.hear(None, id, verdict);
        }
        if own.is_multiple_of(SETTLED_EVERY) {
            let settled = catch_unwind(AssertUnwindSafe(|| settle::settles(world)));
            into.hear(None, "C18", settled.unwrap_or_else(|panic| Err(words(&*panic))));
        }
        for (by, event) in events::events(world).into_iter().enumerate() {
            into.try_event(events::cell_of(world, event));
            let (after, told) = match self.take(world, event) {
                Ok(taken) => taken,
                Err(panic) => {
                    into.violate(Some(by), "panic", panic);
                    continue;
                }
            };
            let taken = Taken { before: world, event, after: &after, told: &told };
            for (id, verdict) in checks::of_step(&taken) {
                into.hear(Some(by), id, verdict);
            }
            situations::note(&taken, into);
            if matches!(event, Event::Probe(..)) {
                continue;
            }
            let fingerprint = self.fingerprint(&after);
            if fingerprint == own {
                continue;
            }
            if events::within(&after) {
                into.reach(by, fingerprint);
            } else {
                into.cut();
            }
        }
    }

    fn depth_max(&self) -> usize {
        usize::from(u16::MAX)
    }
}

/// The events that lead to a violation, a line each.
pub fn witness(broken: &search::Violation<Event>) -> String {
    broken.steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join("\n")
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
    let space = Consumers { bounds: Arc::new(bounds.clone()), fault };
    search::search(&space, states_max, workers, progress)
}
