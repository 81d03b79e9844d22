//! Reads the protocol's primitive types from untrusted bytes.

use std::fmt;

use crate::limits::{ELEMENTS_MAX, ID_PREFIX_BYTES_MAX, STRING_BYTES_MAX};

/// Why bytes are not a request. Such bytes get no answer: the server closes the connection (§17.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes end inside `field`, or before as many elements as `field` announces.
    Truncated {
        /// The field's name in the protocol's schemas.
        field: &'static str,
    },
    /// `field` may not be null.
    Null {
        /// The field's name in the protocol's schemas.
        field: &'static str,
    },
    /// `field` is longer than its type allows.
    TooLong {
        /// The field's name in the protocol's schemas.
        field: &'static str,
    },
    /// `field` is not UTF-8.
    NotUtf8 {
        /// The field's name in the protocol's schemas.
        field: &'static str,
    },
    /// A variable-length integer that does not end, or does not fit 31 bits.
    BadVarint {
        /// The field's name in the protocol's schemas.
        field: &'static str,
    },
    /// More array elements than [`ELEMENTS_MAX`], or more groups than a request may name.
    TooManyElements {
        /// The array that went over the limit.
        field: &'static str,
    },
    /// A tagged field whose announced size is not its size.
    BadTag {
        /// The field's name in the protocol's schemas.
        field: &'static str,
    },
    /// The codec refused bytes that the guard accepted.
    Undecodable,
    /// The decoder panicked, which is a bug.
    Panicked,
    /// An API key or version that is not served.
    Unsupported {
        /// The API key in the header.
        api_key: i16,
        /// The version in the header.
        version: i16,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Truncated { field } => write!(out, "the bytes end inside `{field}`"),
            WireError::Null { field } => write!(out, "`{field}` is null and may not be"),
            WireError::TooLong { field } => write!(out, "`{field}` is longer than its type allows"),
            WireError::NotUtf8 { field } => write!(out, "`{field}` is not UTF-8"),
            WireError::BadVarint { field } => write!(out, "`{field}` is not a valid variable-length integer"),
            WireError::TooManyElements { field } => {
                write!(out, "too many elements in one request, counted up to `{field}`")
            }
            WireError::BadTag { field } => write!(out, "the announced size of `{field}` is not its size"),
            WireError::Undecodable => write!(out, "the request cannot be decoded"),
            WireError::Panicked => write!(out, "the decoder panicked at the request"),
            WireError::Unsupported { api_key, version } => {
                write!(out, "API key {api_key} in version {version} is not served")
            }
        }
    }
}

impl std::error::Error for WireError {}

/// A cursor over the bytes of one request, in the compact layout if `flexible`, else in the old one.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    flexible: bool,
    elements_left: u32,
}

impl<'a> Reader<'a> {
    /// Creates a reader of the compact layout if `flexible`, else of the old one.
    pub fn new(bytes: &'a [u8], flexible: bool) -> Reader<'a> {
        Reader { bytes, flexible, elements_left: ELEMENTS_MAX }
    }

    /// Whether the reader uses the compact layout.
    pub fn flexible(&self) -> bool {
        self.flexible
    }

    /// Returns the number of remaining bytes.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the next `count` bytes.
    pub fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.bytes.split_at_checked(count).ok_or(WireError::Truncated { field })?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(WireError::Truncated { field })?;
        self.bytes = tail;
        Ok(*head)
    }

    /// Reads an INT8.
    pub fn i8(&mut self, field: &'static str) -> Result<i8, WireError> {
        self.array(field).map(i8::from_be_bytes)
    }

    /// Reads an INT16.
    pub fn i16(&mut self, field: &'static str) -> Result<i16, WireError> {
        self.array(field).map(i16::from_be_bytes)
    }

    /// Reads an INT32.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        self.array(field).map(i32::from_be_bytes)
    }

    /// Reads an INT64.
    pub fn i64(&mut self, field: &'static str) -> Result<i64, WireError> {
        self.array(field).map(i64::from_be_bytes)
    }

    /// Reads a UUID, most significant byte first.
    pub fn uuid(&mut self, field: &'static str) -> Result<u128, WireError> {
        self.array(field).map(u128::from_be_bytes)
    }

    /// Reads a BOOLEAN: any byte but zero is true.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, WireError> {
        self.i8(field).map(|byte| byte != 0)
    }

    /// Reads an `UNSIGNED_VARINT` below 2^31.
    pub fn varint(&mut self, field: &'static str) -> Result<u32, WireError> {
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let value = u32::try_from(value).map_err(|_| WireError::BadVarint { field })?;
                return if i32::try_from(value).is_ok() { Ok(value) } else { Err(WireError::BadVarint { field }) };
            }
        }
        Err(WireError::BadVarint { field })
    }

    /// Reads a length or count; `None` is null. In the old layout it has 32 bits if `wide`, else 16.
    fn length(&mut self, wide: bool, field: &'static str) -> Result<Option<usize>, WireError> {
        if self.flexible {
            return Ok((self.varint(field)? as usize).checked_sub(1));
        }
        let length = if wide { self.i32(field)? } else { i32::from(self.i16(field)?) };
        Ok(usize::try_from(length).ok())
    }

    /// Reads a string or null.
    pub fn nullable_str(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        let Some(length) = self.length(false, field)? else { return Ok(None) };
        if length > STRING_BYTES_MAX {
            return Err(WireError::TooLong { field });
        }
        let bytes = self.take(length, field)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| WireError::NotUtf8 { field })
    }

    /// Reads a string; null is an error.
    pub fn str(&mut self, field: &'static str) -> Result<&'a str, WireError> {
        self.nullable_str(field)?.ok_or(WireError::Null { field })
    }

    /// Reads a string or null that is the prefix of a member id, so `-` and a UUID must fit behind it.
    pub fn nullable_id_prefix(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        let value = self.nullable_str(field)?;
        match value {
            Some(id) if id.len() > ID_PREFIX_BYTES_MAX => Err(WireError::TooLong { field }),
            _ => Ok(value),
        }
    }

    /// Reads bytes or null.
    pub fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        match self.length(true, field)? {
            Some(length) => self.take(length, field).map(Some),
            None => Ok(None),
        }
    }

    /// Reads bytes; null is an error.
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], WireError> {
        self.nullable_bytes(field)?.ok_or(WireError::Null { field })
    }

    /// Reads the element count of an array or null. Every element takes at least one byte, so a count above the
    /// remaining bytes is an error before any memory is reserved.
    pub fn nullable_count(&mut self, field: &'static str) -> Result<Option<usize>, WireError> {
        let Some(count) = self.length(true, field)? else { return Ok(None) };
        if count > self.remaining() {
            return Err(WireError::Truncated { field });
        }
        self.spend(count, field)?;
        Ok(Some(count))
    }

    /// Reads the element count of an array; null is an error.
    pub fn count(&mut self, field: &'static str) -> Result<usize, WireError> {
        self.nullable_count(field)?.ok_or(WireError::Null { field })
    }

    /// Counts `elements` against the request's limit.
    pub fn spend(&mut self, elements: usize, field: &'static str) -> Result<(), WireError> {
        let left = u32::try_from(elements).ok().and_then(|elements| self.elements_left.checked_sub(elements));
        self.elements_left = left.ok_or(WireError::TooManyElements { field })?;
        Ok(())
    }

    /// Skips the tagged fields at the end of a structure in the compact layout. The requests decoded here need none of
    /// them.
    pub fn skip_tags(&mut self) -> Result<(), WireError> {
        const FIELD: &str = "_tagged_fields";
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.varint(FIELD)? {
            self.varint(FIELD)?;
            let size = self.varint(FIELD)? as usize;
            self.take(size, FIELD)?;
        }
        Ok(())
    }
}
