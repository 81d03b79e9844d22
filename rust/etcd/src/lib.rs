//! etcd (v3) as the replicated engine of a cluster.
//!
//! # Theory of operation
//!
//! `rota_engine::requests` states each request as code on a store: what it compares, writes and answers. This crate
//! carries the same requests out on etcd, each as one transaction: [`requests`] writes it and reads its answer, without
//! IO. [`keys`] has the layout, [`values`] the encodings. No lease of etcd is used.
//!
//! [`EtcdEngine`] sends them. It has a few *lines*: each is one HTTP/2 connection to one member, and moves on to the next
//! member after a failure. Everything that is not a transaction's answer is an unknown outcome, which the node resolves by
//! sending the same request again. One watch shows whole images of the small keys.
//!
//! [`grpc`] is what rota needs of gRPC over the crate `h2`, and [`proto`] what it needs of etcd's messages: no `protoc` is
//! needed to build rota. `docs/decisions/0011-a-grpc-client-over-h2.md` has the reasons.
#![forbid(unsafe_code)]

// Layers, lowest first.

// What etcd speaks.
pub mod proto;
pub mod url;
pub mod version;

pub mod grpc;

// What rota keeps in it.
pub mod keys;
pub mod values;

pub mod txn;

pub mod image;
pub mod requests;

// Calls.
pub mod line;
pub mod load;

pub mod compaction;
pub mod space;
pub mod watch;

pub mod engine;

pub mod mend;

mod cluster;

pub use compaction::CompactionSchedule;
pub use engine::{EtcdEngine, FORMAT, OpenError};
pub use grpc::{ALPN, Failure};
pub use mend::Alarm;
pub use rota_cluster::Endpoint;
pub use space::Member;
pub use url::{BadUrl, Config, User};
