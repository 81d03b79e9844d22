//! Rows as columns in Apache Arrow's layout: little-endian numbers, 32-bit offsets, one validity bit per value.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers.
    Long,
    /// 32-bit integers.
    Int,
    /// UTF-8 strings.
    Text,
    /// Bytes.
    Bytes,
}

/// The buffers of one column.
#[derive(Debug, Default)]
pub struct Buffers {
    /// One validity bit per row, lowest bit first.
    pub validity: Vec<u8>,
    /// Rows + 1 offsets for strings and bytes; empty for numbers.
    pub offsets: Vec<u8>,
    /// The values.
    pub data: Vec<u8>,
    rows: usize,
}

impl Buffers {
    fn column(&self) -> Column<'_> {
        Column { validity: &self.validity, offsets: &self.offsets, data: &self.data, first: 0 }
    }

    fn mark(&mut self, is_there: bool) {
        if self.rows.is_multiple_of(8) {
            self.validity.push(0);
        }
        if is_there {
            self.validity[self.rows / 8] |= 1 << (self.rows % 8);
        }
        self.rows += 1;
    }

    fn push_long(&mut self, value: Option<i64>) {
        self.mark(value.is_some());
        self.data.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
    }

    fn push_int(&mut self, value: Option<i32>) {
        self.mark(value.is_some());
        self.data.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
    }

    fn push_bytes(&mut self, value: Option<&[u8]>) {
        if self.rows == 0 {
            self.offsets.extend_from_slice(&0_i32.to_le_bytes());
        }
        self.mark(value.is_some());
        self.data.extend_from_slice(value.unwrap_or_default());
        self.offsets.extend_from_slice(&(self.data.len() as i32).to_le_bytes());
    }

    fn push_text(&mut self, value: Option<&str>) {
        self.push_bytes(value.map(str::as_bytes));
    }
}

/// The buffers of one column of other code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Column<'a> {
    /// As in [`Buffers`]; empty: every value is there.
    pub validity: &'a [u8],
    /// As in [`Buffers`].
    pub offsets: &'a [u8],
    /// As in [`Buffers`].
    pub data: &'a [u8],
    /// Index of the first row in the buffers.
    pub first: usize,
}

impl<'a> Column<'a> {
    fn is_there(&self, index: usize) -> bool {
        self.validity.is_empty() || self.validity.get(index / 8).is_some_and(|bits| bits & (1 << (index % 8)) != 0)
    }

    fn number<const N: usize>(&self, row: usize) -> Option<[u8; N]> {
        let index = self.first + row;
        if !self.is_there(index) {
            return None;
        }
        self.data.get(index * N..)?.first_chunk().copied()
    }

    fn long(&self, row: usize) -> Option<i64> {
        self.number(row).map(i64::from_le_bytes)
    }

    fn int(&self, row: usize) -> Option<i32> {
        self.number(row).map(i32::from_le_bytes)
    }

    fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        let index = self.first + row;
        if !self.is_there(index) {
            return None;
        }
        let at = |index: usize| {
            let bytes = self.offsets.get(index * 4..)?.first_chunk().copied()?;
            usize::try_from(i32::from_le_bytes(bytes)).ok()
        };
        self.data.get(at(index)?..at(index + 1)?)
    }

    fn text(&self, row: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(row)?).ok()
    }
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $type:ty, $push:ident, $read:ident;)+) => {
        /// One row; columns that do not apply are `None`.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Row<'a> { $($(#[$doc])* pub $name: Option<$type>,)+ }

        /// Rows in columns.
        #[derive(Debug, Default)]
        pub struct Columns {
            rows: usize,
            $($name: Buffers,)+
        }

        impl Columns {
            /// Names and types of the columns, in order.
            pub const NAMES: &'static [(&'static str, Kind)] = &[$((stringify!($name), Kind::$kind),)+];

            /// Adds a row.
            pub fn push(&mut self, row: &Row<'_>) {
                self.rows += 1;
                $(self.$name.$push(row.$name);)+
            }

            /// Returns the columns in the order of [`Columns::NAMES`].
            pub fn into_buffers(self) -> Vec<Buffers> {
                vec![$(self.$name,)+]
            }

            /// Returns the rows for reading.
            pub fn batch(&self) -> Batch<'_> {
                Batch { rows: self.rows, $($name: self.$name.column(),)+ }
            }

            /// Returns the size of all values in bytes.
            pub fn size_bytes(&self) -> usize {
                [$(self.$name.data.len(),)+].iter().sum()
            }
        }

        /// Rows in columns of other code. A value that the buffers do not have is null.
        #[derive(Clone, Copy, Debug)]
        pub struct Batch<'a> {
            rows: usize,
            $($name: Column<'a>,)+
        }

        impl<'a> Batch<'a> {
            /// Takes the columns in the order of [`Columns::NAMES`]; `None` if there are fewer.
            pub fn new(rows: usize, columns: &[Column<'a>]) -> Option<Batch<'a>> {
                let mut columns = columns.iter().copied();
                Some(Batch { rows, $($name: columns.next()?,)+ })
            }

            /// Returns one row.
            pub fn row(&self, index: usize) -> Row<'a> {
                Row { $($name: self.$name.$read(index),)+ }
            }
        }
    };
}

columns! {
    /// Offset of the record in its partition.
    offset: Long, i64, push_long, long;
    /// Index of the row among those of its record, from 0.
    part: Int, i32, push_int, int;
    /// Sequence number of the entry in its incarnation (journals).
    sequence: Long, i64, push_long, long;
    /// Time in milliseconds since the Unix epoch.
    at_ms: Long, i64, push_long, long;
    /// Time on the coordinator's monotonic clock in milliseconds (journals).
    mono_ms: Long, i64, push_long, long;
    /// Type of the row; docs/audit.md lists the types.
    kind: Text, &'a str, push_text, text;
    /// The group.
    group: Text, &'a str, push_text, text;
    /// The request's name, such as `JoinGroup`.
    api: Text, &'a str, push_text, text;
    /// The ticket of a request and of its answer.
    ticket: Long, i64, push_long, long;
    /// Error of the answer, `NONE` on success; null for a request that is not answered at once.
    error: Text, &'a str, push_text, text;
    /// The member.
    member: Text, &'a str, push_text, text;
    /// The `group.instance.id`.
    instance: Text, &'a str, push_text, text;
    /// The `client.id`.
    client: Text, &'a str, push_text, text;
    /// The generation, or the epoch in other protocols.
    generation: Int, i32, push_int, int;
    /// The leader's member id.
    leader: Text, &'a str, push_text, text;
    /// The chosen protocol.
    protocol: Text, &'a str, push_text, text;
    /// `session.timeout.ms`, in milliseconds.
    session_timeout_ms: Int, i32, push_int, int;
    /// `rebalance.timeout.ms`, in milliseconds.
    rebalance_timeout_ms: Int, i32, push_int, int;
    /// The fired deadline, such as `Session`.
    timer: Text, &'a str, push_text, text;
    /// Id of an append and of its completion.
    append_id: Long, i64, push_long, long;
    /// The topic.
    topic: Text, &'a str, push_text, text;
    /// The topic's partition index.
    topic_partition: Int, i32, push_int, int;
    /// The committed offset; null for a tombstone.
    committed: Long, i64, push_long, long;
    /// A number: members of a group, or missing entries.
    count: Long, i64, push_long, long;
    /// The bytes of an assignment, or the key of an unknown record.
    payload: Bytes, &'a [u8], push_bytes, bytes;
    /// Text: a state, a reason, or what could not be read.
    note: Text, &'a str, push_text, text;
}

impl Columns {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Batch<'_> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}
