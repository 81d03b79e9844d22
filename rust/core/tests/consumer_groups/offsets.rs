//! Who may commit and fetch offsets of a consumer group, with which epoch (docs/consumer-protocol.md §11, §12).

use rota_core::{
    ErrorCode, Record, Request,
    records::OffsetValue,
    request::{CommitPartition, CommitTopic, ConsumerOffsetFetch, OffsetCommit, TxnOffsetCommit},
};

use crate::{
    classic::{FOO, mixed},
    scene::{Scene, beat, join, settings},
};

const PARTITION: &[CommitPartition<'_>] = &[CommitPartition { index: 0, offset: 1, leader_epoch: -1, metadata: None }];
const TOPIC: &[CommitTopic<'_>] = &[CommitTopic { name: "foo", topic_id: 0, partitions: PARTITION }];

/// The record of an offset of the group "g".
pub fn stored() -> Record {
    let value = OffsetValue {
        offset: 7,
        leader_epoch: -1,
        metadata: "".into(),
        commit_timestamp_ms: 0,
        expire_timestamp_ms: None,
        topic_id: 0,
    };
    Record::Offset { group_id: "g".into(), topic: "foo".into(), partition: 0, value: Some(value) }
}

fn code(error: ErrorCode) -> String {
    error.code().to_string()
}

/// A commit of an offset of partition 0 of `foo`.
pub fn commit_by(version: i16, member_id: &str, generation: i32) -> OffsetCommit<'_> {
    OffsetCommit {
        version,
        group_id: Some("g"),
        generation,
        member_id,
        instance_id: None,
        retention_time_ms: None,
        topics: TOPIC,
    }
}

pub fn commit(g: &mut Scene, version: i16, member_id: &str, generation: i32) -> String {
    g.ask(Request::OffsetCommit(commit_by(version, member_id, generation)))
}

pub fn commit_in_transaction(
    g: &mut Scene,
    version: i16,
    (member_id, instance_id, generation): (&str, Option<&str>, i32),
    topic: &str,
) -> String {
    g.ask(Request::TxnOffsetCommit(TxnOffsetCommit {
        version,
        group_id: Some("g"),
        producer_id: 7,
        producer_epoch: 0,
        generation,
        member_id,
        instance_id,
        topics: &[CommitTopic { name: topic, topic_id: 0, partitions: PARTITION }],
    }))
}

fn fetch(g: &mut Scene, member_id: Option<&str>, member_epoch: i32) -> String {
    g.ask(Request::ConsumerOffsetFetch(ConsumerOffsetFetch {
        group_id: Some("g"),
        member_id,
        member_epoch,
        require_stable: false,
        topics: None,
    }))
}

/// A member at epoch 3 that has held partitions of `foo` since epoch 2.
fn at_its_second_epoch() -> Scene {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join("m1", FOO)), "2 [foo:012345]");
    assert_eq!(g.send(&beat("m1", 2).names(&["foo", "one"]).owns("foo:012345")), "3 [foo:012345 one:0]");
    g
}

#[test]
fn a_member_commits_with_its_epoch_and_with_one_since_which_it_holds_the_partition() {
    let mut g = at_its_second_epoch();
    let expected = [
        (3, ErrorCode::None),
        (2, ErrorCode::None),
        (1, ErrorCode::StaleMemberEpoch),
        (0, ErrorCode::StaleMemberEpoch),
        (-1, ErrorCode::StaleMemberEpoch),
        (4, ErrorCode::StaleMemberEpoch),
    ];
    for (epoch, error) in expected {
        assert_eq!(commit(&mut g, 9, "m1", epoch), code(error), "epoch {epoch}");
    }
    assert_eq!(commit(&mut g, 8, "m1", 3), code(ErrorCode::UnsupportedVersion));
    assert_eq!(commit(&mut g, 9, "other", 3), code(ErrorCode::UnknownMemberId));
    assert_eq!(commit(&mut g, 9, "", -1), code(ErrorCode::UnknownMemberId), "the group has a member");
}

#[test]
fn who_is_no_member_commits_to_a_group_without_members_and_without_an_epoch() {
    let mut g = at_its_second_epoch();
    assert_eq!(g.send(&beat("m1", -1)), "-1 -");
    assert_eq!(commit(&mut g, 9, "", 0), code(ErrorCode::UnknownMemberId));
    assert_eq!(commit(&mut g, 9, "", -1), code(ErrorCode::None));
}

/// As Apache Kafka 4.4.0 answers these commits.
#[test]
fn a_transaction_commits_with_an_epoch_since_which_the_member_holds_the_partition() {
    let mut g = at_its_second_epoch();
    for (member_id, epoch, topic, before_v6, from_v6) in [
        ("m1", 3, "foo", ErrorCode::None, ErrorCode::None),
        ("m1", 3, "one", ErrorCode::None, ErrorCode::None),
        ("m1", 2, "foo", ErrorCode::None, ErrorCode::None),
        ("m1", 2, "one", ErrorCode::IllegalGeneration, ErrorCode::StaleMemberEpoch),
        ("m1", 1, "foo", ErrorCode::IllegalGeneration, ErrorCode::StaleMemberEpoch),
        ("m1", 4, "foo", ErrorCode::IllegalGeneration, ErrorCode::StaleMemberEpoch),
        ("m1", -1, "foo", ErrorCode::IllegalGeneration, ErrorCode::StaleMemberEpoch),
        ("other", 3, "foo", ErrorCode::UnknownMemberId, ErrorCode::UnknownMemberId),
        ("", -1, "foo", ErrorCode::None, ErrorCode::None),
    ] {
        for (version, error) in [(3, before_v6), (5, before_v6), (6, from_v6)] {
            let sender = (member_id, None, epoch);
            assert_eq!(
                commit_in_transaction(&mut g, version, sender, topic),
                code(error),
                "{sender:?} {topic} {version}"
            );
        }
    }
}

/// As Apache Kafka 4.4.0 answers these commits.
#[test]
fn a_transaction_of_any_sender_without_an_epoch_commits_to_a_group_without_members() {
    let mut g = at_its_second_epoch();
    assert_eq!(g.send(&beat("m1", -1)), "-1 -");
    for (sender, error) in [
        (("", None, -1), ErrorCode::None),
        (("", Some("i"), -1), ErrorCode::None),
        (("other", None, -1), ErrorCode::None),
        (("", None, 0), ErrorCode::UnknownMemberId),
        (("other", None, 3), ErrorCode::UnknownMemberId),
    ] {
        assert_eq!(commit_in_transaction(&mut g, 5, sender, "foo"), code(error), "{sender:?}");
    }
}

#[test]
fn a_fetch_names_no_member_or_one_with_its_current_epoch() {
    let mut g = at_its_second_epoch();
    for (member_id, epoch, error) in [
        (None, -1, ErrorCode::None),
        (None, 0, ErrorCode::UnknownServerError),
        (None, 1, ErrorCode::UnknownServerError),
        (Some("m1"), 3, ErrorCode::None),
        (Some("m1"), 2, ErrorCode::StaleMemberEpoch),
        (Some("m1"), 4, ErrorCode::StaleMemberEpoch),
        (Some("other"), 3, ErrorCode::UnknownMemberId),
    ] {
        assert_eq!(fetch(&mut g, member_id, epoch), code(error), "{member_id:?} at {epoch}");
    }
}

#[test]
fn a_classic_member_of_a_consumer_group_is_refused_as_a_classic_one() {
    let mut g = mixed(settings(0));
    assert_eq!(fetch(&mut g, Some("A"), 2), code(ErrorCode::IllegalGeneration));
    assert_eq!(fetch(&mut g, Some("A"), 3), code(ErrorCode::None));
    assert_eq!(commit(&mut g, 8, "A", 2), code(ErrorCode::IllegalGeneration));
    assert_eq!(commit(&mut g, 8, "A", 3), code(ErrorCode::None), "of any version");
}
