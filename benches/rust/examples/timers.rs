//! Timers of this project and of other crates, one run for each line on stdin: `timers WAY OPERATION ARMED`, where WAY is
//! `wheel`, `delay-queue` or `hierarchical`. Answers with nanoseconds and operations, as the Java program of
//! `benches/kafka/jvm` does.
//!
//! `restart`: so many timers are armed for 45 s, and are given 45 s again in shuffled order, by whatever is cheapest in
//! that crate. `expiry`: timers that are due within two seconds, all of them late, fire.

use std::{
    future::poll_fn,
    hint::black_box,
    io::BufRead,
    rc::Rc,
    time::{Duration, Instant},
};

use hierarchical_hash_wheel_timer::wheels::{
    Skip,
    cancellable::{CancellableTimerEntry, QuadWheelWithOverflow},
};
use rota_benches::STRIDE;
use rota_core::wheel::{TimerId, Wheel};
use tokio::runtime::Runtime;
use tokio_util::time::{DelayQueue, delay_queue::Key};

const SESSION_MS: u64 = 45_000;
const SPREAD_MS: u64 = 2_000;
const RUN_MIN: usize = 100_000;
const RUN_MAX: usize = 1_000_000;
/// Restarts between two looks at the clock, where a timer lets its caller do that.
const BATCH: usize = 64;

trait Timers {
    /// Timer number `at` is armed, for the first time.
    fn arm(&mut self, at: usize, delay_ms: u64);
    /// Timer number `at` gets so much time from now on.
    fn restart(&mut self, at: usize, delay_ms: u64);
    /// Time passes for those that look at it only when they are told.
    fn pass(&mut self, _since_start_ms: u64) {}
    /// Waits until everything that is armed is due; not counted.
    fn ripen(&mut self);
    /// Fires all that is due; how many.
    fn fire(&mut self) -> usize;
}

/// This project's.
struct Ours {
    wheel: Wheel<usize>,
    ids: Vec<TimerId>,
    now_ms: u64,
}

impl Timers for Ours {
    fn arm(&mut self, at: usize, delay_ms: u64) {
        self.ids.push(self.wheel.arm(self.now_ms + delay_ms, at));
    }

    fn restart(&mut self, at: usize, delay_ms: u64) {
        assert!(self.wheel.rearm(self.ids[at], self.now_ms + delay_ms), "it is armed");
    }

    fn pass(&mut self, since_start_ms: u64) {
        self.now_ms = since_start_ms;
    }

    fn ripen(&mut self) {
        self.now_ms += SPREAD_MS;
    }

    fn fire(&mut self) -> usize {
        let (mut due, mut fired) = (self.wheel.advance(self.now_ms), 0);
        while let Some(taken) = self.wheel.take_due(&mut due) {
            black_box(taken);
            fired += 1;
        }
        self.ids.clear();
        fired
    }
}

/// tokio-util's.
struct Queue {
    runtime: Runtime,
    delays: DelayQueue<usize>,
    keys: Vec<Key>,
}

impl Timers for Queue {
    fn arm(&mut self, at: usize, delay_ms: u64) {
        let _inside = self.runtime.enter();
        self.keys.push(self.delays.insert(at, Duration::from_millis(delay_ms)));
    }

    fn restart(&mut self, at: usize, delay_ms: u64) {
        self.delays.reset(&self.keys[at], Duration::from_millis(delay_ms));
    }

    fn ripen(&mut self) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(SPREAD_MS + 1)).await });
    }

    fn fire(&mut self) -> usize {
        let delays = &mut self.delays;
        let fired = self.runtime.block_on(async {
            let mut fired = 0;
            while let Some(expired) = poll_fn(|context| delays.poll_expired(context)).await {
                black_box(expired);
                fired += 1;
            }
            fired
        });
        self.keys.clear();
        fired
    }
}

/// An entry of `hierarchical_hash_wheel_timer`, which finds them by their ids.
#[derive(Debug)]
struct Numbered(usize);

impl CancellableTimerEntry for Numbered {
    type Id = usize;

    fn id(&self) -> &usize {
        &self.0
    }
}

/// The wheel of `hierarchical_hash_wheel_timer`.
struct Hierarchical(QuadWheelWithOverflow<Numbered>);

impl Timers for Hierarchical {
    fn arm(&mut self, at: usize, delay_ms: u64) {
        let armed = self.0.insert_ref_with_delay(Rc::new(Numbered(at)), Duration::from_millis(delay_ms));
        armed.expect("it is not due yet");
    }

    fn restart(&mut self, at: usize, delay_ms: u64) {
        self.0.cancel(&at).expect("it is armed");
        self.arm(at, delay_ms);
    }

    fn ripen(&mut self) {}

    fn fire(&mut self) -> usize {
        let mut fired = 0;
        loop {
            match self.0.can_skip() {
                Skip::Empty => return fired,
                Skip::Millis(ms) => self.0.skip(ms),
                Skip::None => fired += black_box(self.0.tick()).len(),
            }
        }
    }
}

fn restarts(timers: &mut dyn Timers, armed: usize, began: Instant, first: &mut usize) -> usize {
    let count = armed.clamp(RUN_MIN, RUN_MAX);
    for at in *first..*first + count {
        if at.is_multiple_of(BATCH) {
            timers.pass(began.elapsed().as_millis() as u64);
        }
        timers.restart(at.wrapping_mul(STRIDE) % armed, SESSION_MS);
    }
    *first += count;
    count
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, operation, armed] = &words[..] else { panic!("timers WAY OPERATION ARMED") };
    let armed: usize = armed.parse().expect("a number of timers");
    let mut timers: Box<dyn Timers> = match way.as_str() {
        "wheel" => Box::new(Ours { wheel: Wheel::new(0), ids: Vec::new(), now_ms: 0 }),
        "delay-queue" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            Box::new(Queue { runtime, delays: DelayQueue::new(), keys: Vec::new() })
        }
        "hierarchical" => Box::new(Hierarchical(QuadWheelWithOverflow::new())),
        _ => panic!("there is no way `{way}`"),
    };
    let (began, mut first) = (Instant::now(), 0);
    let is_restart = operation == "restart";
    if is_restart {
        (0..armed).for_each(|at| timers.arm(at, SESSION_MS));
    }
    for _ in std::io::stdin().lock().lines() {
        if !is_restart {
            (0..armed).for_each(|at| timers.arm(at, 1 + at.wrapping_mul(STRIDE) as u64 % SPREAD_MS));
            timers.ripen();
        }
        let run = Instant::now();
        let count = if is_restart { restarts(&mut *timers, armed, began, &mut first) } else { timers.fire() };
        let took = run.elapsed();
        assert!(is_restart || count == armed, "{count} of {armed} timers have fired");
        println!("{} {count}", took.as_nanos());
    }
}
