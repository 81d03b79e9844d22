//! Frames of every API and version, and whether something panics while they are decoded.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use rota_wire::versions::{APIS, Api};

/// Every API in every version that is served.
pub fn every_version() -> impl Iterator<Item = (&'static Api, i16)> {
    APIS.iter().flat_map(|api| (api.served_from..=api.max).map(move |version| (api, version)))
}

/// A request from its header on.
pub fn frame(api: &Api, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&api.key.to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&77_i32.to_be_bytes());
    frame.extend_from_slice(b"\0\x06client");
    if api.flexible(version) {
        frame.push(0);
    }
    frame.extend_from_slice(body);
    frame
}

/// Counts the panics from here on in this test's thread, those that `decode_body` catches included.
pub fn count_panics() -> Arc<AtomicU32> {
    let (panics, here) = (Arc::new(AtomicU32::new(0)), thread::current().id());
    let (count, report) = (Arc::clone(&panics), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == here {
            count.fetch_add(1, Ordering::Relaxed);
        }
        report(info);
    }));
    panics
}
