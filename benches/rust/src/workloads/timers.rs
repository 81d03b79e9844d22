//! The wheel, and the purgatory on it.

use std::hint::black_box;

use rota_core::{
    purgatory::Purgatory,
    wheel::{TimerId, Wheel},
};

use crate::{STRIDE, measured};

const TIMERS: usize = 10_000;
const SESSION_MS: u64 = 45_000;
const PASSES: u64 = 5;
/// Time moves by so much between two looks at the wheel.
const STEP_MS: u64 = 100;

/// Armed over a session's time.
fn armed() -> (Wheel<usize>, Vec<TimerId>) {
    let mut wheel = Wheel::new(0);
    let timers = (0..TIMERS).map(|at| wheel.arm(SESSION_MS + deadline_ms(at), at)).collect();
    (wheel, timers)
}

fn deadline_ms(at: usize) -> u64 {
    (at.wrapping_mul(STRIDE) % TIMERS) as u64 * SESSION_MS / TIMERS as u64
}

/// What a heartbeat does.
pub fn rearm() -> u64 {
    let (mut wheel, timers) = armed();
    measured(|| {
        for pass in 1..=PASSES {
            for (at, timer) in timers.iter().enumerate() {
                assert!(wheel.rearm(*timer, SESSION_MS + deadline_ms(at) + pass), "it is armed");
            }
        }
    });
    PASSES * TIMERS as u64
}

/// What timers without re-arming would have to do.
pub fn cancel_and_add() -> u64 {
    let (mut wheel, mut timers) = armed();
    measured(|| {
        for pass in 1..=PASSES {
            for at in 0..TIMERS {
                let next = at.wrapping_mul(STRIDE) % TIMERS;
                let payload = wheel.cancel(timers[next]).expect("it is armed");
                timers[next] = wheel.arm(SESSION_MS + deadline_ms(at) + pass, payload);
            }
        }
    });
    PASSES * TIMERS as u64
}

/// What a server asks after every request.
pub fn next_deadline() -> u64 {
    let (mut wheel, _) = armed();
    wheel.advance(SESSION_MS - STEP_MS);
    let looks = PASSES * TIMERS as u64;
    measured(|| {
        for _ in 0..looks {
            assert!(black_box(&wheel).next_deadline().is_some(), "timers are armed");
        }
    });
    looks
}

/// Time passes until nothing is left.
pub fn expiry() -> u64 {
    let (mut wheel, _) = armed();
    let fired = measured(|| {
        let (mut now_ms, mut fired) = (0, 0);
        while !wheel.is_empty() {
            now_ms += STEP_MS;
            let mut due = wheel.advance(now_ms);
            while wheel.take_due(&mut due).is_some() {
                fired += 1;
            }
        }
        fired
    });
    assert!(fired == TIMERS as u64, "{fired} of {TIMERS} timers have fired");
    fired
}

/// Operations that wait for one key of a hundred each, and are found complete.
pub fn purgatory() -> u64 {
    const KEYS: usize = 100;
    let mut purgatory = Purgatory::new(0);
    let mut completed = 0;
    measured(|| {
        for _ in 0..PASSES {
            for at in 0..TIMERS {
                purgatory.watch(SESSION_MS + deadline_ms(at), &[at % KEYS], at);
            }
            for key in 0..KEYS {
                for operation in purgatory.check(&key) {
                    completed += u64::from(purgatory.complete(operation).is_some());
                }
            }
        }
    });
    assert!(completed == PASSES * TIMERS as u64 && purgatory.is_empty(), "{completed} operations are complete");
    completed
}
