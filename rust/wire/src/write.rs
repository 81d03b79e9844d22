//! Writes the protocol's primitive types, and the frame of an answer.

use bytes::{BufMut, BytesMut};

use crate::limits::STRING_BYTES_MAX;

/// Appends to a connection's buffer, in the compact layout if `flexible`, else in the old one.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut BytesMut,
    flexible: bool,
}

impl<'b> Writer<'b> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: &'b mut BytesMut, flexible: bool) -> Writer<'b> {
        Writer { out, flexible }
    }

    /// Writes an INT8.
    pub fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    /// Writes an INT16.
    pub fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    /// Writes an INT32.
    pub fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    /// Writes an INT64.
    pub fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    /// Writes a UUID, most significant byte first.
    pub fn uuid(&mut self, value: u128) {
        self.out.put_u128(value);
    }

    /// Writes a BOOLEAN.
    pub fn bool(&mut self, value: bool) {
        self.out.put_u8(u8::from(value));
    }

    /// Writes an `UNSIGNED_VARINT`.
    pub fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Writes a string. A string too long for its length field, which no decoded request can cause, is cut at a
    /// character boundary.
    pub fn str(&mut self, value: &str) {
        let mut end = value.len().min(STRING_BYTES_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        if self.flexible {
            self.varint(end as u32 + 1);
        } else {
            self.i16(end as i16);
        }
        self.out.put_slice(&value.as_bytes()[..end]);
    }

    /// Writes a string or null.
    pub fn nullable_str(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.str(value),
            None if self.flexible => self.varint(0),
            None => self.i16(-1),
        }
    }

    /// Writes bytes with their length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.out.put_slice(value);
    }

    /// Writes bytes without a length.
    pub fn raw(&mut self, value: &[u8]) {
        self.out.put_slice(value);
    }

    /// Writes the element count of an array. The length of bytes has the same layout.
    pub fn count(&mut self, count: usize) {
        if self.flexible {
            self.varint(count as u32 + 1);
        } else {
            self.i32(count as i32);
        }
    }

    /// Whether the layout is the compact one.
    pub fn is_flexible(&self) -> bool {
        self.flexible
    }

    /// Writes a section of tagged fields, which ascend. Only in the compact layout.
    pub fn tags(&mut self, tags: &[(u32, BytesMut)]) {
        self.varint(tags.len() as u32);
        for (tag, value) in tags {
            self.varint(*tag);
            self.varint(value.len() as u32);
            self.raw(value);
        }
    }

    /// Writes the empty section of tagged fields that ends every structure of the compact layout.
    pub fn no_tags(&mut self) {
        if self.flexible {
            self.varint(0);
        }
    }
}

/// Begins an answer: reserves its length, which [`end_answer`] fills in, and writes its header. Returns its start.
pub fn begin_answer(out: &mut BytesMut, correlation_id: i32, tagged_header: bool) -> usize {
    let start = out.len();
    out.put_i32(0);
    out.put_i32(correlation_id);
    if tagged_header {
        out.put_u8(0);
    }
    start
}

/// Ends the answer that began at `start`.
pub fn end_answer(out: &mut BytesMut, start: usize) {
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
