//! Record batches as a producer sends them: split, checked, decompressed, read. The checksum is put right first, or
//! nothing behind it would ever be reached.
#![no_main]

use rota_log::{HEADER_BYTES, batches};

const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Where a batch has its checksum, and where what it covers begins.
const CRC_AT: usize = 17;
const COVERED_FROM: usize = 21;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEADER_BYTES {
        let length = i32::from_be_bytes(bytes[8..12].try_into().unwrap());
        let end = usize::try_from(length).map_or(bytes.len(), |length| (length + 12).min(bytes.len()));
        if end > COVERED_FROM {
            let crc = crc32c::crc32c(&bytes[COVERED_FROM..end]);
            bytes[CRC_AT..COVERED_FROM].copy_from_slice(&crc.to_be_bytes());
        }
    }
    for batch in batches(&bytes).flatten() {
        let valid = batch.validate().is_ok();
        let Ok(payload) = batch.payload(PAYLOAD_BYTES_MAX) else { continue };
        assert!(payload.len() <= PAYLOAD_BYTES_MAX.max(batch.bytes().len()));
        let mut count = 0_usize;
        for record in batch.records_in(&payload).map_while(Result::ok) {
            let (_time, _offset) = (batch.timestamp_ms(&record), batch.offset(&record));
            count += 1;
        }
        assert!(!valid || count <= payload.len().max(1));
    }
});
