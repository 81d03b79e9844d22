//! `Note`: a small key beside those of the protocol, which every node sees: addresses, the plan, topics, settings.

use crate::store::Store;

/// Writes a note if it still is what the writer saw. The protocol does not read notes, so no promise depends on them.
///
/// A delayed twin of a note may bring back an older value after the note was changed and changed back. A writer that
/// must not allow that writes values that never repeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PutNote {
    /// Its name: letters, digits, and `.`, `-`, `_`, `/`.
    pub name: String,
    /// What the writer saw; `None`: it does not exist.
    pub seen: Option<Vec<u8>>,
    /// The new value; `None` deletes it.
    pub value: Option<Vec<u8>>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NotePut {
    /// The note has the value, by this attempt or by an earlier one.
    Written,
    /// The note has another value, and nothing was written.
    Refused(Option<Vec<u8>>),
}

impl PutNote {
    pub(super) fn apply(&self, store: &mut Store) -> NotePut {
        let found = store.view.notes.get(&self.name).cloned();
        if found == self.value {
            return NotePut::Written;
        }
        if found != self.seen {
            return NotePut::Refused(found);
        }
        store.next_revision();
        match &self.value {
            Some(value) => store.view.notes.insert(self.name.clone(), value.clone()),
            None => store.view.notes.remove(&self.name),
        };
        NotePut::Written
    }
}
