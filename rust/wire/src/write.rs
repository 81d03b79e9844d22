//! Writing the protocol's primitive types and the frame around an answer.

use bytes::{BufMut, BytesMut};

use crate::limits::STRING_BYTES_MAX;

/// Appends to a connection's buffer in the old or, if `flexible`, in the compact layout.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut BytesMut,
    flexible: bool,
}

impl<'b> Writer<'b> {
    /// Writes behind what `out` holds already.
    pub fn new(out: &'b mut BytesMut, flexible: bool) -> Writer<'b> {
        Writer { out, flexible }
    }

    /// An INT8.
    pub fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    /// An INT16.
    pub fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    /// An INT32.
    pub fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    /// An INT64.
    pub fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    /// A UUID, its bits in the order of its bytes.
    pub fn uuid(&mut self, value: u128) {
        self.out.put_u128(value);
    }

    /// A BOOLEAN.
    pub fn bool(&mut self, value: bool) {
        self.out.put_u8(u8::from(value));
    }

    /// An `UNSIGNED_VARINT`.
    pub fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// A string; cut at a character boundary in the case, which no decoded request can bring about, that it does
    /// not fit its length field.
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

    /// A string that may be null.
    pub fn nullable_str(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.str(value),
            None if self.flexible => self.varint(0),
            None => self.i16(-1),
        }
    }

    /// Bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.out.put_slice(value);
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, value: &[u8]) {
        self.out.put_slice(value);
    }

    /// The element count in front of an array (and the length in front of bytes, which has the same layout).
    pub fn count(&mut self, count: usize) {
        if self.flexible {
            self.varint(count as u32 + 1);
        } else {
            self.i32(count as i32);
        }
    }

    /// The empty section of tagged fields that ends every structure of the compact layout.
    pub fn no_tags(&mut self) {
        if self.flexible {
            self.varint(0);
        }
    }
}

/// Begins an answer: its length, filled in by [`end_answer`], and its header. Returns where it begins.
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
