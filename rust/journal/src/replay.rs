//! Replays a journal through a new coordinator.

use std::{collections::VecDeque, fmt, ops::AddAssign};

use rota_core::{Answer, AppendId, Coordinator, Now, Phase, Record, Sink, Ticket, effects::Moment, explain::Rebalance};

use crate::{
    entry::{Entry, effects_in, write_entries, write_mark},
    event::{Event, OwnedEvent},
    recorder::{Outcome, Recorder},
};

/// Counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Entries read.
    pub entries: u64,
    /// Entries with compared effects and digest.
    pub compared: u64,
    /// Compared snapshots.
    pub snapshots: u64,
    /// Entries recorded as missing.
    pub missing: u64,
    /// Entries that could not be compared, because earlier ones are missing.
    pub unchecked: u64,
    /// Incarnations without an end: the process was killed.
    pub cut: u64,
}

impl AddAssign for ReplayCounts {
    fn add_assign(&mut self, more: ReplayCounts) {
        self.entries += more.entries;
        self.compared += more.compared;
        self.snapshots += more.snapshots;
        self.missing = self.missing.saturating_add(more.missing);
        self.unchecked += more.unchecked;
        self.cut += more.cut;
    }
}

/// A difference between a journal and the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Sequence number of the entry in its incarnation.
    pub sequence: u64,
    /// What differs: `answers`, `digest`, `state`, `order`, or `entry` if it cannot be decoded.
    pub what: &'static str,
    /// The event as JSON.
    pub event: String,
    /// The journal's value.
    pub journal: String,
    /// The replay's value.
    pub replayed: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { sequence, what, event, journal, replayed } = self;
        write!(out, "entry {sequence} differs in its {what}\n  event    {event}\n")?;
        write!(out, "  journal  {journal}\n  replayed {replayed}")
    }
}

/// The replay of one partition's journal.
#[derive(Debug, Default)]
pub struct Replay {
    coordinator: Option<Coordinator>,
    /// The expected sequence number; `None`: any.
    next_sequence: Option<u64>,
    /// Expected entries of the current advance, without the version byte.
    firings: VecDeque<Vec<u8>>,
    outcome: Outcome,
    joined: Joined,
    counts: ReplayCounts,
}

/// Rebalances whose join phase the last event completed, with their groups.
#[derive(Debug, Default)]
struct Joined(Vec<(String, Rebalance)>);

impl Sink for Joined {
    fn answer(&mut self, _: Ticket, _: Answer<'_>) {}

    fn append(&mut self, _: AppendId, _: &[Record]) {}

    fn rebalance(&mut self, group_id: &str, moment: Moment, rebalance: &Rebalance) {
        if moment == Moment::Joined {
            self.0.push((group_id.to_owned(), rebalance.clone()));
        }
    }
}

impl Replay {
    /// Creates a replay without state.
    pub fn new() -> Replay {
        Replay::default()
    }

    /// Returns the counts.
    pub fn counts(&self) -> ReplayCounts {
        self.counts
    }

    /// Returns the coordinator after the entries so far; `None` if earlier entries are missing.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.coordinator.as_ref()
    }

    /// Takes the rebalances whose join phases the last entry completed, with their groups.
    pub fn take_joined(&mut self) -> Vec<(String, Rebalance)> {
        std::mem::take(&mut self.joined.0)
    }

    /// Returns an entry with the whole state, after which another replay can continue; empty if there is no state.
    /// Returns `None` in the middle of an advance.
    pub fn as_entry(&self) -> Option<Vec<u8>> {
        if !self.firings.is_empty() {
            return None;
        }
        let last = self.next_sequence.and_then(|next| next.checked_sub(1));
        let (Some(coordinator), Some(sequence)) = (&self.coordinator, last) else { return Some(Vec::new()) };
        Some(write_mark(sequence, coordinator.now(), &Event::Snapshot { state: &coordinator.snapshot() }))
    }

    /// Replays the next entry. A replay ends with its first difference.
    pub fn fold(&mut self, bytes: &[u8]) -> Result<(), Difference> {
        let entry = Entry::read(bytes).map_err(|error| {
            let sequence = self.next_sequence.unwrap_or_default();
            let (event, journal, replayed) = ("none".to_owned(), error.to_string(), "an entry".to_owned());
            Difference { sequence, what: "entry", event, journal, replayed }
        })?;
        self.counts.entries += 1;
        let Some(following) = entry.sequence.checked_add(1) else {
            let (journal, most) = (format!("entry {}", entry.sequence), format!("at most entry {}", u64::MAX - 1));
            return Err(difference(&entry, "order", journal, most));
        };
        self.check_order(&entry, following)?;
        self.next_sequence = Some(following);
        if matches!(entry.event, OwnedEvent::Began { .. } | OwnedEvent::Gap { .. }) {
            self.firings.clear();
        }
        match &entry.event {
            OwnedEvent::Began { config, partition, epoch } => {
                let before = self.coordinator.replace(Coordinator::new(config.clone(), *partition, *epoch));
                let is_over = |phase| matches!(phase, Phase::Unloaded | Phase::Failed);
                self.counts.cut += u64::from(before.is_some_and(|before| !is_over(before.phase())));
                Ok(())
            }
            OwnedEvent::Gap { entries } => {
                self.counts.missing = self.counts.missing.saturating_add(*entries);
                self.coordinator = None;
                Ok(())
            }
            OwnedEvent::Loaded { state } => self.restore(&entry, state),
            OwnedEvent::Snapshot { state } => self.compare_state(&entry, state),
            _ if self.coordinator.is_none() => {
                self.counts.unchecked += 1;
                Ok(())
            }
            OwnedEvent::Advanced(firing) if firing.index > 0 => self.compare(&entry, bytes),
            event => {
                event.with(|event| self.run(entry.now, &event, entry.sequence));
                self.compare(&entry, bytes)
            }
        }
    }

    /// INVARIANT: the entries of an incarnation have consecutive sequence numbers, and missing entries are recorded.
    fn check_order(&self, entry: &Entry<'_>, following: u64) -> Result<(), Difference> {
        let is_next = match (&entry.event, self.next_sequence) {
            (OwnedEvent::Began { .. }, _) => entry.sequence == 0,
            (_, None) => true,
            // A gap has the sequence number of its last missing entry.
            (OwnedEvent::Gap { entries }, Some(next)) => next.checked_add(*entries) == Some(following),
            (_, Some(next)) => entry.sequence == next,
        };
        let is_firing = matches!(&entry.event, OwnedEvent::Advanced(firing) if firing.index > 0);
        let may_fire = self.coordinator.is_none() || is_firing != self.firings.is_empty();
        let may_break = matches!(entry.event, OwnedEvent::Began { .. } | OwnedEvent::Gap { .. });
        if is_next && (may_fire || may_break) {
            return Ok(());
        }
        let expected = match self.next_sequence {
            Some(next) if !is_next => format!("entry {next}"),
            _ if !self.firings.is_empty() => format!("{} more firings of the same advance", self.firings.len()),
            _ => "the first firing of an advance, or no advance".to_owned(),
        };
        Err(difference(entry, "order", format!("entry {}", entry.sequence), expected))
    }

    /// Applies an event, and keeps the entries expected for it.
    fn run(&mut self, now: Now, event: &Event<'_>, mut sequence: u64) {
        let Some(coordinator) = &mut self.coordinator else { return };
        self.outcome.clear();
        self.joined.0.clear();
        let subject = event.subject(coordinator);
        // The digest shows whether a control was executed.
        let _told = event.apply(coordinator, now, &mut Recorder::new(&mut self.outcome, Some(&mut self.joined)));
        self.firings.clear();
        let keep = |_: &str, bytes: Vec<u8>| self.firings.push_back(bytes);
        write_entries(coordinator, now, event, &subject, &self.outcome, &mut sequence, keep);
    }

    fn compare(&mut self, entry: &Entry<'_>, bytes: &[u8]) -> Result<(), Difference> {
        let expected = self.firings.pop_front().unwrap_or_default();
        self.counts.compared += 1;
        if expected == bytes {
            return Ok(());
        }
        let Ok(replayed) = Entry::read(&expected) else {
            return Err(difference(entry, "order", "a firing".to_owned(), "nothing fires".to_owned()));
        };
        let what = if entry.effect_bytes() != replayed.effect_bytes() {
            "answers"
        } else if entry.digest != replayed.digest {
            "digest"
        } else {
            "order"
        };
        let (journal, replayed) = match what {
            "answers" => (shown_effects(entry.effect_bytes()), shown_effects(replayed.effect_bytes())),
            "digest" => (format!("{:016x}", entry.digest), format!("{:016x}", replayed.digest)),
            _ => (shown(&entry.event), shown(&replayed.event)),
        };
        Err(difference(entry, what, journal, replayed))
    }

    fn restore(&mut self, entry: &Entry<'_>, state: &[u8]) -> Result<(), Difference> {
        let restored = Coordinator::restore(state);
        let unusable = |error| difference(entry, "state", format!("{error}"), "a state".to_owned());
        self.coordinator = Some(restored.map_err(unusable)?);
        Ok(())
    }

    fn compare_state(&mut self, entry: &Entry<'_>, state: &[u8]) -> Result<(), Difference> {
        let Some(coordinator) = &self.coordinator else { return self.restore(entry, state) };
        self.counts.snapshots += 1;
        if coordinator.snapshot() == state {
            return Ok(());
        }
        let replayed = coordinator.clone();
        self.restore(entry, state)?;
        let theirs = self.coordinator.as_ref().expect("it was restored");
        let (journal, replayed) = first_group_that_differs(theirs, &replayed);
        Err(difference(entry, "state", journal, replayed))
    }
}

fn difference(entry: &Entry<'_>, what: &'static str, journal: String, replayed: String) -> Difference {
    Difference { sequence: entry.sequence, what, event: shown(&entry.event), journal, replayed }
}

fn shown(event: &OwnedEvent<'_>) -> String {
    serde_json::to_string(event).unwrap_or_else(|error| error.to_string())
}

fn shown_effects(bytes: &[u8]) -> String {
    match effects_in(bytes) {
        Ok(effects) => serde_json::to_string(&effects).unwrap_or_else(|error| error.to_string()),
        Err(error) => error.to_string(),
    }
}

fn first_group_that_differs(journal: &Coordinator, replayed: &Coordinator) -> (String, String) {
    let mut group_ids = journal.group_ids();
    group_ids.extend(replayed.group_ids());
    group_ids.sort_unstable();
    let differs = |group_id: &&std::sync::Arc<str>| journal.project(group_id) != replayed.project(group_id);
    let Some(group_id) = group_ids.iter().find(differs) else {
        return ("a state with the same groups".to_owned(), "the same groups, but not the same bytes".to_owned());
    };
    let project = |coordinator: &Coordinator| match coordinator.project(group_id) {
        Some(group) => serde_json::to_string(&group).unwrap_or_else(|error| error.to_string()),
        None => format!("no group {group_id:?}"),
    };
    (project(journal), project(replayed))
}
