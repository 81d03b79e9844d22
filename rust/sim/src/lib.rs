//! Engines that test the real core against docs/protocol.md: exhaustive exploration within small bounds, and simulated
//! worlds of coordinators and members with faults.
#![forbid(unsafe_code)]

mod arguments;
pub mod bridge;
pub mod consumers;
pub mod dice;
pub mod explore;
pub mod fleet;
pub mod search;
pub mod step;
pub mod world;
