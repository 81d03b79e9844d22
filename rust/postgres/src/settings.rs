//! What a session asks of its database before it is used.

use tokio_postgres::Client;

use crate::{
    failure::Failure,
    schema,
    sql::{Told, optional, value},
    url::Config,
};

/// The oldest version that rota is tested with, as PostgreSQL numbers it.
const OLDEST: u32 = 140_000;

/// What transactions of a session see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it: for requests that take a lock first.
    EachStatement,
    /// All statements see one snapshot. A row that changed since then aborts the transaction when it is locked.
    Snapshot,
}

impl Isolation {
    fn name(self) -> &'static str {
        match self {
            Isolation::EachStatement => "read committed",
            Isolation::Snapshot => "repeatable read",
        }
    }
}

/// What is known of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// Its version, as it says it.
    pub version: String,
    /// Whether it takes no writes: a standby.
    pub is_standby: bool,
    /// `synchronous_standby_names`.
    pub standbys: String,
}

impl Durability {
    /// What operators have to know.
    pub fn warning(&self) -> Option<String> {
        self.standbys.trim().is_empty().then(|| {
            "a failover of the database may lose acknowledged commits: its synchronous_standby_names is empty"
                .to_owned()
        })
    }
}

/// A role's defaults may say otherwise. `remote_apply` waits for more than `on`.
fn of_the_session(isolation: Isolation) -> String {
    format!(
        "SET client_min_messages = warning; SET bytea_output = hex; SET statement_timeout = '30s'; \
         SET idle_session_timeout = 0; SET default_transaction_isolation = '{}'; \
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') <> 'remote_apply';",
        isolation.name()
    )
}

const SETTINGS: usize = 6;

const ASKED: &str = "SELECT current_setting('server_version_num'), current_setting('server_version'), \
                     current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery(), \
                     current_setting('synchronous_standby_names');";

/// Prepares a session, and refuses a database that loses what it has confirmed.
pub async fn begin(client: &Client, isolation: Isolation) -> Result<Durability, Failure> {
    let told = Told::new(client.simple_query(&format!("{}{ASKED}", of_the_session(isolation))).await?);
    let row = told.row(SETTINGS)?.ok_or(Failure::Malformed("no settings"))?;
    let version: String = value(row, 1)?;
    if value::<u32>(row, 0)? < OLDEST {
        return Err(Failure::Refused(format!("PostgreSQL {version} is too old: use 14 or later")));
    }
    for (column, setting) in [(2, "fsync"), (3, "full_page_writes")] {
        let on: String = value(row, column)?;
        if on != "on" {
            return Err(Failure::Refused(format!(
                "{setting} is {on}, and a crash would lose acknowledged commits: set it to on"
            )));
        }
    }
    let is_standby = value::<String>(row, 4)? == "t";
    Ok(Durability { version, is_standby, standbys: value(row, 5)? })
}

/// Why the tables cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// No operator has made them.
    Missing,
    /// Of an earlier or later version.
    Version(u32),
    /// The database failed.
    Failed(Failure),
}

impl Unusable {
    /// For operators.
    pub fn failure(self, config: &Config) -> Failure {
        match self {
            Unusable::Failed(failure) => failure,
            Unusable::Missing => Failure::Refused(format!(
                "database {} has no schema {} of rota: make it with `rota cluster init`",
                config.database, config.schema
            )),
            Unusable::Version(version) if version > schema::VERSION => Failure::Refused(schema::newer(version)),
            Unusable::Version(version) => Failure::Refused(format!(
                "its tables have version {version}, this rota needs {}: upgrade them with `rota cluster init`",
                schema::VERSION
            )),
        }
    }
}

/// Chooses the tables of a cluster.
pub async fn choose(client: &Client, schema: &str) -> Result<(), Unusable> {
    let chosen = format!("SET search_path TO \"{schema}\"; SELECT to_regclass('\"{schema}\".meta');");
    let told = ask(client, &chosen).await?;
    let row = told.row(1).map_err(Unusable::Failed)?;
    let found: Option<String> = row.map_or(Ok(None), |row| optional(row, 0)).map_err(Unusable::Failed)?;
    if found.is_none() {
        return Err(Unusable::Missing);
    }
    let told = ask(client, "SELECT version FROM meta;").await?;
    let row = told.row(0).map_err(Unusable::Failed)?.ok_or(Unusable::Missing)?;
    match value(row, 0).map_err(Unusable::Failed)? {
        schema::VERSION => Ok(()),
        other => Err(Unusable::Version(other)),
    }
}

async fn ask(client: &Client, statements: &str) -> Result<Told, Unusable> {
    let messages = client.simple_query(statements).await.map_err(|error| Unusable::Failed(error.into()))?;
    Ok(Told::new(messages))
}
