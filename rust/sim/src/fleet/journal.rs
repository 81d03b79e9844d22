//! The journal of a world: what coordinators were told and what came of it, as a server writes it (docs/journal.md).
//!
//! The journal of a partition is fenced as its log is: what an old epoch does on its node after another one has begun
//! is not in it.

use rota_core::{Coordinator, Now, Sink};
use rota_journal::{Event, Outcome, Recorder, write_entries};

/// One entry of the journal of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, of the world.
    pub at_ms: u64,
    /// What it is about; "": no group, or several.
    pub group_id: String,
    /// As it is written.
    pub value: Vec<u8>,
}

/// All partitions' journals.
pub struct Journal {
    partitions: Vec<Vec<Entry>>,
    /// Of the next entry of each.
    sequences: Vec<u64>,
    outcome: Outcome,
}

impl Journal {
    pub fn new(partitions: usize) -> Journal {
        Journal {
            partitions: vec![Vec::new(); partitions],
            sequences: vec![0; partitions],
            outcome: Outcome::default(),
        }
    }

    /// Tells a coordinator, whose clock shows `now`, and notes what comes of it.
    pub fn tell(&mut self, core: &mut Coordinator, event: &Event<'_>, now: Now, at_ms: u64, sink: &mut dyn Sink) {
        self.outcome.clear();
        let subject = event.subject(core);
        let _done = event.apply(core, now, &mut Recorder::new(&mut self.outcome, Some(sink)));
        let state = if matches!(event, Event::Loaded { .. }) { core.snapshot() } else { Vec::new() };
        let event = if state.is_empty() { event } else { &Event::Loaded { state: &state } };
        let partition = core.partition() as usize;
        let sequence = &mut self.sequences[partition];
        if matches!(event, Event::Began { .. }) {
            *sequence = 0;
        }
        let entries = &mut self.partitions[partition];
        write_entries(core, now, event, &subject, &self.outcome, sequence, |group_id, value| {
            entries.push(Entry { at_ms, group_id: group_id.to_owned(), value });
        });
    }

    /// The entries, by partition.
    pub fn into_entries(self) -> Vec<Vec<Entry>> {
        self.partitions
    }
}
