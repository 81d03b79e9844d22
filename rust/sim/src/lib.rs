//! Engines that hold the real core to the protocol page: the exhaustive exploration of the core within small bounds, and
//! worlds of coordinators and members under faults.
#![forbid(unsafe_code)]

pub mod bridge;
pub mod dice;
pub mod explore;
pub mod fleet;
pub mod step;
pub mod world;
