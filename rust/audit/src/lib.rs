//! Logs of coordinators as rows (docs/audit.md): `__consumer_offsets` of rota and of Apache Kafka, and rota's journal.
//!
//! | item | what it is |
//! |---|---|
//! | [`cut`], [`Range`] | parts of a segment file that begin and end with a batch |
//! | [`first_wrong`] | the first damage that may hide an offset |
//! | [`RangeReader`] | the rows of one part, some thousands at a time |
//! | [`decode`], [`decode_batches`] | the rows of records from a broker, and of whole batches |
//! | [`records_in`] | the records of one part |
//! | [`transactions`], [`Uncommitted`] | transactions whose records do not count |
//! | [`Columns`], [`Row`] | rows in Apache Arrow's layout |
//! | [`edit`] | damages an entry of a journal, to test whether an audit notices |
//! | [`replay_range`] | replays a part of a journal, from one snapshot to another |
//!
//! Unreadable bytes become a row, too, so that one damaged batch does not hide the others.
#![forbid(unsafe_code)]
#![expect(clippy::large_types_passed_by_value, reason = "a row is made by changing a copy of another one")]

mod edit;
mod fetched;
mod journal_rows;
mod newer;
mod ranges;
mod reader;
mod record_rows;
mod replay;
mod transactions;

pub use edit::{Edit, edit};
pub use fetched::{Extent, Fetched, decode, decode_batches, extent};
pub use ranges::{Range, cut, first_wrong};
pub use reader::{Filter, RangeReader, Source, records_in};
pub use replay::{Cause, Fold, replay_range};
pub use rota_promises::{Buffers, Columns, Kind, Row};
pub use transactions::{Span, Transaction, Transactions, Uncommitted, transactions};
