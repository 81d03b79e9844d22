//! The tokens that a server accepts: rules from its settings, keys from a file or as given.

use std::{fs, path::Path, sync::Arc};

use rota_security::{
    sasl::{Mechanism, Sasl},
    tls::BadTls,
    token::{
        Rules, Verifier,
        keys::{KEY_SET_BYTES_MAX, Keys},
    },
};

use super::ServerConfig;
use crate::base::{error::ServerError, settings::KeySource};

const KEYS_URL: &str = "sasl.oauthbearer.jwks.endpoint.url";

/// Returns the authentication of a server with the tokens that it accepts; `None`: clients do not authenticate.
pub(super) fn with_tokens(config: &ServerConfig, source: Option<&KeySource>) -> Result<Option<Sasl>, ServerError> {
    let wrong = |reason: String| Err(BadTls::Settings(reason).into());
    let has_tokens = config.sasl.as_ref().is_some_and(|sasl| sasl.mechanisms.contains(&Mechanism::OauthBearer));
    let (Some(sasl), true) = (&config.sasl, has_tokens) else {
        if source.is_some() || config.allow_unsecured_tokens {
            let name = if source.is_some() { KEYS_URL } else { "--allow-unsecured-tokens" };
            return wrong(format!("`{name}` is for tokens: give --sasl OAUTHBEARER"));
        }
        return Ok(config.sasl.clone());
    };
    let keys = match source {
        Some(KeySource::File(path)) => match keys_of_file(path) {
            Ok(keys) => Some(keys),
            Err(reason) => return wrong(format!("`{KEYS_URL}` is `file://{}`: {reason}", path.display())),
        },
        // Until they are fetched there are none.
        Some(KeySource::Url(_)) => Some(config.keys.clone().unwrap_or_default()),
        None => config.keys.clone(),
    };
    if keys.is_none() && !config.allow_unsecured_tokens {
        return wrong(format!(
            "OAUTHBEARER needs the keys of the issuer of tokens: give `{KEYS_URL}`, or for tests --allow-unsecured-tokens"
        ));
    }
    let rules = Rules { allow_unsecured: config.allow_unsecured_tokens, ..config.settings.token_rules() };
    let tokens = Verifier { rules, keys: Arc::new(keys.unwrap_or_default()) };
    Ok(Some(Sasl { tokens, ..sasl.clone() }))
}

/// Reads a file with a key set. Errors: why it cannot be used.
pub(super) fn keys_of_file(path: &Path) -> Result<Keys, String> {
    let length = fs::metadata(path).map_err(|error| format!("cannot read the file: {error}"))?.len();
    if length > KEY_SET_BYTES_MAX as u64 {
        return Err("it has more than 1 MiB".to_owned());
    }
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read the file: {error}"))?;
    Keys::of_text(&text).map_err(|error| error.to_string())
}
