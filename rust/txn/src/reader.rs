//! Reads and writes the fields of records.

use crate::record_error::RecordError;

/// A position in the bytes of a record. Every error names a field.
pub struct Reader<'a> {
    bytes: &'a [u8],
}

const fn cut(field: &'static str) -> RecordError {
    RecordError { field, problem: "the record ends before it" }
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(cut(field))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(cut(field))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Reads an `int8`.
    pub fn i8(&mut self, field: &'static str) -> Result<i8, RecordError> {
        self.array(field).map(i8::from_be_bytes)
    }

    /// Reads an `int16`.
    pub fn i16(&mut self, field: &'static str) -> Result<i16, RecordError> {
        self.array(field).map(i16::from_be_bytes)
    }

    /// Reads an `int32`.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, RecordError> {
        self.array(field).map(i32::from_be_bytes)
    }

    /// Reads an `int64`.
    pub fn i64(&mut self, field: &'static str) -> Result<i64, RecordError> {
        self.array(field).map(i64::from_be_bytes)
    }

    /// Reads an unsigned varint.
    pub fn varint(&mut self, field: &'static str) -> Result<u32, RecordError> {
        let mut value = 0_u32;
        for shift in (0..32).step_by(7) {
            let byte = self.array::<1>(field)?[0];
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0xf {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RecordError { field, problem: "a varint is longer than 32 bits" })
    }

    fn utf8(&mut self, count: usize, field: &'static str) -> Result<&'a str, RecordError> {
        let bytes = self.take(count, field)?;
        str::from_utf8(bytes).map_err(|_| RecordError { field, problem: "is not UTF-8" })
    }

    /// Reads a string with a length of 16 bits.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        let count = self.i16(field)?;
        let count = usize::try_from(count).map_err(|_| RecordError { field, problem: "is null" })?;
        self.utf8(count, field)
    }

    /// Reads a compact string.
    pub fn compact_text(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        let count = self.varint(field)?.checked_sub(1).ok_or(RecordError { field, problem: "is null" })?;
        self.utf8(count as usize, field)
    }

    /// Reads the length of a list; 0 for null.
    pub fn count(&mut self, field: &'static str) -> Result<u32, RecordError> {
        Ok(u32::try_from(self.i32(field)?).unwrap_or(0))
    }

    /// Reads the length of a compact list; 0 for null.
    pub fn compact_count(&mut self, field: &'static str) -> Result<u32, RecordError> {
        Ok(self.varint(field)?.saturating_sub(1))
    }

    /// Reads one tagged field: its tag and content.
    pub fn tag(&mut self) -> Result<(u32, &'a [u8]), RecordError> {
        let (tag, count) = (self.varint("tag")?, self.varint("size of a tagged field")?);
        Ok((tag, self.take(count as usize, "tagged field")?))
    }

    /// Skips a section of tagged fields.
    pub fn skip_tags(&mut self) -> Result<(), RecordError> {
        for _ in 0..self.varint("tagged fields")? {
            self.tag()?;
        }
        Ok(())
    }

    /// Checks that nothing is left.
    pub fn end(&self, field: &'static str) -> Result<(), RecordError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(RecordError { field, problem: "has bytes after its end" }) }
    }
}

/// Writes an unsigned varint.
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Writes a string with a length of 16 bits.
pub fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i16).to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// Writes a compact string.
pub fn put_compact_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u32 + 1);
    bytes.extend(text.as_bytes());
}
