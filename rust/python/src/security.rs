//! TLS files, and throw-away certificates for tests.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

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

/// Names of mechanisms, the path of a users file, and passwords by user name.
pub type SaslArguments = (Vec<String>, Option<PathBuf>, BTreeMap<String, String>);

/// Converts the names of mechanisms, the path of a users file, and names with passwords.
pub fn sasl((mechanisms, file, passwords): SaslArguments) -> PyResult<Arc<Sasl>> {
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
    for (name, password) in passwords {
        for hash in Hash::ALL {
            users.add(&name, credential_of(&name, &password, hash)?);
        }
    }
    Ok(Arc::new(Sasl { mechanisms: enabled, users }))
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

/// Checks the text of a file of ACLs. Returns its lines.
#[pyfunction]
fn acl_lines(text: &str) -> PyResult<Vec<String>> {
    let bindings = read_lines(text).map_err(|(line, error)| PyValueError::new_err(format!("line {line}: {error}")))?;
    Ok(bindings.iter().map(Binding::line).collect())
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(user_lines, module)?)?;
    module.add_function(wrap_pyfunction!(acl_lines, module)?)?;
    module.add_class::<Authority>()
}
