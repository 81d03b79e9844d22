//! S23, S28, S33: entries of a coordinator follow each other, and it answers after loading and before unloading.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    SLACK_MS,
    columns::Row,
    finding::{At, Found},
};

const TICK_MS: i64 = SLACK_MS / 10;
const KEPT_TICKS: usize = 32;
/// One entry with a time of its own is no reason to say that all others are late.
const KEPT_TIMES: usize = 8;

/// A coordinator between its beginning and its end.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Incarnation {
    pub number: u64,
    began: bool,
    pub first_offset: i64,
    is_loaded: bool,
    pub unloaded_offset: Option<i64>,
    pub has_gaps: bool,
    pub delay_ms: i64,
    /// Offset and time of its last entry.
    pub last: (i64, Option<i64>),
    pub last_mono_ms: i64,
    /// The times of the last entries, monotonic milliseconds.
    recent: VecDeque<i64>,
    /// When there were entries lately, monotonic milliseconds.
    ticks: VecDeque<i64>,
}

impl Incarnation {
    pub(crate) fn begin(&mut self, row: &Row<'_>) {
        *self = Incarnation {
            number: self.number + 1,
            began: true,
            first_offset: row.offset.unwrap_or_default(),
            delay_ms: row.rebalance_timeout_ms.unwrap_or_default().into(),
            ..Incarnation::default()
        };
    }

    /// An entry begins with this row.
    pub(crate) fn tick(&mut self, row: &Row<'_>) {
        let mono_ms = row.mono_ms.unwrap_or_default();
        self.last = (row.offset.unwrap_or_default(), row.at_ms);
        self.last_mono_ms = self.last_mono_ms.max(mono_ms);
        push(&mut self.recent, mono_ms, KEPT_TIMES);
        if self.ticks.back().is_none_or(|tick| (mono_ms - tick).abs() >= TICK_MS) {
            push(&mut self.ticks, mono_ms, KEPT_TICKS);
        }
    }

    /// Entries are missing. Groups may have begun anew meanwhile: their answers are as those of another incarnation.
    pub(crate) fn miss(&mut self) {
        self.has_gaps = true;
        self.number += 1;
    }

    /// The type of an entry that is not about a group.
    pub(crate) fn mark(&mut self, kind: &str, offset: i64) {
        match kind {
            "loaded" | "snapshot" => self.is_loaded = true,
            "unloaded" if self.unloaded_offset.is_none() => self.unloaded_offset = Some(offset),
            "gap" => self.miss(),
            _ => {}
        }
    }

    /// A time that has certainly passed.
    pub(crate) fn now_ms(&self) -> i64 {
        self.recent.iter().copied().min().unwrap_or_default()
    }

    /// The last entry that is so much older that a deadline before it has passed.
    pub(crate) fn lived_ms(&self, mono_ms: i64) -> Option<i64> {
        self.ticks.iter().copied().filter(|tick| *tick <= mono_ms - SLACK_MS).max()
    }

    /// Whether every Heartbeat is answered NONE (docs/protocol.md §3).
    pub(crate) fn is_loading(&self) -> bool {
        self.began && !self.is_loaded
    }

    /// A request succeeded.
    pub(crate) fn of_success(&self, at: &At, row: &Row<'_>, found: &mut Found) {
        let api = row.api.unwrap_or_default();
        let members = vec![row.member.unwrap_or_default().into()];
        if api != "Heartbeat" && self.is_loading() && !self.has_gaps {
            let witness = format!("{api} before it was loaded");
            found.push(at.since(self.first_offset, "answer while loading", members.clone(), witness));
        }
        if let Some(unloaded_offset) = self.unloaded_offset {
            let witness = format!("{api} after offset {unloaded_offset}");
            found.push(at.since(unloaded_offset, "answer after unloading", members, witness));
        }
    }
}

fn push(kept: &mut VecDeque<i64>, value: i64, most: usize) {
    kept.push_back(value);
    if kept.len() > most {
        kept.pop_front();
    }
}

/// The last entry's number and offset.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Order {
    last: Option<(i64, i64)>,
}

impl Order {
    pub(crate) fn of_entry(&mut self, at: &At, row: &Row<'_>, found: &mut Found) {
        let Some(sequence) = row.sequence else { return };
        let before = self.last.replace((sequence, at.offset));
        let Some((last, offset)) = before.filter(|_| row.kind != Some("began")) else { return };
        let step = if row.kind == Some("gap") { row.count.unwrap_or_default() } else { 1 };
        if sequence != last.saturating_add(step) {
            let witness = format!("entry {sequence} after {last}");
            found.push(at.since(offset, "entries out of order", Vec::new(), witness));
        }
    }
}
