//! What `rota bench` measures: heartbeats over sockets against any broker, the same load against an echo that does
//! nothing else, heartbeats through the coordinator alone, and what the machine itself takes for its parts.
//!
//! Every function here takes the time that it is told to and gives counts and nanoseconds; ratios are the caller's.

pub mod churn;
pub mod core_path;
pub mod crowd;
pub mod echo;
pub mod floors;
pub mod frames;
pub mod load;
pub mod passes;
pub mod stage;
pub mod storm;

/// What can go wrong: the text says what was done, to whom, and what came back.
#[derive(Debug)]
pub struct BenchError(pub String);

impl std::fmt::Display for BenchError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BenchError {}

/// Names what was being done when an operation failed.
pub(crate) trait Doing<T> {
    /// The error, with what was being done before it.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError> {
        self.map_err(|error| BenchError(format!("{}: {error}", what())))
    }
}
