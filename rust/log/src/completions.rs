//! Where a log puts the ends of operations: the queue of the caller who asked for them.

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::fenced::Completion;

/// A completion queue with a waker. Any thread may put; its owner takes.
pub struct Completions {
    queue: Mutex<Vec<Completion>>,
    /// The owner takes soon by itself.
    is_attended: AtomicBool,
    delivery: Delivery,
}

enum Delivery {
    /// Completions are queued; this is called when the queue was empty.
    Queue(Box<dyn Fn() + Send + Sync>),
    /// Completions are passed on at once.
    Relay(Box<dyn Fn(Completion) + Send + Sync>),
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completions({} waiting)", self.lock().len())
    }
}

impl Completions {
    /// A queue. `wake` is called, on the thread that puts, when there is something to take where there was nothing,
    /// unless the owner attends.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Completions> {
        Completions::of(Delivery::Queue(Box::new(wake)))
    }

    /// No queue: `pass` is called with each completion, on the thread that puts.
    pub fn relay(pass: impl Fn(Completion) + Send + Sync + 'static) -> Arc<Completions> {
        Completions::of(Delivery::Relay(Box::new(pass)))
    }

    fn of(delivery: Delivery) -> Arc<Completions> {
        Arc::new(Completions { queue: Mutex::default(), is_attended: AtomicBool::new(false), delivery })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Completion>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner promises to call [`Completions::take`] soon: until then nobody wakes it.
    pub fn attend(&self) {
        self.is_attended.store(true, Ordering::Relaxed);
    }

    /// Adds what has ended.
    pub fn put(&self, completions: impl IntoIterator<Item = Completion>) {
        let wake = match &self.delivery {
            Delivery::Queue(wake) => wake,
            Delivery::Relay(pass) => return completions.into_iter().for_each(pass),
        };
        let mut queue = self.lock();
        let was_empty = queue.is_empty();
        queue.extend(completions);
        // Under the lock: an owner that attends has not taken yet.
        let wakes = was_empty && !queue.is_empty() && !self.is_attended.load(Ordering::Relaxed);
        drop(queue);
        if wakes {
            wake();
        }
    }

    /// Wakes the owner although there may be nothing to take, unless it attends.
    pub fn wake(&self) {
        if let (Delivery::Queue(wake), false) = (&self.delivery, self.is_attended.load(Ordering::Relaxed)) {
            wake();
        }
    }

    /// Moves what has arrived to the end of `taken`.
    pub fn take_into(&self, taken: &mut Vec<Completion>) {
        let mut queue = self.lock();
        self.is_attended.store(false, Ordering::Relaxed);
        if taken.is_empty() {
            mem::swap(&mut *queue, taken);
        } else {
            taken.append(&mut queue);
        }
    }

    /// What has arrived.
    pub fn take(&self) -> Vec<Completion> {
        let mut taken = Vec::new();
        self.take_into(&mut taken);
        taken
    }
}
