//! Where an engine is: `postgres://user:password@h1:5432,h2:5432/database?schema=rota`.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use rota_cluster::{Endpoint, without_password};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// A role of the database.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Password, if the database asks for one.
    pub password: Option<String>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name)
    }
}

/// How an engine is reached.
#[derive(Clone, Debug)]
pub struct Config {
    /// The hosts. The one that takes writes is used.
    pub endpoints: Vec<Endpoint>,
    /// The database.
    pub database: String,
    /// Has all tables of the cluster. Two clusters have two schemas.
    pub schema: String,
    /// Who connects.
    pub user: Option<User>,
    /// TLS, if the connections are encrypted.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// A request without an answer has an unknown outcome after this time.
    pub timeout: Duration,
    /// The small keys are read so often, also if the database notifies of no change.
    pub poll: Duration,
    /// Connections for appends.
    pub lanes: usize,
}

const PORT: u16 = 5432;
const SCHEMA: &str = "rota";
/// Names of PostgreSQL have at most 63 bytes.
const SCHEMA_BYTES_MAX: usize = 48;
/// These encrypt without a full check of the certificate, or only if the host likes: another host can listen.
const WEAK: [&str; 3] = ["allow", "prefer", "verify-ca"];

/// A text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected postgres://USER:PASSWORD@HOST:PORT,.../DATABASE?schema=NAME", self.0)
    }
}

impl std::error::Error for BadUrl {}

/// Whether a URL names a PostgreSQL.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

impl Config {
    /// Reads a URL. With `tls` connections are encrypted, and the hosts' certificates are checked.
    pub fn parse(url: &str, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Config, BadUrl> {
        let shown = without_password(url);
        let bad = |why: &str| BadUrl(format!("engine {shown:?}: {why}"));
        if !is_postgres(url) {
            return Err(bad("the scheme is neither postgres nor postgresql"));
        }
        let (address, options) = url.split_once('?').unwrap_or((url, ""));
        let mut schema = SCHEMA;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("schema", name)) if is_name(name) => schema = name,
                Some(("schema", _)) => {
                    return Err(bad("a schema is a name of a-z, 0-9 and _ that begins with a letter"));
                }
                Some(("sslmode", "disable")) if tls.is_none() => {}
                Some(("sslmode", "disable")) => return Err(bad("CA certificates are given, and sslmode is disable")),
                Some(("sslmode", "require" | "verify-full")) if tls.is_some() => {}
                Some(("sslmode", "require" | "verify-full")) => return Err(bad("no CA certificates for sslmode")),
                Some(("sslmode", weak)) if WEAK.contains(&weak) => {
                    return Err(bad("sslmode is disable, or verify-full with CA certificates"));
                }
                _ => return Err(bad("the only options are schema and sslmode")),
            }
        }
        // The parser's own words may quote the password.
        let parsed = tokio_postgres::Config::from_str(address).map_err(|_| bad("not a URL"))?;
        let endpoints = endpoints(&parsed).ok_or_else(|| bad("a host is not HOST:PORT"))?;
        let database = parsed.get_dbname().filter(|name| !name.is_empty()).ok_or_else(|| bad("no database"))?;
        let password = parsed.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
        let user = parsed.get_user().map(|name| User { name: name.to_owned(), password });
        Ok(Config {
            endpoints,
            database: database.to_owned(),
            schema: schema.to_owned(),
            user,
            tls,
            timeout: Duration::from_secs(1),
            poll: Duration::from_secs(1),
            lanes: 2,
        })
    }

    /// The engine for operators, without user and password.
    pub fn name(&self) -> String {
        let hosts: Vec<String> = self.endpoints.iter().map(Endpoint::to_string).collect();
        let schema = if self.schema == SCHEMA { String::new() } else { format!("?schema={}", self.schema) };
        format!("postgres://{}/{}{schema}", hosts.join(","), self.database)
    }

    /// What a connection to a host needs: to any, or to one that takes writes.
    pub(crate) fn client(&self, endpoint: &Endpoint, attributes: TargetSessionAttrs) -> tokio_postgres::Config {
        let mut client = tokio_postgres::Config::new();
        client.host(&endpoint.host).port(endpoint.port);
        if let Some(user) = &self.user {
            client.user(&user.name);
            if let Some(password) = &user.password {
                client.password(password);
            }
        }
        let each = self.timeout / (self.endpoints.len() as u32).max(1);
        client
            .dbname(&self.database)
            .application_name("rota")
            .target_session_attrs(attributes)
            // A host that does not answer leaves time for the next one.
            .connect_timeout(each)
            .tcp_user_timeout(self.timeout * 5)
            .keepalives_idle(self.timeout * 5)
            .keepalives_interval(self.timeout)
            .keepalives_retries(3)
            .ssl_mode(if self.tls.is_some() { SslMode::Require } else { SslMode::Disable });
        client
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.len() <= SCHEMA_BYTES_MAX
        && text.bytes().all(is_part)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
}

fn endpoints(parsed: &tokio_postgres::Config) -> Option<Vec<Endpoint>> {
    let ports = parsed.get_ports();
    let endpoint = |(index, host): (usize, &Host)| match host {
        Host::Tcp(host) if !host.is_empty() => {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some(Endpoint { host, port })
        }
        _ => None,
    };
    let found = parsed.get_hosts().iter().enumerate().map(endpoint).collect::<Option<Vec<_>>>()?;
    (!found.is_empty()).then_some(found)
}
