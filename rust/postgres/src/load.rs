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

/// The connection of an earlier load, or a new one. No time ends its statement but that of its rows. The database ends it
/// soon after the connection, also where it waits for a lock or a disk; after an hour if its system cannot tell.
pub async fn connection(shared: &Shared, kept: Option<Arc<Session>>) -> Result<Arc<Session>, Failure> {
    if let Some(session) = kept.filter(|session| !session.is_over()) {
        return Ok(session);
    }
    let connect = async {
        let session = shared.connect(Isolation::Snapshot).await?;
        session.ask("SET statement_timeout = '1h';").await?;
        match session.ask("SET client_connection_check_interval = '5s';").await {
            Ok(_) | Err(Failure::Database { .. }) => Ok(session),
            Err(failure) => Err(failure),
        }
    };
    timeout(shared.config.timeout, connect).await.unwrap_or(Err(Failure::Timeout))
}

/// Reads a partition; `within`: the time of a row.
pub async fn read(
    session: &Session,
    history: HistoryId,
    read: &Read,
    within: Duration,
    under_way: &UnderWay<'_>,
) -> Result<Answer, Failure> {
    let mut loading = Loading::default();
    let late = |_| Failure::Timeout;
    let asked = session.client().query_raw(read::STATEMENT, [read.partition.0]);
    let mut rows = std::pin::pin!(timeout(within, asked).await.map_err(late)??);
    while let Some(row) = timeout(within, rows.try_next()).await.map_err(late)?? {
        loading.add(&row)?;
        under_way.came(loading.bytes);
    }
    // After this the host still was the one that takes writes when it was read.
    let asked = format!("{BARRIER}{LAST}");
    let told = timeout(within, session.ask(&asked)).await.map_err(late)??;
    let revision = Revision(value(told.last()?, 0)?);
    let meta = loading.meta.ok_or(Failure::Malformed("the table meta has no row"))?;
    let content = if meta.history == history {
        Content::Contents(Box::new(loading.contents))
    } else {
        Content::OtherHistory(meta)
    };
    Ok(Answer { revision, content })
}
