//! Tokens of OAuth: JSON web tokens (RFC 7519), signed by a key of a JSON web key set (RFC 7517). Time is an argument.
//!
//! Kafka's `BrokerJwtValidator` decides what is valid. Errors and debug output have nothing of a token.

mod claims;
pub mod issuer;
pub mod keys;

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use self::{claims::Checked, keys::Keys};

/// Kafka's default of `sasl.oauthbearer.clock.skew.seconds`.
pub const CLOCK_SKEW_S: i64 = 30;

/// Longest token. The frame before the authentication has a bound, too.
const TOKEN_BYTES_MAX: usize = 32 * 1024;

/// What a token must have.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Accepted audiences; empty: a token may have no audience.
    pub audiences: Vec<String>,
    /// The accepted issuer; `None`: any.
    pub issuer: Option<String>,
    /// The claim with the name of the principal.
    pub subject_claim: String,
    /// The claim with the scopes.
    pub scope_claim: String,
    /// How far the clocks of issuer and server may differ.
    pub clock_skew_s: i64,
    /// Whether tokens without a signature are accepted, which anyone can write: for tests.
    pub allow_unsecured: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            audiences: Vec::new(),
            issuer: None,
            subject_claim: "sub".to_owned(),
            scope_claim: "scope".to_owned(),
            clock_skew_s: CLOCK_SKEW_S,
            allow_unsecured: false,
        }
    }
}

/// The rules with the keys of the issuer.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    /// The rules.
    pub rules: Rules,
    /// The keys.
    pub keys: Arc<Keys>,
}

/// Who a token names, and for how long.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The name of the principal.
    pub name: String,
    /// When the token expires, in milliseconds of wall time.
    pub expires_ms: i64,
}

impl fmt::Debug for Bearer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Bearer").field("name", &self.name).field("expires_ms", &self.expires_ms).finish()
    }
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BadToken {
    /// It is not a token.
    Malformed,
    /// It has no signature.
    Unsecured,
    /// It needs an algorithm or an extension that the server does not have.
    Unsupported,
    /// No key has its key id, or fits its algorithm.
    UnknownKey,
    /// The signature is not that of the key.
    Signature,
    /// It has expired, or expires before it begins.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is of another issuer.
    Issuer,
    /// It is for another audience.
    Audience,
    /// It names no principal.
    Subject,
    /// It has no issue time, no expiration time, or malformed scopes.
    Claims,
}

impl BadToken {
    /// Returns what is wrong, and what to do.
    pub fn text(self) -> &'static str {
        match self {
            BadToken::Malformed => "that is not a JSON web token: give the client an access token in this form",
            BadToken::Unsecured => {
                "without a signature: have it signed by the issuer, or for tests start the server with \
                 --allow-unsecured-tokens"
            }
            BadToken::Unsupported => {
                "with an algorithm or an extension that the server does not have: sign it with RS256, RS384, RS512, \
                 PS256, PS384, PS512, ES256 or ES384"
            }
            BadToken::UnknownKey => {
                "signed by a key that the server does not know: check that sasl.oauthbearer.jwks.endpoint.url is of \
                 the token's issuer"
            }
            BadToken::Signature => {
                "whose signature is wrong: check that sasl.oauthbearer.jwks.endpoint.url is of the token's issuer"
            }
            BadToken::Expired => "that has expired: let the client get a new one, or set both clocks",
            BadToken::NotYetValid => "that is not valid yet: set the clocks of issuer and server",
            BadToken::Issuer => "of another issuer than sasl.oauthbearer.expected.issuer",
            BadToken::Audience => "for another audience than sasl.oauthbearer.expected.audience",
            BadToken::Subject => "that names no principal: check sasl.oauthbearer.sub.claim.name",
            BadToken::Claims => "without `exp` or `iat`, or with malformed scopes: have the issuer add them",
        }
    }
}

impl fmt::Display for BadToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a token {}", self.text())
    }
}

impl std::error::Error for BadToken {}

impl Verifier {
    /// Verifies a token at this time.
    pub fn verify(&self, token: &str, now_ms: i64) -> Result<Bearer, BadToken> {
        let token = Token::parse(token)?;
        let is_secured = token.algorithm != "none";
        if is_secured {
            self.keys.verify(token.algorithm.as_str(), token.key_id.as_deref(), token.signed, &token.signature)?;
        } else if !self.rules.allow_unsecured {
            return Err(BadToken::Unsecured);
        } else if !token.signature.is_empty() {
            return Err(BadToken::Signature);
        }
        let Checked { name, expires_s } =
            claims::check(&token.claims, &self.rules, now_ms.div_euclid(1_000), is_secured)?;
        Ok(Bearer { name, expires_ms: expires_s.saturating_mul(1_000) })
    }
}

/// A token in its parts. Nothing of it is verified.
struct Token<'t> {
    algorithm: String,
    key_id: Option<String>,
    claims: Map<String, Value>,
    /// What is signed: header and claims as sent.
    signed: &'t str,
    signature: Vec<u8>,
}

impl Token<'_> {
    fn parse(text: &str) -> Result<Token<'_>, BadToken> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(BadToken::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(BadToken::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(BadToken::Malformed)?;
        let (header, claims) = (object(header)?, object(claims)?);
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| BadToken::Malformed)?;
        let text_of = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(BadToken::Malformed),
        };
        // RFC 7515, section 4.1.11: extensions that must be understood.
        if header.contains_key("crit") {
            return Err(BadToken::Unsupported);
        }
        let algorithm = text_of("alg")?.ok_or(BadToken::Malformed)?;
        Ok(Token { algorithm, key_id: text_of("kid")?, claims, signed, signature })
    }
}

/// Reads a part of a token, which is a JSON object.
fn object(part: &str) -> Result<Map<String, Value>, BadToken> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| BadToken::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| BadToken::Malformed)
}

#[cfg(test)]
mod tests;
