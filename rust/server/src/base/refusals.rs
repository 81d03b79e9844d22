//! Connections that were closed because of their security: the reasons, as lines for the operator. Lines of one reason
//! are at least [`LINE_INTERVAL`] apart, so that a client that reconnects in a loop does not fill a log.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rota_security::token::BadToken;
use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// Minimum time between two lines of one reason.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum lines that wait to be read; then the oldest are dropped.
const LINES_MAX: usize = 32;

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The client sent something else than TLS to a TLS listener.
    PlaintextOnTls,
    /// The client began a TLS handshake on a plaintext listener.
    TlsOnPlaintext,
    /// The handshake took too long.
    HandshakeTimedOut,
    /// The client has no certificate, and must have one.
    NoClientCertificate,
    /// The client's certificate is not from a CA that the server trusts.
    UnknownClientCa,
    /// No rule makes a name of the subject of the client's certificate.
    NoMappingRule,
    /// The client's certificate has expired.
    ClientCertificateExpired,
    /// The client refuses the server's certificate because of its CA.
    CaRefusedByClient,
    /// The client refuses the server's certificate, because of its names or dates.
    CertificateRefusedByClient,
    /// Client and server have no TLS version, cipher or key exchange in common.
    NothingInCommon,
    /// The client's token is refused.
    BadToken(BadToken),
    /// User name or password are wrong, or the mechanism is not enabled.
    NotAuthenticated,
    /// The client sent a request without authentication.
    NoSasl,
    /// The client sent another request while it authenticated again.
    ReauthenticationInterrupted,
    /// The client did not authenticate again before its session was over.
    SessionExpired,
    /// The client did not authenticate in time.
    AuthenticationTimedOut,
    /// The bytes are not a TLS handshake as they should be.
    BadHandshake,
    /// The client closed the connection during the handshake, as health checks of a port do. Not an error.
    ClosedByClient,
}

impl Refusal {
    /// Returns the reason of an error during a handshake.
    pub fn of_handshake(error: &io::Error) -> Refusal {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
        tls.map_or(Refusal::ClosedByClient, Refusal::of_tls)
    }

    /// Returns the reason of a TLS error.
    pub fn of_tls(error: &TlsError) -> Refusal {
        match error {
            TlsError::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => Refusal::PlaintextOnTls,
            TlsError::NoCertificatesPresented => Refusal::NoClientCertificate,
            TlsError::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ) => Refusal::ClientCertificateExpired,
            TlsError::InvalidCertificate(_) => Refusal::UnknownClientCa,
            TlsError::AlertReceived(AlertDescription::UnknownCA) => Refusal::CaRefusedByClient,
            TlsError::AlertReceived(
                AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate,
            ) => Refusal::CertificateRefusedByClient,
            TlsError::AlertReceived(AlertDescription::CloseNotify | AlertDescription::UserCanceled) => {
                Refusal::ClosedByClient
            }
            TlsError::PeerIncompatible(_)
            | TlsError::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure) => {
                Refusal::NothingInCommon
            }
            _ => Refusal::BadHandshake,
        }
    }

    /// Returns what the client did, and what to do.
    fn text(self) -> &'static str {
        match self {
            Refusal::PlaintextOnTls => {
                "sent no TLS handshake to a TLS listener: set security.protocol=SSL on the client, or use a plaintext \
                 listener"
            }
            Refusal::TlsOnPlaintext => {
                "sent a TLS handshake to a listener without TLS: set security.protocol=PLAINTEXT (with SASL \
                 SASL_PLAINTEXT) on the client, or give the server a certificate (--tls-cert, --tls-key)"
            }
            Refusal::HandshakeTimedOut => "did not complete the TLS handshake within 10 s",
            Refusal::NoClientCertificate => {
                "sent no certificate, and the listener requires one: give the client a certificate and its key \
                 (ssl.keystore.location, ssl.certificate.location)"
            }
            Refusal::UnknownClientCa => {
                "sent a certificate that cannot be verified: sign it by a CA in --tls-client-ca (ssl.truststore.location)"
            }
            Refusal::NoMappingRule => {
                "sent a certificate whose subject no rule of ssl.principal.mapping.rules matches: add DEFAULT to the rules"
            }
            Refusal::ClientCertificateExpired => "sent a certificate that is not valid today: renew it",
            Refusal::CaRefusedByClient => {
                "does not trust the CA of the server's certificate: give the client that CA (ssl.truststore.location, \
                 ssl.ca.location)"
            }
            Refusal::CertificateRefusedByClient => {
                "refused the server's certificate: check that it has not expired, that the client has its CA, and that \
                 it names the host that the client connects to"
            }
            Refusal::NothingInCommon => {
                "has no TLS version or cipher in common with the server, which has TLS 1.2 and 1.3"
            }
            Refusal::NotAuthenticated => {
                "failed to authenticate: check user name, password and sasl.mechanism of the client (`rota user list`)"
            }
            Refusal::NoSasl => {
                "sent a request without authentication to a listener with SASL: set security.protocol=SASL_SSL (without \
                 TLS SASL_PLAINTEXT), user name and password on the client"
            }
            Refusal::ReauthenticationInterrupted => {
                "sent another request in the middle of a re-authentication (KIP-368), which Kafka refuses too: the client \
                 connects anew"
            }
            Refusal::SessionExpired => {
                "did not authenticate again within connections.max.reauth.ms or the time of its token: use a client that \
                 does (KIP-368), or give it more time"
            }
            Refusal::AuthenticationTimedOut => "did not authenticate within 10 s",
            Refusal::BadToken(reason) => reason.text(),
            Refusal::BadHandshake => "sent a TLS handshake that is not valid",
            Refusal::ClosedByClient => "closed the connection during the TLS handshake",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Refusal::BadToken(_) = self {
            out.write_str("sent a token ")?;
        }
        out.write_str(self.text())
    }
}

#[derive(Debug)]
struct Shown {
    at: Instant,
    /// Refusals since then without a line.
    silent: u64,
}

#[derive(Debug, Default)]
struct Lines {
    shown: BTreeMap<Refusal, Shown>,
    waiting: VecDeque<String>,
}

/// The refused connections of a server.
#[derive(Debug, Default)]
pub struct Refusals {
    lines: Mutex<Lines>,
}

impl Refusals {
    /// Records that a connection from the host `peer` was closed.
    pub fn record(&self, refusal: Refusal, peer: &str) {
        self.record_at(refusal, peer, Instant::now());
    }

    fn record_at(&self, refusal: Refusal, peer: &str, now: Instant) {
        if refusal == Refusal::ClosedByClient {
            return;
        }
        let lines = &mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = match lines.shown.get_mut(&refusal) {
            Some(shown) if now.duration_since(shown.at) < LINE_INTERVAL => {
                shown.silent += 1;
                return;
            }
            shown => shown.map_or(0, |shown| shown.silent),
        };
        lines.shown.insert(refusal, Shown { at: now, silent: 0 });
        let more = if silent == 0 { String::new() } else { format!("; {silent} more since the last such line") };
        if lines.waiting.len() == LINES_MAX {
            lines.waiting.pop_front();
        }
        lines.waiting.push_back(format!("{peer} {refusal}{more}"));
    }

    /// Takes the lines since the last call, oldest first.
    pub fn take_lines(&self) -> Vec<String> {
        let lines = &mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.waiting.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "127.0.0.1";

    #[test]
    fn lines_of_one_reason_are_apart_and_count_what_they_leave_out() {
        let refusals = Refusals::default();
        let start = Instant::now();
        for seconds in [0, 1, 9, 10] {
            refusals.record_at(Refusal::PlaintextOnTls, PEER, start + Duration::from_secs(seconds));
        }
        refusals.record_at(Refusal::BadHandshake, PEER, start);
        let lines = refusals.take_lines();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("127.0.0.1 sent no TLS handshake"), "{lines:?}");
        assert!(lines[1].ends_with("; 2 more since the last such line"), "{lines:?}");
        assert_eq!(refusals.take_lines(), Vec::<String>::new());
    }

    #[test]
    fn a_probe_of_the_port_leaves_no_line() {
        let refusals = Refusals::default();
        refusals.record(Refusal::of_handshake(&io::ErrorKind::UnexpectedEof.into()), PEER);
        assert_eq!(refusals.take_lines(), Vec::<String>::new());
    }

    #[test]
    fn the_lines_that_wait_are_bounded() {
        let refusals = Refusals::default();
        let start = Instant::now();
        for at in 0..100 {
            refusals.record_at(Refusal::BadHandshake, PEER, start + at * LINE_INTERVAL);
        }
        assert_eq!(refusals.take_lines().len(), LINES_MAX);
    }
}
