//! The claims of a token, checked as by Kafka's `BrokerJwtValidator`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{BadToken, Rules};

/// What is known of a token with valid claims.
pub struct Checked {
    /// The name of the principal.
    pub name: String,
    /// When it expires, in seconds of wall time.
    pub expires_s: i64,
}

/// Checks the claims at this time. A signed token needs its issue time, as in Kafka; an unsecured one does not.
pub fn check(
    claims: &Map<String, Value>,
    rules: &Rules,
    now_s: i64,
    needs_issue_time: bool,
) -> Result<Checked, BadToken> {
    let [expires, issued, begins] = ["exp", "iat", "nbf"].map(|name| time(claims, name));
    let (expires, issued, begins) = (expires?.ok_or(BadToken::Claims)?, issued?, begins?);
    if issued.is_none() && needs_issue_time {
        return Err(BadToken::Claims);
    }
    if now_s.saturating_sub(rules.clock_skew_s) >= expires || Some(expires) < issued.max(begins) {
        return Err(BadToken::Expired);
    }
    if begins.is_some_and(|begins| now_s.saturating_add(rules.clock_skew_s) < begins) {
        return Err(BadToken::NotYetValid);
    }
    if let Some(expected) = &rules.issuer
        && claims.get("iss").and_then(Value::as_str) != Some(expected)
    {
        return Err(BadToken::Issuer);
    }
    if !is_for(claims.get("aud"), &rules.audiences) {
        return Err(BadToken::Audience);
    }
    if !has_well_formed_scopes(claims.get(&rules.scope_claim)) {
        return Err(BadToken::Claims);
    }
    let name = claims.get(&rules.subject_claim).and_then(Value::as_str).unwrap_or_default().trim();
    // Control characters would break the lines of logs.
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(BadToken::Subject);
    }
    Ok(Checked { name: name.to_owned(), expires_s: expires })
}

/// Returns a time in whole seconds.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, BadToken> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            Ok(number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds.trunc() as i64)))
        }
        Some(_) => Err(BadToken::Claims),
    }
}

/// Whether a token with this audience is accepted. Without expected ones, a token must not have any, as in Kafka.
fn is_for(audience: Option<&Value>, expected: &[String]) -> bool {
    let is_expected = |value: &Value| value.as_str().is_some_and(|one| expected.iter().any(|other| other == one));
    match audience {
        None => expected.is_empty(),
        Some(Value::Array(several)) => several.iter().any(is_expected),
        Some(one) => is_expected(one),
    }
}

/// Whether scopes are a text, or a list of different texts that are not blank. They decide nothing.
fn has_well_formed_scopes(scopes: Option<&Value>) -> bool {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    match scopes {
        Some(Value::Array(several)) => {
            let different: BTreeSet<&str> = several.iter().filter_map(Value::as_str).map(str::trim).collect();
            several.iter().all(is_text) && different.len() == several.len()
        }
        Some(one @ Value::String(_)) => is_text(one),
        _ => true,
    }
}
