//! Partition assignors on flat arrays, and a certifier of plans.
//!
//! # Theory of operation
//!
//! A [`Problem`] is a group as numbers: members and topics are indices, the partitions of all topics are numbered
//! consecutively, and a plan has one `u32` per partition, its owner. The only order is that of the indices, so equal
//! input gives an equal plan on every machine. [`names`] defines the canonical order: static members by instance id,
//! then dynamic members by member id; topics by name.
//!
//! [`range()`](range::range) and [`roundrobin()`](roundrobin::roundrobin) compute Kafka's plan. [`balance`] computes
//! the best plan in this order: the most even loads that the subscriptions allow, the fewest partitions outside of
//! their members' racks (if racks matter), the fewest moves. Sticky, cooperative-sticky and uniform are this plan with
//! different dealing and handover. Equal subscriptions have a closed form (`equal`). Otherwise a maximum flow finds the
//! loads (`levels`), and a flow of minimum cost the moves (`moves`), on the network of `network`.
//!
//! [`certify`] checks any plan in linear time, independently of its construction.
//!
//! The crate has no IO, clock, randomness or hash tables. Calls reuse scratch memory.
#![forbid(unsafe_code)]

pub mod balance;
pub mod certify;
pub mod claims;
mod classes;
pub mod embedded;
mod equal;
mod levels;
mod moves;
pub mod names;
mod network;
pub mod problem;
pub mod range;
pub mod roundrobin;
pub mod user_data;

pub use balance::{Fill, sticky, uniform, withhold};
pub use certify::{Certificate, Violation, certify};
pub use claims::Claims;
pub use names::{Assignor, InputError};
pub use problem::{CONTESTED, NOBODY, Problem, ProblemError, Racks, Scratch};
