//! Time as the nodes see it: real, or standing still until it is moved. All nodes of a server have the same.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rota_core::request::Now;

/// Both clocks of the coordinators, and when the real one will show an instant.
#[derive(Clone, Debug)]
pub enum Clock {
    /// Monotonic time counts from the start of the server.
    Real {
        /// Monotonic zero.
        started: Instant,
    },
    /// Stands still.
    Virtual {
        /// Monotonic milliseconds, from 0, for every clone.
        mono_ms: Arc<AtomicU64>,
        /// Wall milliseconds at monotonic zero.
        epoch_wall_ms: i64,
    },
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

impl Clock {
    /// The real clock.
    pub fn real() -> Clock {
        Clock::Real { started: Instant::now() }
    }

    /// A clock that stands at monotonic zero and the wall time of this moment.
    pub fn standing() -> Clock {
        Clock::Virtual { mono_ms: Arc::default(), epoch_wall_ms: wall_ms() }
    }

    /// One reading of both.
    pub fn now(&self) -> Now {
        match self {
            Clock::Real { started } => Now { mono_ms: started.elapsed().as_millis() as u64, wall_ms: wall_ms() },
            Clock::Virtual { mono_ms, epoch_wall_ms } => {
                let mono_ms = mono_ms.load(Ordering::Acquire);
                Now { mono_ms, wall_ms: epoch_wall_ms.saturating_add(mono_ms as i64) }
            }
        }
    }

    /// When this monotonic millisecond comes by itself: on a virtual clock now, if it has come, or never.
    pub fn instant(&self, mono_ms: u64) -> Option<Instant> {
        match self {
            Clock::Real { started } => started.checked_add(Duration::from_millis(mono_ms)),
            Clock::Virtual { mono_ms: now_ms, .. } => (mono_ms <= now_ms.load(Ordering::Acquire)).then(Instant::now),
        }
    }

    /// Whether it stands still by itself.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual { .. })
    }

    /// Moves a virtual clock forward to `to_ms`; never back.
    pub fn move_to(&self, to_ms: u64) {
        if let Clock::Virtual { mono_ms, .. } = self {
            mono_ms.fetch_max(to_ms, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_clock_moves_forward_only_and_wall_time_with_it() {
        let clock = Clock::standing();
        let start = clock.now();
        clock.move_to(1_500);
        clock.move_to(200);
        assert_eq!(clock.now(), Now { mono_ms: 1_500, wall_ms: start.wall_ms + 1_500 });
    }

    #[test]
    fn on_a_virtual_clock_what_has_come_is_now_and_what_has_not_never_comes_by_itself() {
        let clock = Clock::standing();
        clock.move_to(10);
        assert!(clock.instant(10).is_some());
        assert!(clock.instant(11).is_none());
    }

    #[test]
    fn a_real_clock_counts_from_its_start() {
        let clock = Clock::real();
        let Clock::Real { started } = clock else { unreachable!() };
        assert_eq!(clock.instant(1_500), Some(started + Duration::from_millis(1_500)));
    }
}
