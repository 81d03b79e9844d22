//! Random walks: they see fewer states than an exploration, but states that are far from the first one.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Bounds, Consumers, Fault,
    checks::{self, Taken},
    event::{Event, Fate},
    events::{self, Cell},
    settle,
};
use crate::{
    dice::Rng,
    search::{Space, Violation},
};

/// What walks have seen.
#[derive(Debug, Default)]
pub struct Walked {
    /// Events that happened.
    pub steps: u64,
    /// How often each cell came up.
    pub cells: BTreeMap<Cell, u64>,
    /// The first thing that did not hold, with the events before it.
    pub violation: Option<Violation<Event>>,
}

/// How often an event is chosen, beside the others of its state. A probe leads nowhere.
fn weight(event: Event) -> usize {
    match event {
        Event::Probe(..) => 0,
        Event::Ask(_, _, Fate::Answered) | Event::Apply(_) | Event::End(None) => 8,
        Event::Ask(_, _, Fate::Lost) | Event::GiveUp(_) | Event::Restart(..) | Event::Fire(..) => 2,
        Event::Ask(_, _, Fate::Refused(_)) | Event::End(Some(_)) | Event::Crash(_) | Event::Create | Event::Delete => 1,
    }
}

fn chosen(rng: &mut Rng, all: &[Event]) -> Event {
    let mut left = rng.below(all.iter().map(|event| weight(*event)).sum());
    let is_it = |event: &&Event| {
        let weight = weight(**event);
        let is_it = left < weight;
        left = left.saturating_sub(weight);
        is_it
    };
    *all.iter().find(is_it).expect("the weights of all events are more")
}

/// Walks from the state that these events lead to, so many events far for each seed. At the end of a walk the group has
/// to come to rest.
pub fn walk(
    bounds: &Bounds,
    begin: &[Event],
    seeds: std::ops::Range<u64>,
    length: usize,
    fault: Option<Fault>,
) -> Walked {
    let space = Consumers { bounds: Arc::new(bounds.clone()), fault };
    let mut walked = Walked::default();
    for seed in seeds {
        let mut steps = begin.to_vec();
        if let Err((id, detail)) = walk_one(&space, seed, length, &mut steps, &mut walked) {
            walked.violation = Some(Violation { id: id.to_owned(), detail, steps });
            break;
        }
    }
    walked
}

fn walk_one(
    space: &Consumers,
    seed: u64,
    length: usize,
    steps: &mut Vec<Event>,
    walked: &mut Walked,
) -> Result<(), (&'static str, String)> {
    let (mut rng, mut world) = (Rng::new(seed), space.start());
    for event in steps.iter() {
        world.apply(*event);
    }
    for _ in 0..length {
        let all = events::events(&world);
        for event in &all {
            *walked.cells.entry(events::cell_of(&world, *event)).or_default() += 1;
        }
        let event = chosen(&mut rng, &all);
        let (after, told) = space.take(&world, event).map_err(|panic| ("panic", panic))?;
        if !events::within(&after) {
            continue;
        }
        steps.push(event);
        walked.steps += 1;
        let taken = Taken { before: &world, event, after: &after, told: &told };
        let verdicts = checks::of_step(&taken).chain(checks::of_state(&after));
        for (id, verdict) in verdicts {
            verdict.map_err(|detail| (id, detail))?;
        }
        world = after;
    }
    settle::settles(&world).map_err(|detail| ("C18", detail))
}
