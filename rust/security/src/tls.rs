//! The TLS configuration of a listener: TLS 1.2 and 1.3, with session resumption.

use std::{fmt, sync::Arc};

use rustls::{
    Error as TlsError, InconsistentKeys, RootCertStore, ServerConfig,
    client::verify_server_name,
    crypto::ring,
    server::{ParsedCertificate, WebPkiClientVerifier},
};
use rustls_pki_types::{CertificateDer, ServerName};

use crate::pem::{self, PemError, Source};

/// Whether clients must have certificates, as in `ssl.client.auth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for one.
    #[default]
    None,
    /// They may have one, which must be valid then.
    Requested,
    /// They must have one.
    Required,
}

impl ClientAuth {
    /// The values with Kafka's names.
    pub const NAMES: [(&'static str, ClientAuth); 3] =
        [("none", ClientAuth::None), ("requested", ClientAuth::Requested), ("required", ClientAuth::Required)];
}

/// Where the key, the certificates and the CAs of clients are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by intermediate ones.
    pub chain: Source,
    /// The certificate's private key; may be the same file.
    pub key: Source,
    /// The CAs of clients' certificates.
    pub client_ca: Option<Source>,
    /// Whether clients must have certificates.
    pub client_auth: ClientAuth,
}

/// Why a TLS configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTls {
    /// A file is wrong.
    Pem(PemError),
    /// The key belongs to another certificate.
    KeyMismatch {
        /// The source of the key.
        key: String,
        /// The source of the certificate.
        chain: String,
    },
    /// A file has a certificate or key that cannot be used.
    Unusable {
        /// The source.
        source: String,
        /// The reason.
        reason: String,
    },
    /// Client certificates cannot be verified without CAs.
    NoClientCa,
    /// The combination of settings is wrong: what to do.
    Settings(String),
}

impl fmt::Display for BadTls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadTls::Pem(error) => error.fmt(out),
            BadTls::KeyMismatch { key, chain } => write!(
                out,
                "the private key in `{key}` does not belong to the first certificate in `{chain}`: give the key of \
                 that certificate, and put the server's certificate before those of its CAs"
            ),
            BadTls::Unusable { source, reason } => write!(out, "`{source}` cannot be used: {reason}"),
            BadTls::NoClientCa => write!(
                out,
                "client certificates are wanted, but there is no CA to verify them: give --tls-client-ca or \
                 `ssl.truststore.location`"
            ),
            BadTls::Settings(reason) => write!(out, "{reason}"),
        }
    }
}

impl std::error::Error for BadTls {}

impl From<PemError> for BadTls {
    fn from(error: PemError) -> BadTls {
        BadTls::Pem(error)
    }
}

/// A loaded configuration.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The configuration of connections.
    pub config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
}

impl Tls {
    /// Whether the server's certificate is valid for a host name or IP address.
    pub fn names(&self, host: &str) -> bool {
        let name = ServerName::try_from(host);
        let certificate = ParsedCertificate::try_from(&self.leaf);
        matches!((name, certificate), (Ok(name), Ok(certificate)) if verify_server_name(&certificate, &name).is_ok())
    }
}

impl TlsFiles {
    /// Reads the files.
    pub fn load(&self) -> Result<Tls, BadTls> {
        let chain = pem::certificates(&self.chain)?;
        let key = pem::private_key(&self.key)?;
        let unusable = |source: &Source, error: TlsError| BadTls::Unusable {
            source: source.to_string(),
            reason: error.to_string(),
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| unusable(&self.chain, error))?;
        let roots = match (self.client_auth, &self.client_ca) {
            (ClientAuth::None, _) => None,
            (_, None) => return Err(BadTls::NoClientCa),
            (_, Some(source)) => Some((source, client_roots(source)?)),
        };
        let builder = match roots {
            None => builder.with_no_client_auth(),
            Some((source, roots)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let optional = self.client_auth == ClientAuth::Requested;
                let verifier = if optional { verifier.allow_unauthenticated() } else { verifier };
                let built = verifier.build();
                builder.with_client_cert_verifier(
                    built.map_err(|error| unusable(source, TlsError::General(error.to_string())))?,
                )
            }
        };
        let leaf = chain[0].clone();
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                BadTls::KeyMismatch { key: self.key.to_string(), chain: self.chain.to_string() }
            }
            error @ TlsError::InvalidCertificate(_) => unusable(&self.chain, error),
            error => unusable(&self.key, error),
        })?;
        config.ticketer = ring::Ticketer::new().map_err(|error| unusable(&self.key, error))?;
        Ok(Tls { config: Arc::new(config), leaf })
    }
}

fn client_roots(source: &Source) -> Result<RootCertStore, BadTls> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(source)? {
        roots
            .add(certificate)
            .map_err(|error| BadTls::Unusable { source: source.to_string(), reason: error.to_string() })?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Authority, Issued};

    fn inline(text: &str) -> Source {
        Source::Inline("ssl.keystore.key", text.to_owned())
    }

    fn files(certificate: &Issued, key: &Issued) -> TlsFiles {
        let (chain, key) = (inline(&certificate.certificate), inline(&key.key));
        TlsFiles { chain, key, client_ca: None, client_auth: ClientAuth::None }
    }

    fn issued() -> Issued {
        let hosts = ["kafka.test".to_owned(), "127.0.0.1".to_owned()];
        Authority::new().unwrap().issue(&hosts, "rota", false).unwrap()
    }

    #[test]
    fn a_certificate_names_its_hosts_and_no_others() {
        let issued = issued();
        let tls = files(&issued, &issued).load().unwrap();
        let names = ["kafka.test", "127.0.0.1", "kafka.test.", "other.test", "127.0.0.2", "", "::1"];
        assert_eq!(names.map(|name| tls.names(name)), [true, true, true, false, false, false, false]);
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let error = files(&issued(), &issued()).load().unwrap_err();
        assert!(matches!(error, BadTls::KeyMismatch { .. }), "{error}");
    }

    #[test]
    fn client_certificates_need_a_ca() {
        let issued = issued();
        for client_auth in [ClientAuth::Requested, ClientAuth::Required] {
            let wanted = TlsFiles { client_auth, ..files(&issued, &issued) };
            assert_eq!(wanted.load().unwrap_err(), BadTls::NoClientCa);
            let with_ca = TlsFiles { client_ca: Some(inline(&issued.certificate)), ..wanted };
            with_ca.load().unwrap();
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_or_key_are_refused_without_a_panic() {
        let issued = issued();
        let nonsense = |kind: &str| inline(&format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n"));
        let bad_chain = TlsFiles { chain: nonsense("CERTIFICATE"), ..files(&issued, &issued) };
        let bad_key = TlsFiles { key: nonsense("PRIVATE KEY"), ..files(&issued, &issued) };
        for bad in [bad_chain, bad_key] {
            assert!(matches!(bad.load().unwrap_err(), BadTls::Unusable { .. }), "{bad:?}");
        }
    }
}
