//! A sink that records effects.

use std::sync::Arc;

use rota_core::{
    Answer, AppendId, Record, Sink, Ticket, effects::Moment, explain::Rebalance, records::TransactionBatch,
};
use serde::Serialize;

/// The effects of an event in order, with the firing that each belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Encoded as in the journal.
    effects: Vec<u8>,
    firings: Vec<Fired>,
}

/// A firing, and the position of its first effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    pub timer: &'static str,
    pub group_id: String,
    from: usize,
}

impl Outcome {
    /// Removes everything but keeps the memory.
    pub fn clear(&mut self) {
        self.effects.clear();
        self.firings.clear();
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u64 {
        self.firings.len().max(1) as u64
    }

    /// Returns all encoded effects.
    pub(crate) fn effects(&self) -> &[u8] {
        &self.effects
    }

    /// Returns the firings, each with its effects.
    pub(crate) fn firings(&self) -> impl ExactSizeIterator<Item = (&Fired, &[u8])> {
        self.firings.iter().enumerate().map(|(at, fired)| {
            let end = self.firings.get(at + 1).map_or(self.effects.len(), |next| next.from);
            (fired, &self.effects[fired.from..end])
        })
    }

    fn note(&mut self, effect: &Effect<'_>) {
        let written = postcard::to_extend(effect, std::mem::take(&mut self.effects));
        self.effects = written.expect("plain data can be written");
    }
}

/// The order of the variants and of their fields is part of the journal's format.
#[derive(Serialize)]
enum Effect<'a> {
    Answer { ticket: Ticket, answer: &'a Answer<'a> },
    Append { append_id: AppendId, records: &'a [Record] },
    AppendInTransaction { append_id: AppendId, batch: TransactionBatch, records: &'a [Record] },
}

/// Records effects in an outcome and passes them on.
pub struct Recorder<'s> {
    outcome: &'s mut Outcome,
    inner: Option<&'s mut dyn Sink>,
}

impl<'s> Recorder<'s> {
    /// Creates a recorder that adds to `outcome`.
    pub fn new(outcome: &'s mut Outcome, inner: Option<&'s mut dyn Sink>) -> Recorder<'s> {
        Recorder { outcome, inner }
    }
}

impl Sink for Recorder<'_> {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        self.outcome.note(&Effect::Answer { ticket, answer: &answer });
        if let Some(inner) = &mut self.inner {
            inner.answer(ticket, answer);
        }
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.outcome.note(&Effect::Append { append_id, records });
        if let Some(inner) = &mut self.inner {
            inner.append(append_id, records);
        }
    }

    fn append_in_transaction(&mut self, append_id: AppendId, batch: TransactionBatch, records: &[Record]) {
        self.outcome.note(&Effect::AppendInTransaction { append_id, batch, records });
        if let Some(inner) = &mut self.inner {
            inner.append_in_transaction(append_id, batch, records);
        }
    }

    fn firing(&mut self, timer: &'static str, group_id: Option<&str>) {
        if let Some(inner) = &mut self.inner {
            inner.firing(timer, group_id);
        }
        let group_id = group_id.unwrap_or_default().to_owned();
        self.outcome.firings.push(Fired { timer, group_id, from: self.outcome.effects.len() });
    }

    /// Likewise: what the caller does about it is an event of its own.
    fn resolving(&mut self, group_id: &Arc<str>, ticket: Ticket) {
        if let Some(inner) = &mut self.inner {
            inner.resolving(group_id, ticket);
        }
    }

    /// A replay repeats it, so it is only passed on.
    fn rebalance(&mut self, group_id: &str, moment: Moment, rebalance: &Rebalance) {
        if let Some(inner) = &mut self.inner {
            inner.rebalance(group_id, moment, rebalance);
        }
    }
}
