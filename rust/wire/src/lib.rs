//! Kafka's wire format: frames, headers, versions, and codecs of the group requests.
//!
//! Group requests are decoded in place: their strings and bytes borrow from the frame, so a heartbeat allocates
//! nothing. Answers are encoded into the connection's buffer. All other requests use the `kafka-protocol` crate, behind
//! a guard ([`body`]) that walks the bytes first.
//!
//! Input is not trusted. A count is compared with the remaining bytes before memory is reserved for it, and a request
//! may have at most [`limits::ELEMENTS_MAX`] array elements. Undecodable bytes are a [`WireError`], and the server
//! closes the connection (docs/protocol.md §17.2).

pub mod answers;
pub mod between_servers;
pub mod body;
pub mod consumer_groups;
pub mod discovery;
pub mod frame;
pub mod header;
pub mod heartbeat_frame;
pub mod limits;
pub mod line;
pub mod read;
pub mod repeated;
pub mod requests;
pub mod sasl;
pub mod schema;
mod schemas;
pub mod show;
pub mod transactions;
pub mod versions;
pub mod write;

pub use body::decode_body;
pub use header::RequestHeader;
pub use read::{Reader, WireError};
pub use write::Writer;
