//! The purgatory over the wheel: watching, completing once, expiring in order.
use rota_core::purgatory::{OpId, Purgatory};

type Names = Purgatory<&'static str, &'static str>;

fn expired(purgatory: &mut Names, now_ms: u64) -> Vec<(u64, &'static str)> {
    let mut due = purgatory.advance(now_ms);
    let mut names = Vec::new();
    while let Some((_, deadline_ms, name)) = purgatory.take_expired(&mut due) {
        names.push((deadline_ms, name));
    }
    names
}

#[test]
fn a_check_finds_operations_in_watching_order() {
    let mut purgatory = Names::new(0);
    let first = purgatory.watch(30, &["group"], "first");
    let second = purgatory.watch(10, &["other", "group"], "second");
    let third = purgatory.watch(20, &["group", "group"], "third");
    assert!(purgatory.rearm(first, 40));
    assert_eq!(purgatory.check(&"group"), [first, second, third]);
    assert_eq!(purgatory.check(&"other"), [second]);
    assert_eq!((purgatory.watched(&"group"), purgatory.watched(&"absent")), (3, 0));
}

#[test]
fn only_the_first_to_complete_gets_the_operation() {
    let mut purgatory = Names::new(0);
    let id = purgatory.watch(10, &["a", "b"], "join");
    assert_eq!(purgatory.complete(id), Some("join"));
    assert_eq!(purgatory.complete(id), None);
    assert_eq!((purgatory.watched(&"a"), purgatory.watched(&"b"), purgatory.len()), (0, 0, 0));
    assert_eq!(expired(&mut purgatory, 100), []);
}

#[test]
fn an_id_stays_dead_when_its_memory_is_used_again() {
    let mut purgatory = Names::new(0);
    let old = purgatory.watch(10, &["a"], "old");
    purgatory.complete(old);
    let new = purgatory.watch(10, &["a"], "new");
    assert_ne!(old, new);
    assert!(!purgatory.rearm(old, 5));
    assert_eq!((purgatory.get(old), purgatory.deadline(old)), (None, None));
    assert_eq!(purgatory.complete(old), None);
    assert_eq!(purgatory.get(new), Some(&"new"));
}

#[test]
fn operations_expire_by_deadline_then_arming_and_take_their_watches_along() {
    let mut purgatory = Names::new(1_000);
    let heartbeat = purgatory.watch(1_500, &["m"], "heartbeat");
    purgatory.watch(1_500, &["m"], "join");
    purgatory.watch(1_400, &[], "sync");
    purgatory.rearm(heartbeat, 1_500);
    assert_eq!(expired(&mut purgatory, 1_399), []);
    assert_eq!(expired(&mut purgatory, 1_500), [(1_400, "sync"), (1_500, "join"), (1_500, "heartbeat")]);
    assert!(purgatory.is_empty());
    assert_eq!((purgatory.watched(&"m"), purgatory.next_deadline()), (0, None));
}

#[test]
fn what_waits_is_listed_with_its_keys_in_the_order_in_which_it_would_expire() {
    let mut purgatory = Names::new(1_000);
    let heartbeat = purgatory.watch(1_500, &["m"], "heartbeat");
    purgatory.watch(1_500, &["m", "n"], "join");
    purgatory.watch(9_400, &[], "sync");
    let gone = purgatory.watch(1_200, &[], "gone");
    purgatory.complete(gone);
    purgatory.rearm(heartbeat, 1_500);
    let listed: Vec<_> =
        purgatory.in_firing_order().map(|(deadline_ms, keys, name)| (deadline_ms, keys.to_vec(), *name)).collect();
    let expected = [(1_500, vec!["m", "n"], "join"), (1_500, vec!["m"], "heartbeat"), (9_400, vec![], "sync")];
    assert_eq!(listed, expected);
    let names: Vec<&str> = listed.iter().map(|(_, _, name)| *name).collect();
    assert_eq!(expired(&mut purgatory, 10_000).iter().map(|(_, name)| *name).collect::<Vec<_>>(), names);
}

#[test]
fn what_is_completed_or_rearmed_between_the_advance_and_its_turn_does_not_expire_now() {
    let mut purgatory = Names::new(0);
    purgatory.watch(1, &[], "first");
    let completed = purgatory.watch(2, &[], "completed");
    let rearmed = purgatory.watch(3, &[], "re-armed");
    let mut due = purgatory.advance(10);
    assert_eq!(purgatory.take_expired(&mut due).map(|(_, _, name)| name), Some("first"));
    assert_eq!(purgatory.complete(completed), Some("completed"));
    assert!(purgatory.rearm(rearmed, 4));
    assert_eq!(purgatory.take_expired(&mut due), None);
    assert!(purgatory.next_deadline().is_some_and(|next_ms| next_ms <= 4), "the bound may be early but not late");
    assert_eq!(expired(&mut purgatory, 10), [(4, "re-armed")]);
}

#[test]
fn an_id_and_its_number_name_the_same_operation() {
    let mut purgatory = Names::new(0);
    let ids = ["first", "second"].map(|name| purgatory.watch(10, &["group"], name));
    assert_eq!(ids.map(OpId::number), [1, 2]);
    assert_eq!(ids.map(|id| OpId::from_number(id.number())), ids.map(Some));
    assert_eq!(OpId::from_number(0), None);
}

#[test]
fn a_stored_purgatory_continues_as_if_it_had_not_been_stored() {
    let mut purgatory: Purgatory<String, u32> = Purgatory::new(7);
    let ids: Vec<OpId> =
        (0..100).map(|n| purgatory.watch(u64::from(n) * 1_000, &[format!("key {}", n % 3)], n)).collect();
    let twice = purgatory.watch(5_000_000, &["key 0", "key 0"].map(String::from), 100);
    for (n, id) in ids.iter().enumerate() {
        match n % 4 {
            0 => assert!(purgatory.complete(*id).is_some()),
            1 => assert!(purgatory.rearm(*id, 5_000_000 + n as u64)),
            _ => {}
        }
    }
    let mut due = purgatory.advance(50_000);
    while purgatory.take_expired(&mut due).is_some() {}

    let bytes = postcard::to_allocvec(&purgatory).expect("it serialises");
    let mut restored: Purgatory<String, u32> = postcard::from_bytes(&bytes).expect("it comes back");
    assert_eq!(postcard::to_allocvec(&restored).expect("it serialises"), bytes);
    for key in ["key 0", "key 1", "key 2"].map(String::from) {
        assert_eq!(restored.check(&key), purgatory.check(&key));
    }
    assert!(restored.check(&"key 0".into()).contains(&twice));
    assert_eq!(restored.watch(60_000, &[], 1_000), purgatory.watch(60_000, &[], 1_000));
    while let Some(next_ms) = purgatory.next_deadline() {
        assert_eq!(restored.next_deadline(), Some(next_ms));
        let (mut left, mut right) = (purgatory.advance(next_ms), restored.advance(next_ms));
        loop {
            let taken = purgatory.take_expired(&mut left);
            assert_eq!(restored.take_expired(&mut right), taken);
            if taken.is_none() {
                break;
            }
        }
    }
    assert!(restored.is_empty());
}

#[test]
fn it_says_how_late_it_is_and_how_much_waits_and_lends_what_waits() {
    let mut purgatory = Names::new(7);
    assert_eq!((purgatory.now_ms(), purgatory.len(), purgatory.is_empty()), (7, 0, true));
    let id = purgatory.watch(100, &["a"], "before");
    assert_eq!((purgatory.len(), purgatory.is_empty()), (1, false));
    *purgatory.get_mut(id).expect("it waits") = "after";
    assert_eq!(purgatory.get(id), Some(&"after"));
    assert_eq!(expired(&mut purgatory, 90), []);
    assert_eq!(purgatory.now_ms(), 90);
    assert_eq!(expired(&mut purgatory, 100), [(100, "after")]);
    assert_eq!(purgatory.get_mut(id), None);
    assert_eq!((purgatory.len(), purgatory.is_empty()), (0, true));
}

#[test]
fn a_watching_number_that_has_no_room_to_rise_is_refused() {
    let bytes = postcard::to_allocvec(&Purgatory::<String, u32>::new(0)).expect("it serialises");
    let restored = |watchings: u64| {
        // The last field, which is 0 here.
        let mut bytes = bytes[..bytes.len() - 1].to_vec();
        bytes.extend(postcard::to_allocvec(&watchings).expect("a number"));
        postcard::from_bytes::<Purgatory<String, u32>>(&bytes)
    };
    for watchings in [0, u64::MAX / 2] {
        assert!(restored(watchings).is_ok(), "{watchings}");
    }
    for watchings in [u64::MAX / 2 + 1, u64::MAX] {
        assert!(restored(watchings).is_err(), "{watchings}");
    }
}
