//! Wakes threads that wait for a change of groups, such as tests that wait until a group is stable.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Counts changes of groups: a rebalance begins, its join phase completes, it settles, a partition is loaded.
/// Heartbeats and commits do not count.
#[derive(Debug, Default)]
pub struct Changes {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a change.
    pub fn notify(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until the count differs from `seen`, at most `timeout`. Returns the count.
    pub fn wait_beyond(&self, seen: u64, timeout: Duration) -> u64 {
        let count = self.lock();
        let waited = self.changed.wait_timeout_while(count, timeout, |count| *count == seen);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_change_before_the_wait_ends_it_at_once() {
        let changes = Changes::default();
        changes.notify();
        assert_eq!(changes.wait_beyond(0, LONG), 1);
    }

    #[test]
    fn a_change_during_the_wait_wakes_every_thread() {
        let changes = Arc::new(Changes::default());
        let waiters = [(); 2].map(|()| {
            let changes = Arc::clone(&changes);
            thread::spawn(move || changes.wait_beyond(0, LONG))
        });
        changes.notify();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), 1);
        }
    }

    #[test]
    fn a_wait_without_a_change_ends_with_its_timeout() {
        assert_eq!(Changes::default().wait_beyond(0, Duration::ZERO), 0);
    }
}
