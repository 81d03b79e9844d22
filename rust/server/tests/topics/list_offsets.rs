//! `ListOffsets`: the ends, special timestamps by version, look-ups at the precision of a record.

use crate::support::{batch, list, list_request, name, produce, table};

#[test]
fn the_ends_of_a_partition() {
    let mut topics = table(1);
    assert_eq!((list(&topics, -2, 9), list(&topics, -1, 9)), ((0, -1, 0, 0), (0, -1, 0, 0)));
    produce(&mut topics, batch(&[1, 2, 3]));
    assert_eq!((list(&topics, -2, 1), list(&topics, -1, 4)), ((0, -1, 0, -1), (0, -1, 3, 0)));
}

#[test]
fn times_find_single_records() {
    let mut topics = table(1);
    produce(&mut topics, batch(&[1_000, 3_000, 2_000, 3_000]));
    assert_eq!(list(&topics, 0, 9), (0, 1_000, 0, 0));
    assert_eq!(list(&topics, 1_001, 9), (0, 3_000, 1, 0));
    assert_eq!(list(&topics, 3_001, 9), (0, -1, -1, -1));
    assert_eq!(list(&topics, -3, 9), (0, 3_000, 1, 0), "the first of the latest");
}

#[test]
fn special_timestamps_exist_from_their_version_on() {
    let mut topics = table(1);
    produce(&mut topics, batch(&[5]));
    for (timestamp, version, expected) in [
        (-3, 6, (35, -1, -1, -1)),
        (-3, 7, (0, 5, 0, 0)),
        (-4, 7, (35, -1, -1, -1)),
        (-4, 8, (0, -1, 0, 0)),
        (-5, 8, (35, -1, -1, -1)),
        (-5, 9, (0, -1, -1, -1)),
        (-6, 10, (35, -1, -1, -1)),
        (i64::MIN, 10, (35, -1, -1, -1)),
    ] {
        assert_eq!(list(&topics, timestamp, version), expected, "{timestamp} in version {version}");
    }
}

#[test]
fn an_empty_partition_has_no_greatest_timestamp() {
    assert_eq!(list(&table(1), -3, 9), (0, -1, -1, -1));
    assert_eq!(list(&table(1), 0, 9), (0, -1, -1, -1));
}

#[test]
fn what_does_not_exist_or_comes_twice_is_refused() {
    let topics = table(2);
    let response = topics.list_offsets(&list_request(&[(0, -1), (9, -1), (1, -1), (0, -2)]), 9);
    let answers: Vec<_> = response.topics[0].partitions.iter().map(|p| (p.partition_index, p.error_code)).collect();
    assert_eq!(answers, [(0, 42), (9, 3), (1, 0)]);
    let mut request = list_request(&[(0, -1)]);
    request.topics[0].name = name("nope");
    assert_eq!(topics.list_offsets(&request, 9).topics[0].partitions[0].error_code, 3);
}

#[test]
fn leader_epochs_are_compared() {
    let mut request = list_request(&[(0, -1)]);
    request.topics[0].partitions[0].current_leader_epoch = 5;
    assert_eq!(table(1).list_offsets(&request, 9).topics[0].partitions[0].error_code, 75);
}
