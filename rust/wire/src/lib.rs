//! Kafka's bytes: frames, headers, versions, and the codecs of the group requests.
//!
//! Requests about groups are decoded in place: the strings and byte strings of a decoded request are views into the
//! frame, so a heartbeat costs no allocation. Answers are written straight into the connection's buffer. Everything
//! else goes through the `kafka-protocol` crate, behind a guard ([`body`]) that walks the bytes first.
//!
//! What comes in is not trusted. A count is compared with the bytes that are left before anything is reserved for
//! it, and a request may hold at most [`limits::ELEMENTS_MAX`] array elements. Undecodable bytes are a
//! [`WireError`], and the only thing to do with one is to close the connection (docs/protocol.md §17.2).

pub mod answers;
pub mod beat;
pub mod body;
pub mod consumer_groups;
pub mod discovery;
pub mod frame;
pub mod header;
pub mod limits;
pub mod line;
pub mod read;
pub mod requests;
pub mod schema;
mod schemas;
pub mod show;
pub mod versions;
pub mod write;

pub use body::decode_body;
pub use header::RequestHeader;
pub use read::{Reader, WireError};
pub use write::Writer;
