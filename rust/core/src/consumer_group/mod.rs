//! The state of a group of the consumer protocol, KIP-848, and what follows from it (docs/consumer-protocol.md).
//!
//! A [`group::ConsumerGroup`] is a fold of its records: each step computes records, [`group::ConsumerGroup::apply`] folds
//! them into the state, and the same function replays a log. So memory and log cannot differ.

pub mod classic;
pub mod config;
mod counts;
pub mod group;
pub mod history;
pub mod image;
pub mod partitions;
pub mod patterns;
pub mod re2;
mod re2_classes;
pub mod reconcile;
mod scans;
pub mod stamp;
pub mod table;
pub mod target;
pub mod topics;
pub mod waiting;
