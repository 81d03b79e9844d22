//! A line: calls to whichever member answers, over one connection at a time.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prost::Message;
use rota_cluster::Endpoint;
use tokio::time::timeout;

use crate::{
    grpc::{Answers, Connection, Failure, code},
    proto::{AuthenticateRequest, AuthenticateResponse, StatusRequest, StatusResponse},
    url::Config,
    version::Version,
};

/// What all lines share.
#[derive(Debug)]
pub struct Shared {
    /// How the engine is reached.
    pub config: Config,
    token: Mutex<Option<Arc<str>>>,
    trouble: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Of an engine to which nothing was sent yet.
    pub fn new(config: Config) -> Arc<Shared> {
        Arc::new(Shared { config, token: Mutex::default(), trouble: Mutex::default() })
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

    /// Connects to a member, and asks for its version: a version that loses data is refused. It ends within the time that
    /// the configuration says: a member may take the connection and not answer.
    pub async fn connect(&self, endpoint: &Endpoint) -> Result<(Arc<Connection>, StatusResponse), Failure> {
        let connecting = async {
            let connection = Connection::open(endpoint, self.config.tls.as_ref(), self.config.timeout).await?;
            let status = self.status(&connection).await?;
            Version::parse(&status.version).and_then(Version::check).map_err(Failure::Refused)?;
            Ok((Arc::new(connection), status))
        };
        timeout(self.config.timeout, connecting).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn status(&self, connection: &Connection) -> Result<StatusResponse, Failure> {
        self.unary(connection, "/etcdserverpb.Maintenance/Status", &StatusRequest {}).await
    }

    /// A call on a connection. A token that is not valid any more is replaced once: etcd did nothing with the request.
    pub async fn unary<Q: Message, A: Message + Default>(
        &self,
        connection: &Connection,
        path: &str,
        request: &Q,
    ) -> Result<A, Failure> {
        self.with_token(connection, |token| async move { connection.unary(path, request, token.as_deref()).await })
            .await
    }

    /// A call that answers with a stream, and stays open.
    pub async fn stream<Q: Message, A: Message + Default>(
        &self,
        connection: &Connection,
        path: &str,
        request: &Q,
    ) -> Result<Answers<A>, Failure> {
        let stream =
            |token: Option<Arc<str>>| async move { connection.stream(path, request, token.as_deref(), false).await };
        self.with_token(connection, stream).await
    }

    async fn with_token<T, F>(
        &self,
        connection: &Connection,
        call: impl Fn(Option<Arc<str>>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let token = self.token(connection).await?;
        let ended = call(token.clone()).await;
        if token.is_none() || !ended.as_ref().is_err_and(is_bad_token) {
            return ended;
        }
        {
            let mut known = lock(&self.token);
            // Another call may have a new one already.
            if *known == token {
                *known = None;
            }
        }
        call(self.token(connection).await?).await
    }

    async fn token(&self, connection: &Connection) -> Result<Option<Arc<str>>, Failure> {
        let Some(user) = &self.config.user else { return Ok(None) };
        if let Some(token) = lock(&self.token).clone() {
            return Ok(Some(token));
        }
        let request = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let answer: AuthenticateResponse = connection.unary("/etcdserverpb.Auth/Authenticate", &request, None).await?;
        let token: Arc<str> = answer.token.into();
        *lock(&self.token) = Some(Arc::clone(&token));
        Ok(Some(token))
    }
}

/// Refusals of a token: it is too old, unknown to a member that began again, or older than a change of users.
fn is_bad_token(failure: &Failure) -> bool {
    match failure {
        Failure::Status { code: code::UNAUTHENTICATED, .. } => true,
        Failure::Status { code: code::INVALID_ARGUMENT, message } => message.contains("revision of auth store is old"),
        _ => false,
    }
}

/// A line. Its calls go over one connection, side by side.
#[derive(Debug)]
pub struct Line {
    shared: Arc<Shared>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Of the member that is tried next.
    next: usize,
}

impl Line {
    /// A line that tries the member at this place first.
    pub fn new(shared: &Arc<Shared>, first: usize) -> Line {
        let state = State { connection: None, next: first };
        Line { shared: Arc::clone(shared), state: tokio::sync::Mutex::new(state) }
    }

    /// The line's connection, or a new one. One attempt: the next member has the next one.
    pub async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_over()) {
            return Ok(Arc::clone(connection));
        }
        let endpoints = &self.shared.config.endpoints;
        let endpoint = &endpoints[state.next % endpoints.len()];
        state.next = (state.next + 1) % endpoints.len();
        // Other calls of the line wait for it, with less time than this one may have.
        let (connection, _) = self.shared.connect(endpoint).await?;
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// The connection is given up: the next call goes to the next member.
    pub async fn give_up(&self, failed: &Arc<Connection>) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, failed)) {
            state.connection = None;
        }
    }

    /// One attempt, which ends within the time that the configuration says.
    ///
    /// A member that refuses the connection has not seen the request, so another member is asked within this time.
    pub async fn unary<Q: Message, A: Message + Default>(&self, path: &str, request: &Q) -> Result<A, Failure> {
        let within = self.shared.config.timeout;
        self.unary_within(path, request, within).await
    }

    /// As [`unary`](Line::unary), within another time.
    pub async fn unary_within<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        within: Duration,
    ) -> Result<A, Failure> {
        let mut used = None;
        let attempt = async {
            let connection = used.insert(self.connected().await?);
            self.shared.unary(connection, path, request).await
        };
        let ended = timeout(within, attempt).await.unwrap_or(Err(Failure::Timeout));
        // A call that waited for the connection says nothing of the one that is there now.
        if let Some(connection) = used.filter(|_| ended.as_ref().is_err_and(is_of_the_member)) {
            self.give_up(&connection).await;
        }
        self.shared.note(&ended);
        ended
    }

    /// A connection to the first member that has one.
    async fn connected(&self) -> Result<Arc<Connection>, Failure> {
        let mut last = Failure::Connection("no members".to_owned());
        for _ in &self.shared.config.endpoints {
            match self.connection().await {
                Ok(connection) => return Ok(connection),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }
}

/// Another member may answer where this one failed.
fn is_of_the_member(failure: &Failure) -> bool {
    match failure {
        Failure::Connection(_) | Failure::Timeout | Failure::Malformed(_) | Failure::Refused(_) => true,
        Failure::TooLarge(_) => false,
        Failure::Status { code, message: _ } => !matches!(*code, code::INVALID_ARGUMENT | code::OUT_OF_RANGE),
    }
}
