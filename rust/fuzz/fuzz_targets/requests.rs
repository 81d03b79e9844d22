//! A frame from its header on, decoded as the server does. Whatever it is: no panic, and no memory that the bytes do
//! not cover (libfuzzer's own limits see that).
#![no_main]

#[path = "../../wire/tests/damage/mod.rs"]
#[allow(dead_code)]
mod damage;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    let _refused = damage::decode_frame(frame);
});
