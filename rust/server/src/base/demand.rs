//! A demand that one thread waits for and others make, such as for new keys.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Quiet,
    Made,
    Closed,
}

/// The demand.
#[derive(Debug, Default)]
pub struct Demand {
    state: Mutex<State>,
    changed: Condvar,
}

impl Demand {
    /// Makes the demand.
    pub fn make(&self) {
        let mut state = self.lock();
        if *state == State::Quiet {
            *state = State::Made;
            self.changed.notify_all();
        }
    }

    /// Ends all waiting from now on.
    pub fn close(&self) {
        *self.lock() = State::Closed;
        self.changed.notify_all();
    }

    /// Waits for a demand, and takes it. Returns whether there was one within the time; `None`: it is closed.
    pub fn wait(&self, timeout: Duration) -> Option<bool> {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |state| *state == State::Quiet);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Closed => None,
            found => {
                *state = State::Quiet;
                Some(found == State::Made)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_taken_once_and_none_follows_the_end() {
        let demand = Demand::default();
        assert_eq!(demand.wait(Duration::ZERO), Some(false));
        demand.make();
        demand.make();
        assert_eq!([demand.wait(Duration::MAX), demand.wait(Duration::ZERO)], [Some(true), Some(false)]);
        demand.make();
        demand.close();
        demand.make();
        assert_eq!(demand.wait(Duration::MAX), None);
    }
}
