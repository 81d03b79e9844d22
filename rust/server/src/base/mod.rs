//! The lowest layer: time, random bits, settings, errors, names, addresses, the owners of partitions, notices of changes,
//! and metrics. It imports no other layer.

pub mod changes;
pub mod clock;
pub mod entropy;
pub mod error;
pub mod metrics;
pub mod names;
pub mod owners;
pub mod place;
pub mod settings;
pub mod topic_settings;
