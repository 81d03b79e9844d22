//! Unpredictable bytes, for nonces, salts and keys.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};

/// Returns unpredictable bytes of the system; `None` if it has none.
pub fn bytes<const COUNT: usize>() -> Option<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}

/// Returns an unpredictable nonce of printable ASCII without commas; `None` if the system has no random bytes.
pub fn nonce() -> Option<String> {
    bytes::<18>().map(|bytes| STANDARD_NO_PAD.encode(bytes))
}
