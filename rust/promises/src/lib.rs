//! What a log of coordinators must not show (docs/audit.md): every promise that a log can decide, as one fold over the
//! rows of one partition of the log, in log order. It shares nothing with the coordinator, which it audits.
//!
//! | item | what it is |
//! |---|---|
//! | [`Row`], [`Columns`], [`Batch`] | rows of a log in Apache Arrow's layout: written, and read |
//! | [`Fold`] | one partition, row after row; its state can be kept and resumed |
//! | [`Finding`], [`promises`] | what a fold finds, and what it looks for |
//!
//! One family of promises is one file; from the highest layer to the lowest:
//!
//! | layer | modules |
//! |---|---|
//! | the fold | `fold`, `journal` |
//! | groups | `groups` |
//! | promises of records | `owners`, `shape`, `generations`, `returns`, `commits`, `rounds` |
//! | promises of the newer protocol | `consumers`, `epochs`, `holders`, `targets`, `fencing` |
//! | promises of answers | `answers`, `members`, `relay`, `durability`, `tickets`, `incarnation` |
//! | values | `version`, `finding`, `columns`, `recent` |
#![forbid(unsafe_code)]

mod answers;
mod columns;
mod commits;
mod consumers;
mod durability;
mod epochs;
mod fencing;
mod finding;
mod fold;
mod generations;
mod groups;
mod holders;
mod incarnation;
mod journal;
mod members;
mod owners;
mod recent;
mod relay;
mod returns;
mod rounds;
mod shape;
mod targets;
mod tickets;
mod version;

pub use columns::{Batch, Buffers, Column, Columns, Kind, Row};
pub use finding::{Extent, Finding, Promise, Severity, Shown, promises};
pub use fold::{Fold, StateError, Tally, Trouble};

/// What a log cannot be compared more exactly than, in milliseconds: a busy server tells its coordinators the time a
/// little late.
const SLACK_MS: i64 = 1_000;
/// How long a request that no member sent waits for the log at most, in milliseconds: no coordinator is that patient.
const PATIENCE_MS: i64 = 60_000;
