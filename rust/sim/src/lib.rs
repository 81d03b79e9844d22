//! Engines that hold the real core to the protocol page: a naive coordinator, the comparison of both on random events,
//! and the exhaustive exploration of the core within small bounds.
#![forbid(unsafe_code)]

pub mod bridge;
pub mod dice;
pub mod differential;
pub mod explore;
pub mod fleet;
pub mod naive;
pub mod step;
pub mod world;

pub use naive::Naive;
