//! Partition assignors on flat arrays, and a certifier of any plan.
//!
//! # Theory of operation
//!
//! A [`Problem`] is a group as numbers: topics and members are indices, the partitions of all topics are numbered
//! through, a plan is one `u32` a partition: its owner. The order of the indices is the only order there is, so equal
//! input gives an equal plan on every machine; [`names`] chooses the canonical one (static members by instance id, then
//! dynamic ones by member id; topics by name).
//!
//! [`range()`](range::range) and [`roundrobin()`](roundrobin::roundrobin) give Kafka's answer. [`balance`] gives the best
//! there is, in this order: loads as even as the subscriptions allow, then as few partitions as possible away from
//! their members' racks (where racks count), then as few moves as possible. Sticky, cooperative-sticky and uniform are
//! that plan with different fillings and a different hand-over. With equal subscriptions it has a closed form
//! (`equal`); otherwise a maximum flow finds the best loads (`levels`) and a flow of minimum cost the fewest moves
//! (`moves`) on the network of `network`.
//!
//! [`certify`] checks any plan in linear time, without knowing how it was made.
//!
//! No IO, no clock, no randomness, no hash tables. Scratch memory is reused from call to call.
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
