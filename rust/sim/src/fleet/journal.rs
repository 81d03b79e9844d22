//! The journal of a world: events and effects of coordinators, as a server writes them (docs/journal.md).
//!
//! The journal of a partition is fenced like its log: it has nothing that an old epoch does after a newer one began.

use rota_core::{Coordinator, Now, Sink};
use rota_journal::{Event, Outcome, Recorder, write_entries};

/// One entry of a partition's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// World time in milliseconds.
    pub at_ms: u64,
    /// The group; "" for none or several.
    pub group_id: String,
    /// The encoded entry.
    pub value: Vec<u8>,
}

/// The journals of all partitions.
pub struct Journal {
    partitions: Vec<Vec<Entry>>,
    /// The next sequence number of each partition.
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

    /// Applies an event to a coordinator whose clock shows `now`, and records its effects.
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

    /// Returns the entries by partition.
    pub fn into_entries(self) -> Vec<Vec<Entry>> {
        self.partitions
    }
}
