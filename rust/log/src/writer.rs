//! Writes an uncompressed batch.

use bytes::{BufMut, Bytes, BytesMut};

use crate::batch::{CONTROL, HEADER_BYTES, LEADING_BYTES, TRANSACTIONAL};

/// Name and value of a header; a value that is `None` is null.
pub type Header = (String, Option<Vec<u8>>);

/// A batch under construction. Offsets count up from `base_offset`.
#[derive(Clone, Debug)]
pub struct BatchWriter {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Epoch of the leader that stores it; -1 from clients.
    pub leader_epoch: i32,
    /// (producer id, epoch, base sequence); `None`: not idempotent.
    pub producer: Option<(i64, i16, i32)>,
    /// Whether the batch is part of a transaction.
    pub is_transactional: bool,
    /// Whether its records are control records.
    pub is_control: bool,
    records: BytesMut,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    count: i32,
}

impl Default for BatchWriter {
    fn default() -> Self {
        BatchWriter {
            base_offset: 0,
            leader_epoch: -1,
            producer: None,
            is_transactional: false,
            is_control: false,
            records: BytesMut::new(),
            base_timestamp_ms: -1,
            max_timestamp_ms: -1,
            count: 0,
        }
    }
}

impl BatchWriter {
    /// Adds a record. `timestamp_ms` is wall time.
    pub fn push(&mut self, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.push_with_headers(timestamp_ms, key, value, &[]);
    }

    /// Adds a record with headers.
    pub fn push_with_headers(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) {
        if self.count == 0 {
            self.base_timestamp_ms = timestamp_ms;
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        let mut body = BytesMut::with_capacity(16 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len));
        body.put_u8(0);
        put_varlong(&mut body, timestamp_ms.wrapping_sub(self.base_timestamp_ms));
        put_varlong(&mut body, i64::from(self.count));
        put_nullable(&mut body, key);
        put_nullable(&mut body, value);
        put_varlong(&mut body, headers.len() as i64);
        for (name, value) in headers {
            put_nullable(&mut body, Some(name.as_bytes()));
            put_nullable(&mut body, value.as_deref());
        }
        put_varlong(&mut self.records, body.len() as i64);
        self.records.put_slice(&body);
        self.count += 1;
    }

    /// Returns the batch. Without records it is a valid header that no broker accepts.
    pub fn finish(self) -> Bytes {
        let (producer_id, producer_epoch, base_sequence) = self.producer.unwrap_or((-1, -1, -1));
        let mut summed = BytesMut::with_capacity(HEADER_BYTES + self.records.len());
        let transactional = if self.is_transactional { TRANSACTIONAL } else { 0 };
        summed.put_i16(transactional | if self.is_control { CONTROL } else { 0 });
        summed.put_i32(self.count - 1);
        summed.put_i64(self.base_timestamp_ms);
        summed.put_i64(self.max_timestamp_ms);
        summed.put_i64(producer_id);
        summed.put_i16(producer_epoch);
        summed.put_i32(base_sequence);
        summed.put_i32(self.count);
        summed.put_slice(&self.records);
        let mut batch = BytesMut::with_capacity(HEADER_BYTES + self.records.len());
        batch.put_i64(self.base_offset);
        batch.put_i32((HEADER_BYTES - LEADING_BYTES + self.records.len()) as i32);
        batch.put_i32(self.leader_epoch);
        batch.put_i8(2);
        batch.put_u32(crc32c::crc32c(&summed));
        batch.put_slice(&summed);
        batch.freeze()
    }
}

/// Writes bytes after their length; `None` is -1.
fn put_nullable(buf: &mut BytesMut, bytes: Option<&[u8]>) {
    put_varlong(buf, bytes.map_or(-1, |bytes| bytes.len() as i64));
    buf.put_slice(bytes.unwrap_or_default());
}

/// Writes zigzag with seven bits per byte. Values of 32 bits become a varint.
pub(crate) fn put_varlong(buf: &mut impl BufMut, value: i64) {
    let mut raw = (value << 1).cast_unsigned() ^ (value >> 63).cast_unsigned();
    while raw >= 0x80 {
        buf.put_u8(raw as u8 | 0x80);
        raw >>= 7;
    }
    buf.put_u8(raw as u8);
}
