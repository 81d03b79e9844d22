//! Keys and values of `__consumer_offsets`: what is decoded is written so that it reads as the same. The first two
//! bytes say how long the key is.
#![no_main]

use rota_core::Record;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length))) else { return };
    let value = (!value.is_empty()).then_some(value);
    let Ok(record) = Record::decode(key, value) else { return };
    let again = Record::decode(&record.key_bytes(), record.value_bytes().as_deref());
    assert_eq!(again.as_ref(), Ok(&record));
});
