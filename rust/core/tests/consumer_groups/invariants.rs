//! The coordinator's own checks see a consumer group that no requests lead to: each with a log that says so.

use std::sync::Arc;

use rota_core::{
    Config, Coordinator, LogEntry, Record,
    records::{ConsumerRecord, CurrentValue, SubscriptionValue},
};

use crate::{
    classic::FOO,
    scene::{Scene, beat, join, settings},
};

/// The log of a group whose members m1 and m2 share a topic.
fn shared() -> Vec<Record> {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join("m1", FOO).of("i1")), "2 [foo:012345]");
    assert_eq!(g.send(&join("m2", FOO).of("i2")), "3 []");
    assert_eq!(g.send(&beat("m1", 2).of("i1").owns("foo:012345")), "2 [foo:012]");
    assert_eq!(g.send(&beat("m1", 2).of("i1").owns("foo:012")), "3 -");
    assert_eq!(g.send(&beat("m2", 3).of("i2")), "3 [foo:345]");
    g.log()
}

/// The id of the invariant that a log breaks after a change of its records.
fn broken(change: impl Fn(&mut ConsumerRecord)) -> Option<&'static str> {
    let mut coordinator = Coordinator::new(Config::default(), 0, 0);
    coordinator.configure_consumer_groups(settings(0));
    for (offset, mut record) in (0..).zip(shared()) {
        if let Record::Consumer { about, .. } = &mut record {
            change(about);
        }
        coordinator.replay(&LogEntry { offset, timestamp_ms: 0, record });
    }
    coordinator.check_invariants().err().map(|violation| violation.id)
}

/// Changes the last current assignment of m2, which is the one at epoch 3 with partitions.
fn of_m2(change: impl Fn(&mut CurrentValue)) -> impl Fn(&mut ConsumerRecord) {
    move |record| {
        if let ConsumerRecord::Current(id, Some(value)) = record
            && **id == *"m2"
            && !value.assigned.is_empty()
        {
            change(value);
        }
    }
}

#[test]
fn a_log_as_it_was_written_breaks_nothing() {
    assert_eq!(broken(|_| ()), None);
}

#[test]
fn two_members_with_one_partition_break_c1() {
    assert_eq!(broken(of_m2(|value| value.assigned[0].partitions[0] = 0)), Some("C1"));
}

#[test]
fn epochs_out_of_order_break_c3() {
    assert_eq!(broken(of_m2(|value| value.epoch = 4)), Some("C3"), "a member ahead of the target");
    assert_eq!(broken(of_m2(|value| value.epoch = -3)), Some("C3"), "no such epoch");
    let ahead = |record: &mut ConsumerRecord| {
        if let ConsumerRecord::TargetEpoch(Some(value)) = record {
            value.epoch = 9;
        }
    };
    assert_eq!(broken(ahead), Some("C3"), "the target ahead of the group");
}

#[test]
fn partitions_to_give_up_in_another_state_break_c6() {
    let pending = |state| {
        of_m2(move |value| {
            value.pending_revocation = std::mem::take(&mut value.assigned);
            value.state = state;
        })
    };
    assert_eq!(broken(pending(1)), None);
    assert_eq!(broken(pending(0)), Some("C6"));
    assert_eq!(broken(pending(2)), Some("C6"));
    assert_eq!(broken(of_m2(|value| value.state = 1)), Some("C6"), "nothing to give up");
}

#[test]
fn two_members_with_one_instance_break_c10() {
    let named = |record: &mut ConsumerRecord| {
        if let ConsumerRecord::Member(_, Some(value)) = record {
            **value = SubscriptionValue { instance_id: Some(Arc::from("i1")), ..(**value).clone() };
        }
    };
    assert_eq!(broken(named), Some("C10"));
}
