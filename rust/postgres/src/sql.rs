//! Values as statements spell them, and answers as text.
//!
//! Statements are sent as text, several in one message, so that one message is one transaction and a client that sleeps
//! holds no lock. No text of a user is in them but as digits: names and bytes are hexadecimal.

use rota_engine::{HistoryId, Part, PartitionId, Prev, SnapshotHead, Token};
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};
use uuid::Uuid;

use crate::failure::Failure;

/// A UUID.
pub fn uuid(value: u128) -> String {
    format!("'{}'::uuid", Uuid::from_u128(value))
}

/// Bytes.
pub fn bytes(value: &[u8]) -> String {
    format!("'\\x{}'::bytea", hex(value))
}

/// A text.
pub fn text(value: &str) -> String {
    format!("convert_from({}, 'UTF8')", bytes(value.as_bytes()))
}

fn hex(value: &[u8]) -> String {
    use std::fmt::Write;
    value.iter().fold(String::with_capacity(2 * value.len()), |mut digits, byte| {
        // A write to a string does not fail.
        let _written = write!(digits, "{byte:02x}");
        digits
    })
}

/// Whether the engine has this history.
pub fn is_history(history: HistoryId) -> String {
    format!("EXISTS (SELECT FROM meta WHERE history = {})", uuid(history.0))
}

/// Whether the row of `part` has this owner, by value.
pub fn is_part(part: &Part) -> String {
    let Part { epoch, node, incarnation, held } = part;
    format!("epoch = {} AND node = {} AND incarnation = {} AND held = {held}", epoch.0, node.0, uuid(incarnation.0))
}

/// The fence: the row of `part` that belongs to the partition, if its owner is the token's. The row has the history, too,
/// so that one lock on it guards both.
pub fn is_held(partition: PartitionId, token: &Token, history: HistoryId) -> String {
    format!("p = {} AND history = {} AND {}", partition.0, uuid(history.0), is_part(&token.part()))
}

/// The log still ends as its owner knows.
pub fn has_prev(partition: PartitionId, prev: Prev) -> String {
    let p = partition.0;
    match prev {
        Prev::Nothing => format!("NOT EXISTS (SELECT FROM head WHERE p = {p})"),
        Prev::Head(revision) => format!("EXISTS (SELECT FROM head WHERE p = {p} AND revision = {})", revision.0),
        Prev::Entry(base_offset, revision) => {
            format!(
                "EXISTS (SELECT FROM log WHERE p = {p} AND base_offset = {base_offset} AND revision = {})",
                revision.0
            )
        }
    }
}

/// Whether the row of `head` is this one.
pub fn is_head(head: &SnapshotHead) -> String {
    let SnapshotHead { upto, epoch, chunks, checksum } = head;
    format!("upto = {upto} AND epoch = {} AND chunks = {chunks} AND checksum = {checksum}", epoch.0)
}

/// What the statements of one message have answered, each with its rows and how many rows it has read or written.
#[derive(Debug, Default)]
pub struct Told {
    statements: Vec<(Vec<SimpleQueryRow>, u64)>,
}

impl Told {
    /// Sorts the messages by statement.
    pub fn new(messages: Vec<SimpleQueryMessage>) -> Told {
        let (mut told, mut rows) = (Told::default(), Vec::new());
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => rows.push(row),
                SimpleQueryMessage::CommandComplete(count) => told.statements.push((std::mem::take(&mut rows), count)),
                _ => {}
            }
        }
        told
    }

    /// The rows of a statement.
    pub fn rows(&self, statement: usize) -> Result<&[SimpleQueryRow], Failure> {
        self.statements.get(statement).map(|(rows, _)| &rows[..]).ok_or(Failure::Malformed("too few answers"))
    }

    /// The only row of the last statement.
    pub fn last(&self) -> Result<&SimpleQueryRow, Failure> {
        let rows = self.statements.last().map(|(rows, _)| &rows[..]);
        rows.and_then(<[_]>::first).ok_or(Failure::Malformed("too few answers"))
    }

    /// The only row of a statement, if it has one.
    pub fn row(&self, statement: usize) -> Result<Option<&SimpleQueryRow>, Failure> {
        self.rows(statement).map(<[_]>::first)
    }

    /// Whether a statement has read or written something.
    pub fn has_done(&self, statement: usize) -> Result<bool, Failure> {
        Ok(self.count(statement)? > 0)
    }

    /// How many rows a statement has read or written.
    pub fn count(&self, statement: usize) -> Result<u64, Failure> {
        self.statements.get(statement).map(|(_, count)| *count).ok_or(Failure::Malformed("too few answers"))
    }
}

/// A column as a number or another value with a text.
pub fn value<T: std::str::FromStr>(row: &SimpleQueryRow, column: usize) -> Result<T, Failure> {
    optional(row, column)?.ok_or(Failure::Malformed("a column without a value"))
}

/// A column that may be empty.
pub fn optional<T: std::str::FromStr>(row: &SimpleQueryRow, column: usize) -> Result<Option<T>, Failure> {
    let text = row.try_get(column).map_err(|_| Failure::Malformed("too few columns"))?;
    text.map(str::parse).transpose().map_err(|_| Failure::Malformed("a value that rota did not write"))
}

/// A column as a UUID.
pub fn uuid_at(row: &SimpleQueryRow, column: usize) -> Result<u128, Failure> {
    value::<Uuid>(row, column).map(|uuid| uuid.as_u128())
}

/// A column as a truth value.
pub fn bool_at(row: &SimpleQueryRow, column: usize) -> Result<bool, Failure> {
    value::<String>(row, column).map(|text| text == "t")
}

/// A column as bytes.
pub fn bytes_at(row: &SimpleQueryRow, column: usize) -> Result<Vec<u8>, Failure> {
    let text: String = value(row, column)?;
    let digits = text.strip_prefix("\\x").ok_or(Failure::Malformed("bytes that are not hexadecimal"))?;
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2).unwrap_or_default(), 16);
    let found: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
    found.map_err(|_| Failure::Malformed("bytes that are not hexadecimal"))
}
