//! A line: requests to the host that takes writes, over one connection at a time.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    failure::Failure,
    session::Session,
    settings::{Durability, Isolation},
    url::Config,
};

/// What all lines share.
#[derive(Debug)]
pub struct Shared {
    /// How the engine is reached.
    pub config: Config,
    trouble: Mutex<Option<String>>,
    durability: Mutex<Option<Durability>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Of an engine to which nothing was sent yet.
    pub fn new(config: Config) -> Arc<Shared> {
        Arc::new(Shared { config, trouble: Mutex::default(), durability: Mutex::default() })
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

    /// Connects to the host that takes writes.
    pub async fn connect(&self, isolation: Isolation) -> Result<Arc<Session>, Failure> {
        let session = Session::of_cluster(&self.config, isolation).await?;
        *lock(&self.durability) = Some(session.durability.clone());
        Ok(Arc::new(session))
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
