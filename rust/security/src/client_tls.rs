//! TLS to a server: its certificate is checked, and rota may have a certificate of its own.

use std::sync::Arc;

use rustls::{ClientConfig, Error as TlsError, RootCertStore, crypto::ring};

use crate::{
    pem::{self, Source},
    tls::BadTls,
};

/// Where the CAs of the servers are, and rota's own certificate and key if they ask for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// Certificates of the CAs.
    pub ca: Source,
    /// Certificate, followed by intermediate ones, and its private key.
    pub identity: Option<(Source, Source)>,
}

impl ClientTlsFiles {
    /// Reads the files. `protocols` are those of ALPN.
    pub fn load(&self, protocols: &[&str]) -> Result<Arc<ClientConfig>, BadTls> {
        let unusable = |source: &Source, error: TlsError| BadTls::Unusable {
            source: source.to_string(),
            reason: error.to_string(),
        };
        let mut roots = RootCertStore::empty();
        for certificate in pem::certificates(&self.ca)? {
            roots.add(certificate).map_err(|error| unusable(&self.ca, error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| unusable(&self.ca, error))?;
        let builder = builder.with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let (certificates, private_key) = (pem::certificates(chain)?, pem::private_key(key)?);
                builder.with_client_auth_cert(certificates, private_key).map_err(|error| unusable(key, error))?
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }
}
