//! The clock of sessions.

use std::sync::Arc;

use rota_log::files::platform::boot_time_ms;

/// A clock in milliseconds that never falls, and goes on while the machine sleeps.
#[derive(Clone)]
pub struct SessionClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl std::fmt::Debug for SessionClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionClock({} ms)", self.now_ms())
    }
}

impl SessionClock {
    /// This machine's own: `CLOCK_BOOTTIME` on Linux.
    pub fn of_boot() -> SessionClock {
        SessionClock::new(boot_time_ms)
    }

    /// Another clock, for tests.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> SessionClock {
        SessionClock(Arc::new(now_ms))
    }

    /// The time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}
