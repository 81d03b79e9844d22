//! Where an engine is: `etcd://user:password@h1:2379,h2:2379,h3:2379/prefix?compact=off&quota=BYTES`.

use std::{fmt, sync::Arc, time::Duration};

use rota_cluster::{Endpoint, without_password};

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name)
    }
}

/// How an engine is reached.
#[derive(Clone, Debug)]
pub struct Config {
    /// The members. One that does not answer is left for the next one.
    pub endpoints: Vec<Endpoint>,
    /// All keys begin with it. Two clusters have two prefixes.
    pub prefix: String,
    /// Who connects, if etcd has users.
    pub user: Option<User>,
    /// TLS, if the scheme is `etcds`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// A request without an answer has an unknown outcome after this time.
    pub timeout: Duration,
    /// A watch that shows nothing for this time is begun anew on another member.
    pub stall: Duration,
    /// Revisions older than this are forgotten, by the first node that beats. `None`: by etcd itself, or never.
    pub keep: Option<Duration>,
    /// Connections for appends.
    pub lanes: usize,
    /// The space that etcd was given, for versions before 3.6, which do not say it. 0: it is not known.
    pub quota_bytes: u64,
}

const PORT: u16 = 2379;
/// A watch that is slower than this begins anew, and so does a load.
const KEEP: Duration = Duration::from_mins(1);

/// A text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected etcd://HOST:PORT,HOST:PORT,.../PREFIX (etcds:// with TLS)", self.0)
    }
}

impl std::error::Error for BadUrl {}

impl Config {
    /// Reads a URL. With `etcds` the members' certificates are checked with `tls`.
    pub fn parse(url: &str, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Config, BadUrl> {
        let shown = without_password(url);
        let bad = |why: &str| BadUrl(format!("engine {shown:?}: {why}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("no scheme"))?;
        let tls = match (scheme, tls) {
            ("etcd", None) => None,
            ("etcds", Some(tls)) => Some(tls),
            ("etcds", None) => return Err(bad("no CA certificates for etcds")),
            ("etcd", Some(_)) => return Err(bad("TLS files are for etcds, and the scheme is etcd")),
            _ => return Err(bad("the scheme is neither etcd nor etcds")),
        };
        let (rest, options) = match rest.split_once('?') {
            None => (rest, Options::default()),
            Some((rest, options)) => (rest, Options::parse(options).map_err(bad)?),
        };
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() {
            return Err(bad("no prefix: clusters share an etcd by their prefixes"));
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(parse_user(user).ok_or_else(|| bad("the user has no password"))?), hosts),
            None => (None, authority),
        };
        let endpoints = hosts.split(',').map(parse_endpoint).collect::<Option<Vec<_>>>();
        let endpoints = endpoints.ok_or_else(|| bad("a member is not HOST:PORT"))?;
        Ok(Config {
            endpoints,
            prefix: format!("/{prefix}"),
            user,
            tls,
            timeout: Duration::from_secs(1),
            stall: Duration::from_secs(3),
            keep: (!options.is_compacted_by_others).then_some(KEEP),
            lanes: 2,
            quota_bytes: options.quota_bytes,
        })
    }

    /// For nodes with this TTL: a watch is begun anew long before it makes nodes that live look silent.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Config {
        Config { stall: self.stall.min(ttl / 2), ..self }
    }

    /// The engine for operators, without user and password.
    pub fn name(&self) -> String {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        let members: Vec<String> = self.endpoints.iter().map(Endpoint::to_string).collect();
        format!("{scheme}://{}{}", members.join(","), self.prefix)
    }
}

/// What follows the prefix after `?`.
#[derive(Default)]
struct Options {
    is_compacted_by_others: bool,
    quota_bytes: u64,
}

impl Options {
    /// Errors: why an option cannot be read.
    fn parse(text: &str) -> Result<Options, &'static str> {
        let mut options = Options::default();
        for option in text.split('&') {
            match option.split_once('=') {
                Some(("compact", "off")) => options.is_compacted_by_others = true,
                Some(("quota", bytes)) => {
                    let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0);
                    options.quota_bytes =
                        bytes.ok_or("quota is no number of bytes above 0, such as quota=8589934592")?;
                }
                _ => return Err("the only options are compact=off and quota=BYTES"),
            }
        }
        Ok(options)
    }
}

fn parse_user(user: &str) -> Option<User> {
    let (name, password) = user.split_once(':')?;
    Some(User { name: decoded(name)?, password: decoded(password)? })
}

fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn parse_endpoint(text: &str) -> Option<Endpoint> {
    let (host, port) = match text.strip_prefix('[') {
        Some(v6) => v6.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':').unwrap_or(rest)))?,
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok()? };
    let is_name = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '[', ']']);
    (is_name && port != 0).then(|| Endpoint { host: host.to_owned(), port })
}
