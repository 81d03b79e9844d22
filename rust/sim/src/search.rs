//! Every state that a system can reach within bounds, breadth first.
//!
//! A state is remembered by a fingerprint and by how it was first reached: its parent and which of the parent's events
//! led to it. To go on from a state its path is played again, from where it leaves the path played before, so that a
//! state takes some twenty bytes however large it is.

use std::{
    any::Any,
    collections::{BTreeMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
    time::Duration,
};

/// What can be searched.
pub trait Space: Sync {
    /// A state.
    type World: Clone;
    /// What leads from a state to the next.
    type Event;
    /// What a state and an event are, for the table of what came up.
    type Cell: Ord + Copy + Send;

    /// The first state.
    fn start(&self) -> Self::World;
    /// Equal for states that are to count as the same.
    fn fingerprint(&self, world: &Self::World) -> u64;
    /// Lets the event with this number happen.
    fn play(&self, world: &mut Self::World, by: u16) -> Self::Event;
    /// Tries every event of a state.
    fn expand(&self, world: &Self::World, into: &mut Expansion<'_, Self::Cell>);
    /// The largest distance from the first state.
    fn depth_max(&self) -> usize;
}

/// Something that does not hold, and the shortest way to it.
#[derive(Clone, Debug)]
pub struct Violation<E> {
    /// The id of the invariant; `panic` if none names it and the core has panicked.
    pub id: String,
    /// What is wrong.
    pub detail: String,
    /// The events from the first state on.
    pub steps: Vec<E>,
}

/// What an exploration found.
#[derive(Debug)]
pub struct Found<C, E> {
    /// Distinct states.
    pub states: u64,
    /// Events tried.
    pub transitions: u64,
    /// Events that led out of the bounds, and were not followed.
    pub cut: u64,
    /// States by their distance from the first one.
    pub by_depth: Vec<u64>,
    /// Whether every state within the bounds was seen.
    pub complete: bool,
    /// How often each cell came up.
    pub cells: BTreeMap<C, u64>,
    /// How often each check had something to say.
    pub checked: BTreeMap<&'static str, u64>,
    /// How often each situation came up.
    pub sometimes: BTreeMap<&'static str, u64>,
    /// What remembers the states, in bytes.
    pub memory_bytes: u64,
    /// The first that was found, on a shortest path.
    pub violation: Option<Violation<E>>,
}

impl<C, E> Found<C, E> {
    /// A row of a table: depth, states, whether those are all, events tried, events out of the bounds, states a second,
    /// bytes a state.
    pub fn row(&self, took: Duration) -> String {
        let per_second = u128::from(self.states) * 1_000 / took.as_millis().max(1);
        format!(
            "{:5} {:11} {:>7} {:12} {:9} {per_second:9} {:12}",
            self.by_depth.len() - 1,
            self.states,
            if self.complete { "yes" } else { "no" },
            self.transitions,
            self.cut,
            self.memory_bytes / self.states,
        )
    }
}

/// Fingerprints are mixed already.
#[derive(Default)]
pub struct AsIs(u64);

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
struct Share<C> {
    reached: Vec<(u64, Reached)>,
    cells: BTreeMap<C, u64>,
    checked: BTreeMap<&'static str, u64>,
    sometimes: BTreeMap<&'static str, u64>,
    transitions: u64,
    cut: u64,
    violation: Option<(Reached, String, String)>,
}

/// Where the events of a state lead to.
pub struct Expansion<'a, C> {
    seen: &'a Fingerprints,
    from: u32,
    share: Share<C>,
}

impl<C: Ord> Expansion<'_, C> {
    /// An event is tried.
    pub fn try_event(&mut self, cell: C) {
        self.share.transitions += 1;
        *self.share.cells.entry(cell).or_default() += 1;
    }

    /// The event has led to a state within the bounds.
    pub fn reach(&mut self, by: usize, fingerprint: u64) {
        if !self.seen.contains(&fingerprint) {
            self.share.reached.push((fingerprint, Reached { from: self.from, by: by as u16 }));
        }
    }

    /// The event has led out of the bounds.
    pub fn cut(&mut self) {
        self.share.cut += 1;
    }

    /// Something has come up.
    pub fn note(&mut self, situation: &'static str) {
        *self.share.sometimes.entry(situation).or_default() += 1;
    }

    /// What a check has said of an event; `None`: of the state.
    pub fn hear(&mut self, by: Option<usize>, id: &'static str, verdict: Result<(), String>) {
        *self.share.checked.entry(id).or_default() += 1;
        if let Err(detail) = verdict {
            self.violate(by, id, detail);
        }
    }

    /// Something does not hold.
    pub fn violate(&mut self, by: Option<usize>, id: &str, detail: String) {
        let reached = Reached { from: self.from, by: by.map_or(OF_THE_STATE, |by| by as u16) };
        self.share.violation.get_or_insert((reached, id.to_owned(), detail));
    }
}

/// What a panic says.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the core panicked: {}", text.unwrap_or_default())
}

/// The newest of a path's states, each after its event.
struct Path<'a, S: Space> {
    space: &'a S,
    states: &'a [Reached],
    played: Vec<(u32, S::World)>,
}

impl<'a, S: Space> Path<'a, S> {
    fn new(space: &'a S, states: &'a [Reached]) -> Path<'a, S> {
        Path { space, states, played: vec![(0, space.start())] }
    }

    /// The states between the first one and this one, which is the last.
    fn way(&self, state: u32) -> Vec<u32> {
        let mut way = vec![state];
        while let Some(last) = way.last().copied().filter(|last| *last != 0) {
            way.push(self.states[last as usize].from);
        }
        way.reverse();
        way
    }

    /// The state with this number.
    fn play(&mut self, state: u32) -> &S::World {
        let way = self.way(state);
        let common = way.iter().zip(&self.played).take_while(|(number, (played, _))| *number == played).count();
        self.played.truncate(common);
        for number in &way[common..] {
            let mut world = self.played.last().expect("the first state").1.clone();
            self.space.play(&mut world, self.states[*number as usize].by);
            self.played.push((*number, world));
        }
        &self.played.last().expect("the first state").1
    }

    /// The events that led to this state, and one more.
    fn events(&mut self, state: u32, last: u16) -> Vec<S::Event> {
        let numbers = self.way(state).into_iter().skip(1).map(|number| self.states[number as usize].by);
        let mut world = self.space.start();
        let last = Some(last).filter(|last| *last != OF_THE_STATE);
        numbers.chain(last).map(|by| self.space.play(&mut world, by)).collect()
    }
}

/// Is called with what is known after every layer; `false` stops the search.
type Progress<'a, S> = dyn FnMut(&Found<<S as Space>::Cell, <S as Space>::Event>) -> bool + 'a;

/// Explores until everything within the bounds was seen, `states_max` states were, something does not hold, or
/// `progress`, called after every layer, stops it.
pub fn search<S: Space>(
    space: &S,
    states_max: usize,
    workers: usize,
    progress: &mut Progress<'_, S>,
) -> Found<S::Cell, S::Event> {
    let mut seen = Fingerprints::default();
    seen.insert(space.fingerprint(&space.start()));
    let mut states = vec![Reached { from: 0, by: 0 }];
    let mut found = Found {
        states: 1,
        transitions: 0,
        cut: 0,
        by_depth: vec![1],
        complete: true,
        cells: BTreeMap::new(),
        checked: BTreeMap::new(),
        sometimes: BTreeMap::new(),
        memory_bytes: 0,
        violation: None,
    };
    let mut layer = 0..1;
    while !layer.is_empty() && found.violation.is_none() {
        if found.by_depth.len() > space.depth_max() || states.len() >= states_max {
            found.complete = false;
            break;
        }
        let first = states.len();
        let shares = expand_layer(space, &states, layer.clone(), &seen, workers);
        let mut violation = None;
        for share in shares {
            for (fingerprint, reached) in share.reached {
                if seen.insert(fingerprint) {
                    states.push(reached);
                }
            }
            add(&mut found.cells, share.cells);
            add(&mut found.checked, share.checked);
            add(&mut found.sometimes, share.sometimes);
            found.transitions += share.transitions;
            found.cut += share.cut;
            violation = violation.or(share.violation);
        }
        found.violation = violation.map(|(reached, id, detail)| {
            let steps = Path::new(space, &states).events(reached.from, reached.by);
            Violation { id, detail, steps }
        });
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

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    for (key, count) in more {
        *counts.entry(key).or_default() += count;
    }
}

/// A layer in as many shares as there are workers; the result does not depend on their number.
fn expand_layer<S: Space>(
    space: &S,
    states: &[Reached],
    layer: std::ops::Range<usize>,
    seen: &Fingerprints,
    workers: usize,
) -> Vec<Share<S::Cell>> {
    let each = layer.len().div_ceil(workers).max(1);
    std::thread::scope(|scope| {
        let parts = (layer.start..layer.end).step_by(each).map(|start| start..(start + each).min(layer.end));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || expand_part(space, states, part, seen))).collect();
        running.into_iter().map(|worker| worker.join().expect("a worker catches what the core throws")).collect()
    })
}

fn expand_part<S: Space>(
    space: &S,
    states: &[Reached],
    part: std::ops::Range<usize>,
    seen: &Fingerprints,
) -> Share<S::Cell> {
    let mut path = Path::new(space, states);
    let share = Share {
        reached: Vec::new(),
        cells: BTreeMap::new(),
        checked: BTreeMap::new(),
        sometimes: BTreeMap::new(),
        transitions: 0,
        cut: 0,
        violation: None,
    };
    let mut into = Expansion { seen, from: 0, share };
    for number in part {
        into.from = number as u32;
        space.expand(path.play(number as u32), &mut into);
    }
    into.share
}
