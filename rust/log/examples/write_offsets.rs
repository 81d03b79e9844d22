//! Writes a data directory with offset commits, a group and tombstones in `__consumer_offsets-3`, small segments, some
//! of them compacted; prints what it wrote as lines `OFFSET KEY VALUE`, in hexadecimal, `-` for a tombstone. Kafka's
//! dump tool is to show the same: `tests/log`.
//!
//! `cargo run -p rota-log --example write_offsets -- DIR`

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use rota_log::{
    BatchWriter,
    files::DiskFiles,
    store::{Command, Store, StoreOptions},
};

fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn offset_key(group: &str, topic: &str, partition: i32) -> Vec<u8> {
    let mut key = vec![0, 1];
    string(&mut key, group);
    string(&mut key, topic);
    key.extend(partition.to_be_bytes());
    key
}

/// Version 4: offset, no leader epoch, metadata, time, topic id.
fn offset_value(offset: i64, metadata: &str) -> Vec<u8> {
    let mut value = vec![0, 4];
    value.extend(offset.to_be_bytes());
    value.extend((-1_i32).to_be_bytes());
    value.push(metadata.len() as u8 + 1);
    value.extend(metadata.as_bytes());
    value.extend(1_700_000_000_000_i64.to_be_bytes());
    value.extend([1, 0, 16]);
    value.extend([0x5a; 16]);
    value
}

/// An empty group, version 3.
fn group(name: &str) -> (Vec<u8>, Vec<u8>) {
    let mut key = vec![0, 2];
    string(&mut key, name);
    let mut value = vec![0, 3];
    string(&mut value, "consumer");
    value.extend(7_i32.to_be_bytes());
    value.extend([0xff; 4]);
    value.extend(1_700_000_000_000_i64.to_be_bytes());
    value.extend([0; 4]);
    (key, value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("where to?")?);
    let options = StoreOptions { segment_bytes: 2_000, wal_bytes: 4_000, ..StoreOptions::default() };
    let (mut store, _) = Store::open(Arc::new(DiskFiles), &dir, options)?;
    let create = Command::Create { topic: "__consumer_offsets".to_owned(), partition: 3, topic_id: 99 };
    store.pass(vec![create]).remove(0)?;
    let partition = store.handle("__consumer_offsets", 3).ok_or("it was created")?;
    store.pass(vec![Command::Open { partition, epoch: 5 }]).remove(0)?;
    for n in 0..60_i64 {
        let mut writer = BatchWriter::default();
        writer.producer = Some((-1, -1, 0));
        let (key, value) = group("some-group");
        writer.push(1_700_000_000_000 + n, Some(&key), Some(&value));
        for partition in 0..3 {
            let key = offset_key("some-group", "some-topic", partition);
            let value = (n % 10 != i64::from(partition)).then(|| offset_value(n, "m"));
            writer.push(1_700_000_000_001 + n, Some(&key), value.as_deref());
        }
        if n == 1 {
            writer.push(1_700_000_000_001, Some(&offset_key("gone", "some-topic", 9)), None);
        }
        store.pass(vec![Command::Append { partition, epoch: 5, batch: writer.finish().to_vec() }]).remove(0)?;
        while let Some(mut task) = store.next_task(1_700_000_000_000) {
            let done = task.run();
            store.finish(task, done);
        }
    }
    store.checkpoint()?;
    assert!(store.compactions() > 0, "what compaction writes is to be read, too");
    for stored in store.view(partition).ok_or("it was created")?.read_records(0, usize::MAX)? {
        let value = stored.record.value.as_deref().map_or("-".to_owned(), hex);
        println!("{} {} {value}", stored.offset, hex(&stored.record.key));
    }
    Ok(())
}
