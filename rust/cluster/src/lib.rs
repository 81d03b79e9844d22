//! A node of a cluster: carries `docs/engine-protocol.md` out over a replicated engine.
//!
//! | item | what it is |
//! |---|---|
//! | [`Engine`] | the trait of engines |
//! | [`MemoryEngine`] | an engine in memory, for several nodes of one process, with faults on demand |

mod engine;
mod memory;

pub use engine::{Engine, Pending};
pub use memory::{Faults, MemoryEngine, MemoryLink};
