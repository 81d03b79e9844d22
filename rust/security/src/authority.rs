//! A throw-away certificate authority for tests: its key exists in memory only.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// A certificate authority whose key exists in memory only. Keys are ECDSA P-256.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, followed by that of the authority.
    pub certificate: String,
    /// The private key in PKCS#8, not encrypted.
    pub key: String,
}

/// Without the key.
impl fmt::Debug for Issued {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// The certificate cannot be issued: the reason, such as a host name that is not ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotIssued(pub String);

impl fmt::Display for NotIssued {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot issue the certificate: {}", self.0)
    }
}

impl std::error::Error for NotIssued {}

impl From<rcgen::Error> for NotIssued {
    fn from(error: rcgen::Error) -> NotIssued {
        NotIssued(error.to_string())
    }
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn new() -> Result<Authority, NotIssued> {
        let mut params = params(Vec::new(), "rota test CA", false)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Returns the authority's own certificate in PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for servers with these host names or IP addresses, and for clients.
    pub fn issue(&self, hosts: &[String], common_name: &str, expired: bool) -> Result<Issued, NotIssued> {
        let mut params = params(hosts.to_vec(), common_name, expired)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate: certificate.pem() + &self.issuer.pem(), key: key.serialize_pem() })
    }
}

fn params(hosts: Vec<String>, common_name: &str, expired: bool) -> Result<CertificateParams, NotIssued> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    let until = if expired { 2021 } else { 2120 };
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 1, 1));
    Ok(params)
}
