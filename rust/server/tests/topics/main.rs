//! The topic table, called as the server calls it.

mod admin;
mod fetch;
mod limits;
mod list_offsets;
mod metadata;
mod produce;
mod support;
mod transactions;
mod versions;
