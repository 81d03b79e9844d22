//! Errors of a server as Python raises them.

use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
};
use rota_log::store::OpenError;
use rota_server::ServerError;

use crate::errors;

/// An error of the operating system.
enum Number {
    /// Its name in Python's module `errno`.
    Named(&'static str),
    /// Its number; `None`: it has none.
    Of(Option<i32>),
}

/// Returns an `OSError` with this text, and with a number that does not change the text.
fn os_error(text: String, number: Number) -> PyErr {
    let error = PyOSError::new_err(text);
    Python::attach(|py| {
        let number = match number {
            Number::Named(name) => py.import("errno")?.getattr(name)?.extract()?,
            Number::Of(number) => number,
        };
        error.value(py).setattr("errno", number)
    })
    .map_or_else(|failed| failed, |()| error)
}

/// Returns the exception for an error.
pub fn raised(error: ServerError) -> PyErr {
    let text = error.to_string();
    match error {
        ServerError::Setting(_) => errors::ConfigError::new_err(text),
        ServerError::BadAddress { .. }
        | ServerError::Tls(_)
        | ServerError::Listeners(_)
        | ServerError::NotReloaded(_)
        | ServerError::BadJournal(_)
        | ServerError::BadNodes { .. }
        | ServerError::OfCluster(_)
        | ServerError::TooFewPorts { .. }
        | ServerError::UnknownErrorName { .. }
        | ServerError::UnknownApiName { .. }
        | ServerError::UnknownServedApi { .. }
        | ServerError::InstanceWithoutGroup { .. } => PyValueError::new_err(text),
        ServerError::UnknownGroup { .. } => errors::not_found("group", text),
        ServerError::UnknownTransaction { .. } => errors::not_found("transactional id", text),
        ServerError::UnknownMember { .. } => errors::not_found("member", text),
        ServerError::UnknownNode { .. } => errors::not_found("node", text),
        ServerError::UnknownTopic { .. } => errors::not_found("topic", text),
        ServerError::UnknownPartition { .. } | ServerError::UnknownTopicPartition { .. } => {
            errors::not_found("partition", text)
        }
        ServerError::AddressInUse { .. } => os_error(text, Number::Named("EADDRINUSE")),
        ServerError::CannotOpen(OpenError::Locked { .. }) => os_error(text, Number::Named("EAGAIN")),
        ServerError::UnknownHost { source, .. }
        | ServerError::CannotListen { source, .. }
        | ServerError::CannotOpen(OpenError::Io { error: source, .. }) => {
            os_error(text, Number::Of(source.raw_os_error()))
        }
        ServerError::CannotOpen(_) | ServerError::BadData { .. } => PyOSError::new_err(text),
        ServerError::TopicRefused { .. }
        | ServerError::NodeIsDown { .. }
        | ServerError::TransactionNotOpen { .. }
        | ServerError::Refused { .. }
        | ServerError::NotProduced { .. }
        | ServerError::Unreadable { .. }
        | ServerError::NotDone { .. } => errors::RotaError::new_err(text),
        ServerError::CannotRun { .. }
        | ServerError::Stopped
        | ServerError::OtherProcess { .. }
        | ServerError::Died
        | ServerError::StopTimedOut { .. }
        | ServerError::LoadFailed { .. }
        | ServerError::ClockIsReal => errors::ServerError::new_err(text),
    }
}
