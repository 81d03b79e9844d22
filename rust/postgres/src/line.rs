//! A line: requests to the host that takes writes, over one connection at a time.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use crate::{
    failure::Failure,
    session::Session,
    settings::{Durability, Isolation},
    url::Config,
};

/// Between two attempts to connect while they fail.
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// What all lines share.
#[derive(Debug)]
pub struct Shared {
    /// How the engine is reached.
    pub config: Config,
    trouble: Mutex<Option<String>>,
    durability: Mutex<Option<Durability>>,
    /// The host that the next attempt to connect asks first.
    next: AtomicUsize,
    /// `None`: the last attempt to connect succeeded.
    failing: tokio::sync::Mutex<Option<Failing>>,
}

/// Attempts to connect fail.
#[derive(Clone, Copy, Debug)]
struct Failing {
    pause: Duration,
    /// When the next attempt begins.
    until: Instant,
}

impl Failing {
    fn since_now(pause: Duration) -> Failing {
        Failing { pause, until: Instant::now() + pause }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Of an engine to which nothing was sent yet.
    pub fn new(config: Config) -> Arc<Shared> {
        let (trouble, durability, failing) = (Mutex::default(), Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Shared { config, trouble, durability, next: AtomicUsize::new(0), failing })
    }

    /// Why the last call had no answer; `None` if it had one.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// Keeps what became of a call.
    pub fn note<T>(&self, ended: &Result<T, Failure>) {
        let trouble = ended.as_ref().err().map(|failure| format!("{}: {failure}", self.config.name()));
        *lock(&self.trouble) = trouble;
    }

    /// What the database said of itself at the last connection.
    pub fn durability(&self) -> Option<Durability> {
        lock(&self.durability).clone()
    }

    /// Connects to the host that takes writes. While this fails, as before a standby is promoted, one line tries at a time,
    /// and not at once again: the connections that a standby has are few.
    pub async fn connect(&self, isolation: Isolation) -> Result<Arc<Session>, Failure> {
        let mut failing = self.failing.lock().await;
        let Some(Failing { pause, until }) = *failing else {
            drop(failing);
            let session = self.attempt(isolation).await;
            if session.is_err() {
                self.failing.lock().await.get_or_insert(Failing::since_now(PAUSE_MIN));
            }
            return session;
        };
        // A caller that has no time left ends this here or in the attempt. The pause is not that caller's: the next one waits
        // for the rest of it.
        sleep_until(until).await;
        let pause = PAUSE_MAX.min(pause * 2);
        *failing = Some(Failing::since_now(pause));
        let session = self.attempt(isolation).await;
        *failing = session.is_err().then(|| Failing::since_now(pause));
        session
    }

    /// Asks each host once, the one that took writes last first.
    async fn attempt(&self, isolation: Isolation) -> Result<Arc<Session>, Failure> {
        let endpoints = &self.config.endpoints;
        let mut last = Failure::Connection("no hosts".to_owned());
        for _ in endpoints {
            let at = self.next.load(Ordering::Relaxed) % endpoints.len();
            // A host may take the connection and say nothing until the caller gives this up: the next attempt is for another.
            self.next.store(at + 1, Ordering::Relaxed);
            match Session::of_cluster(&self.config, &endpoints[at], isolation).await {
                Ok(session) => {
                    self.next.store(at, Ordering::Relaxed);
                    *lock(&self.durability) = Some(session.durability.clone());
                    return Ok(Arc::new(session));
                }
                // What the host that takes writes says of itself.
                Err(refused @ Failure::Refused(_)) => return Err(refused),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Line {
    shared: Arc<Shared>,
    isolation: Isolation,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Line {
    /// A line without a connection.
    pub fn new(shared: &Arc<Shared>, isolation: Isolation) -> Line {
        Line { shared: Arc::clone(shared), isolation, session: tokio::sync::Mutex::default() }
    }

    /// The line's connection, or a new one.
    pub async fn session(&self) -> Result<Arc<Session>, Failure> {
        let mut kept = self.session.lock().await;
        if let Some(session) = kept.as_ref().filter(|session| !session.is_over()) {
            return Ok(Arc::clone(session));
        }
        *kept = None;
        let session = self.shared.connect(self.isolation).await?;
        *kept = Some(Arc::clone(&session));
        Ok(session)
    }

    /// A connection is given up: the next request has a new one.
    pub async fn give_up(&self, failed: &Arc<Session>) {
        let mut kept = self.session.lock().await;
        if kept.as_ref().is_some_and(|session| Arc::ptr_eq(session, failed)) {
            *kept = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::time::timeout;

    use super::*;

    const LINES: u32 = 8;
    const OUTAGE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn a_host_that_takes_no_writes_is_not_flooded_with_connections() {
        // No server listens there.
        let config = Config::parse("postgres://rota@127.0.0.1:1/rota", None).expect("a URL");
        let (shared, until) = (Shared::new(config), Instant::now() + OUTAGE);
        let attempts = (0..LINES).map(|_| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let mut failed = 0;
                while let Ok(attempt) = timeout(until - Instant::now(), shared.connect(Isolation::Snapshot)).await {
                    assert!(attempt.is_err());
                    failed += 1;
                }
                failed
            })
        });
        let mut failed = 0;
        for line in attempts.collect::<Vec<_>>() {
            failed += line.await.expect("it ends");
        }
        let most = LINES + (OUTAGE.as_millis() / PAUSE_MAX.as_millis()) as u32 + 5;
        assert!((10..=most).contains(&failed), "{failed} attempts, at most {most} expected");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_with_less_time_than_the_pause_connect_all_the_same() {
        let config = Config::parse("postgres://rota@127.0.0.1:1/rota", None).expect("a URL");
        let shared = Shared::new(config);
        for _ in 0..10 {
            assert!(shared.connect(Isolation::Snapshot).await.is_err());
        }
        // An attempt that its caller gives up puts the next one off, too.
        let mut nexts = BTreeSet::new();
        for _ in 0..20 {
            let _too_short = timeout(PAUSE_MAX / 4, shared.connect(Isolation::Snapshot)).await;
            nexts.insert(shared.failing.lock().await.expect("it fails").until);
        }
        assert!((4..=7).contains(&nexts.len()), "{} attempts in five pauses", nexts.len() - 1);
    }
}
