//! A load: the rows of one statement, on a connection of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::TryStreamExt;
use rota_cluster::UnderWay;
use rota_engine::{
    HistoryId, Revision,
    requests::{Answer, Content, Read},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    failure::Failure,
    line::Shared,
    requests::{
        BARRIER, LAST,
        read::{self, Loading},
    },
    session::Session,
    settings::Isolation,
    sql::value,
};

/// So many loads at once: a server takes a partition over while it reads another one to compact it.
const LOADS: usize = 2;

/// Connections that the next loads have.
#[derive(Debug)]
pub struct Spare {
    /// Of loads, which take one first.
    pub turns: Semaphore,
    sessions: Mutex<Vec<Arc<Session>>>,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { turns: Semaphore::new(LOADS), sessions: Mutex::default() }
    }
}

impl Spare {
    /// The connection of a load that has ended.
    pub fn take(&self) -> Option<Arc<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a connection for the next load.
    pub fn keep(&self, session: Arc<Session>) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}

/// What a session of loads begins with. The database ends the statement of a server that was killed within seconds of its
/// connection's end, and not after the hour; where the system cannot tell that a connection has ended, after the hour.
const OF_LOADS: &str = "SET statement_timeout = '1h'; \
    DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '5s', false); \
    EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$;";

/// A connection with a load, whose statement has no end but that of its rows. Unless the load ends well, the database is
/// asked to stop it: a statement that waits for a lock or a disk does not notice that the connection is closed.
#[derive(Debug)]
pub struct Loader {
    pub session: Arc<Session>,
    is_done: bool,
}

impl Drop for Loader {
    fn drop(&mut self) {
        if !self.is_done {
            self.session.cancel();
        }
    }
}

impl Loader {
    /// On the connection of an earlier load, or on a new one.
    pub async fn new(shared: &Shared, kept: Option<Arc<Session>>) -> Result<Loader, Failure> {
        let connect = async {
            let session = shared.connect(Isolation::Snapshot).await?;
            session.ask(OF_LOADS).await?;
            Ok(session)
        };
        let session = match kept.filter(|session| !session.is_over()) {
            Some(session) => session,
            None => timeout(shared.config.timeout, connect).await.unwrap_or(Err(Failure::Timeout))?,
        };
        Ok(Loader { session, is_done: false })
    }

    /// Reads a partition; `within`: the time of a row.
    pub async fn read(
        &self,
        history: HistoryId,
        read: &Read,
        within: Duration,
        under_way: &UnderWay<'_>,
    ) -> Result<Answer, Failure> {
        let mut loading = Loading::default();
        let late = |_| Failure::Timeout;
        let asked = self.session.client().query_raw(read::STATEMENT, [read.partition.0]);
        let mut rows = std::pin::pin!(timeout(within, asked).await.map_err(late)??);
        while let Some(row) = timeout(within, rows.try_next()).await.map_err(late)?? {
            loading.add(&row)?;
            under_way.came(loading.bytes);
        }
        // After this the host still was the one that takes writes when it was read.
        let asked = format!("{BARRIER}{LAST}");
        let told = timeout(within, self.session.ask(&asked)).await.map_err(late)??;
        let revision = Revision(value(told.last()?, 0)?);
        let meta = loading.meta.ok_or(Failure::Malformed("the table meta has no row"))?;
        let content = if meta.history == history {
            Content::Contents(Box::new(loading.contents))
        } else {
            Content::OtherHistory(meta)
        };
        Ok(Answer { revision, content })
    }

    /// The load has ended well: the next one has its connection.
    pub fn done(mut self) -> Arc<Session> {
        self.is_done = true;
        Arc::clone(&self.session)
    }
}
