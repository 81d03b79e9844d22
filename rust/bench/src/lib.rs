//! The measurements of `rota bench`: heartbeats over sockets to any broker, the same load on an echo server, heartbeats
//! through the coordinator alone, and the machine's own time for its parts.
//!
//! Every function runs for the given time and returns counts and nanoseconds. The caller computes ratios.

pub mod churn;
pub mod consumers;
pub mod core_path;
pub mod crowd;
pub mod echo;
pub mod floors;
pub mod frames;
mod line;
pub mod load;
pub mod passes;
pub mod stage;
pub mod storm;

/// An error: what was done, to which broker or group, and the answer.
#[derive(Debug)]
pub struct BenchError(pub String);

impl std::fmt::Display for BenchError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BenchError {}

/// Adds the operation to an error.
pub(crate) trait Doing<T> {
    /// Adds what was being done to the error.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError> {
        self.map_err(|error| BenchError(format!("{}: {error}", what())))
    }
}
