//! The kinds of values that settings have.

use std::fmt;

use rota_core::consumer_group::config::Migration;
use rota_security::tls::ClientAuth;

/// The values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within inclusive bounds.
    Int(i64, i64),
    /// `true` or `false`.
    Bool,
    /// Group protocols: `classic`, or `classic,consumer`.
    Protocols,
    /// A policy of [`Migration`].
    Migration,
    /// A value of [`ClientAuth`].
    ClientAuth,
    /// The format of certificates and keys: PEM.
    StoreType,
    /// Any text; empty: not set.
    Text,
    /// A text that is not shown.
    Secret,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Int(low, high) => write!(out, "a whole number from {low} to {high}"),
            Kind::Bool => write!(out, "`true` or `false`"),
            Kind::Protocols => write!(out, "`classic` or `classic,consumer`"),
            Kind::Migration => write!(out, "`bidirectional`, `upgrade`, `downgrade` or `disabled`"),
            Kind::ClientAuth => write!(out, "`none`, `requested` or `required`"),
            Kind::StoreType => write!(
                out,
                "`PEM`: convert a Java keystore to PKCS#12 (keytool -importkeystore -deststoretype PKCS12), and that \
                 to PEM (openssl pkcs12 -in store.p12 -nodes -out store.pem)"
            ),
            Kind::Text | Kind::Secret => write!(out, "a text"),
        }
    }
}

impl Kind {
    /// Parses `text` as a number; `true` is 1.
    pub(super) fn parse(self, text: &str) -> Option<i64> {
        let text = text.trim();
        match self {
            Kind::Int(low, high) => text.parse().ok().filter(|value| (low..=high).contains(value)),
            Kind::Bool if text.eq_ignore_ascii_case("true") => Some(1),
            Kind::Bool if text.eq_ignore_ascii_case("false") => Some(0),
            Kind::Bool => None,
            Kind::Protocols => protocols(text),
            Kind::Migration => {
                let mut names = Migration::NAMES.iter();
                names.position(|(name, _)| text.eq_ignore_ascii_case(name)).map(|at| at as i64)
            }
            Kind::ClientAuth => {
                let mut names = ClientAuth::NAMES.iter();
                names.position(|(name, _)| text.eq_ignore_ascii_case(name)).map(|at| at as i64)
            }
            Kind::StoreType => text.eq_ignore_ascii_case("PEM").then_some(0),
            Kind::Text | Kind::Secret => Some(0),
        }
    }

    /// Returns a number as text.
    pub(super) fn text(self, value: i64) -> String {
        match self {
            Kind::Int(..) => value.to_string(),
            Kind::Bool => (value != 0).to_string(),
            Kind::Protocols if value == CONSUMER_PROTOCOL => "classic,consumer".to_owned(),
            Kind::Protocols => "classic".to_owned(),
            Kind::Migration => Migration::NAMES[value as usize].0.to_owned(),
            Kind::ClientAuth => ClientAuth::NAMES[value as usize].0.to_owned(),
            Kind::StoreType => "PEM".to_owned(),
            Kind::Text | Kind::Secret => String::new(),
        }
    }
}

/// The values of [`Kind::Protocols`].
const CLASSIC_PROTOCOL: i64 = 0;
/// Both protocols.
pub(super) const CONSUMER_PROTOCOL: i64 = 1;

/// Parses a list of group protocols. It must include `classic`, as in Kafka.
fn protocols(text: &str) -> Option<i64> {
    let mut names: Vec<String> = text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["classic"] => Some(CLASSIC_PROTOCOL),
        ["classic", "consumer"] => Some(CONSUMER_PROTOCOL),
        _ => None,
    }
}
