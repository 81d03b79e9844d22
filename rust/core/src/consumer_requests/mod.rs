//! Requests and timers of groups of the consumer protocol, KIP-848 (docs/consumer-protocol.md). Their state is in
//! [`consumer_group`](crate::consumer_group).
//!
//! Each group has at most one append in flight. What comes for the group meanwhile waits in order of arrival
//! ([`writes`]), so no answer depends on a record that is not durable, and a failed append is undone without a trace.
//!
//! The offsets of a consumer group are those of the simple classic group of the same id.

pub mod checks;
mod classic_members;
mod conversion;
mod describe;
mod heartbeat;
pub mod identity;
mod load;
mod offsets;
mod patterns;
mod removal;
mod repeat;
pub mod writes;
