//! The consumer-group coordinator as one deterministic state machine.
//!
//! No IO, no clock, no thread, no randomness, no dependence on hash order.
#![forbid(unsafe_code)]

pub mod config;
pub mod coordinator;
pub mod effects;
pub mod embedded;
pub mod error;
pub mod explain;
pub mod purgatory;
pub mod records;
pub mod request;
pub mod response;
pub mod states;
pub mod wheel;

pub use config::Config;
pub use coordinator::{Coordinator, LogEntry};
pub use effects::{AppendId, Sink};
pub use error::ErrorCode;
pub use records::Record;
pub use request::{Entropy, Now, Request, Ticket};
pub use response::Answer;
pub use states::State;
