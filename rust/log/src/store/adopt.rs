//! The topic ids of a directory of Kafka's that is taken over. Kafka before 2.8 wrote none.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    io,
    path::Path,
};

use crate::files::{Entry, Files, read_file, replace_file};

use super::layout::{PARTITION_METADATA, partition_metadata, topic_id_in, topic_partition};

/// Gives every partition without a topic id that of another partition of its topic, or else a new one. Errors: those of
/// the file system.
pub fn give_topic_ids(files: &dyn Files, dir: &Path, entries: &[Entry]) -> io::Result<()> {
    let mut ids: HashMap<&str, u128> = HashMap::new();
    let mut unnamed = Vec::new();
    for entry in entries.iter().filter(|entry| entry.is_dir) {
        let Some((topic, _)) = topic_partition(&entry.name) else { continue };
        let partition_dir = dir.join(&entry.name);
        let metadata = read_file(files, &partition_dir.join(PARTITION_METADATA))?;
        match metadata.and_then(|text| topic_id_in(&String::from_utf8_lossy(&text))).filter(|id| *id != 0) {
            Some(id) => drop(ids.entry(topic).or_insert(id)),
            None => unnamed.push((topic, partition_dir)),
        }
    }
    for (topic, partition_dir) in unnamed {
        let id = *ids.entry(topic).or_insert_with(|| new_topic_id(topic));
        write_topic_id(files, &partition_dir, id)?;
    }
    Ok(())
}

/// Writes `partition.metadata` durably.
pub fn write_topic_id(files: &dyn Files, partition_dir: &Path, topic_id: u128) -> io::Result<()> {
    let text = partition_metadata(topic_id);
    replace_file(files, &partition_dir.join(PARTITION_METADATA), text.as_bytes(), true)
}

/// Returns a random UUID. The keys of the standard library's hashers are random.
fn new_topic_id(topic: &str) -> u128 {
    let half = || u128::from(RandomState::new().hash_one(topic));
    let random = half() << 64 | half();
    random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
}
