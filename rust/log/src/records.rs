//! The records inside a batch: a varint length, then attributes, timestamp delta, offset delta, key, value, headers.

use crate::batch::BatchError;

/// One record, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta_ms: i64,
    /// Offset after the batch's base offset.
    pub offset_delta: i32,
    /// The key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null.
    pub value: Option<&'a [u8]>,
    /// Number of headers.
    pub header_count: u32,
    /// Encoded key, value and headers.
    pub encoded: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Returns the headers: name, and value (`None` is null).
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let mut rest = self.encoded;
        // `Records` has read them all before.
        let skipped = nullable(&mut rest, "key").is_ok() && nullable(&mut rest, "value").is_ok();
        let count = if skipped && varint(&mut rest).is_some() { self.header_count } else { 0 };
        (0..count).map_while(move |_| {
            let name = nullable(&mut rest, "header key").ok()??;
            Some((name, nullable(&mut rest, "header value").ok()?))
        })
    }
}

/// Iterator over the records of one batch. Ends after an error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    index: u32,
    count: u32,
}

impl<'a> Records<'a> {
    pub(crate) fn new(payload: &'a [u8], count: i32) -> Records<'a> {
        Records { rest: payload, index: 0, count: u32::try_from(count).unwrap_or(0) }
    }

    /// Checks all records: their offset deltas count up from 0, and no bytes remain. Errors: `BadRecord`.
    pub fn check_all(mut self) -> Result<(), BatchError> {
        for expected in 0..self.count {
            let record = self.next().unwrap_or(Err(BatchError::BadRecord { index: expected, field: "length" }))?;
            if u32::try_from(record.offset_delta) != Ok(expected) {
                return Err(BatchError::BadRecord { index: expected, field: "offset delta" });
            }
        }
        if self.rest.is_empty() { Ok(()) } else { Err(BatchError::BadRecord { index: self.count, field: "length" }) }
    }

    fn read(&mut self) -> Result<RecordView<'a>, &'static str> {
        let length = usize::try_from(varint(&mut self.rest).ok_or("length")?).map_err(|_| "length")?;
        let mut body = take(&mut self.rest, length).ok_or("length")?;
        take(&mut body, 1).ok_or("attributes")?;
        let timestamp_delta_ms = varlong(&mut body).ok_or("timestamp delta")?;
        let offset_delta = varint(&mut body).ok_or("offset delta")?;
        let encoded = body;
        let key = nullable(&mut body, "key")?;
        let value = nullable(&mut body, "value")?;
        let header_count = u32::try_from(varint(&mut body).ok_or("header count")?).map_err(|_| "header count")?;
        for _ in 0..header_count {
            nullable(&mut body, "header key")?.ok_or("header key")?;
            nullable(&mut body, "header value")?;
        }
        if !body.is_empty() {
            return Err("length");
        }
        Ok(RecordView { timestamp_delta_ms, offset_delta, key, value, header_count, encoded })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let index = self.index;
        let read = self.read();
        self.index = if read.is_ok() { index + 1 } else { self.count };
        Some(read.map_err(|field| BatchError::BadRecord { index, field }))
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Reads bytes with a varint length; -1 is null.
fn nullable<'a>(rest: &mut &'a [u8], field: &'static str) -> Result<Option<&'a [u8]>, &'static str> {
    match varint(rest).ok_or(field)? {
        -1 => Ok(None),
        length => usize::try_from(length).ok().and_then(|length| take(rest, length)).map(Some).ok_or(field),
    }
}

fn varint(rest: &mut &[u8]) -> Option<i32> {
    let raw = u32::try_from(unsigned(rest, 5)?).ok()?;
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

fn varlong(rest: &mut &[u8]) -> Option<i64> {
    let raw = unsigned(rest, 10)?;
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// Reads a varint: seven bits per byte, lowest first, at most `bytes_max` bytes.
fn unsigned(rest: &mut &[u8], bytes_max: u32) -> Option<u64> {
    let mut raw = 0_u64;
    for shift in (0..bytes_max * 7).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if shift == 63 && byte > 1 {
            return None;
        }
        raw |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(raw);
        }
    }
    None
}
