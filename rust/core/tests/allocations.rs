//! What must not allocate does not: a counting allocator measures the paths that every heartbeat takes.
//!
//! `allocation_counter::measure` counts the allocations of its own thread only, so these tests may run side by side.
use rota_core::purgatory::Purgatory;
use rota_core::wheel::Wheel;

/// Deadlines that reach every kind of re-arming: lazy, relinked to any level, overdue, the end of time.
fn deadlines_ms(now_ms: u64) -> impl Iterator<Item = u64> {
    let powers = (0..64).map(|bit| 1_u64 << bit);
    powers.clone().chain(powers.rev()).chain([0, u64::MAX, 1]).map(move |span_ms| now_ms.saturating_add(span_ms))
}

/// Runs `steps` and returns how often they allocated.
fn allocations(steps: impl FnOnce()) -> u64 {
    allocation_counter::measure(steps).count_total
}

#[test]
fn the_counter_sees_an_allocation() {
    assert_ne!(allocations(|| drop(std::hint::black_box(Box::new(1_u8)))), 0);
    let mut wheel = Wheel::new(0);
    let counted = allocations(|| {
        let id = wheel.arm(10, ());
        assert_eq!(wheel.deadline(id), Some(10));
    });
    assert_ne!(counted, 0, "a first arming makes room");
}

#[test]
fn rearming_an_entry_of_the_wheel_allocates_nothing() {
    let now_ms = 1_000_000;
    let mut wheel = Wheel::new(now_ms);
    let ids: Vec<_> = (0..1_000).map(|n| wheel.arm(now_ms + 45_000 + n, n)).collect();
    let counted = allocations(|| {
        for deadline_ms in deadlines_ms(now_ms) {
            for &id in &ids {
                assert!(wheel.rearm(id, deadline_ms));
            }
        }
        for &id in &ids {
            assert!(wheel.rearm(id, 0));
        }
    });
    assert_eq!(counted, 0);
}

#[test]
fn rearming_a_watched_operation_allocates_nothing() {
    let mut purgatory = Purgatory::new(0);
    let id = purgatory.watch(45_000, &["group".to_owned(), "member".to_owned()], "session".to_owned());
    let counted = allocations(|| {
        for deadline_ms in deadlines_ms(0) {
            assert!(purgatory.rearm(id, deadline_ms));
        }
        assert_eq!(purgatory.deadline(id), Some(1));
    });
    assert_eq!(counted, 0);
}

#[test]
fn an_advance_that_finds_nothing_due_allocates_nothing() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<_> = (0..1_000).map(|n| wheel.arm(1_000 + n, n)).collect();
    let counted = allocations(|| {
        for &id in &ids {
            wheel.rearm(id, 100_000);
        }
        assert!(wheel.advance(50_000).is_empty(), "every entry finds a new slot, none is due");
        assert!(wheel.next_deadline().is_some_and(|next_ms| next_ms > 50_000));
    });
    assert_eq!(counted, 0);
}
