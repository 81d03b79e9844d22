//! Rows as columns in Apache Arrow's layout: little-endian numbers, offsets of 32 bits, a bit for each value there is.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers.
    Long,
    /// 32-bit integers.
    Int,
    /// UTF-8.
    Text,
    /// Bytes.
    Bytes,
}

/// The buffers of one column.
#[derive(Debug, Default)]
pub struct Buffers {
    /// One bit a row, the lowest first: whether there is a value.
    pub validity: Vec<u8>,
    /// One more than rows, for text and bytes; empty otherwise.
    pub offsets: Vec<u8>,
    /// The values.
    pub data: Vec<u8>,
    rows: usize,
}

impl Buffers {
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

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $type:ty, $push:ident;)+) => {
        /// One row; what a row has no word for is `None`.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Row<'a> { $($(#[$doc])* pub $name: Option<$type>,)+ }

        /// Rows, column by column.
        #[derive(Debug, Default)]
        pub struct Columns {
            rows: usize,
            $($name: Buffers,)+
        }

        impl Columns {
            /// Names and kinds, in their order.
            pub const NAMES: &'static [(&'static str, Kind)] = &[$((stringify!($name), Kind::$kind),)+];

            /// Adds a row.
            pub fn push(&mut self, row: &Row<'_>) {
                self.rows += 1;
                $(self.$name.$push(row.$name);)+
            }

            /// The columns in the order of [`Columns::NAMES`].
            pub fn into_buffers(self) -> Vec<Buffers> {
                vec![$(self.$name,)+]
            }

            /// Bytes of all values.
            pub fn size_bytes(&self) -> usize {
                [$(self.$name.data.len(),)+].iter().sum()
            }
        }
    };
}

columns! {
    /// Of the record in its partition.
    offset: Long, i64, push_long;
    /// Of the row among those of its record, from 0.
    part: Int, i32, push_int;
    /// Of the entry in its incarnation (journals).
    sequence: Long, i64, push_long;
    /// When, milliseconds since the Unix epoch.
    at_ms: Long, i64, push_long;
    /// When, on the coordinator's monotonic clock (journals).
    mono_ms: Long, i64, push_long;
    /// What the row is: docs/audit.md has the list.
    kind: Text, &'a str, push_text;
    /// The group.
    group: Text, &'a str, push_text;
    /// The request's name, such as `JoinGroup`.
    api: Text, &'a str, push_text;
    /// Of a request and of its answer.
    ticket: Long, i64, push_long;
    /// The answer's error, `NONE` if it was none; of a request that is not answered at once, nothing.
    error: Text, &'a str, push_text;
    /// The member.
    member: Text, &'a str, push_text;
    /// Its `group.instance.id`.
    instance: Text, &'a str, push_text;
    /// The client's name for itself.
    client: Text, &'a str, push_text;
    /// The generation; of the newer protocols the epoch.
    generation: Int, i32, push_int;
    /// The leader's member id.
    leader: Text, &'a str, push_text;
    /// The chosen protocol.
    protocol: Text, &'a str, push_text;
    /// How long the member may be silent.
    session_timeout_ms: Int, i32, push_int;
    /// How long a rebalance waits for the member.
    rebalance_timeout_ms: Int, i32, push_int;
    /// The deadline that fired, such as `Session`.
    timer: Text, &'a str, push_text;
    /// Of an append and of its end.
    append_id: Long, i64, push_long;
    /// The topic.
    topic: Text, &'a str, push_text;
    /// The topic's partition.
    topic_partition: Int, i32, push_int;
    /// The committed offset; of a tombstone nothing.
    committed: Long, i64, push_long;
    /// How many: members of a group, entries that are missing.
    count: Long, i64, push_long;
    /// An assignment's bytes, or the key of a record that is not known.
    payload: Bytes, &'a [u8], push_bytes;
    /// In words: a state, a reason, what could not be read.
    note: Text, &'a str, push_text;
}

impl Columns {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}
