//! A topic's partition: offsets, reads by bytes, look-ups by time, trimming.

use rota_log::{Batch, BatchWriter, PartitionLog, TimestampedOffset, batches};

/// More bytes than any look-up needs.
const ALL: usize = usize::MAX;

fn append(log: &mut PartitionLog, timestamps_ms: &[i64]) -> i64 {
    let mut writer = BatchWriter::default();
    for timestamp_ms in timestamps_ms {
        writer.push(*timestamp_ms, None, Some(b"0123456789"));
    }
    log.append(&Batch::split(&writer.finish()).unwrap().0, 4, None).unwrap()
}

fn found(log: &PartitionLog, timestamp_ms: i64) -> Option<(i64, i64)> {
    log.offset_for_timestamp(timestamp_ms, &mut ALL.clone()).map(|found| (found.offset, found.timestamp_ms))
}

fn base_offsets(log: &PartitionLog, from: i64, max_bytes: usize, at_least_one: bool) -> Vec<i64> {
    let bytes = log.read(from, max_bytes, at_least_one).concat();
    batches(&bytes).map(|batch| batch.unwrap().header().base_offset).collect()
}

#[test]
fn offsets_count_up_over_batches_that_stay_as_they_came() {
    let mut log = PartitionLog::default();
    assert_eq!((log.first_offset(), log.next_offset()), (0, 0));
    assert_eq!(append(&mut log, &[1, 2, 3]), 0);
    assert_eq!(append(&mut log, &[4]), 3);
    assert_eq!(log.next_offset(), 4);
    let bytes = log.read(0, usize::MAX, false).concat();
    for batch in batches(&bytes) {
        batch.unwrap().validate().unwrap();
    }
    assert_eq!(batches(&bytes).map(|batch| batch.unwrap().header().leader_epoch).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn a_read_gives_whole_batches_and_the_first_one_whatever_its_size() {
    let mut log = PartitionLog::default();
    for at in 0..4 {
        append(&mut log, &[at, at]);
    }
    let one = log.size_bytes() as usize / 4;
    assert_eq!(base_offsets(&log, 0, usize::MAX, false), [0, 2, 4, 6]);
    assert_eq!(base_offsets(&log, 3, 2 * one, false), [2, 4], "from inside a batch: the batch that holds the offset");
    assert_eq!(base_offsets(&log, 2, 2 * one - 1, false), [2]);
    assert_eq!(base_offsets(&log, 2, one - 1, true), [2], "too large, but the first");
    assert_eq!(base_offsets(&log, 2, one - 1, false), [0; 0]);
    assert_eq!(base_offsets(&log, 8, one, true), [0; 0], "the end");
    assert_eq!(base_offsets(&log, -1, one, true), [0; 0]);
    assert_eq!(base_offsets(&log, i64::MAX, one, true), [0; 0]);
}

#[test]
fn look_ups_by_time_find_the_first_record_at_or_after_it() {
    let mut log = PartitionLog::default();
    append(&mut log, &[100, 300]);
    append(&mut log, &[200, 250]);
    append(&mut log, &[400, 350, 400]);
    assert_eq!(found(&log, 0), Some((0, 100)));
    assert_eq!(found(&log, 150), Some((1, 300)), "the first by offset, not by time");
    assert_eq!(found(&log, 301), Some((4, 400)));
    assert_eq!(found(&log, 401), None);
    assert_eq!(
        log.offset_of_max_timestamp(&mut ALL.clone()),
        Some(TimestampedOffset { offset: 4, timestamp_ms: 400, leader_epoch: 4 }),
        "the first of the two"
    );
    assert_eq!(PartitionLog::default().offset_of_max_timestamp(&mut ALL.clone()), None);
}

#[test]
fn look_ups_by_time_agree_with_a_plain_search() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..300 {
        let mut log = PartitionLog::default();
        let mut all: Vec<(i64, i64)> = Vec::new();
        for _ in 0..random(12) {
            let timestamps_ms: Vec<i64> = (0..=random(4)).map(|_| random(50) as i64).collect();
            let base_offset = append(&mut log, &timestamps_ms);
            all.extend((base_offset..).zip(timestamps_ms));
        }
        if random(3) == 0 && log.trim_to_bytes(log.size_bytes() * 2 / 3) {
            all.retain(|(offset, _)| *offset >= log.first_offset());
        }
        for timestamp_ms in 0..52 {
            assert_eq!(found(&log, timestamp_ms), all.iter().copied().find(|(_, at)| *at >= timestamp_ms));
        }
        let max = all.iter().map(|(_, at)| *at).max();
        let expected = all.iter().copied().find(|(_, at)| Some(*at) == max);
        assert_eq!(
            log.offset_of_max_timestamp(&mut ALL.clone()).map(|found| (found.offset, found.timestamp_ms)),
            expected
        );
    }
}

#[test]
fn a_batch_that_cannot_be_decompressed_answers_as_a_whole() {
    let mut writer = BatchWriter::default();
    writer.push(10, None, None);
    writer.push(20, None, None);
    let mut bytes = writer.finish().to_vec();
    bytes[22] |= 1;
    let mut log = PartitionLog::default();
    log.append(&Batch::split(&bytes).unwrap().0, 0, None).unwrap();
    assert_eq!(found(&log, 15), Some((0, 20)));
}

#[test]
fn append_time_counts_for_all_records() {
    let mut writer = BatchWriter::default();
    writer.push(10, None, None);
    writer.push(20, None, None);
    let mut log = PartitionLog::default();
    log.append(&Batch::split(&writer.finish()).unwrap().0, 0, Some(5_000)).unwrap();
    assert_eq!(found(&log, 15), Some((0, 5_000)));
    assert_eq!(found(&log, 5_001), None);
}

#[test]
fn trimming_drops_the_oldest_batches_but_never_the_newest() {
    let mut log = PartitionLog::default();
    for at in 0..16 {
        append(&mut log, &[at]);
    }
    let one = log.size_bytes() / 16;
    assert!(!log.trim_to_bytes(16 * one));
    assert!(log.trim_to_bytes(8 * one));
    assert_eq!((log.first_offset(), log.next_offset(), log.batch_count()), (8, 16, 8));
    assert_eq!(base_offsets(&log, 7, usize::MAX, true), [0; 0], "below the first offset");
    assert!(log.trim_to_bytes(0));
    assert_eq!((log.first_offset(), log.batch_count()), (15, 1));
}

#[test]
fn trimming_keeps_the_bytes_of_the_limit_and_at_most_an_eighth_more() {
    let mut log = PartitionLog::default();
    append(&mut log, &[0]);
    let limit_bytes = 160 * log.size_bytes();
    let mut trims = 0;
    for at in 1..1_000 {
        append(&mut log, &[at]);
        let before_bytes = log.size_bytes();
        trims += u64::from(log.trim_to_bytes(limit_bytes));
        assert!(log.size_bytes() >= limit_bytes.min(before_bytes), "{at}: {} of {limit_bytes}", log.size_bytes());
        assert!(log.size_bytes() <= limit_bytes / 8 * 9, "{at}: {} of {limit_bytes}", log.size_bytes());
    }
    assert!((1..100).contains(&trims), "{trims}");
}

#[test]
fn deleted_records_are_neither_read_nor_found_and_their_batches_go() {
    let mut log = PartitionLog::default();
    append(&mut log, &[100, 100]);
    append(&mut log, &[100, 100, 200]);
    append(&mut log, &[100]);
    let bytes = log.size_bytes();
    log.keep_open(Some(0));
    log.delete_below(3);
    assert_eq!((log.first_offset(), log.next_offset(), log.batch_count()), (3, 6, 2), "also of open transactions");
    assert!(log.size_bytes() < bytes);
    assert_eq!(base_offsets(&log, 2, usize::MAX, true), [0; 0]);
    assert_eq!(base_offsets(&log, 3, usize::MAX, true), [2, 5], "a batch is read whole");
    assert_eq!((found(&log, 100), found(&log, 150)), (Some((3, 100)), Some((4, 200))));
    log.delete_below(1);
    assert_eq!(log.first_offset(), 3, "it never falls");
    log.delete_below(i64::MAX);
    assert_eq!((log.first_offset(), log.next_offset(), log.size_bytes()), (6, 6, 0));
    assert_eq!((found(&log, 0), append(&mut log, &[1])), (None, 6));
}

#[test]
fn look_ups_by_time_that_have_used_up_their_bytes_answer_with_whole_batches() {
    let mut log = PartitionLog::default();
    append(&mut log, &[10, 20, 30]);
    append(&mut log, &[40, 50, 60]);
    let mut bytes_left = 1;
    let mut look_up = |timestamp_ms| log.offset_for_timestamp(timestamp_ms, &mut bytes_left).map(|found| found.offset);
    assert_eq!(look_up(20), Some(1), "there was a byte left");
    assert_eq!(look_up(20), Some(0));
    assert_eq!(look_up(60), Some(3));
    assert_eq!(look_up(61), None);
    assert_eq!(log.offset_of_max_timestamp(&mut 0).map(|found| found.offset), Some(3));
}
