//! A node of a cluster: carries `docs/engine-protocol.md` out over a replicated engine.
//!
//! | item | what it is |
//! |---|---|
//! | [`Engine`] | the trait of engines |
//! | [`MemoryEngine`] | an engine in memory, for several nodes of one process, with faults on demand |
//! | [`Host`] | carries a node's commands out, on a thread of its own |
//! | [`Session`] | until when the serving thread answers reads, and which partitions it has to take and to lose |
//! | [`ClusterLog`] | the log under the coordinators, a `FencedLog` |
//! | [`ProducerIds`] | producer ids that no other node gives |
//! | [`ClusterTable`] | the cluster as a node sees it |
//! | [`notes`] | what nodes write beside the protocol: addresses, plan, settings |
//! | [`planner`] | which node should have which partition |
//! | [`operator`] | what an operator asks, as notes |
//! | [`operating`] | an engine as an operator reaches it |
//! | [`transfer`] | partitions on their way between an engine and a data directory |
//! | [`ClusterStats`] | counts for metrics |

// Layers, lowest first. A module imports from its own layer and from the layers above it in this list; a test checks
// this.

// What nodes say and plan.
pub mod notes;
pub mod operator;
pub mod planner;

// Engines, time and bytes.
mod address;
mod batches;
mod clock;
mod engine;
mod members;
mod memory;
mod stats;
mod table;

// An operator's calls.
pub mod operating;

// What a host shares with the serving thread.
mod messages;

mod log;
mod producer_ids;
mod session;

// The host.
mod host;

// Import and export.
pub mod transfer;

pub use address::{Endpoint, without_password};
pub use clock::SessionClock;
pub use engine::{Engine, Loads, Pending, UnderWay};
pub use host::{Connect, Host, HostConfig, OnTable};
pub use log::ClusterLog;
pub use memory::{Faults, MemoryEngine, MemoryLink};
pub use messages::Written;
pub use producer_ids::ProducerIds;
pub use session::{Change, Session};
pub use stats::{ClusterStats, Handover};
pub use table::{ClusterTable, NodeRow, PartitionRow, Standing};
