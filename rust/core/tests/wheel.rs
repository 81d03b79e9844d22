//! The timing wheel against a sorted list: a million random operations, and proof that the comparison can fail.
//!
//! `ROTA_HISTORIES` is how many histories of some 2,000 operations there are (default 110; `make long` has 2,000).
mod wheel_model;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use rota_core::wheel::{LEVELS, TimerId, Wheel, level_of, slot_of, slot_start, slots, slots_reached};
use wheel_model::{Planted, Subject, arbitrary_history, operations_in, run};

fn without_files(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// The wheel as the model test drives it; a planted bug makes it wrong in one way.
struct Tested {
    wheel: Wheel<u32>,
    due: rota_core::wheel::Due,
    planted: Option<Planted>,
    /// What [`Planted::TiesReversed`] took too soon.
    held: Option<(TimerId, u64, u32)>,
}

impl Tested {
    fn new(now_ms: u64, planted: Option<Planted>) -> Self {
        Self { wheel: Wheel::new(now_ms), due: rota_core::wheel::Due::default(), planted, held: None }
    }

    fn is(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }
}

impl Subject for Tested {
    fn arm(&mut self, deadline_ms: u64, name: u32) -> TimerId {
        self.wheel.arm(deadline_ms, name)
    }

    fn rearm(&mut self, id: TimerId, deadline_ms: u64) -> bool {
        let earlier = self.wheel.deadline(id).is_some_and(|before_ms| deadline_ms < before_ms);
        if self.is(Planted::EarlierRearmIgnored) && earlier {
            return true;
        }
        self.wheel.rearm(id, deadline_ms)
    }

    fn cancel(&mut self, id: TimerId) -> Option<u32> {
        if self.is(Planted::CancelForgotten) {
            return self.wheel.get(id).copied();
        }
        self.wheel.cancel(id)
    }

    fn deadline(&self, id: TimerId) -> Option<u64> {
        self.wheel.deadline(id)
    }

    fn advance(&mut self, now_ms: u64) {
        self.due = match self.planted {
            Some(Planted::FiresLate) => self.wheel.advance(now_ms.saturating_sub(1)),
            Some(Planted::FiresEarly) => self.wheel.advance(now_ms.saturating_add(1)),
            _ => self.wheel.advance(now_ms),
        };
    }

    fn take(&mut self) -> Option<(TimerId, u64, u32)> {
        if self.is(Planted::TiesReversed) {
            let taken = self.held.take().or_else(|| self.wheel.take_due(&mut self.due))?;
            self.held = self.wheel.take_due(&mut self.due);
            return match self.held.replace(taken) {
                Some(next) if next.1 == taken.1 => Some(next),
                other => std::mem::replace(&mut self.held, other),
            };
        }
        if let Some(taken) = self.wheel.take_due(&mut self.due) {
            return Some(taken);
        }
        if self.is(Planted::RearmedFiresAtOnce) {
            self.due = self.wheel.advance(0);
            return self.wheel.take_due(&mut self.due);
        }
        None
    }

    fn next_deadline(&self) -> Option<u64> {
        let next_ms = self.wheel.next_deadline();
        match self.planted {
            Some(Planted::NextDeadlineLate) => next_ms.map(|ms| ms.saturating_add(1)),
            Some(Planted::NextDeadlineStuck) => next_ms.map(|ms| ms.min(self.wheel.now_ms())),
            _ => next_ms,
        }
    }

    fn len(&self) -> usize {
        self.wheel.len()
    }

    fn store(&mut self) {
        let bytes = postcard::to_allocvec(&self.wheel).expect("a wheel serialises");
        self.wheel = postcard::from_bytes(&bytes).expect("a stored wheel comes back");
        assert_eq!(postcard::to_allocvec(&self.wheel).expect("a wheel serialises"), bytes);
    }
}

#[test]
fn operations_agree_with_a_sorted_list() {
    let histories = std::env::var("ROTA_HISTORIES").map_or(110, |value| value.parse().expect("a number"));
    let performed = std::cell::Cell::new(0_u64);
    TestRunner::new(without_files(histories))
        .run(&arbitrary_history(2_000), |(start_ms, history)| {
            performed.set(performed.get() + operations_in(&history));
            run(Tested::new(start_ms, None), start_ms, &history).map_err(TestCaseError::fail)
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(performed.get() * 550 >= 1_000_000 * u64::from(histories), "only {} operations", performed.get());
}

#[test]
fn the_comparison_catches_every_planted_bug() {
    for (bug, complaint) in [
        (Planted::FiresLate, "late"),
        (Planted::FiresEarly, "early"),
        (Planted::EarlierRearmIgnored, "is armed for"),
        (Planted::CancelForgotten, "armed"),
        // Or what was taken too soon is to be re-armed.
        (Planted::TiesReversed, "could not be re-armed"),
        (Planted::RearmedFiresAtOnce, "waits for the next advance"),
        (Planted::NextDeadlineLate, "next_deadline"),
        (Planted::NextDeadlineStuck, "no progress"),
    ] {
        let config = Config { max_shrink_iters: 0, ..without_files(200) };
        let failure = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
            .run(&arbitrary_history(300), |(start_ms, history)| {
                run(Tested::new(start_ms, Some(bug)), start_ms, &history).map_err(TestCaseError::fail)
            })
            .expect_err(&format!("{bug:?} was not found"));
        let TestError::Fail(reason, _) = failure else { panic!("{bug:?} ended the test: {failure}") };
        assert!(reason.message().contains(complaint), "{bug:?} was caught for another reason: {reason}");
    }
}

#[test]
fn a_later_rearm_is_lazy_and_an_earlier_one_is_seen_by_next_deadline() {
    let mut wheel = Wheel::new(0);
    assert!(wheel.is_empty());
    let id = wheel.arm(10, "armed");
    *wheel.get_mut(id).expect("it is armed") = "session";
    assert!(!wheel.is_empty() && wheel.rearm(id, 50_000));
    assert_eq!(wheel.next_deadline(), Some(10), "the entry stays in its slot");
    assert!(wheel.advance(10).is_empty());
    assert!(wheel.next_deadline().is_some_and(|next_ms| (10..=50_000).contains(&next_ms)));
    assert!(wheel.rearm(id, 20));
    assert_eq!(wheel.next_deadline(), Some(20));
    let other = wheel.arm(15, "other");
    let mut due = wheel.advance(20);
    assert_eq!((due.len(), due.is_empty()), (2, false));
    assert_eq!(wheel.take_due(&mut due), Some((other, 15, "other")));
    assert_eq!(wheel.take_due(&mut due), Some((id, 20, "session")));
    assert_eq!((due.len(), due.is_empty(), wheel.len(), wheel.next_deadline()), (0, true, 0, None));
}

fn first_due(wheel: &mut Wheel<&'static str>, now_ms: u64) -> Option<(TimerId, u64, &'static str)> {
    let mut due = wheel.advance(now_ms);
    wheel.take_due(&mut due)
}

#[test]
fn the_ends_of_time_are_deadlines_like_any_other() {
    let mut wheel = Wheel::new(5);
    let last = wheel.arm(u64::MAX, "last");
    let past = wheel.arm(0, "past");
    assert_eq!(wheel.next_deadline(), Some(0));
    let mut due = wheel.advance(0);
    assert_eq!(wheel.now_ms(), 5, "time does not go back");
    assert_eq!(wheel.take_due(&mut due), Some((past, 0, "past")));
    assert_eq!(first_due(&mut wheel, u64::MAX - 1), None);
    assert_eq!(wheel.next_deadline(), Some(u64::MAX));
    assert_eq!(first_due(&mut wheel, u64::MAX), Some((last, u64::MAX, "last")));
    let after = wheel.arm(u64::MAX, "after the last");
    assert_eq!(first_due(&mut wheel, u64::MAX), Some((after, u64::MAX, "after the last")));
}

#[test]
fn an_id_and_its_number_name_the_same_entry() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<TimerId> = (0..3).map(|n| wheel.arm(n, n)).collect();
    assert_eq!(ids.iter().map(|id| id.number()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(wheel.cancel(ids[1]), Some(1));
    let again = wheel.arm(9, 9);
    for id in ids.into_iter().chain([again]) {
        assert_eq!(TimerId::from_number(id.number()), Some(id));
    }
    assert_eq!(TimerId::from_number(0), None);
    assert_eq!(TimerId::from_number(2).and_then(|dead| wheel.cancel(dead)), None);
}

proptest! {
    #![proptest_config(without_files(2_000))]

    #[test]
    fn a_later_deadline_has_a_slot_that_starts_after_now_and_not_after_it(
        a in instants(), b in instants(),
    ) {
        prop_assume!(a != b);
        let (now_ms, deadline_ms) = (a.min(b), a.max(b));
        let level = level_of(now_ms, deadline_ms);
        prop_assert!(level < LEVELS);
        let slot = slot_of(deadline_ms, level);
        let start_ms = slot_start(now_ms, level, slot);
        prop_assert!(now_ms < start_ms && start_ms <= deadline_ms);
        prop_assert!(slot < slots(level) && slot_of(start_ms, level) == slot);
    }

    #[test]
    fn slots_are_reached_exactly_when_time_passes_their_start(a in instants(), b in instants()) {
        let (from_ms, to_ms) = (a.min(b), a.max(b));
        for level in 0..LEVELS {
            for slot in 0..slots(level) {
                let start_ms = slot_start(from_ms, level, slot);
                if start_ms <= from_ms {
                    continue; // it never starts again
                }
                let reached = slots_reached(from_ms, to_ms, level, slot / u64::BITS);
                let passed = start_ms <= to_ms;
                prop_assert_eq!(reached >> (slot % u64::BITS) & 1 == 1, passed, "level {} slot {}", level, slot);
            }
        }
    }

    #[test]
    fn a_damaged_stored_wheel_is_refused_or_usable(
        deadlines in prop::collection::vec(instants(), 1..20),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut wheel = Wheel::new(1_000);
        let ids: Vec<_> = deadlines.iter().map(|&deadline_ms| wheel.arm(deadline_ms, 0_u32)).collect();
        wheel.cancel(ids[0]);
        let mut bytes = postcard::to_allocvec(&wheel).expect("a wheel serialises");
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(mut wheel) = postcard::from_bytes::<Wheel<u32>>(&bytes) {
            wheel.arm(2_000, 7);
            let mut due = wheel.advance(u64::MAX);
            while wheel.take_due(&mut due).is_some() {}
            prop_assert!(wheel.is_empty());
        }
    }
}

/// Instants near each other, near the edges of slots and anywhere.
fn instants() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..5_000,
        (0_u32..64, -2_i64..3).prop_map(|(bit, off)| (1_u64 << bit).saturating_add_signed(off)),
        (0_u64..3).prop_map(|off| u64::MAX - off),
        any::<u64>(),
    ]
}
