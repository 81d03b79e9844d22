//! What can go wrong with a server as a whole, in words for its user.

use std::{fmt, io};

use crate::settings::SettingError;

/// Why a server did not start, or did not do what it was asked.
#[derive(Debug)]
pub enum ServerError {
    /// Not `HOST:PORT`.
    BadAddress {
        /// Which address, such as `listen`.
        what: &'static str,
        /// As given.
        address: String,
    },
    /// The host name has no address.
    UnknownHost {
        /// As given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else listens there.
    AddressInUse {
        /// As given.
        address: String,
    },
    /// The system refuses to listen there.
    CannotListen {
        /// As given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// No thread or event loop could be had.
    CannotRun {
        /// What the system says.
        source: io::Error,
    },
    /// A setting was refused.
    Setting(SettingError),
    /// The server has been stopped.
    Stopped,
    /// The server's thread has ended by itself: a bug in rota.
    Died,
    /// The server did not end in time.
    StopTimedOut {
        /// How long it was given.
        timeout_ms: u64,
    },
    /// Only a server with a virtual clock can be moved in time.
    ClockIsReal,
    /// No error of the protocol has this name.
    UnknownErrorName {
        /// As given.
        name: String,
    },
    /// The topic cannot be created.
    TopicRefused {
        /// The topic.
        topic: String,
        /// The protocol's error and its reason.
        reason: String,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::BadAddress { what, address } => {
                write!(out, "the address to {what} is `{address}`, expected HOST:PORT, such as 127.0.0.1:9092")
            }
            ServerError::UnknownHost { address, source } => {
                write!(out, "cannot find the host of `{address}`: {source}; check the name or use an IP address")
            }
            ServerError::AddressInUse { address } => write!(
                out,
                "{address} is in use; stop the program that listens there, or choose another port (0 picks a free one)"
            ),
            ServerError::CannotListen { address, source } => write!(
                out,
                "cannot listen on {address}: {source}; choose an address of this machine and a port above 1023"
            ),
            ServerError::CannotRun { source } => write!(out, "cannot start the server's thread: {source}"),
            ServerError::Setting(error) => error.fmt(out),
            ServerError::Stopped => write!(out, "the server has been stopped"),
            ServerError::Died => {
                write!(out, "the server has ended by itself: a bug in rota; standard error says where")
            }
            ServerError::StopTimedOut { timeout_ms } => {
                write!(out, "the server did not end within {timeout_ms} ms")
            }
            ServerError::ClockIsReal => {
                write!(out, "the server runs on the real clock; start it with a virtual clock to advance it")
            }
            ServerError::UnknownErrorName { name } => {
                write!(out, "no error is named `{name}`; use a name of the protocol, such as NOT_ENOUGH_REPLICAS")
            }
            ServerError::TopicRefused { topic, reason } => write!(out, "cannot create topic `{topic}`: {reason}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::UnknownHost { source, .. }
            | ServerError::CannotListen { source, .. }
            | ServerError::CannotRun { source } => Some(source),
            _ => None,
        }
    }
}

impl From<SettingError> for ServerError {
    fn from(error: SettingError) -> ServerError {
        ServerError::Setting(error)
    }
}
