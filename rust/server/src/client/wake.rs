//! Wakes one task of the same thread. Whoever is told before it waits does not wait.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Context, Poll, Waker},
};

/// The bell of one task.
#[derive(Debug, Default)]
pub struct Wake {
    told: Cell<bool>,
    /// Whom to wake; kept while the task does not wait, which costs it a useless look at most.
    waker: RefCell<Option<Waker>>,
}

impl Wake {
    /// Wakes the task, now or when it waits next.
    pub fn tell(&self) {
        self.told.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Ready once it has been told, and then not until it is told again.
    pub fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.told.take() {
            return Poll::Ready(());
        }
        let waker = &mut *self.waker.borrow_mut();
        match waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until it is told.
    pub async fn told(&self) {
        poll_fn(|context| self.poll(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task,
    };

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl task::Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_and_who_was_told_before_does_not_wait() {
        let (wake, counted) = (Wake::default(), Arc::new(Counted::default()));
        let waker = Waker::from(Arc::clone(&counted));
        let context = Context::from_waker(&waker);
        wake.tell();
        assert!(wake.poll(&context).is_ready());
        assert!(wake.poll(&context).is_pending());
        assert_eq!(counted.0.load(Ordering::Relaxed), 0);
        wake.tell();
        wake.tell();
        assert!(counted.0.load(Ordering::Relaxed) > 0);
        assert!(wake.poll(&context).is_ready());
        assert!(wake.poll(&context).is_pending());
    }
}
