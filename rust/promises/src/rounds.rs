//! How often generations begin, and whether they get an assignment (L5).

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::finding::{At, Extent, Found};

const STORM_GENERATIONS: usize = 10;
const STORM_MS: i64 = 60_000;
const UNSETTLED_GENERATIONS: usize = 3;

/// A generation that began.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Round {
    generation: i32,
    offset: i64,
    at_ms: i64,
}

impl Round {
    fn at(&self, group: &Arc<str>) -> At {
        let Round { generation, offset, at_ms } = *self;
        At { group: Some(Arc::clone(group)), generation: Some(generation), offset, at_ms: Some(at_ms) }
    }
}

/// The last generations of a group.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Storm {
    last: VecDeque<Round>,
    /// The first and the last round of all storms.
    span: Option<(Round, Round)>,
}

impl Storm {
    /// A generation came to be: a record of it, or the first answer.
    pub(crate) fn of_round(&mut self, group: &Arc<str>, at: &At, found: &mut Found) {
        let generation = at.generation.unwrap_or_default();
        if self.last.iter().any(|round| round.generation == generation) {
            return;
        }
        let now = Round { generation, offset: at.offset, at_ms: at.at_ms.unwrap_or_default() };
        self.last.push_back(now);
        if self.last.len() > STORM_GENERATIONS {
            self.last.pop_front();
        }
        let first = self.last[0];
        if self.last.len() < STORM_GENERATIONS || now.at_ms - first.at_ms > STORM_MS {
            return;
        }
        let is_new = self.span.is_none();
        self.span = Some((self.span.map_or(first, |(first, _)| first), now));
        if is_new && found.extent == Extent::Growing {
            self.tell(group, found);
        }
    }

    fn tell(&self, group: &Arc<str>, found: &mut Found) {
        let Some((first, last)) = self.span else { return };
        let rounds = i64::from(last.generation) - i64::from(first.generation);
        let witness = format!("{rounds} generations up to {}", last.generation);
        found.push(last.at(group).since(first.offset, "storm", Vec::new(), witness));
    }

    /// The log ends.
    pub(crate) fn end(&self, group: &Arc<str>, found: &mut Found) {
        self.tell(group, found);
    }
}

/// Generations without an assignment.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Settling {
    known: VecDeque<i32>,
    current: Option<Round>,
    /// Generations in a row that ended without one: how many, the first and the last.
    unsettled: Option<(usize, Round, Round)>,
}

impl Settling {
    /// A member got an answer with a generation.
    pub(crate) fn of_round(&mut self, group: &Arc<str>, at: &At, found: &mut Found) {
        let generation = at.generation.unwrap_or_default();
        if self.known.contains(&generation) {
            return;
        }
        self.known.push_back(generation);
        if self.known.len() > 16 {
            self.known.pop_front();
        }
        let now = Round { generation, offset: at.offset, at_ms: at.at_ms.unwrap_or_default() };
        if let Some(last) = self.current.replace(now) {
            let (count, first) = self.unsettled.map_or((0, last), |(count, first, _)| (count, first));
            self.unsettled = Some((count + 1, first, last));
            if count + 1 == UNSETTLED_GENERATIONS && found.extent == Extent::Growing {
                self.tell(group, found);
            }
        }
    }

    /// A member got its assignment.
    pub(crate) fn settle(&mut self, group: &Arc<str>, generation: i32, found: &mut Found) {
        if self.current.is_some_and(|round| round.generation == generation) {
            self.current = None;
            self.end(group, found);
        } else if self.unsettled.is_some_and(|(_, first, _)| first.generation <= generation) {
            self.unsettled = None;
        }
    }

    /// The group's life or the log ends, or its run of generations without an assignment.
    pub(crate) fn end(&mut self, group: &Arc<str>, found: &mut Found) {
        if found.extent == Extent::Whole && self.unsettled.is_some_and(|(count, ..)| count >= UNSETTLED_GENERATIONS) {
            self.tell(group, found);
        }
        self.unsettled = None;
    }

    /// Another life begins.
    pub(crate) fn begin(&mut self, group: &Arc<str>, found: &mut Found) {
        self.end(group, found);
        *self = Settling::default();
    }

    fn tell(&self, group: &Arc<str>, found: &mut Found) {
        let Some((count, first, last)) = self.unsettled else { return };
        let witness = format!("{count} generations");
        found.push(last.at(group).since(first.offset, "never settles", Vec::new(), witness));
    }
}
