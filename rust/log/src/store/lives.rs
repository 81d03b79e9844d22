//! The partitions that write-ahead files name.

use std::collections::BTreeMap;

use super::wal::{WalContent, WalEntry, entries};

/// Topic and partition, with the topic id of the last declaration; `None` if deleted.
pub type Lives<'w> = BTreeMap<(&'w str, i32), Option<u128>>;

/// Returns the last state of each partition in the write-ahead files. In files without data, this shows whose the
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

/// Returns the partitions that the write-ahead files declare. Those without a checkpoint have all their records there.
pub fn declared_topics(wals: &[(u64, WalContent)]) -> Vec<(String, i32)> {
    let payloads = wals.iter().flat_map(|(_, wal)| &wal.frames);
    let declared = payloads.flat_map(|payload| entries(payload)).filter_map(|entry| match entry {
        Some(WalEntry::Declare { topic, partition, .. }) => Some((topic.to_owned(), partition)),
        _ => None,
    });
    declared.collect()
}
