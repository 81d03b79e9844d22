//! A notification for one task on the same thread. A notification before the wait is not lost.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Context, Poll, Waker},
};

/// Notifies one task, like `tokio::sync::Notify` without atomic operations.
#[derive(Debug, Default)]
pub struct LocalNotify {
    is_notified: Cell<bool>,
    /// The task to wake. It stays here after a wait ends, so a task that does not wait may be polled once in vain.
    waker: RefCell<Option<Waker>>,
}

impl LocalNotify {
    /// Wakes the task. If it does not wait, its next wait ends at once.
    pub fn notify(&self) {
        self.is_notified.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Ready after a notification, which it consumes.
    pub fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_notified.take() {
            return Poll::Ready(());
        }
        let waker = &mut *self.waker.borrow_mut();
        match waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits for a notification and consumes it.
    pub async fn notified(&self) {
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
    fn a_notification_before_the_wait_is_not_lost() {
        let (notify, counted) = (LocalNotify::default(), Arc::new(Counted::default()));
        let waker = Waker::from(Arc::clone(&counted));
        let context = Context::from_waker(&waker);
        notify.notify();
        assert!(notify.poll(&context).is_ready());
        assert!(notify.poll(&context).is_pending());
        assert_eq!(counted.0.load(Ordering::Relaxed), 0);
        notify.notify();
        notify.notify();
        assert!(counted.0.load(Ordering::Relaxed) > 0);
        assert!(notify.poll(&context).is_ready());
        assert!(notify.poll(&context).is_pending());
    }
}
