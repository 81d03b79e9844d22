//! How long the authentication of a client counts (KIP-368).

use std::cell::Cell;

/// Minimum time between two re-authentications of a connection, as in Kafka.
const AGAIN_INTERVAL_MS: u64 = 1_000;

/// The session of an authenticated client, in monotonic milliseconds.
#[derive(Debug)]
pub struct Session {
    /// The last millisecond; `u64::MAX`: it has no end.
    ends_ms: Cell<u64>,
    /// Begin of the last re-authentication.
    again_ms: Cell<Option<u64>>,
}

impl Default for Session {
    fn default() -> Session {
        Session { ends_ms: Cell::new(u64::MAX), again_ms: Cell::new(None) }
    }
}

impl Session {
    /// Whether the session is over. Every heartbeat asks this.
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms > self.ends_ms.get()
    }

    /// Whether the session has an end.
    pub fn has_end(&self) -> bool {
        self.ends_ms.get() != u64::MAX
    }

    /// Sets how long the session lasts from now on; `None`: it has no end.
    pub fn set_lifetime(&self, now_ms: u64, lifetime_ms: Option<u64>) {
        self.ends_ms.set(lifetime_ms.map_or(u64::MAX, |lifetime_ms| now_ms.saturating_add(lifetime_ms)));
    }

    /// Begins a re-authentication. Returns whether it may: a session with an end, at most once a second.
    pub fn begin_again(&self, now_ms: u64) -> bool {
        let is_early = |before: u64| now_ms.saturating_sub(before) < AGAIN_INTERVAL_MS;
        if !self.has_end() || self.again_ms.get().is_some_and(is_early) {
            return false;
        }
        self.again_ms.set(Some(now_ms));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_for_its_whole_lifetime() {
        let session = Session::default();
        assert!(!session.has_end() && !session.is_over(u64::MAX - 1));
        session.set_lifetime(100, Some(50));
        assert_eq!([149, 150, 151].map(|now_ms| session.is_over(now_ms)), [false, false, true]);
        session.set_lifetime(100, None);
        assert!(!session.has_end());
    }

    #[test]
    fn a_re_authentication_begins_at_most_once_a_second() {
        let session = Session::default();
        assert!(!session.begin_again(100));
        session.set_lifetime(100, Some(50));
        assert_eq!([100, 1_099, 1_100].map(|now_ms| session.begin_again(now_ms)), [true, false, true]);
    }
}
