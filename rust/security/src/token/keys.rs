//! The public keys of an issuer: a JSON web key set (RFC 7517).

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};

use super::BadToken;

/// Maximum size of a key set.
pub const KEY_SET_BYTES_MAX: usize = 1024 * 1024;

/// Maximum keys of a set.
const KEYS_MAX: usize = 1_000;

/// A public key.
#[derive(Clone, PartialEq, Eq)]
enum Public {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// A curve and an uncompressed point.
    Ec(Curve, Vec<u8>),
}

/// A curve of ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
}

impl Curve {
    const fn coordinate_bytes(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
        }
    }

    fn named(name: &str) -> Option<Curve> {
        match name {
            "P-256" => Some(Curve::P256),
            "P-384" => Some(Curve::P384),
            _ => None,
        }
    }
}

/// How a token is signed.
enum Algorithm {
    Rsa(&'static RsaParameters),
    Ec(Curve, &'static EcdsaVerificationAlgorithm),
}

impl Algorithm {
    fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "RS256" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            "PS384" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            "PS512" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            "ES256" => Algorithm::Ec(Curve::P256, &signature::ECDSA_P256_SHA256_FIXED),
            "ES384" => Algorithm::Ec(Curve::P384, &signature::ECDSA_P384_SHA384_FIXED),
            _ => return None,
        })
    }

    /// Whether a key can have this algorithm.
    fn fits(&self, key: &Public) -> bool {
        match (self, key) {
            (Algorithm::Rsa(_), Public::Rsa(..)) => true,
            (Algorithm::Ec(curve, _), Public::Ec(of_key, _)) => curve == of_key,
            _ => false,
        }
    }

    fn verifies(&self, key: &Public, signed: &[u8], signature: &[u8]) -> bool {
        match (self, key) {
            (Algorithm::Rsa(parameters), Public::Rsa(n, e)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            (Algorithm::Ec(_, algorithm), Public::Ec(_, point)) => {
                let algorithm: &'static dyn VerificationAlgorithm = *algorithm;
                UnparsedPublicKey::new(algorithm, point).verify(signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// A key with what its set says of it.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    public: Public,
}

/// The keys of an issuer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<Key>,
}

/// Without the keys.
impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Keys({})", self.keys.len())
    }
}

/// A key set cannot be used: the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKeys(pub String);

impl fmt::Display for BadKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "it is not a JSON web key set with a key for signatures: {}", self.0)
    }
}

impl std::error::Error for BadKeys {}

impl Keys {
    /// Reads a key set. Keys of other kinds and for other uses are passed over, as section 5 of RFC 7517 wants; one must be left.
    pub fn of_text(text: &str) -> Result<Keys, BadKeys> {
        let bad = |reason: &str| BadKeys(reason.to_owned());
        if text.len() > KEY_SET_BYTES_MAX {
            return Err(bad("it has more than 1 MiB"));
        }
        // The error's own words could have parts of the text.
        let set: Value = serde_json::from_str(text)
            .map_err(|error| BadKeys(format!("line {}, column {}: it is not JSON", error.line(), error.column())))?;
        let Some(Value::Array(keys)) = set.get("keys") else { return Err(bad("it has no list `keys`")) };
        if keys.len() > KEYS_MAX {
            return Err(bad("it has more than 1,000 keys"));
        }
        let keys: Vec<Key> = keys.iter().filter_map(Value::as_object).filter_map(Key::read).collect();
        if keys.is_empty() {
            return Err(bad("give RSA keys of at least 2048 bits, or EC keys with P-256 or P-384"));
        }
        Ok(Keys { keys })
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Verifies the signature of a token that says how and by which key it is signed.
    pub fn verify(
        &self,
        algorithm: &str,
        key_id: Option<&str>,
        signed: &str,
        signature: &[u8],
    ) -> Result<(), BadToken> {
        let named = algorithm;
        let algorithm = Algorithm::named(algorithm).ok_or(BadToken::Unsupported)?;
        let may_sign = |key: &&Key| {
            (key_id.is_none() || key.id.as_deref() == key_id)
                && key.algorithm.as_deref().is_none_or(|of_key| of_key == named)
                && algorithm.fits(&key.public)
        };
        let mut found = self.keys.iter().filter(may_sign).peekable();
        if found.peek().is_none() {
            return Err(BadToken::UnknownKey);
        }
        if found.any(|key| algorithm.verifies(&key.public, signed.as_bytes(), signature)) {
            return Ok(());
        }
        Err(BadToken::Signature)
    }
}

impl Key {
    /// Reads a key; `None`: it cannot sign tokens here.
    fn read(fields: &Map<String, Value>) -> Option<Key> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let bytes = |name: &str| text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok());
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let public = match text("kty")? {
            "RSA" => {
                let strip = |number: Vec<u8>| number.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
                let (n, e) = (strip(bytes("n")?), strip(bytes("e")?));
                // ring refuses others at every signature.
                let is_long = n.len() > 256 || (n.len() == 256 && n[0] >= 0x80);
                if !is_long || e.is_empty() {
                    return None;
                }
                Public::Rsa(n, e)
            }
            "EC" => {
                let curve = Curve::named(text("crv")?)?;
                let (x, y) = (bytes("x")?, bytes("y")?);
                if [&x, &y].iter().any(|coordinate| coordinate.len() != curve.coordinate_bytes()) {
                    return None;
                }
                Public::Ec(curve, [&[4][..], &x, &y].concat())
            }
            _ => return None,
        };
        Some(Key { id: text("kid").map(str::to_owned), algorithm: text("alg").map(str::to_owned), public })
    }
}
