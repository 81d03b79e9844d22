//! PostgreSQL (14 and later) as the replicated engine of a cluster.
//!
//! # Theory of operation
//!
//! `rota_engine::requests` states each request as code on a store: what it compares, writes and answers. This crate
//! carries the same requests out on PostgreSQL, each as one message to the server and one transaction: [`requests`] writes
//! the statements and reads their answers, without IO. [`schema`] has the tables, [`sql`] the spelling of values.
//!
//! Requests that change small keys are carried out one after the other, under one advisory lock, so that revisions say in
//! which order. Appends and snapshots lock the row of their partition alone. No clock of the database is asked.
//!
//! [`PostgresEngine`] sends the requests. It has a few *lines*: each is one connection to the host that takes writes.
//! Everything that is not the answer of a committed transaction is an unknown outcome, which the node resolves by sending
//! the same request again. `docs/engine-postgres.md` states the rules.
#![forbid(unsafe_code)]

// Layers, lowest first.

// How a database is reached.
pub mod failure;
pub mod url;

// What rota keeps in it, and how statements spell it.
pub mod schema;
pub mod sql;

pub mod image;
pub mod requests;

// Connections.
pub mod settings;

pub mod session;

pub mod line;

mod load;

// Calls.
mod watch;

pub mod engine;

mod cluster;

pub use engine::{FORMAT, OpenError, PostgresEngine};
pub use failure::Failure;
pub use rota_cluster::Endpoint;
pub use schema::{PrepareError, Prepared, prepare};
pub use settings::Durability;
pub use url::{BadUrl, Config, User};
