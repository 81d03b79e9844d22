//! Bytes that the allocator has handed out for loaded offsets, each: `offset_bytes OFFSETS [PARTITIONS]`, in groups with one
//! topic of 20 partitions, or of as many as given.

use std::sync::Arc;

use rota_core::{Config, Coordinator, LogEntry, Record, SelfCheck, records::OffsetValue};

const USAGE: &str = "offset_bytes OFFSETS [PARTITIONS]";

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().expect(USAGE));
    let offsets = words.next().expect(USAGE);
    let partitions = words.next().unwrap_or(20);
    let mut coordinator = Coordinator::new(Config::default(), 0, 0);
    coordinator.check_itself(SelfCheck::Never);
    let metadata: Arc<str> = "".into();
    let info = allocation_counter::measure(|| {
        for at in 0..offsets {
            let value = OffsetValue {
                offset: at as i64,
                leader_epoch: 0,
                metadata: Arc::clone(&metadata),
                commit_timestamp_ms: 1_790_000_000_000,
                expire_timestamp_ms: None,
                topic_id: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
            };
            let group_id = format!("group-{}", at / partitions).into();
            let partition = (at % partitions) as i32;
            let record = Record::Offset { group_id, topic: "orders".into(), partition, value: Some(value) };
            coordinator.replay(&LogEntry { offset: at, timestamp_ms: 0, record });
        }
    });
    println!("{}", info.bytes_current / offsets as i64);
}
