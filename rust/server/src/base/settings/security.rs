//! What the settings say of TLS, principals, authorization and tokens.

use std::path::PathBuf;

use rota_security::{
    acl::Authorizer,
    pem::Source,
    principal::MappingRules,
    tls::{BadTls, ClientAuth, TlsFiles},
    token::Rules,
};

use super::{
    ALLOW_EVERYONE_IF_NO_ACL_FOUND, AUTHORIZER_CLASS_NAME, SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS,
    SASL_OAUTHBEARER_EXPECTED_AUDIENCE, SASL_OAUTHBEARER_EXPECTED_ISSUER, SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS, SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_URL, SASL_OAUTHBEARER_SCOPE_CLAIM_NAME, SASL_OAUTHBEARER_SUB_CLAIM_NAME, SETTINGS,
    SSL_CLIENT_AUTH, SSL_KEYSTORE_CERTIFICATE_CHAIN, SSL_KEYSTORE_KEY, SSL_KEYSTORE_LOCATION,
    SSL_PRINCIPAL_MAPPING_RULES, SSL_TRUSTSTORE_CERTIFICATES, SSL_TRUSTSTORE_LOCATION, SUPER_USERS, Settings,
};

/// The class of Kafka's authorizer, which switches authorization on.
pub const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

const OPEN: &str = "allow.everyone.if.no.acl.found";
const KEYS_URL: &str = "sasl.oauthbearer.jwks.endpoint.url";

/// Where the keys of the issuer of tokens are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a file, which the server reads.
    File(PathBuf),
    /// At a URL, from which the server is given them.
    Url(String),
}

/// How keys are fetched from a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFetching {
    /// The URL.
    pub url: String,
    /// The interval.
    pub refresh_ms: u64,
    /// The time until the next attempt after a failure, doubled after each.
    pub backoff_ms: u64,
    /// Its maximum.
    pub backoff_max_ms: u64,
}

impl Settings {
    /// Returns how keys are fetched from their URL; `None`: they have none.
    pub fn key_fetching(&self) -> Option<KeyFetching> {
        let Ok(Some(KeySource::Url(url))) = self.key_source() else { return None };
        let ms = |index: usize| self.int(index) as u64;
        Some(KeyFetching {
            url,
            refresh_ms: ms(SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS),
            backoff_ms: ms(SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS),
            backoff_max_ms: ms(SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS),
        })
    }

    /// Returns the files of TLS; `None` if neither certificate nor key is set, so that listeners are plaintext.
    pub fn tls(&self) -> Result<Option<TlsFiles>, BadTls> {
        let [chain, key, ca] =
            [SSL_KEYSTORE_CERTIFICATE_CHAIN, SSL_KEYSTORE_KEY, SSL_TRUSTSTORE_CERTIFICATES].map(|at| self.inline(at));
        let [store, trusted] = [SSL_KEYSTORE_LOCATION, SSL_TRUSTSTORE_LOCATION]
            .map(|at| self.texts.get(&at).map(|path| Source::File(path.into())));
        let wrong = |reason: &str| Err(BadTls::Settings(reason.to_owned()));
        let client_auth = ClientAuth::NAMES[self.int(SSL_CLIENT_AUTH) as usize].1;
        let client_ca = match (trusted, ca) {
            (Some(_), Some(_)) => {
                return wrong("give `ssl.truststore.location` or `ssl.truststore.certificates`, not both");
            }
            (trusted, ca) => trusted.or(ca),
        };
        match (store, chain, key) {
            (None, None, None) if client_auth != ClientAuth::None || client_ca.is_some() => wrong(
                "`ssl.client.auth` and `ssl.truststore.*` need TLS: give the server's certificate and key, in \
                 `ssl.keystore.location`",
            ),
            (None, None, None) => Ok(None),
            (Some(store), None, None) => {
                Ok(Some(TlsFiles { chain: store.clone(), key: store, client_ca, client_auth }))
            }
            (None, Some(chain), Some(key)) => Ok(Some(TlsFiles { chain, key, client_ca, client_auth })),
            (None, Some(_), None) => wrong("`ssl.keystore.certificate.chain` needs its `ssl.keystore.key`"),
            (None, None, Some(_)) => wrong("`ssl.keystore.key` needs its `ssl.keystore.certificate.chain`"),
            (Some(_), ..) => wrong(
                "give `ssl.keystore.location`, or `ssl.keystore.certificate.chain` with `ssl.keystore.key`, not both",
            ),
        }
    }

    /// Returns the authorizer without ACLs; `None`: everyone may do everything. `has_acls`: ACLs were given, which switch
    /// authorization on. Errors: what to do about a wrong setting.
    pub fn authorizer(&self, has_acls: bool) -> Result<Option<Authorizer>, BadTls> {
        let text = |index: usize| self.texts.get(&index).map_or("", |text| text.trim());
        let wrong = |reason: String| Err(BadTls::Settings(reason));
        let class = text(AUTHORIZER_CLASS_NAME);
        if !["", STANDARD_AUTHORIZER].contains(&class) {
            return wrong(format!("`authorizer.class.name` is `{class}`, expected `{STANDARD_AUTHORIZER}`"));
        }
        let allow_everyone_if_no_acl_found = self.int(ALLOW_EVERYONE_IF_NO_ACL_FOUND) != 0;
        if class.is_empty() && !has_acls {
            let halves = [("super.users", !text(SUPER_USERS).is_empty()), (OPEN, allow_everyone_if_no_acl_found)];
            return match halves.iter().find(|(_, is_set)| *is_set) {
                Some((name, _)) => wrong(format!("`{name}` needs `authorizer.class.name={STANDARD_AUTHORIZER}`")),
                None => Ok(None),
            };
        }
        match Authorizer::read_super_users(text(SUPER_USERS)) {
            Ok(super_users) => {
                Ok(Some(Authorizer { super_users, allow_everyone_if_no_acl_found, ..Authorizer::default() }))
            }
            Err(bad) => wrong(format!(
                "`super.users` has `{bad}`, which has no type: give principals such as `User:admin`, separated by `;`"
            )),
        }
    }

    /// Returns the rules of `ssl.principal.mapping.rules`.
    pub fn principal_mapping(&self) -> Result<MappingRules, BadTls> {
        let rules = self.texts.get(&SSL_PRINCIPAL_MAPPING_RULES).map_or("", |rules| rules);
        MappingRules::read(rules).map_err(|error| BadTls::Settings(error.to_string()))
    }

    fn inline(&self, index: usize) -> Option<Source> {
        self.texts.get(&index).map(|text| Source::Inline(SETTINGS[index].name, text.clone()))
    }

    /// Returns what tokens must have. They must have a signature.
    pub fn token_rules(&self) -> Rules {
        let text = |index: usize| self.texts.get(&index).map_or("", |text| text.trim());
        let or_default = |index: usize| match text(index) {
            "" => SETTINGS[index].default.to_owned(),
            own => own.to_owned(),
        };
        let audiences = text(SASL_OAUTHBEARER_EXPECTED_AUDIENCE).split(',').map(str::trim);
        Rules {
            audiences: audiences.filter(|audience| !audience.is_empty()).map(str::to_owned).collect(),
            issuer: Some(text(SASL_OAUTHBEARER_EXPECTED_ISSUER)).filter(|text| !text.is_empty()).map(str::to_owned),
            subject_claim: or_default(SASL_OAUTHBEARER_SUB_CLAIM_NAME),
            scope_claim: or_default(SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
            clock_skew_s: self.int(SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS),
            allow_unsecured: false,
        }
    }

    /// Returns where the keys of the issuer of tokens are; `None`: the setting is empty.
    pub fn key_source(&self) -> Result<Option<KeySource>, BadTls> {
        let Some(url) = self.texts.get(&SASL_OAUTHBEARER_JWKS_ENDPOINT_URL).map(|text| text.trim()) else {
            return Ok(None);
        };
        let wrong = |expected: &str| Err(BadTls::Settings(format!("`{KEYS_URL}` is `{url}`: {expected}")));
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "file" => match file_of(rest) {
                Some(path) => Ok(Some(KeySource::File(path))),
                None => wrong("a file has an absolute path, as in `file:///etc/rota/jwks.json`"),
            },
            "https" if rest.len() > 2 && rest.starts_with("//") => Ok(Some(KeySource::Url(url.to_owned()))),
            "http" if is_loopback_url(rest) => Ok(Some(KeySource::Url(url.to_owned()))),
            "http" => wrong("keys can be changed on the way; use https:// (http:// for this machine only)"),
            _ => wrong("give a URL such as `https://issuer.test/keys` or `file:///etc/rota/jwks.json`"),
        }
    }
}

/// Returns the path of a `file:` URL; `rest` follows the colon.
fn file_of(rest: &str) -> Option<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(with_host) => with_host.strip_prefix("localhost").unwrap_or(with_host),
        None => rest,
    };
    let mut bytes = Vec::new();
    let mut left = path.as_bytes();
    while let Some((byte, tail)) = left.split_first() {
        left = tail;
        if *byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            left = &tail[2..];
        } else {
            bytes.push(*byte);
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    (path.len() > 1 && path.starts_with('/') && !path.contains('\0')).then(|| PathBuf::from(path))
}

/// Whether the host of a URL is this machine; `rest` follows the scheme and its colon.
fn is_loopback_url(rest: &str) -> bool {
    let Some(authority) = rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#']).next()) else {
        return false;
    };
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    !authority.contains(['@', '\\']) && ["127.0.0.1", "localhost", "::1"].contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_on_if_there_is_a_certificate_with_its_key() {
        let tls = |pairs: &[(&str, &str)]| {
            let mut settings = Settings::default();
            for (name, value) in pairs {
                settings.set(name, value).unwrap();
            }
            settings.tls()
        };
        assert_eq!(tls(&[]), Ok(None));
        assert_eq!(tls(&[("ssl.keystore.location", "")]), Ok(None));
        let store = tls(&[("ssl.keystore.location", "server.pem"), ("ssl.client.auth", "Required")]).unwrap().unwrap();
        assert_eq!((store.key, store.client_auth), (store.chain, ClientAuth::Required));
        let (chain, key) = (("ssl.keystore.certificate.chain", "c"), ("ssl.keystore.key", "k"));
        assert!(tls(&[chain, key]).unwrap().is_some());
        for half in
            [&[chain][..], &[key], &[chain, key, ("ssl.keystore.location", "f")], &[("ssl.client.auth", "required")]]
        {
            assert!(matches!(tls(half), Err(BadTls::Settings(_))), "{half:?}");
        }
    }

    #[test]
    fn an_authorizer_is_kafkas_class_or_there_are_acls_without_one_its_settings_are_refused() {
        let authorizer = |pairs: &[(&str, &str)], has_acls| {
            let mut settings = Settings::default();
            for (name, value) in pairs {
                settings.set(name, value).unwrap();
            }
            settings.authorizer(has_acls).map_err(|error| error.to_string())
        };
        let class = ("authorizer.class.name", STANDARD_AUTHORIZER);
        let admin = ("super.users", "User:admin");
        assert!(authorizer(&[], false).unwrap().is_none());
        assert!(!authorizer(&[class], false).unwrap().unwrap().allow_everyone_if_no_acl_found);
        assert!(authorizer(&[(OPEN, "true")], true).unwrap().unwrap().allow_everyone_if_no_acl_found);
        assert!(authorizer(&[class, admin], false).unwrap().unwrap().super_users.contains("User:admin"));
        let refused = |pairs: &[(&str, &str)]| authorizer(pairs, false).unwrap_err();
        assert_eq!(refused(&[admin]), format!("`super.users` needs `authorizer.class.name={STANDARD_AUTHORIZER}`"));
        assert!(refused(&[(OPEN, "true")]).starts_with("`allow.everyone.if.no.acl.found` needs"));
        assert!(refused(&[("authorizer.class.name", "x.Y")]).contains("is `x.Y`, expected"));
        assert!(refused(&[class, ("super.users", "admin")]).contains("`admin`, which has no type"));
    }

    fn source(url: &str) -> Result<Option<KeySource>, String> {
        let mut settings = Settings::default();
        settings.set(KEYS_URL, url).unwrap();
        settings.key_source().map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_in_a_file_or_at_a_url_with_tls() {
        let file = |path: &str| Ok(Some(KeySource::File(path.into())));
        assert_eq!(source(""), Ok(None));
        assert_eq!(source("file:///etc/keys.json"), file("/etc/keys.json"));
        assert_eq!(source("file:/etc/my%20keys.json"), file("/etc/my keys.json"));
        assert_eq!(source("FILE://localhost/keys"), file("/keys"));
        for url in ["https://issuer.test/keys", "http://127.0.0.1:80/k", "http://localhost", "http://[::1]:8080/k"] {
            assert_eq!(source(url), Ok(Some(KeySource::Url(url.to_owned()))));
        }
        for url in [
            "http://issuer.test/keys",
            "http://127.0.0.1@issuer.test/",
            "http://127.0.0.1.issuer.test/",
            "http://localhost\\@issuer.test/",
            "http:",
            "https:",
            "https://",
            "file:keys.json",
            "file://host/keys.json",
            "file:///%zz",
            "file:///%0",
            "file:///%ff",
            "file:///a%00b",
            "ftp://issuer.test/keys",
            "keys.json",
            ":",
        ] {
            let error = source(url).unwrap_err();
            assert!(error.starts_with(&format!("`{KEYS_URL}` is `{url}`: ")), "{error}");
        }
    }

    #[test]
    fn settings_say_what_tokens_must_have() {
        assert_eq!(format!("{:?}", Settings::default().token_rules()), format!("{:?}", Rules::default()));
        let mut settings = Settings::default();
        let prefix = "sasl.oauthbearer.";
        for (name, value) in [
            ("expected.audience", " kafka , other,"),
            ("expected.issuer", "https://issuer.test"),
            ("clock.skew.seconds", "5"),
            ("scope.claim.name", "scp"),
            ("sub.claim.name", "azp"),
        ] {
            settings.set(&format!("{prefix}{name}"), value).unwrap();
        }
        let rules = settings.token_rules();
        assert_eq!(rules.audiences, ["kafka", "other"]);
        assert_eq!(rules.issuer.as_deref(), Some("https://issuer.test"));
        assert_eq!((rules.clock_skew_s, rules.subject_claim.as_str(), rules.scope_claim.as_str()), (5, "azp", "scp"));
    }
}
