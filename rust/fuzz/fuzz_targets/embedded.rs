//! The consumer's own bytes inside JoinGroup and SyncGroup: what is decoded and written again reads as the same.
#![no_main]

use rota_core::embedded::{decode_assignment, decode_subscription, encode_assignment, encode_subscription, topics};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(subscription) = decode_subscription(bytes) {
        let named: Vec<&str> = subscription.topics.iter().map(String::as_str).collect();
        assert_eq!(topics(bytes), Some(named));
        let written = encode_subscription(&subscription).unwrap();
        assert_eq!(decode_subscription(&written).as_ref(), Ok(&subscription));
    }
    if let Ok(assignment) = decode_assignment(bytes) {
        let written = encode_assignment(&assignment).unwrap();
        assert_eq!(decode_assignment(&written).as_ref(), Ok(&assignment));
    }
});
