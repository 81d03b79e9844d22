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

/// Writes the answer to a `SaslAuthenticate`. The session has no end.
pub fn authenticate(out: &mut Writer<'_>, version: i16, error: i16, message: Option<&str>, bytes: &[u8]) {
    out.i16(error);
    out.nullable_str(message);
    out.bytes(bytes);
    if version >= FIRST_WITH_LIFETIME {
        out.i64(0);
    }
    out.no_tags();
}
