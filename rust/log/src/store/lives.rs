//! What write-ahead files say of the partitions that they name.

use std::collections::BTreeMap;

use super::wal::{WalContent, WalEntry, entries};

/// Topic and partition, and which topic id it was last declared with; `None`: it was deleted.
pub type Lives<'w> = BTreeMap<(&'w str, i32), Option<u128>>;

/// How the lives of partitions ended, as far as the write-ahead files tell. Without data in them, that says whose the
/// segments are.
pub fn last_lives(wals: &[(u64, WalContent)]) -> Lives<'_> {
    let mut lives = Lives::new();
    for (_, wal) in wals {
        let mut names = BTreeMap::new();
        for entry in wal.frames.iter().flat_map(|payload| entries(payload)) {
            match entry {
                Some(WalEntry::Declare { handle, topic, partition, topic_id }) => {
                    names.insert(handle, (topic, partition));
                    lives.insert((topic, partition), Some(topic_id));
                }
                Some(WalEntry::Delete { handle }) => {
                    lives.extend(names.get(&handle).map(|name| (*name, None)));
                }
                _ => {}
            }
        }
    }
    lives
}

/// Partitions that the write-ahead files declare: those that are in no checkpoint have all their records there.
pub fn declared_topics(wals: &[(u64, WalContent)]) -> Vec<(String, i32)> {
    let payloads = wals.iter().flat_map(|(_, wal)| &wal.frames);
    let declared = payloads.flat_map(|payload| entries(payload)).filter_map(|entry| match entry {
        Some(WalEntry::Declare { topic, partition, .. }) => Some((topic.to_owned(), partition)),
        _ => None,
    });
    declared.collect()
}
