//! Why a call has no answer.

use std::{error::Error as _, fmt};

use tokio_postgres::error::{Error, SqlState};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host cannot be reached, or the connection broke.
    Connection(String),
    /// No answer in time.
    Timeout,
    /// The database answered with an error.
    Database {
        /// The SQLSTATE.
        code: String,
        /// PostgreSQL's words.
        message: String,
    },
    /// Another transaction changed what this one had read. Nothing was done.
    Conflict,
    /// The database said that it gave up waiting for its standbys.
    Unreplicated(String),
    /// An answer that rota does not understand.
    Malformed(&'static str),
    /// A database that rota does not work with.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connection(why) => write!(f, "no connection: {why}"),
            Failure::Timeout => write!(f, "no answer in time"),
            Failure::Database { code, message } => write!(f, "PostgreSQL answered: {message} (SQLSTATE {code})"),
            Failure::Conflict => write!(f, "other transactions change the same rows all the time"),
            Failure::Unreplicated(message) => write!(f, "PostgreSQL warned: {message}"),
            Failure::Malformed(what) => write!(f, "an answer that rota does not understand: {what}"),
            Failure::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// The database aborted the transaction, and says so: it is sent again.
const ABORTED: [SqlState; 2] = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.as_db_error() {
            Some(told) if ABORTED.contains(told.code()) => Failure::Conflict,
            Some(told) => Failure::Database { code: told.code().code().to_owned(), message: told.message().to_owned() },
            None => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                Failure::Connection(format!("{error}{cause}"))
            }
        }
    }
}
