//! `Append`: an owner adds an entry to its log.

use crate::{
    entry::{Entry, Prev},
    ids::{Nonce, PartitionId, Revision},
    store::{Log, Store, Stored},
    view::{Part, Token},
};

/// Writes the entry if its writer owns the partition, the position is free and the entry before it is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner.
    pub token: Token,
    /// What the entry follows.
    pub prev: Prev,
    /// Where the entry goes.
    pub base_offset: i64,
    /// Names the append.
    pub nonce: Nonce,
    /// Offsets that the entry takes.
    pub count: i64,
    /// The batches.
    pub bytes: Vec<u8>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Appended {
    /// The entry is in the log, written at this revision.
    Written(Revision),
    /// Nothing was written.
    Refused {
        /// The partition's owner.
        part: Option<Part>,
        /// The nonce of the entry at the append's position, and the revision that wrote it.
        entry: Option<(Nonce, Revision)>,
    },
}

/// What an answer means to the owner (§6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The entry is in the log, written at this revision.
    Applied(Revision),
    /// The partition has another owner, or was released.
    Fenced,
    /// The engine lost something that it had confirmed: it went back.
    WentBack,
}

impl Append {
    pub(super) fn apply(&self, store: &mut Store) -> Appended {
        let log = store.logs.get(&self.partition);
        let entry = log.and_then(|log| log.entries.get(&self.base_offset));
        let entry = entry.map(|stored| (stored.value.nonce, stored.revision));
        let has_prev = log.map_or(self.prev == Prev::Nothing, |log| log.has(self.prev));
        if !store.is_held(self.partition, &self.token) || entry.is_some() || !has_prev {
            return Appended::Refused { part: store.part(self.partition), entry };
        }
        let revision = store.next_revision();
        let value = Entry { nonce: self.nonce, epoch: self.token.epoch, count: self.count, bytes: self.bytes.clone() };
        store.log_mut(self.partition).entries.insert(self.base_offset, Stored { value, revision });
        Appended::Written(revision)
    }

    /// What the answer means. A refusal of one's own entry is a confirmation: an earlier attempt wrote it.
    pub fn verdict(&self, answer: &Appended) -> Verdict {
        match answer {
            Appended::Written(revision) => Verdict::Applied(*revision),
            Appended::Refused { part: Some(part), entry } if *part == self.token.part() => match entry {
                Some((nonce, revision)) if *nonce == self.nonce => Verdict::Applied(*revision),
                _ => Verdict::WentBack,
            },
            Appended::Refused { part: Some(part), entry: _ } if part.epoch > self.token.epoch => Verdict::Fenced,
            Appended::Refused { part: Some(part), entry: _ }
                if *part == (Part { held: false, ..self.token.part() }) =>
            {
                Verdict::Fenced
            }
            Appended::Refused { .. } => Verdict::WentBack,
        }
    }
}

impl Log {
    /// Whether it still ends as its owner knows. Without this an owner that lives through a restore appends behind a hole.
    pub(super) fn has(&self, prev: Prev) -> bool {
        match prev {
            Prev::Nothing => self.head.is_none(),
            Prev::Head(revision) => self.head.as_ref().is_some_and(|head| head.revision == revision),
            Prev::Entry(base_offset, revision) => {
                self.entries.get(&base_offset).is_some_and(|entry| entry.revision == revision)
            }
        }
    }
}
