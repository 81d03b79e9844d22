//! Errors of a server as Python raises them.

use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
};
use rota_server::ServerError;

use crate::errors;

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
        ServerError::UnknownHost { .. }
        | ServerError::AddressInUse { .. }
        | ServerError::CannotListen { .. }
        | ServerError::CannotOpen(_)
        | ServerError::BadData { .. } => PyOSError::new_err(text),
        ServerError::TopicRefused { .. }
        | ServerError::NodeIsDown { .. }
        | ServerError::TransactionNotOpen { .. }
        | ServerError::NotGrown { .. }
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
