//! Decompresses a batch's records with a size limit: a few kilobytes may expand to gigabytes.

use std::{
    borrow::Cow,
    io::{self, Read},
};

use crate::batch::{BatchError, Compression};

/// The start of a snappy-java stream. Two versions (i32 each) follow, then blocks with an i32 length.
const SNAPPY_JAVA_MAGIC: &[u8] = b"\x82SNAPPY\0";
const SNAPPY_JAVA_HEADER_BYTES: usize = 16;

/// Decompresses `payload`, to at most `limit_bytes`. Errors: `BadCompression`, `TooLargeDecompressed`.
pub fn decompress(codec: Compression, payload: &[u8], limit_bytes: usize) -> Result<Cow<'_, [u8]>, BatchError> {
    let bad = |reason: String| BatchError::BadCompression { codec, reason };
    match codec {
        Compression::None => Ok(Cow::Borrowed(payload)),
        Compression::Gzip => read_bounded(flate2::read::GzDecoder::new(payload), codec, limit_bytes),
        Compression::Lz4 => read_bounded(lz4_flex::frame::FrameDecoder::new(payload), codec, limit_bytes),
        Compression::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(payload).map_err(|error| bad(error.to_string()))?;
            read_bounded(decoder, codec, limit_bytes)
        }
        Compression::Snappy => snappy(payload, limit_bytes),
    }
}

fn read_bounded(reader: impl Read, codec: Compression, limit_bytes: usize) -> Result<Cow<'static, [u8]>, BatchError> {
    let mut bytes = Vec::new();
    match reader.take(limit_bytes as u64 + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() > limit_bytes => Err(BatchError::TooLargeDecompressed { limit_bytes }),
        Ok(_) => Ok(Cow::Owned(bytes)),
        Err(error) => Err(BatchError::BadCompression { codec, reason: error.to_string() }),
    }
}

fn snappy(payload: &[u8], limit_bytes: usize) -> Result<Cow<'static, [u8]>, BatchError> {
    let mut bytes = Vec::new();
    if !payload.starts_with(SNAPPY_JAVA_MAGIC) {
        snappy_block(payload, &mut bytes, limit_bytes)?;
        return Ok(Cow::Owned(bytes));
    }
    let mut rest = payload.get(SNAPPY_JAVA_HEADER_BYTES..).ok_or_else(snappy_cut)?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (block, after) = after.split_at_checked(length).ok_or_else(snappy_cut)?;
        snappy_block(block, &mut bytes, limit_bytes)?;
        rest = after;
    }
    if rest.is_empty() { Ok(Cow::Owned(bytes)) } else { Err(snappy_cut()) }
}

fn snappy_block(block: &[u8], bytes: &mut Vec<u8>, limit_bytes: usize) -> Result<(), BatchError> {
    let bad = |error: snap::Error| BatchError::BadCompression { codec: Compression::Snappy, reason: error.to_string() };
    let before = bytes.len();
    // The stated length is checked before memory is allocated for it.
    let length = snap::raw::decompress_len(block).map_err(bad)?;
    if length > limit_bytes - before {
        return Err(BatchError::TooLargeDecompressed { limit_bytes });
    }
    bytes.resize(before + length, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut bytes[before..]).map_err(bad)?;
    bytes.truncate(before + written);
    Ok(())
}

fn snappy_cut() -> BatchError {
    let reason = io::Error::from(io::ErrorKind::UnexpectedEof).to_string();
    BatchError::BadCompression { codec: Compression::Snappy, reason }
}
