//! `SaslHandshake` and `SaslAuthenticate`.

use crate::{
    read::{Reader, WireError},
    write::Writer,
};

/// The first version of a `SaslAuthenticate` answer with the lifetime of the session.
const FIRST_WITH_LIFETIME: i16 = 1;

/// Reads the mechanism of a `SaslHandshake`.
pub fn read_handshake(body: &[u8]) -> Result<&str, WireError> {
    Reader::new(body, false).str("mechanism")
}

/// Writes the answer to a `SaslHandshake`.
pub fn handshake(out: &mut Writer<'_>, error: i16, mechanisms: &[&str]) {
    out.i16(error);
    out.count(mechanisms.len());
    for mechanism in mechanisms {
        out.str(mechanism);
    }
}

/// Reads the bytes of a `SaslAuthenticate`.
pub fn read_authenticate(flexible: bool, body: &[u8]) -> Result<&[u8], WireError> {
    Reader::new(body, flexible).bytes("auth_bytes")
}

/// An answer to a `SaslAuthenticate`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Authenticated<'a> {
    /// The error.
    pub error: i16,
    /// Why, or empty.
    pub message: &'a str,
    /// The message of the mechanism.
    pub bytes: &'a [u8],
    /// How long the session lasts; 0: it has no end.
    pub lifetime_ms: i64,
}

/// Writes the answer to a `SaslAuthenticate`.
pub fn authenticate(out: &mut Writer<'_>, version: i16, answer: Authenticated<'_>) {
    out.i16(answer.error);
    out.nullable_str(Some(answer.message));
    out.bytes(answer.bytes);
    if version >= FIRST_WITH_LIFETIME {
        out.i64(answer.lifetime_ms);
    }
    out.no_tags();
}
