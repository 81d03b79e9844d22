//! What every layer uses: time, random bits, settings, errors, addresses, partition owners and metrics.

pub mod clock;
pub mod entropy;
pub mod error;
pub mod metrics;
pub mod owners;
pub mod place;
pub mod settings;
