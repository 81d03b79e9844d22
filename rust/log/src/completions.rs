//! Delivers completions of a log to the queue of the caller that submitted the operations.

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::fenced::Completion;

/// A completion queue with a waker. Any thread may put completions; the owner takes them.
pub struct Completions {
    queue: Mutex<Vec<Completion>>,
    /// Whether the owner will take completions without being woken.
    is_attended: AtomicBool,
    delivery: Delivery,
}

enum Delivery {
    /// Queues completions, and calls the waker if the queue was empty.
    Queue(Box<dyn Fn() + Send + Sync>),
    /// Passes completions on at once.
    Relay(Box<dyn Fn(Completion) + Send + Sync>),
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completions({} waiting)", self.lock().len())
    }
}

impl Completions {
    /// Creates a queue. A put into an empty queue calls `wake` on its own thread, unless the owner attends.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Completions> {
        Completions::of(Delivery::Queue(Box::new(wake)))
    }

    /// Creates a relay without a queue: each put calls `pass` on its own thread.
    pub fn relay(pass: impl Fn(Completion) + Send + Sync + 'static) -> Arc<Completions> {
        Completions::of(Delivery::Relay(Box::new(pass)))
    }

    fn of(delivery: Delivery) -> Arc<Completions> {
        Arc::new(Completions { queue: Mutex::default(), is_attended: AtomicBool::new(false), delivery })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Completion>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a call of [`Completions::take`]. Until then puts do not wake the owner.
    pub fn attend(&self) {
        self.is_attended.store(true, Ordering::Relaxed);
    }

    /// Adds completions.
    pub fn put(&self, completions: impl IntoIterator<Item = Completion>) {
        let wake = match &self.delivery {
            Delivery::Queue(wake) => wake,
            Delivery::Relay(pass) => return completions.into_iter().for_each(pass),
        };
        let mut queue = self.lock();
        let was_empty = queue.is_empty();
        queue.extend(completions);
        // Under the lock, so that an attending owner has not taken yet.
        let wakes = was_empty && !queue.is_empty() && !self.is_attended.load(Ordering::Relaxed);
        drop(queue);
        if wakes {
            wake();
        }
    }

    /// Wakes the owner even if the queue is empty, unless the owner attends.
    pub fn wake(&self) {
        if let (Delivery::Queue(wake), false) = (&self.delivery, self.is_attended.load(Ordering::Relaxed)) {
            wake();
        }
    }

    /// Moves the queued completions to the end of `taken`.
    pub fn take_into(&self, taken: &mut Vec<Completion>) {
        let mut queue = self.lock();
        self.is_attended.store(false, Ordering::Relaxed);
        if taken.is_empty() {
            mem::swap(&mut *queue, taken);
        } else {
            taken.append(&mut queue);
        }
    }

    /// Takes the queued completions.
    pub fn take(&self) -> Vec<Completion> {
        let mut taken = Vec::new();
        self.take_into(&mut taken);
        taken
    }
}
