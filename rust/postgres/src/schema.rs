//! The tables, and their versions.

use std::fmt;

use tokio_postgres::Client;
use uuid::Uuid;

use crate::failure::Failure;

/// What makes each version out of the one before it; the first one makes the tables.
pub const STEPS: [&str; 1] = [include_str!("schema.sql")];

/// The version that this rota works with.
pub const VERSION: u32 = STEPS.len() as u32;

/// Two that prepare the same database wait for each other.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('rota cluster init'))";

/// What [`prepare`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// The tables were made.
    Made,
    /// They were of this version before.
    Upgraded(u32),
    /// They are as they were.
    Unchanged,
}

/// Why tables were not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareError {
    /// A later rota has made them.
    Newer(u32),
    /// The database failed.
    Failed(Failure),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Newer(version) => write!(f, "{}", newer(*version)),
            PrepareError::Failed(failure) => write!(f, "{failure}"),
        }
    }
}

impl<F: Into<Failure>> From<F> for PrepareError {
    fn from(failure: F) -> PrepareError {
        PrepareError::Failed(failure.into())
    }
}

/// Refuses tables of a later version.
pub fn newer(version: u32) -> String {
    format!("its tables have version {version}, this rota knows {VERSION}: use a newer rota")
}

/// Makes the tables in a schema, or upgrades them, in one transaction. `history` is that of a new cluster.
pub async fn prepare(
    client: &mut Client,
    schema: &str,
    steps: &[&str],
    history: u128,
    format: u32,
) -> Result<Prepared, PrepareError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    transaction.batch_execute(&format!("SET LOCAL search_path TO \"{schema}\"")).await?;
    let known = version(&transaction, schema).await?;
    let wanted = steps.len() as u32;
    let prepared = match known {
        None => {
            // No right to make schemas is needed in one that exists.
            let found = transaction.query_opt("SELECT FROM pg_namespace WHERE nspname = $1", &[&schema]).await?;
            if found.is_none() {
                transaction.batch_execute(&format!("CREATE SCHEMA \"{schema}\"")).await?;
            }
            Prepared::Made
        }
        Some(version) if version > wanted => return Err(PrepareError::Newer(version)),
        Some(version) if version == wanted => return Ok(Prepared::Unchanged),
        Some(version) => Prepared::Upgraded(version),
    };
    for step in &steps[known.unwrap_or(0) as usize..] {
        transaction.batch_execute(step).await?;
    }
    let (wanted, format) = (wanted as i32, format as i32);
    if known.is_none() {
        let begin = "INSERT INTO meta (version, history, format, revision) VALUES ($1, $2, $3, nextval('revision'))";
        transaction.execute(begin, &[&wanted, &Uuid::from_u128(history), &format]).await?;
    } else {
        transaction.execute("UPDATE meta SET version = $1", &[&wanted]).await?;
    }
    transaction.commit().await?;
    Ok(prepared)
}

async fn version(client: &impl tokio_postgres::GenericClient, schema: &str) -> Result<Option<u32>, Failure> {
    let found = client.query_one("SELECT to_regclass($1)::text", &[&format!("\"{schema}\".meta")]).await?;
    if found.get::<_, Option<&str>>(0).is_none() {
        return Ok(None);
    }
    let row = client.query_opt("SELECT version FROM meta", &[]).await?;
    Ok(row.map(|row| row.get::<_, i32>(0) as u32))
}
