//! Logs of coordinators as rows (docs/audit.md): `__consumer_offsets` of rota and of Apache Kafka, and rota's journal.
//!
//! | item | what it is |
//! |---|---|
//! | [`cut`], [`Range`] | a segment file cut into parts that begin and end with a batch |
//! | [`first_wrong`] | where it is damaged so that something else may have what stood there |
//! | [`RangeReader`] | the rows of one such part, some thousands at a time |
//! | [`records_in`] | its records as they are |
//! | [`Columns`], [`Row`] | rows, laid out as Apache Arrow lays them out |
//! | [`edit`] | an entry of a journal with something wrong in it, to see whether an audit notices |
//! | [`replay_range`] | a part of a journal folded through the coordinator, from one whole state to another |
//!
//! What cannot be read is a row, too, that says so: one bad batch does not hide the others.
#![forbid(unsafe_code)]
#![expect(clippy::large_types_passed_by_value, reason = "a row is made by changing a copy of another one")]

mod columns;
mod edit;
mod journal_rows;
mod newer;
mod ranges;
mod reader;
mod record_rows;
mod replay;

pub use columns::{Buffers, Columns, Kind, Row};
pub use edit::{Edit, edit};
pub use ranges::{Range, cut, first_wrong};
pub use reader::{Filter, RangeReader, Source, records_in};
pub use replay::{Cause, Fold, replay_range};
