//! The client's first message of OAUTHBEARER (RFC 7628, section 3.1), in the grammar of Kafka's `OAuthBearerClientInitialResponse`.

/// Ends a key with its value.
const SEPARATOR: char = '\u{1}';

/// The client's first message.
#[derive(Clone, PartialEq, Eq)]
pub struct Initial<'m> {
    /// The authorization id, as sent; empty: none.
    pub authzid: &'m str,
    /// The token.
    pub token: &'m str,
}

/// The client's answer to an error.
pub const AFTER_ERROR: &[u8] = b"\x01";

/// The server's answer to a token that is not valid. A client may send another one.
pub const INVALID_TOKEN: &str = r#"{"status":"invalid_token"}"#;

/// Reads the first message; `None`: it is not one. Other keys than `auth` are extensions, which are not used.
pub fn read(message: &[u8]) -> Option<Initial<'_>> {
    let text = std::str::from_utf8(message).ok()?;
    let rest = text.strip_prefix("n,")?;
    let (authzid, rest) = rest.split_once(',')?;
    let authzid = match authzid {
        "" => "",
        named => named.strip_prefix("a=").filter(|name| is_sasl_name(name))?,
    };
    let pairs = rest.strip_prefix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
    let pairs = if pairs.is_empty() { "" } else { pairs.strip_suffix(SEPARATOR)? };
    let mut token = None;
    for pair in pairs.split(SEPARATOR).filter(|_| !pairs.is_empty()) {
        let (key, value) = pair.split_once('=')?;
        if !is_key(key) || !is_value(value) {
            return None;
        }
        if key == "auth" {
            token = Some(token_of(value)?);
        }
    }
    Some(Initial { authzid, token: token? })
}

/// Whether `=` and `,` are escaped, and there is something else than ASCII control byte 0.
fn is_sasl_name(name: &str) -> bool {
    let unescaped = name.replace("=2C", "").replace("=3D", "");
    !name.is_empty() && unescaped.bytes().all(|byte| (1..=0x7f).contains(&byte) && byte != b'=')
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| matches!(byte, 0x21..=0x7e | b' ' | b'\t' | b'\r' | b'\n'))
}

/// Returns the token of `Bearer TOKEN`.
fn token_of(value: &str) -> Option<&str> {
    let (scheme, rest) = value.split_once(' ')?;
    let token = rest.trim_start_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.bytes().all(is_token)).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(message: &str) -> Option<(&str, &str)> {
        read(message.as_bytes()).map(|initial| (initial.authzid, initial.token))
    }

    #[test]
    fn a_message_has_a_token_and_maybe_a_name_and_extensions() {
        assert_eq!(parts("n,,\x01auth=Bearer a.b.c\x01\x01"), Some(("", "a.b.c")));
        assert_eq!(parts("n,a=ana,\x01auth=bearer  a.b.c\x01\x01"), Some(("ana", "a.b.c")));
        assert_eq!(parts("n,,\x01one=two three=\x01auth=Bearer a-_.b.c\x01\x01"), Some(("", "a-_.b.c")));
        assert_eq!(parts("n,a=a=2Cb,\x01auth=Bearer t\x01\x01"), Some(("a=2Cb", "t")));
    }

    #[test]
    fn anything_else_is_not_a_message() {
        for wrong in [
            "",
            "n,,",
            "n,,\x01",
            "n,,\x01\x01",
            "n,,\x01auth=Bearer t\x01",
            "n,,\x01auth=Bearer t\x01\x01\x01",
            "n,,auth=Bearer t\x01\x01",
            "y,,\x01auth=Bearer t\x01\x01",
            "p=tls-unique,,\x01auth=Bearer t\x01\x01",
            "n,ana,\x01auth=Bearer t\x01\x01",
            "n,a=,\x01auth=Bearer t\x01\x01",
            "n,a=a=b,\x01auth=Bearer t\x01\x01",
            "n,a=\u{e4},\x01auth=Bearer t\x01\x01",
            "n,,\x01auth=Basic t\x01\x01",
            "n,,\x01auth=Bearer\x01\x01",
            "n,,\x01auth=Bearer \x01\x01",
            "n,,\x01auth=Bearer t/=\x01\x01",
            "n,,\x01auth=Bearer t\x01a1=b\x01\x01",
            "n,,\x01auth=Bearer t\x01other=\x01\x01",
            "n,,\x01other=value\x01\x01",
        ] {
            assert_eq!(parts(wrong), None, "{wrong:?}");
        }
        assert!(read(b"n,,\x01auth=Bearer \xff\x01\x01").is_none());
    }
}
