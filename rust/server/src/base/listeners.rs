//! Listeners with Kafka's names: `listeners`, `advertised.listeners` and `listener.security.protocol.map`.
//!
//! Each node has every listener, on a port of its own: the first node on the given port, the others on the following
//! ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use super::owners::FIRST_NODE;

/// Name of the setting of listen addresses.
const LISTENERS: &str = "listeners";
/// Name of the setting of advertised addresses.
const ADVERTISED: &str = "advertised.listeners";

/// The security protocol of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encryption nor authentication.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// Authentication without encryption.
    SaslPlaintext,
    /// Authentication within TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// The protocols with Kafka's names.
    pub const NAMES: [(&'static str, SecurityProtocol); 4] = [
        ("PLAINTEXT", SecurityProtocol::Plaintext),
        ("SSL", SecurityProtocol::Ssl),
        ("SASL_PLAINTEXT", SecurityProtocol::SaslPlaintext),
        ("SASL_SSL", SecurityProtocol::SaslSsl),
    ];

    /// Returns the protocol with or without TLS and SASL.
    pub fn of(has_tls: bool, has_sasl: bool) -> SecurityProtocol {
        match (has_sasl, has_tls) {
            (false, false) => SecurityProtocol::Plaintext,
            (false, true) => SecurityProtocol::Ssl,
            (true, false) => SecurityProtocol::SaslPlaintext,
            (true, true) => SecurityProtocol::SaslSsl,
        }
    }

    /// Returns Kafka's name.
    pub fn name(self) -> &'static str {
        SecurityProtocol::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Whether connections use TLS.
    pub fn has_tls(self) -> bool {
        matches!(self, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    /// Whether clients authenticate with SASL.
    pub fn has_sasl(self) -> bool {
        matches!(self, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl)
    }

    /// Returns the protocol with this name, in any case; `None` if there is none.
    pub fn named(name: &str) -> Option<SecurityProtocol> {
        let known = |(known, _): &&(&str, SecurityProtocol)| name.trim().eq_ignore_ascii_case(known);
        SecurityProtocol::NAMES.iter().find(known).map(|(_, protocol)| *protocol)
    }
}

/// A listener of the server as its clients see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listener {
    /// Kafka's name, such as `EXTERNAL`.
    pub name: String,
    /// The security protocol of its connections.
    pub protocol: SecurityProtocol,
    /// The advertised host, the same for all nodes; `None`: the address at which the client reached the server.
    pub host: Option<String>,
    /// The advertised ports, in the order of node ids.
    pub ports: Vec<u16>,
    /// The host that it listens on.
    pub listen_host: String,
    /// The ports that it listens on, in the order of node ids.
    pub listen_ports: Vec<u16>,
}

impl Listener {
    /// Returns the host of every node for a client that reached the server at `reached_ip`.
    pub fn host_for(&self, reached_ip: IpAddr) -> String {
        self.host.clone().unwrap_or_else(|| reached_ip.to_string())
    }

    /// Returns the port of a node; 0 if the node does not exist. The only node may have any id.
    pub fn port_of(&self, node_id: i32) -> u16 {
        of_node(&self.ports, node_id)
    }

    /// Returns the address of a node in Kafka's form: `NAME://HOST:PORT`.
    pub fn uri_of(&self, node_id: i32, reached_ip: IpAddr) -> String {
        uri(&self.name, &self.host_for(reached_ip), self.port_of(node_id))
    }

    /// Returns the address on which a node listens in Kafka's form.
    pub fn listen_uri_of(&self, node_id: i32) -> String {
        uri(&self.name, &self.listen_host, of_node(&self.listen_ports, node_id))
    }
}

fn of_node(ports: &[u16], node_id: i32) -> u16 {
    if let [only] = ports {
        return *only;
    }
    let at = usize::try_from(node_id - FIRST_NODE).ok();
    at.and_then(|at| ports.get(at)).copied().unwrap_or(0)
}

/// Returns an address in Kafka's form.
pub fn uri(name: &str, host: &str, port: u16) -> String {
    if host.contains(':') { format!("{name}://[{host}]:{port}") } else { format!("{name}://{host}:{port}") }
}

/// A listener as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name.
    pub name: String,
    /// The security protocol.
    pub protocol: SecurityProtocol,
    /// The listen host.
    pub host: String,
    /// The port of the first node; 0: free ports.
    pub port: u16,
    /// The advertised host (`None`: the address at which clients reach the server) and port of the first node (0: the
    /// ports that the nodes listen on); `None`: the listener's own.
    pub advertised: Option<(Option<String>, u16)>,
}

/// Why listeners were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerError {
    /// A listener is not of the form `NAME://HOST:PORT`.
    Malformed {
        /// The setting.
        setting: &'static str,
        /// The listener given.
        listener: String,
    },
    /// Two listeners have the same name.
    SameName {
        /// The setting.
        setting: &'static str,
        /// The name.
        name: String,
    },
    /// Two listeners have a port in common.
    SamePort {
        /// Both names.
        names: [String; 2],
        /// The first port in common.
        port: u16,
        /// The number of nodes, each with a port for each listener.
        nodes: u32,
    },
    /// The map has no protocol for a listener.
    NoProtocol {
        /// The name.
        name: String,
    },
    /// An entry of the map is not of the form `NAME:PROTOCOL`.
    BadProtocol {
        /// The entry.
        entry: String,
    },
    /// An advertised listener is not a listener.
    NotAListener {
        /// The name.
        name: String,
        /// The names of the listeners.
        known: Vec<String>,
    },
    /// An advertised address stands for all addresses.
    Unreachable {
        /// The advertised listener.
        listener: String,
    },
    /// The combination of settings is wrong: what to do.
    Conflict(String),
}

impl fmt::Display for ListenerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenerError::Malformed { setting, listener } => write!(
                out,
                "`{setting}` has `{listener}`, expected NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092; commas \
                 separate several"
            ),
            ListenerError::SameName { setting, name } => {
                write!(out, "`{setting}` has two listeners with the name {name}: give each another name")
            }
            ListenerError::SamePort { names: [first, second], port, nodes: 1 } => {
                write!(out, "`{LISTENERS}` has port {port} twice, in {first} and {second}: give each another port")
            }
            ListenerError::SamePort { names: [first, second], port, nodes } => write!(
                out,
                "`{LISTENERS}`: {first} and {second} have port {port} in common, because each of the {nodes} nodes has \
                 its own port: put their ports at least {nodes} apart"
            ),
            ListenerError::NoProtocol { name } => write!(
                out,
                "`{PROTOCOL_MAP}` has no protocol for the listener {name}: add `{name}:PLAINTEXT`, or SSL, \
                 SASL_PLAINTEXT, SASL_SSL"
            ),
            ListenerError::BadProtocol { entry } => write!(
                out,
                "`{PROTOCOL_MAP}` has `{entry}`, expected NAME:PROTOCOL, each name once, with PLAINTEXT, SSL, \
                 SASL_PLAINTEXT or SASL_SSL"
            ),
            ListenerError::NotAListener { name, known } => write!(
                out,
                "`{ADVERTISED}` has {name}, which is not a listener: give one of {}, or add it to `{LISTENERS}`",
                known.join(", ")
            ),
            ListenerError::Unreachable { listener } => write!(
                out,
                "`{ADVERTISED}` has `{listener}`, an address that clients cannot connect to: give a host name or address"
            ),
            ListenerError::Conflict(reason) => write!(out, "{reason}"),
        }
    }
}

impl std::error::Error for ListenerError {}

/// Name of the setting of protocols.
const PROTOCOL_MAP: &str = "listener.security.protocol.map";

/// The text of the settings.
#[derive(Clone, Copy, Debug)]
pub struct ListenerTexts<'t> {
    /// `listeners`; empty: not set.
    pub listeners: &'t str,
    /// `advertised.listeners`; empty: not set.
    pub advertised: &'t str,
    /// `listener.security.protocol.map`.
    pub protocols: &'t str,
}

/// An address of a setting.
struct Address<'t> {
    text: &'t str,
    name: String,
    host: &'t str,
    port: u16,
}

fn address<'t>(setting: &'static str, text: &'t str) -> Result<Address<'t>, ListenerError> {
    let malformed = || ListenerError::Malformed { setting, listener: text.to_owned() };
    let (name, rest) = text.split_once("://").ok_or_else(malformed)?;
    let (host, port) = rest.rsplit_once(':').ok_or_else(malformed)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let host_is_fine = match bare {
        Some(host) => host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
        None => host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._%".contains(&byte)),
    };
    if !is_name || !host_is_fine {
        return Err(malformed());
    }
    let port = port.parse().map_err(|_| malformed())?;
    // Kafka compares names without case, and shows them in upper case.
    Ok(Address { text, name: name.to_ascii_uppercase(), host: bare.unwrap_or(host), port })
}

/// Returns the addresses of a list, each with another name.
fn addresses<'t>(setting: &'static str, text: &'t str) -> Result<Vec<Address<'t>>, ListenerError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let found: Vec<Address<'t>> = parts.map(|part| address(setting, part)).collect::<Result<_, _>>()?;
    let mut names = BTreeSet::new();
    match found.iter().find(|address| !names.insert(&address.name)) {
        Some(Address { name, .. }) => Err(ListenerError::SameName { setting, name: name.clone() }),
        None => Ok(found),
    }
}

fn protocols(text: &str) -> Result<BTreeMap<String, SecurityProtocol>, ListenerError> {
    let mut found = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let bad = || ListenerError::BadProtocol { entry: entry.to_owned() };
        let (name, protocol) = entry.split_once(':').ok_or_else(bad)?;
        let protocol = SecurityProtocol::named(protocol).ok_or_else(bad)?;
        if found.insert(name.trim().to_ascii_uppercase(), protocol).is_some() {
            return Err(bad());
        }
    }
    Ok(found)
}

/// Refuses listeners that have a port in common. As in Kafka two may, if one is at an IPv4 address and the other at an
/// IPv6 address.
fn check_ports(endpoints: &[Endpoint], nodes: u32) -> Result<(), ListenerError> {
    let family = |endpoint: &Endpoint| endpoint.host.parse::<IpAddr>().ok().map(|ip| ip.is_ipv4());
    for (at, second) in endpoints.iter().enumerate() {
        for first in &endpoints[..at] {
            let apart = u32::from(first.port.abs_diff(second.port));
            let are_of_both = matches!((family(first), family(second)), (Some(one), Some(other)) if one != other);
            if first.port != 0 && second.port != 0 && apart < nodes && !are_of_both {
                let (names, port) = ([first.name.clone(), second.name.clone()], first.port.max(second.port));
                return Err(ListenerError::SamePort { names, port, nodes });
            }
        }
    }
    Ok(())
}

/// Returns the listeners of `listeners`, on this number of nodes; none if it is not set.
pub fn endpoints(texts: ListenerTexts<'_>, nodes: u32) -> Result<Vec<Endpoint>, ListenerError> {
    let protocols = protocols(texts.protocols)?;
    let endpoint = |Address { name, host, port, .. }: Address<'_>| {
        let Some(protocol) = protocols.get(&name).copied() else { return Err(ListenerError::NoProtocol { name }) };
        let host = if host.is_empty() { "0.0.0.0" } else { host }.to_owned();
        Ok(Endpoint { name, protocol, host, port, advertised: None })
    };
    let found: Vec<Endpoint> =
        addresses(LISTENERS, texts.listeners)?.into_iter().map(endpoint).collect::<Result<_, _>>()?;
    check_ports(&found, nodes)?;
    Ok(found)
}

/// Sets the addresses of `advertised.listeners`.
pub fn advertise(endpoints: &mut [Endpoint], texts: ListenerTexts<'_>) -> Result<(), ListenerError> {
    for Address { text, name, host, port } in addresses(ADVERTISED, texts.advertised)? {
        if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
            return Err(ListenerError::Unreachable { listener: text.to_owned() });
        }
        let Some(endpoint) = endpoints.iter_mut().find(|endpoint| endpoint.name == name) else {
            let known = endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
            return Err(ListenerError::NotAListener { name, known });
        };
        endpoint.advertised = Some(((!host.is_empty()).then(|| host.to_owned()), port));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "INTERNAL:PLAINTEXT,external:SASL_SSL,PLAINTEXT:PLAINTEXT";

    fn texts<'t>(listeners: &'t str, advertised: &'t str) -> ListenerTexts<'t> {
        ListenerTexts { listeners, advertised, protocols: MAP }
    }

    fn of(listeners: &str, advertised: &str, nodes: u32) -> Result<Vec<Endpoint>, String> {
        let texts = texts(listeners, advertised);
        let mut found = endpoints(texts, nodes).map_err(|error| error.to_string())?;
        advertise(&mut found, texts).map_err(|error| error.to_string())?;
        Ok(found)
    }

    #[test]
    fn every_listener_has_its_name_protocol_and_addresses() {
        let found = of("internal://127.0.0.1:9092, EXTERNAL://:9093", "EXTERNAL://kafka.test:19093", 1).unwrap();
        let endpoint = |name: &str, protocol, host: &str, port, advertised| Endpoint {
            name: name.to_owned(),
            protocol,
            host: host.to_owned(),
            port,
            advertised,
        };
        let external = Some((Some("kafka.test".to_owned()), 19_093));
        assert_eq!(
            found,
            [
                endpoint("INTERNAL", SecurityProtocol::Plaintext, "127.0.0.1", 9092, None),
                endpoint("EXTERNAL", SecurityProtocol::SaslSsl, "0.0.0.0", 9093, external),
            ]
        );
        assert_eq!(of("", "", 1), Ok(Vec::new()));
    }

    #[test]
    fn what_is_not_a_listener_is_refused_as_it_was_written() {
        for bad in [
            "9092",
            "127.0.0.1:9092",
            "PLAINTEXT://127.0.0.1",
            "PLAINTEXT://h:x",
            "PLAINTEXT://h:70000",
            "://h:1",
            "A B://h:1",
            "PLAINTEXT://a b:1",
            "PLAINTEXT://::1:9092",
            "PLAINTEXT://[h]:1",
            "PLAINTEXT://[]:1",
        ] {
            let error = of(bad, "", 1).unwrap_err();
            assert!(error.starts_with(&format!("`listeners` has `{bad}`, expected NAME://HOST:PORT")), "{error}");
            let error = of("PLAINTEXT://h:1", bad, 1).unwrap_err();
            assert!(error.starts_with("`advertised.listeners` has `"), "{error}");
        }
    }

    #[test]
    fn names_and_ports_are_different() {
        let error = of("INTERNAL://h:1,internal://h:2", "", 1).unwrap_err();
        assert_eq!(error, "`listeners` has two listeners with the name INTERNAL: give each another name");
        let error = of("INTERNAL://h:1,EXTERNAL://g:1", "", 1).unwrap_err();
        assert_eq!(error, "`listeners` has port 1 twice, in INTERNAL and EXTERNAL: give each another port");
        let error = of("INTERNAL://h:9092,EXTERNAL://h:9094", "", 3).unwrap_err();
        assert!(error.contains("port 9094 in common") && error.ends_with("at least 3 apart"), "{error}");
        assert!(of("INTERNAL://h:9092,EXTERNAL://h:9095", "", 3).is_ok());
        assert!(of("INTERNAL://h:0,EXTERNAL://h:0", "", 3).is_ok());
        assert!(of("INTERNAL://127.0.0.1:1,EXTERNAL://[::1]:1", "", 1).is_ok());
        assert!(of("INTERNAL://127.0.0.1:1,EXTERNAL://127.0.0.2:1", "", 1).is_err());
    }

    #[test]
    fn every_listener_needs_a_protocol() {
        let error = of("OTHER://h:1", "", 1).unwrap_err();
        assert!(
            error.starts_with("`listener.security.protocol.map` has no protocol for the listener OTHER"),
            "{error}"
        );
        for bad in ["A", "A:TLS", "A:SSL,a:SSL", "A:"] {
            let texts = ListenerTexts { protocols: bad, ..texts("", "") };
            assert!(matches!(endpoints(texts, 1), Err(ListenerError::BadProtocol { .. })), "{bad}");
        }
    }

    #[test]
    fn only_listeners_are_advertised_and_only_where_clients_can_connect() {
        let error = of("INTERNAL://h:1", "EXTERNAL://h:1", 1).unwrap_err();
        assert!(error.starts_with("`advertised.listeners` has EXTERNAL, which is not a listener"), "{error}");
        for all in ["0.0.0.0", "[::]"] {
            let error = of("INTERNAL://h:1", &format!("INTERNAL://{all}:1"), 1).unwrap_err();
            assert!(error.ends_with("give a host name or address"), "{error}");
        }
        // Kafka allows two listeners to be advertised at one address, as behind a proxy.
        assert!(of("INTERNAL://h:1,EXTERNAL://h:2", "INTERNAL://p:1,EXTERNAL://p:1", 1).is_ok());
    }
}
