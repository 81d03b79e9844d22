//! The lowest layer: time, random bits, settings, errors, names, addresses, partition owners, change notifications and
//! metrics. It imports no other layer.

pub mod between_servers;
pub mod changes;
pub mod clock;
#[cfg(test)]
pub mod counted_files;
pub mod demand;
pub mod denials;
pub mod entropy;
pub mod error;
pub mod listeners;
pub mod marks;
pub mod metrics;
pub mod names;
pub mod owners;
pub mod place;
pub mod refusals;
pub mod settings;
pub mod text_file;
pub mod topic_settings;
