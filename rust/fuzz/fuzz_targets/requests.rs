//! A frame from its header on, decoded as the server does. Whatever it is: no panic, and no memory that the bytes do
//! not cover (libfuzzer's own limits see that).
#![no_main]

#[path = "../../wire/tests/decoding/mod.rs"]
mod decoding;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    let _refused = decoding::decode_frame(frame);
});
