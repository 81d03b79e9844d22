//! A throw-away issuer of tokens for tests: its keys exist in memory only.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};

/// Bytes of a coordinate of P-256.
const COORDINATE_BYTES: usize = 32;

/// An issuer with one key, which signs with ES256.
pub struct Issuer {
    key: EcdsaKeyPair,
    key_id: String,
    random: SystemRandom,
}

/// Without the key.
impl fmt::Debug for Issuer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Issuer").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// The system has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRandomBytes;

impl fmt::Display for NoRandomBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the system has no random bytes")
    }
}

impl std::error::Error for NoRandomBytes {}

impl Issuer {
    /// Creates an issuer with a new key, which has this id.
    pub fn new(key_id: &str) -> Result<Issuer, NoRandomBytes> {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
            .ok()
            .and_then(|document| EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).ok());
        let key = pair.ok_or(NoRandomBytes)?;
        Ok(Issuer { key, key_id: key_id.to_owned(), random })
    }

    /// Returns the public key as JSON, an element of a key set.
    pub fn key(&self) -> String {
        let point = &self.key.public_key().as_ref()[1..];
        let [x, y] = [&point[..COORDINATE_BYTES], &point[COORDINATE_BYTES..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        let id = serde_json::Value::from(self.key_id.as_str());
        format!(r#"{{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":{id},"x":"{x}","y":"{y}"}}"#)
    }

    /// Signs claims, which are JSON.
    pub fn sign(&self, claims: &str) -> Result<String, NoRandomBytes> {
        let id = serde_json::Value::from(self.key_id.as_str());
        let header = format!(r#"{{"alg":"ES256","typ":"JWT","kid":{id}}}"#);
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.key.sign(&self.random, signed.as_bytes()).map_err(|_| NoRandomBytes)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
