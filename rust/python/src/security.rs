//! TLS files, and throw-away certificates for tests.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use pyo3::{exceptions::PyValueError, prelude::*};
use rota_security::{
    acl::{Binding, read_lines},
    authority::{Authority as Issuer, NotIssued},
    pem::Source,
    random,
    sasl::{
        Mechanism, Sasl,
        scram::{Credential, Hash, ITERATIONS_MIN, SALT_BYTES},
        users::{Users, is_name},
    },
    tls::{ClientAuth, TlsFiles},
    token::{
        Verifier,
        issuer::{Issuer as TokenSigner, NoRandomBytes},
        keys::Keys,
    },
};

use crate::errors;

fn not_issued(error: NotIssued) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Converts chain, key, CAs of clients and client authentication. Each is PEM text or a path.
pub fn tls_files((chain, key, client_ca, client_auth): (String, String, Option<String>, String)) -> PyResult<TlsFiles> {
    let known = ClientAuth::NAMES.iter().find(|(name, _)| *name == client_auth);
    let (_, client_auth) = known.ok_or_else(|| {
        PyValueError::new_err(format!("client_auth is {client_auth:?}: give \"none\", \"requested\" or \"required\""))
    })?;
    Ok(TlsFiles {
        chain: Source::given_as("cert", chain),
        key: Source::given_as("key", key),
        client_ca: client_ca.map(|ca| Source::given_as("client_ca", ca)),
        client_auth: *client_auth,
    })
}

/// Checks chain, key, CAs of clients and client authentication. Raises `ValueError` with what is wrong.
#[pyfunction]
#[pyo3(signature = (chain, key, client_ca, client_auth))]
fn check_tls(chain: String, key: String, client_ca: Option<String>, client_auth: String) -> PyResult<()> {
    let files = tls_files((chain, key, client_ca, client_auth))?;
    files.load().map(drop).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Names of mechanisms, the path of a users file, and passwords by user name.
pub type SaslArguments = (Vec<String>, Option<PathBuf>, BTreeMap<String, String>);

/// Converts the names of mechanisms, the path of a users file, and names with passwords.
pub fn sasl((mechanisms, file, passwords): SaslArguments) -> PyResult<Sasl> {
    let wrong = PyValueError::new_err::<String>;
    let mut enabled = Vec::new();
    for (name, mechanism) in Mechanism::NAMES {
        if mechanisms.iter().any(|given| given == name) {
            enabled.push(mechanism);
        }
    }
    if let Some(unknown) = mechanisms.iter().find(|name| Mechanism::named(name).is_none()) {
        let known = Mechanism::NAMES.map(|(name, _)| name).join(", ");
        return Err(wrong(format!("the server has no SASL mechanism `{unknown}`: give one of {known}")));
    }
    let secret = random::bytes().ok_or_else(no_random_bytes)?;
    let mut users = match file {
        None => Users::new(secret),
        Some(path) => Users::of_file(&path, secret).map_err(|error| wrong(error.to_string()))?,
    };
    add(&mut users, passwords)?;
    Ok(Sasl { mechanisms: enabled, users: Arc::new(users), tokens: Verifier::default() })
}

fn add(users: &mut Users, passwords: BTreeMap<String, String>) -> PyResult<()> {
    for (name, password) in passwords {
        for hash in Hash::ALL {
            users.add(&name, credential_of(&name, &password, hash)?);
        }
    }
    Ok(())
}

/// Converts passwords by user name.
pub fn users(passwords: BTreeMap<String, String>) -> PyResult<Users> {
    let mut users = Users::new(random::bytes().ok_or_else(no_random_bytes)?);
    add(&mut users, passwords)?;
    Ok(users)
}

/// Converts ACLs, a line each. Empty lines and comments are skipped.
pub fn bindings(lines: &[String]) -> PyResult<Vec<Binding>> {
    read_lines(&lines.join("\n")).map_err(|(line, error)| PyValueError::new_err(format!("ACLs, line {line}: {error}")))
}

fn no_random_bytes() -> PyErr {
    errors::ServerError::new_err("the system has no random bytes")
}

fn credential_of(name: &str, password: &str, hash: Hash) -> PyResult<Credential> {
    if !is_name(name) {
        return Err(PyValueError::new_err(format!(
            "the user name is {name:?}: give printable ASCII characters without blanks, not beginning with #"
        )));
    }
    if password.is_empty() {
        return Err(PyValueError::new_err(format!("the password of {name} is empty")));
    }
    let salt: [u8; SALT_BYTES] = random::bytes().ok_or_else(no_random_bytes)?;
    Ok(Credential::of(hash, password, salt.to_vec(), ITERATIONS_MIN))
}

/// Returns the lines of a users file for this user.
#[pyfunction]
fn user_lines(name: &str, password: &str) -> PyResult<Vec<String>> {
    let line = |hash| {
        let credential = credential_of(name, password, hash)?;
        Ok(format!("{name} {} {}", Mechanism::Scram(hash).name(), credential.text()))
    };
    Hash::ALL.into_iter().map(line).collect()
}

/// A throw-away certificate authority.
#[pyclass(frozen, module = "rota._rota")]
struct Authority {
    issuer: Issuer,
}

#[pymethods]
impl Authority {
    /// Creates an authority with a new key.
    #[new]
    fn new() -> PyResult<Authority> {
        Ok(Authority { issuer: Issuer::new().map_err(not_issued)? })
    }

    /// The authority's own certificate in PEM.
    #[getter]
    fn certificate(&self) -> String {
        self.issuer.certificate()
    }

    /// Issues a certificate for these hosts. Returns it, with that of the authority, and its key, both in PEM.
    fn issue(&self, hosts: Vec<String>, common_name: &str, expired: bool) -> PyResult<(String, String)> {
        let issued = self.issuer.issue(&hosts, common_name, expired).map_err(not_issued)?;
        Ok((issued.certificate, issued.key))
    }
}

/// Reads a JSON web key set.
pub fn keys(text: &str) -> PyResult<Keys> {
    Keys::of_text(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A throw-away issuer of tokens.
#[pyclass(frozen, module = "rota._rota")]
struct TokenIssuer {
    signer: RwLock<TokenSigner>,
}

fn no_signer(_: NoRandomBytes) -> PyErr {
    no_random_bytes()
}

#[pymethods]
impl TokenIssuer {
    /// Creates an issuer with a new key.
    #[new]
    fn new(key_id: &str) -> PyResult<TokenIssuer> {
        Ok(TokenIssuer { signer: RwLock::new(TokenSigner::new(key_id).map_err(no_signer)?) })
    }

    /// The public key, as an element of a JSON web key set.
    #[getter]
    fn key(&self) -> String {
        self.signer.read().unwrap_or_else(PoisonError::into_inner).key()
    }

    /// Signs claims, which are JSON.
    fn sign(&self, claims: &str) -> PyResult<String> {
        self.signer.read().unwrap_or_else(PoisonError::into_inner).sign(claims).map_err(no_signer)
    }

    /// Replaces the key by a new one.
    fn rotate(&self, key_id: &str) -> PyResult<()> {
        let new = TokenSigner::new(key_id).map_err(no_signer)?;
        *self.signer.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

/// Checks the text of a file of ACLs. Returns its lines.
#[pyfunction]
fn acl_lines(text: &str) -> PyResult<Vec<String>> {
    let bindings = read_lines(text).map_err(|(line, error)| PyValueError::new_err(format!("line {line}: {error}")))?;
    Ok(bindings.iter().map(Binding::line).collect())
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(user_lines, module)?)?;
    module.add_function(wrap_pyfunction!(check_tls, module)?)?;
    module.add_function(wrap_pyfunction!(acl_lines, module)?)?;
    module.add_class::<TokenIssuer>()?;
    module.add_class::<Authority>()
}
