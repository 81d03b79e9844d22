//! The client's end of a connection as the lower layers see it: where answers go, and the trace of what is said.

pub mod reply;
pub mod trace;
pub mod wake;
