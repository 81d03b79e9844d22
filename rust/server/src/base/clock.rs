//! The clock of the nodes: real, or virtual. All nodes of a server share it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rota_core::request::Now;

/// The coordinators' monotonic and wall time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// Real time; monotonic time counts from the start of the server.
    Real {
        /// The monotonic zero.
        started: Instant,
    },
    /// Virtual time, which moves only on request.
    Virtual {
        /// Monotonic milliseconds from 0, shared by all clones.
        mono_ms: Arc<AtomicU64>,
        /// Wall milliseconds at the monotonic zero.
        epoch_wall_ms: i64,
    },
}

/// The machine's wall clock in milliseconds since 1970.
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

impl Clock {
    /// Creates a real clock.
    pub fn real() -> Clock {
        Clock::Real { started: Instant::now() }
    }

    /// Creates a virtual clock at monotonic zero and the current wall time.
    pub fn standing() -> Clock {
        Clock::standing_at(wall_ms())
    }

    /// Creates a virtual clock at monotonic zero and this wall time.
    pub fn standing_at(epoch_wall_ms: i64) -> Clock {
        Clock::Virtual { mono_ms: Arc::default(), epoch_wall_ms }
    }

    /// Reads both times.
    pub fn now(&self) -> Now {
        match self {
            Clock::Real { started } => Now { mono_ms: started.elapsed().as_millis() as u64, wall_ms: wall_ms() },
            Clock::Virtual { mono_ms, epoch_wall_ms } => {
                let mono_ms = mono_ms.load(Ordering::Acquire);
                Now { mono_ms, wall_ms: epoch_wall_ms.saturating_add(mono_ms as i64) }
            }
        }
    }

    /// Returns when the clock reaches a monotonic millisecond. On a virtual clock: now if it is reached, else never.
    pub fn instant(&self, mono_ms: u64) -> Option<Instant> {
        match self {
            Clock::Real { started } => started.checked_add(Duration::from_millis(mono_ms)),
            Clock::Virtual { mono_ms: now_ms, .. } => (mono_ms <= now_ms.load(Ordering::Acquire)).then(Instant::now),
        }
    }

    /// Whether the clock is virtual.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual { .. })
    }

    /// Moves a virtual clock forward to `to_ms`, never back.
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
