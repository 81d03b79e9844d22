//! One connection to a database, ready for requests.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rota_cluster::Endpoint;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Statement, config::TargetSessionAttrs, error::Severity};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    failure::Failure,
    requests::{append, chunk},
    settings::{self, Durability, Isolation},
    sql::Told,
    url::Config,
};

/// A request to cancel is one message.
const CANCEL: Duration = Duration::from_secs(5);

/// What the connection's task tells.
#[derive(Debug, Default)]
struct Heard {
    /// A warning: the database gave up waiting for its standbys.
    warning: Mutex<Option<String>>,
    /// A notification came, or the connection is over.
    news: Notify,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    client: Client,
    heard: Arc<Heard>,
    connection: JoinHandle<()>,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// What the database says of itself.
    pub durability: Durability,
    prepared: tokio::sync::OnceCell<(Statement, Statement)>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    /// Connects, and refuses a database that loses what it has confirmed.
    pub async fn open(
        config: &Config,
        endpoint: &Endpoint,
        attributes: TargetSessionAttrs,
        isolation: Isolation,
    ) -> Result<Session, Failure> {
        let (address, heard) = (config.client(endpoint, attributes), Arc::<Heard>::default());
        let (client, connection) = match &config.tls {
            None => {
                let (client, connection) = address.connect(NoTls).await?;
                (client, tokio::spawn(carry(connection, Arc::clone(&heard))))
            }
            Some(tls) => {
                let (client, connection) = address.connect(MakeRustlsConnect::new((**tls).clone())).await?;
                (client, tokio::spawn(carry(connection, Arc::clone(&heard))))
            }
        };
        let begun = settings::begin(&client, isolation).await;
        let durability = begun.inspect_err(|_| connection.abort())?;
        // What was said before concerns no request, such as a warning about collations.
        *lock(&heard.warning) = None;
        let (tls, prepared) = (config.tls.clone(), tokio::sync::OnceCell::new());
        Ok(Session { client, heard, connection, tls, durability, prepared })
    }

    /// As [`open`](Session::open), to a host that takes writes, with the tables of the cluster.
    pub async fn of_cluster(config: &Config, endpoint: &Endpoint, isolation: Isolation) -> Result<Session, Failure> {
        let session = Session::open(config, endpoint, TargetSessionAttrs::ReadWrite, isolation).await?;
        let chosen = settings::choose(&session.client, &config.schema).await;
        chosen.map_err(|unusable| unusable.failure(config))?;
        Ok(session)
    }

    /// The client, for statements with parameters.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The client, for a transaction of several messages.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Carries statements out as one transaction: one message has all of them.
    pub async fn ask(&self, statements: &str) -> Result<Told, Failure> {
        Ok(Told::new(self.client.simple_query(statements).await?))
    }

    /// The statement of appends, and that of chunks.
    pub async fn prepared(&self) -> Result<&(Statement, Statement), Failure> {
        let prepare = || async {
            let append = self.client.prepare(&append::statement()).await?;
            Ok((append, self.client.prepare(&chunk::statement()).await?))
        };
        self.prepared.get_or_try_init(prepare).await
    }

    /// Whether nothing can be asked any more.
    pub fn is_over(&self) -> bool {
        self.client.is_closed()
    }

    /// What became of a transaction: one that the database confirmed although it gave up waiting for its standbys has an
    /// unknown outcome. The database warns before it confirms.
    pub fn confirmed<T>(&self, ended: Result<T, Failure>) -> Result<T, Failure> {
        match self.warning() {
            Some(warning) => Err(Failure::Unreplicated(warning)),
            None => ended,
        }
    }

    /// What the database has warned of on this connection.
    pub fn warning(&self) -> Option<String> {
        lock(&self.heard.warning).clone()
    }

    /// Waits for a notification, or for the connection's end.
    pub async fn news(&self) {
        self.heard.news.notified().await;
    }

    /// Asks the database to stop what it does for this session, so that nothing piles up in a database that hangs.
    pub fn cancel(&self) {
        let (cancel, tls) = (self.client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            let cancelled = async {
                match tls {
                    None => cancel.cancel_query(NoTls).await,
                    Some(tls) => cancel.cancel_query(MakeRustlsConnect::new((*tls).clone())).await,
                }
            };
            // The database may be gone: then nothing piles up.
            let _ended = timeout(CANCEL, cancelled).await;
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a warning may be about what a request has asked for, by the function of PostgreSQL that gives it. A database that
/// comes close to the end of its transaction ids, or has long queues of notifications, warns of that beside any request.
fn may_concern_request(routine: Option<&str>) -> bool {
    !matches!(routine, Some("GetNewTransactionId" | "GetNewMultiXactId" | "asyncQueueFillWarning"))
}

/// Carries a connection's messages until it ends.
async fn carry<S, T>(mut connection: Connection<S, T>, heard: Arc<Heard>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notice(notice)
                if notice.parsed_severity() == Some(Severity::Warning) && may_concern_request(notice.routine()) =>
            {
                *lock(&heard.warning) = Some(notice.message().to_owned());
            }
            AsyncMessage::Notification(_) => heard.news.notify_one(),
            _ => {}
        }
    }
    heard.news.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_the_whole_database_concern_no_request() {
        for (routine, may) in [
            (Some("GetNewTransactionId"), false),
            (Some("GetNewMultiXactId"), false),
            (Some("asyncQueueFillWarning"), false),
            (Some("SyncRepWaitForLSN"), true),
            (Some("vacuum_is_permitted_for_relation"), true),
            (Some("a routine of a later version"), true),
            (None, true),
        ] {
            assert_eq!(may_concern_request(routine), may, "{routine:?}");
        }
    }
}
