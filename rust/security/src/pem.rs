//! Reads certificates and private keys in PEM.

use std::{fmt, fs, path::PathBuf};

use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error as PemProblem, PemObject},
};

/// Maximum size of a file in bytes. Chains and bundles of CAs are far smaller.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The first line of an encrypted key in PKCS#8.
const ENCRYPTED_PKCS8: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
/// A header of an encrypted key in the older form of OpenSSL.
const ENCRYPTED_HEADER: &str = "Proc-Type: 4,ENCRYPTED";
/// The first bytes of a Java keystore, and of its variant JCEKS.
const JKS: [&[u8]; 2] = [b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"];
/// The first byte of a DER sequence, which PKCS#12 files and DER certificates begin with.
const DER_SEQUENCE: u8 = 0x30;

/// Where PEM text comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The text itself, given as the setting of this name.
    Inline(&'static str, String),
}

impl Source {
    /// Returns the text itself if `given` is PEM, and the file of this name otherwise. Tools write other lines before the
    /// first object, such as `Bag Attributes`.
    pub fn given_as(name: &'static str, given: String) -> Source {
        if given.contains("-----BEGIN") { Source::Inline(name, given) } else { Source::File(given.into()) }
    }

    fn read(&self) -> Result<Vec<u8>, PemError> {
        let path = match self {
            Source::Inline(_, text) => return Ok(text.clone().into_bytes()),
            Source::File(path) => path,
        };
        let unreadable = |error: std::io::Error| self.error(Wrong::Unreadable(error.to_string()));
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(self.error(Wrong::TooLarge));
        }
        fs::read(path).map_err(unreadable)
    }

    fn error(&self, wrong: Wrong) -> PemError {
        PemError { source: self.to_string(), wrong }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A text that was given for a path may be a private key.
            Source::File(path) if path.to_string_lossy().contains('\n') => write!(out, "a path of several lines"),
            Source::File(path) => write!(out, "{}", path.display()),
            Source::Inline(name, _) => write!(out, "{name}"),
        }
    }
}

/// Without the text, which may be a private key.
impl fmt::Debug for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Source({self})")
    }
}

/// What is wrong with a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The system's reason.
    Unreadable(String),
    /// It exceeds [`FILE_BYTES_MAX`].
    TooLarge,
    /// A keystore of Java.
    Jks,
    /// PKCS#12, or a certificate or key in DER.
    Binary,
    /// The key is encrypted.
    Encrypted,
    /// It has no certificate.
    NoCertificate,
    /// It has no private key.
    NoKey,
    /// The PEM reader's reason.
    Malformed(String),
}

/// A file, or a text in a setting, without what is needed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemError {
    /// The path, or the name of the setting.
    pub source: String,
    /// What is wrong.
    pub wrong: Wrong,
}

impl fmt::Display for PemError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PemError { source, wrong } = self;
        match wrong {
            Wrong::Unreadable(reason) => write!(out, "cannot read `{source}`: {reason}"),
            Wrong::TooLarge => write!(out, "`{source}` is larger than 16 MiB: give a PEM file"),
            Wrong::Jks => write!(
                out,
                "`{source}` is a Java keystore, expected PEM; convert it: keytool -importkeystore -srckeystore \
                 {source} -destkeystore store.p12 -deststoretype PKCS12, then openssl pkcs12 -in store.p12 -nodes \
                 -out store.pem"
            ),
            Wrong::Binary => write!(
                out,
                "`{source}` is a binary file, expected PEM; convert PKCS#12: openssl pkcs12 -in {source} -nodes -out \
                 store.pem; convert a DER certificate: openssl x509 -inform der -in {source} -out certificate.pem"
            ),
            Wrong::Encrypted => write!(
                out,
                "the private key in `{source}` is encrypted; decrypt it, and protect the file by its permissions: \
                 openssl pkey -in {source} -out key.pem"
            ),
            Wrong::NoCertificate => write!(
                out,
                "`{source}` has no certificate: give a PEM file with -----BEGIN CERTIFICATE-----, the server's \
                 certificate first"
            ),
            Wrong::NoKey => {
                write!(out, "`{source}` has no private key: give a PEM file with -----BEGIN PRIVATE KEY-----")
            }
            Wrong::Malformed(reason) => write!(out, "`{source}` is not valid PEM: {reason}"),
        }
    }
}

impl std::error::Error for PemError {}

/// Returns the reason if bytes are not PEM text at all.
fn wrong_format(bytes: &[u8]) -> Option<Wrong> {
    if JKS.iter().any(|magic| bytes.starts_with(magic)) {
        return Some(Wrong::Jks);
    }
    (bytes.first() == Some(&DER_SEQUENCE)).then_some(Wrong::Binary)
}

fn malformed(problem: &PemProblem) -> Wrong {
    // The reader's texts repeat lines of the file, which may be those of a key.
    Wrong::Malformed(match problem {
        PemProblem::MissingSectionEnd { .. } => "a section has no END line".to_owned(),
        PemProblem::IllegalSectionStart { .. } => "a BEGIN line is malformed".to_owned(),
        PemProblem::Base64Decode(_) => "a section is not base64".to_owned(),
        _ => "it cannot be parsed".to_owned(),
    })
}

/// Reads all certificates of a source: at least one.
pub fn certificates(source: &Source) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let bytes = source.read()?;
    if let Some(wrong) = wrong_format(&bytes) {
        return Err(source.error(wrong));
    }
    let found: Result<Vec<_>, PemProblem> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(source.error(Wrong::NoCertificate)),
        Ok(found) => Ok(found),
        Err(problem) => Err(source.error(malformed(&problem))),
    }
}

/// Reads the first private key of a source.
pub fn private_key(source: &Source) -> Result<PrivateKeyDer<'static>, PemError> {
    let bytes = source.read()?;
    if let Some(wrong) = wrong_format(&bytes) {
        return Err(source.error(wrong));
    }
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    if has(ENCRYPTED_PKCS8) || has(ENCRYPTED_HEADER) {
        return Err(source.error(Wrong::Encrypted));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|problem| match problem {
        PemProblem::NoItemsFound => source.error(Wrong::NoKey),
        problem => source.error(malformed(&problem)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;

    fn inline(text: &str) -> Source {
        Source::Inline("ssl.keystore.key", text.to_owned())
    }

    #[test]
    fn pem_text_is_taken_as_it_is_and_anything_else_is_a_path() {
        assert_eq!(Source::given_as("key", "server.pem".to_owned()), Source::File("server.pem".into()));
        let text = "\n-----BEGIN CERTIFICATE-----\n".to_owned();
        assert_eq!(Source::given_as("key", text.clone()), Source::Inline("key", text));
        let exported = "Bag Attributes\n    friendlyName: rota\n-----BEGIN PRIVATE KEY-----\nsecret\n".to_owned();
        assert_eq!(Source::given_as("key", exported.clone()), Source::Inline("key", exported.clone()));
        let error = certificates(&Source::File(exported.into())).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_file_with_key_and_chain_has_both() {
        let issued = Authority::new().unwrap().issue(&["localhost".to_owned()], "rota", false).unwrap();
        let both = inline(&format!("{}{}", issued.key, issued.certificate));
        assert_eq!(certificates(&both).unwrap().len(), 2);
        private_key(&both).unwrap();
    }

    #[test]
    fn each_wrong_source_is_refused_with_its_reason() {
        let issued = Authority::new().unwrap().issue(&["localhost".to_owned()], "rota", false).unwrap();
        let cases: [(Vec<u8>, Wrong); 5] = [
            (b"\xfe\xed\xfe\xed\0\0\0\x02".to_vec(), Wrong::Jks),
            (b"\x30\x82\x0a\x12".to_vec(), Wrong::Binary),
            (b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n".to_vec(), Wrong::Encrypted),
            (b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n".to_vec(), Wrong::Encrypted),
            (issued.certificate.into_bytes(), Wrong::NoKey),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        for (bytes, wrong) in cases {
            fs::write(&path, bytes).unwrap();
            let error = private_key(&Source::File(path.clone())).unwrap_err();
            assert_eq!(error.wrong, wrong);
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(certificates(&inline(&issued.key)).unwrap_err().wrong, Wrong::NoCertificate);
        let missing = private_key(&Source::File(dir.path().join("none.pem"))).unwrap_err();
        assert!(matches!(missing.wrong, Wrong::Unreadable(_)), "{missing}");
    }

    #[test]
    fn an_error_about_a_key_repeats_nothing_of_it() {
        let secret = "c2VjcmV0LWtleS1ieXRlcw!";
        let broken = inline(&format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n"));
        let error = private_key(&broken).unwrap_err();
        assert!(matches!(error.wrong, Wrong::Malformed(_)), "{error}");
        assert!(!format!("{error} {error:?} {broken:?}").contains("c2Vj"));
    }
}
